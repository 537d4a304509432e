//! The binary with real models. `make test` pulls them and then runs this target; plain `cargo test`
//! leaves it out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod alone;
mod chaos;
mod demo_web;
mod eval_smoke;
mod mcp;
mod page;
mod quantize;
mod serve;
#[path = "../shell/mod.rs"]
mod shell;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server process, killed when the test ends.
struct Server(Child);

impl Server {
    /// Starts the command and waits until it is ready. Its address, or, if it ended instead, `None`.
    fn start(command: &mut Command) -> (Self, Option<String>) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("ready on ").map(str::to_owned);
        (Self(child), address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
