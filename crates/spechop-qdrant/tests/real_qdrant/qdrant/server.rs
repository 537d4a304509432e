//! Servers for tests: on ports of their own, in folders of their own, ended with the test.

use std::fs::{self, File, Permissions};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getuid, kill_process};
use spechop_ports::Call;
use spechop_ports::retry::Retries;
use spechop_qdrant::{Cluster, ClusterOptions};
use spechop_testkit::OwnPort;
use spechop_testkit::assets::data_dir;
use tempfile::TempDir;

/// The user without rights, as whom root runs what it has downloaded.
const NOBODY: u32 = 65_534;

/// A server that can be killed and started again with what it has on disk.
pub(crate) struct Server {
    dir: TempDir,
    ports: [OwnPort; 3],
    settings: Vec<(&'static str, String)>,
    arguments: Vec<String>,
    process: Option<Child>,
}

/// Where the server's binary is. `None`, and a word about it, if there is none.
fn binary() -> Option<PathBuf> {
    let binary = data_dir().join("bin/qdrant");
    if binary.exists() {
        return Some(binary);
    }
    let shown = binary.display();
    eprintln!("LEFT OUT: there is no {shown}; deploy/test-tools.sh fetches it");
    None
}

impl Server {
    /// A server that has not been started; `None` if there is no binary.
    pub(crate) fn new() -> Option<Self> {
        binary()?;
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        Some(Self {
            dir,
            ports: [(); 3].map(|()| OwnPort::reserve()),
            settings: Vec::new(),
            arguments: Vec::new(),
            process: None,
        })
    }

    /// A server that answers.
    pub(crate) async fn started() -> Option<Self> {
        let mut server = Self::new()?;
        server.start();
        server.ready(None).await;
        Some(server)
    }

    /// With a setting of Qdrant's environment, in its next start.
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.settings.push((name, value.into()));
    }

    /// As the first node of a cluster, or one that joins `first`.
    pub(crate) fn join(&mut self, first: Option<&Self>) {
        self.set("QDRANT__CLUSTER__ENABLED", "true");
        self.set("QDRANT__CLUSTER__P2P__PORT", self.port(2));
        self.arguments = vec!["--uri".to_owned(), self.peer()];
        if let Some(first) = first {
            self.arguments
                .extend(["--bootstrap".to_owned(), first.peer()]);
        }
    }

    fn peer(&self) -> String {
        format!("http://{}", self.ports[2].address())
    }

    fn port(&self, which: usize) -> String {
        self.ports[which].number().to_string()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.ports[1].address())
    }

    pub(crate) fn start(&mut self) {
        let path = binary().unwrap();
        let binary = File::open(&path).unwrap();
        let is_root = getuid().is_root();
        // Nobody cannot look into the data folder of root, so the file is opened for it.
        let program = match is_root {
            true => PathBuf::from(format!("/proc/self/fd/{}", binary.as_raw_fd())),
            false => path,
        };
        let log = self.dir.path().join("log");
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(program);
        command
            .args(&self.arguments)
            .current_dir(self.dir.path())
            .env_clear()
            .env("QDRANT__SERVICE__HOST", "127.0.0.1")
            .env("QDRANT__SERVICE__HTTP_PORT", self.port(0))
            .env("QDRANT__SERVICE__GRPC_PORT", self.port(1))
            .env("QDRANT__TELEMETRY_DISABLED", "true")
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        self.process = Some(command.spawn().unwrap());
    }

    /// Waits until it answers, with this key.
    pub(crate) async fn ready(&self, key: Option<&str>) {
        let mut options = ClusterOptions::new(vec![self.url()]);
        options.key = key.map(Into::into);
        self.answers(&options).await;
    }

    pub(crate) async fn answers(&self, options: &ClusterOptions) {
        let options = ClusterOptions {
            total: Duration::from_secs(120),
            retries: Retries {
                max: u32::MAX,
                pause: Duration::from_millis(50),
                pause_max: Duration::from_millis(100),
            },
            ..options.clone()
        };
        let health = Cluster::new(&options).unwrap();
        if let Err(error) = health.health(&Call::authoritative()).await {
            let log = fs::read_to_string(self.dir.path().join("log"));
            panic!(
                "the server does not start: {error:?}\n{}",
                log.unwrap_or_default()
            );
        }
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// It keeps its connections and says nothing, until it is told to continue.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        // The signal is sent, but a thread on another core may still answer.
        while !self.is_stopped() {
            std::thread::yield_now();
        }
    }

    /// Whether none of its threads runs.
    fn is_stopped(&self) -> bool {
        let id = self.process.as_ref().unwrap().id();
        let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat"));
            // A thread that has ended has no state any more.
            stat.map_or(true, |stat| {
                let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
                state == Some("T")
            })
        })
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().unwrap();
        kill_process(Pid::from_child(process), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Options that give up soon: tests wait for failures.
pub(crate) fn hasty(urls: Vec<String>) -> ClusterOptions {
    ClusterOptions {
        time_limit: Duration::from_secs(20),
        total: Duration::from_secs(40),
        retries: Retries {
            max: 2,
            pause: Duration::from_millis(10),
            pause_max: Duration::from_millis(10),
        },
        connections: NonZeroUsize::MIN,
        ..ClusterOptions::new(urls)
    }
}
