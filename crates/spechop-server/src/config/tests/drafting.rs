//! Who drafts, as tables.

use spechop_types::AnswerOptions;

use super::*;
use crate::tuning::Free;

const ENDPOINT: &str =
    "kind = \"openai\"\nbase_url = \"http://127.0.0.1:8080/v1\"\nmodel = \"m\"\n";

#[test]
fn patterns_a_model_both_or_nobody_drafts() {
    let home = Home::new();
    let model = format!("[drafter.model]\n{ENDPOINT}");
    let generator = format!("[generator]\n{ENDPOINT}");
    for (kind, rest, has_patterns, by) in [
        ("patterns", "", true, None),
        ("none", "", false, None),
        ("llm", &*model, false, Some("a model")),
        ("both", &*model, true, Some("a model")),
        ("both", &*generator, true, Some("the generator")),
        // The model is described, and not asked.
        ("patterns", &*model, true, None),
    ] {
        let file = format!("[drafter]\nkind = {kind:?}\nsamples = 3\n{rest}");
        let config = home.read(&file, &[], &[]).unwrap();
        let drafter = &config.drafter;
        let patterns = !matches!(drafter.patterns, PatternSource::None);
        assert_eq!(patterns, has_patterns, "{file}");
        let writer = drafter.writer.as_ref().map(|by| match by {
            DraftedBy::Generator => "the generator",
            DraftedBy::Model(_) => "a model",
        });
        assert_eq!(writer, by, "{file}");
        assert_eq!(drafter.model().is_some(), by == Some("a model"), "{file}");
        assert_eq!(config.questions.draft_samples, 3);
    }
}

#[test]
fn who_cannot_draft_is_a_mistake_that_says_what_to_do() {
    let home = Home::new();
    let local = "[drafter.model]\nkind = \"local\"\n";
    for (file, said) in [
        ("[drafter]\nkind = \"llm\"\n".to_owned(), "[drafter.model]"),
        (
            format!("[drafter]\nkind = \"llm\"\nsamples = 2\n{local}"),
            "says the same in every sample",
        ),
        ("[drafter]\nkind = \"guesses\"\n".to_owned(), "\"patterns\""),
        ("[drafter]\nsamples = 0\n".to_owned(), "1 to 16"),
        (
            "[drafter]\nkind = \"llm\"\n[drafter.model]\nkind = \"openai\"\n".to_owned(),
            "drafter.model.base_url",
        ),
        (
            format!("[drafter.model]\n{ENDPOINT}style = \"steps\"\n"),
            "drafter.model.style",
        ),
    ] {
        let mistakes = home.mistakes(&file, &[]);
        let told = mistakes.iter().any(|mistake| mistake.contains(said));
        assert!(told, "{file}: {mistakes:?}");
    }
}

#[test]
fn an_endpoint_may_think_less_and_be_told_what_is_expected() {
    let home = Home::new();
    let wishes = "reasoning_effort = \"minimal\"\npredicted_output = true\n";
    let file = format!("[generator]\n{ENDPOINT}{wishes}");
    let config = home.read(&file, &[], &[]).unwrap();
    let Engine::OpenAi(endpoint) = &config.generator.engine else {
        panic!("an endpoint");
    };
    assert_eq!(endpoint.reasoning_effort.as_deref(), Some("minimal"));
    assert!(endpoint.predicted_output);
    // Only what plans has anything to expect.
    let file = format!("[drafter.model]\n{ENDPOINT}{wishes}");
    let mistakes = home.mistakes(&file, &[]);
    assert!(mistakes[0].contains("predicted_output"), "{mistakes:?}");
}

/// Nothing may be looked up ahead of need for them.
#[test]
fn drafts_are_not_left_to_the_server_for_a_quiet_tenant() {
    let home = Home::new();
    let file = "[question]\nk = \"auto\"\ndrafts = \"auto\"\n[tenant]\nquiet = [\"clinic\"]";
    let questions = home.read(file, &[], &[]).unwrap().questions;
    let drafts = |tenant: &str, quiet| {
        let said = AnswerOptions {
            quiet,
            ..AnswerOptions::default()
        };
        let options = questions.options(&said, &Tenant::new(tenant).unwrap());
        Free::of(&options).drafts
    };
    assert!(drafts("school", false));
    assert!(!drafts("school", true) && !drafts("clinic", false));
}
