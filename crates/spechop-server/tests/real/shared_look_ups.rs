//! A language model reads, in this process: by default our small reader guesses for it, over the
//! passages that the look-up retrieves. `tests/shared_look_ups.rs` has models behind endpoints.

use spechop_proto::{AskRequest, Stage};
use spechop_testkit::assets;

use crate::answers::{Running, prepared};
use crate::support::{at, options};

#[tokio::test(flavor = "multi_thread")]
async fn for_a_language_model_the_small_reader_guesses_over_what_was_retrieved_for_it() {
    let (_dir, questions, toml, _) = prepared().await;
    let model = assets::model_dir("smollm2-135m-instruct").join("model.gguf");
    // Nothing is found so quickly that the guess cannot ask for it meanwhile.
    let toml = format!(
        "{toml}hop_budget = 1\npassages = 2\ndrafts = 0\n\
         [reader]\nkind = \"local\"\nfile = {model:?}\nthreads = 1\n\
         [chaos]\nports = [\"retriever\"]\nlate = 1.0\n"
    );
    let mut server = Running::start(toml).await;
    // Nobody says who guesses.
    let question = AskRequest {
        question: questions[0].0.clone(),
        ..at(2)
    };
    let answer = server.client.ask(question).await.unwrap().into_inner();
    assert_eq!(options(&answer).speculator.as_deref(), Some("index"));
    let usage = answer.usage.unwrap();
    let started = [usage.targets, usage.speculations].map(|calls| calls.unwrap().started);
    assert_eq!(started, [1, 1], "{answer:?}");
    let backends = server.backends().await;
    let index = &backends["retriever"];
    assert_eq!((index.started, index.joined), (1, 1), "{index:?}");
    // The small reader reads on idle cores. On a busy machine there may be none.
    let is_guess = |one: &spechop_proto::Refused| one.stage() == Stage::Speculation;
    let has_guessed = backends["speculator"].started == 1;
    assert!(has_guessed || answer.refused.iter().any(is_guess));
    assert_eq!(backends["reader"].started, 1);
    server.stop().await;
}
