//! A changed configuration is taken up while the server runs, wholly or not at all.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::followed::Followed;
use crate::support::{at, endless, eventually, options, question, replace};
use spechop_proto::admin_client::AdminClient;
use spechop_proto::ask_event::Event;
use spechop_proto::options::Width;
use spechop_proto::{AskResponse, GetConfigurationRequest, GetConfigurationResponse};
use spechop_testkit::Script;
use tokio::task::JoinSet;
use tonic::Code;

impl Followed {
    /// What the admin service says of the configuration.
    async fn known(&self) -> GetConfigurationResponse {
        let mut admin = AdminClient::new(self.server.channel().await);
        let known = admin.get_configuration(GetConfigurationRequest {}).await;
        known.unwrap().into_inner()
    }

    /// The k that a question is answered with which names none.
    async fn k(&self) -> Option<u32> {
        k_of(&self.server.ask(question()).await.unwrap())
    }
}

pub(crate) fn k_of(answer: &AskResponse) -> Option<u32> {
    match options(answer).width {
        Some(Width::K(k)) => Some(k),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k_and_limits_count_for_the_next_question() {
    let followed = Followed::start(Script::instant(1), "[question]\nk = 2").await;
    assert_eq!(followed.k().await, Some(2));
    followed.takes_up("[question]\nk = 5\nk_max = 6").await;
    assert_eq!(followed.k().await, Some(5));
    let status = followed.server.ask(at(7)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    // What is left out is as it was by default.
    followed.takes_up("").await;
    assert_eq!(followed.k().await, Some(3));
    assert_eq!(followed.server.metric("spechop_config_generation").await, 3);
    let fine = "spechop_config_last_reload_successful";
    assert_eq!(followed.server.metric(fine).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tightened_limit_evicts_nobody_and_lets_nobody_in() {
    let places = |most: usize| format!("[server]\nqueue_ms = 0\nquestions_max = {most}");
    let followed = Followed::start(endless(), &places(2)).await;
    let mut client = followed.server.client().await;
    let first = client.ask_stream(question()).await.unwrap();
    let second = client.ask_stream(question()).await.unwrap();
    followed.takes_up(&places(1)).await;
    assert_eq!(followed.server.gauges.questions_open(), 2);
    drop(first);
    eventually(|| followed.server.gauges.questions_open() == 1).await;
    let status = client.ask_stream(question()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    followed.takes_up(&places(3)).await;
    let third = client.ask_stream(question()).await.unwrap();
    let fourth = client.ask_stream(question()).await.unwrap();
    assert_eq!(followed.server.gauges.questions_open(), 3);
    drop((second, third, fourth));
    followed.server.is_idle().await;
}

/// Whoever waits keeps its position and its time, and gets a place as soon as there is more room.
#[tokio::test(flavor = "multi_thread")]
async fn the_line_changes_while_questions_wait() {
    let line = |places: usize, queue_max: usize, queue_ms: u64| {
        format!(
            "[server]\nquestions_max = {places}\nqueue_max = {queue_max}\nqueue_ms = {queue_ms}"
        )
    };
    let followed = Followed::start(endless(), &line(1, 1, 3_600_000)).await;
    let (server, mut waiting) = (&followed.server, JoinSet::new());
    let mut client = server.client().await;
    let _held = client.ask_stream(question()).await.unwrap();
    let mut waits = async |in_line: usize| {
        let mut client = server.client().await;
        waiting.spawn(async move { client.ask_stream(question()).await });
        eventually(|| server.gauges.questions_waiting() == in_line).await;
    };
    let refused = async || {
        let status = server.ask(question()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        status.message().to_owned()
    };
    waits(1).await;
    assert!(refused().await.contains("server.queue_max"));
    followed.takes_up(&line(1, 2, 3_600_000)).await;
    waits(2).await;
    followed.takes_up(&line(1, 1, 20)).await;
    assert!(refused().await.contains("server.queue_max"));
    followed.takes_up(&line(1, 3, 20)).await;
    assert!(refused().await.contains("server.queue_ms"));
    followed.takes_up(&line(1, 3, 0)).await;
    assert!(!refused().await.contains("queue"));
    assert_eq!(server.gauges.questions_waiting(), 2);
    followed.takes_up(&line(3, 3, 0)).await;
    let mut placed = Vec::new();
    while let Some(stream) = waiting.join_next().await {
        placed.push(stream.unwrap().unwrap());
    }
    assert_eq!((placed.len(), server.gauges.questions_open()), (2, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn rates_and_budgets_of_tenants_change() {
    let followed = Followed::start(Script::instant(1), "").await;
    followed.server.ask(question()).await.unwrap();
    let slow = "[tenant]\nrequests_per_second = 0.001\nrequests_burst = 1";
    followed.takes_up(slow).await;
    followed.server.ask(question()).await.unwrap();
    let status = followed.server.ask(question()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    followed.takes_up("[tenant]\ntarget_calls = 1").await;
    // The one call is spent by a question of one hop.
    followed.server.ask(question()).await.unwrap();
    let status = followed.server.ask(question()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    followed.takes_up("[tenant]\ntarget_calls = 3").await;
    followed.server.ask(question()).await.unwrap();
    followed.takes_up("").await;
    for _ in 0..5 {
        followed.server.ask(question()).await.unwrap();
    }
}

/// An operator who takes a limit out of the file and puts it back gives nobody a new allowance.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_spent_is_remembered_while_nothing_is_limited() {
    let one_call = "[tenant]\ntarget_calls = 1";
    let followed = Followed::start(Script::instant(1), one_call).await;
    followed.server.ask(question()).await.unwrap();
    let refused = async || {
        let status = followed.server.ask(question()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    };
    refused().await;
    followed.takes_up("").await;
    followed.server.ask(question()).await.unwrap();
    followed.takes_up(one_call).await;
    refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_file_is_refused_whole() {
    let followed = Followed::start(Script::instant(1), "[question]\nk = 2").await;
    for wrong in [
        "[question]\nk = 4\npassages = 0",
        "[question]\nk = 4\nkk = 1",
        "[question]\nk = 4\n[server]\nlisten = \"here\"",
        "[question]\nk = 4\n[server]\nkeys_file = \"/nowhere.toml\"",
        "[question\nk = 4",
    ] {
        followed.refuses(wrong).await;
        assert_eq!(followed.k().await, Some(2), "{wrong}");
    }
    let server = &followed.server;
    assert_eq!(server.metric("spechop_config_generation").await, 1);
    assert_eq!(server.metric("spechop_config_refusals").await, 5);
    assert_eq!(
        server.metric("spechop_config_last_reload_successful").await,
        0
    );
    let known = followed.known().await;
    assert!(known.refusal.contains("not TOML"), "{}", known.refusal);
    assert!(known.refused_at_s.unwrap() >= known.taken_up_at_s);
    // A file that has gone away changes nothing either.
    fs::remove_file(&followed.file).unwrap();
    let refusals = server.gauges.config_refusals();
    followed.bell.notify_one();
    eventually(|| server.gauges.config_refusals() > refusals).await;
    assert_eq!(followed.k().await, Some(2));
    followed.takes_up("[question]\nk = 4").await;
    assert_eq!(followed.k().await, Some(4));
}

/// A script that rings between taking the file away and putting it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_back_as_it_was_counts_again() {
    let toml = "[server]\nreload_ms = 20\n[question]\nk = 2";
    let followed = Followed::start(Script::instant(1), toml).await;
    let server = &followed.server;
    fs::remove_file(&followed.file).unwrap();
    followed.bell.notify_one();
    eventually(|| server.gauges.config_refusals() > 0).await;
    replace(&followed.file, toml);
    let fine = "spechop_config_last_reload_successful";
    while server.metric(fine).await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(followed.known().await.refusal, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_need_a_restart_stay_as_they_were() {
    let toml = "[server]\nunread_ms = 5000\n[question]\nk = 2";
    let followed = Followed::start(Script::instant(1), toml).await;
    let changed = "[server]\nunread_ms = 6000\ntool_outputs = 7\n[question]\nk = 4";
    followed.takes_up(changed).await;
    assert_eq!(followed.k().await, Some(4));
    let waiting = "spechop_config_waiting_keys";
    assert_eq!(followed.server.metric(waiting).await, 2);
    let known = followed.known().await;
    assert_eq!(
        known.waiting_keys,
        ["server.tool_outputs", "server.unread_ms"]
    );
    assert_eq!((known.generation, known.refused_at_s), (2, None));
    assert!(known.taken_up_at_s > 1.6e9);
    // Taken back before the restart: nothing waits any more.
    followed.takes_up(toml).await;
    assert_eq!(followed.server.metric(waiting).await, 0);
}

/// Nobody rings: the file is looked at, and counts when it has settled.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_noticed() {
    let toml = "[server]\nreload_ms = 20";
    let followed = Followed::start(Script::instant(1), toml).await;
    replace(&followed.file, &format!("{toml}\n[question]\nk = 6"));
    eventually(|| followed.server.gauges.config_generation() == 2).await;
    assert_eq!(followed.k().await, Some(6));
    replace(&followed.file, &format!("{toml}\n[question]\nk = \"six\""));
    eventually(|| followed.server.gauges.config_refusals() == 1).await;
    // It is told once.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(followed.server.gauges.config_refusals(), 1);
}

/// Questions come while the configuration changes all the time. Each is answered, with a k that counted
/// at some time, and no event of it is missing.
#[tokio::test(flavor = "multi_thread")]
async fn changes_under_load_lose_nothing() {
    const ASKERS: usize = 8;
    const QUESTIONS: usize = 12;
    const CHANGES: usize = 4;
    let script = Script::steady(&[true, false, true], 1, 4, 1);
    let expected = script.answer();
    let followed = Followed::start(script, "[question]\nk = 1").await;
    let client = followed.server.client().await;
    let made = Arc::new(AtomicUsize::new(0));
    let mut asking = JoinSet::new();
    for _ in 0..ASKERS {
        let mut client = client.clone();
        let (expected, made) = (expected.clone(), Arc::clone(&made));
        asking.spawn(async move {
            let mut asked = 0;
            while asked < QUESTIONS || made.load(Relaxed) < CHANGES {
                asked += 1;
                let stream = client.ask_stream(question()).await.unwrap();
                let (mut stream, mut last, mut answer) = (stream.into_inner(), 0, None);
                while let Some(event) = stream.message().await.unwrap() {
                    assert_eq!(event.sequence, last + 1);
                    last = event.sequence;
                    if let Some(Event::Answer(whole)) = event.event {
                        answer = Some(whole);
                    }
                }
                let answer = answer.unwrap();
                assert_eq!(answer.answer, expected);
                let k = k_of(&answer).unwrap();
                assert!((1..=4).contains(&k), "{k}");
            }
        });
    }
    let mut changes = 0;
    while !asking.is_empty() {
        changes += 1;
        if changes % 5 == 0 {
            followed.refuses("[question]\nk = 0").await;
        }
        let more = if changes % 2 == 0 {
            ""
        } else {
            "[tenant]\nquestions_max = 30\n"
        };
        followed
            .takes_up(&format!("{more}[question]\nk = {}", changes % 4 + 1))
            .await;
        made.store(changes, Relaxed);
        while let Some(asked) = asking.try_join_next() {
            asked.unwrap();
        }
    }
    followed.server.is_idle().await;
}
