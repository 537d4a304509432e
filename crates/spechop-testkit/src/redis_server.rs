//! A real Redis on a port of loopback, which keeps nothing on disk.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::assets::data_dir;
use crate::port::OwnPort;

/// A server that can be killed and started again; dropping it ends it.
#[derive(Debug)]
pub struct RedisServer {
    port: OwnPort,
    arguments: Vec<String>,
    child: Option<Child>,
}

#[expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "for tests, which have no better answer"
)]
impl RedisServer {
    /// One that answers; `None`, and a word about it, if `deploy/test-tools.sh` has fetched none.
    pub fn started(arguments: &[&str]) -> Option<Self> {
        if !binary().exists() {
            let shown = binary();
            let shown = shown.display();
            eprintln!("LEFT OUT: there is no {shown}; deploy/test-tools.sh fetches it");
            return None;
        }
        let mut server = Self {
            port: OwnPort::reserve(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            child: None,
        };
        server.start();
        Some(server)
    }

    /// The port that it was given.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.port.address())
    }

    /// Starts it, empty, and waits until it accepts connections.
    #[expect(
        clippy::disallowed_methods,
        reason = "no clock of a test can be moved on for another process"
    )]
    pub fn start(&mut self) {
        let port = self.port.number().to_string();
        let child = Command::new(binary())
            .args(["--bind", "127.0.0.1", "--save", "", "--port", &port])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        self.child = Some(child.expect("Redis starts"));
        // A minute: machines may be busy.
        for _ in 0..2_400 {
            if TcpStream::connect(self.port.address()).is_ok() {
                return;
            }
            sleep(Duration::from_millis(25));
        }
        self.kill();
        TcpStream::connect(self.port.address()).expect("Redis accepts connections");
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The identifier of its process, e.g. to stop it.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn binary() -> PathBuf {
    data_dir().join("bin/redis-server")
}
