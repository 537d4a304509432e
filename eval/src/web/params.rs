//! The parameters of a request, wherever it has them.

use std::collections::HashMap;
use std::convert::Infallible;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use url::form_urlencoded::parse;

/// Parameters of the address and of a form in the body; the latter go first.
#[derive(Debug, Default)]
pub(super) struct Params(HashMap<String, String>);

impl Params {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Whether it is there, with or without a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// `None` where it is no number, too.
    pub(super) fn number(&self, key: &str) -> Option<usize> {
        self.get(key)?.parse().ok()
    }
}

impl<S: Send + Sync> FromRequest<S> for Params {
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        // A body that breaks off holds no parameters.
        let body = Bytes::from_request(request, state)
            .await
            .unwrap_or_default();
        let both = [query.as_bytes(), &body[..]].into_iter().flat_map(parse);
        Ok(Self(
            both.map(|(key, value)| (key.into_owned(), value.into_owned()))
                .collect(),
        ))
    }
}
