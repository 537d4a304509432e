//! The log of a server that is asked too much: a few lines, and every refusal in the metrics.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::lines::{Lines, is_alone};
use crate::over_http::get;
use crate::support::{Server, config, endless, question};
use spechop_ports::{Passages, PortError};
use spechop_testkit::Script;
use spechop_types::Passage;
use tokio::time::Instant;
use tonic::Code;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Counts warnings.
struct Warnings(Arc<AtomicU64>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// On one thread, which is the one whose log is counted.
#[tokio::test]
async fn refusals_do_not_fill_the_log() {
    const REFUSED: u64 = 500;
    if !is_alone(module_path!(), "refusals_do_not_fill_the_log") {
        return;
    }
    let warnings = Arc::new(AtomicU64::new(0));
    let _log = tracing::subscriber::set_default(Warnings(Arc::clone(&warnings)));
    let toml = "[server]\nquestions_max = 1\nqueue_ms = 0";
    let server = Server::configured(endless(), toml).await;
    let mut client = server.client().await;
    let _open = client.ask_stream(question()).await.unwrap();
    let began = Instant::now();
    for _ in 0..REFUSED {
        let refused = client.ask(question()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
    }
    let seconds = began.elapsed().as_secs();
    let warnings = warnings.load(Relaxed);
    assert!((1..=seconds + 1).contains(&warnings), "{warnings} lines");
    let busy = "spechop_questions_total{outcome=\"busy\"}";
    assert_eq!(server.metric(busy).await, REFUSED);
}

/// An index whose passages cannot be read.
struct Cut;

#[tonic::async_trait]
impl Passages for Cut {
    async fn passage(&self, _: &str) -> Result<Option<Passage>, PortError> {
        Err(PortError::unavailable("the index", "its files were cut"))
    }
}

/// On one thread, which is the one whose log is read.
#[tokio::test]
async fn a_passage_that_cannot_be_read_is_told_in_the_log() {
    let test = "a_passage_that_cannot_be_read_is_told_in_the_log";
    if !is_alone(module_path!(), test) {
        return;
    }
    let lines = Lines::default();
    let log = tracing_subscriber::fmt().with_writer(lines.clone());
    let _log = tracing::subscriber::set_default(log.finish());
    let server = Server::showing(Script::instant(1), config(""), Cut).await;
    let refused = get(&server, "/p/p0").await;
    assert_eq!(refused.status(), 503);
    let text = lines.text();
    assert!(text.contains("its files were cut"), "{text}");
}
