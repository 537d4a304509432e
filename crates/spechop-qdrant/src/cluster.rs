//! One Qdrant: a server, or several that share their collections.
//!
//! A request goes to the server that answered last. If it does not answer, the next attempt goes to
//! the next server.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use qdrant_client::config::QdrantConfig;
use qdrant_client::qdrant::{CollectionInfo, GetCollectionInfoRequest};
use qdrant_client::{Qdrant, QdrantError};
use secrecy::{ExposeSecret, SecretString};
use spechop_ports::retry::{FailedAttempt, Retries, retry};
use spechop_ports::{Call, PortError};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use url::Url;

use crate::failure::{Site, sorted};
use crate::version;

/// How to reach Qdrant.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The gRPC addresses of its servers, e.g. `http://127.0.0.1:6334`; `https` for TLS.
    pub urls: Vec<String>,
    /// The API key, if the servers want one.
    pub key: Option<SecretString>,
    /// For one attempt.
    pub time_limit: Duration,
    /// For a whole request: attempts, retries and the pauses between them.
    pub total: Duration,
    /// What to do about failures that may pass.
    pub retries: Retries,
    /// Connections to each server.
    pub connections: NonZeroUsize,
}

impl ClusterOptions {
    /// For searches, without a key: 5 s an attempt, 15 s in all.
    pub fn new(urls: Vec<String>) -> Self {
        Self {
            urls,
            key: None,
            time_limit: Duration::from_secs(5),
            total: Duration::from_secs(15),
            retries: Retries::default(),
            connections: NonZeroUsize::MIN.saturating_add(2),
        }
    }

    /// For a push, which has time: a minute an attempt, ten minutes in all.
    pub fn patient(self) -> Self {
        Self {
            time_limit: Duration::from_secs(60),
            total: Duration::from_secs(600),
            retries: Retries {
                max: 8,
                ..Retries::default()
            },
            ..self
        }
    }
}

/// Options with which no server can be asked.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOptions {
    /// There is no address.
    #[error("no address of a Qdrant server: name at least one, e.g. http://127.0.0.1:6334")]
    NoUrl,
    /// An address that is none.
    #[error("{url:?} is no address of a Qdrant server: {problem}, e.g. http://127.0.0.1:6334")]
    Url {
        /// As it was written, without what could be a secret.
        url: String,
        /// What should stand there.
        problem: &'static str,
    },
    /// The key cannot be sent.
    #[error("the API key cannot be sent: expected visible ASCII characters and nothing else")]
    Key,
    /// The client could not be made.
    #[error("cannot make a client of {url}")]
    Client {
        /// Of which server.
        url: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// How long a server that has not heard of a change is left alone.
const SETTLING: Duration = Duration::from_millis(50);

/// A Qdrant that can be asked.
pub struct Cluster {
    nodes: Vec<Node>,
    /// The place of the server that is asked first.
    preferred: AtomicUsize,
    key: Option<SecretString>,
    time_limit: Duration,
    total: Duration,
    retries: Retries,
}

struct Node {
    url: String,
    client: Qdrant,
}

impl Cluster {
    /// Checks the options; connects to nothing yet.
    ///
    /// # Errors
    ///
    /// The first option that cannot be used.
    pub fn new(options: &ClusterOptions) -> Result<Self, InvalidOptions> {
        let key = options.key.as_ref().map(|key| key.expose_secret().trim());
        // The client quotes a key that it cannot send in its error.
        if key.is_some_and(|key| key.is_empty() || !key.chars().all(|c| c.is_ascii_graphic())) {
            return Err(InvalidOptions::Key);
        }
        if options.urls.is_empty() {
            return Err(InvalidOptions::NoUrl);
        }
        let node = |url: &String| {
            let url = address(url)?;
            let config = QdrantConfig {
                uri: url.clone(),
                // Later than our own limit, which can tell a slow server from a broken line.
                timeout: options.time_limit.saturating_mul(2),
                connect_timeout: options.time_limit,
                api_key: key.map(str::to_owned),
                // It would print, and ask at once. `health` compares versions.
                check_compatibility: false,
                check_connection: false,
                pool_size: options.connections.get(),
                ..QdrantConfig::from_url(&url)
            };
            let client = Qdrant::new(config).map_err(|error| InvalidOptions::Client {
                url: url.clone(),
                source: error.into(),
            })?;
            Ok(Node { url, client })
        };
        Ok(Self {
            nodes: options.urls.iter().map(node).collect::<Result<_, _>>()?,
            preferred: AtomicUsize::new(0),
            key: options.key.clone(),
            time_limit: options.time_limit,
            total: options.total,
            retries: options.retries,
        })
    }

    /// The version of the server that answers.
    ///
    /// # Errors
    ///
    /// If none answers, or if its version is not one that this program can work with.
    pub async fn health(&self, call: &Call) -> Result<String, PortError> {
        let health = self
            .ask(
                call,
                None,
                |client| async move { client.health_check().await },
            )
            .await?;
        let checked = version::check(&health.version);
        checked.map_err(|detail| PortError::refused(self.name(), detail))?;
        Ok(health.version)
    }

    /// What a collection is; `None` if there is none of this name. An alias is as good as a name.
    pub(crate) async fn info(
        &self,
        call: &Call,
        collection: &str,
    ) -> Result<Option<CollectionInfo>, PortError> {
        let request = GetCollectionInfoRequest {
            collection_name: collection.to_owned(),
        };
        self.ask(call, Some(collection), |client| {
            let request = request.clone();
            async move {
                match client.collection_info(request).await {
                    Ok(response) => Ok(response.result),
                    Err(error) if is_missing(&error) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        })
        .await
    }

    /// Waits until every server that answers knows this of a collection, or the time is over: they hear of
    /// a change one after the other, and the next search may go to any of them.
    pub(crate) async fn settle(&self, collection: &str, knows: impl Fn(&CollectionInfo) -> bool) {
        let deadline = Instant::now() + self.total;
        for node in &self.nodes {
            loop {
                let request = GetCollectionInfoRequest {
                    collection_name: collection.to_owned(),
                };
                let told = timeout(self.time_limit, node.client.collection_info(request)).await;
                let Ok(Ok(told)) = told else { break };
                if told.result.is_some_and(|info| knows(&info)) || Instant::now() >= deadline {
                    break;
                }
                sleep(SETTLING).await;
            }
        }
    }

    /// Asks until a server answers, refuses for good, or the time is over.
    pub(crate) async fn ask<T, F>(
        &self,
        call: &Call,
        collection: Option<&str>,
        ask: impl Fn(Qdrant) -> F + Send + Sync,
    ) -> Result<T, PortError>
    where
        T: Send,
        F: Future<Output = Result<T, QdrantError>> + Send,
    {
        let deadline = Instant::now() + self.total;
        let attempts = retry(&self.retries, call, deadline, || {
            self.attempt(call, collection, &ask)
        });
        let in_time = timeout_at(deadline, attempts).await;
        in_time.unwrap_or_else(|_| Err(PortError::timed_out(self.name(), self.total)))
    }

    async fn attempt<T, F>(
        &self,
        call: &Call,
        collection: Option<&str>,
        ask: &(impl Fn(Qdrant) -> F + Send + Sync),
    ) -> Result<T, FailedAttempt>
    where
        F: Future<Output = Result<T, QdrantError>> + Send,
    {
        let at = self.preferred.load(Relaxed);
        let node = &self.nodes[at % self.nodes.len()];
        let site = Site {
            url: &node.url,
            collection,
            key: self.key.as_ref().map(|key| key.expose_secret().trim()),
            others: self.nodes.len() > 1,
        };
        // The clone shares the connections; the headers are those of this request alone.
        let client = call
            .trace_headers()
            .fold(node.client.clone(), |client, (name, value)| {
                client.with_header(name, value)
            });
        let answer = timeout(self.time_limit, ask(client)).await;
        let (failure, elsewhere) = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => sorted(&error, &site),
            Err(_) => site.late(self.time_limit),
        };
        if elsewhere {
            // Only one of the calls that failed together moves on.
            let _ = self
                .preferred
                .compare_exchange(at, at.wrapping_add(1), Relaxed, Relaxed);
        }
        Err(failure)
    }

    /// For messages.
    pub(crate) fn name(&self) -> String {
        let urls: Vec<_> = self.nodes.iter().map(|node| &*node.url).collect();
        format!("Qdrant at {}", urls.join(", "))
    }

    /// The longest that a server should work on one request, in whole seconds as it wants it: no
    /// less than our own limit.
    pub(crate) fn seconds(&self) -> u64 {
        let begun = u64::from(self.time_limit.subsec_nanos() > 0);
        self.time_limit.as_secs().saturating_add(begun).max(1)
    }
}

fn is_missing(error: &QdrantError) -> bool {
    matches!(
        error,
        QdrantError::ResponseError { status } if status.code() == tonic::Code::NotFound
    )
}

/// The address as it is used, and shown: without a path.
fn address(written: &str) -> Result<String, InvalidOptions> {
    // Neither what stands before a host nor a query is shown: a password may be in it.
    let invalid = |url: &str, problem| {
        let (shown, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
        let shown = shown.rsplit('@').next().filter(|_| !query.contains('@'));
        InvalidOptions::Url {
            url: shown.unwrap_or_default().to_owned(),
            problem,
        }
    };
    let Ok(url) = Url::parse(written.trim()) else {
        return Err(invalid(written, "expected scheme, host and port"));
    };
    if !url.username().is_empty() || url.password().is_some() {
        let problem = "a password belongs into the variable of the API key";
        return Err(invalid(url.host_str().unwrap_or_default(), problem));
    }
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(invalid(written, "expected http or https, and a host"));
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(invalid(written, "expected nothing behind the port"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use parking_lot::Mutex;
    use qdrant_client::qdrant::qdrant_server::{self, QdrantServer};
    use qdrant_client::qdrant::{HealthCheckReply, HealthCheckRequest};
    use spechop_types::TraceContext;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tonic::metadata::MetadataMap;
    use tonic::transport::server::{Server, TcpIncoming};
    use tonic::{Request, Response, Status};

    use super::*;

    /// A server that says which version it is, and notes with which headers it was asked.
    #[derive(Clone, Default)]
    struct Played(Arc<Mutex<Vec<MetadataMap>>>);

    #[async_trait]
    impl qdrant_server::Qdrant for Played {
        async fn health_check(
            &self,
            request: Request<HealthCheckRequest>,
        ) -> Result<Response<HealthCheckReply>, Status> {
            self.0.lock().push(request.metadata().clone());
            Ok(Response::new(HealthCheckReply {
                version: "1.16.0".to_owned(),
                ..HealthCheckReply::default()
            }))
        }
    }

    #[tokio::test]
    async fn a_server_hears_for_which_span_it_works_and_no_other_request_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let played = Played::default();
        let server = Server::builder().add_service(QdrantServer::new(played.clone()));
        let mut serving = JoinSet::new();
        serving.spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        let cluster = Cluster::new(&ClusterOptions::new(vec![url])).unwrap();
        let span = TraceContext::parse(SPAN, "a=1").unwrap();
        for trace in [Some(span), None] {
            let call = Call::authoritative().traced(trace);
            assert_eq!(cluster.health(&call).await.unwrap(), "1.16.0");
        }
        let heard: Vec<_> = played.0.lock().drain(..).collect();
        let of = |headers: &MetadataMap| {
            TraceContext::HEADERS.map(|name| {
                let value = headers.get(name)?;
                value.to_str().ok().map(str::to_owned)
            })
        };
        let sent = [SPAN, "a=1"].map(|value| Some(value.to_owned()));
        let heard: Vec<_> = heard.iter().map(of).collect();
        assert_eq!(heard, [sent, [None, None]]);
    }

    const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn refusal(url: &str, key: Option<&str>) -> Option<String> {
        let mut options = ClusterOptions::new(vec![url.to_owned()]);
        options.key = key.map(SecretString::from);
        let refused = Cluster::new(&options).err();
        refused.map(|error| error.to_string())
    }

    #[test]
    fn says_what_is_wrong_with_an_address_and_never_shows_a_secret() {
        for (url, said) in [
            ("http://127.0.0.1:6334", None),
            (" https://qdrant.example.org/ ", None),
            ("http://[::1]:6334", None),
            ("127.0.0.1:6334", Some("expected scheme, host and port")),
            ("", Some("expected scheme")),
            ("ftp://host", Some("expected http or https")),
            (
                "http://host:6334/collections",
                Some("nothing behind the port"),
            ),
            ("http://me:hunter2@host:6334", Some("a password belongs")),
            ("me:hunter2@host:6334", Some("expected http or https")),
            ("http//me:hunter2@host", Some("expected scheme")),
            (
                "https://host/?api-key=hunter2",
                Some("nothing behind the port"),
            ),
            (
                "https://host/?api-key=hun@hunter2",
                Some("nothing behind the port"),
            ),
            ("http//me:hunter2?ss@host", Some("expected scheme")),
        ] {
            let found = refusal(url, None);
            assert_eq!(found.is_some(), said.is_some(), "{url}: {found:?}");
            let found = found.unwrap_or_default();
            assert!(found.contains(said.unwrap_or_default()), "{url}: {found}");
            assert!(!found.contains("hunter2"), "{found}");
        }
        for (key, fits) in [
            ("s3cret", true),
            ("", false),
            ("two words", false),
            ("ключ", false),
        ] {
            let found = refusal("http://host:6334", Some(key));
            assert_eq!(found.is_none(), fits, "{key}");
            assert!(key.is_empty() || !found.unwrap_or_default().contains(key));
        }
        let none = Cluster::new(&ClusterOptions::new(Vec::new())).err();
        assert!(matches!(none, Some(InvalidOptions::NoUrl)));
    }

    #[test]
    fn a_server_may_work_for_as_long_as_it_is_waited_for() {
        for (ms, seconds) in [(1, 1), (1000, 1), (1001, 2), (1900, 2)] {
            let mut options = ClusterOptions::new(vec!["http://host:6334".to_owned()]);
            options.time_limit = Duration::from_millis(ms);
            let cluster = Cluster::new(&options).unwrap();
            assert_eq!(cluster.seconds(), seconds, "{ms} ms");
        }
    }

    #[test]
    fn a_key_is_not_in_what_is_printed_of_the_options() {
        let mut options = ClusterOptions::new(vec!["http://host:6334".to_owned()]);
        options.key = Some(SecretString::from("hunter2"));
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
