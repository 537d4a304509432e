//! Attacks below the requests: connections, frames, bytes that never become a message.

use std::time::Duration;

use spechop_testkit::frames::{
    END, INITIAL_WINDOW, PREFACE, call, data, frame, greeting, head, kind, message,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::victim::{FILES, Victim, question};
use crate::{Row, Size};

const ASK: &str = "/spechop.v1.SpecHop/Ask";
const ASK_STREAM: &str = "/spechop.v1.SpecHop/AskStream";

/// Memory of a client's making, whatever it does.
const GROWTH_MB_MAX: f64 = 150.0;

fn grew(victim: &Victim, before: f64) -> f64 {
    let grown = victim.megabytes() - before;
    assert!(grown < GROWTH_MB_MAX, "{grown:.0} MB more than before");
    grown
}

async fn hung_up(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    let end = async { while let Ok(1..) = stream.read(&mut buffer).await {} };
    timeout(Duration::from_secs(60), end).await.is_ok()
}

/// H1: heads that the server itself must reset, and a client that never reads.
pub(crate) async fn resets(victim: &Victim, size: Size) -> Row {
    victim.ask().await.unwrap();
    let before = victim.megabytes();
    let most = size.of(50_000, 1_500_000);
    let mut stream = victim.connect().await.unwrap();
    stream.write_all(&greeting(&[])).await.unwrap();
    let mut sent = 0;
    while sent < most {
        let bad = |stream| head(stream, &[(":method", "POST"), ("connection", "close")], END);
        let many: Vec<u8> = (sent..sent + 100)
            .flat_map(|number| bad(2 * number + 1))
            .collect();
        let written = timeout(Duration::from_secs(10), stream.write_all(&many)).await;
        match written {
            Ok(Ok(())) => sent += 100,
            // Nobody reads any more: the server has closed, or waits for us to read.
            Ok(Err(_)) | Err(_) => break,
        }
    }
    assert!(sent < most, "all {sent} were taken");
    let grown = grew(victim, before);
    victim.ask().await.unwrap();
    Row {
        finding: "H1",
        attack: format!("{most} malformed heads, never reading"),
        observed: format!("ended after {sent}, {grown:+.0} MB"),
    }
}

/// CVE-2023-44487: streams opened and reset at once.
pub(crate) async fn rapid_resets(victim: &Victim, size: Size) -> Row {
    victim.ask().await.unwrap();
    let before = victim.megabytes();
    let connections = size.of(4, 40);
    for _ in 0..connections {
        let mut stream = victim.connect().await.unwrap();
        let mut bytes = greeting(&[]);
        for number in 0..2_000 {
            let id = 2 * number + 1;
            bytes.extend(call(id, ASK, &[]));
            bytes.extend(frame(kind::RST_STREAM, 0, id, &8u32.to_be_bytes()));
        }
        // It may hang up in the middle of it.
        let _ = stream.write_all(&bytes).await;
        assert!(hung_up(&mut stream).await, "rapid reset is not punished");
    }
    let grown = grew(victim, before);
    victim.ask().await.unwrap();
    Row {
        finding: "–",
        attack: format!("rapid reset, {connections} connections"),
        observed: format!("all closed, {grown:+.0} MB"),
    }
}

/// H2: connections of seven slow kinds, far more than there may be files.
pub(crate) async fn silence(victim: &Victim, size: Size) -> Row {
    let questions = size.of(3, 21);
    let usual = victim.usual_ms(questions).await;
    let before = victim.megabytes();
    let unfinished = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc";
    let kinds: [Vec<u8>; 7] = [
        Vec::new(),
        PREFACE[..11].to_vec(),
        PREFACE.to_vec(),
        greeting(&[]),
        b"GET /metrics HTTP/1.1\r\nHo".to_vec(),
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        unfinished.to_vec(),
    ];
    let count = size.of(1_400, 10_000);
    let mut held = Vec::new();
    for number in 0..count {
        // Refused by the system of a full server is an answer, too.
        if let Ok(mut stream) = victim.connect().await {
            let _ = stream.write_all(&kinds[number % kinds.len()]).await;
            held.push(stream);
        }
        if number % (count / 10) == 0 {
            victim.ask().await.unwrap();
        }
    }
    let files = victim.files();
    assert!(files < FILES as usize, "{files} open files");
    let grown = grew(victim, before);
    let during = victim.usual_ms(questions).await;
    let mut observed = format!("{files} files, {grown:+.0} MB, all others served");
    if size.tells_times() {
        let (cpu, began) = (victim.cpu_seconds(), Instant::now());
        sleep(Duration::from_secs(10)).await;
        let cores = (victim.cpu_seconds() - cpu) / began.elapsed().as_secs_f64();
        assert!(cores < 0.2, "{cores:.2} cores for those who do nothing");
        assert!(
            during < 2.0 * usual,
            "{during:.1} ms instead of {usual:.1} ms"
        );
        observed += &format!(
            ", {cores:.3} cores, a question {usual:.0} ms before and {during:.0} ms meanwhile"
        );
    }
    Row {
        finding: "H2",
        attack: format!("{count} connections of seven slow kinds, {FILES} files"),
        observed,
    }
}

/// H3: streams whose messages never end.
pub(crate) async fn halves(victim: &Victim, size: Size) -> Row {
    victim.ask().await.unwrap();
    let before = victim.megabytes();
    let connections = size.of(30, 500);
    let mut held = Vec::new();
    let mut peak = before;
    for number in 0..connections {
        let mut bytes = greeting(&[]);
        for stream in 0..100 {
            bytes.extend(call(2 * stream + 1, ASK, &[]));
            // All of them together stay below the connection's first window.
            bytes.extend(data(2 * stream + 1, &message(15_000, &[b'x'; 600]), 0));
        }
        let mut stream = victim.connect().await.unwrap();
        let _ = stream.write_all(&bytes).await;
        held.push(stream);
        peak = peak.max(victim.megabytes());
        if number % (connections / 10) == 0 {
            victim.ask().await.unwrap();
        }
    }
    // And one that sends as much as it likes, whatever the windows say.
    let mut stream = victim.connect().await.unwrap();
    let mut bytes = greeting(&[]);
    for number in 0..100 {
        bytes.extend(call(2 * number + 1, ASK, &[]));
        bytes.extend(data(2 * number + 1, &message(16_000, &[b'x'; 15_000]), 0));
    }
    let _ = stream.write_all(&bytes).await;
    assert!(hung_up(&mut stream).await, "windows mean nothing");
    let grown = peak - before;
    assert!(grown < GROWTH_MB_MAX, "{grown:.0} MB more than before");
    victim.ask().await.unwrap();
    Row {
        finding: "H3",
        attack: format!(
            "{} half-sent messages over {connections} connections",
            100 * connections
        ),
        observed: format!("{grown:+.0} MB at most, all others served"),
    }
}

/// Bytes that are no protocol at all.
pub(crate) async fn garbage(victim: &Victim, size: Size) -> Row {
    victim.ask().await.unwrap();
    let before = victim.megabytes();
    let count = size.of(200u32, 2_000);
    let mut state = 0x9e37_79b9_u32;
    for number in 0..count {
        let mut noise = || {
            // Xorshift (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()
        };
        let long = usize::from(noise()[0]);
        let mut bytes: Vec<u8> = (0..long).flat_map(|_| noise()).collect();
        if number % 2 == 0 {
            bytes = [greeting(&[]), bytes].concat();
        }
        let mut stream = victim.connect().await.unwrap();
        let _ = stream.write_all(&bytes).await;
    }
    let grown = grew(victim, before);
    victim.ask().await.unwrap();
    Row {
        finding: "–",
        attack: format!("{count} connections of noise"),
        observed: format!("alive, {grown:+.0} MB"),
    }
}

/// M7: answers that nobody reads.
pub(crate) async fn unread(size: Size) -> Row {
    let questions_max = 4;
    let places = format!("server.questions_max={questions_max}");
    let victim = Victim::start(FILES, &[&places, "server.unread_ms=1000"]);
    victim.ask().await.unwrap();
    let before = victim.megabytes();
    let count = size.of(12, 60);
    let bytes = prost::Message::encode_to_vec(&question());
    let asked = [
        greeting(&[(INITIAL_WINDOW, 0)]),
        call(1, ASK_STREAM, &[]),
        data(1, &message(bytes.len(), &bytes), END),
    ];
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = victim.connect().await.unwrap();
        stream.write_all(&asked.concat()).await.unwrap();
        held.push(stream);
    }
    for stream in &mut held {
        assert!(hung_up(stream).await, "an unread answer lies for ever");
    }
    let grown = grew(&victim, before);
    victim.ask().await.unwrap();
    Row {
        finding: "M7",
        attack: format!("{count} streams that nobody reads, {questions_max} places"),
        observed: format!("all closed after twice server.unread_ms, places free, {grown:+.0} MB"),
    }
}

/// L10: the end, with silent connections and no question.
pub(crate) async fn end(size: Size) -> Row {
    let victim = Victim::start(FILES, &["server.shutdown_grace_ms=600000"]);
    victim.ask().await.unwrap();
    let mut held = Vec::new();
    for number in 0..300 {
        let mut stream = victim.connect().await.unwrap();
        if number % 2 == 0 {
            stream.write_all(&greeting(&[])).await.unwrap();
        }
        held.push(stream);
    }
    let began = Instant::now();
    let status = tokio::task::spawn_blocking(|| victim.end()).await.unwrap();
    assert!(status.success(), "{status}");
    let took = began.elapsed().as_secs_f64();
    // The grace period is ten minutes, and nobody needs it.
    assert!(took < 300.0, "{took:.1} s");
    let mut observed = "ended long before the grace period".to_owned();
    if size.tells_times() {
        assert!(took < 5.0, "{took:.1} s");
        observed = format!("ended after {took:.2} s");
    }
    Row {
        finding: "L10",
        attack: "SIGTERM with 300 silent connections and no question".to_owned(),
        observed,
    }
}
