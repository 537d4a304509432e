//! The messages of OTLP that this program sends: `opentelemetry/proto/collector/trace/v1` and what it uses, as
//! far as it fills them in. The numbers of fields are those of that protocol.
//!
//! They are written field by field rather than as structs of strings: a question has a dozen spans with a
//! hundred attributes, and each of them would be two allocations. The tests read them with the protocol's own
//! types.

use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use super::key::Key;

/// What a receiver of traces serves.
pub(super) const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Spans of one request.
pub(super) const BATCH_MAX: usize = 512;

/// `ExportTraceServiceResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Exported {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<PartialSuccess>,
}

/// `ExportTracePartialSuccess`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected_spans: i64,
}

/// `Span`.
pub(super) struct Span<'a> {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) trace_state: &'a str,
    pub(super) parent_span_id: Option<[u8; 8]>,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) start_time_unix_nano: u64,
    pub(super) end_time_unix_nano: u64,
    pub(super) attributes: Vec<(Key, Value)>,
    pub(super) links: Vec<Link>,
    /// What went wrong, if anything did.
    pub(super) error: Option<&'static str>,
    pub(super) flags: u32,
}

/// `SpanKind`.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
}

/// `StatusCode`.
const ERROR: u64 = 2;

/// `Span.Link`, to a span of the same trace.
pub(super) struct Link {
    pub(super) span_id: [u8; 8],
    pub(super) attribute: (Key, Value),
    pub(super) flags: u32,
}

/// `AnyValue`.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Text(&'static str),
    Flag(bool),
    Number(i64),
    Decimal(f64),
}

/// A request, `ExportTraceServiceRequest`. It is encoded once, and sent as often as it takes.
#[derive(Clone)]
pub(super) struct Parcel {
    pub(super) message: Bytes,
    pub(super) spans: usize,
}

/// Spans that are to be sent, each written as a field of `ScopeSpans`.
#[derive(Default)]
pub(super) struct Batch {
    written: Writer,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn push(&mut self, span: &Span<'_>) {
        self.written.nested(2, |to| span.write(to));
        self.ends.push(self.written.0.len());
    }

    /// The first spans, as many as fit into a request. They are this program's.
    pub(super) fn parcel(&mut self) -> Parcel {
        const VERSION: &str = env!("CARGO_PKG_VERSION");
        let spans = self.ends.len().min(BATCH_MAX);
        let end = spans.checked_sub(1).map_or(0, |last| self.ends[last]);
        let rest = self.written.0.split_off(end);
        let first = std::mem::replace(&mut self.written.0, rest);
        self.ends.drain(..spans);
        self.ends.iter_mut().for_each(|other| *other -= end);
        let mut message = Writer(Vec::with_capacity(first.len() + 256));
        message.nested(1, |resource_spans| {
            resource_spans.nested(1, |resource| {
                resource.attribute(1, "service.name", Value::Text("spechop"));
                resource.attribute(1, "service.version", Value::Text(VERSION));
            });
            resource_spans.nested(2, |scope_spans| {
                scope_spans.nested(1, |scope| {
                    scope.bytes(1, b"spechop");
                    scope.bytes(2, VERSION.as_bytes());
                });
                scope_spans.0.extend(first);
            });
        });
        Parcel {
            message: message.0.into(),
            spans,
        }
    }
}

impl Span<'_> {
    fn write(&self, to: &mut Writer) {
        to.bytes(1, &self.trace_id);
        to.bytes(2, &self.span_id);
        to.bytes(3, self.trace_state.as_bytes());
        if let Some(parent) = &self.parent_span_id {
            to.bytes(4, parent);
        }
        to.bytes(5, self.name.as_bytes());
        to.number(6, self.kind as u64);
        to.fixed64(7, self.start_time_unix_nano);
        to.fixed64(8, self.end_time_unix_nano);
        for (key, value) in &self.attributes {
            to.attribute(9, key.as_str(), *value);
        }
        for link in &self.links {
            to.nested(13, |to| {
                to.bytes(1, &self.trace_id);
                to.bytes(2, &link.span_id);
                to.bytes(3, self.trace_state.as_bytes());
                let (key, value) = link.attribute;
                to.attribute(4, key.as_str(), value);
                to.fixed32(6, link.flags);
            });
        }
        if let Some(error) = self.error {
            to.nested(15, |status| {
                status.bytes(2, error.as_bytes());
                status.number(3, ERROR);
            });
        }
        to.fixed32(16, self.flags);
    }
}

/// Writes fields of protobuf's wire format.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, field: u32, value: u64) {
        encode_key(field, WireType::Varint, &mut self.0);
        encode_varint(value, &mut self.0);
    }

    fn fixed64(&mut self, field: u32, value: u64) {
        encode_key(field, WireType::SixtyFourBit, &mut self.0);
        self.0.extend(value.to_le_bytes());
    }

    fn fixed32(&mut self, field: u32, value: u32) {
        encode_key(field, WireType::ThirtyTwoBit, &mut self.0);
        self.0.extend(value.to_le_bytes());
    }

    /// Also a string. Nothing if it is empty.
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            encode_key(field, WireType::LengthDelimited, &mut self.0);
            encode_varint(bytes.len() as u64, &mut self.0);
            self.0.extend_from_slice(bytes);
        }
    }

    /// A message.
    fn nested(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        let at = self.0.len();
        // Its length stands before it, and takes one byte as a rule.
        self.0.push(0);
        write(self);
        let length = self.0.len() - at - 1;
        match u8::try_from(length) {
            Ok(short @ ..0x80) => self.0[at] = short,
            _ => {
                let mut long = Vec::with_capacity(encoded_len_varint(length as u64));
                encode_varint(length as u64, &mut long);
                self.0.splice(at..=at, long);
            }
        }
    }

    /// `KeyValue`.
    fn attribute(&mut self, field: u32, key: &str, value: Value) {
        self.nested(field, |to| {
            to.bytes(1, key.as_bytes());
            // A value of a `oneof` is written although it is nothing.
            to.nested(2, |to| match value {
                Value::Text(text) => {
                    encode_key(1, WireType::LengthDelimited, &mut to.0);
                    encode_varint(text.len() as u64, &mut to.0);
                    to.0.extend_from_slice(text.as_bytes());
                }
                Value::Flag(flag) => to.number(2, u64::from(flag)),
                // As protobuf has it: two's complement.
                Value::Number(number) => to.number(3, number.cast_unsigned()),
                Value::Decimal(number) => to.fixed64(4, number.to_bits()),
            });
        });
    }
}
