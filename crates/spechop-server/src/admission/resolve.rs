//! The question of a conversation: before it is answered, what earlier turns say is put into it.
//!
//! It is one call of the generator, and never a speculative one. It is part of what the question costs. If it
//! comes to nothing, the question is asked as it stands.

use std::sync::Arc;
use std::time::Duration;

use spechop_agent::{Cost, Usage};
use spechop_ports::{Call, Lane, RewriteRequest, Turn};
use spechop_types::{Chance, Price, Question, Tokens, with_causes};
use tokio::time::{Instant, timeout_at};

use super::Admitted;

/// The longest that a client waits before its question begins.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// This is asked now.
    Rewritten(Arc<str>),
    /// The question needs nothing of the conversation.
    Complete,
    /// Nobody here can do it.
    Unable,
    /// It came to nothing, and why.
    Failed(String),
}

/// The call, and what it has cost so far.
pub(super) struct Rewriting {
    call: Call,
    price: Price,
    began: Instant,
    /// `None` while it is under way.
    ended: Option<Ended>,
}

/// The end of the call.
#[derive(Clone, Copy)]
struct Ended {
    took: Duration,
    /// As its engine has counted them.
    tokens: Tokens,
    was_of_use: bool,
}

impl Admitted {
    /// Puts into the question what was said before it, if a language model is there that can.
    pub(crate) async fn resolve(&mut self, turns: Vec<Turn>) -> Resolved {
        let Some(rewriter) = self.state.toolbox.rewriter.clone() else {
            return Resolved::Unable;
        };
        let settings = &self.asked.settings;
        let call = Call::of(
            settings.tenant.clone(),
            Lane::Authoritative,
            Chance::CERTAIN,
        );
        let began = Instant::now();
        let limits = [
            Some(began + settings.limits.segment.min(PATIENCE)),
            settings.budget.time.map(|time| began + time),
            settings.deadline,
        ];
        let until = limits.into_iter().flatten().min().unwrap_or(began);
        // Noted before it begins: whoever hangs up in the middle of it has had the work done.
        let rewriting = self.tally.rewriting.insert(Rewriting {
            call: call.clone(),
            price: settings.prices.segment,
            began,
            ended: None,
        });
        let request = RewriteRequest {
            turns,
            question: self.asked.question.as_str().into(),
        };
        let work = timeout_at(until, rewriter.rewrite(&call, request));
        let rewritten = tokio::select! {
            biased;
            // The question will end with that, and say so.
            () = self.state.phases.closed.cancelled() => return Resolved::Unable,
            () = self.opened.question.cancel.cancelled() => return Resolved::Unable,
            rewritten = work => rewritten,
        };
        let counted = match &rewritten {
            Ok(Ok(rewritten)) => rewritten.tokens,
            Ok(Err(_)) | Err(_) => Tokens::default(),
        };
        let tokens = counted.max(call.spent());
        rewriting.ended = Some(Ended {
            took: began.elapsed(),
            tokens,
            was_of_use: matches!(rewritten, Ok(Ok(_))),
        });
        let cost = rewriting.cost();
        let budget = &mut self.asked.settings.budget;
        budget.time = budget.time.map(|time| time.saturating_sub(cost.time));
        budget.tokens = budget
            .tokens
            .map(|most| most.saturating_sub(tokens.total()));
        budget.money = budget.money.map(|money| money.minus(cost.money));
        let question = match rewritten {
            Ok(Ok(rewritten)) => rewritten.question,
            Ok(Err(error)) => return failed(with_causes(&error)),
            Err(_) => {
                return failed(format!(
                    "it took longer than {:.1} s",
                    cost.time.as_secs_f64()
                ));
            }
        };
        match Question::new(&question) {
            Ok(question) if question == self.asked.question => Resolved::Complete,
            Ok(question) => {
                self.asked.question = question;
                Resolved::Rewritten(self.asked.question.as_str().into())
            }
            Err(error) => failed(error.to_string()),
        }
    }
}

fn failed(reason: String) -> Resolved {
    tracing::debug!(
        reason,
        "the question of a conversation is asked as it stands"
    );
    Resolved::Failed(reason)
}

impl Rewriting {
    /// How long it has taken.
    pub(super) fn took(&self) -> Duration {
        let ended = self.ended.map(|ended| ended.took);
        ended.unwrap_or_else(|| self.began.elapsed())
    }

    /// Adds it to the segments: the generator has written.
    pub(super) fn charge(&self, usage: &mut Usage) {
        match self.ended {
            Some(ended) if ended.was_of_use => usage.segments.add(self.cost()),
            _ => self.charge_wasted(usage),
        }
    }

    /// The same for a question that came to no answer.
    pub(super) fn charge_wasted(&self, usage: &mut Usage) {
        usage.segments.add_wasted(self.cost());
    }

    fn cost(&self) -> Cost {
        let tokens = self.ended.map(|ended| ended.tokens);
        let tokens = tokens.unwrap_or_else(|| self.call.spent());
        Cost {
            tokens,
            time: self.took(),
            activities: self.call.activities(),
            money: self.price.call.plus(self.price.of(tokens)),
        }
    }
}
