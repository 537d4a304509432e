//! A language model reads for the target, and a guess is read in the very passages that the look-up
//! finds: they are retrieved once.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::endpoints::{Chat, Model, Words, open, says};
use spechop_index::Build;
use spechop_proto::options::Width;
use spechop_proto::{AskRequest, CommitKind};
use spechop_web::{EmbeddingForm, HttpEncoder, HttpEncoderOptions};
use wiremock::ResponseTemplate;

const CORPUS: &str = r#"{"id":"p1","title":"Halcón","text":"Halcón is a film by Ana Ruiz."}
{"id":"p2","title":"Ana Ruiz","text":"Ana Ruiz is a director who was born in Cádiz."}
{"id":"p3","title":"Cádiz","text":"Cádiz is a city by the sea."}
"#;
const SUB_QUESTIONS: [&str; 2] = ["Who directed Halcón?", "Where was Ana Ruiz born?"];
const SUB_ANSWERS: [&str; 2] = ["Ana Ruiz", "Cádiz"];

/// Nothing is found so quickly that the other cannot ask for it meanwhile.
const RETRIEVES: &str = "[chaos]\nports = [\"retriever\"]\nlate = 1.0\nlate_ms = 200\n";
/// Longer than any guess takes: it is there long before the observation.
const READS: Duration = Duration::from_secs(1);
/// A guess is cut shorter.
const GUESS_TOKENS_MAX: u64 = 22;

/// Plans two hops and reads them; for the target it takes its time.
fn answers(chat: &Chat) -> ResponseTemplate {
    let wrap = |tag: &str, text: &str| says(&format!("<{tag}>{text}</{tag}>"));
    if !chat.reads() {
        let known = chat.facts().len();
        return match SUB_QUESTIONS.get(known) {
            Some(asked) => wrap("question", asked),
            None => wrap("answer", SUB_ANSWERS[1]),
        };
    }
    let hop = SUB_QUESTIONS
        .iter()
        .position(|asked| *asked == chat.asked());
    let answer = wrap("answer", SUB_ANSWERS[hop.unwrap()]);
    match chat.tokens_max <= GUESS_TOKENS_MAX {
        true => answer,
        false => answer.set_delay(READS),
    }
}

async fn build_index(dir: &Path, words: &Words) -> String {
    let (corpus, index) = (dir.join("corpus.jsonl"), dir.join("index"));
    fs::write(&corpus, CORPUS).unwrap();
    let width = Words::WIDTH.try_into().unwrap();
    let options = HttpEncoderOptions::new(words.url(), EmbeddingForm::Tei, Words::MODEL, width);
    let encoder = HttpEncoder::new(options).unwrap();
    let build = Build::new(&corpus, &index);
    build.run(&encoder, &mut |_| {}).await.unwrap();
    format!("[index]\ndir = {index:?}\n")
}

/// The queries that are encoded for the question, and what the model is asked. At k = 4 there is
/// room for a guess of every hop.
async fn ask(more: &str) -> (Vec<String>, Vec<Chat>) {
    let dir = tempfile::tempdir().unwrap();
    let (words, model) = (Words::start().await, Model::that(answers).await);
    let index = build_index(dir.path(), &words).await;
    let toml = format!(
        "{}{index}[generator]\n{}[speculator]\nkind = \"index\"\n\
         [question]\ndrafts = 0\nplan_ahead = false\nverifier = \"exact\"\n{RETRIEVES}{more}",
        words.toml(),
        model.toml()
    );
    let server = open(dir.path(), &toml).await;
    let question = AskRequest {
        question: "Where was the director of Halcón born?".to_owned(),
        ..AskRequest::default()
    };
    let question = question.with(|asked| asked.width = Some(Width::K(4)));
    let answer = server.ask(&question).await.unwrap();
    let hops = answer.hops.iter();
    let hops: Vec<_> = hops
        .map(|hop| (&*hop.sub_question, &*hop.sub_answer, hop.kind()))
        .collect();
    let accepted = |at: usize| (SUB_QUESTIONS[at], SUB_ANSWERS[at], CommitKind::Accepted);
    assert_eq!(hops, [accepted(0), accepted(1)]);
    (words.queries().await, model.asked().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_target_and_its_guess_look_up_is_retrieved_once_and_read_twice() {
    let (queries, asked) = ask("").await;
    assert_eq!(queries, SUB_QUESTIONS);
    let mut read = BTreeMap::<_, Vec<_>>::new();
    for chat in asked.iter().filter(|chat| chat.reads()) {
        read.entry(chat.asked()).or_default().push(chat);
    }
    assert_eq!(read.len(), SUB_QUESTIONS.len());
    for (asked, chats) in read {
        let [a, b] = chats[..] else {
            panic!("{asked}: {chats:?}");
        };
        assert_eq!(a.messages, b.messages, "the same passages");
        assert_ne!(a.tokens_max, b.tokens_max);
    }
}

/// Then the target stands for one that is elsewhere, and the index itself is near.
#[tokio::test(flavor = "multi_thread")]
async fn beside_injected_latency_the_guess_has_a_look_up_of_its_own() {
    let injected = "[target.injected_latency]\nmean_ms = 50.0\nseed = 1\n";
    let (mut queries, _) = ask(injected).await;
    queries.sort_unstable();
    let [first, second] = SUB_QUESTIONS;
    assert_eq!(queries, [second, second, first, first]);
}
