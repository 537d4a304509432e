//! One Qdrant: a server, or several that share their collections.
//!
//! A request goes to the server that answered last. If it does not answer, the next attempt goes to
//! the next server.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::RwLock;
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
    /// Replaced if a request gets no answer in time.
    client: RwLock<Arc<Qdrant>>,
}

impl Node {
    fn client(&self) -> Arc<Qdrant> {
        Arc::clone(&self.client.read())
    }

    /// Puts a fresh client in place of one that got no answer, unless another call has done so.
    ///
    /// The server may be slow, or the connection may have died without a word: nothing tells them
    /// apart. The client replaces a connection only if a request fails on it, so a dead one would
    /// be used until the system gives it up, a quarter of an hour later. The fresh client connects
    /// with its first request. Calls in flight keep the old one.
    fn replace(&self, silent: &Arc<Qdrant>) {
        let mut client = self.client.write();
        // The configuration has made a client before, so it makes another.
        if Arc::ptr_eq(&client, silent)
            && let Ok(fresh) = Qdrant::new(silent.config.clone())
        {
            *client = Arc::new(fresh);
        }
    }
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
            let client = RwLock::new(Arc::new(client));
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
            let client = node.client();
            loop {
                let request = GetCollectionInfoRequest {
                    collection_name: collection.to_owned(),
                };
                let told = timeout(self.time_limit, client.collection_info(request)).await;
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
        let shared = node.client();
        // The clone shares the connections; the headers are those of this request alone.
        let client = call
            .trace_headers()
            .fold(Qdrant::clone(&shared), |client, (name, value)| {
                client.with_header(name, value)
            });
        let answer = timeout(self.time_limit, ask(client)).await;
        let (failure, elsewhere) = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => sorted(&error, &site),
            Err(_) => {
                node.replace(&shared);
                site.late(self.time_limit)
            }
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
mod tests;
