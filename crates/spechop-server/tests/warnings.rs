//! The log of a server that is asked too much: a few lines, and every refusal in the metrics.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::lines::is_alone;
use crate::support::{Server, endless, question};
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
