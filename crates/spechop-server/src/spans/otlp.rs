//! The request of OTLP around spans, in the protocol's own types.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

/// Spans of one request.
pub(super) const BATCH_MAX: usize = 512;

const NAME: &str = "spechop";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A request with these spans. They are this program's.
pub(super) fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let text = |key, value: &str| attribute(key, Value::StringValue(value.to_owned()));
    let resource = Resource {
        attributes: vec![text("service.name", NAME), text("service.version", VERSION)],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: NAME.to_owned(),
        version: VERSION.to_owned(),
        ..InstrumentationScope::default()
    };
    let spans = ScopeSpans {
        scope: Some(scope),
        spans,
        ..ScopeSpans::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![spans],
            ..ResourceSpans::default()
        }],
    }
}

/// An attribute of a span, of a link or of this program.
pub(super) fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
