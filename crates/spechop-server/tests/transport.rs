//! Strangers: silent, half-way, too many, too fast, from a web page, and never reading.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Server, bare, config, endless, eventually, named, question};
use spechop_ports::{Call, PlanRequest, Planned, Planner, PortError};
use spechop_proto::admin_client::AdminClient;
use spechop_proto::{AskRequest, GetBackendsRequest};
use spechop_server::Bare;
use spechop_testkit::frames::{
    END, INITIAL_WINDOW, PREFACE, call, data, frames, greeting, head, kind, message,
};
use spechop_testkit::{Script, ScriptedPorts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::{Code, Request};

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// A limit that tests wait out, and that whoever says what it has to say keeps on a busy machine, too.
const SOON: &str = "[server]\nmessage_ms_max = 2000";
/// The same for answers.
const UNREAD: &str = "[server]\nunread_ms = 500";
const ASK: &str = "/spechop.v1.SpecHop/Ask";
const ASK_STREAM: &str = "/spechop.v1.SpecHop/AskStream";
const BACKENDS: &str = "/spechop.v1.Admin/GetBackends";

/// Says this, and nothing more.
async fn say(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// All that the server says until it hangs up, however it does that.
async fn heard(stream: &mut TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    let hangs_up = async { while let Ok(1..) = stream.read_buf(&mut heard).await {} };
    timeout(PATIENCE, hangs_up).await.expect("it hangs up");
    heard
}

/// A whole request over HTTP/2.
fn get(stream: u32, path: &str) -> Vec<u8> {
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
    ];
    head(stream, &fields, END)
}

/// A question as a gRPC message.
fn asked() -> Vec<u8> {
    let bytes = prost::Message::encode_to_vec(&question());
    message(bytes.len(), &bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_say_what_it_speaks_is_hung_up_on() {
    let server = Server::configured(Script::instant(1), SOON).await;
    let mut silent = Vec::new();
    for bytes in [&b""[..], &PREFACE[..11], b"GET /met"] {
        silent.push(say(&server, bytes).await);
    }
    for stream in &mut silent {
        heard(stream).await;
    }
    let counted = metric(&server, "connections_closed_total{reason=\"silent\"}").await;
    assert!(counted >= 2, "{counted}");
}

/// Of a counter that comes with its first count nobody sees the increase.
#[tokio::test(flavor = "multi_thread")]
async fn what_alerts_count_is_there_from_the_start() {
    let server = Server::start(Script::instant(1)).await;
    let page = server.metrics().await;
    for line in [
        "spechop_questions_total{outcome=\"answered\"} 0",
        "spechop_questions_total{outcome=\"failed\"} 0",
        "spechop_questions_total{outcome=\"deadline\"} 0",
        "spechop_questions_total{outcome=\"unread\"} 0",
        "spechop_questions_total{outcome=\"busy\"} 0",
        "spechop_connections_closed_total{reason=\"displaced\"} 0",
    ] {
        assert!(page.lines().any(|there| there == line), "{line}:\n{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_head_has_an_end() {
    let server = Server::configured(Script::instant(1), SOON).await;
    let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n";
    // The second one on its connection, too.
    for before in ["", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let mut stream = say(&server, before.as_bytes()).await;
        if !before.is_empty() {
            stream.read_buf(&mut Vec::new()).await.unwrap();
        }
        stream.write_all(head.as_bytes()).await.unwrap();
        heard(&mut stream).await;
    }
    let silent = metric(&server, "connections_closed_total{reason=\"silent\"}").await;
    assert_eq!(silent, 2);
    // However fast it comes.
    let server = Server::start(Script::instant(1)).await;
    let mut stream = say(&server, head.as_bytes()).await;
    let field = format!("X-Long: {}\r\n", "x".repeat(1000));
    for _ in 0..400 {
        // It fails once the server has hung up.
        if stream.write_all(field.as_bytes()).await.is_err() {
            break;
        }
    }
    heard(&mut stream).await;
    let closed = "connections_closed_total{reason=\"unfinished\"}";
    assert_eq!(metric(&server, closed).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_message_has_an_end() {
    let server = Server::configured(Script::instant(1), SOON).await;
    let half = [
        greeting(&[]),
        call(1, ASK, &[]),
        data(1, &message(12_000, &[b'x'; 6_000]), 0),
    ];
    let mut stream = say(&server, &half.concat()).await;
    let mut heard = Vec::new();
    // The stream is closed, the connection may go on.
    let refused = async {
        loop {
            stream.read_buf(&mut heard).await.unwrap();
            let ended = |(kind, flags, stream, _): &(u8, u8, u32, Vec<u8>)| {
                *stream == 1 && *kind == kind::HEADERS && flags & END == END
            };
            if frames(&heard).iter().any(ended) {
                break;
            }
        }
    };
    timeout(PATIENCE, refused).await.expect("it is refused");
    assert_eq!(
        metric(&server, "requests_refused_total{reason=\"late\"}").await,
        1
    );
    server.ask(question()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn halves_of_messages_do_not_add_up() {
    let server = Server::start(Script::instant(1)).await;
    let mut bytes = greeting(&[]);
    // Heads alone do it: they are held until the message is there.
    let padding = "x".repeat(8_000);
    for number in 0..80 {
        bytes.extend(call(2 * number + 1, ASK, &[("padding", &padding)]));
    }
    let _stream = say(&server, &bytes).await;
    eventually_metric(
        &server,
        "requests_refused_total{reason=\"too_much_at_once\"}",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_only_sit_there_make_room() {
    let server = Server::configured(endless(), "[server]\nconnections_max = 4").await;
    // A connection that works is not closed …
    let mut working = server.client().await;
    let mut asking = JoinSet::new();
    asking.spawn(async move { working.ask(question()).await });
    eventually(|| server.gauges.questions_open() == 1).await;
    // … whoever else comes.
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(say(&server, b"").await);
    }
    let mut admin = AdminClient::new(server.channel().await);
    admin.get_backends(GetBackendsRequest {}).await.unwrap();
    assert!(server.gauges.connections_open() <= 4);
    heard(&mut silent[0]).await;
    assert_eq!(server.gauges.questions_open(), 1);
    assert!(asking.try_join_next().is_none(), "it is still at work");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_heads_without_end_end_the_connection() {
    let server = Server::start(Script::instant(1)).await;
    let (mut reads, mut writes) = say(&server, &greeting(&[])).await.into_split();
    // A field that HTTP/2 forbids: the server resets the stream itself.
    let bad = |stream| {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", ASK),
            (":authority", "localhost"),
            ("connection", "close"),
        ];
        head(stream, &fields, END)
    };
    let flood = async {
        for number in 0..1_000_000 {
            if writes.write_all(&bad(2 * number + 1)).await.is_err() {
                return;
            }
        }
        panic!("all of them were taken");
    };
    let mut heard = Vec::new();
    let hangs_up = async { while let Ok(1..) = reads.read_buf(&mut heard).await {} };
    timeout(PATIENCE, async { tokio::join!(flood, hangs_up) })
        .await
        .expect("it hangs up");
    server.ask(question()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_and_other_names_are_refused() {
    let server = Server::start(Script::instant(1)).await;
    let http1 = |head: &str, body: &[u8]| {
        let long = body.len();
        [
            format!("{head}Content-Length: {long}\r\n\r\n").as_bytes(),
            body,
        ]
        .concat()
    };
    let ask = asked();
    for (request, status) in [
        // What a page may send without asking first.
        (
            http1(
                "POST /spechop.v1.SpecHop/Ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n",
                &ask,
            ),
            "505",
        ),
        (
            http1(
                "POST /spechop.v1.SpecHop/Ask HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/grpc\r\n",
                &ask,
            ),
            "421",
        ),
        (
            http1("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n", b""),
            "421",
        ),
        (
            http1(
                "GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n",
                b"",
            ),
            "403",
        ),
        (
            http1("POST /metrics HTTP/1.1\r\nHost: localhost\r\n", b""),
            "405",
        ),
        (
            http1("GET /nothing HTTP/1.1\r\nHost: localhost\r\n", b""),
            "404",
        ),
        (
            http1("GET /.git/config HTTP/1.1\r\nHost: localhost\r\n", b""),
            "404",
        ),
        (
            http1(
                "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
                b"",
            ),
            "200",
        ),
    ] {
        let mut stream = say(&server, &request).await;
        let heard = heard(&mut stream).await;
        let heard = String::from_utf8_lossy(&heard);
        let line = heard.lines().next().unwrap_or_default();
        assert!(
            line.starts_with(&format!("HTTP/1.1 {status}")),
            "{line}: {heard}"
        );
    }
    assert_eq!(server.ports.started(), 0, "nothing was asked");
    server.ask(question()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http2_the_same_is_refused() {
    let server = Server::start(Script::instant(1)).await;
    let mut client = server.client().await;
    let mut request = Request::new(question());
    let origin = "https://evil.example".parse().unwrap();
    request.metadata_mut().insert("origin", origin);
    let status = client.ask(request).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    // A name that was made to point here.
    let url = format!("http://{}", server.address);
    let other = tonic::transport::Endpoint::from_shared(url).unwrap();
    let other = other.origin("http://evil.example".parse().unwrap());
    let mut client =
        spechop_proto::spec_hop_client::SpecHopClient::new(other.connect().await.unwrap());
    let status = client.ask(question()).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    assert!(status.message().contains("server.hosts"), "{status}");
    assert_eq!(server.ports.started(), 0, "nothing was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_reads_is_dropped() {
    let server = Server::configured(Script::instant(3), UNREAD).await;
    let bytes = [
        greeting(&[(INITIAL_WINDOW, 0)]),
        call(1, ASK_STREAM, &[]),
        data(1, &asked(), END),
    ];
    let mut stream = say(&server, &bytes.concat()).await;
    heard(&mut stream).await;
    server.is_idle().await;
    assert_eq!(
        metric(&server, "connections_closed_total{reason=\"stalled\"}").await,
        1
    );
}

/// A window of one byte is enough for hyper to hand over a whole part, and the last one ends the body.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_reader_takes_one_byte_is_dropped_too() {
    let server = Server::configured(Script::instant(3), UNREAD).await;
    let asks = [
        [call(1, ASK, &[]), data(1, &asked(), END)].concat(),
        [call(1, ASK_STREAM, &[]), data(1, &asked(), END)].concat(),
        get(1, "/metrics"),
    ];
    for (number, ask) in asks.iter().enumerate() {
        let bytes = [&greeting(&[(INITIAL_WINDOW, 1)])[..], ask].concat();
        let mut stream = say(&server, &bytes).await;
        heard(&mut stream).await;
        let stalled = metric(&server, "connections_closed_total{reason=\"stalled\"}").await;
        assert_eq!(stalled, number as u64 + 1);
    }
    server.is_idle().await;
}

/// Its limit is told by the head of the message, before the bytes have come.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_message_to_reflection_is_refused_at_once() {
    let server = Server::start(Script::instant(1)).await;
    for service in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{service}.ServerReflection/ServerReflectionInfo");
        let bytes = [
            greeting(&[]),
            call(1, &path, &[]),
            data(1, &message(4_000_000, &[b'x'; 6_000]), 0),
        ];
        let mut stream = say(&server, &bytes.concat()).await;
        let mut heard = Vec::new();
        let ended = |(kind, flags, stream, _): &(u8, u8, u32, Vec<u8>)| {
            *stream == 1 && *kind == kind::HEADERS && flags & END == END
        };
        let refused = async {
            while !frames(&heard).iter().any(ended) {
                assert_ne!(stream.read_buf(&mut heard).await.unwrap(), 0);
            }
        };
        timeout(PATIENCE, refused).await.expect("it is refused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_connection_come_at_their_rate() {
    let toml = "[server]\nrequests_per_second = 1";
    let server = Server::configured(Script::instant(1), toml).await;
    let channel = server.channel().await;
    let ask = |request: Request<GetBackendsRequest>| {
        let mut admin = AdminClient::new(channel.clone());
        async move { admin.get_backends(request).await }
    };
    ask(Request::new(GetBackendsRequest {})).await.unwrap();
    // Long before its turn; a busy machine may be as late as that once, but not each time.
    let mut status = None;
    for _ in 0..5 {
        let mut early = Request::new(GetBackendsRequest {});
        early.set_timeout(Duration::from_millis(300));
        status = ask(early).await.err();
        if status.is_some() {
            break;
        }
    }
    let status = status.expect("it waits for its turn");
    assert!(
        matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded),
        "{status}"
    );
    // Another connection has a rate of its own.
    server.ask(question()).await.unwrap();
}

/// A planner that is asked this question, and no other.
struct AskedOnly(ScriptedPorts, String);

#[async_trait::async_trait]
impl Planner for AskedOnly {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        assert_eq!(request.question.as_str(), self.1);
        self.0.plan(call, request).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_the_greatest_length_fits() {
    let longest = "ü".repeat(2048);
    let server = Server::with(Script::instant(1), config(""), |ports| Bare {
        planner: Arc::new(AskedOnly(ports.clone(), longest.clone())),
        ..bare(ports)
    })
    .await;
    let asked = AskRequest {
        question: longest,
        ..named(&"q".repeat(64))
    };
    server.ask(asked).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_hold_up_the_end() {
    let toml = "[server]\nshutdown_grace_ms = 3600000";
    let mut server = Server::configured(Script::instant(1), toml).await;
    let mut silent = Vec::new();
    for bytes in [&b""[..], &greeting(&[]), PREFACE] {
        for _ in 0..5 {
            silent.push(say(&server, bytes).await);
        }
    }
    eventually(|| server.gauges.connections_open() == 15).await;
    server.shut_down();
    server.ended().await.unwrap();
}

/// What `GET /metrics` says of this.
async fn metric(server: &Server, name: &str) -> u64 {
    server.metric(&format!("spechop_{name}")).await
}

async fn eventually_metric(server: &Server, name: &str) {
    let comes = async {
        while metric(server, name).await == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, comes).await.expect("it is counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_are_told_over_plain_frames() {
    // The frames of this file are such that a well-behaved request of theirs is answered.
    let server = Server::start(Script::instant(1)).await;
    let bytes = [
        greeting(&[]),
        call(1, BACKENDS, &[]),
        data(1, &message(0, b""), END),
    ];
    let mut stream = say(&server, &bytes.concat()).await;
    let mut heard = Vec::new();
    let answered = async {
        while !frames(&heard).iter().any(|(kind, ..)| *kind == kind::DATA) {
            stream.read_buf(&mut heard).await.unwrap();
        }
    };
    timeout(PATIENCE, answered).await.expect("it is answered");
}
