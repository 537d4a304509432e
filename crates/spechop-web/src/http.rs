//! How a server of the operator's choice is asked: within a time limit and a size. Redirects are not
//! followed, and proxies of the environment not used: the operator names one, or there is none.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderValue, InvalidHeaderValue};
use reqwest::{Client, ClientBuilder, RequestBuilder, StatusCode, redirect};
use secrecy::{ExposeSecret, SecretString};
use spechop_ports::{Call, base_url, is_loopback};
use spechop_types::innermost;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::proxy::{Proxy, through};

/// Used less long ago, a connection is still open.
const OPEN_FOR: Duration = Duration::from_secs(60);

/// How the client says that a proxy refuses a tunnel with status 407. It shows no type for that.
const WANTS_LOGIN: &str = "proxy authorization required";

/// A server's address, as the operator describes it, and what an answer may take.
#[derive(Clone, Debug)]
pub struct HttpEndpoint {
    /// What it is called in messages, metrics and changes of provider.
    pub name: Arc<str>,
    /// Where it is. The operator's own choice, so that it may well be on this machine.
    pub base_url: String,
    /// Sent along if it has keys; never shown.
    pub key: Option<SecretString>,
    /// For one request, from the first byte sent to the last one read.
    pub time_limit: Duration,
    /// Longest answer, in bytes.
    pub body_bytes_max: usize,
    /// The name by which it is asked, e.g. `Acme/2`; by default this program's.
    pub user_agent: Option<String>,
    /// How its operator can reach this server's, e.g. a URL or an e-mail address. Part of the
    /// User-Agent; Wikipedia insists on one.
    pub contact: Option<String>,
    /// The way to it, unless it is on this machine.
    pub proxy: Option<Proxy>,
}

impl HttpEndpoint {
    /// An endpoint without a key: 10 s and 2 MiB a request.
    pub fn new(name: impl Into<Arc<str>>, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            base_url: base_url.into(),
            key: None,
            time_limit: Duration::from_secs(10),
            body_bytes_max: 2 * 1024 * 1024,
            user_agent: None,
            contact: None,
            proxy: None,
        }
    }

    /// Says what is wrong with the address, without asking anybody.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check_url(&self) -> Result<(), InvalidHttpEndpoint> {
        base(self).map(drop)
    }

    /// Says what is wrong with the key, if there is one.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check_key(&self) -> Result<(), InvalidHttpEndpoint> {
        match self.key {
            Some(_) => key(self, "Bearer ").map(drop),
            None => Ok(()),
        }
    }

    /// A client for this address alone, and the address itself. The client sets no limit to a whole
    /// request, only to the connecting, and it sends no key by itself.
    ///
    /// # Errors
    ///
    /// What is wrong with the address, the name or the contact.
    pub fn client(&self) -> Result<(Client, Url), InvalidHttpEndpoint> {
        let (client, base) = self.client_builder()?;
        Ok((client.build().map_err(InvalidHttpEndpoint::Client)?, base))
    }

    /// The same before the client is built, for those who have more to say of TLS than the address does.
    ///
    /// # Errors
    ///
    /// As with [`HttpEndpoint::client`].
    pub fn client_builder(&self) -> Result<(ClientBuilder, Url), InvalidHttpEndpoint> {
        let name = &self.name;
        let base = base(self)?;
        let own = concat!("spechop/", env!("CARGO_PKG_VERSION"));
        let asker = self.user_agent.as_deref().unwrap_or(own);
        let agent = match &self.contact {
            Some(contact) => format!("{asker} ({contact})"),
            None => asker.to_owned(),
        };
        let agent = HeaderValue::try_from(agent).map_err(|source| InvalidHttpEndpoint::Header {
            name: Arc::clone(name),
            source,
        })?;
        // The program's one source of cryptography. Whoever was first has chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let host = base.host_str().unwrap_or_default();
        // What a proxy took for this machine would be the proxy's own.
        let proxy = self.proxy.as_ref().filter(|_| !is_loopback(host));
        // Nothing that the environment says may send a question elsewhere.
        let client = through(Client::builder(), proxy).map_err(InvalidHttpEndpoint::Client)?;
        let mut client = client
            .user_agent(agent)
            .connect_timeout(self.time_limit)
            // A redirect could carry a key to a host that nobody chose.
            .redirect(redirect::Policy::none())
            .tcp_nodelay(true);
        if base.scheme() == "http" {
            if !proxy.is_some_and(Proxy::is_tls) {
                // No root certificates need be there if none is used.
                client = client.tls_certs_only([]);
            }
            if self.key.is_some() && !is_loopback(host) {
                tracing::warn!(host, "the key of this endpoint travels unencrypted");
            }
        }
        Ok((client, base))
    }
}

impl HttpEndpoint {
    /// Whether nobody on the way can change what it says: it speaks TLS, or is on this machine.
    ///
    /// # Errors
    ///
    /// What is wrong with the address.
    pub fn is_safe_from_others(&self) -> Result<bool, InvalidHttpEndpoint> {
        let url = base(self)?;
        Ok(url.scheme() == "https" || is_loopback(url.host_str().unwrap_or_default()))
    }

    /// What lies at the address itself.
    ///
    /// # Errors
    ///
    /// There is no answer, or one that says that something is wrong.
    pub async fn fetch(&self) -> Result<Vec<u8>, FetchError> {
        let http = Http::new(self)?;
        let request = http.get(http.base().clone());
        let answer = http.read(request, &mut |_, _| {}).await;
        let answer = answer.map_err(|broken| FetchError::Broken(broken.to_string()))?;
        match answer.status.is_success() {
            true => Ok(answer.body),
            false => Err(FetchError::Status(answer.status.as_u16())),
        }
    }
}

/// Why nothing came from an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It cannot be used as it is described.
    #[error(transparent)]
    Endpoint(#[from] InvalidHttpEndpoint),
    /// No connection, a broken one, too late or too long.
    #[error("{0}")]
    Broken(String),
    /// It answered with this status of HTTP. Redirects are not followed.
    #[error("the answer has status {0}")]
    Status(u16),
}

/// Why an endpoint cannot be used as it is described.
#[derive(Debug, thiserror::Error)]
pub enum InvalidHttpEndpoint {
    /// The base URL is none, or not one that we speak to.
    #[error("the base URL of {name} is unusable: {reason}")]
    Url {
        /// Which endpoint.
        name: Arc<str>,
        /// What is wrong with it.
        reason: String,
    },
    /// It wants a key, and none is given.
    #[error("{name} needs a key")]
    NoKey {
        /// Which endpoint.
        name: Arc<str>,
    },
    /// The key or the user agent, in which the contact is, cannot be sent in a header.
    #[error("the key or the user agent for {name} holds characters that a header cannot carry")]
    Header {
        /// Which endpoint.
        name: Arc<str>,
        /// What the header said. It does not quote the value.
        source: InvalidHeaderValue,
    },
    /// The HTTP client could not be made, e.g. because there are no root certificates.
    #[error("no HTTP client could be made")]
    Client(#[source] reqwest::Error),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// No connection, or a broken one.
    #[error("{0}")]
    Line(String),
    /// No way through the proxy: its answer, or its refusal of a tunnel.
    #[error("status 407: the proxy wants another login")]
    ProxyLogin,
    #[error("no answer within {} ms", .limit.as_millis())]
    Late { limit: Duration },
    #[error("more than {most} bytes")]
    TooLong { most: usize },
}

/// A client for one server.
#[derive(Debug)]
pub(crate) struct Http {
    client: Client,
    base: Url,
    name: Arc<str>,
    time_limit: Duration,
    body_bytes_max: usize,
    used: Mutex<Option<Instant>>,
}

/// Whatever a server answered.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Http {
    pub(crate) fn new(endpoint: &HttpEndpoint) -> Result<Self, InvalidHttpEndpoint> {
        let (client, base) = endpoint.client()?;
        Ok(Self {
            client,
            base,
            name: Arc::clone(&endpoint.name),
            time_limit: endpoint.time_limit,
            body_bytes_max: endpoint.body_bytes_max,
            used: Mutex::default(),
        })
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The base URL as it is.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// The base URL with `path` behind it.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        // `http` and `https` URLs always have a path.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments
                .pop_if_empty()
                .extend(path.split('/').filter(|segment| !segment.is_empty()));
        }
        url
    }

    pub(crate) fn get(&self, url: Url) -> RequestBuilder {
        self.client.get(url)
    }

    pub(crate) fn post(&self, url: Url) -> RequestBuilder {
        self.client.post(url)
    }

    /// Opens a connection, unless one is open. It is asked for nothing of interest.
    pub(crate) async fn warm(&self) {
        if self.is_open() {
            return;
        }
        let mut root = self.base.clone();
        root.set_path("/");
        root.set_query(None);
        let asked = self.client.head(root).send();
        // Whatever it says to that, or if it says nothing: the next request will tell.
        let _ = timeout(self.time_limit, asked).await;
        self.touch();
    }

    /// Sends the request on behalf of a call, whose trace goes with it, and reads whatever comes.
    pub(crate) async fn send(
        &self,
        call: &Call,
        request: RequestBuilder,
    ) -> Result<Answer, Broken> {
        self.send_and_watch(call, request, &mut |_, _| {}).await
    }

    /// As [`Http::send`]; `so_far` is shown the status and the body whenever more of it has come.
    pub(crate) async fn send_and_watch(
        &self,
        call: &Call,
        mut request: RequestBuilder,
        so_far: &mut (dyn FnMut(StatusCode, &[u8]) + Send),
    ) -> Result<Answer, Broken> {
        for (name, value) in call.trace_headers() {
            request = request.header(name, value);
        }
        self.read(request, so_far).await
    }

    /// Sends the request and reads whatever comes.
    async fn read(
        &self,
        request: RequestBuilder,
        so_far: &mut (dyn FnMut(StatusCode, &[u8]) + Send),
    ) -> Result<Answer, Broken> {
        let work = async {
            let mut response = request.send().await.map_err(broken)?;
            self.touch();
            let (status, headers) = (response.status(), response.headers().clone());
            let mut body = Vec::new();
            while let Some(piece) = response.chunk().await.map_err(broken)? {
                if body.len() + piece.len() > self.body_bytes_max {
                    return Err(Broken::TooLong {
                        most: self.body_bytes_max,
                    });
                }
                body.extend_from_slice(&piece);
                so_far(status, &body);
            }
            Ok(Answer {
                status,
                headers,
                body,
            })
        };
        timeout(self.time_limit, work).await.unwrap_or_else(|_| {
            let limit = self.time_limit;
            Err(Broken::Late { limit })
        })
    }

    fn is_open(&self) -> bool {
        let used = *self.used.lock();
        used.is_some_and(|at| at.elapsed() < OPEN_FOR)
    }

    fn touch(&self) {
        *self.used.lock() = Some(Instant::now());
    }
}

/// The key as a header's value after `scheme`, marked as sensitive.
pub(crate) fn key(
    endpoint: &HttpEndpoint,
    scheme: &str,
) -> Result<HeaderValue, InvalidHttpEndpoint> {
    let name = || Arc::clone(&endpoint.name);
    let key = endpoint.key.as_ref().map(|key| key.expose_secret().trim());
    let Some(key) = key.filter(|key| !key.is_empty()) else {
        return Err(InvalidHttpEndpoint::NoKey { name: name() });
    };
    let value = HeaderValue::try_from(format!("{scheme}{key}"));
    let mut value = value.map_err(|source| InvalidHttpEndpoint::Header {
        name: name(),
        source,
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn base(endpoint: &HttpEndpoint) -> Result<Url, InvalidHttpEndpoint> {
    base_url(&endpoint.base_url).map_err(|reason| InvalidHttpEndpoint::Url {
        name: Arc::clone(&endpoint.name),
        reason,
    })
}

fn broken(error: reqwest::Error) -> Broken {
    // The last cause says the most, and none of them holds what was asked.
    let cause = innermost(&error.without_url()).to_string();
    match cause.contains(WANTS_LOGIN) {
        true => Broken::ProxyLogin,
        false => Broken::Line(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_used_or_what_is_wrong_is_said() {
        for (base, url) in [
            ("http://h:1", "http://h:1/web/search"),
            ("http://h:1/v1/", "http://h:1/v1/web/search"),
            ("https://h/v1", "https://h/v1/web/search"),
        ] {
            let http = Http::new(&HttpEndpoint::new("a", base)).unwrap();
            assert_eq!(http.url("/web/search").as_str(), url);
        }
        for base in ["", "h:80", "ftp://h/", "http://u:p@h/", "http://h/?q=1"] {
            let error = Http::new(&HttpEndpoint::new("a", base)).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("the base URL of a is unusable"),
                "{base:?}: {error}"
            );
        }
    }

    #[test]
    fn a_key_is_needed_and_never_shown() {
        let mut endpoint = HttpEndpoint::new("a", "http://h/");
        for none in [None, Some(""), Some(" ")] {
            endpoint.key = none.map(SecretString::from);
            let error = key(&endpoint, "Bearer ").unwrap_err();
            assert_eq!(error.to_string(), "a needs a key");
        }
        endpoint.key = Some("sk-secret".into());
        let value = key(&endpoint, "Bearer ").unwrap();
        assert_eq!(value, "Bearer sk-secret");
        assert!(!format!("{endpoint:?} {value:?}").contains("secret"));
        endpoint.key = Some("secret\n".repeat(2).into());
        let error = key(&endpoint, "").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("secret"));
    }
}
