//! Configurations as tables: what was written, and what it means or which mistakes are in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use secrecy::ExposeSecret;
use spechop_llm::PromptStyle;
use spechop_ports::physical_cores;
use spechop_sched::Grade;
use spechop_types::Tenant;
use spechop_types::VerifierMode;

use super::*;

mod callers;
mod drafting;
mod places;
mod sections;

const EXAMPLE: &str = include_str!("../../../deploy/spechop.example.toml");
const DEMO: &str = include_str!("../../../deploy/demo.toml");

/// A home whose data folder holds everything that the defaults name, empty.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join(".local/share/spechop");
        for dir in [
            "models/e5-small-v2-int8",
            "models/spechop-reader",
            "indexes/default",
        ] {
            fs::create_dir_all(data.join(dir)).unwrap();
        }
        for file in [
            "models/onnxruntime/libonnxruntime.so",
            "models/qwen2.5-coder-1.5b-instruct/model.gguf",
            "models/smollm2-135m-instruct/model.gguf",
            "models/spechop-planner-merged/model.gguf",
        ] {
            fs::create_dir_all(data.join(file).parent().unwrap()).unwrap();
            fs::write(data.join(file), "").unwrap();
        }
        Self(home)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(".local/share/spechop").join(path)
    }

    fn read(
        &self,
        file: &str,
        variables: &[(&str, &str)],
        flags: &[(&str, &str)],
    ) -> Result<Config, InvalidConfig> {
        let home = [("HOME", self.0.path().to_str().unwrap())];
        let env: Env = home.iter().chain(variables).copied().collect();
        let flags = flags
            .iter()
            .map(|(key, value)| (key.to_string(), "--set".to_owned(), value.to_string()));
        Config::read(
            Written {
                file: Some(("c.toml".into(), file.to_owned())),
                flags: flags.collect(),
            },
            &env,
        )
    }

    fn mistakes(&self, file: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let InvalidConfig(mistakes) = self.read(file, variables, &[]).expect_err(file);
        mistakes.iter().map(ToString::to_string).collect()
    }
}

#[test]
fn an_empty_configuration_has_every_default() {
    let home = Home::new();
    let config = home.read("", &[], &[]).unwrap();
    assert_eq!(config.server.listen, "127.0.0.1:50051".parse().unwrap());
    assert_eq!(config.server.unread, Duration::from_secs(60));
    assert_eq!(config.questions.usual.k.unwrap().to_string(), "3");
    assert_eq!(
        config.encoder.dir(),
        Some(&*home.path("models/e5-small-v2-int8"))
    );
    assert_eq!(config.index_dir, home.path("indexes/default"));
    assert_eq!(config.generator.style, Style::Steps);
    let Engine::Local(planner) = &config.generator.engine else {
        panic!("another engine")
    };
    assert_eq!(
        planner.model_path,
        home.path("models/spechop-planner-merged/model.gguf")
    );
    assert_eq!(planner.adapter, None);
    let Reader::Spans { dir, .. } = &config.reader else {
        panic!("another reader")
    };
    assert_eq!(*dir, home.path("models/spechop-reader"));
    // The planner knows nothing by heart, and there is no hot subset.
    assert_eq!(config.speculator.default, SpeculatorKind::None);
    assert!(matches!(config.speculator.model, Reader::Generator));
    assert_eq!(config.injected_latency, None);
    // Guesses are weighed, and nothing is drafted.
    let usual = &config.questions.usual;
    assert_eq!((usual.chance_min, usual.drafts), (None, Some(0)));
}

#[test]
fn what_the_server_chooses_can_be_fixed() {
    let home = Home::new();
    let free = |file: &str| home.read(file, &[], &[]).unwrap().questions.free();
    let auto =
        "[question]\nk = \"auto\"\nplan_ahead = \"auto\"\nchance_min = \"auto\"\ndrafts = \"auto\"";
    let free_of_all = free(auto);
    assert!(free_of_all.k && free_of_all.plan_ahead && free_of_all.gate && free_of_all.drafts);
    // It chooses within the bound.
    home.read("[question]\nk = \"auto\"\nk_max = 2", &[], &[])
        .unwrap();
    let fixed = "[question]\nk = 4\nplan_ahead = false\nchance_min = 0.0\ndrafts = 2";
    assert_eq!(free(fixed), Free::default());
}

#[test]
fn the_longest_request_fits_into_a_connection() {
    let home = Home::new();
    for (bytes, held) in [(16 << 10, 768 << 10), (4 << 20, (4 << 20) + (256 << 10))] {
        let file = format!("[server]\nmessage_bytes_max = {bytes}");
        let transport = home.read(&file, &[], &[]).unwrap().server.transport;
        assert_eq!(transport.message_bytes_max, bytes);
        assert_eq!(transport.unfinished_bytes_max, held);
    }
}

#[test]
fn cores_are_those_of_the_machine_unless_a_number_says_so() {
    let home = Home::new();
    for (written, cores) in [
        ("\"auto\"", None),
        ("0.5", Some(500)),
        ("2", Some(2000)),
        ("0.01", Some(10)),
        ("\"1.5\"", Some(1500)),
    ] {
        let file = format!("[scheduler]\ncores = {written}");
        let read = home.read(&file, &[], &[]).unwrap().scheduler.cores;
        assert_eq!(read.map(|cores| cores.0), cores, "{written}");
    }
    assert!(home.read("", &[], &[]).unwrap().scheduler.cores.is_none());
    for wrong in ["0", "-1", "nan", "\"all\"", "100000", "[2]"] {
        let file = format!("[scheduler]\ncores = {wrong}");
        let mistakes = home.mistakes(&file, &[]).join("\n");
        let says = mistakes.contains("scheduler.cores") && mistakes.contains("from 0.01 to 65536");
        assert!(says, "{wrong}: {mistakes}");
    }
}

#[test]
fn a_policy_is_checked_at_the_start_with_every_mistake() {
    let home = Home::new();
    let path = home.path("policy.toml");
    let config = format!("[scheduler]\npolicy = {:?}", path.display().to_string());
    let missing = home.mistakes(&config, &[]);
    assert!(missing[0].contains("scheduler.policy"), "{missing:?}");
    let wrong = "retriever = { grade = \"full\", idempotence = \"effectful\" }\nreader = { grade = \"some\" }";
    fs::write(&path, wrong).unwrap();
    let mistakes = home.mistakes(&config, &[]).join("\n");
    assert!(
        mistakes.contains("retriever") && mistakes.contains("reader"),
        "{mistakes}"
    );
    let right = "retriever = { grade = \"warmup\", idempotence = \"safe\", cost = 2.0 }";
    fs::write(&path, right).unwrap();
    let eligibility = home.read(&config, &[], &[]).unwrap().scheduler.eligibility;
    assert_eq!(eligibility.of("retriever").grade, Grade::Warmup);
    // What is not named may not be called ahead.
    assert_eq!(eligibility.of("planner").grade, Grade::Never);
}

/// A run of the small reader starts only if each of its threads finds an idle core.
#[test]
fn a_guess_finds_cores_beside_a_model_that_reads() {
    let home = Home::new();
    let cores = physical_cores().get();
    let beside_one = cores.saturating_sub(1).max(1);
    let local = "kind = \"local\"\nthreads = 1\nworkers = 2\n";
    for (toml, expected) in [
        (format!("[reader]\n{local}"), beside_one),
        (
            format!("[generator]\n{local}style = \"tagged\""),
            beside_one,
        ),
        (
            format!("[reader]\n{local}[speculator.model]\nthreads = 3"),
            3,
        ),
        // It reads all cores full: there is nothing to be had.
        (format!("[reader]\nkind = \"local\"\nthreads = {cores}"), 1),
        // Elsewhere it takes none.
        (
            "[reader]\nkind = \"openai\"\nbase_url = \"http://h/v1\"\nmodel = \"m\"".to_owned(),
            cores,
        ),
        ("[speculator.model]\nkind = \"spans\"".to_owned(), cores),
    ] {
        let config = home.read(&toml, &[], &[]).unwrap();
        let Reader::Spans { threads, .. } = config.speculator.model else {
            unreachable!("{toml}");
        };
        assert_eq!(threads.get(), expected, "{toml}");
    }
}

/// What goes with what: who can plan, read and guess.
#[test]
fn the_style_decides_who_reads_and_guesses() {
    let home = Home::new();
    let file = home.path("models/qwen2.5-coder-1.5b-instruct/model.gguf");
    let openai = "[generator]\nkind = \"openai\"\nbase_url = \"http://h/v1\"\nmodel = \"m\"";
    for chat in [
        format!("[generator]\nfile = {file:?}"),
        "[generator]\nstyle = \"tagged\"".to_owned(),
        openai.to_owned(),
    ] {
        let config = home.read(&chat, &[], &[]).unwrap();
        assert_eq!(config.generator.style, Style::Chat(PromptStyle::Tagged));
        assert!(matches!(config.reader, Reader::Generator), "{chat}");
        // Our small reader guesses for the large one, if it is there.
        assert_eq!(config.speculator.default, SpeculatorKind::Index);
        assert!(matches!(config.speculator.model, Reader::Spans { .. }));
        let alone = format!("{chat}\n[speculator.model]\ndir = \"/nowhere\"");
        let config = home.read(&alone, &[], &[]).unwrap();
        assert_eq!(config.speculator.default, SpeculatorKind::Llm);
        assert!(matches!(config.speculator.model, Reader::Generator));
        match &config.generator.engine {
            Engine::Local(model) => {
                assert_eq!((&model.model_path, &model.adapter), (&file, &None));
            }
            Engine::OpenAi(_) => assert_eq!(chat, openai),
        }
        let spans = format!("{chat}\n[reader]\nkind = \"spans\"");
        let config = home.read(&spans, &[], &[]).unwrap();
        assert!(matches!(config.reader, Reader::Spans { .. }), "{chat}");
    }
    let model = "[speculator.model]\nkind = \"local\"";
    let config = home.read(model, &[], &[]).unwrap();
    assert_eq!(config.speculator.default, SpeculatorKind::Llm);
    let named = "[speculator.model]\nkind = \"spans\"\n[reader]\nkind = \"local\"";
    let config = home.read(named, &[], &[]).unwrap();
    assert_eq!(config.speculator.default, SpeculatorKind::Index);
    for (file, words) in [
        ("[reader]\nkind = \"generator\"", "cannot read"),
        (
            "[reader]\nkind = \"spans\"\ndir = \"/nowhere\"",
            "/nowhere is missing (correct it, or leave it out for the default): run `spechop models \
             pull spechop-reader`",
        ),
        ("[reader]\nkind = \"spam\"", "reader.kind"),
        (
            "[reader]\nkind = \"local\"\nstyle = \"steps\"",
            "reader.style",
        ),
        ("[speculator]\nkind = \"llm\"", "[speculator.model]"),
        (
            "[generator]\nadapter = \"/nowhere\"",
            "`spechop models pull spechop-planner`",
        ),
        (&format!("{openai}\nstyle = \"steps\""), "conversations"),
    ] {
        let mistakes = home.mistakes(file, &[]);
        assert!(
            mistakes.len() == 1 && mistakes[0].contains(words),
            "{file}: {mistakes:?}"
        );
    }
}

#[test]
fn the_table_has_the_keys_that_are_asked_for_and_no_others() {
    let is_field = |path: &String| {
        path.strip_prefix(table::LIST)
            .is_some_and(|f| f.starts_with('.'))
    };
    let rows: BTreeSet<_> = table::all().map(|(path, _)| path).collect();
    let rows: BTreeSet<_> = rows.into_iter().filter(|path| !is_field(path)).collect();
    let mut asked = super::read::asked_keys();
    // These belong to kinds that the defaults do not choose.
    for section in [
        "reader.",
        "speculator.model.",
        "fallback.",
        "drafter.model.",
    ] {
        let unused = rows.iter().filter(|path| path.starts_with(section));
        asked.extend(unused.cloned());
    }
    assert_eq!(asked, rows);
}

#[test]
fn the_example_and_the_reference_are_those_of_the_table() {
    const REFERENCE: &str = include_str!("../../../docs/CONFIG.md");
    assert!(
        EXAMPLE == example(),
        "keep what `spechop config show --example` prints as deploy/spechop.example.toml"
    );
    assert!(
        REFERENCE == reference(),
        "keep what `spechop config show --keys` prints as docs/CONFIG.md"
    );
}

#[test]
fn the_example_holds_the_defaults() {
    let home = Home::new();
    let defaults = format!("{:?}", home.read("", &[], &[]).unwrap());
    let written: String = EXAMPLE
        .lines()
        .map(|line| uncommented(line, "# ") + "\n")
        .collect();
    assert_eq!(
        format!("{:?}", home.read(&written, &[], &[]).unwrap()),
        defaults
    );
}

/// A line of TOML that was commented out with `mark`, or the line as it is.
fn uncommented(line: &str, mark: &str) -> String {
    let is_key = |c: char| c.is_ascii_lowercase() || c == '_';
    match line
        .strip_prefix(mark)
        .map(|rest| (rest, rest.split_once(" = ")))
    {
        Some((rest, Some((key, _)))) if !key.is_empty() && key.chars().all(is_key) => {
            rest.to_owned()
        }
        _ => line.to_owned(),
    }
}

#[test]
fn the_demo_is_valid() {
    assert_eq!(
        Home::new()
            .read(DEMO, &[], &[])
            .unwrap()
            .questions
            .usual
            .verifier,
        Some(VerifierMode::Exact)
    );
}

#[test]
fn flags_go_before_variables_and_variables_before_the_file() {
    let home = Home::new();
    let file = "[question]\nk = 4\n";
    let variable = [("SPECHOP_QUESTION_K", "5")];
    for (variables, flags, k) in [
        (&[][..], &[][..], "4"),
        (&variable[..], &[][..], "5"),
        (&variable[..], &[("question.k", "6")][..], "6"),
    ] {
        let config = home.read(file, variables, flags).unwrap();
        assert_eq!(config.questions.usual.k.unwrap().to_string(), k);
    }
}

#[test]
fn mistakes_name_their_key_their_source_and_the_remedy() {
    let home = Home::new();
    for (file, variables, mistake) in [
        (
            "[question]\nk = 0",
            &[][..],
            "question.k (c.toml): expected \"auto\" or a whole number from 1 to 1024, found 0",
        ),
        (
            "[question]\nk = \"many\"",
            &[],
            "question.k (c.toml): expected \"auto\" or a whole number from 1 to 1024, found \"many\"",
        ),
        (
            "[question]\nk = 65",
            &[],
            "question.k (c.toml): 65 is more than question.k_max = 64",
        ),
        (
            "[question]\nk_max = 2",
            &[],
            "question.k (default): 3 is more than question.k_max = 2",
        ),
        (
            "",
            &[("SPECHOP_QUESTION_K", "-1")],
            "question.k (SPECHOP_QUESTION_K): expected \"auto\" or a whole number from 1 to 1024, found \"-1\"",
        ),
        (
            "[question]\npassages_max = 313",
            &[],
            "question.passages_max (c.toml): 313 for each of question.hop_budget_max = 32 hops are more \
             than the 10000 passages that an answer may hold",
        ),
        (
            "[question]\nverifier = \"strict\"",
            &[],
            "question.verifier (c.toml): expected \"rule\" or \"exact\" or \"paper\", found \"strict\"",
        ),
        (
            "[question]\nchance_min = 1.5",
            &[],
            "question.chance_min (c.toml): expected \"auto\" or a number from 0 to 1, found 1.5",
        ),
        (
            "[target]\nkind = \"web\"\n[web]\nproviders = [\"brave\"]",
            &[],
            "web.brave.api_key_env (default): brave wants a key",
        ),
        (
            "[question]\npassagess = 5",
            &[],
            "question.passagess (c.toml): there is no such key; did you mean question.passages?",
        ),
        (
            "k = 5",
            &[],
            "k (c.toml): there is no such key; did you mean question.k?",
        ),
        (
            "[weather]\nsun = true",
            &[],
            "weather.sun (c.toml): there is no such key",
        ),
        ("server = 5", &[], "server (c.toml): there is no such key"),
        (
            "",
            &[("SPECHOP_SERVER_LISTN", "x")],
            "SPECHOP_SERVER_LISTN (SPECHOP_SERVER_LISTN): there is no such key; did you mean SPECHOP_SERVER_LISTEN?",
        ),
        (
            "[server]\nlisten = \"localhost\"",
            &[],
            "server.listen (c.toml): expected an address such as 127.0.0.1:50051, found \"localhost\"",
        ),
        (
            "[server]\nallow_remote = 1",
            &[],
            "server.allow_remote (c.toml): expected true or false, found 1",
        ),
        (
            "[generator]\nkind = \"openai\"\nbase_url = \"http://h/v1\"",
            &[],
            "generator.model (default): kind = \"openai\" needs it",
        ),
        (
            "[generator]\nkind = \"openai\"\nbase_url = \"http://h/v1\"\nmodel = \"m\"\nrequests_max = 3\n\
             [scheduler.generator]\ncapacity = 4",
            &[],
            "scheduler.generator.capacity (c.toml): the endpoint takes 3 requests at once: lower it, or raise requests_max",
        ),
        (
            "[target.injected_latency]\nsigma_ms = 5",
            &[],
            "target.injected_latency.mean_ms (default): a spread needs a mean",
        ),
        ("k=1\nk=2", &[], "line 2 (c.toml): not TOML: duplicate"),
    ] {
        let mistakes = home.mistakes(file, variables);
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert!(
            mistakes[0].starts_with(mistake),
            "{mistakes:?}\nis not\n{mistake}"
        );
    }
}

#[test]
fn every_mistake_is_reported_at_once() {
    let home = Home::new();
    let file = "[question]\nk = 0\nhops = 3\n[server]\nlisten = 5\n[index]\ndir = \"/nowhere\"";
    assert_eq!(
        home.mistakes(file, &[("SPECHOP_QUESTION_PASSAGES", "0")])
            .len(),
        5
    );
    let error = home.read(file, &[], &[]).unwrap_err().to_string();
    assert!(
        error.starts_with("the configuration has 4 mistakes:\n  "),
        "{error}"
    );
}
