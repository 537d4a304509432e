//! Spans on their way to the receiver.
//!
//! ```text
//! question ends ── offer ─▶ queue (bounded) ── keep ─▶ batch ── export ─▶ receiver
//!                   └ full: dropped, counted                     └ fails: again, then dropped, counted
//! ```

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use secrecy::ExposeSecret;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::metadata::{AsciiMetadataValue, MetadataKey, MetadataMap};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use super::key::named;
use crate::config::Otlp;
use crate::sparingly::Sparingly;

/// Spans that may wait; about 8 MiB of them.
const WAITING_MAX: usize = 16_384;
/// Spans of one request.
const BATCH_MAX: usize = 512;
/// How long a span waits for others to go with.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// How long the receiver may take for a request.
const EXPORT_TIME: Duration = Duration::from_secs(5);
/// How often a request is sent that the receiver may yet take, and the pause before the second time. Each
/// further pause is twice as long.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// What becomes of spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanCounts {
    exported: Counter,
    dropped: Family<Why, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Why {
    reason: &'static str,
}

/// Why a span was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// There was no room for it in the queue.
    QueueFull,
    /// The receiver was not there, too slow, or failed.
    Failed,
    /// The receiver did not want it.
    Rejected,
    /// The server ended before.
    Shutdown,
}

impl Lost {
    fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Shutdown => "shutdown",
        }
    }
}

impl SpanCounts {
    /// Counters of that registry.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let counts = Self::default();
        registry.register(
            "spans_exported",
            "Spans that the receiver of traces has taken",
            counts.exported.clone(),
        );
        registry.register(
            "spans_dropped",
            "Spans that did not reach the receiver of traces, by reason",
            counts.dropped.clone(),
        );
        counts
    }

    fn lost(&self, why: Lost, spans: usize) {
        if spans > 0 {
            let reason = why.as_str();
            let lost = self.dropped.get_or_create(&Why { reason });
            lost.inc_by(spans as u64);
        }
    }
}

/// Where spans wait. Whoever offers some never does.
pub(crate) struct Queue {
    counts: SpanCounts,
    waiting: AtomicUsize,
    sender: UnboundedSender<Vec<Span>>,
    /// Until somebody takes them off.
    receiver: Mutex<Option<UnboundedReceiver<Vec<Span>>>>,
}

impl Queue {
    pub(crate) fn new(counts: SpanCounts) -> Self {
        // Bounded by `waiting`, which counts spans and not questions.
        let (sender, receiver) = unbounded_channel();
        Self {
            counts,
            waiting: AtomicUsize::new(0),
            sender,
            receiver: Mutex::new(Some(receiver)),
        }
    }

    /// Takes the spans of a question, all or none.
    pub(crate) fn offer(&self, spans: Vec<Span>) {
        let more = spans.len();
        let room = |waiting: usize| waiting.checked_add(more).filter(|sum| *sum <= WAITING_MAX);
        if self.waiting.fetch_update(Relaxed, Relaxed, room).is_err() {
            self.counts.lost(Lost::QueueFull, more);
        } else if self.sender.send(spans).is_err() {
            self.counts.lost(Lost::Shutdown, more);
        }
    }

    fn receiver(&self) -> Option<UnboundedReceiver<Vec<Span>>> {
        // Nothing panics while it is held.
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        receiver.take()
    }
}

/// Why the receiver cannot be used as it is described.
#[derive(Debug, thiserror::Error)]
#[error("otlp.endpoint cannot be used")]
pub struct InvalidReceiver(#[source] tonic::transport::Error);

/// Sends spans off.
pub(crate) struct Exporter<'a> {
    /// `None` if nobody is told.
    line: Option<Line<'a>>,
}

struct Line<'a> {
    queue: &'a Queue,
    receiver: UnboundedReceiver<Vec<Span>>,
    client: TraceServiceClient<Channel>,
    headers: MetadataMap,
    /// Taken off the queue, and not yet sent off.
    batch: Vec<Span>,
    warnings: Sparingly,
}

impl<'a> Exporter<'a> {
    /// Connects to nothing yet: the receiver may come later than the server, and go before.
    pub(crate) fn open(
        otlp: Option<&Otlp>,
        queue: Option<&'a Queue>,
    ) -> Result<Self, InvalidReceiver> {
        let Some((otlp, queue)) = otlp.zip(queue) else {
            return Ok(Self { line: None });
        };
        let client = TraceServiceClient::new(channel(otlp).map_err(InvalidReceiver)?);
        let line = queue.receiver().map(|receiver| Line {
            queue,
            receiver,
            client,
            headers: headers(otlp),
            batch: Vec::new(),
            warnings: Sparingly::default(),
        });
        Ok(Self { line })
    }

    /// Sends spans off for as long as it is polled.
    pub(crate) async fn keep(&mut self) -> Infallible {
        if let Some(line) = &mut self.line {
            while line.gather().await {
                line.send_off().await;
            }
        }
        std::future::pending().await
    }

    /// Sends off what still waits, within this time. The rest is dropped, and counted.
    pub(crate) async fn flush(mut self, time: Duration) {
        let Some(line) = &mut self.line else {
            return;
        };
        line.receiver.close();
        let deadline = Instant::now() + time;
        let all = async {
            while line.gather().await || !line.batch.is_empty() {
                line.send_off().await;
            }
        };
        let _ = timeout_at(deadline, all).await;
        let mut left = line.batch.len();
        while let Ok(spans) = line.receiver.try_recv() {
            left += spans.len();
        }
        line.queue.counts.lost(Lost::Shutdown, left);
        if left > 0 {
            tracing::warn!(
                spans = left,
                "the server ends before these spans could be sent off"
            );
        }
    }
}

impl Line<'_> {
    /// Takes spans off the queue until there are enough for a request, or the first has waited long enough.
    /// `false` if there are none, and never will be.
    async fn gather(&mut self) -> bool {
        if self.batch.is_empty() {
            match self.receiver.recv().await {
                Some(spans) => self.take(spans),
                None => return false,
            }
        }
        let until = Instant::now() + BATCH_TIME;
        while self.batch.len() < BATCH_MAX {
            match timeout_at(until, self.receiver.recv()).await {
                Ok(Some(spans)) => self.take(spans),
                Ok(None) | Err(_) => break,
            }
        }
        true
    }

    fn take(&mut self, spans: Vec<Span>) {
        self.queue.waiting.fetch_sub(spans.len(), Relaxed);
        self.batch.extend(spans);
    }

    /// Sends one request. Whatever comes of it, its spans are off the list then.
    async fn send_off(&mut self) {
        let next = self.batch.len().min(BATCH_MAX);
        let spans = self.batch[..next].to_vec();
        let sent = self.export(spans).await;
        // Not before: if this future is dropped meanwhile, they are still on the list.
        self.batch.drain(..next);
        let counts = &self.queue.counts;
        match sent {
            Ok(rejected) => {
                let rejected = rejected.min(next);
                counts.exported.inc_by((next - rejected) as u64);
                counts.lost(Lost::Rejected, rejected);
            }
            Err(status) => {
                counts.lost(Lost::Failed, next);
                if let Some(left_out) = self.warnings.turn("spans") {
                    let (code, reason) = (status.code(), status.message());
                    tracing::warn!(
                        ?code,
                        reason,
                        left_out,
                        "the receiver of traces took no spans"
                    );
                }
            }
        }
    }

    /// How many of the spans the receiver did not want.
    async fn export(&mut self, spans: Vec<Span>) -> Result<usize, Status> {
        let message = ExportTraceServiceRequest {
            resource_spans: vec![resource(spans)],
        };
        let mut pause = PAUSE;
        for attempt in 1.. {
            let mut request = Request::new(message.clone());
            *request.metadata_mut() = self.headers.clone();
            let answer = timeout(EXPORT_TIME, self.client.export(request)).await;
            let late = |_| Err(Status::deadline_exceeded("no answer in time"));
            match answer.unwrap_or_else(late) {
                Ok(taken) => {
                    let partial = taken.into_inner().partial_success;
                    let rejected = partial.map_or(0, |partial| partial.rejected_spans);
                    return Ok(usize::try_from(rejected).unwrap_or(0));
                }
                Err(status) if attempt < ATTEMPTS && may_pass(status.code()) => {
                    sleep(pause).await;
                    pause *= 2;
                }
                Err(status) => return Err(status),
            }
        }
        Ok(0)
    }
}

/// Those that the specification of OTLP calls retryable, unless another request would only add to what the
/// receiver does not keep up with.
fn may_pass(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable | Code::Cancelled | Code::Aborted | Code::OutOfRange | Code::DataLoss
    )
}

fn channel(otlp: &Otlp) -> Result<Channel, tonic::transport::Error> {
    let mut endpoint = Endpoint::from_shared(otlp.endpoint.clone())?
        .connect_timeout(EXPORT_TIME)
        .user_agent(concat!("spechop/", env!("CARGO_PKG_VERSION")))?;
    if otlp.endpoint.starts_with("https") {
        // The program's one source of cryptography. Whoever was first has chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        endpoint = endpoint.tls_config(ClientTlsConfig::new().with_native_roots())?;
    }
    Ok(endpoint.connect_lazy())
}

/// The configuration has checked them.
fn headers(otlp: &Otlp) -> MetadataMap {
    let mut headers = MetadataMap::new();
    for (name, value) in &otlp.headers {
        let name = MetadataKey::from_bytes(name.as_bytes());
        let value = AsciiMetadataValue::try_from(value.expose_secret());
        if let (Ok(name), Ok(mut value)) = (name, value) {
            value.set_sensitive(true);
            headers.append(name, value);
        }
    }
    headers
}

/// The spans as those of this program.
fn resource(spans: Vec<Span>) -> ResourceSpans {
    let text = |key, value: &str| named(key, Value::StringValue(value.to_owned()));
    ResourceSpans {
        resource: Some(Resource {
            attributes: vec![
                text("service.name", "spechop"),
                text("service.version", env!("CARGO_PKG_VERSION")),
            ],
            ..Resource::default()
        }),
        scope_spans: vec![ScopeSpans {
            scope: Some(InstrumentationScope {
                name: "spechop".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..InstrumentationScope::default()
            }),
            spans,
            ..ScopeSpans::default()
        }],
        ..ResourceSpans::default()
    }
}

#[cfg(test)]
impl Queue {
    /// The spans that wait.
    pub(crate) fn taken(&self) -> Vec<Span> {
        let mut receiver = self.receiver().unwrap();
        std::iter::from_fn(|| receiver.try_recv().ok())
            .flatten()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_queue_has_no_room_for_is_dropped_and_counted() {
        let queue = Queue::new(SpanCounts::default());
        let spans = vec![Span::default(); 1000];
        for _ in 0..20 {
            queue.offer(spans.clone());
        }
        let reason = Lost::QueueFull.as_str();
        let lost = queue.counts.dropped.get_or_create(&Why { reason }).get();
        assert_eq!(lost, 4000);
        assert_eq!(queue.taken().len(), 16_000);
    }
}
