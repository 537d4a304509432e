use std::future::pending;
use std::net::SocketAddr;

use async_trait::async_trait;
use parking_lot::Mutex;
use qdrant_client::qdrant::qdrant_server::{self, QdrantServer};
use qdrant_client::qdrant::{HealthCheckReply, HealthCheckRequest};
use spechop_types::TraceContext;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tonic::metadata::MetadataMap;
use tonic::transport;
use tonic::transport::server::{Server, TcpIncoming};
use tonic::{Request, Response, Status};

use super::*;

/// A server that says which version it is, and notes with which headers it was asked.
#[derive(Clone, Default)]
struct Played(Arc<Mutex<Vec<MetadataMap>>>);

impl Played {
    /// Serves for as long as the task is kept.
    async fn serve(&self) -> (SocketAddr, JoinSet<Result<(), transport::Error>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_service(QdrantServer::new(self.clone()));
        let mut serving = JoinSet::new();
        serving.spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        (address, serving)
    }
}

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
    let played = Played::default();
    let (address, _serving) = played.serve().await;
    let cluster = Cluster::new(&ClusterOptions::new(vec![format!("http://{address}")])).unwrap();
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

/// A way to a server. The connections over it can die without a word; later ones live.
struct Relay {
    address: SocketAddr,
    silence: Arc<Notify>,
    _relaying: JoinSet<()>,
}

impl Relay {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silence = Arc::new(Notify::new());
        let silenced = Arc::clone(&silence);
        let mut relaying = JoinSet::new();
        relaying.spawn(async move {
            let mut lines = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let silenced = Arc::clone(&silenced);
                lines.spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        biased;
                        // Both ends stay open, and nothing passes any more.
                        () = silenced.notified() => pending().await,
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                    }
                });
            }
        });
        Self {
            address,
            silence,
            _relaying: relaying,
        }
    }
}

#[tokio::test]
async fn a_connection_that_died_without_a_word_is_replaced() {
    let played = Played::default();
    let (server, _serving) = played.serve().await;
    let relay = Relay::to(server).await;
    let mut options = ClusterOptions::new(vec![format!("http://{}", relay.address)]);
    options.connections = NonZeroUsize::MIN;
    let cluster = Cluster::new(&options).unwrap();
    let call = Call::authoritative();
    assert_eq!(cluster.health(&call).await.unwrap(), "1.16.0");
    relay.silence.notify_waiters();
    // Nothing can come any more, so nobody needs to wait for it.
    tokio::time::pause();
    let silent = cluster.health(&call).await;
    tokio::time::resume();
    assert!(
        matches!(silent, Err(PortError::Timeout { .. })),
        "{silent:?}"
    );
    assert_eq!(cluster.health(&call).await.unwrap(), "1.16.0");
    assert_eq!(played.0.lock().len(), 2);
}

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
