//! A server whose configuration file changes.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use spechop_config::{Config, Env, Written};
use spechop_server::{App, Reloading, Toolbox};
use spechop_testkit::{Script, ScriptedPorts, fill_home};
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
        Self::of(script, written(file, toml), home).await
    }

    /// Follows whatever was written, with its data in this folder.
    pub async fn of(script: Script, written: Written, home: TempDir) -> Self {
        let env: Env = [fill_home(home.path())].into_iter().collect();
        let config = Config::read(written.clone(), &env).unwrap();
        let reloading = Reloading::new(&written, env).unwrap();
        let bell = reloading.bell();
        let ports = ScriptedPorts::new(script);
        let toolbox = Toolbox::of(bare(&ports), &config);
        let app = App::with_toolbox(config, toolbox).reloading(reloading);
        Self {
            server: Server::serving(ports, app).await,
            file: written.file.map(|(file, _)| file).unwrap_or_default(),
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
