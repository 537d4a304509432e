//! Spans on their way to the receiver.
//!
//! ```text
//! question ends ── offer ─▶ queue (bounded) ── gather ─▶ spans ── send off ─▶ receiver
//!                   └ full: dropped, counted                       └ fails: again, then dropped, counted
//! ```

use std::convert::Infallible;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::Span;
use secrecy::ExposeSecret;
use spechop_config::Otlp;
use spechop_ports::retry::Retries;
use tokio::time::{sleep, timeout};
use tonic::metadata::{AsciiMetadataValue, MetadataKey, MetadataMap};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use super::otlp::{self, BATCH_MAX};
use super::queue::{Lost, Queue};
use crate::outage::Outage;

/// How long a span waits for others to go with.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// How long the receiver may take for a request.
const EXPORT_TIME: Duration = Duration::from_secs(5);
/// How often the connection is tried while a request waits, and how long it then may stay silent. A receiver
/// whose machine is gone says nothing. Both together are less than [`EXPORT_TIME`], so that the request itself is
/// sent again over another connection.
const ALIVE: Duration = Duration::from_millis(1500);
/// For a request that the receiver may yet take.
const RETRIES: Retries = Retries {
    max: 2,
    pause: Duration::from_millis(500),
    pause_max: Duration::from_secs(1),
};

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
    client: TraceServiceClient<Channel>,
    headers: MetadataMap,
    /// Taken off the queue, and neither sent off nor counted as lost. Those that are under way stay here: the
    /// future that sends them may be dropped.
    batch: Vec<Span>,
    outage: Outage,
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
        let line = Line {
            queue,
            client: TraceServiceClient::new(channel(otlp).map_err(InvalidReceiver)?),
            headers: headers(otlp),
            batch: Vec::new(),
            outage: Outage::default(),
        };
        Ok(Self { line: Some(line) })
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
        line.queue.close();
        let all = async {
            while line.gather().await {
                line.send_off().await;
            }
        };
        let _ = timeout(time, all).await;
        let left = line.left();
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
    /// Takes stories off the queue if there is nothing to send: those of a request, or what has come a while
    /// after the first. `false` if there are none, and never will be.
    async fn gather(&mut self) -> bool {
        if self.batch.is_empty() {
            self.queue.holds(1).await;
            let _ = timeout(BATCH_TIME, self.queue.holds(BATCH_MAX)).await;
            for story in self.queue.take() {
                self.batch.extend(story.tell());
            }
        }
        !self.batch.is_empty()
    }

    /// Spans that are neither sent off nor counted as lost.
    fn left(&self) -> usize {
        let waiting = std::iter::repeat_with(|| self.queue.take());
        let waiting = waiting.take_while(|stories| !stories.is_empty()).flatten();
        let waiting: usize = waiting.map(|story| story.len()).sum();
        waiting + self.batch.len()
    }

    /// Sends one request. Whatever comes of it, its spans are off the list then.
    async fn send_off(&mut self) {
        let spans = self.batch.len().min(BATCH_MAX);
        let sent = self.export(spans).await;
        self.batch.drain(..spans);
        let counts = &self.queue.counts;
        match sent {
            Ok(rejected) => {
                let rejected = rejected.min(spans);
                counts.exported.inc_by((spans - rejected) as u64);
                counts.lost(Lost::Rejected, rejected);
                if self.outage.works() {
                    tracing::info!("the receiver of traces takes spans again");
                }
            }
            Err(status) => {
                counts.lost(Lost::Failed, spans);
                let (code, reason) = (status.code(), status.message());
                if self.outage.fails(reason).is_none() {
                    tracing::warn!(?code, reason, "the receiver of traces takes no spans");
                }
            }
        }
    }

    /// Sends the first `spans` of the batch. Returns how many of them the receiver did not want.
    async fn export(&mut self, spans: usize) -> Result<usize, Status> {
        let mut retried = 0;
        loop {
            let spans = self.batch.iter().take(spans).cloned().collect();
            let mut request = Request::new(otlp::request(spans));
            *request.metadata_mut() = self.headers.clone();
            let answer = timeout(EXPORT_TIME, self.client.export(request)).await;
            let late = |_| Err(Status::deadline_exceeded("no answer in time"));
            match answer.unwrap_or_else(late) {
                Ok(answer) => {
                    let partial = answer.into_inner().partial_success;
                    let rejected = partial.map_or(0, |partial| partial.rejected_spans);
                    return Ok(usize::try_from(rejected).unwrap_or(0));
                }
                Err(status) if retried < RETRIES.max && may_pass(status.code()) => {
                    sleep(RETRIES.pause(retried)).await;
                    retried += 1;
                }
                Err(status) => return Err(status),
            }
        }
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
        .http2_keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .user_agent(concat!("spechop/", env!("CARGO_PKG_VERSION")))?;
    if endpoint.uri().scheme_str() == Some("https") {
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
