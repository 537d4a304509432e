//! Several speculators, asked together.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use spechop_ports::{Call, Guess, GuessRequest, Guessed, PortError, Speculator};
use spechop_types::{Chance, Observation, canonical_name};
use tokio::time::{Instant, timeout_at};

use crate::outcomes::Outcomes;

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
        self.guess_streaming(call, request, &mut |_| {}).await
    }

    async fn guess_streaming(
        &self,
        call: &Call,
        request: GuessRequest,
        early: &mut (dyn FnMut(Guess) + Send),
    ) -> Result<Guessed, PortError> {
        let mut gathered = Gathered {
            limit: request.limit.get(),
            confident: self.confident,
            told: Vec::new(),
            rest: Vec::new(),
        };
        // Each takes its turns for itself.
        let parts: Vec<Call> = self.members.iter().map(|_| call.sub_call()).collect();
        let mut asked: FuturesUnordered<_> = self
            .members
            .iter()
            .zip(&parts)
            .map(|((name, member), part)| {
                let request = request.clone();
                async move { (*name, member.guess(part, request).await) }
            })
            .collect();
        let (mut outcomes, mut end) = (Outcomes::default(), None);
        while !gathered.is_full() {
            let next = match end {
                Some(end) if gathered.told.is_empty() => {
                    timeout_at(end, asked.next()).await.unwrap_or(None)
                }
                _ => asked.next().await,
            };
            let Some((name, outcome)) = next else { break };
            for mut guess in outcomes.take(outcome) {
                guess.by.get_or_insert(name);
                gathered.take(guess, early);
            }
            if gathered.has_unsure() {
                end.get_or_insert_with(|| Instant::now() + PATIENCE);
            }
        }
        outcomes.into_guessed(gathered.into_guesses())
    }
}

/// The guesses so far.
struct Gathered {
    limit: usize,
    confident: Chance,
    /// Those that went ahead, in that order.
    told: Vec<Guess>,
    /// The others, as they came.
    rest: Vec<Guess>,
}

impl Gathered {
    fn is_full(&self) -> bool {
        self.told.len() >= self.limit
    }

    fn take(&mut self, guess: Guess, early: &mut (dyn FnMut(Guess) + Send)) {
        if self.goes_ahead(&guess) {
            early(guess.clone());
            self.told.push(guess);
        } else {
            self.rest.push(guess);
        }
    }

    fn goes_ahead(&self, guess: &Guess) -> bool {
        let best = self.told.iter().map(chance).max();
        chance(guess) >= self.confident
            && !Observation::is_nothing(&guess.text)
            && best.is_none_or(|best| chance(guess) > best)
            && self.is_of_use(guess)
    }

    fn is_of_use(&self, guess: &Guess) -> bool {
        !self.is_full() && !self.told.iter().any(|other| is_same(other, guess))
    }

    /// Whether some guess that did not go ahead may be right. That nothing will be found is said of many a
    /// hop at once.
    fn has_unsure(&self) -> bool {
        let mut rest = self.rest.iter();
        rest.any(|guess| !Observation::is_nothing(&guess.text))
    }

    /// As many as are of use: those that went ahead, then the most confident.
    fn into_guesses(mut self) -> Vec<Guess> {
        let mut rest = std::mem::take(&mut self.rest);
        // Of equally likely ones, the first that came.
        rest.sort_by_key(|guess| Reverse(chance(guess)));
        for guess in rest {
            if self.is_of_use(&guess) {
                self.told.push(guess);
            }
        }
        self.told
    }
}

fn chance(guess: &Guess) -> Chance {
    guess.confidence.unwrap_or(Chance::EVEN)
}

/// Two who guess need not write an answer alike. A branch for each would be built twice.
pub(crate) fn is_same(a: &Guess, b: &Guess) -> bool {
    a.text == b.text || canonical_name(&a.text) == canonical_name(&b.text)
}

#[cfg(test)]
mod tests;
