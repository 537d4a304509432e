//! Live runs: the same questions, variant by variant, over gRPC against a running server.
//!
//! ```text
//! schedule ─▶ askings ─▶ client (retries) ─▶ row ─▶ run folder
//! ```
//!
//! Nothing is started here and nothing is stopped: the server is somebody else's, and may die and come
//! back. What was answered is in the folder; the same call asks the rest.
//!
//! Full speculation (`target=off`) has a server of its own. What is a guess elsewhere is a look-up there,
//! so it is the standard agent of that server, and no request can say it.

mod client;
mod error;
mod row;
mod schedule;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::{Injected, Question, Row, RunInfo, RunWriter, Variant, wire};
use client::{Asked, Asker, Askers, Asking};
pub use error::LiveError;
use schedule::Turn;

/// Failures one after the other, whatever the question: no question is to blame for them any more.
const FAILURES_IN_A_ROW_MAX: usize = 10;

/// How the questions are asked.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The server, as HOST:PORT.
    pub address: String,
    /// A server whose look-ups are the guesses, as HOST:PORT: full speculation is asked there.
    pub target_off: Option<String>,
    /// What is compared.
    pub variants: Vec<Variant>,
    /// Questions under way at once; one level after the other.
    pub concurrency: Vec<u32>,
    /// How long a server may be away or busy before the run stops.
    pub retry_for: Duration,
    /// Most time of one question.
    pub deadline: Duration,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows that are there, those of earlier calls included.
    pub done: usize,
    /// Rows that are wanted.
    pub of: usize,
    /// Questions that were left without a row in this call.
    pub failed: usize,
}

/// What a live run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Rows that were there before.
    pub there: usize,
    /// Rows that were added.
    pub added: usize,
    /// Times that the server was too busy for a question, or had it stand in line. More than none: fewer
    /// were under way than the rows' concurrency says.
    pub busy: usize,
    /// Rows that were asked for while fewer questions were left than their concurrency says.
    pub fewer: usize,
    /// Rows of `k = auto` that were added to others of an earlier call: a server that was started since has learnt
    /// anew.
    pub anew: usize,
    /// What has no row: the run is whole only where this is empty.
    pub failures: Vec<Failure>,
}

/// A question that the server did not answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The question.
    pub id: String,
    /// How it was to be answered.
    pub variant: Variant,
    /// Questions that were to be under way at once.
    pub concurrency: u32,
    /// The status, as gRPC's documents write it, e.g. `DEADLINE_EXCEEDED`.
    pub code: String,
    /// Why, in a line.
    pub message: String,
}

impl LiveOptions {
    /// Says what is wrong with asking these questions like this, before anything is asked.
    ///
    /// # Errors
    ///
    /// Nothing to ask, something named twice, what no server can do, or more at once than there are.
    pub fn check(&self, questions: &[Question]) -> Result<(), LiveError> {
        for (at, variant) in self.variants.iter().enumerate() {
            if variant.target_off && self.target_off.is_none() {
                return Err(LiveError::TargetOn(variant.to_string()));
            }
            if let Some(what) = wire::simulated_only(variant, self.target_off.is_some()) {
                let variant = variant.to_string();
                return Err(LiveError::SimulatedOnly { variant, what });
            }
            if self.variants[..at].contains(variant) {
                return Err(LiveError::Twice(variant.to_string()));
            }
        }
        for (at, level) in self.concurrency.iter().enumerate() {
            if self.concurrency[..at].contains(level) {
                return Err(LiveError::Twice(format!("concurrency {level}")));
            }
            if *level == 0 || *level as usize > questions.len() {
                // Fewer than that would be under way, and the rows would not say so.
                return Err(LiveError::Concurrency {
                    level: *level,
                    questions: questions.len(),
                });
            }
        }
        for (is_empty, what) in [
            (questions.is_empty(), "question"),
            (self.variants.is_empty(), "variant"),
            (self.concurrency.is_empty(), "concurrency"),
        ] {
            if is_empty {
                return Err(LiveError::Nothing(what));
            }
        }
        Ok(())
    }
}

/// Asks a server for the latency that it adds on purpose, by a question: what a run's description has to
/// say before it begins: that of [`Question::before_a_run`].
///
/// # Errors
///
/// Nobody answers, or not to this question.
pub async fn probe(address: &str, question: &Question) -> Result<Option<Injected>, LiveError> {
    let asker = Asker::connect(address, Duration::ZERO, PROBE_DEADLINE).await?;
    match asker.ask(question, &Variant::standard()).await {
        Asked::Answered(answer) => Ok(row::injected(&answer)),
        Asked::Left { code, message }
        | Asked::Away { code, message }
        | Asked::Refused { code, message } => Err(LiveError::Probe {
            address: address.to_owned(),
            code,
            message,
        }),
    }
}

/// A question takes seconds. On a machine that loads a model meanwhile it may take minutes.
const PROBE_DEADLINE: Duration = Duration::from_secs(600);

/// Asks every question with every variant at every concurrency, except for what is `there`, and appends
/// a row for each answer. A row's latency is the wall-clock time of the question by the server's clock:
/// neither the way to the server nor an earlier attempt is in it.
///
/// Every question is asked once a turn, the variants taken by turns, so that all the other questions lie
/// between two askings of one question and a model's cache of recent prompts helps no variant. The prompts
/// that all questions share are warmed up before, by a question that is none of them: a server that remembers
/// would know one of them already.
///
/// Dropping the future cancels what is under way; the rows that were written stay.
///
/// # Errors
///
/// The server is not there or stays away, adds another latency than the run was begun with, refuses a
/// request as wrong, or fails ten times in a row; a row cannot be written. The same call resumes.
pub async fn live(
    options: &LiveOptions,
    questions: &[Question],
    run: &mut RunWriter,
    there: &[Row],
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Summary, LiveError> {
    options.check(questions)?;
    let turns = schedule::turns(options, questions, there);
    let of = questions.len() * options.variants.len() * options.concurrency.len();
    let left: usize = turns.iter().map(Vec::len).sum();
    let mut tally = Tally {
        of,
        summary: Summary {
            there: of - left,
            anew: schedule::anew(options, &turns, there),
            ..Summary::default()
        },
        in_a_row: 0,
    };
    progress(tally.progress());
    if left == 0 {
        return Ok(tally.summary);
    }
    let mut askers = Askers::connect(options).await?;
    let (off, usual): (Vec<_>, Vec<_>) = options.variants.iter().partition(|v| v.target_off);
    let widest = usual.into_iter().max_by_key(|v| v.k());
    for variant in widest.into_iter().chain(off.into_iter().take(1)) {
        let Some(question) = Question::before_a_run(run.info().source, questions) else {
            continue;
        };
        match askers.of_mut(variant).warm_up(&question, variant).await {
            Asked::Answered(answer) => check_injected(&answer, variant, run.info())?,
            // Its own turn will tell.
            Asked::Left { .. } => {}
            Asked::Away { code, message } => return Err(tally.away(code, message)),
            Asked::Refused { code, message } => {
                return Err(LiveError::refused(&question.id, variant, code, message));
            }
        }
    }
    let askers = Arc::new(askers);
    for (level, turns) in options.concurrency.iter().zip(turns) {
        let left: BTreeSet<usize> = turns.iter().map(|turn| turn.question).collect();
        if left.len() < *level as usize {
            tally.summary.fewer += turns.len();
        }
        ask_all(
            &askers, options, questions, turns, run, &mut tally, progress,
        )
        .await?;
    }
    tally.summary.busy = askers.busy();
    Ok(tally.summary)
}

/// Asks what one concurrency level still has to ask.
async fn ask_all(
    askers: &Arc<Askers>,
    options: &LiveOptions,
    questions: &[Question],
    turns: Vec<Turn>,
    run: &mut RunWriter,
    tally: &mut Tally,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), LiveError> {
    let mut waiting = turns.into_iter().peekable();
    let mut under_way = JoinSet::new();
    let mut open = BTreeSet::new();
    loop {
        // Two variants of one question at once would share their look-ups.
        while let Some(turn) = waiting.next_if(|next| {
            open.len() < next.concurrency as usize && !open.contains(&next.question)
        }) {
            let (Some(question), Some(variant)) = (
                questions.get(turn.question),
                options.variants.get(turn.variant),
            ) else {
                continue;
            };
            open.insert(turn.question);
            let (askers, asking) = (
                askers.clone(),
                Asking {
                    question: question.clone(),
                    variant: variant.clone(),
                    concurrency: turn.concurrency,
                },
            );
            under_way.spawn(async move {
                let asker = askers.of(&asking.variant);
                let asked = asker.ask(&asking.question, &asking.variant).await;
                (turn, asking, asked)
            });
        }
        let Some(done) = under_way.join_next().await else {
            return Ok(());
        };
        let (turn, asking, asked) = done.map_err(|source| LiveError::Lost { source })?;
        open.remove(&turn.question);
        tally.settle(asking, asked, run)?;
        progress(tally.progress());
    }
}

/// What has come of a run so far.
struct Tally {
    of: usize,
    summary: Summary,
    in_a_row: usize,
}

impl Tally {
    fn progress(&self) -> Progress {
        Progress {
            done: self.done(),
            of: self.of,
            failed: self.summary.failures.len(),
        }
    }

    fn done(&self) -> usize {
        self.summary.there + self.summary.added
    }

    fn settle(
        &mut self,
        asking: Asking,
        asked: Asked,
        run: &mut RunWriter,
    ) -> Result<(), LiveError> {
        match asked {
            Asked::Answered(answer) => {
                check_injected(&answer, &asking.variant, run.info())?;
                let row = row::of(&asking, *answer, run.info().speed)?;
                run.append(&row)?;
                self.summary.added += 1;
                self.in_a_row = 0;
                Ok(())
            }
            Asked::Left { code, message } => {
                self.in_a_row += 1;
                if self.in_a_row == FAILURES_IN_A_ROW_MAX {
                    return Err(LiveError::FailsOn {
                        times: self.in_a_row,
                        code,
                        message,
                        done: self.done(),
                        of: self.of,
                    });
                }
                self.summary.failures.push(Failure {
                    id: asking.question.id,
                    variant: asking.variant,
                    concurrency: asking.concurrency,
                    code,
                    message,
                });
                Ok(())
            }
            Asked::Away { code, message } => Err(self.away(code, message)),
            Asked::Refused { code, message } => {
                let Asking {
                    question, variant, ..
                } = asking;
                Err(LiveError::refused(&question.id, &variant, code, message))
            }
        }
    }

    fn away(&self, code: String, message: String) -> LiveError {
        LiveError::Away {
            code,
            message,
            done: self.done(),
            of: self.of,
        }
    }
}

/// Rows of one run must be comparable. Without a target there is nothing to add a latency to.
fn check_injected(
    answer: &spechop_proto::AskResponse,
    variant: &Variant,
    info: &RunInfo,
) -> Result<(), LiveError> {
    let adds = row::injected(answer).map(|adds| adds.times(info.speed));
    let begun = info.injected.filter(|_| !variant.target_off);
    if adds == begun {
        return Ok(());
    }
    if variant.target_off {
        return Err(LiveError::AddsToGuesses);
    }
    let said = |latency: Option<Injected>| {
        latency.map_or_else(
            || "no latency".to_owned(),
            |Injected {
                 mean_ms,
                 sigma_ms,
                 seed,
             }| format!("{mean_ms} ms (sigma {sigma_ms} ms, seed {seed})"),
        )
    };
    Err(LiveError::OtherLatency {
        adds: said(adds),
        begun: said(info.injected),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;

    fn question(id: &str) -> Question {
        Question {
            id: id.into(),
            dataset: Dataset::Wiki,
            kind: "bridge".into(),
            text: "Who?".into(),
            answers: vec!["Nobody".into()],
            titles: Vec::new(),
            hops: Vec::new(),
            hop_budget: 5,
        }
    }

    fn refused(variants: &[&str], concurrency: &[u32], questions: usize) -> String {
        let options = LiveOptions {
            address: String::new(),
            target_off: None,
            variants: variants.iter().map(|v| v.parse().unwrap()).collect(),
            concurrency: concurrency.to_vec(),
            retry_for: Duration::ZERO,
            deadline: Duration::from_secs(1),
        };
        let questions: Vec<_> = (0..questions).map(|n| question(&n.to_string())).collect();
        let result = options.check(&questions);
        result.map_or_else(|error| error.to_string(), |()| "taken".to_owned())
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        for (variants, concurrency, questions, words) in [
            (&["k=1", "k=inf"][..], &[1, 2][..], 2, "taken"),
            (
                &["k=1,verifier=none"],
                &[1],
                2,
                "`spechop eval simulate` can",
            ),
            (
                &["k=1,verifier=none,target=off"],
                &[1],
                2,
                "name it with --target-off",
            ),
            (&["k=3,rounds=on"], &[1], 2, "`spechop eval simulate` can"),
            (&["k=3", "k=3,salvage=on"], &[1], 2, "k=3 is named twice"),
            (&["k=3"], &[2, 2], 2, "concurrency 2 is named twice"),
            (&["k=3"], &[0], 2, "at least 1"),
            (&["k=3"], &[3], 2, "no more than the 2 questions"),
            (&[], &[1], 2, "no variant"),
            (&["k=3"], &[], 2, "no concurrency"),
            (&["k=3"], &[], 0, "no question"),
        ] {
            let said = refused(variants, concurrency, questions);
            assert!(said.contains(words), "{said}");
        }
    }
}
