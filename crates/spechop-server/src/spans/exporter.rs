//! Spans on their way to the receiver.
//!
//! ```text
//! question ends ── offer ─▶ queue (bounded) ── gather ─▶ spans ── send off ─▶ receiver
//!                   └ full: dropped, counted                       └ fails: again, then dropped, counted
//! ```

use std::convert::Infallible;
use std::time::Duration;

use prost::bytes::{BufMut, Bytes};
use secrecy::ExposeSecret;
use tokio::time::{sleep, timeout};
use tonic::client::Grpc;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{AsciiMetadataValue, MetadataKey, MetadataMap};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstDecoder;

use super::otlp::{BATCH_MAX, Batch, EXPORT, Exported, Parcel};
use super::queue::{Lost, Queue};
use crate::config::Otlp;
use crate::sparingly::Sparingly;

/// How long a span waits for others to go with.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// How long the receiver may take for a request.
const EXPORT_TIME: Duration = Duration::from_secs(5);
/// How often a request is sent that the receiver may yet take, and the pause before the second time. Each
/// further pause is twice as long.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

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
    client: Grpc<Channel>,
    headers: MetadataMap,
    /// Taken off the queue, and not yet sent off.
    batch: Batch,
    /// Under way. If the future that sends it is dropped, it is still here.
    parcel: Option<Parcel>,
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
        let line = Line {
            queue,
            client: Grpc::new(channel(otlp).map_err(InvalidReceiver)?),
            headers: headers(otlp),
            batch: Batch::default(),
            parcel: None,
            warnings: Sparingly::default(),
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
        if self.parcel.is_none() && self.batch.len() == 0 {
            self.queue.holds(1).await;
            let _ = timeout(BATCH_TIME, self.queue.holds(BATCH_MAX)).await;
            for story in self.queue.take() {
                story.tell(|span| self.batch.push(span));
            }
        }
        self.parcel.is_some() || self.batch.len() > 0
    }

    /// Spans that are neither sent off nor counted as lost.
    fn left(&self) -> usize {
        let waiting = std::iter::repeat_with(|| self.queue.take());
        let waiting = waiting.take_while(|stories| !stories.is_empty()).flatten();
        let waiting: usize = waiting.map(|story| story.len()).sum();
        let under_way = self.parcel.as_ref().map_or(0, |parcel| parcel.spans);
        waiting + self.batch.len() + under_way
    }

    /// Sends one request. Whatever comes of it, its spans are off the list then.
    async fn send_off(&mut self) {
        let next = self.parcel.get_or_insert_with(|| self.batch.parcel());
        let Parcel { message, spans } = next.clone();
        let sent = self.export(message).await;
        self.parcel = None;
        let counts = &self.queue.counts;
        match sent {
            Ok(rejected) => {
                let rejected = rejected.min(spans);
                counts.exported.inc_by((spans - rejected) as u64);
                counts.lost(Lost::Rejected, rejected);
            }
            Err(status) => {
                counts.lost(Lost::Failed, spans);
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
    async fn export(&mut self, message: Bytes) -> Result<usize, Status> {
        let mut pause = PAUSE;
        for attempt in 1.. {
            let mut request = Request::new(message.clone());
            *request.metadata_mut() = self.headers.clone();
            let answer = timeout(EXPORT_TIME, self.call(request)).await;
            let late = |_| Err(Status::deadline_exceeded("no answer in time"));
            match answer.unwrap_or_else(late) {
                Ok(Exported { partial_success }) => {
                    let rejected = partial_success.map_or(0, |partial| partial.rejected_spans);
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

    async fn call(&mut self, request: Request<Bytes>) -> Result<Exported, Status> {
        let broken = |error| Status::unavailable(format!("no connection: {error}"));
        self.client.ready().await.map_err(broken)?;
        let path = PathAndQuery::from_static(EXPORT);
        let answer = self.client.unary(request, path, Encoded).await;
        answer.map(tonic::Response::into_inner)
    }
}

/// Requests that are encoded already; answers are [`Exported`].
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = Exported;
    type Encoder = Self;
    type Decoder = ProstDecoder<Exported>;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::default()
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
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

#[cfg(test)]
impl Queue {
    /// The spans that wait, as a receiver reads them.
    pub(crate) fn taken(&self) -> Vec<opentelemetry_proto::tonic::trace::v1::Span> {
        use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
        use prost::Message;

        let mut batch = Batch::default();
        let stories = std::iter::repeat_with(|| self.take());
        for story in stories.take_while(|stories| !stories.is_empty()).flatten() {
            let before = batch.len();
            story.tell(|span| batch.push(span));
            assert_eq!(batch.len() - before, story.len());
        }
        let parcels = std::iter::from_fn(|| (batch.len() > 0).then(|| batch.parcel()));
        parcels
            .map(|parcel| ExportTraceServiceRequest::decode(parcel.message).unwrap())
            .flat_map(|request| request.resource_spans)
            .flat_map(|resource| resource.scope_spans)
            .flat_map(|scope| scope.spans)
            .collect()
    }
}
