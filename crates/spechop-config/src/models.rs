//! The models of a configuration: who plans, reads and guesses, and where each of them runs.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

use spechop_llm::{ChatEndpoint, LocalModelOptions, PromptStyle};
use spechop_ports::physical_cores;

use super::keys::Keys;
use super::mistake::Source;
use super::read::{must_be_pulled, must_exist};
use super::{Engine, Model, Reader, Speculator, SpeculatorKind, Style, Target, remembering};
use crate::Env;

/// The model that plans in the default configuration: the adapter, merged into the model it was trained for.
const PLANNER: &str = "spechop-planner-merged";
const PLANNER_BASE: &str = "smollm2-135m-instruct";
const PLANNER_ADAPTER: &str = "spechop-planner";
/// The model that reads in the default configuration.
const READER: &str = "spechop-reader";
/// The cores that one generation of a large model is worth by default, if there are enough for two.
const LARGE_MODEL_CORES: u32 = 4;
/// Workers of a large model by default, if there are so many cores. Two texts on a thread each take less time than
/// one after the other on two threads, and a text that is alone gets the cores of both.
const LARGE_MODEL_WORKERS_MIN: u32 = 2;
/// More workers than this for each core are a mistake. With more than one they only slow each other down,
/// but a configuration may be written for a larger machine.
const WORKERS_A_CORE_MAX: u32 = 8;
/// More workers than this are not made by themselves: each has memory for a prompt from the beginning on, 22 MiB with
/// the default planner, and by default no more questions are open at once (`server.questions_max`).
const WORKERS_AUTO_MAX: u32 = 32;
/// More sequences than this for each core are a mistake: each keeps memory for a whole prompt, and those
/// that have no worker stand still.
const SEQUENCES_A_CORE_MAX: u32 = 16;
/// The model of a section that names no other and speaks in conversations.
const GENERATOR: &str = "qwen2.5-coder-1.5b-instruct";

/// Who reads. What cannot read must name somebody else.
pub(super) fn reader(keys: &mut Keys<'_>, generator: &Model, data: &Path, env: &Env) -> Reader {
    let can_read = generator.can_read();
    let kind = keys.text("reader.kind");
    match kind.as_deref() {
        Some("generator") if !can_read => keys.mistake(
            "reader.kind",
            "a generator of style \"steps\" cannot read: say \"spans\", \"local\" or \"openai\"",
        ),
        Some("spans") => {}
        None if !can_read => {}
        _ => {
            return match model(keys, "reader", data, env) {
                Some(model) => Reader::Model(model),
                None => Reader::Generator,
            };
        }
    }
    spans(keys, "reader", data, physical_cores())
}

/// The small reader of a section, on so many cores if the section does not say how many threads it has.
fn spans(keys: &mut Keys<'_>, section: &str, data: &Path, cores: NonZeroUsize) -> Reader {
    let key = |name: &str| format!("{section}.{name}");
    let dir = small_reader(keys, section, data);
    // The other keys of the section are of no use, but they may be wrong.
    local(keys, section, data, Style::Chat(PromptStyle::default()));
    must_be_pulled(keys, &key("dir"), &dir, READER);
    Reader::Spans {
        dir,
        threads: keys.count_if(&key("threads")).unwrap_or(cores),
    }
}

/// Where the small reader of a section is.
fn small_reader(keys: &mut Keys<'_>, section: &str, data: &Path) -> PathBuf {
    let named = keys.path(&format!("{section}.dir"));
    named.unwrap_or_else(|| data.join("models").join(READER))
}

/// Who reads for a guess. If a language model reads for the target, our small reader is many times
/// faster, so it guesses if it is there and nobody else is named.
fn guesser(
    keys: &mut Keys<'_>,
    (generator, reader): (&Model, &Reader),
    data: &Path,
    env: &Env,
) -> Reader {
    const SECTION: &str = "speculator.model";
    let small_is_there = small_reader(keys, SECTION, data).exists();
    let small = match keys.text("speculator.model.kind").as_deref() {
        Some(kind) => kind == "spans",
        None => small_is_there && !matches!(reader, Reader::Spans { .. }),
    };
    if small {
        let cores = match reader.local(generator) {
            Some(model) => left_beside(model.threads_alone(), physical_cores()),
            None => physical_cores(),
        };
        return spans(keys, SECTION, data, cores);
    }
    match model(keys, SECTION, data, env) {
        Some(model) => Reader::Model(model),
        None => Reader::Generator,
    }
}

/// The cores that a reading leaves idle, or one. A guess beside it starts only if all of its threads find one.
fn left_beside(threads: u32, cores: NonZeroUsize) -> NonZeroUsize {
    let left = cores.get().saturating_sub(threads as usize);
    NonZeroUsize::new(left).unwrap_or(NonZeroUsize::MIN)
}

/// The language model of a section; `None` where it has none of its own.
pub(super) fn model(keys: &mut Keys<'_>, section: &str, data: &Path, env: &Env) -> Option<Model> {
    #[derive(Clone, Copy)]
    enum Kind {
        NoOther,
        Local,
        OpenAi,
    }
    let key = |name: &str| format!("{section}.{name}");
    let kinds = [
        ("local", Kind::Local),
        ("openai", Kind::OpenAi),
        ("none", Kind::NoOther),
        ("generator", Kind::NoOther),
    ];
    // The generator itself has only the first two, the others one of the last two.
    let kinds = match section {
        "generator" => &kinds[..2],
        "fallback" => &kinds[..3],
        _ => &[kinds[0], kinds[1], kinds[3]],
    };
    let kind = keys.one_of(&key("kind"), kinds).unwrap_or(Kind::NoOther);
    // Only what plans can speak in lines.
    let plans = matches!(section, "generator" | "fallback");
    let chat = [
        ("tagged", Style::Chat(PromptStyle::Tagged)),
        ("corag", Style::Chat(PromptStyle::Corag)),
    ];
    let styles = [chat[0], chat[1], ("steps", Style::Steps)];
    let written = keys.one_of(&key("style"), if plans { &styles } else { &chat });
    let style_if = |names_file: bool| {
        written.unwrap_or(match (section, kind) {
            ("generator", Kind::Local) if !names_file => Style::Steps,
            _ => Style::Chat(PromptStyle::default()),
        })
    };
    let style = style_if(keys.path(&key("file")).is_some());
    // Every key is read whatever the kind, so that a variable can switch between two that the file
    // describes.
    let local = local(keys, section, data, style);
    let base_url = keys.text(&key("base_url"));
    let name = keys.text(&key("model"));
    let variable = keys.text(&key("api_key_env"));
    let reasoning_effort = keys.text(&key("reasoning_effort"));
    let opens_thoughts = keys.switch(&key("opens_thoughts"));
    let predicted_output = plans && keys.switch(&key("predicted_output"));
    let requests_max = keys.count(&key("requests_max"));
    let silence = keys.millis(&key("silence_ms_max"));
    let total = keys.millis(&key("total_ms_max"));
    let engine = match kind {
        Kind::NoOther => return None,
        Kind::Local => {
            let file = &local.model_path;
            // Pulling makes no file that lies elsewhere. It makes the one that is taken if none is named.
            let usual = usual_model(style_if(false), local.adapter.is_some());
            must_be_pulled(keys, &key("file"), file, &name_of(file, data, usual));
            if let Some(adapter) = &local.adapter {
                must_be_pulled(keys, &key("adapter"), adapter, PLANNER_ADAPTER);
            }
            Engine::Local(local)
        }
        Kind::OpenAi => {
            if style == Style::Steps {
                let problem =
                    "an endpoint is spoken to in conversations: say \"tagged\" or \"corag\"";
                keys.mistake(&key("style"), problem);
            }
            for (name, value) in [("base_url", &base_url), ("model", &name)] {
                if value.is_none() {
                    keys.mistake(&key(name), "kind = \"openai\" needs it");
                }
            }
            let has_url = base_url.is_some();
            let mut endpoint =
                ChatEndpoint::new(base_url.unwrap_or_default(), name.unwrap_or_default());
            endpoint.key = variable.and_then(|name| api_key(keys, &key("api_key_env"), &name, env));
            endpoint.reasoning_effort = reasoning_effort;
            endpoint.opens_thoughts = opens_thoughts;
            endpoint.predicted_output = predicted_output;
            endpoint.requests_max = requests_max;
            (endpoint.limits.silence, endpoint.limits.total) = (silence, total);
            if has_url && let Err(wrong) = endpoint.check_url() {
                keys.mistake(&key("base_url"), wrong.to_string());
            }
            if let Err(wrong) = endpoint.check_key() {
                keys.mistake(&key("api_key_env"), wrong.to_string());
            }
            Engine::OpenAi(endpoint)
        }
    };
    Some(Model { engine, style })
}

pub(super) fn local(
    keys: &mut Keys<'_>,
    section: &str,
    data: &Path,
    style: Style,
) -> LocalModelOptions {
    let key = |name: &str| format!("{section}.{name}");
    let models = data.join("models");
    let named = keys.path(&key("file"));
    let adapter = keys.path(&key("adapter"));
    let usual = usual_model(style, adapter.is_some());
    let (threads, context_tokens) = match style {
        Style::Chat(_) => (None, 4096),
        // A question and a dozen hops: its lines are short. So is each operation of so small a model: two
        // threads spend three times as long, waiting for each other (measured on two cores).
        Style::Steps => (Some(NonZeroU32::MIN), 1024),
    };
    let named_threads = keys.small_if(&key("threads")).and_then(NonZeroU32::new);
    let threads = named_threads.or(threads);
    let cores = u32::try_from(physical_cores().get()).unwrap_or(u32::MAX);
    let workers = workers(keys, &key("workers"), threads, cores);
    LocalModelOptions {
        adapter,
        workers,
        threads,
        context_tokens_per_sequence: keys
            .small_if(&key("context_tokens"))
            .unwrap_or(context_tokens),
        sequences: sequences(keys, &key("sequences"), workers, cores),
        // Lines share no instructions: every living branch has a prompt of its own to keep.
        kept_prompts: match style {
            Style::Chat(_) => 3,
            Style::Steps => 8,
        },
        drafts: keys.flag(&key("draft_tokens")),
        ..LocalModelOptions::new(named.unwrap_or_else(|| models.join(usual).join("model.gguf")))
    }
}

/// The model of a section that names no file.
fn usual_model(style: Style, has_adapter: bool) -> &'static str {
    match style {
        Style::Chat(_) => GENERATOR,
        // An adapter of one's own is for what ours is for, and not for what ours has become part of.
        Style::Steps if has_adapter => PLANNER_BASE,
        Style::Steps => PLANNER,
    }
}

/// How many generations move at once. By default, as many as there are cores for their threads. If the
/// number of threads is left to the machine, too, the model is large, and a generation is worth
/// [`LARGE_MODEL_CORES`].
fn workers(keys: &mut Keys<'_>, key: &str, threads: Option<NonZeroU32>, cores: u32) -> NonZeroU32 {
    let auto = match threads {
        Some(each) => cores / each,
        None => (cores / LARGE_MODEL_CORES).max(cores.min(LARGE_MODEL_WORKERS_MIN)),
    };
    let auto = auto.min(WORKERS_AUTO_MAX);
    let auto = NonZeroU32::new(auto).unwrap_or(NonZeroU32::MIN);
    if keys.is(key, "auto") {
        return auto;
    }
    let most = cores.saturating_mul(WORKERS_A_CORE_MAX);
    let Some(named) = keys.integer(key) else {
        return auto;
    };
    match u32::try_from(named).ok().and_then(NonZeroU32::new) {
        Some(workers) if workers.get() <= most => workers,
        _ => {
            let problem = format!(
                "{named} workers on {cores} cores: each needs cores of its own, and memory. Say \
                 \"auto\" (here {auto}), or at most {most}"
            );
            keys.mistake(key, problem);
            auto
        }
    }
}

/// How many generations may have begun. By default, one for each worker, and a few that stand ready beside a
/// single one.
fn sequences(keys: &mut Keys<'_>, key: &str, workers: NonZeroU32, cores: u32) -> u32 {
    let usual = workers.get().max(4);
    let most = cores.saturating_mul(SEQUENCES_A_CORE_MAX).max(usual);
    match keys.small_if(key) {
        Some(named) if named > most => {
            let problem = format!(
                "{named} sequences on {cores} cores: each takes memory for a whole prompt, and they \
                 share the cores. Say at most {most}, or leave it out (here {usual})"
            );
            keys.mistake(key, problem);
            usual
        }
        named => named.unwrap_or(usual),
    }
}

/// The model of the data folder that a file belongs to, or else the `usual` one.
fn name_of<'a>(file: &'a Path, data: &Path, usual: &'a str) -> Cow<'a, str> {
    file.strip_prefix(data.join("models"))
        .ok()
        .and_then(|inside| inside.iter().next())
        .map_or(usual.into(), |name| name.to_string_lossy())
}

/// Whether this can be the name of a variable that holds a key.
pub(super) fn is_variable(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.chars().all(is_name)
}

/// The key itself never stands in the configuration; a key that was pasted there is not repeated.
pub(super) fn api_key(
    keys: &mut Keys<'_>,
    key: &str,
    variable: &str,
    env: &Env,
) -> Option<secrecy::SecretString> {
    if !is_variable(variable) {
        keys.mistake(
            key,
            "expected the name of an environment variable (capital letters, digits, _) that holds \
             the key, not the key itself",
        );
        return None;
    }
    let secret = env.secret(variable);
    if secret.is_none() {
        keys.mistake(
            key,
            format!("the environment variable {variable} is not set"),
        );
    }
    secret
}

pub(super) fn speculator(
    keys: &mut Keys<'_>,
    (generator, reader): (&Model, &Reader),
    target: &Target,
    index_dir: &Path,
    data: &Path,
    env: &Env,
) -> Speculator {
    let kinds = SpeculatorKind::ALL.map(|kind| (kind.as_str(), kind));
    let kind = keys.one_of("speculator.kind", &kinds);
    let hot_dir = keys
        .path("speculator.hot_dir")
        .unwrap_or_else(|| index_dir.join("hot"));
    let named = keys.source("speculator.hot_dir") != Source::Default;
    let hot = super::hot::hot_traffic(keys, &env.state_dir());
    let comes = hot.every.is_some();
    if !comes && (named || kind == Some(SpeculatorKind::Hot)) {
        let rebuild = format!(
            "spechop index hot {} --fraction 0.25 --in-degree FILE",
            index_dir.display()
        );
        must_exist(keys, "speculator.hot_dir", &hot_dir, rebuild);
    }
    let hot_dir = (comes || hot_dir.exists()).then_some(hot_dir);
    let model = guesser(keys, (generator, reader), data, env);
    let knows_things = matches!(model, Reader::Model(_)) || generator.style != Style::Steps;
    // Then a guess over the whole index is there long before the observation.
    let reads_faster = matches!(
        (&model, reader),
        (Reader::Spans { .. }, Reader::Generator | Reader::Model(_))
    );
    if kind == Some(SpeculatorKind::Llm) && !knows_things {
        keys.mistake(
            "speculator.kind",
            "a generator of style \"steps\" guesses nothing from memory: describe another model in \
             [speculator.model]",
        );
    }
    let fallback = match hot_dir {
        // The whole index, if the target is elsewhere: it is near.
        _ if target.is_elsewhere() && index_dir.exists() => SpeculatorKind::Index,
        _ if reads_faster && !target.is_elsewhere() => SpeculatorKind::Index,
        Some(_) => SpeculatorKind::Hot,
        None if knows_things => SpeculatorKind::Llm,
        None => SpeculatorKind::None,
    };
    let default = kind.unwrap_or(fallback);
    let can = |member| match member {
        SpeculatorKind::Llm => knows_things,
        SpeculatorKind::Hot => hot_dir.is_some(),
        SpeculatorKind::Index | SpeculatorKind::Memory => true,
        SpeculatorKind::None | SpeculatorKind::Cascade => false,
    };
    let cascade = remembering::cascade(keys, can);
    let shared = super::qdrant::shared_memory(keys, env, target);
    Speculator {
        memory: remembering::memory(keys, default, &cascade, shared, &env.state_dir()),
        cascade,
        default,
        hot_dir,
        hot_passages: keys.count("speculator.passages"),
        hot,
        model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_fit_the_machine_or_are_refused_with_the_numbers() {
        // What is written, threads, cores: workers, or what is wrong.
        for (written, threads, cores, expected) in [
            ("", 1, 1, Ok(1)),
            ("", 1, 2, Ok(2)),
            ("workers = \"auto\"", 1, 6, Ok(6)),
            ("", 1, 128, Ok(32)),
            ("", 4, 6, Ok(1)),
            ("", 0, 1, Ok(1)),
            ("", 0, 2, Ok(2)),
            ("", 0, 8, Ok(2)),
            ("", 0, 16, Ok(4)),
            ("workers = 3", 1, 2, Ok(3)),
            ("workers = 16", 0, 2, Ok(16)),
            (
                "workers = 100",
                1,
                2,
                Err(
                    "100 workers on 2 cores: each needs cores of its own, and memory. Say \"auto\" (here 2), or at most 16",
                ),
            ),
            (
                "workers = 0",
                1,
                2,
                Err("expected \"auto\" or a whole number, at least 1, found 0"),
            ),
            (
                "workers = \"many\"",
                1,
                2,
                Err("expected \"auto\" or a whole number, at least 1, found \"many\""),
            ),
        ] {
            let file = format!("[generator]\n{written}");
            let threads = NonZeroU32::new(threads);
            let read = Keys::meaning(&file, &[], |keys, _| {
                workers(keys, "generator.workers", threads, cores).get()
            });
            match expected {
                Ok(expected) => assert_eq!(read, Ok(expected)),
                Err(expected) => assert!(read.unwrap_err()[0].ends_with(expected)),
            }
        }
    }

    #[test]
    fn sequences_fit_the_machine_or_are_refused_with_the_numbers() {
        // What is written, workers, cores: sequences, or what is wrong.
        for (written, workers, cores, expected) in [
            ("", 1, 1, Ok(4)),
            ("", 6, 6, Ok(6)),
            ("sequences = 32", 2, 2, Ok(32)),
            ("sequences = 100", 8, 8, Ok(100)),
            (
                "sequences = 100",
                2,
                2,
                Err(
                    "100 sequences on 2 cores: each takes memory for a whole prompt, and they share the cores. Say at most 32, or leave it out (here 4)",
                ),
            ),
        ] {
            let file = format!("[generator]\n{written}");
            let workers = NonZeroU32::new(workers).unwrap();
            let read = Keys::meaning(&file, &[], |keys, _| {
                sequences(keys, "generator.sequences", workers, cores)
            });
            match expected {
                Ok(expected) => assert_eq!(read, Ok(expected)),
                Err(expected) => assert!(read.unwrap_err()[0].ends_with(expected)),
            }
        }
    }
}
