//! The connection: what is sent, and what is made of a status.
//!
//! ```text
//! answered ──────────────────────────▶ Answered
//! away or busy ── wait, ask again ───▶ … ─▶ Away, once that has lasted too long
//! this question fails ───────────────▶ Left
//! the request is wrong ──────────────▶ Refused
//! ```

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{ANSWER_BYTES_MAX, AskRequest, AskResponse};
use spechop_types::{AnswerOptions, ms, one_line};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::{LiveError, LiveOptions};
use crate::wire::{self, is_lost};
use crate::{Question, Variant};

const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The server ends first and says why; this is for a server that is silent.
const SILENCE: Duration = Duration::from_secs(5);
/// An answer that takes so much longer here than by the server's clock, in milliseconds, has stood in line
/// before that clock began. The way there and back takes a few.
const LINE_MS: f64 = 100.0;
const WAIT_LEAST: Duration = Duration::from_millis(100);
const WAIT_MOST: Duration = Duration::from_secs(10);

/// A question and how it is asked.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) question: Question,
    pub(super) variant: Variant,
    pub(super) concurrency: u32,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Asked {
    Answered(Box<AskResponse>),
    /// The question has no answer; others may have.
    Left {
        code: String,
        message: String,
    },
    /// The server cannot be reached or is busy, and has been for too long.
    Away {
        code: String,
        message: String,
    },
    /// The request is wrong, and so will the next ones be.
    Refused {
        code: String,
        message: String,
    },
}

/// Asks one server.
#[derive(Debug)]
pub(super) struct Asker {
    client: SpecHopClient<Channel>,
    retry_for: Duration,
    deadline: Duration,
    warm: Option<(Question, Variant)>,
    busy: AtomicUsize,
}

impl Asker {
    pub(super) async fn connect(
        address: &str,
        retry_for: Duration,
        deadline: Duration,
    ) -> Result<Self, LiveError> {
        let uri = match address.split_once("://") {
            None => format!("http://{address}"),
            Some(("http", _)) => address.to_owned(),
            Some((scheme, _)) => return Err(LiveError::Scheme(scheme.to_owned())),
        };
        let endpoint =
            Endpoint::from_shared(uri).map_err(|_| LiveError::Address(address.to_owned()))?;
        let channel = endpoint.connect_timeout(CONNECT_TIME).connect().await;
        let channel = channel.map_err(|source| LiveError::Nobody {
            address: address.to_owned(),
            source,
        })?;
        Ok(Self {
            client: SpecHopClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX),
            retry_for,
            deadline,
            warm: None,
            busy: AtomicUsize::new(0),
        })
    }

    /// Has a question answered for nothing, now and whenever the server has been away.
    pub(super) async fn warm_up(&mut self, question: &Question, variant: &Variant) -> Asked {
        self.warm = Some((question.clone(), variant.clone()));
        self.ask(question, variant).await
    }

    /// Times that the server was too busy, or had a question stand in line.
    pub(super) fn busy(&self) -> usize {
        self.busy.load(Relaxed)
    }

    /// Asks until there is an answer, or a reason not to.
    pub(super) async fn ask(&self, question: &Question, variant: &Variant) -> Asked {
        let request = request(question, variant, self.deadline);
        let mut away_since = None;
        let mut wait = WAIT_LEAST;
        let mut is_cold = false;
        loop {
            if is_cold && let Some((question, variant)) = &self.warm {
                // A server that was away has lost its warm prompts. Whatever comes of it: the question
                // itself will tell.
                let request = self::request(question, variant, self.deadline);
                is_cold = self
                    .send(request)
                    .await
                    .is_err_and(|status| is_lost(&status));
            }
            let began = Instant::now();
            let status = match self.send(request.clone()).await {
                Ok(answer) => {
                    let stood_in_line = ms(began.elapsed()) > answer.elapsed_ms + LINE_MS;
                    self.busy.fetch_add(usize::from(stood_in_line), Relaxed);
                    return Asked::Answered(Box::new(answer));
                }
                Err(status) => status,
            };
            let (code, message) = (
                spechop_proto::code_name(status.code()),
                one_line(status.message()),
            );
            if status.code() == Code::ResourceExhausted {
                self.busy.fetch_add(1, Relaxed);
            }
            let away = away_since.get_or_insert_with(Instant::now).elapsed();
            match fate(&status) {
                Fate::Again if away < self.retry_for => {
                    is_cold |= is_lost(&status);
                    // Those who were turned away together do not come back together.
                    sleep(rand::random_range(wait / 2..=wait)).await;
                    wait = (wait * 2).min(WAIT_MOST);
                }
                Fate::Again => return Asked::Away { code, message },
                Fate::Left => return Asked::Left { code, message },
                Fate::Refused => return Asked::Refused { code, message },
            }
        }
    }

    async fn send(&self, request: AskRequest) -> Result<AskResponse, Status> {
        let mut client = self.client.clone();
        match timeout(self.deadline + SILENCE, client.ask(request)).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(
                "the server is silent, long after the question's deadline",
            )),
        }
    }
}

/// Who asks which variant.
#[derive(Debug)]
pub(super) struct Askers {
    usual: Asker,
    /// The one that asks for full speculation.
    target_off: Option<Asker>,
}

impl Askers {
    pub(super) async fn connect(options: &LiveOptions) -> Result<Self, LiveError> {
        let connect = |address| Asker::connect(address, options.retry_for, options.deadline);
        Ok(Self {
            usual: connect(&options.address).await?,
            target_off: match &options.target_off {
                Some(address) => Some(connect(address).await?),
                None => None,
            },
        })
    }

    pub(super) fn of(&self, variant: &Variant) -> &Asker {
        let off = self.target_off.as_ref().filter(|_| variant.target_off);
        off.unwrap_or(&self.usual)
    }

    pub(super) fn of_mut(&mut self, variant: &Variant) -> &mut Asker {
        let off = self.target_off.as_mut().filter(|_| variant.target_off);
        off.unwrap_or(&mut self.usual)
    }

    /// Times that a server was too busy, or had a question stand in line.
    pub(super) fn busy(&self) -> usize {
        self.usual.busy() + self.target_off.as_ref().map_or(0, Asker::busy)
    }
}

fn request(question: &Question, variant: &Variant, deadline: Duration) -> AskRequest {
    AskRequest {
        question: question.text.clone(),
        options: Some(options(question, variant).into()),
        deadline_ms: u64::try_from(deadline.as_millis()).ok(),
        ..AskRequest::default()
    }
}

/// How a question is asked.
pub(super) fn options(question: &Question, variant: &Variant) -> AnswerOptions {
    AnswerOptions {
        hop_budget: Some(question.hop_budget),
        not_found_max: Some(question.dataset.not_found_max()),
        // What an earlier asking has left behind would make this one faster.
        fresh: true,
        ..wire::options(variant)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Again,
    Left,
    Refused,
}

fn fate(status: &Status) -> Fate {
    if is_lost(status) {
        return Fate::Again;
    }
    match status.code() {
        Code::Unavailable | Code::ResourceExhausted => Fate::Again,
        Code::InvalidArgument
        | Code::Unimplemented
        | Code::Unauthenticated
        | Code::PermissionDenied => Fate::Refused,
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::DataLoss => Fate::Left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_decides_what_becomes_of_the_question() {
        for (code, expected) in [
            (Code::Unavailable, Fate::Again),
            (Code::ResourceExhausted, Fate::Again),
            (Code::Internal, Fate::Left),
            (Code::DeadlineExceeded, Fate::Left),
            (Code::FailedPrecondition, Fate::Left),
            (Code::InvalidArgument, Fate::Refused),
            (Code::Unimplemented, Fate::Refused),
        ] {
            assert_eq!(fate(&Status::new(code, "so it is")), expected, "{code:?}");
        }
    }

    #[test]
    fn a_broken_connection_is_no_answer() {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let status = Status::from_error(Box::new(broken));
        assert_eq!(fate(&status), Fate::Again);
    }
}
