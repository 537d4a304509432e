//! A server that is killed while it answers: its clients hear so at once, and those that ask again are answered by
//! the next one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::time::Duration;

use crate::shell;
use crate::shell::scripted::Server;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{AskRequest, ResumeRequest};
use spechop_testkit::OwnPort;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::Endpoint;

/// Far less than the questions would take, and more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Look-ups of ten minutes.
const SLOW: &[&str] = &["--look-up", "600000:0:1"];

fn request(name: &str) -> AskRequest {
    AskRequest {
        question: "Who was it after all?".to_owned(),
        question_id: name.to_owned(),
        linger_ms: 60_000,
        ..AskRequest::default()
    }
}

/// How many questions are open there.
async fn open(address: &str) -> usize {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let get = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(get).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    let mut lines = page.lines();
    let open = lines.find_map(|line| line.strip_prefix("spechop_questions_open "));
    open.unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_killed_server_hear_so_at_once_and_may_ask_the_next_one() {
    // Nobody else gets it between the two servers.
    let port = OwnPort::reserve();
    let address = port.address().to_string();
    let mut server = Server::on(&address, SLOW);
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let client = SpecHopClient::new(endpoint.connect().await.unwrap());
    let mut told = JoinSet::new();
    for n in 0..40 {
        let mut client = client.clone();
        let events = client.ask_stream(request(&format!("stream-{n}"))).await;
        let mut events = events.unwrap().into_inner();
        // It is under way.
        assert_eq!(events.message().await.unwrap().unwrap().sequence, 1);
        told.spawn(async move {
            loop {
                match events.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => break None,
                    Err(status) => break Some(status),
                }
            }
        });
        let mut client = SpecHopClient::clone(&client);
        told.spawn(async move { client.ask(request(&format!("whole-{n}"))).await.err() });
    }
    let cli = {
        let address = address.clone();
        tokio::task::spawn_blocking(move || {
            shell::run(&["ask", "--addr", &address, "Who was it after all?"])
        })
    };
    // The command has asked as well, and so has every client.
    let counted = async {
        while open(&address).await < 80 + 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, counted).await.expect("all have asked");
    server.kill();
    let all = async {
        let mut codes = Vec::new();
        while let Some(ended) = told.join_next().await {
            codes.push(ended.unwrap().expect("no answer, and no end").code());
        }
        codes
    };
    let codes = timeout(PATIENCE, all).await.expect("nobody waits");
    assert_eq!(codes.len(), 80);
    // gRPC's own libraries say UNAVAILABLE; this one cannot tell what broke the connection.
    let is_lost = |code: &Code| matches!(code, Code::Unavailable | Code::Unknown);
    assert!(codes.iter().all(is_lost), "{codes:?}");
    let (code, stdout, stderr) = timeout(PATIENCE, cli).await.unwrap().unwrap();
    assert_eq!((code, &*stdout), (1, ""), "{stderr}");
    assert!(stderr.starts_with("spechop: "), "{stderr}");

    // The same channel finds the next server, which says that it does not know the question.
    let _next = Server::on(&address, &[]);
    let mut client = client;
    let asked = ResumeRequest {
        question_id: "stream-0".to_owned(),
        after: 1,
    };
    let again = async {
        loop {
            match client.resume(asked.clone()).await {
                Err(status) if status.code() == Code::Unavailable => {}
                other => break other.expect_err("nothing is known of it"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let status = timeout(PATIENCE, again).await.expect("it is there again");
    assert_eq!(status.code(), Code::NotFound, "{status}");
    let answer = client.ask(request("stream-0")).await.unwrap().into_inner();
    assert!(!answer.answer.is_empty());
}
