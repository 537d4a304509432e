//! Who drafts, as tables.

use spechop_llm::ChatEndpoint;
use spechop_types::AnswerOptions;

use super::*;

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
    let not_patterns = home.path("models/smollm2-135m-instruct/model.gguf");
    for (file, said) in [
        ("[drafter]\nkind = \"llm\"\n".to_owned(), "[drafter.model]"),
        (
            format!("[drafter]\nkind = \"llm\"\nsamples = 2\n{local}"),
            "says the same in every sample",
        ),
        ("[drafter]\nkind = \"guesses\"\n".to_owned(), "\"patterns\""),
        ("[drafter]\nsamples = 0\n".to_owned(), "1 to 16"),
        (
            "[drafter]\npatterns = \"/nowhere\"\n".to_owned(),
            "drafter.patterns (c.toml): /nowhere: ",
        ),
        (
            format!("[drafter]\npatterns = {not_patterns:?}\n"),
            "it is not a file of patterns",
        ),
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

#[test]
fn an_endpoint_may_take_its_time() {
    let home = Home::new();
    let read = |more: &str| {
        let file = format!("[generator]\n{ENDPOINT}{more}");
        let config = home.read(&file, &[], &[]).unwrap();
        let Engine::OpenAi(endpoint) = config.generator.engine else {
            panic!("an endpoint");
        };
        endpoint
    };
    let (usual, slow) = (
        read(""),
        read("silence_ms_max = 90000\ntotal_ms_max = 300000\nopens_thoughts = true\n"),
    );
    let seconds = |endpoint: &ChatEndpoint| {
        let limits = endpoint.limits;
        (limits.silence.as_secs(), limits.total.as_secs())
    };
    assert_eq!((seconds(&usual), usual.opens_thoughts), ((30, 120), false));
    assert_eq!((seconds(&slow), slow.opens_thoughts), ((90, 300), true));
}

#[test]
fn an_endpoint_that_cannot_be_asked_is_a_mistake() {
    let home = Home::new();
    for section in [
        "generator",
        "fallback",
        "reader",
        "speculator.model",
        "drafter.model",
    ] {
        for url in [
            "127.0.0.1:8080/v1",
            "localhost:8080/v1",
            "http://h/v1?api-version=1",
            "http://me:secret@h/v1",
        ] {
            let file = format!("[{section}]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = {url:?}");
            let mistakes = home.mistakes(&file, &[]);
            let wrong = format!("{section}.base_url (c.toml): the base URL is unusable: ");
            assert!(
                matches!(&mistakes[..], [one] if one.starts_with(&wrong)),
                "{mistakes:?}"
            );
            assert!(!mistakes[0].contains("secret"), "{mistakes:?}");
        }
    }
    let file = format!("[generator]\n{ENDPOINT}api_key_env = \"MY_KEY\"");
    assert_eq!(
        home.mistakes(&file, &[("MY_KEY", "sk-\nsecret")]),
        ["generator.api_key_env (c.toml): the key holds characters that a header cannot carry"]
    );
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
