//! A server whose configuration file changes.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use spechop_config::{Config, Env};
use spechop_server::{App, Reloading, Toolbox};
use spechop_testkit::{Script, ScriptedPorts};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::support::{Server, bare, eventually, home, replace, written};

/// A server that follows its configuration file.
pub struct Followed {
    pub server: Server,
    pub file: PathBuf,
    pub bell: Arc<Notify>,
    _home: TempDir,
}

impl Followed {
    pub async fn start(script: Script, toml: &str) -> Self {
        let home = home();
        let file = home.path().join("spechop.toml");
        fs::write(&file, toml).unwrap();
        let env: Env = [("SPECHOP_DATA_DIR", home.path().to_str().unwrap())]
            .into_iter()
            .collect();
        let written = written(&file, toml);
        let config = Config::read(written.clone(), &env).unwrap();
        let reloading = Reloading::new(&written, env).unwrap();
        let bell = reloading.bell();
        let ports = ScriptedPorts::new(script);
        let toolbox = Toolbox::of(bare(&ports), &config);
        let app = App::with_toolbox(config, toolbox).reloading(reloading);
        Self {
            server: Server::serving(ports, app).await,
            file,
            bell,
            _home: home,
        }
    }

    /// Changes the file, and waits until it is taken up.
    pub async fn takes_up(&self, toml: &str) {
        let generation = self.server.gauges.config_generation();
        replace(&self.file, toml);
        self.bell.notify_one();
        eventually(|| self.server.gauges.config_generation() > generation).await;
    }

    /// Changes the file, and waits until it is refused.
    pub async fn refuses(&self, toml: &str) {
        let refusals = self.server.gauges.config_refusals();
        replace(&self.file, toml);
        self.bell.notify_one();
        eventually(|| self.server.gauges.config_refusals() > refusals).await;
    }
}
