//! A call on its way through the workers: as it came, while it waits, and what it takes along.

use llama_cpp_2::context::session::SeqState;
use llama_cpp_2::token::LlamaToken;
use spechop_ports::{Call, Lane, Metered, PortError, Urgency};
use spechop_types::{Chance, Owned};
use tokio::sync::oneshot;

use super::ahead::Ahead;
use super::output::Output;
use super::slots::PromptTokens;
use super::stakes::Stakes;
use crate::{Generated, Generation};

/// A call, as it is handed to the workers.
pub(super) struct Job {
    pub(super) call: Call,
    pub(super) generation: Generation,
    /// Whether the model may think before it writes: not if its prompt is only to be read.
    pub(super) may_think: bool,
    pub(super) reply: oneshot::Sender<Result<Generated, PortError>>,
}

/// A job and its place in line.
pub(super) struct Waiting {
    pub(super) job: Job,
    pub(super) prompt: Owned<PromptTokens>,
    pub(super) arrival: u64,
    /// Hears of every token, so that a call that is dropped does not take its count along.
    pub(super) metered: Metered,
    /// How far it has come, if it has begun and was handed over.
    pub(super) begun: Option<Begun>,
}

/// How far a job has come: enough to go on with it anywhere.
pub(super) struct Progress {
    /// Tokens in the KV.
    pub(super) at: usize,
    /// The latest token, not in the KV yet; `None` until the whole prompt is.
    pub(super) next: Option<LlamaToken>,
    pub(super) output: Output,
    pub(super) generated: u32,
    /// The tokens that are written, if what was computed for them may be kept.
    pub(super) written: Option<Vec<LlamaToken>>,
    /// The sum over them of [`Likeliest::ln_chance`](super::compute::Likeliest::ln_chance).
    pub(super) ln_chance: f64,
    /// What may be written next.
    pub(super) ahead: Ahead,
}

impl Progress {
    /// Nothing is written yet, and so many tokens of the prompt need not be read. Whether what is written
    /// `is_kept` for the next prompt.
    pub(super) fn new(at: usize, output: Output, ahead: Ahead, is_kept: bool) -> Self {
        Self {
            at,
            next: None,
            output,
            generated: 0,
            written: is_kept.then(Vec::new),
            ln_chance: 0.0,
            ahead,
        }
    }

    /// How sure the model was of what it has written.
    pub(super) fn certainty(&self) -> Option<Chance> {
        let written = (self.generated > 0).then(|| f64::from(self.generated))?;
        Some(Chance::of((self.ln_chance / written).exp()))
    }
}

/// A job that has begun, without a worker: its progress and its KV.
pub(super) struct Begun {
    pub(super) progress: Progress,
    pub(super) state: SeqState,
    /// Who has a stake in what it has read.
    pub(super) stakes: Stakes,
}

impl Waiting {
    /// Asked anew every time, since a call can be promoted.
    pub(super) fn urgency(&self) -> Urgency {
        self.job.call.urgency(self.arrival)
    }

    pub(super) fn is_speculative(&self) -> bool {
        self.job.call.lane() == Lane::Speculative
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.job.reply.is_closed()
    }
}

/// The index of the job that goes first.
pub(super) fn best<'a>(jobs: impl Iterator<Item = &'a Waiting>) -> Option<usize> {
    jobs.enumerate()
        .max_by_key(|(_, job)| job.urgency())
        .map(|(at, _)| at)
}
