//! Attacks by requests that are well-formed: many, small, cancelled or refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prost::bytes::{Buf, BufMut};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_proto::options::Width;
use spechop_proto::{AskRequest, GetBackendsRequest, WhatIfRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};

use crate::victim::{FILES, HASTE, Victim, question};
use crate::{Row, Size};

/// Questions whose clients go away.
pub(crate) async fn cancels(victim: &Victim, size: Size) -> Row {
    victim.ask().await.unwrap();
    let before = victim.megabytes();
    let count = size.of(300u64, 10_000);
    let mut asking = JoinSet::new();
    for number in 0..count {
        if asking.len() >= 30 {
            asking.join_next().await;
        }
        let mut client = victim.client().await;
        asking.spawn(async move {
            let patience = Duration::from_millis(number * 7 % 50);
            let _ = timeout(patience, client.ask(question())).await;
        });
    }
    while asking.join_next().await.is_some() {}
    let mut admin = victim.admin().await;
    let empty = async {
        loop {
            let backends = admin.get_backends(GetBackendsRequest {}).await.unwrap();
            let busy = backends.into_inner().backends.iter().any(|backend| {
                let (needed, ahead) = (backend.running_authoritative, backend.running_speculative);
                needed + ahead + backend.waiting_authoritative + backend.waiting_speculative > 0
            });
            if !busy {
                break;
            }
        }
    };
    let emptied = timeout(Duration::from_secs(60), empty).await;
    assert!(emptied.is_ok(), "calls of cancelled questions are left");
    let grown = victim.megabytes() - before;
    assert!(grown < 60.0, "{grown:.0} MB more than before");
    victim.ask().await.unwrap();
    Row {
        finding: "–",
        attack: format!("{count} questions cancelled after 0 to 50 ms"),
        observed: format!("nothing running or waiting, {grown:+.0} MB"),
    }
}

/// L5: refusals in the log.
pub(crate) async fn refusals(size: Size) -> Row {
    let victim = Victim::start(FILES, &[HASTE]);
    let count = size.of(300, 5_000);
    let mut client = victim.client().await;
    for _ in 0..count {
        let unknown = AskRequest {
            question: "Nobody has recorded this question.".to_owned(),
            ..question()
        };
        client.ask(unknown).await.unwrap_err();
    }
    let bytes = victim.log_bytes();
    assert!(bytes < 30_000, "{bytes} bytes of log");
    Row {
        finding: "L5",
        attack: format!("{count} questions that fail"),
        observed: format!("{:.1} KB of log", bytes as f64 / 1e3),
    }
}

/// L3: simulations on request.
pub(crate) async fn what_ifs(size: Size) -> Row {
    let victim = Victim::start(FILES, &[HASTE]);
    for _ in 0..4 {
        victim.ask().await.unwrap();
    }
    let before = victim.threads();
    let count = size.of(200, 1_000);
    let admin = victim.admin().await;
    let mut asking = JoinSet::new();
    for _ in 0..count {
        let mut admin = admin.clone();
        asking.spawn(async move {
            let request = WhatIfRequest {
                k: vec![1, 2, 4, 8],
                ..WhatIfRequest::default()
            };
            // As many as may wait are answered, the rest is refused.
            let _ = admin.what_if(request).await;
        });
    }
    let mut most = before;
    while asking.join_next().await.is_some() {
        most = most.max(victim.threads());
    }
    assert!(most < before + 8.0, "{most} threads, {before} before");
    victim.ask().await.unwrap();
    Row {
        finding: "L3",
        attack: format!("{count} WhatIf at once"),
        observed: format!("{most} threads at most, {before} before"),
    }
}

/// L4: small calls, one after the other.
pub(crate) async fn small_calls(size: Size) -> Row {
    let victim = Victim::plain();
    let mut admin = victim.admin().await;
    let count = size.of(20, 200);
    let began = Instant::now();
    for _ in 0..count {
        admin.get_backends(GetBackendsRequest {}).await.unwrap();
    }
    let mean = began.elapsed().as_secs_f64() * 1e3 / f64::from(count);
    let mut observed = "answered".to_owned();
    if size.tells_times() {
        // Where small answers wait for an acknowledgement, it is 40 ms or more.
        assert!(mean < 20.0, "{mean:.1} ms a call");
        observed = format!("{mean:.1} ms each");
    }
    Row {
        finding: "L4",
        attack: format!("{count} small calls one after the other"),
        observed,
    }
}

/// M1: what a web page may send without asking first, and what it reads if its name points here.
pub(crate) async fn web_pages() -> Row {
    let victim = Victim::plain();
    let mut statuses = Vec::new();
    for head in [
        "POST /spechop.v1.SpecHop/Ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n",
        "POST /spechop.v1.SpecHop/Ask HTTP/1.1\r\nHost: evil.example\r\nContent-Type: text/plain\r\n",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n",
        "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n",
    ] {
        let mut stream = victim.connect().await.unwrap();
        let request = format!("{head}Content-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split_whitespace().nth(1).unwrap_or_default();
        statuses.push(status.to_owned());
    }
    assert_eq!(statuses, ["505", "421", "403", "421"]);
    victim.ask().await.unwrap();
    Row {
        finding: "M1",
        attack: "questions and metrics asked by a web page, under this name and its own".to_owned(),
        observed: format!("refused ({})", statuses.join(", ")),
    }
}

/// Well-behaved clients, each with a connection that it keeps.
pub(crate) async fn crowd(size: Size) -> Row {
    let count = size.of(600, 1_000);
    let victim = Victim::start(4 * FILES, &["server.questions_max=2000"]);
    victim.ask().await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(victim.client().await);
    }
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for mut client in clients {
        asking.spawn(async move { client.ask(question()).await.is_ok() });
    }
    let answered = asking.join_all().await.into_iter().filter(|ok| *ok).count();
    assert_eq!(answered, count, "well-behaved clients are turned away");
    let mut observed = format!("{answered} answered");
    if size.tells_times() {
        observed += &format!(" in {:.1} s", began.elapsed().as_secs_f64());
    }
    Row {
        finding: "–",
        attack: format!("{count} well-behaved clients at once, each with a connection"),
        observed,
    }
}

/// L11: questions without any time, as fast as one connection can send them.
pub(crate) async fn hasty(size: Size) -> Row {
    let victim = Victim::plain();
    let questions = size.of(3, 21);
    let usual = victim.usual_ms(questions).await;
    let (client, cpu, began) = (victim.client().await, victim.cpu_seconds(), Instant::now());
    let sent = Arc::new(AtomicU64::new(0));
    let mut flood = JoinSet::new();
    // Fewer than a tenant may have open at once: on a slow machine all of them are.
    for _ in 0..24 {
        let (mut client, sent) = (client.clone(), Arc::clone(&sent));
        flood.spawn(async move {
            loop {
                let hasty = AskRequest {
                    deadline_ms: Some(1),
                    ..question()
                }
                .with(|asked| asked.width = Some(Width::AUTO));
                let _ = client.ask(hasty).await;
                sent.fetch_add(1, Relaxed);
            }
        });
    }
    let during = victim.usual_ms(size.of(3, 101)).await;
    let seconds = began.elapsed().as_secs_f64();
    let (cores, a_second) = (
        (victim.cpu_seconds() - cpu) / seconds,
        sent.load(Relaxed) as f64 / seconds,
    );
    flood.abort_all();
    let mut observed = "others are served".to_owned();
    if size.tells_times() {
        assert!(
            during < 2.0 * usual,
            "{during:.1} ms instead of {usual:.1} ms"
        );
        observed = format!(
            "{a_second:.0} a second, {cores:.2} cores, a question {usual:.0} ms before and {during:.0} ms meanwhile"
        );
    }
    Row {
        finding: "L11",
        attack: "k = auto and deadline_ms = 1 without end, over one connection".to_owned(),
        observed,
    }
}

/// Bytes that are no message of ours, in frames that are right.
pub(crate) async fn protobuf(size: Size) -> Row {
    let victim = Victim::start(FILES, &[HASTE]);
    victim.ask().await.unwrap();
    let (before, count) = (victim.megabytes(), size.of(200u64, 3_000));
    let right = prost::Message::encode_to_vec(&question());
    let mut channel = tonic::client::Grpc::new(victim.channel().await.unwrap());
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    let mut random = StdRng::seed_from_u64(1);
    for number in 0..count {
        let bytes = match number % 4 {
            0 => (0..random.random_range(0..200))
                .map(|_| random.random())
                .collect(),
            // As many groups of an unknown field within each other as a request has room for.
            1 if number == 1 => vec![0x7b; 15_000],
            1 => right[..random.random_range(0..right.len())].to_vec(),
            _ => {
                let mut bytes = right.clone();
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
                bytes
            }
        };
        channel.ready().await.unwrap();
        let mut request = Request::new(bytes);
        request.set_timeout(Duration::from_secs(5));
        let path = "/spechop.v1.SpecHop/Ask".parse().unwrap();
        let code = match channel.unary(request, path, Raw).await {
            Ok(_) => "answered".to_owned(),
            Err(status) => format!("{:?}", status.code()),
        };
        assert_ne!(code, "Internal");
        assert!(number != 1 || code == "InvalidArgument", "{code}");
        *codes.entry(code).or_default() += 1;
    }
    let grown = victim.megabytes() - before;
    assert!(grown < 60.0, "{grown:.0} MB more than before");
    victim.ask().await.unwrap();
    let codes: Vec<_> = codes
        .iter()
        .map(|(code, n)| format!("{code} {n}"))
        .collect();
    Row {
        finding: "–",
        attack: format!("{count} random, cut and mutated messages"),
        observed: format!("{}; alive, {grown:+.0} MB", codes.join(", ")),
    }
}

/// Bytes as they are, both ways.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        from.advance(from.remaining());
        Ok(Some(()))
    }
}
