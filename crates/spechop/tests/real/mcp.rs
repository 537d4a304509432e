//! The official client of MCP asks our server, in every way that it knows.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use spechop_testkit::{OwnPort, assets};

use crate::shell::{in_data_dir, output};
use crate::{CORPUS, Server, indexed};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/mcp_client.py");
/// A server of others: a tool that searches a folder of notes.
const NOTES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../spechop-mcp/tests/real_mcp/notes_server.py"
);

#[test]
fn the_official_client_searches_fetches_and_asks() {
    let dir = tempfile::tempdir().unwrap();
    let data = assets::data_dir();
    // Identifiers may hold a slash.
    let corpus = CORPUS.replace("\"p", "\"p/");
    let [_, index] = indexed(dir.path(), &corpus);
    let index = format!("index.dir={index}");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--set", &index];
    let mut serve = in_data_dir(&data, &serve);
    serve
        .env("SPECHOP_GENERATOR_THREADS", "1")
        .env("SPECHOP_TUNING_STATE", "none");
    let (_server, address) = Server::start(&mut serve, &dir.path().join("log"));
    let log = || std::fs::read_to_string(dir.path().join("log")).unwrap();

    let python = data.join("venv/bin/python");
    let mut client = Command::new(python);
    client.args([CLIENT, &address, env!("CARGO_BIN_EXE_spechop")]);
    let (code, stdout, stderr) = output(&mut client);
    assert_eq!(code, 0, "{stderr}\n{}", log());
    let told: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(told.len(), 5, "{stdout}");
    for told in &told {
        for tool in ["search", "fetch", "ask"] {
            assert_eq!(told["tools"][tool], true, "{told}");
        }
        assert_eq!(told["items"], serde_json::json!([1, 1]));
        let first = &told["results"][0];
        assert!(["p/1", "p/2"].contains(&first["id"].as_str().unwrap()));
        let link = format!("http://{address}/p/p/");
        assert!(first["url"].as_str().unwrap().starts_with(&link), "{first}");
        assert_eq!(told["fetched"]["id"], first["id"]);
        let text = told["fetched"]["text"].as_str().unwrap();
        assert!(corpus.contains(text) && !text.is_empty(), "{told}");
        let hops = told["structured"]["hops"].as_array().unwrap();
        assert!(!hops.is_empty() && hops.len() == told["progress"].as_array().unwrap().len());
        assert!(!told["answer"].as_str().unwrap().is_empty());
        assert_eq!(told["wrong"][0], true);
    }
}

/// The whole way: planner, scheduler, the tool of another program, reader, and citations of what it found.
#[test]
fn a_tool_of_another_server_is_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let data = assets::data_dir();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(path("notes")).unwrap();
    for (title, text) in [
        (
            "Polish-Russian War",
            "Polish-Russian War is a film of 2009 directed by Xawery Żuławski.",
        ),
        (
            "Xawery Żuławski",
            "Xawery Żuławski is a director. His mother is Małgorzata Braunek.",
        ),
    ] {
        std::fs::write(path(&format!("notes/{title}.txt")), text).unwrap();
    }
    let python = data.join("venv/bin/python").display().to_string();
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[target]\nkind = \"mcp\"\n[target.mcp]\n\
         command = [{python:?}, {NOTES:?}, {:?}]\ntool = \"search\"\n\
         [generator]\nthreads = 1\n[tuning]\nstate = \"none\"\n",
        path("notes")
    );
    std::fs::write(path("config.toml"), config).unwrap();
    let mut serve = in_data_dir(&data, &["serve", "--config", &path("config.toml")]);
    let (_server, address) = Server::start(&mut serve, path("log").as_ref());
    let log = || std::fs::read_to_string(path("log")).unwrap();

    let question = "Who is the mother of the director of film Polish-Russian War?";
    let ask = ["ask", "--addr", &address, "--json", "--k", "2", question];
    let (code, stdout, stderr) = output(&mut in_data_dir(&data, &ask));
    assert_eq!(code, 0, "{stderr}\n{}", log());
    let said: Value = serde_json::from_str(&stdout).unwrap();
    let hops = said["hops"].as_array().unwrap();
    assert!(!hops.is_empty(), "{said}");
    let titles: Vec<_> = hops
        .iter()
        .flat_map(|hop| hop["observation"]["evidence"].as_array().unwrap())
        .map(|passage| passage["title"].as_str().unwrap())
        .collect();
    assert!(titles.contains(&"Polish-Russian War"), "{said}");
    assert!(titles.iter().all(|title| {
        Path::new(&path("notes"))
            .join(format!("{title}.txt"))
            .exists()
    }));
    // Its calls went through the scheduler, by a backend of its own.
    let mut metrics = std::net::TcpStream::connect(&address).unwrap();
    let get = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    metrics.write_all(get.as_bytes()).unwrap();
    let mut told = String::new();
    metrics.read_to_string(&mut told).unwrap();
    assert!(told.contains("backend=\"mcp\""), "{told}");
}

#[test]
fn a_bridge_to_nowhere_says_so() {
    let port = OwnPort::reserve();
    let address = port.address().to_string();
    let hello = concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
        r#""capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
        "\n"
    );
    let mut bridge = Command::new(env!("CARGO_BIN_EXE_spechop"))
        .args(["mcp", "--addr", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The input stays open: it is not its end that ends the bridge.
    let mut input = bridge.stdin.take().unwrap();
    input.write_all(hello.as_bytes()).unwrap();
    assert!(!bridge.wait().unwrap().success());
    let mut said = String::new();
    bridge.stderr.unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("spechop serve"), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
}
