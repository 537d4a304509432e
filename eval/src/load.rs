//! Load runs: questions arrive at a rate of their own, however slowly a server answers (open loop).
//!
//! ```text
//! arrivals ─▶ askings ─▶ outcome ─▶ tally ─▶ quantiles, errors, ratio
//! ```
//!
//! The moments of all arrivals are drawn beforehand. A latency counts from the moment at which its question
//! was to be sent, so a server that stands still is charged with every question that came meanwhile
//! (Tene's *coordinated omission* does not occur). [`live`](crate::live()) is the closed loop: it sends
//! the next question when one is answered, and measures answers, not load.

mod arrivals;
mod running;
mod setting;
mod tally;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;
use spechop_proto::ask_event::Event;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{AskRequest, AskResponse};
use spechop_types::whole_ms;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Status;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use crate::wire;
use arrivals::Arrivals;
pub use arrivals::Shape;
use running::Running;
pub use setting::{InvalidSetting, LoadSetting};
pub use tally::{Latencies, Measured, Ratio};
use tally::{Outcome, Times};

/// The server ends first and says why; this is for a server that is silent.
const SILENCE: Duration = Duration::from_secs(5);
/// How often progress is told.
const TOLD_EVERY: Duration = Duration::from_millis(200);
/// The most arrivals a second, and how many times faster than the mean a burst may be. Beyond that the arrivals of a
/// second could not be drawn in a second.
const RATE_MAX: f64 = 1e6;
const FACTOR_MAX: f64 = 1e3;

/// A connection to a server.
pub type LoadClient<I> = SpecHopClient<InterceptedService<Channel, I>>;

/// How a server is loaded.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Arrivals a second, on average.
    pub rate: f64,
    /// How they are spread.
    pub shape: Shape,
    /// How long questions arrive that count.
    pub lasting: Duration,
    /// How long questions arrive before, that do not count.
    pub warm_up: Duration,
    /// What is asked for, in turn. With two, they are compared.
    pub settings: Vec<LoadSetting>,
    /// Whether events are asked for (`AskStream`), or the answer alone (`Ask`).
    pub streams: bool,
    /// Whether the server may use what earlier questions have left behind.
    pub reuse: bool,
    /// The most time of a question.
    pub deadline: Duration,
    /// The most questions under way: more are counted as `NOT_SENT`, so that this side does not break.
    pub in_flight_max: usize,
    /// Of the arrivals.
    pub seed: u64,
}

impl LoadOptions {
    /// How many of so many questions are asked. Two settings are compared, so each goes round all of them at
    /// least twice: else a short run would compare answers to different questions.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "about so many"
    )]
    fn questions_of(&self, most: usize) -> usize {
        if self.settings.len() < 2 {
            return most;
        }
        let pairs = self.rate * self.lasting.as_secs_f64() / self.settings.len() as f64;
        most.min(((pairs / 2.0) as usize).max(2))
    }
}

/// Why a load run did not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadRunError {
    /// Something is empty.
    #[error("there is no {0}: name at least one")]
    Nothing(&'static str),
    /// A number that cannot be.
    #[error("{what} must be {range}")]
    Number {
        /// Which one.
        what: &'static str,
        /// What it may be.
        range: &'static str,
    },
    /// Nobody answered a single question, so there is nothing to measure.
    #[error("the first question was not answered ({code}: {message}); try it with `spechop ask`")]
    First {
        /// The status.
        code: String,
        /// Why.
        message: String,
    },
}

/// What a load run has measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loaded {
    /// Arrivals a second that were wanted.
    pub rate: f64,
    /// How long questions arrived that count, in seconds.
    pub lasted_s: f64,
    /// Questions that were sent before, and are in no other number.
    pub warm_up: u64,
    /// Different questions that were sent and count. A short comparison of two settings takes fewer than there are.
    pub questions: usize,
    /// Whether somebody ended the run before its time.
    pub ended_early: bool,
    /// Answers a second, from the end of the warm-up until the time was up and the last answer there.
    pub answered_per_s: f64,
    /// The most questions that were under way at once when one came that counts, whatever their setting.
    pub in_flight_max: usize,
    /// How much later than it was to be a question was sent, in milliseconds. If this is much, this
    /// machine could not load the server as it was to.
    pub sent_late_ms: Option<Latencies>,
    /// One for each setting.
    pub settings: Vec<Measured>,
    /// The second setting against the first, if there are two.
    pub compared: Option<Ratio>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadProgress {
    /// Since the first arrival.
    pub elapsed: Duration,
    /// Until the last arrival.
    pub of: Duration,
    /// Questions under way.
    pub in_flight: usize,
    /// Questions that were answered, those of the warm-up among them.
    pub answered: u64,
    /// Questions that were not.
    pub failed: u64,
}

impl LoadOptions {
    fn check(&self, clients: usize, questions: usize) -> Result<(), LoadRunError> {
        for (count, what) in [
            (clients, "connection"),
            (questions, "question"),
            (self.settings.len(), "setting"),
        ] {
            if count == 0 {
                return Err(LoadRunError::Nothing(what));
            }
        }
        let factor_fits = match self.shape {
            Shape::Poisson => true,
            Shape::Bursts { factor, period } => {
                factor > 1.0 && factor <= FACTOR_MAX && !period.is_zero()
            }
        };
        for (fits, what, range) in [
            (
                self.rate > 0.0 && self.rate <= RATE_MAX,
                "the rate",
                "a number of questions a second above 0, and at most a million",
            ),
            (
                factor_fits,
                "the factor of bursts",
                "a number above 1, and at most a thousand",
            ),
            (!self.lasting.is_zero(), "the duration", "above 0"),
            (
                self.in_flight_max > 0,
                "the most under way at once",
                "above 0",
            ),
        ] {
            if !fits {
                return Err(LoadRunError::Number { what, range });
            }
        }
        Ok(())
    }
}

/// Loads a server over these connections, in turn, until the time is up or `stop` comes. Then what is under
/// way is waited for, unless `stop` comes.
///
/// Dropping the future cancels all questions.
///
/// # Errors
///
/// Something that cannot be, or a server that does not answer the first question.
pub async fn load<I>(
    clients: &[LoadClient<I>],
    options: &LoadOptions,
    questions: &[String],
    stop: impl Future<Output = ()> + Send,
    progress: &mut (dyn FnMut(LoadProgress) + Send),
) -> Result<Loaded, LoadRunError>
where
    I: Interceptor + Clone + Send + Sync + 'static,
{
    options.check(clients.len(), questions.len())?;
    let mut stop = pin!(stop);
    tokio::select! {
        biased;
        () = &mut stop => return Ok(Running::new(options).loaded(Duration::ZERO, Duration::ZERO, true)),
        first = first(clients, options, questions) => first?,
    }
    let begun = Instant::now();
    let until = options.warm_up.saturating_add(options.lasting);
    let mut arrivals = Arrivals::new(
        options.shape,
        options.rate,
        options.settings.len(),
        options.questions_of(questions.len()),
        options.seed,
    )
    .take_while(|arrival| arrival.at < until)
    .peekable();
    let mut running = Running::new(options);
    let mut under_way = JoinSet::new();
    let mut told = begun;
    let mut sent = 0_usize;
    loop {
        let next = arrivals.peek().map(|arrival| begun + arrival.at);
        if next.is_none() && under_way.is_empty() {
            break;
        }
        tokio::select! {
            biased;
            () = &mut stop => {
                running.ended_early = true;
                break;
            }
            () = sleep_until(next.unwrap_or(begun)), if next.is_some() => {
                // The clock wakes once a millisecond: everything that is due is sent.
                let now = Instant::now();
                while let Some(arrival) = arrivals.next_if(|arrival| begun + arrival.at <= now) {
                    if !running.begin(&arrival, now - (begun + arrival.at)) {
                        continue;
                    }
                    let client = clients[sent % clients.len()].clone();
                    sent += 1;
                    let request = options.request(arrival.setting, &questions[arrival.question]);
                    let (due, streams) = (begun + arrival.at, options.streams);
                    let limit = due + options.deadline + SILENCE;
                    under_way.spawn(async move {
                        (arrival, ask(client, request, streams, due, limit).await)
                    });
                }
            }
            Some(done) = under_way.join_next() => {
                // A question's task can only end by a panic or with its outcome.
                if let Ok((arrival, outcome)) = done {
                    running.settle(&arrival, outcome);
                }
            }
        }
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            progress(running.progress(begun.elapsed(), until));
        }
    }
    // Whoever has nothing left to send does not wait for the end, but silence is part of the time.
    let elapsed = match running.ended_early {
        true => begun.elapsed(),
        false => begun.elapsed().max(until),
    };
    under_way.abort_all();
    while let Some(done) = under_way.join_next().await {
        if let Ok((arrival, outcome)) = done {
            running.settle(&arrival, outcome);
        }
    }
    running.abandon_rest();
    let lasted = elapsed.min(until).saturating_sub(options.warm_up);
    Ok(running.loaded(lasted, elapsed.saturating_sub(options.warm_up), false))
}

/// One question of each setting, for nothing: a wrong key or setting is said before the run.
async fn first<I>(
    clients: &[LoadClient<I>],
    options: &LoadOptions,
    questions: &[String],
) -> Result<(), LoadRunError>
where
    I: Interceptor + Clone + Send + Sync + 'static,
{
    let (Some(client), Some(question)) = (clients.first(), questions.first()) else {
        return Err(LoadRunError::Nothing("question"));
    };
    for setting in 0..options.settings.len() {
        let limit = Instant::now() + options.deadline + SILENCE;
        let request = options.request(setting, question);
        let answer = answered(client.clone(), request, options.streams, limit).await;
        if let Err(status) = answer {
            return Err(LoadRunError::First {
                code: spechop_proto::code_name(status.code()),
                message: status.message().to_owned(),
            });
        }
    }
    Ok(())
}

impl LoadOptions {
    fn request(&self, setting: usize, question: &str) -> AskRequest {
        let deadline_ms = whole_ms(self.deadline);
        self.settings
            .get(setting)
            .map(|setting| setting.ask(question, deadline_ms, !self.reuse))
            .unwrap_or_default()
    }
}

/// Asks, and says what came of it; times count from `due`.
async fn ask<I>(
    client: LoadClient<I>,
    request: AskRequest,
    streams: bool,
    due: Instant,
    limit: Instant,
) -> Outcome
where
    I: Interceptor + Clone + Send + Sync + 'static,
{
    match answered(client, request, streams, limit).await {
        Ok((answer, first)) => Outcome::Answered(Times {
            answered: due.elapsed(),
            first: first.map(|at| at.saturating_duration_since(due)),
            targets: answer
                .usage
                .and_then(|usage| usage.targets)
                .map_or(0, |calls| calls.started),
        }),
        Err(status) if wire::is_lost(&status) => Outcome::Failed("CONNECTION_LOST".to_owned()),
        Err(status) => Outcome::Failed(spechop_proto::code_name(status.code())),
    }
}

/// The answer, and when the first event came if events were asked for.
async fn answered<I>(
    mut client: LoadClient<I>,
    request: AskRequest,
    streams: bool,
    limit: Instant,
) -> Result<(AskResponse, Option<Instant>), Status>
where
    I: Interceptor + Clone + Send + Sync + 'static,
{
    let asking = async {
        if !streams {
            return Ok((client.ask(request).await?.into_inner(), None));
        }
        let mut events = client.ask_stream(request).await?.into_inner();
        let mut first = None;
        while let Some(event) = events.message().await? {
            first.get_or_insert_with(Instant::now);
            if let Some(Event::Answer(answer)) = event.event {
                return Ok((answer, first));
            }
        }
        Err(Status::data_loss("the stream ended without an answer"))
    };
    let silent = |_| Err(Status::deadline_exceeded("the server is silent"));
    timeout_at(limit, asking).await.unwrap_or_else(silent)
}
