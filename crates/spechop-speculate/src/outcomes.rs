//! Several speculators that are asked together, taken as one.

use spechop_ports::{Guess, Guessed, PortError};
use spechop_types::Tokens;

/// The cost of those that have answered, and the first failure.
#[derive(Default)]
pub(crate) struct Outcomes {
    tokens: Tokens,
    answered: bool,
    failure: Option<PortError>,
}

impl Outcomes {
    /// The guesses of one of them; none if it failed.
    pub(crate) fn take(&mut self, outcome: Result<Guessed, PortError>) -> Vec<Guess> {
        match outcome {
            Ok(guessed) => {
                self.answered = true;
                self.tokens += guessed.tokens;
                guessed.guesses
            }
            Err(error) => {
                self.failure.get_or_insert(error);
                Vec::new()
            }
        }
    }

    /// The result of all, if these are the guesses that are of use. It is a failure only if all have failed.
    pub(crate) fn into_guessed(self, guesses: Vec<Guess>) -> Result<Guessed, PortError> {
        match self.failure {
            Some(failure) if !self.answered => Err(failure),
            _ => Ok(Guessed {
                guesses,
                tokens: self.tokens,
            }),
        }
    }
}
