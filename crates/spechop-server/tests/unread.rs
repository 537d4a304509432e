//! Readers that do not read: they keep their place, and lose their stream in the end.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::time::Duration;

use crate::lines::{Lines, is_alone};
use crate::support::{Server, endless, eventually, long, question, unread};
use spechop_proto::AskEvent;
use spechop_proto::ask_event::Event;
use spechop_testkit::Script;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};
use tracing::Level;

/// Reads to the end.
async fn read(mut stream: Streaming<AskEvent>) -> (Option<Event>, Option<Status>) {
    let mut last = None;
    loop {
        match stream.message().await {
            Ok(Some(event)) => last = event.event,
            Ok(None) => return (last, None),
            Err(status) => return (last, Some(status)),
        }
    }
}

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
const ANSWERED: &str = "spechop_questions_total{outcome=\"answered\"}";

async fn answered(server: &Server) {
    let comes = async {
        while server.metric(ANSWERED).await == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, comes).await.expect("it is answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_keeps_its_place_until_it_is_read() {
    let server = Server::configured(long(), "[server]\nquestions_max = 1\nqueue_ms = 0").await;
    let stream = unread(&server).await;
    answered(&server).await;
    assert_eq!(server.ports.live(), 0, "there is nothing more to do");
    assert_eq!(server.gauges.questions_open(), 1);
    let refused = server.ask(question()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");

    let (last, error) = read(stream).await;
    assert!(matches!(last, Some(Event::Answer(_))), "{error:?}");
    server.is_idle().await;

    // Dropping it does as well.
    let stream = unread(&server).await;
    eventually(|| server.gauges.questions_open() == 1).await;
    drop(stream);
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stays_away_loses_the_stream_and_frees_its_place() {
    // Long enough for the answer: it must be there before the reader has stayed away for too long.
    let server = Server::configured(long(), "[server]\nunread_ms = 5000").await;
    let stream = unread(&server).await;
    answered(&server).await;
    eventually(|| server.gauges.questions_open() == 0).await;
    let (last, error) = read(stream).await;
    assert!(!matches!(last, Some(Event::Answer(_))));
    let error = error.unwrap();
    assert_eq!(error.code(), Code::Aborted, "{error}");
    assert!(error.message().contains("5 s"), "{error}");
}

/// Four hops are there soon, the fifth never.
fn endless_in_the_end() -> Script {
    let mut script = long();
    script.hops[4].target = endless().hops[0].target;
    script
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_follows_is_ended() {
    let server = Server::configured(endless_in_the_end(), "[server]\nunread_ms = 100").await;
    let stream = unread(&server).await;
    server.is_idle().await;
    let (_, error) = read(stream).await;
    assert_eq!(error.unwrap().code(), Code::Aborted);
    let unread = "spechop_questions_total{outcome=\"unread\"}";
    assert_eq!(server.metric(unread).await, 1);
}

/// On one thread, which is the one whose log is read.
#[tokio::test]
async fn the_log_says_once_that_nobody_reads_a_question() {
    let test = "the_log_says_once_that_nobody_reads_a_question";
    if !is_alone(module_path!(), test) {
        return;
    }
    let lines = Lines::default();
    let log = tracing_subscriber::fmt().with_ansi(false);
    let log = log.with_max_level(Level::DEBUG).with_writer(lines.clone());
    let _log = tracing::subscriber::set_default(log.finish());
    let server = Server::configured(endless_in_the_end(), "[server]\nunread_ms = 100").await;
    let _stream = unread(&server).await;
    server.is_idle().await;
    let text = lines.text();
    let told = text.lines().filter(|line| line.contains("no answer"));
    assert_eq!(told.count(), 1, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_the_next_event_is_not_late() {
    // Nothing happens for much longer than a reader may stay away. That is long enough for any machine to hand
    // over an event.
    let script = Script::steady(&[true], 1, 3_000, 1);
    let server = Server::configured(script, "[server]\nunread_ms = 1000").await;
    let (last, error) = read(server.stream(question()).await).await;
    assert!(matches!(last, Some(Event::Answer(_))), "{error:?}");
    server.is_idle().await;
}
