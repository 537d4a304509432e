//! The real server over tools that stand in for real ones: recorded or scripted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use spechop_config::{Config, Env, SpeculatorKind, Written};
use spechop_eval::{Injected, Parts};
use spechop_server::{App, Bare, Toolbox};

use crate::commands::serve::{bind, listen, shutdown_signal};

/// The speculators that stand-ins are offered as.
pub(super) const SPECULATORS: [&str; 3] = ["hot", "index", "llm"];

/// What stands in, and how the server is configured.
pub(super) struct StandIn<'a> {
    /// The command, as a mistake in the configuration names it.
    pub(super) command: &'a str,
    /// The address that `--listen` names.
    pub(super) listen: SocketAddr,
    /// A folder and a file that are there. Nothing is opened, but the configuration wants some.
    pub(super) there: (&'a Path, &'a Path),
    /// Keys of this command's own.
    pub(super) keys: Vec<(&'static str, String)>,
    /// Keys that the operator has set; they go before.
    pub(super) set: &'a [(String, String)],
}

impl StandIn<'_> {
    /// The defaults, with room for every call at once: stand-ins know no queue.
    pub(super) fn config(&self) -> anyhow::Result<Config> {
        let (dir, file) = (
            self.there.0.display().to_string(),
            self.there.1.display().to_string(),
        );
        let usual = [
            ("index.dir", dir.clone()),
            ("encoder.dir", dir.clone()),
            ("runtime.onnxruntime", file),
            ("generator.kind", "openai".to_owned()),
            ("generator.style", "tagged".to_owned()),
            ("generator.base_url", "http://127.0.0.1:9/v1".to_owned()),
            ("generator.model", "stand-in".to_owned()),
            // As many as its backend may run at once, below.
            ("generator.requests_max", "1024".to_owned()),
            ("reader.kind", "generator".to_owned()),
            ("speculator.kind", "hot".to_owned()),
            ("speculator.hot_dir", dir),
            // What is learnt here is of no use to later servers, nor the other way round.
            ("tuning.state", "none".to_owned()),
        ];
        let limits = ["generator", "reader", "retriever", "speculator"]
            .into_iter()
            .flat_map(|part| {
                ["capacity", "speculative_max"]
                    .map(|key| (format!("scheduler.{part}.{key}"), "1024".to_owned()))
            });
        let named = |(key, value): (&str, String)| (key.to_owned(), value);
        let own = usual.into_iter().map(named).chain(limits);
        let own = own.chain(self.keys.iter().cloned().map(named));
        let own = own.map(|(key, value)| (key, self.command.to_owned(), value));
        // Read like every other: then one that others can reach is refused, unless they are asked who they are.
        let listen = self.listen.to_string();
        let listen = ("server.listen".to_owned(), "--listen".to_owned(), listen);
        // The last one to name a key is heard.
        let set = self.set.iter().cloned();
        let set = set.map(|(key, value)| (key, "--set".to_owned(), value));
        let written = Written {
            file: None,
            flags: own.chain([listen]).chain(set).collect(),
        };
        Ok(Config::read(written, &Env::default())?)
    }
}

/// The keys that add this latency to every look-up.
pub(super) fn injecting(latency: Injected) -> [(&'static str, String); 3] {
    [
        (
            "target.injected_latency.mean_ms",
            latency.mean_ms.to_string(),
        ),
        (
            "target.injected_latency.sigma_ms",
            latency.sigma_ms.to_string(),
        ),
        ("target.injected_latency.seed", latency.seed.to_string()),
    ]
}

/// Serves until a signal comes.
pub(super) async fn serve(config: Config, parts: Parts) -> anyhow::Result<()> {
    let kinds = [
        SpeculatorKind::Hot,
        SpeculatorKind::Index,
        SpeculatorKind::Llm,
    ];
    let speculators: BTreeMap<_, _> = kinds
        .into_iter()
        .filter_map(|kind| Some((kind, Arc::clone(parts.speculators.get(kind.as_str())?))))
        .collect();
    let bare = Bare {
        planner: parts.planner,
        drawing: Vec::new(),
        reader: parts.reader,
        retriever: parts.retriever,
        speculators,
    };
    let toolbox = Toolbox::of(bare, &config);
    let socket = bind(config.server.listen)?;
    let shutdown = shutdown_signal()?;
    let listener = listen(socket)?;
    let served = App::with_toolbox(config, toolbox).serve(listener, shutdown);
    // It is large, and those who await it would be, too.
    Ok(Box::pin(served).await?)
}
