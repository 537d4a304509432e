//! Who asks. Every door asks this file, and nobody else reads a tenant's name off a request.

use axum::http::{Extensions, HeaderMap, HeaderValue};
use spechop_types::{Tenant, TraceContext};
use tonic_types::FieldViolation;

use crate::status::AskError;

/// The header, or the metadata key of gRPC, that names the tenant.
pub(crate) const TENANT: &str = "spechop-tenant";

/// The one who asks, as far as the server knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// On whose behalf.
    pub(crate) tenant: Tenant,
    /// The span of a trace that sent the request, if it says so.
    pub(crate) trace: Option<TraceContext>,
}

/// Who sent a request with these headers. A caller that the transport has found out already, and put
/// into the extensions, has priority over what the client says of itself.
pub(crate) fn caller(headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, AskError> {
    let trace = trace(headers);
    if let Some(known) = extensions.get::<Caller>() {
        return Ok(Caller {
            trace,
            ..known.clone()
        });
    }
    let wrong = |violation| AskError::Invalid(vec![violation]);
    let Some(value) = only(TENANT, headers).map_err(wrong)? else {
        return Ok(Caller {
            trace,
            ..Caller::default()
        });
    };
    let name = value.to_str().unwrap_or_default();
    let tenant = Tenant::new(name);
    let tenant = tenant.map_err(|error| wrong(FieldViolation::new(TENANT, error.to_string())))?;
    Ok(Caller { tenant, trace })
}

/// A tenant as messages call it. The default one has no name, and another may be called "default".
pub(crate) fn named(tenant: &Tenant) -> String {
    match tenant.as_str() {
        "" => "the tenant without a name".to_owned(),
        name => format!("tenant {name}"),
    }
}

/// The trace that a request belongs to. Tracing is no reason to refuse one: whatever is not as W3C Trace
/// Context wants it counts as not said.
fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let [parent, state] = TraceContext::HEADERS;
    let parent = only(parent, headers).ok()??.to_str().ok()?;
    let states = headers.get_all(state).into_iter();
    let states: Vec<_> = states.filter_map(|value| value.to_str().ok()).collect();
    TraceContext::parse(parent, &states.join(","))
}

/// The value of a header that must not be there twice. Nobody can know which of two is meant: a client may
/// have sent one, and a proxy that knows the client the other.
pub(crate) fn only<'a>(
    key: &'static str,
    headers: &'a HeaderMap,
) -> Result<Option<&'a HeaderValue>, FieldViolation> {
    let mut values = headers.get_all(key).into_iter();
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(FieldViolation::new(
            key,
            "must be there once, not more often",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_the_transport_knows_needs_no_header() {
        let named = |name: &str| Caller {
            tenant: Tenant::new(name).unwrap(),
            trace: None,
        };
        let mut headers = HeaderMap::new();
        let mut extensions = Extensions::new();
        assert_eq!(caller(&headers, &extensions).unwrap(), Caller::default());
        headers.insert(TENANT, HeaderValue::from_static("said"));
        assert_eq!(caller(&headers, &extensions).unwrap(), named("said"));
        extensions.insert(named("known"));
        assert_eq!(caller(&headers, &extensions).unwrap(), named("known"));
    }

    #[test]
    fn a_trace_is_taken_over_if_it_is_one() {
        const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let mut headers = HeaderMap::new();
        let mut extensions = Extensions::new();
        let trace = |headers: &HeaderMap, extensions: &Extensions| {
            caller(headers, extensions).unwrap().trace
        };
        headers.insert("traceparent", HeaderValue::from_static(PARENT));
        headers.append("tracestate", HeaderValue::from_static("a=1"));
        headers.append("tracestate", HeaderValue::from_static("b=2"));
        let told = trace(&headers, &extensions).unwrap();
        assert_eq!(Some(&told), TraceContext::parse(PARENT, "a=1,b=2").as_ref());
        // A key says who asks, and not for which span.
        extensions.insert(Caller::default());
        assert_eq!(trace(&headers, &extensions), Some(told));
        headers.append("traceparent", HeaderValue::from_static(PARENT));
        assert_eq!(trace(&headers, &extensions), None);
        headers.insert("traceparent", HeaderValue::from_static("00-0-0-0"));
        assert_eq!(trace(&headers, &extensions), None);
    }

    #[test]
    fn a_name_that_is_wrong_or_there_twice_is_refused() {
        let extensions = Extensions::new();
        let mut headers = HeaderMap::new();
        headers.insert(TENANT, HeaderValue::from_static("a/b"));
        let error = caller(&headers, &extensions).unwrap_err();
        assert!(error.to_string().starts_with("spechop-tenant: "), "{error}");
        headers.insert(TENANT, HeaderValue::from_static("a"));
        headers.append(TENANT, HeaderValue::from_static("a"));
        let error = caller(&headers, &extensions).unwrap_err();
        assert!(error.to_string().contains("once"), "{error}");
    }
}
