//! The server under attack: the real binary in a process of its own, over recorded stages, and what the
//! system says of that process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use spechop_proto::admin_client::AdminClient;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{AskRequest, AskResponse};
use spechop_testkit::assets;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// The user's clock ticks in a second, as Linux reports CPU time to programs.
const TICKS: f64 = 100.0;

/// The usual soft limit of open files.
pub(crate) const FILES: u32 = 1024;

/// No limit of requests, for attacks that count them.
pub(crate) const HASTE: &str = "server.requests_per_second=100000";

/// Killed when the test ends.
pub(crate) struct Victim {
    process: Child,
    pub(crate) address: String,
    log: tempfile::NamedTempFile,
    /// What a server with real models reads.
    _files: Option<tempfile::TempDir>,
}

impl Victim {
    /// With the usual limit of files, and no configuration.
    pub(crate) fn plain() -> Self {
        Self::start(FILES, &[])
    }

    /// Over recorded stages, with these configuration keys, and so many files it may open.
    pub(crate) fn start(files: u32, set: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = limited(files);
        command
            .args(["eval", "replay", "--listen", "127.0.0.1:0"])
            .args(["--speed", "100"])
            .arg("--bundle")
            .arg(root.join("eval/runs/2wiki-gold/bundle"));
        Self::ready(command, set, None)
    }

    /// With the default models, which must have been pulled, over an index of two passages.
    pub(crate) fn real(set: &[&str]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name);
        fs::write(path("corpus.jsonl"), CORPUS).unwrap();
        let mut build = Command::new(env!("CARGO_BIN_EXE_spechop"));
        build
            .args(["index", "build", "--corpus"])
            .arg(path("corpus.jsonl"))
            .arg("--out")
            .arg(path("index"))
            .env_clear()
            .env("SPECHOP_DATA_DIR", assets::data_dir());
        assert!(build.status().unwrap().success());
        let mut command = limited(FILES);
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("SPECHOP_DATA_DIR", assets::data_dir())
            .env("SPECHOP_INDEX_DIR", path("index"))
            .env("SPECHOP_TUNING_STATE", path("tuning.json"));
        Self::ready(command, set, Some(files))
    }

    fn ready(mut command: Command, set: &[&str], files: Option<tempfile::TempDir>) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap());
        for key in set {
            command.args(["--set", key]);
        }
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = process.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("ready on ");
        let said = || fs::read_to_string(log.path()).unwrap();
        let address = address.unwrap_or_else(|| panic!("it is not ready: {}", said()));
        Self {
            address: address.to_owned(),
            process,
            log,
            _files: files,
        }
    }

    /// A connection of its own.
    pub(crate) async fn channel(&self) -> Result<Channel, tonic::transport::Error> {
        let url = format!("http://{}", self.address);
        let endpoint = Endpoint::from_shared(url).unwrap();
        endpoint
            .connect_timeout(Duration::from_secs(60))
            .connect()
            .await
    }

    pub(crate) async fn client(&self) -> SpecHopClient<Channel> {
        SpecHopClient::new(self.channel().await.unwrap())
    }

    pub(crate) async fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel().await.unwrap())
    }

    /// A question over a new connection, as a well-behaved client asks it.
    pub(crate) async fn ask(&self) -> Result<AskResponse, Status> {
        let answer = self.client().await.ask(question()).await;
        answer.map(tonic::Response::into_inner)
    }

    /// The median time of so many questions, one after the other, each over a new connection.
    pub(crate) async fn usual_ms(&self, questions: usize) -> f64 {
        let mut times = Vec::new();
        for _ in 0..questions {
            let began = Instant::now();
            self.ask().await.unwrap();
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// A bare connection.
    pub(crate) async fn connect(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(&self.address).await
    }

    /// Resident memory.
    pub(crate) fn megabytes(&self) -> f64 {
        self.status("VmRSS:") / 1024.0
    }

    /// The most that was ever resident.
    pub(crate) fn most_megabytes(&self) -> f64 {
        self.status("VmHWM:") / 1024.0
    }

    pub(crate) fn threads(&self) -> f64 {
        self.status("Threads:")
    }

    /// Open files.
    pub(crate) fn files(&self) -> usize {
        fs::read_dir(self.proc("fd")).unwrap().count()
    }

    /// CPU time so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(self.proc("stat")).unwrap();
        // Behind the name, which is in parentheses, come the third field and those after it.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<_> = fields.split_whitespace().collect();
        let ticks: f64 = [11, 12]
            .iter()
            .map(|at| fields[*at].parse::<f64>().unwrap())
            .sum();
        ticks / TICKS
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.as_file().metadata().unwrap().len()
    }

    /// SIGTERM, and until the process has ended.
    pub(crate) fn end(mut self) -> std::process::ExitStatus {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap()
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.process.id())
    }

    fn status(&self, field: &str) -> f64 {
        let status = fs::read_to_string(self.proc("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let value = line.and_then(|line| line.split_whitespace().next());
        value.unwrap().parse().unwrap()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.log.path()).unwrap_or_default();
            let ended = self.process.try_wait();
            println!("the server ({ended:?}) said:\n{log}");
        }
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The binary in an empty environment. The shell lowers its own limit of files, and then becomes it.
fn limited(files: u32) -> Command {
    let script = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &script, env!("CARGO_BIN_EXE_spechop")])
        .env_clear();
    command
}

const CORPUS: &str = r#"{"id":"p1","title":"Halcón","text":"Halcón is a film directed by Ana Ruiz."}
{"id":"p2","title":"Ana Ruiz","text":"Ana Ruiz is a director who was born in Cádiz."}
"#;

/// A message on behalf of a tenant.
pub(crate) fn of<T>(tenant: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let name = tenant.parse().unwrap();
    request.metadata_mut().insert("spechop-tenant", name);
    request
}

/// A question that was recorded.
pub(crate) fn question() -> AskRequest {
    AskRequest {
        question: "When is Susanne Porsche's husband's birthday?".to_owned(),
        ..AskRequest::default()
    }
}
