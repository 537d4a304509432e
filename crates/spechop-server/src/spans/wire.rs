//! The messages of OTLP that this program sends: `opentelemetry/proto/collector/trace/v1` and what it uses, as
//! far as it fills them in. Field numbers are those of that protocol.
//!
//! On the wire a string is its bytes. A `Bytes` takes a text of the program without copying it, and a question
//! has a hundred of them.

use prost::bytes::Bytes;
use prost::{Message, Oneof};

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Export {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

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

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) version: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) span_id: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) trace_state: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) parent_span_id: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) name: Bytes,
    /// `SpanKind`: [`INTERNAL`] or [`SERVER`].
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    pub(super) links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    pub(super) flags: u32,
}

pub(super) const INTERNAL: i32 = 1;
pub(super) const SERVER: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Link {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) span_id: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) trace_state: Bytes,
    #[prost(message, repeated, tag = "4")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(fixed32, tag = "6")]
    pub(super) flags: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) message: Bytes,
    /// `StatusCode`: [`ERROR`].
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

pub(super) const ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(bytes = "bytes", tag = "1")]
    Text(Bytes),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
    #[prost(double, tag = "4")]
    Decimal(f64),
}

impl Value {
    pub(super) fn text(text: &'static str) -> Self {
        Self::Text(Bytes::from_static(text.as_bytes()))
    }
}
