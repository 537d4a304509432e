//! Load runs against a real server: what is sent when, and what is counted as what.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::future::pending;
use std::time::Duration;

use crate::support::Server;
use spechop_eval::load::{
    LoadClient, LoadOptions, LoadProgress, LoadRunError, Loaded, Shape, load,
};
use spechop_eval::{Injected, Script, scripted};
use spechop_proto::spec_hop_client::SpecHopClient;
use tokio::sync::Notify;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

type NoKey = fn(Request<()>) -> Result<Request<()>, Status>;

async fn clients(server: &Server, count: usize) -> Vec<LoadClient<NoKey>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
        let channel = endpoint.connect().await.unwrap();
        let no_key: NoKey = Ok;
        clients.push(SpecHopClient::new(InterceptedService::new(channel, no_key)));
    }
    clients
}

fn options(rate: f64, settings: &[&str]) -> LoadOptions {
    LoadOptions {
        rate,
        shape: Shape::Poisson,
        lasting: Duration::from_millis(800),
        warm_up: Duration::from_millis(200),
        settings: settings.iter().map(|text| text.parse().unwrap()).collect(),
        streams: false,
        reuse: false,
        deadline: Duration::from_secs(60),
        in_flight_max: 10_000,
        seed: 3,
    }
}

fn questions(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("What comes of {n}?")).collect()
}

async fn run(
    server: &Server,
    options: &LoadOptions,
    asked: &[String],
) -> Result<Loaded, LoadRunError> {
    let clients = clients(server, 2).await;
    load(&clients, options, asked, pending(), &mut |_| {}).await
}

fn script(look_up_ms: f64, hops: u32, hit: f64) -> Script {
    let look_up = Injected {
        mean_ms: look_up_ms,
        sigma_ms: 0.0,
        seed: 1,
    };
    Script {
        hops,
        hit,
        segment: Duration::ZERO,
        look_up: Some(look_up),
        guess: Duration::ZERO,
        seed: 1,
    }
}

/// One look-up of 20 ms at a time can answer 50 questions a second. Asked 200, a closed loop would see 20 ms
/// each; who counts from the moment of sending sees the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_behind_is_charged_with_the_queue() {
    let toml = "[scheduler.retriever]\ncapacity = 1\n[server]\nquestions_max = 1000";
    let server = Server::over(scripted(script(20.0, 1, 1.0), &["llm"]), toml);
    let options = options(200.0, &["k=1"]);
    let loaded = run(&server, &options, &questions(1000)).await.unwrap();
    let [of] = &loaded.settings[..] else {
        panic!("{loaded:?}");
    };
    assert_eq!(of.asked, of.answered, "{loaded:?}");
    assert!(of.asked > 100 && loaded.warm_up > 10, "{loaded:?}");
    let latency = of.latency_ms.unwrap();
    assert!(latency.max > 1000.0, "{latency:?}");
    assert!(loaded.in_flight_max > 40, "{loaded:?}");
    assert!(latency.p50 <= latency.p90 && latency.p99 <= latency.p999);
}

/// Of every second the first tenth is busy, so the run ends in silence.
#[tokio::test(flavor = "multi_thread")]
async fn silence_at_the_end_is_part_of_the_time() {
    let server = Server::start(spechop_testkit::Script::instant(1), "");
    let mut options = options(50.0, &["k=1"]);
    options.shape = Shape::Bursts {
        factor: 10.0,
        period: Duration::from_secs(1),
    };
    (options.warm_up, options.lasting) = (Duration::ZERO, Duration::from_secs(1));
    let loaded = run(&server, &options, &questions(100)).await.unwrap();
    let answered = loaded.settings[0].answered;
    assert!(answered > 10, "{loaded:?}");
    assert_eq!(loaded.lasted_s, 1.0, "{loaded:?}");
    assert!(loaded.answered_per_s <= answered as f64, "{loaded:?}");
}

/// Four hops of 200 ms behind each other, or all at once: far more than a busy machine takes for them.
#[tokio::test(flavor = "multi_thread")]
async fn two_settings_are_compared_in_one_run() {
    let toml = "[server]\nquestions_max = 1000\n[scheduler.retriever]\ncapacity = 1000\n\
                speculative_max = 1000\n[scheduler.generator]\ncapacity = 100";
    let server = Server::over(scripted(script(200.0, 4, 1.0), &["llm"]), toml);
    let settings = ["k=1", "k=8,speculator=llm"];
    let mut options = options(40.0, &settings);
    options.streams = true;
    let loaded = run(&server, &options, &questions(200)).await.unwrap();
    let compared = loaded.compared.as_ref().unwrap();
    assert_eq!((&*compared.a, &*compared.b), (settings[0], settings[1]));
    let latency = compared.latency.unwrap();
    assert!(latency.value < 0.8 && latency.high < 1.0, "{loaded:?}");
    let [standard, ahead] = &loaded.settings[..] else {
        panic!("{loaded:?}");
    };
    // Each pair has one of each, but the last one may be cut off.
    assert!(standard.asked.abs_diff(ahead.asked) <= 2, "{loaded:?}");
    // So few pairs go round eight questions twice, and no more are asked.
    assert!((1..=8).contains(&loaded.questions), "{loaded:?}");
    assert_eq!(standard.target_calls, Some(4.0));
    for of in [standard, ahead] {
        assert!(of.latency_ms.unwrap().mean >= 200.0, "{of:?}");
        let first = of.first_event_ms.unwrap();
        assert!(first.mean < of.latency_ms.unwrap().mean, "{of:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_counted_by_their_status() {
    let server = Server::start(spechop_testkit::Script::instant(1), "");
    let asked = ["What is fine?", "What is broken?"].map(str::to_owned);
    let loaded = run(&server, &options(50.0, &["k=1"]), &asked)
        .await
        .unwrap();
    let [of] = &loaded.settings[..] else {
        panic!("{loaded:?}");
    };
    let failed = of.errors["FAILED_PRECONDITION"];
    assert!(of.answered > 0 && failed > 0, "{of:?}");
    assert_eq!(of.asked, of.answered + failed, "{of:?}");

    // If not even the first question is answered, nothing is measured.
    let error = run(&server, &options(50.0, &["k=1"]), &asked[1..]).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("FAILED_PRECONDITION"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_under_way_are_not_sent() {
    let server = Server::over(scripted(script(200.0, 1, 1.0), &["llm"]), "");
    let mut options = options(100.0, &["k=1"]);
    options.in_flight_max = 1;
    let loaded = run(&server, &options, &questions(100)).await.unwrap();
    assert_eq!(loaded.in_flight_max, 1);
    assert!(loaded.settings[0].errors["NOT_SENT"] > 10, "{loaded:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_ended_early_says_what_there_was() {
    let server = Server::start(spechop_testkit::Script::instant(1), "");
    let clients = clients(&server, 1).await;
    let mut options = options(50.0, &["k=1"]);
    options.lasting = Duration::from_secs(3600);
    options.warm_up = Duration::ZERO;
    let asked = ["What is fine?", "What is endless?"].map(str::to_owned);
    let enough = Notify::new();
    let mut seen = |progress: LoadProgress| {
        if progress.answered > 0 && progress.in_flight > 0 {
            enough.notify_one();
        }
    };
    let stop = enough.notified();
    let loaded = load(&clients, &options, &asked, stop, &mut seen);
    let loaded = loaded.await.unwrap();
    let [of] = &loaded.settings[..] else {
        panic!("{loaded:?}");
    };
    assert!(loaded.ended_early && loaded.lasted_s < 3000.0);
    assert!(of.answered > 0 && of.unfinished > 0, "{of:?}");
    assert_eq!(of.asked, of.answered + of.unfinished);
    // What was under way has ended on the server, too.
    spechop_testkit::eventually(|| server.ports.live() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_said_before_anything_is_sent() {
    let server = Server::start(spechop_testkit::Script::instant(1), "");
    let fine = options(1.0, &["k=1"]);
    let mut nothing = fine.clone();
    nothing.settings.clear();
    let mut slow = fine.clone();
    slow.rate = 0.0;
    // More than could be drawn: whoever asked for it could not even stop it.
    let mut fast = fine.clone();
    fast.rate = 1e300;
    let bursts = |factor| LoadOptions {
        shape: Shape::Bursts {
            factor,
            period: Duration::from_secs(1),
        },
        ..fine.clone()
    };
    let (burst, steep) = (bursts(1.0), bursts(f64::INFINITY));
    for (options, asked, words) in [
        (&nothing, 1, "there is no setting"),
        (&slow, 1, "the rate must be"),
        (&fast, 1, "at most a million"),
        (&burst, 1, "the factor of bursts must be"),
        (&steep, 1, "at most a thousand"),
        (&fine, 0, "there is no question"),
    ] {
        let error = run(&server, options, &questions(asked)).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(server.ports.started(), 0);
}
