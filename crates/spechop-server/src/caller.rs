//! Who asks. Every door asks this file, and nobody else reads a tenant's name off a request.

use axum::http::{Extensions, HeaderMap, HeaderValue};
use spechop_types::Tenant;
use tonic_types::FieldViolation;

use crate::status::AskError;

/// The header, or the metadata key of gRPC, that names the tenant.
pub(crate) const TENANT: &str = "spechop-tenant";

/// The one who asks, as far as the server knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// On whose behalf.
    pub(crate) tenant: Tenant,
}

/// Who sent a request with these headers. A caller that the transport has found out already, and put
/// into the extensions, has priority over what the client says of itself.
pub(crate) fn caller(headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, AskError> {
    if let Some(known) = extensions.get::<Caller>() {
        return Ok(known.clone());
    }
    let wrong = |violation| AskError::Invalid(vec![violation]);
    let Some(value) = only(TENANT, headers).map_err(wrong)? else {
        return Ok(Caller::default());
    };
    let name = value.to_str().unwrap_or_default();
    let tenant = Tenant::new(name);
    let tenant = tenant.map_err(|error| wrong(FieldViolation::new(TENANT, error.to_string())))?;
    Ok(Caller { tenant })
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
