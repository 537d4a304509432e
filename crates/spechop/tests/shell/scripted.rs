//! `spechop eval scripted` as a process of its own: the real server, over tools that wait and know everything.

use std::process::Child;

use super::{ready, spechop};

/// A server over scripted tools. Killed when it is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: String,
}

impl Server {
    /// On a port of its own.
    pub(crate) fn start(more: &[&str]) -> Self {
        Self::on("127.0.0.1:0", more)
    }

    /// On this address.
    pub(crate) fn on(address: &str, more: &[&str]) -> Self {
        let args = [&["eval", "scripted", "--listen", address], more].concat();
        let (process, address) = ready(&mut spechop(&args));
        let address = address.unwrap();
        Self { process, address }
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
