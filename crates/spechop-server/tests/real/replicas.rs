//! Two servers behind nginx, with a real Redis between them: they keep to one allowance.
//!
//! `deploy/test-tools.sh` fetches Redis and nginx into the data folder. Without them, the tests are left out
//! and say so.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{AskRequest, Budget, ResumeRequest};
use spechop_testkit::assets::data_dir;
use spechop_testkit::{OwnPort, RedisServer, Script};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use crate::support::{Server, at, of};

/// Look-ups of the tenant in an hour, of both servers together.
const ALLOWANCE: u32 = 400;
/// Questions at the same time.
const AT_ONCE: usize = 24;

/// nginx in front of these servers, which get the connections in turn. Dropping it ends it.
struct Balancer {
    child: Child,
    port: OwnPort,
    _dir: TempDir,
}

impl Balancer {
    async fn started(servers: [SocketAddr; 2]) -> Option<Self> {
        let binary = data_dir().join("bin/nginx");
        if !binary.exists() {
            eprintln!(
                "LEFT OUT: there is no {}; deploy/test-tools.sh fetches it",
                binary.display()
            );
            return None;
        }
        let port = OwnPort::reserve();
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().display();
        let ([a, b], listen) = (servers, port.address());
        let config = format!(
            "daemon off; worker_processes 1; error_log {here}/error.log; pid {here}/pid;\n\
             events {{}}\n\
             http {{\n\
               access_log off; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;\n\
               fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;\n\
               upstream spechop {{ server {a}; server {b}; }}\n\
               server {{\n\
                 listen {listen} http2;\n\
                 location / {{ grpc_pass grpc://spechop; grpc_set_header Host localhost; }}\n\
               }}\n\
             }}\n"
        );
        fs::write(dir.path().join("nginx.conf"), config).unwrap();
        let child = Command::new(binary)
            .arg("-e")
            .arg(dir.path().join("error.log"))
            .arg("-p")
            .arg(dir.path())
            .args(["-c", "nginx.conf"])
            .stdin(Stdio::null())
            .spawn();
        let child = child.unwrap();
        let balancer = Self {
            child,
            port,
            _dir: dir,
        };
        // A minute: machines may be busy.
        for _ in 0..2_400 {
            if TcpStream::connect(listen).is_ok() {
                return Some(balancer);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let log = fs::read_to_string(balancer._dir.path().join("error.log"));
        assert!(log.is_err(), "nginx accepts no connections: {log:?}");
        None
    }

    async fn client(&self) -> SpecHopClient<Channel> {
        let url = format!("http://{}", self.port.address());
        SpecHopClient::new(Endpoint::from_shared(url).unwrap().connect().await.unwrap())
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        // It ends its workers, which a killed one would not.
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").arg(&pid).status();
        let _ = self.child.wait();
    }
}

/// Two servers that share their accounts.
async fn servers(redis: &RedisServer) -> [Server; 2] {
    let toml = format!(
        "[server]\nrequests_per_second = 100000\nquestions_max = 200\n\
         [tenant]\ntarget_calls = {ALLOWANCE}\nperiod_s = 3600\n\
         [tenant.redis]\nurl = \"{}\"\nms_max = 5000\n",
        redis.url()
    );
    let server = async || Server::configured(Script::instant(6), &toml).await;
    [server().await, server().await]
}

/// A question of six hops, of a tenant.
fn asked() -> Request<AskRequest> {
    let message = AskRequest {
        budget: Some(Budget {
            target_calls: Some(6),
            ..Budget::default()
        }),
        ..at(1)
    };
    of("team", message)
}

/// Asks until nobody answers any more, and says how many look-ups that has cost.
async fn use_up(client: &SpecHopClient<Channel>) -> u32 {
    let ask = async || match client.clone().ask(asked()).await {
        Ok(answer) => Ok(answer.into_inner().usage.unwrap().targets.unwrap().started),
        Err(status) => Err(status),
    };
    let mut calls = 0;
    loop {
        let all = stream::iter(0..AT_ONCE)
            .map(|_| ask())
            .buffer_unordered(AT_ONCE);
        let all: Vec<_> = all.collect().await;
        let refused = all.iter().filter_map(|answer| answer.as_ref().err());
        for status in refused.clone() {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        }
        // What is set aside comes back; what is used up does not.
        let is_over = refused
            .clone()
            .any(|status| status.message().contains("used up"));
        calls += all
            .iter()
            .filter_map(|answer| answer.as_ref().ok())
            .sum::<u32>();
        if is_over {
            return calls;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_behind_a_balancer_keep_to_one_allowance() {
    let Some(redis) = RedisServer::started(&[]) else {
        return;
    };
    let both = servers(&redis).await;
    let Some(balancer) = Balancer::started([both[0].address, both[1].address]).await else {
        return;
    };
    let client = balancer.client().await;
    let calls = use_up(&client).await;
    // Every call is counted at the ports, too, and both have worked.
    let began = [both[0].look_ups().await, both[1].look_ups().await];
    assert_eq!(began.iter().sum::<u64>(), u64::from(calls), "{began:?}");
    assert!(began.iter().all(|began| *began > 0), "{began:?}");
    let within = ALLOWANCE * 95 / 100..=ALLOWANCE * 105 / 100;
    assert!(within.contains(&calls), "{calls} of {ALLOWANCE}, {began:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_go_on_while_redis_is_away_and_what_they_cost_is_told_afterwards() {
    let Some(mut redis) = RedisServer::started(&[]) else {
        return;
    };
    let both = servers(&redis).await;
    let [mut a, mut b] = [both[0].client().await, both[1].client().await];
    a.ask(asked()).await.unwrap();
    redis.kill();
    for _ in 0..5 {
        a.ask(asked()).await.unwrap();
        b.ask(asked()).await.unwrap();
    }
    let failed = "spechop_shared_account_changes_total{end=\"failed\"}";
    assert!(both[0].metric(failed).await > 0);
    redis.start();
    // Eleven questions of six look-ups have been answered; each server comes to know of all of them.
    let known = async || {
        let cell = redis_cell(&redis).await.unwrap_or_default();
        let rows: serde_json::Value = serde_json::from_str(&cell).unwrap_or_default();
        let rows = rows["rows"].as_object().cloned().unwrap_or_default();
        let spent = rows
            .values()
            .map(|row| row["spent"][1].as_u64().unwrap_or(0));
        spent.sum::<u64>()
    };
    let patience = tokio::time::timeout(Duration::from_secs(60), async {
        while known().await != 66 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    patience.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_resumed_where_it_was_begun_and_refused_elsewhere() {
    let Some(redis) = RedisServer::started(&[]) else {
        return;
    };
    let both = servers(&redis).await;
    let mut request = asked();
    request.get_mut().question_id = "mine".to_owned();
    let [mut a, mut b] = [both[0].client().await, both[1].client().await];
    a.ask(request).await.unwrap();
    let resume = || {
        let message = ResumeRequest {
            question_id: "mine".to_owned(),
            ..ResumeRequest::default()
        };
        of("team", message)
    };
    assert!(a.resume(resume()).await.is_ok());
    let refused = b.resume(resume()).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("on this server"), "{refused}");
}

/// The account of the tenant, as it lies in Redis.
async fn redis_cell(redis: &RedisServer) -> Option<String> {
    use spechop_ports::SharedCells;
    let options = spechop_config::RedisOptions {
        url: redis.url(),
        password: None,
        roots: None,
        prefix: "spechop".to_owned(),
        time_limit: Duration::from_secs(5),
    };
    let cells = Arc::new(spechop_redis::RedisCells::new(&options).unwrap());
    cells.read("account:team").await.ok().flatten()
}
