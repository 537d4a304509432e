//! Attacks by requests that are well-formed: many, small, cancelled or refused.

use std::time::Duration;

use spechop_proto::{AskRequest, GetBackendsRequest, WhatIfRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::victim::{Victim, question};
use crate::{Row, Size};

const FILES: u32 = 1024;

/// Questions whose clients go away.
pub(crate) async fn cancels(size: Size) -> Row {
    let victim = Victim::start(FILES, &["server.requests_per_second=100000"]);
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
    let victim = Victim::start(FILES, &["server.requests_per_second=100000"]);
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
    let victim = Victim::start(FILES, &["server.requests_per_second=100000"]);
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
    let victim = Victim::start(FILES, &[]);
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
    let victim = Victim::start(FILES, &[]);
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
