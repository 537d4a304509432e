//! Several speculators, asked together.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use spechop_ports::{Call, Guess, GuessRequest, Guessed, PortError, Speculator};
use spechop_types::{Chance, Observation, Tokens, canonical};
use tokio::time::{Instant, timeout_at};

/// How long the others are waited for if every guess so far is unsure. One that hangs, or that finds no turn,
/// would keep them back until they are of no use.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks several speculators at the same time. The first guess that is confident goes ahead; a better one
/// that comes later goes beside it, if a second guess is of use at all.
///
/// A guess is *confident* if its own estimate of being right is at least a threshold; one that says nothing
/// of itself counts as even. That nothing will be found is no confident guess: another member may know
/// better. If no guess is confident, it waits for all, though not for long, and gives what there is, the most
/// confident first. Each guess is marked with the name of the member that made it.
///
/// A member that fails is one that has no guess, unless all fail. Whoever drops the future drops all.
/// Once nothing more is of use (one guess was asked for, and there is a confident one), the others are
/// dropped as well; what they had told of their cost by then counts.
#[derive(Clone)]
pub struct Cascade {
    members: Vec<(&'static str, Arc<dyn Speculator>)>,
    confident: Chance,
}

impl Cascade {
    /// Asks these members, by their names, and takes guesses of at least this chance for confident.
    pub fn new(members: Vec<(&'static str, Arc<dyn Speculator>)>, confident: Chance) -> Self {
        Self { members, confident }
    }
}

#[async_trait]
impl Speculator for Cascade {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        self.guess_as_they_come(call, request, &mut |_| {}).await
    }

    async fn guess_as_they_come(
        &self,
        call: &Call,
        request: GuessRequest,
        early: &mut (dyn FnMut(Guess) + Send),
    ) -> Result<Guessed, PortError> {
        let limit = request.limit.get();
        // Each takes its turns for itself.
        let parts: Vec<Call> = self.members.iter().map(|_| call.part()).collect();
        let mut asked: FuturesUnordered<_> = self
            .members
            .iter()
            .zip(&parts)
            .map(|((name, member), part)| {
                let request = request.clone();
                async move { (*name, member.guess(part, request).await) }
            })
            .collect();
        let (mut told, mut rest): (Vec<Guess>, Vec<Guess>) = (Vec::new(), Vec::new());
        let (mut tokens, mut answered, mut failure) = (Tokens::default(), false, None);
        let mut end = None;
        loop {
            let next = match end {
                Some(end) if told.is_empty() => timeout_at(end, asked.next()).await.unwrap_or(None),
                _ => asked.next().await,
            };
            let Some((name, outcome)) = next else { break };
            let guessed = match outcome {
                Ok(guessed) => guessed,
                Err(error) => {
                    failure.get_or_insert(error);
                    continue;
                }
            };
            answered = true;
            tokens += guessed.tokens;
            for mut guess in guessed.guesses {
                guess.by.get_or_insert(name);
                let best = told.iter().map(chance).max();
                let goes_ahead = chance(&guess) >= self.confident
                    && !Observation::is_nothing(&guess.text)
                    && best.is_none_or(|best| chance(&guess) > best)
                    && told.len() < limit
                    && !told.iter().any(|other| is_same(other, &guess));
                if goes_ahead {
                    early(guess.clone());
                    told.push(guess);
                } else {
                    rest.push(guess);
                }
            }
            if told.len() >= limit {
                break;
            }
            // That nothing will be found is said of many a hop at once.
            if rest
                .iter()
                .any(|guess| !Observation::is_nothing(&guess.text))
            {
                end.get_or_insert_with(|| Instant::now() + PATIENCE);
            }
        }
        if let Some(failure) = failure.filter(|_| !answered) {
            return Err(failure);
        }
        // Of equally likely ones, the first that came.
        rest.sort_by_key(|guess| Reverse(chance(guess)));
        for guess in rest {
            if told.len() < limit && !told.iter().any(|other| is_same(other, &guess)) {
                told.push(guess);
            }
        }
        Ok(Guessed {
            guesses: told,
            tokens,
        })
    }
}

fn chance(guess: &Guess) -> Chance {
    guess.confidence.unwrap_or(Chance::EVEN)
}

/// Two who guess need not write an answer alike. A branch for each would be built twice.
pub(crate) fn is_same(a: &Guess, b: &Guess) -> bool {
    a.text == b.text || canonical(&a.text) == canonical(&b.text)
}

#[cfg(test)]
mod tests;
