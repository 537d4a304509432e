//! The page's own sum of k = 1, beside the simulator's figure for the same question.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spechop_testkit::Script;

use crate::over_http::{Frames, client, post, url};
use crate::support::Server;

/// What the page's reducer says of these events.
fn reduced(events: &[Value]) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/sequential.mjs");
    let mut node = Command::new("node");
    let mut node = node
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = node.stdin.take().unwrap();
    for event in events {
        writeln!(lines, "{event}").unwrap();
    }
    drop(lines);
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `deploy/real-tests.sh` leaves it out if Node is not installed.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_the_simulator_agree_on_what_k_1_would_have_taken() {
    // Right and wrong guesses, at once and late, and several widths.
    for (right, guess_ms, k) in [
        (&[true, false, true, true][..], 5, 3),
        (&[false, false], 30, 2),
        (&[true, true, true], 1, 1),
    ] {
        let server = Server::start(Script::steady(right, 7, 120, guess_ms)).await;
        let frames =
            Frames::of(post(&server, "/v1/ask/stream", json!({ "options": { "k": k } })).await);
        let id = frames.question_id();
        let events = frames.all().await;
        let events: Vec<_> = events.into_iter().map(|(_, _, event)| event).collect();
        server.is_idle().await;
        let what_if = client().post(url(&server, &format!("/v1/questions/{id}/what-if")));
        let told = what_if.json(&json!({ "k": 1 })).send().await.unwrap();
        let told: Value = told.json().await.unwrap();
        let simulated = told["latency_ms"].as_f64().unwrap();
        let page = reduced(&events);
        let (total, whole) = (page["total"].as_f64().unwrap(), &page["whole"]);
        assert_eq!(*whole, true, "{page}");
        assert!(
            (total - simulated).abs() < 0.01,
            "k = {k}: the page says {total} ms, the simulator {simulated} ms"
        );
        // And it is no sum of nothing.
        assert!(total >= 127.0 * right.len() as f64, "{total}");
    }
}
