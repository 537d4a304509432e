//! An agent's ports over simulated TCP: a connection a call, a line of JSON each way.
//!
//! A dropped call closes its connection. The server notices that as a real one would: by the end of
//! the stream, or, where that was lost, by its heartbeat being answered with a reset.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use spechop_agent::{Agent, Ports};
use spechop_ports::{
    Call, GuessRequest, Guessed, KnownHop, PlanRequest, Planned, Planner, PortError, ReadRequest,
    Reader, Reading, Retriever, Speculator,
};
use spechop_testkit::ScriptedPorts;
use spechop_types::{Passage, Question, Step, SubQuestion, Tokens};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;
use turmoil::net::{TcpListener, TcpStream};

pub(crate) const SERVER: &str = "server";
const PORT: u16 = 1000;
/// How often the server of a call makes sure that somebody still waits for it.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(100);

#[derive(Serialize, Deserialize)]
enum Request {
    Plan(Asked, bool),
    Retrieve(String, usize),
    Read(String, Vec<Found>),
    Guess(Asked, String, usize),
}

/// The question, and what is known of it: sub-questions and answers.
#[derive(Serialize, Deserialize)]
struct Asked(String, Vec<(String, String)>);

/// A passage: id, title, text, score.
#[derive(Serialize, Deserialize)]
struct Found(String, String, String, f32);

#[derive(Serialize, Deserialize)]
enum Reply {
    Ask(String),
    Answer(String),
    Found(Vec<Found>),
    Read(Option<String>),
    Guessed(Vec<String>),
    Failed(String),
}

/// Plays the ports until the host crashes.
pub(crate) async fn serve(ports: ScriptedPorts) -> turmoil::Result {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    let mut calls = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let ports = ports.clone();
        calls.spawn(async move { handle(stream, &ports).await });
        while calls.try_join_next().is_some() {}
    }
}

/// Serves one call until it is answered or its connection is seen to have ended.
async fn handle(stream: TcpStream, ports: &ScriptedPorts) -> io::Result<()> {
    let (reads, mut writes) = stream.into_split();
    let mut reads = BufReader::new(reads);
    let mut line = String::new();
    reads.read_line(&mut line).await?;
    let request = serde_json::from_str(&line)?;
    let answered = async {
        let mut reply = std::pin::pin!(reply(ports, request));
        loop {
            let beat = tokio::time::timeout(HEARTBEAT, &mut reply).await;
            let line = match &beat {
                Ok(reply) => serde_json::to_string(reply)?,
                Err(_) => String::new(),
            };
            writes.write_all(format!("{line}\n").as_bytes()).await?;
            if beat.is_ok() {
                return Ok(());
            }
        }
    };
    tokio::select! {
        biased;
        // Nothing more is ever sent: whatever comes is the end.
        _ = reads.read_u8() => Ok(()),
        done = answered => done,
    }
}

async fn reply(ports: &ScriptedPorts, request: Request) -> Reply {
    let call = Call::authoritative();
    let reply = match request {
        Request::Plan(asked, must_answer) => {
            let (question, hops) = asked.into();
            let request = PlanRequest {
                question,
                hops,
                must_answer,
                drafts: Vec::new(),
            };
            let planned = ports.plan(&call, request).await;
            planned.map(|planned| match planned.step {
                Step::Ask(asked) => Reply::Ask(asked.as_str().to_owned()),
                Step::Answer(answer) => Reply::Answer(answer.to_string()),
            })
        }
        Request::Retrieve(query, limit) => {
            let found = ports.retrieve(&call, &query, limit).await;
            found.map(|found| Reply::Found(found.into_iter().map(Found::from).collect()))
        }
        Request::Read(asked, passages) => {
            let request = ReadRequest {
                sub_question: SubQuestion::new(&asked),
                passages: passages.into_iter().map(Passage::from).collect(),
            };
            let reading = ports.read(&call, request).await;
            reading.map(|reading| Reply::Read(reading.answer.map(|answer| answer.to_string())))
        }
        Request::Guess(asked, sub_question, limit) => {
            let (question, hops) = asked.into();
            let request = GuessRequest {
                question,
                hops,
                sub_question: SubQuestion::new(&sub_question),
                passages: 5.try_into().unwrap(),
                limit: limit.try_into().unwrap(),
            };
            let guessed = ports.guess(&call, request).await;
            let texts =
                |guessed: Guessed| guessed.guesses.iter().map(|g| g.text.to_string()).collect();
            guessed.map(|guessed| Reply::Guessed(texts(guessed)))
        }
    };
    reply.unwrap_or_else(|error| Reply::Failed(error.to_string()))
}

/// The client's side of the ports. Clones share their counter.
#[derive(Clone, Default)]
pub(crate) struct RemotePorts {
    live: Arc<AtomicUsize>,
}

/// Counts a call for as long as its future lives.
struct Live(Arc<AtomicUsize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl RemotePorts {
    pub(crate) fn agent(&self) -> Agent {
        let port = Arc::new(self.clone());
        Agent::new(Ports {
            planner: port.clone(),
            reader: port.clone(),
            retriever: port.clone(),
            speculator: Some(port),
            drafter: None,
            draft_writer: None,
        })
    }

    /// Calls under way.
    pub(crate) fn live(&self) -> usize {
        self.live.load(SeqCst)
    }

    async fn ask(&self, request: Request) -> Result<Reply, PortError> {
        self.live.fetch_add(1, SeqCst);
        let _live = Live(self.live.clone());
        let lost = |error: io::Error| PortError::unavailable("the server", error);
        match exchange(&request).await.map_err(lost)? {
            Reply::Failed(why) => Err(PortError::unavailable("the port", why)),
            reply => Ok(reply),
        }
    }
}

async fn exchange(request: &Request) -> io::Result<Reply> {
    let mut stream = BufReader::new(TcpStream::connect((SERVER, PORT)).await?);
    let line = serde_json::to_string(request)? + "\n";
    stream.write_all(line.as_bytes()).await?;
    let mut line = String::new();
    while line.trim().is_empty() {
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(serde_json::from_str(&line)?)
}

const TOKENS: Tokens = Tokens {
    prompt: 10,
    completion: 2,
};

fn unexpected<T>() -> Result<T, PortError> {
    Err(PortError::malformed(
        "the server",
        "it answered something else",
    ))
}

#[async_trait]
impl Planner for RemotePorts {
    async fn plan(&self, _: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let asked = Asked::new(&request.question, &request.hops);
        let step = match self.ask(Request::Plan(asked, request.must_answer)).await? {
            Reply::Ask(text) => Step::Ask(SubQuestion::new(&text)),
            Reply::Answer(text) => Step::Answer(text.into()),
            _ => return unexpected(),
        };
        Ok(Planned {
            step,
            certainty: None,
            tokens: TOKENS,
        })
    }
}

#[async_trait]
impl Retriever for RemotePorts {
    async fn retrieve(
        &self,
        _: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        match self.ask(Request::Retrieve(query.to_owned(), limit)).await? {
            Reply::Found(found) => Ok(found.into_iter().map(Passage::from).collect()),
            _ => unexpected(),
        }
    }
}

#[async_trait]
impl Reader for RemotePorts {
    async fn read(&self, _: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let asked = request.sub_question.as_str().to_owned();
        let passages = request.passages.iter().cloned().map(Found::from).collect();
        match self.ask(Request::Read(asked, passages)).await? {
            Reply::Read(answer) => Ok(Reading {
                answer: answer.map(Into::into),
                confidence: None,
                tokens: TOKENS,
            }),
            _ => unexpected(),
        }
    }
}

#[async_trait]
impl Speculator for RemotePorts {
    async fn guess(&self, _: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let asked = Asked::new(&request.question, &request.hops);
        let sub_question = request.sub_question.as_str().to_owned();
        let request = Request::Guess(asked, sub_question, request.limit.get());
        match self.ask(request).await? {
            Reply::Guessed(guesses) => Ok(Guessed {
                guesses: guesses.into_iter().map(Into::into).collect(),
                tokens: TOKENS,
            }),
            _ => unexpected(),
        }
    }
}

impl Asked {
    fn new(question: &Question, hops: &[KnownHop]) -> Self {
        let pair = |hop: &KnownHop| {
            let asked = hop.sub_question.as_str().to_owned();
            (asked, hop.answer.to_string())
        };
        Self(question.to_string(), hops.iter().map(pair).collect())
    }
}

impl From<Asked> for (Question, Vec<KnownHop>) {
    fn from(Asked(question, hops): Asked) -> Self {
        let hop = |(asked, answer): (String, String)| KnownHop {
            sub_question: SubQuestion::new(&asked),
            answer: answer.into(),
        };
        let question = Question::new(&question).unwrap();
        (question, hops.into_iter().map(hop).collect())
    }
}

impl From<Passage> for Found {
    fn from(passage: Passage) -> Self {
        let Passage {
            id,
            title,
            text,
            score,
            // The scripted ones come from nowhere.
            url: _,
        } = passage;
        Self(id.to_string(), title.to_string(), text.to_string(), score)
    }
}

impl From<Found> for Passage {
    fn from(Found(id, title, text, score): Found) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            text: text.into(),
            url: None,
            score,
        }
    }
}
