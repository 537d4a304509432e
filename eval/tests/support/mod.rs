//! A real server over scripted ports, in this process, that may be killed and come back.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_config::{Config, Env, SpeculatorKind, Written};
use spechop_eval::{Dataset, Injected, LiveOptions, Machine, Parts, Question, RunInfo, Source};
use spechop_ports::{Call, PlanRequest, Planned, Planner, PortError};
use spechop_server::{App, Bare, Gauges, Toolbox};
use spechop_testkit::{Script, ScriptedPorts, fill_home};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// The questions that a planner was asked about, each as often as it planned a step of it.
pub type Asked = Arc<Mutex<Vec<String>>>;

/// A running server. Dropping it kills it: when that is done, its connections are broken and its port is free.
pub struct Server {
    pub address: SocketAddr,
    pub ports: ScriptedPorts,
    /// Empty unless it was started from a script.
    pub asked: Asked,
    pub gauges: Gauges,
    runtime: Option<Runtime>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // A runtime must not end within another one.
        let runtime = self.runtime.take();
        std::thread::spawn(move || drop(runtime)).join().unwrap();
    }
}

impl Server {
    /// Plays a script with these lines of configuration, on a port of its own.
    pub fn start(script: Script, toml: &str) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), script, toml)
    }

    /// The same on this port.
    pub fn start_at(address: SocketAddr, script: Script, toml: &str) -> Self {
        let ports = ScriptedPorts::new(script);
        let asked = Asked::default();
        let bare = Bare {
            planner: Arc::new(Moody(ports.clone(), Arc::clone(&asked))),
            drawing: Vec::new(),
            reader: Arc::new(ports.clone()),
            retriever: Arc::new(ports.clone()),
            speculators: BTreeMap::from([(SpeculatorKind::Llm, Arc::new(ports.clone()) as _)]),
        };
        let mut server = Self::start_bare(address, bare, ports, toml);
        server.asked = asked;
        server
    }

    /// These parts, which guess as `llm`, with these lines of configuration.
    pub fn over(parts: Parts, toml: &str) -> Self {
        let ports = ScriptedPorts::new(Script::instant(0));
        let guesses = parts.speculators.into_values();
        let bare = Bare {
            planner: parts.planner,
            drawing: Vec::new(),
            reader: parts.reader,
            retriever: parts.retriever,
            speculators: guesses.map(|port| (SpeculatorKind::Llm, port)).collect(),
        };
        Self::start_bare("127.0.0.1:0".parse().unwrap(), bare, ports, toml)
    }

    fn start_bare(address: SocketAddr, bare: Bare, ports: ScriptedPorts, toml: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        // What is made here belongs to the server's runtime, the listener above all.
        let (app, listener) = {
            let _entered = runtime.enter();
            Self::make(address, bare, toml)
        };
        let gauges = app.gauges();
        let address = listener.local_addr().unwrap();
        runtime.spawn(app.serve(listener, std::future::pending()));
        Self {
            address,
            ports,
            asked: Asked::default(),
            gauges,
            runtime: Some(runtime),
        }
    }

    fn make(address: SocketAddr, bare: Bare, toml: &str) -> (App, TcpListener) {
        let config = config(toml);
        let toolbox = Toolbox::of(bare, &config);
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        (App::with_toolbox(config, toolbox), listener)
    }
}

/// Plays its script, except for questions about what is broken or endless.
struct Moody(ScriptedPorts, Asked);

#[async_trait]
impl Planner for Moody {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let asked = request.question.as_str().to_owned();
        self.1.lock().push(asked);
        if request.question.as_str().contains("broken") {
            return Err(PortError::refused("the planner", "it is\nbroken"));
        }
        if request.question.as_str().contains("endless") {
            std::future::pending::<()>().await;
        }
        self.0.plan(call, request).await
    }
}

/// A configuration whose models and indexes need not be real.
fn config(toml: &str) -> Config {
    let home = tempfile::tempdir().unwrap();
    let env: Env = [fill_home(home.path())].into_iter().collect();
    let file = Some(("test.toml".into(), toml.to_owned()));
    // Of this style a model can do everything, guess from memory included, as the scripted ones do.
    let style = ["generator.style", "--set", "tagged"].map(str::to_owned);
    let flags = vec![style.into()];
    Config::read(Written { file, flags }, &env).unwrap()
}

/// Questions `q0`, `q1`, ….
pub fn questions(count: usize) -> Vec<Question> {
    let question = |n| Question {
        id: format!("q{n}"),
        dataset: Dataset::Wiki,
        kind: "bridge".into(),
        text: format!("What comes of {n}?"),
        answers: vec!["fact".into()],
        titles: Vec::new(),
        hops: Vec::new(),
        hop_budget: 5,
    };
    (0..count).map(question).collect()
}

/// The circumstances of a run with these questions.
pub fn info(questions: usize, injected: Option<Injected>) -> RunInfo {
    RunInfo {
        source: Source::Live,
        system: "scripted".into(),
        dataset: Dataset::Wiki,
        questions,
        seed: 1,
        injected,
        speed: 1.0,
        parts: BTreeMap::new(),
        commit: "abc".into(),
        machine: Machine {
            cores: 2,
            cpu: "any".into(),
        },
        command: "a test".into(),
        wanted: Vec::new(),
    }
}

/// At k = 1 and 3, with what there is no time for.
pub fn options(address: SocketAddr, concurrency: &[u32]) -> LiveOptions {
    let variants = ["k=1,speculator=llm", "k=3,speculator=llm"];
    LiveOptions {
        address: address.to_string(),
        target_off: None,
        variants: variants.map(|text| text.parse().unwrap()).to_vec(),
        concurrency: concurrency.to_vec(),
        retry_for: Duration::from_secs(60),
        deadline: Duration::from_secs(60),
    }
}
