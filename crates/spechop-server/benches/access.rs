//! What keys, TLS and traces cost: whole questions over the wire, scripted tools without latency.
//!
//! One client asks on one connection, one question after the other. `whole` is a question of two hops,
//! `refused` one that ends at the first look at its fields: there is little else to see in it than the
//! way in. With `traces` every span of every question goes to a receiver in this process, which shares the
//! cores with the server.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]

#[path = "../tests/support/pki.rs"]
mod pki;
#[path = "../tests/support/receiver.rs"]
mod receiver;
#[path = "../tests/support/mod.rs"]
mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use pki::{Authority, Folder, channel};
use receiver::{Manner, Receiver};
use secrecy::ExposeSecret;
use spechop_proto::AskRequest;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_server::keys::{Cost, KeyName, NewKey};
use spechop_testkit::Script;
use support::{Server, question};
use tokio::runtime::Runtime;
use tonic::Request;

fn access(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let made = NewKey::generate(&KeyName::new("me").unwrap(), Cost::default()).unwrap();
    let bearer = format!("Bearer {}", made.key.expose_secret());
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
            let receiver = runtime.block_on(Receiver::start(Manner::Forgets));
            if with_traces {
                toml += &format!("[otlp]\nendpoint = \"{}\"\n", receiver.endpoint());
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
                let mut request = Request::new(request.clone());
                let value = bearer.parse().unwrap();
                request.metadata_mut().insert("authorization", value);
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

criterion_group!(benches, access);
criterion_main!(benches);
