//! Tools of real servers: one with the official Python SDK, over both transports, and the official
//! server that has everything. `make test` installs them and runs this; plain `cargo test` does not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::fs::File;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use spechop_mcp::{Form, McpOptions, McpRetriever, OpenError, Program, Server, Shape};
use spechop_ports::{Call, PortError, Retriever, contract};
use spechop_testkit::{OwnPort, assets};
use spechop_web::HttpEndpoint;
use tempfile::TempDir;

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/real_mcp/notes_server.py"
);
const QUERY: &str = "rivers of France";

fn python() -> String {
    let python = assets::data_dir().join("venv/bin/python");
    assert!(python.exists(), "run `deploy/test-tools.sh` first");
    python.display().to_string()
}

fn notes() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (title, text) in [
        ("Seine", "The Seine is one of the rivers of France."),
        ("Loire", "The Loire is the longest river in France."),
        ("Bread", "Bread is baked in the early morning."),
    ] {
        std::fs::write(dir.path().join(format!("{title}.txt")), text).unwrap();
    }
    dir
}

fn program(command: Vec<String>) -> Server {
    let path = std::env::join_paths(["/usr/local/bin", "/usr/bin", "/bin"]).unwrap();
    let path = path.into_string().unwrap();
    Server::Program(Program {
        command,
        env: vec![("PATH".to_owned(), path.into())],
        dir: None,
    })
}

fn stdio(notes: &Path) -> Server {
    let notes = notes.display().to_string();
    program(vec![python(), SCRIPT.to_owned(), notes])
}

/// The Python server at an address; killed when the test ends.
struct Listening(Child);

impl Listening {
    /// It listens.
    async fn at(port: &OwnPort, notes: &Path) -> Self {
        let log = notes.with_extension("log");
        let child = Command::new(python())
            .arg(SCRIPT)
            .arg(notes)
            .arg(port.number().to_string())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn();
        let mut server = Self(child.unwrap());
        while server.0.try_wait().unwrap().is_none() {
            if TcpStream::connect(port.address()).is_ok() {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{}", std::fs::read_to_string(log).unwrap());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn http(port: &OwnPort) -> Server {
    Server::Http(HttpEndpoint::new(
        "mcp",
        format!("http://{}/mcp", port.address()),
    ))
}

async fn found(tool: &McpRetriever) -> Result<Vec<String>, PortError> {
    let found = tool.retrieve(&Call::authoritative(), QUERY, 5).await?;
    Ok(found
        .iter()
        .map(|p| format!("{}: {}", p.title, p.text))
        .collect())
}

/// The tool, as soon as somebody answers there.
async fn once_open(options: &McpOptions) -> McpRetriever {
    let tool = McpRetriever::open(options.clone()).await.unwrap();
    for _ in 0..600 {
        if found(&tool).await.is_ok() {
            return McpRetriever::open(options.clone()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody answers");
}

const SEINE: &str = "Seine: The Seine is one of the rivers of France.";

#[tokio::test]
async fn a_python_server_is_the_target_over_pipes() {
    let notes = notes();
    for tool in ["search", "search_json"] {
        let options = McpOptions::new(stdio(notes.path()), tool);
        let tool = McpRetriever::open(options).await.unwrap();
        assert!(tool.may_run_ahead());
        let found = found(&tool).await.unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], SEINE);
        contract::retriever(&tool).await;
    }
    let mut options = McpOptions::new(stdio(notes.path()), "search_text");
    let tool = McpRetriever::open(options.clone()).await.unwrap();
    assert_eq!(
        found(&tool).await.unwrap()[0],
        SEINE.replacen("Seine", "", 1)
    );

    options.tool = "forget".to_owned();
    let tool = McpRetriever::open(options.clone()).await.unwrap();
    assert!(!tool.may_run_ahead(), "nobody says that it only reads");
    let error = found(&tool).await.unwrap_err();
    assert!(matches!(error, PortError::Unavailable { .. }), "{error}");

    options.tool = "remember".to_owned();
    let error = McpRetriever::open(options).await.unwrap_err();
    assert!(matches!(error, OpenError::NoTool { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.ends_with("search, search_text, search_json, forget"),
        "{text}"
    );
}

#[tokio::test]
async fn a_python_server_is_the_target_over_http_and_may_come_back() {
    let (notes, port) = (notes(), OwnPort::reserve());
    let mut options = McpOptions::new(http(&port), "search");
    options.arguments = r#"{"query": "{question}", "limit": "{limit}"}"#.parse().unwrap();
    options.shape = Shape {
        form: Form::Json,
        ..Shape::default()
    };
    // It is not there yet, and comes.
    let early = McpRetriever::open(options.clone()).await.unwrap();
    assert!(!early.may_run_ahead(), "nobody could be asked");
    let error = found(&early).await.unwrap_err();
    assert!(matches!(error, PortError::Unavailable { .. }), "{error}");

    let server = Listening::at(&port, notes.path()).await;
    let tool = once_open(&options).await;
    assert!(tool.may_run_ahead());
    assert_eq!(found(&tool).await.unwrap()[0], SEINE);
    contract::retriever(&tool).await;

    // It dies, and another one takes its place: its sessions are gone.
    drop(server);
    let error = found(&tool).await.unwrap_err();
    assert!(matches!(error, PortError::Unavailable { .. }), "{error}");
    let _server = Listening::at(&port, notes.path()).await;
    let mut answered = None;
    for _ in 0..600 {
        answered = found(&tool).await.ok();
        if answered.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(answered.expect("it came back")[0], SEINE);
}

#[tokio::test]
async fn the_server_with_everything_answers() {
    let server = assets::data_dir()
        .join("mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    assert!(server.exists(), "run `deploy/test-tools.sh` first");
    let command = ["node", server.to_str().unwrap(), "stdio"];
    let mut options = McpOptions::new(program(command.map(str::to_owned).into()), "echo");
    options.arguments = r#"{"message": "about {question}"}"#.parse().unwrap();
    let tool = McpRetriever::open(options).await.unwrap();
    let found = found(&tool).await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with("about rivers of France"), "{found:?}");
}
