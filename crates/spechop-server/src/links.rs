//! The addresses under which clients find passages of this server. Every door that cites asks this file.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use axum::http::header::HOST;
use axum::http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use spechop_config::{PublicUrl, Server};
use spechop_types::Passage;

/// What stands as it is in a path: unreserved characters (RFC 3986, section 2.3) and the slash.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// How this server is reached.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    public_url: Option<PublicUrl>,
    has_tls: bool,
}

/// The address of this server, as one client knows it, without a slash at its end. By default links are
/// relative.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base(pub(crate) String);

impl Links {
    pub(crate) fn of(server: &Server) -> Self {
        Self {
            public_url: server.public_url.clone(),
            has_tls: server.tls.is_some(),
        }
    }

    /// `server.public_url`, or the address to which the request was sent. A header such as
    /// `X-Forwarded-Proto` counts for nothing: anybody can send it.
    pub(crate) fn base(&self, request: &Parts) -> Option<Base> {
        if let Some(url) = &self.public_url {
            return Some(Base(url.as_str().to_owned()));
        }
        let named = request.uri.authority().map(|name| name.as_str());
        let host = request.headers.get(HOST);
        let host = named.or_else(|| host?.to_str().ok())?;
        let scheme = if self.has_tls { "https" } else { "http" };
        Some(Base(format!("{scheme}://{host}")))
    }
}

impl Base {
    /// Where the passage of this identifier is shown; `None` if it has no page.
    pub(crate) fn passage(&self, id: &str) -> Option<String> {
        has_page(id).then(|| format!("{}/p/{}", self.0, utf8_percent_encode(id, KEPT)))
    }
}

/// Begins the identifiers of passages that a client has left.
const LEFT: &str = "tool-";

/// The identifier of a passage that a client has left in the place of a look-up. The client's own says
/// nothing here: another output may have the same for another text, and so may the index.
pub(crate) fn id_of_left(passage: &Passage) -> Arc<str> {
    let mut hasher = DefaultHasher::new();
    (&*passage.id, &*passage.title, &*passage.text).hash(&mut hasher);
    format!("{LEFT}{:016x}", hasher.finish()).into()
}

/// Whether the index may have the passage of this identifier, so that `/p/` shows it. It has none that
/// a client has left.
pub(crate) fn has_page(id: &str) -> bool {
    let hash = id.strip_prefix(LEFT).unwrap_or_default();
    let is_left = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    !is_left
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use spechop_testkit::passage;

    use super::*;

    fn link(links: &Links, uri: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        links.base(&parts)?.passage("a b/é")
    }

    #[test]
    fn what_a_client_has_left_has_no_page() {
        let left = |id: &str, title: &str, text: &str| id_of_left(&passage(id, title, text));
        let ids = [
            left("1", "T", "a"),
            left("2", "T", "a"),
            left("1", "U", "a"),
            left("1", "T", "b"),
        ];
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        assert_eq!(ids[0], left("1", "T", "a"));
        let base = Base("http://h".to_owned());
        for id in &ids {
            assert_eq!(base.passage(id), None, "{id}");
        }
        // Names of the index that only look alike.
        for id in ["tool-box.md", "tool-", "1", "0123456789abcdef"] {
            assert_eq!(base.passage(id), Some(format!("http://h/p/{id}")));
        }
    }

    #[test]
    fn a_link_has_the_scheme_of_the_server_or_its_public_address() {
        let path = "/p/a%20b/%C3%A9";
        let clear = Links {
            public_url: None,
            has_tls: false,
        };
        let forwarded = [("host", "h:1"), ("x-forwarded-proto", "https")];
        assert_eq!(
            link(&clear, "/v1", &forwarded),
            Some(format!("http://h:1{path}"))
        );
        let secure = Links {
            has_tls: true,
            ..clear.clone()
        };
        // Over HTTP/2 the name stands in the URI, and so does what the client takes for the scheme.
        assert_eq!(
            link(&secure, "http://qa.example/v1", &[]),
            Some(format!("https://qa.example{path}"))
        );
        assert_eq!(link(&clear, "/v1", &[]), None);
        let public = Links {
            public_url: Some("https://qa.example/spechop/".parse().unwrap()),
            has_tls: false,
        };
        assert_eq!(
            link(&public, "/v1", &[("host", "127.0.0.1:50051")]),
            Some(format!("https://qa.example/spechop{path}"))
        );
    }
}
