//! The drafter.

use std::fs;
use std::path::{Path, PathBuf};

use spechop_draft::Patterns;
use spechop_types::with_causes;

use super::keys::Keys;
use super::models::model;
use super::{DraftedBy, Drafting, Engine, Model, PatternSource, Style};
use crate::Env;

/// The section of the model that writes drafts.
const MODEL: &str = "drafter.model";

pub(super) fn drafter(keys: &mut Keys<'_>, generator: &Model, data: &Path, env: &Env) -> Drafting {
    let kinds = [
        ("patterns", (true, false)),
        ("llm", (false, true)),
        ("both", (true, true)),
        ("none", (false, false)),
    ];
    let kind = keys.one_of("drafter.kind", &kinds);
    let (by_patterns, by_model) = kind.unwrap_or((true, false));
    let file = keys.path("drafter.patterns");
    let samples = keys.small("drafter.samples");
    let own = model(keys, MODEL, data, env);
    Drafting {
        patterns: match file {
            _ if !by_patterns => PatternSource::None,
            Some(file) => PatternSource::File(checked(keys, file)),
            None => PatternSource::Shipped,
        },
        learns: keys.switch("drafter.learn"),
        file: keys.path("drafter.file"),
        samples,
        writer: by_model.then(|| writer(keys, own, generator, samples)),
    }
}

/// The file of patterns, which is there and holds some.
fn checked(keys: &mut Keys<'_>, file: PathBuf) -> PathBuf {
    let read = fs::read_to_string(&file).map_err(|error| error.to_string());
    let parsed = read.and_then(|json| Patterns::from_json(&json).map_err(|e| with_causes(&e)));
    if let Err(problem) = parsed {
        let problem = format!(
            "{}: {problem}; `spechop patterns mine` makes such a file",
            file.display()
        );
        keys.mistake("drafter.patterns", problem);
    }
    file
}

/// Who writes drafts, checked against what it can.
fn writer(keys: &mut Keys<'_>, own: Option<Model>, generator: &Model, samples: u32) -> DraftedBy {
    let by = own.as_ref().unwrap_or(generator);
    if by.style == Style::Steps {
        let problem = "a generator of style \"steps\" writes a draft no sooner than the sub-question: \
                       describe another model in [drafter.model], or say \"patterns\"";
        keys.mistake("drafter.kind", problem);
    } else if samples > 1 && matches!(by.engine, Engine::Local(_)) {
        let problem = "a model in this process says the same in every sample: leave it out, or let an \
                       endpoint draft";
        keys.mistake("drafter.samples", problem);
    }
    match own {
        Some(model) => DraftedBy::Model(Box::new(model)),
        None => DraftedBy::Generator,
    }
}
