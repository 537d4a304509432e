//! What ends a live run before its time.

use tokio::task::JoinError;

use crate::{RunError, Variant};

/// Why a live run stopped, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// A scheme that is not spoken.
    #[error("`{0}` is not spoken: give the server as HOST:PORT")]
    Scheme(String),
    /// No address at all.
    #[error("`{0}` is no HOST:PORT")]
    Address(String),
    /// Nobody listens.
    #[error("no server answers at {address}: is it running? start it with `spechop serve`")]
    Nobody {
        /// The server.
        address: String,
        /// What came of connecting.
        source: tonic::transport::Error,
    },
    /// The probe was not answered.
    #[error(
        "the server at {address} did not answer the first question ({code}: {message}); try it with `spechop ask`"
    )]
    Probe {
        /// The server.
        address: String,
        /// The status.
        code: String,
        /// Why.
        message: String,
    },
    /// Full speculation, and no server for it.
    #[error(
        "{0} is asked of a server whose look-ups are the guesses: name it with --target-off, or leave the variant out"
    )]
    TargetOn(String),
    /// The server whose look-ups are the guesses slows them.
    #[error(
        "the server of --target-off adds a latency to its look-ups, which are guesses: start it without"
    )]
    AddsToGuesses,
    /// A variant that only the simulator knows.
    #[error("no server can do {what}: leave {variant} out; `spechop eval simulate` can")]
    SimulatedOnly {
        /// The variant.
        variant: String,
        /// What it asks for.
        what: &'static str,
    },
    /// A variant or a concurrency that is named twice.
    #[error("{0} is named twice; a question is asked once for each: leave one out")]
    Twice(String),
    /// A concurrency that cannot be kept up.
    #[error(
        "concurrency {level} cannot be: take at least 1 and no more than the {questions} questions"
    )]
    Concurrency {
        /// What was asked for.
        level: u32,
        /// Questions that there are.
        questions: usize,
    },
    /// Something is empty.
    #[error("there is no {0}: name at least one")]
    Nothing(&'static str),
    /// The latency is not the one that the run's description says.
    #[error(
        "the server adds {adds}, the run was begun with {begun}: start it as it was, or take another folder"
    )]
    OtherLatency {
        /// What the server says.
        adds: String,
        /// What the run says.
        begun: String,
    },
    /// The server takes the request for wrong: asking again would not help.
    #[error(
        "the server refuses question {id} with {variant} ({code}: {message}); leave it out, or start the server so that it can"
    )]
    Refused {
        /// The question.
        id: String,
        /// How it was to be answered.
        variant: String,
        /// The status.
        code: String,
        /// Why.
        message: String,
    },
    /// The server stays away, or busy.
    #[error(
        "the server stays away ({code}: {message}); {done} of {of} rows are there; run the same command again to resume"
    )]
    Away {
        /// The last status.
        code: String,
        /// Why.
        message: String,
        /// Rows that are there.
        done: usize,
        /// Rows that are wanted.
        of: usize,
    },
    /// One failure after the other.
    #[error(
        "{times} questions in a row failed, the last one with {code}: {message}; {done} of {of} rows are there; repair the server and run the same command again to resume"
    )]
    FailsOn {
        /// How many.
        times: usize,
        /// The last status.
        code: String,
        /// Why.
        message: String,
        /// Rows that are there.
        done: usize,
        /// Rows that are wanted.
        of: usize,
    },
    /// An answer that lacks what a row needs.
    #[error(
        "the server's answer to question {id} {what}: it is of another version; use the same one on both sides"
    )]
    Malformed {
        /// The question.
        id: String,
        /// What is wrong.
        what: String,
    },
    /// A question's task broke.
    #[error("a question's task ended without a result; run the same command again to resume")]
    Lost {
        /// How.
        source: JoinError,
    },
    /// A row cannot be written.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl LiveError {
    pub(super) fn refused(id: &str, variant: &Variant, code: String, message: String) -> Self {
        Self::Refused {
            id: id.to_owned(),
            variant: variant.to_string(),
            code,
            message,
        }
    }
}
