//! What keys, TLS, traces and metrics cost: whole questions over the wire, scripted tools without latency.
//!
//! One client asks on one connection, one question after the other. `whole` is a question of two hops,
//! `refused` one that ends at the first look at its fields: there is little else to see in it than the
//! way in. With `traces` every span of every question goes to a receiver, which shares the cores with the
//! server. It reads what it is sent and looks at none of it: a collector runs elsewhere.
//!
//! Metrics cannot be switched off. `counted` is therefore only what is counted of such a question, without
//! the question: to be held against `whole`, alone and with another thread that counts at the same time; and
//! what it takes to write all of it out for who scrapes it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]

#[path = "../tests/support/pki.rs"]
mod pki;
#[path = "../tests/support/mod.rs"]
mod support;

use std::future::ready;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request as Sent;
use axum::response::Response;
use criterion::{Criterion, criterion_group, criterion_main};
use http_body_util::{BodyExt, Full};
use pki::{Authority, Folder, channel};
use secrecy::ExposeSecret;
use spechop_agent::{Agent, Ports, Report, Settings, TraceEvent, Width};
use spechop_config::SpeculatorKind;
use spechop_config::api_keys::{Cost, KeyName, NewKey};
use spechop_proto::AskRequest;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_server::Counting;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Question;
use support::{Server, by, question};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;

fn access(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let made = NewKey::generate(&KeyName::new("me").unwrap(), Cost::default()).unwrap();
    let (authority, folder) = (Authority::new(), Folder::new());
    folder.put(&authority.server());
    let keys = format!(
        "[[keys]]\nname = \"me\"\nhash = \"{}\"\n",
        made.hash.as_str()
    );
    let fast = "[server]\nrequests_per_second = 1000000\n";
    for (what, request) in [("whole", question()), ("refused", AskRequest::default())] {
        let mut group = criterion.benchmark_group(what);
        for (name, with_keys, with_tls, with_traces) in [
            ("in the clear", false, false, false),
            ("keys", true, false, false),
            ("tls", false, true, false),
            ("keys and tls", true, true, false),
            ("traces", false, false, true),
        ] {
            let mut toml = String::new();
            if with_keys {
                toml += &keys;
            }
            toml += fast;
            if with_tls {
                toml += &folder.keys();
            }
            let mut receiving = JoinSet::new();
            if with_traces {
                let receiver = runtime.block_on(receiver(&mut receiving));
                toml += &format!("[otlp]\nendpoint = \"{receiver}\"\n");
            }
            let (_server, client) = runtime.block_on(async {
                let server = Server::configured(Script::instant(2), &toml).await;
                let channel = match with_tls {
                    true => channel(server.address, authority.trusted()).await.unwrap(),
                    false => server.channel().await,
                };
                (server, SpecHopClient::new(channel))
            });
            let ask = async || {
                let request = by(made.key.expose_secret(), "", request.clone());
                let mut client = client.clone();
                client
                    .ask(request)
                    .await
                    .map(|_| ())
                    .map_err(|status| status.code())
            };
            group.bench_function(name, |bencher| bencher.to_async(&runtime).iter(&ask));
        }
        group.finish();
    }
}

/// A question of two hops at k = 3, as `whole` asks it: what was told of it, and what came of it.
fn answered(runtime: &Runtime) -> (Width, Vec<TraceEvent>, Report) {
    let scripted = Arc::new(ScriptedPorts::new(Script::instant(2)));
    let agent = Agent::new(Ports {
        planner: scripted.clone(),
        reader: scripted.clone(),
        retriever: scripted.clone(),
        speculator: Some(scripted),
        drafter: None,
        draft_writer: None,
    });
    let width = Width::bounded(NonZeroUsize::new(3).unwrap());
    let settings = Settings {
        width,
        ..Settings::default()
    };
    let asked = Question::new(&question().question).unwrap();
    let mut events = Vec::new();
    let mut hear = |event: TraceEvent| events.push(event);
    let report = runtime.block_on(agent.answer(&asked, &settings, &mut hear));
    (width, events, report.unwrap())
}

fn counted(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let (width, events, report) = answered(&runtime);
    assert_eq!(report.hops.len(), 2);
    let counting = Counting::default();
    let count = || counting.question(SpeculatorKind::Hot, width, &events, &report);
    let mut group = criterion.benchmark_group("counted");
    group.bench_function("a question", |bencher| bencher.iter(count));
    group.bench_function("a question, beside another thread", |bencher| {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    count();
                }
            });
            bencher.iter(count);
            over.store(true, Ordering::Relaxed);
        });
    });
    group.bench_function("written out", |bencher| bencher.iter(|| counting.text()));
    group.finish();
}

/// The address of a receiver of OTLP that takes everything.
async fn receiver(receiving: &mut JoinSet<Result<(), tonic::transport::Error>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let routes = Routes::from(Router::new().fallback(take));
    let server = tonic::transport::Server::builder().add_routes(routes);
    receiving.spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    endpoint
}

/// Reads a request to its end, and answers with an empty message.
async fn take(sent: Sent) -> Response {
    let mut body = sent.into_body();
    while let Some(frame) = body.frame().await {
        frame.unwrap();
    }
    let mut trailers = MetadataMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let trailers = ready(Some(Ok(trailers.into_headers())));
    let empty = Full::new(Bytes::from_static(&[0; 5])).with_trailers(trailers);
    let answer = Response::builder().header("content-type", "application/grpc");
    answer.body(Body::new(empty)).unwrap()
}

criterion_group!(benches, access, counted);
criterion_main!(benches);
