//! Bytes as they come: cut anywhere, broken off, without an end.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use spechop_llm::{End, Generated, OpenAiModel, TextModel};
use spechop_ports::{Call, Lane, PortError};
use spechop_types::{Chance, Tokens};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{delta, ending, endpoint, event, generation};

/// What the server does on one connection, once it has read a request.
#[derive(Clone)]
enum Act {
    Send(Vec<u8>),
    /// Sends the same over and over until the client is gone.
    Flood(Vec<u8>),
    /// Waits until the client is gone.
    AwaitClose,
}

/// What the server saw.
#[derive(Debug, PartialEq)]
enum Seen {
    Request,
    Closed,
}

struct Server {
    address: SocketAddr,
    seen: mpsc::UnboundedReceiver<Seen>,
    _task: JoinSet<()>,
}

impl Server {
    /// One script for each connection, in order; connections close when their script ends.
    async fn start(scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (news, seen) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            for script in scripts {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(play(stream, script, news.clone()));
            }
            while connections.join_next().await.is_some() {}
        });
        Self {
            address,
            seen,
            _task: task,
        }
    }

    fn endpoint(&self) -> spechop_llm::ChatEndpoint {
        let mut endpoint = endpoint(&format!("http://{}/v1", self.address));
        endpoint.retries.max = 1;
        endpoint
    }

    fn model(&self) -> OpenAiModel {
        OpenAiModel::new(&self.endpoint()).unwrap()
    }

    async fn next(&mut self) -> Seen {
        tokio::time::timeout(Duration::from_secs(120), self.seen.recv())
            .await
            .unwrap()
            .unwrap()
    }
}

async fn play(mut stream: TcpStream, script: Vec<Act>, news: mpsc::UnboundedSender<Seen>) {
    let mut request = Vec::new();
    // All our requests end with the same byte of JSON.
    while !request.ends_with(b"}") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    // Nobody may be listening any more; that is the test's business.
    let _ = news.send(Seen::Request);
    for act in script {
        match act {
            Act::Send(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.flush().await;
                // Let it travel alone.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Act::Flood(bytes) => while stream.write_all(&bytes).await.is_ok() {},
            Act::AwaitClose => {
                let mut rest = [0; 64];
                while stream.read(&mut rest).await.unwrap_or(0) > 0 {}
                let _ = news.send(Seen::Closed);
            }
        }
    }
}

fn send(text: impl Into<Vec<u8>>) -> Act {
    Act::Send(text.into())
}

/// The head of a response that ends with the connection.
fn head() -> Act {
    send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
}

/// The head of a response that must say that it ends.
fn chunked() -> Act {
    send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
}

fn chunk(text: &str) -> Act {
    send(format!("{:x}\r\n{text}\r\n", text.len()))
}

async fn generate(model: &OpenAiModel) -> Result<Generated, PortError> {
    model.generate(&Call::authoritative(), generation()).await
}

#[tokio::test]
async fn characters_and_tags_may_be_cut_anywhere() {
    let stream = delta("<answer>Łódź–😀</ans") + &delta("wer> and on");
    for size in [1, 3, 7] {
        let mut script = vec![head()];
        script.extend(stream.as_bytes().chunks(size).map(send));
        script.push(Act::AwaitClose);
        let mut server = Server::start(vec![script]).await;
        let said = generate(&server.model()).await.unwrap();
        assert_eq!(said.text, "<answer>Łódź–😀</answer>");
        assert_eq!(said.end, End::Stop);
        assert_eq!(server.next().await, Seen::Request);
        assert_eq!(server.next().await, Seen::Closed, "we hang up");
    }
}

/// A kind is written in any case, and a byte order mark may stand before the first event.
#[tokio::test]
async fn a_stream_is_known_in_any_dress() {
    let head =
        send("HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream\r\nconnection: close\r\n\r\n");
    let stream = format!("\u{feff}{}{}", delta("Amy"), ending("stop"));
    let server = Server::start(vec![vec![head, send(stream)]]).await;
    assert_eq!(generate(&server.model()).await.unwrap().text, "Amy");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again() {
    let good = vec![head(), send(delta("Amy") + &ending("stop"))];
    for broken in [
        // In mid-chunk, in mid-event, between events, before the head, in the head.
        vec![chunked(), send("ff\r\ndata: {\"ch")],
        vec![head(), send("data: {\"ch")],
        vec![chunked(), chunk(&delta("Per"))],
        vec![],
        vec![send("HTTP/1.1 200 OK\r\ncontent-")],
    ] {
        let server = Server::start(vec![broken, good.clone()]).await;
        let said = generate(&server.model()).await.unwrap();
        assert_eq!(said.text, "Amy");
    }
    let broken = vec![chunked(), chunk(&delta("Per"))];
    let server = Server::start(vec![broken.clone(), broken]).await;
    let error = generate(&server.model()).await.unwrap_err();
    assert!(matches!(error, PortError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn an_answer_with_its_end_is_whole_though_the_rest_is_lost() {
    let last = |text: &str| {
        let choice = json!({"delta": {"content": text}, "finish_reason": "stop"});
        event(&json!({ "choices": [choice] }))
    };
    // Some gateways say of every piece that it is the last.
    for pieces in [[delta("Amy"), last("")], [last("A"), last("my")]] {
        // The connection breaks, or stays open in silence.
        for rest in [None, Some(Act::AwaitClose)] {
            let mut script = vec![chunked()];
            script.extend(pieces.iter().map(|piece| chunk(piece)));
            script.extend(rest);
            // Nobody answers a second request.
            let server = Server::start(vec![script]).await;
            let mut endpoint = server.endpoint();
            endpoint.limits.silence = Duration::from_secs(2);
            let said = generate(&OpenAiModel::new(&endpoint).unwrap())
                .await
                .unwrap();
            assert_eq!((said.text.as_str(), said.end), ("Amy", End::Turn));
        }
    }
}

#[tokio::test]
async fn what_never_ends_is_cut() {
    let ping = vec![b':'; 1000].into_iter().chain(*b"\n\n").collect();
    for flood in [
        vec![b'x'; 10_000],
        b"data: more of the same event\n".repeat(100),
        ping,
        delta("").into_bytes().repeat(50),
    ] {
        let server = Server::start(vec![vec![head(), Act::Flood(flood)]]).await;
        let error = generate(&server.model()).await.unwrap_err();
        assert!(matches!(error, PortError::Malformed { .. }), "{error:?}");
    }
    // An error body without an end, too.
    let head = send("HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n");
    let flood = Act::Flood(vec![b'x'; 10_000]);
    let server = Server::start(vec![vec![head, flood]]).await;
    let error = generate(&server.model()).await.unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
}

/// In real time, as the sockets are real. Silence is not waited for, which would be 30 s.
#[tokio::test]
async fn an_error_whose_text_never_ends_is_known_by_its_status() {
    let pushed_back = send(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let good = vec![head(), send(delta("Amy") + &ending("stop"))];
    // It is silent, or it drips for longer than the test waits: two milliseconds a piece.
    for rest in [vec![Act::AwaitClose], vec![chunk("x"); 10_000]] {
        let script = [vec![pushed_back.clone()], rest].concat();
        let server = Server::start(vec![script, good.clone()]).await;
        let model = server.model();
        let said = tokio::time::timeout(Duration::from_secs(10), generate(&model)).await;
        assert_eq!(said.unwrap().unwrap().text, "Amy");
    }
}

#[tokio::test]
async fn a_count_behind_what_never_ends_is_not_waited_for() {
    let refusal = send(
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n\
         {\"error\": {\"message\": \"'max_tokens' is not supported\"}}",
    );
    let comment = format!(":{}\n\n", "x".repeat(1 << 20));
    // Zeros are no count.
    let zeros = event(&json!({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}));
    for (between, counted) in [("", 3), (&*zeros, 3), (&*comment, 1)] {
        let stream = delta("<answer>Amy</answer>") + between + &ending("stop");
        let script = vec![head(), send(stream)];
        let server = Server::start(vec![vec![refusal.clone()], script]).await;
        let said = generate(&server.model()).await.unwrap();
        assert_eq!(said.text, "<answer>Amy</answer>");
        assert_eq!(said.tokens.completion, counted);
    }
}

#[tokio::test]
async fn silence_in_mid_answer_and_a_long_whole_time_out() {
    let silent = vec![head(), send(delta("Amy")), Act::AwaitClose];
    let mut server = Server::start(vec![silent]).await;
    let mut endpoint = server.endpoint();
    endpoint.limits.silence = Duration::from_millis(200);
    let error = generate(&OpenAiModel::new(&endpoint).unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(error, PortError::Timeout { limit, .. } if limit.as_millis() == 200),
        "{error:?}"
    );
    assert_eq!(server.next().await, Seen::Request);
    assert_eq!(server.next().await, Seen::Closed);

    // Pings break the silence, but not the limit of the whole.
    let mut pinging = vec![head()];
    pinging.resize(5_000, send(": ping\n\n"));
    let server = Server::start(vec![pinging]).await;
    let mut endpoint = server.endpoint();
    endpoint.limits.silence = Duration::from_millis(5_000);
    endpoint.limits.total = Duration::from_millis(100);
    let error = generate(&OpenAiModel::new(&endpoint).unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(error, PortError::Timeout { limit, .. } if limit.as_millis() == 100),
        "{error:?}"
    );
}

#[tokio::test]
async fn dropping_the_future_closes_the_connection() {
    for script in [
        vec![Act::AwaitClose],
        vec![head(), send(delta("Amy")), Act::AwaitClose],
    ] {
        let mut server = Server::start(vec![script]).await;
        let model = server.model();
        tokio::select! {
            said = generate(&model) => panic!("{said:?}"),
            seen = server.next() => assert_eq!(seen, Seen::Request),
        }
        assert_eq!(server.next().await, Seen::Closed);
    }
}

/// The prompt of [`generation`] by its length.
const PROMPT: u64 = 4 + 6;

fn tokens(prompt: u64, completion: u64) -> Tokens {
    Tokens { prompt, completion }
}

fn thought(field: &str) -> String {
    event(&json!({"choices": [{"delta": {"content": null, (field): "hm"}}]}))
}

/// What Mistral's models that think add.
fn parts(parts: &Value) -> String {
    event(&json!({"choices": [{"index": 0, "delta": {"content": parts}, "finish_reason": null}]}))
}

fn thinking(thought: &str) -> Value {
    json!({"type": "thinking", "thinking": [{"type": "text", "text": thought}], "closed": false})
}

#[tokio::test]
async fn what_comes_in_parts_is_told_from_thoughts() {
    let mixed = json!([
        thinking(" It was Per."),
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "Amy "},
        {"type": "text", "text": "El"},
    ]);
    let stream =
        parts(&json!([thinking("<answer>Per</answer>")])) + &parts(&mixed) + &delta("liott");
    let script = vec![head(), send(stream + &ending("stop"))];
    let said = generate(&Server::start(vec![script]).await.model()).await;
    assert_eq!(said.unwrap().text, "Amy Elliott");
}

#[tokio::test]
async fn what_a_dropped_call_has_taken_is_what_its_stream_has_told() {
    let role = event(&json!({"choices": [{"delta": {"role": "assistant"}}]}));
    let counted = event(&json!({
        "choices": [{"delta": {"content": "haps"}}],
        "usage": {"prompt_tokens": 21, "completion_tokens": 2},
    }));
    let whole = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"choices\": [";
    for (script, taken) in [
        (vec![], tokens(0, 0)),
        (vec![head()], tokens(0, 0)),
        (vec![head(), send(role)], tokens(0, 0)),
        (vec![head(), send(delta("Per"))], tokens(PROMPT, 1)),
        (
            vec![head(), send(delta("Per") + &delta("haps"))],
            tokens(PROMPT, 2),
        ),
        // Thoughts cost as much as text.
        (
            vec![
                head(),
                send(thought("reasoning_content") + &thought("reasoning")),
            ],
            tokens(PROMPT, 2),
        ),
        (
            vec![
                head(),
                send(parts(&json!([thinking("hm")])) + &delta("Per")),
            ],
            tokens(PROMPT, 2),
        ),
        // The server's own count goes before any estimate.
        (vec![head(), send(delta("Per") + &counted)], tokens(21, 2)),
        // Known at the end only.
        (vec![send(whole)], tokens(0, 0)),
    ] {
        let mut script = script;
        script.push(Act::AwaitClose);
        let server = Server::start(vec![script.clone()]).await;
        let model = server.model();
        let call = Call::new(Lane::Speculative, Chance::EVEN);
        let arrived = async {
            while call.spent() != taken {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Time for what must not be counted.
            tokio::time::sleep(Duration::from_millis(30)).await;
        };
        tokio::select! {
            said = model.generate(&call, generation()) => panic!("{said:?}"),
            done = tokio::time::timeout(Duration::from_secs(120), arrived) => done.unwrap(),
        }
        assert_eq!(call.spent(), taken);
    }
}

#[tokio::test]
async fn attempts_that_failed_were_paid_for() {
    let broken = vec![chunked(), chunk(&delta("Per"))];
    let good = vec![head(), send(delta("Amy") + &ending("stop"))];
    let server = Server::start(vec![broken, good]).await;
    let call = Call::authoritative();
    let said = server.model().generate(&call, generation()).await.unwrap();
    assert_eq!(said.tokens, tokens(11, 3));
    assert_eq!(call.spent(), tokens(PROMPT, 1) + said.tokens);
}

#[tokio::test]
async fn no_more_requests_at_once_than_allowed() {
    let script = vec![head(), send(delta("Amy") + &ending("stop"))];
    let waiting = vec![Act::AwaitClose];
    let mut server = Server::start(vec![waiting, script]).await;
    let mut endpoint = server.endpoint();
    endpoint.requests_max = std::num::NonZeroUsize::MIN;
    let model = OpenAiModel::new(&endpoint).unwrap();
    let mut first = Box::pin(generate(&model));
    tokio::select! {
        said = &mut first => panic!("{said:?}"),
        seen = server.next() => assert_eq!(seen, Seen::Request),
    }
    let mut second = Box::pin(generate(&model));
    let early = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
    assert!(early.is_err(), "its turn has not come");
    assert!(server.seen.try_recv().is_err(), "nor has it sent anything");
    drop(first);
    assert_eq!(second.await.unwrap().text, "Amy");
}
