//! What a client has looked up itself (arXiv 2512.15834, section 4.1), asked for by the engine of our own
//! planner.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use spechop_proto::{Activity, AskResponse, Hop, Stage};

use crate::answers::{Running, prepared, trajectory};
use crate::over_http::client;

/// Passages of a hop.
const PASSAGES: u32 = 5;

/// A hop's look-up as a call of the tool, and what it found.
fn as_output(hop: &Hop) -> Value {
    let evidence = hop.observation.as_ref().unwrap().evidence.iter();
    let documents = evidence.map(|passage| {
        assert!(!passage.cut);
        json!({ "id": passage.passage_id, "title": passage.title, "text": passage.text })
    });
    json!({
        "tool": "retrieve",
        "arguments": { "query": hop.sub_question },
        "output": documents.collect::<Vec<_>>(),
    })
}

async fn leave(server: &Running, hops: &[Hop]) {
    for hop in hops {
        let path = format!("{}/v1/tool-cache", server.url);
        let left = client().post(path).json(&as_output(hop)).send().await;
        let left: Value = left.unwrap().json().await.unwrap();
        assert_eq!(left, json!({ "cached": true }));
    }
}

/// Without a guess: what is looked up is what the planner has written.
async fn ask(server: &Running, question: &str) -> AskResponse {
    let answer = server.answer(question, 1, "none", PASSAGES).await;
    assert!(!answer.hops.is_empty(), "{answer:?}");
    answer
}

/// What the look-ups of an answer did, waiting aside.
fn looked_up_by(answer: &AskResponse) -> BTreeSet<Activity> {
    let of_targets = answer.activities.iter();
    let of_targets = of_targets.filter(|time| time.stage() == Stage::Target && time.time_ms > 0.0);
    let waiting = [Activity::Queue, Activity::Turn, Activity::Join];
    of_targets
        .map(|time| time.activity())
        .filter(|activity| !waiting.contains(activity))
        .collect()
}

/// As soon as a sub-question is written, its output is there: nothing is encoded or searched, the same
/// passages are read, and the planner reads and writes what it would have without the cache. That it computes
/// only the new answer then is the test of `twice.rs` in `spechop-llm`.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_has_looked_up_is_there_when_the_sub_question_ends() {
    let (_dir, questions, toml, _) = prepared().await;
    let toml = format!("{toml}[server]\ntool_outputs = 64\n");
    let searching = Running::start(toml.clone()).await;
    // Another server: it remembers nothing of the first one's look-ups.
    let told = Running::start(toml).await;
    for (question, _) in &questions {
        let searched = ask(&searching, question).await;
        let all = [Activity::Encode, Activity::Scan, Activity::Read];
        assert_eq!(looked_up_by(&searched), all.into());

        leave(&told, &searched.hops).await;
        let answer = ask(&told, question).await;
        assert_eq!(trajectory(&answer), trajectory(&searched));
        assert_eq!(looked_up_by(&answer), [Activity::Read].into());
        let tokens = |answer: &AskResponse| {
            let segments = answer.usage.unwrap().segments.unwrap();
            (
                segments.started,
                segments.prompt_tokens,
                segments.completion_tokens,
            )
        };
        assert_eq!(tokens(&answer), tokens(&searched));
        let beside = beside_reading(&answer);
        eprintln!(
            "{} look-ups, {beside:.3} ms beside reading",
            answer.hops.len()
        );
    }
    searching.stop().await;
    told.stop().await;
}

/// Milliseconds of all look-ups in which nothing was read.
fn beside_reading(answer: &AskResponse) -> f64 {
    let read = answer.activities.iter();
    let read =
        read.filter(|time| (time.stage(), time.activity()) == (Stage::Target, Activity::Read));
    answer.usage.unwrap().targets.unwrap().time_ms - read.map(|time| time.time_ms).sum::<f64>()
}
