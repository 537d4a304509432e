//! What each door adds to a question: scripted tools without latency, a question of two hops, one after the
//! other on one connection. The first row is the same question within the process, without any door. The
//! second is an exchange that asks nothing: what the network of the machine and the client take of all rows
//! that follow.
//!
//! Every door is measured twice. On two threads, as a server runs, most of a short exchange is the time in
//! which one thread wakes another. On one thread nobody is woken, and what is left is work.
//!
//! Two rows are asked beside 200 streams: of clients that read nothing, and of clients that read on and ask
//! again, and whose look-ups take as long as a search of the web. Each is told apart from the same alone.
//!
//! The client runs on the same cores, and its work is a part of every figure. The last lines say how much
//! more a question takes through each door than without one.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark, which prints what it has measured"
)]

#[path = "../tests/support/over_http.rs"]
mod over_http;
#[path = "../tests/support/mod.rs"]
mod support;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use reqwest::Client;
use serde_json::{Value, json};
use spechop_ports::{Call, PortError, Retriever};
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{AskEvent, AskRequest};
use spechop_server::{App, Bare, Toolbox};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Passage;
use support::{Server, at, bare, config, of, question};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// Requests come faster here than a client may send them by default.
const TOML: &str = "[server]\nrequests_per_second = 1000000\n";

/// The paper's mean time of a look-up in the web (figure 5).
const FAR: Duration = Duration::from_millis(4150);

/// The doors over HTTP: a path, a header that its clients send, and a question in its form.
fn over_http() -> [(&'static str, &'static str, &'static str, Value); 5] {
    let text = question().question;
    let plain = json!({ "question": text, "options": { "k": 1 } });
    let messages = json!([{ "role": "user", "content": text }]);
    let chat = json!({ "model": "spechop-k1", "messages": messages });
    let mut streamed = chat.clone();
    streamed["stream"] = json!(true);
    let any = "*/*";
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "ask", "arguments": { "question": text, "k": 1 } },
    });
    let either = "application/json, text/event-stream";
    [
        ("JSON", "/v1/ask", any, plain.clone()),
        ("server-sent events", "/v1/ask/stream", any, plain),
        ("OpenAI", "/v1/chat/completions", any, chat),
        ("OpenAI, streamed", "/v1/chat/completions", any, streamed),
        ("MCP", "/mcp", either, call),
    ]
}

/// The least mean time of a question that a sample of each door has shown.
struct Table(RefCell<Vec<(&'static str, Duration)>>);

impl Table {
    /// Measures a door, which answers one question each time that it is asked.
    fn measure(
        &self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        runtime: &Runtime,
        name: &'static str,
        ask: &impl AsyncFn(),
    ) {
        self.0.borrow_mut().push((name, Duration::MAX));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                let took = runtime.block_on(async {
                    let began = Instant::now();
                    for _ in 0..times {
                        ask().await;
                    }
                    began.elapsed()
                });
                let mean = took / u32::try_from(times).unwrap_or(u32::MAX);
                if let Some((_, least)) = self.0.borrow_mut().last_mut() {
                    *least = mean.min(*least);
                }
                took
            });
        });
    }

    fn print(&self, heading: &str) {
        let rows = self.0.borrow();
        let (alone, empty) = (rows[0].1, rows[1].1);
        println!(
            "\n{heading}: microseconds of a question (least mean of a sample), those that the door adds \
             to the question, and those that the question adds to an exchange:"
        );
        for (name, least) in rows.iter() {
            let [more, than_empty] =
                [alone, empty].map(|row| least.saturating_sub(row).as_micros());
            println!(
                "{name:>20} {:>8} {more:>8} {than_empty:>8}",
                least.as_micros()
            );
        }
    }
}

fn doors(criterion: &mut Criterion) {
    let one = Builder::new_current_thread().enable_all().build().unwrap();
    each_door(&mut criterion.benchmark_group("doors, one thread"), &one).print("one thread");
    drop(one);
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("doors");
    let table = each_door(&mut group, &runtime);
    beside_others(&mut group, &runtime, &table);
    table.print("two threads");
}

/// A question through every door, with nothing else to do.
fn each_door(group: &mut BenchmarkGroup<'_, WallTime>, runtime: &Runtime) -> Table {
    let table = Table(RefCell::default());
    let request = at(1);

    let alone = runtime.block_on(async {
        let config = config(TOML);
        let ports = ScriptedPorts::new(Script::instant(2));
        let toolbox = Toolbox::of(bare(&ports), &config);
        App::with_toolbox(config, toolbox)
    });
    let ask = async || {
        alone.ask(&request).await.unwrap();
    };
    table.measure(group, runtime, "in the process", &ask);

    let (server, client) = runtime.block_on(async {
        let server = Server::configured(Script::instant(2), TOML).await;
        let client = server.client().await;
        (server, client)
    });
    let browser: Client = over_http::client();
    let url = over_http::url(&server, "/healthz");
    let ask = async || {
        let response = browser.get(&url).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.bytes().await.unwrap();
    };
    table.measure(group, runtime, "no question", &ask);
    let ask = async || {
        client.clone().ask(request.clone()).await.unwrap();
    };
    table.measure(group, runtime, "gRPC", &ask);
    let ask = async || {
        let events = client.clone().ask_stream(request.clone()).await.unwrap();
        let mut events = events.into_inner();
        while events.message().await.unwrap().is_some() {}
    };
    table.measure(group, runtime, "gRPC, streamed", &ask);
    for (name, path, accept, body) in over_http() {
        let (url, body) = (over_http::url(&server, path), body.to_string());
        let ask = async || {
            let request = browser.post(&url).header("accept", accept);
            let request = request.header("content-type", "application/json");
            let response = request.body(body.clone()).send().await.unwrap();
            assert_eq!(response.status(), 200);
            let told = response.bytes().await.unwrap();
            assert!(!told.is_empty());
        };
        table.measure(group, runtime, name, &ask);
    }
    runtime.block_on(async { drop(server) });
    table
}

/// A question over gRPC while 200 others have streams.
fn beside_others(group: &mut BenchmarkGroup<'_, WallTime>, runtime: &Runtime, table: &Table) {
    let request = at(1);
    // 200 questions are open all the time, and some are always told of.
    let (server, client) = runtime.block_on(async {
        let toml = format!("{TOML}questions_max = 300\n[scheduler.retriever]\ncapacity = 1000\n");
        let server = Server::with(Script::instant(2), config(&toml), |ports| Bare {
            retriever: Arc::new(Far(ports.clone())),
            ..bare(ports)
        })
        .await;
        let client = server.client().await;
        (server, client)
    });
    let ask = async || {
        client.clone().ask(request.clone()).await.unwrap();
    };
    table.measure(group, runtime, "gRPC, again alone", &ask);
    let readers = runtime.block_on(readers(&server, &request));
    table.measure(group, runtime, "…beside 200 read", &ask);
    assert!(server.gauges.questions_open() > 150, "they go on");
    runtime.block_on(async { drop((readers, server)) });

    // Events that are longer than what an unread stream takes.
    let (server, client) = runtime.block_on(async {
        let script = Script {
            passage_bytes: 8000,
            ..Script::instant(2)
        };
        let toml = format!("{TOML}unread_ms = 600000\nquestions_max = 300\n");
        let server = Server::configured(script, &toml).await;
        let client = server.client().await;
        (server, client)
    });
    let ask = async || {
        client.clone().ask(request.clone()).await.unwrap();
    };
    table.measure(group, runtime, "gRPC, long texts", &ask);
    let streams = runtime.block_on(unread(&server, &request));
    let name = "…beside 200 unread";
    table.measure(group, runtime, name, &ask);
    assert!(
        server.gauges.questions_open() >= streams.len(),
        "they are held"
    );
    runtime.block_on(async { drop((streams, server)) });
}

/// An index that is as far away as the web for every tenant with a name.
struct Far(ScriptedPorts);

#[tonic::async_trait]
impl Retriever for Far {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        if !call.tenant().as_str().is_empty() {
            tokio::time::sleep(FAR).await;
        }
        self.0.retrieve(call, query, limit).await
    }
}

/// 200 clients, each of a tenant of its own, that read what they are told and ask again.
async fn readers(server: &Server, request: &AskRequest) -> JoinSet<()> {
    let mut readers = JoinSet::new();
    for tenant in 0..200 {
        let mut client = server.client().await;
        let request = request.clone();
        readers.spawn(async move {
            // They do not all ask in the same moment.
            tokio::time::sleep(FAR * tenant / 200).await;
            loop {
                let request = of(&format!("t{tenant}"), request.clone());
                let mut events = client.ask_stream(request).await.unwrap().into_inner();
                while events.message().await.unwrap().is_some() {}
            }
        });
    }
    tokio::time::sleep(FAR).await;
    readers
}

/// 200 streams whose clients read nothing, each of a tenant of its own.
async fn unread(server: &Server, request: &AskRequest) -> Vec<Streaming<AskEvent>> {
    let mut streams = Vec::new();
    for tenant in 0..200 {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
        let endpoint = endpoint.initial_stream_window_size(Some(1024));
        let mut client = SpecHopClient::new(endpoint.connect().await.unwrap());
        let request = of(&format!("t{tenant}"), request.clone());
        streams.push(client.ask_stream(request).await.unwrap().into_inner());
    }
    streams
}

criterion_group!(benches, doors);
criterion_main!(benches);
