//! A server over scripted ports, on a port of its own, in this process.
#![allow(dead_code, unreachable_pub, reason = "no test file uses all of it")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use spechop_config::{Config, Env, SpeculatorKind, Written};
use spechop_ports::{
    Call, Encoder, Passages, PlanRequest, Planned, Planner, PortError, ReadRequest, Reader,
    Reading, Retriever, SharedEntries,
};
use spechop_proto::admin_client::AdminClient;
use spechop_proto::ask_event::Event;
use spechop_proto::options::Width;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{
    AskEvent, AskRequest, AskResponse, Backend, FinishNowRequest, GetBackendsRequest, Options,
};
use spechop_server::{App, Bare, Gauges, ServeError, Toolbox};
pub use spechop_testkit::eventually;
use spechop_testkit::{Script, ScriptedPorts, TextVectors, fill_home};
use spechop_types::{Chance, Passage};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, IntoRequest, Request, Status, Streaming};

/// How long a server may take to end, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server; dropping it ends it at once.
pub struct Server {
    pub address: SocketAddr,
    pub ports: ScriptedPorts,
    pub gauges: Gauges,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinSet<Result<(), ServeError>>,
}

impl Server {
    /// Plays a script with the default configuration.
    pub async fn start(script: Script) -> Self {
        Self::configured(script, "").await
    }

    /// Plays a script with these lines of configuration.
    pub async fn configured(script: Script, toml: &str) -> Self {
        Self::of(script, config(toml)).await
    }

    /// Plays a script with this configuration.
    pub async fn of(script: Script, config: Config) -> Self {
        Self::with(script, config, bare).await
    }

    /// Plays a script in these parts.
    pub async fn with(
        script: Script,
        config: Config,
        parts: impl FnOnce(&ScriptedPorts) -> Bare,
    ) -> Self {
        let ports = ScriptedPorts::new(script);
        let toolbox = Toolbox::of(parts(&ports), &config);
        Self::over(ports, toolbox, config).await
    }

    /// Plays a script in a toolbox with something more.
    pub async fn equipped(
        script: Script,
        config: Config,
        equip: impl FnOnce(Toolbox, &Config) -> Toolbox,
    ) -> Self {
        let ports = ScriptedPorts::new(script);
        let toolbox = equip(Toolbox::of(bare(&ports), &config), &config);
        Self::over(ports, toolbox, config).await
    }

    /// Plays a script, and shows these passages.
    pub async fn showing(
        script: Script,
        config: Config,
        passages: impl Passages + 'static,
    ) -> Self {
        let show = |mut toolbox: Toolbox, _: &Config| {
            toolbox.passages = Some(Arc::new(passages));
            toolbox
        };
        Self::equipped(script, config, show).await
    }

    /// Plays a script with a memory and a cascade.
    pub async fn remembering(script: Script, config: Config) -> Self {
        let remember =
            |toolbox: Toolbox, config: &Config| toolbox.remembering(Arc::new(apart()), config);
        Self::equipped(script, config, remember).await
    }

    /// The same, with a memory that it shares with others.
    pub async fn sharing(
        script: Script,
        entries: impl SharedEntries + 'static,
        config: Config,
    ) -> Self {
        let share = |toolbox: Toolbox, config: &Config| {
            toolbox.sharing(Arc::new(entries), Arc::new(apart()), config)
        };
        Self::equipped(script, config, share).await
    }

    /// Plays what is left of a script in this toolbox.
    pub async fn over(ports: ScriptedPorts, toolbox: Toolbox, config: Config) -> Self {
        Self::serving(ports, App::with_toolbox(config, toolbox)).await
    }

    /// Plays what this server was built over, of which some are `ports`.
    pub async fn serving(ports: ScriptedPorts, app: App) -> Self {
        let gauges = app.gauges();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let mut serving = JoinSet::new();
        serving.spawn(app.serve(listener, async {
            // A dropped sender stops the server, too.
            let _ = stopped.await;
        }));
        Self {
            address,
            ports,
            gauges,
            stop: Some(stop),
            serving,
        }
    }

    pub async fn client(&self) -> SpecHopClient<Channel> {
        SpecHopClient::new(self.channel().await)
    }

    /// A connection of its own.
    pub async fn channel(&self) -> Channel {
        let url = format!("http://{}", self.address);
        Endpoint::from_shared(url).unwrap().connect().await.unwrap()
    }

    pub async fn ask(&self, request: AskRequest) -> Result<AskResponse, Status> {
        self.client()
            .await
            .ask(request)
            .await
            .map(tonic::Response::into_inner)
    }

    /// The stream of a question.
    pub async fn stream(&self, request: impl IntoRequest<AskRequest>) -> Streaming<AskEvent> {
        let stream = self.client().await.ask_stream(request).await;
        stream.unwrap().into_inner()
    }

    /// What a question makes happen, and its answer.
    pub async fn told(&self, request: AskRequest) -> (Vec<AskEvent>, AskResponse) {
        let mut stream = self.stream(request).await;
        let mut events = Vec::new();
        while let Some(event) = stream.message().await.unwrap() {
            events.push(event);
        }
        match events.pop().and_then(|event| event.event) {
            Some(Event::Answer(answer)) => (events, answer),
            other => panic!("{other:?} is no answer"),
        }
    }

    /// What is answered over HTTP/1.1 to these lines of a head and this body: the status, the head and the body.
    pub async fn http1(&self, head: &str, body: &[u8]) -> (u16, String, String) {
        let long = body.len();
        let head = format!("{head}Connection: close\r\nContent-Length: {long}\r\n\r\n");
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // All of it, whatever is said meanwhile.
        let request = [head.as_bytes(), body].concat();
        stream.write_all(&request).await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        let (head, body) = heard.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap();
        (status.parse().unwrap(), head.to_owned(), body.to_owned())
    }

    /// The metrics, as a scraper asks for them.
    pub async fn metrics(&self) -> String {
        let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n";
        let (status, _, page) = self.http1(head, b"").await;
        assert_eq!(status, 200, "{page}");
        page
    }

    /// What the scheduler holds.
    pub async fn backends(&self) -> Vec<Backend> {
        let mut admin = AdminClient::new(self.channel().await);
        let backends = admin.get_backends(GetBackendsRequest {}).await.unwrap();
        backends.into_inner().backends
    }

    /// A counter or gauge of the metrics, by its name and labels; 0 if it was never counted.
    pub async fn metric(&self, name: &str) -> u64 {
        let page = self.metrics().await;
        let mut lines = page.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.map_or(0, |number| number.trim().parse().unwrap())
    }

    /// Look-ups that the index has begun.
    pub async fn look_ups(&self) -> u64 {
        let backends = self.backends().await;
        let retriever = backends.iter().find(|b| b.name == "retriever").unwrap();
        retriever.started
    }

    /// Asks the server to end.
    pub fn shut_down(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Waits for `serve` to return.
    pub async fn ended(&mut self) -> Result<(), ServeError> {
        let ended = timeout(PATIENCE, self.serving.join_next()).await;
        ended.expect("it ends").unwrap().unwrap()
    }

    /// Waits until no call and no question is left.
    pub async fn is_idle(&self) {
        eventually(|| self.ports.live() == 0 && self.gauges.questions_open() == 0).await;
    }
}

/// A data folder in which everything lies that the defaults name, empty.
pub fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fill_home(home.path());
    home
}

/// These lines of configuration, in a file.
pub fn written(file: impl Into<PathBuf>, toml: &str) -> Written {
    // Of this style a model can do everything, guess from memory included, as the scripted ones do.
    let style = ["generator.style", "--set", "tagged"].map(str::to_owned);
    Written {
        file: Some((file.into(), toml.to_owned())),
        flags: vec![style.into()],
    }
}

/// A configuration whose models and indexes need not be real.
pub fn config(toml: &str) -> Config {
    let home = tempfile::tempdir().unwrap();
    let env: Env = [fill_home(home.path())].into_iter().collect();
    let mut config = Config::read(written("test.toml", toml), &env).unwrap();
    // The data folder goes with this function; what is kept elsewhere stays.
    for file in [
        &mut config.scheduler.state,
        &mut config.speculator.memory.file,
        &mut config.speculator.hot.file,
    ] {
        *file = file.take().filter(|path| !path.starts_with(home.path()));
    }
    config
}

/// Says of every passage that it is there, so that it can be cited.
pub struct Shelf;

#[tonic::async_trait]
impl Passages for Shelf {
    async fn passage(&self, _: &str) -> Result<Option<Passage>, PortError> {
        Ok(None)
    }
}

/// Finds nothing, as a search engine may.
pub struct Empty;

#[tonic::async_trait]
impl Retriever for Empty {
    async fn retrieve(&self, _: &Call, _: &str, _: usize) -> Result<Vec<Passage>, PortError> {
        Ok(Vec::new())
    }
}

/// An encoder for which no two texts are alike: only the same words are the same.
pub fn apart() -> impl Encoder {
    TextVectors::new("apart", 64, |text: &str| {
        let mut vector = vec![0.0; 64];
        let at = text.bytes().fold(7_usize, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        vector[at % 64] = 1.0;
        vector
    })
}

/// Plans and reads as scripted, and says that it is this sure.
pub struct Sure(pub ScriptedPorts, pub f64);

#[tonic::async_trait]
impl Planner for Sure {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let certainty = Some(Chance::of(self.1));
        let planned = self.0.plan(call, request).await?;
        Ok(Planned {
            certainty,
            ..planned
        })
    }
}

#[tonic::async_trait]
impl Reader for Sure {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let confidence = Some(Chance::of(self.1));
        let reading = self.0.read(call, request).await?;
        Ok(Reading {
            confidence,
            ..reading
        })
    }
}

/// Scripted ports in every role.
pub fn bare(ports: &ScriptedPorts) -> Bare {
    Bare {
        planner: Arc::new(ports.clone()),
        drawing: Vec::new(),
        reader: Arc::new(ports.clone()),
        retriever: Arc::new(ports.clone()),
        speculators: BTreeMap::from([(SpeculatorKind::Llm, Arc::new(ports.clone()) as _)]),
    }
}

/// A question, nothing said about how to answer it.
pub fn question() -> AskRequest {
    AskRequest {
        question: "What comes of it?".to_owned(),
        ..AskRequest::default()
    }
}

/// The same at this k.
pub fn at(k: u32) -> AskRequest {
    question().with(|asked| asked.width = Some(Width::K(k)))
}

/// The same under a name of the client's.
pub fn named(id: &str) -> AskRequest {
    AskRequest {
        question_id: id.to_owned(),
        ..question()
    }
}

/// Has a question answered at once.
pub fn finish(id: &str) -> FinishNowRequest {
    FinishNowRequest {
        question_id: id.to_owned(),
    }
}

/// A message on behalf of a tenant.
pub fn of<T>(tenant: &str, message: T) -> Request<T> {
    by("", tenant, message)
}

/// A message with a key, and on behalf of a tenant, if they are named.
pub fn by<T>(key: &str, tenant: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    if !key.is_empty() {
        let bearer = format!("Bearer {key}").parse().unwrap();
        metadata.insert("authorization", bearer);
    }
    if !tenant.is_empty() {
        metadata.insert("spechop-tenant", tenant.parse().unwrap());
    }
    request
}

/// What a stream ends with that comes to no answer.
pub async fn failure(mut stream: Streaming<AskEvent>) -> Status {
    loop {
        match stream.message().await {
            Ok(event) => {
                let event = event.expect("it ends with an error").event;
                assert!(!matches!(event, Some(Event::Answer(_))), "it is answered");
            }
            Err(status) => return status,
        }
    }
}

/// How many tasks there are in this process.
pub fn tasks() -> usize {
    let runtime = tokio::runtime::Handle::current();
    runtime.metrics().num_alive_tasks()
}

/// How a question was answered.
pub fn options(answer: &AskResponse) -> Options {
    let applied = answer.applied.as_ref();
    applied
        .and_then(|applied| applied.options.clone())
        .expect("an answer says how it was found")
}

/// Whether a unary call was ended by its client, whose timeout had passed, and not by the server's answer.
pub fn is_own_timer(status: &Status) -> bool {
    (status.code(), status.message()) == (Code::Cancelled, "Timeout expired")
}

/// Hops that take so long that no test sees their end.
pub fn endless() -> Script {
    Script::steady(&[true, true], 5, 3_600_000, 5)
}

/// Much more than a client with a small window lets the server send.
pub fn long() -> Script {
    Script {
        passage_bytes: 8000,
        ..Script::steady(&[true; 6], 1, 5, 1)
    }
}

/// The stream of a client that takes hardly anything before it reads.
pub async fn unread(server: &Server) -> Streaming<AskEvent> {
    let url = format!("http://{}", server.address);
    let endpoint = Endpoint::from_shared(url).unwrap();
    let endpoint = endpoint.initial_stream_window_size(Some(1024));
    let mut client = SpecHopClient::new(endpoint.connect().await.unwrap());
    client.ask_stream(at(1)).await.unwrap().into_inner()
}

/// Changes a file in one step: whoever looks at it meanwhile must not see half of the text, which may be
/// a text, too.
pub fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}
