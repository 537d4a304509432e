//! The question of a conversation: before it is answered, what earlier turns say is put into it.
//!
//! It is one call of the generator, and never a speculative one. It is part of what the question costs. If it
//! comes to nothing, the question is asked as it stands.

use std::sync::Arc;
use std::time::Duration;

use spechop_agent::{CallEnd, CallNote, Cost, Usage};
use spechop_ports::{Call, Lane, RewriteRequest, Turn};
use spechop_types::{Chance, Price, Question, Stage, Tokens, with_causes};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::Admitted;

/// The longest that a client waits before its question begins.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of its span. Those of the agent's calls count from 1.
const NUMBER: u64 = 0;

/// What was said before a question.
pub(super) struct Conversation {
    turns: Vec<Turn>,
    /// Hears what became of it.
    told: oneshot::Sender<Resolved>,
}

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
    end: CallEnd,
}

impl Admitted {
    /// The question comes after these turns, oldest first. Before it is answered, what they say is put into it;
    /// what became of that is told then.
    pub(crate) fn converse(&mut self, turns: Vec<Turn>) -> oneshot::Receiver<Resolved> {
        let (told, resolved) = oneshot::channel();
        self.conversation = Some(Conversation { turns, told });
        resolved
    }

    /// Puts into the question what was said before it.
    pub(super) async fn resolve(&mut self, conversation: Conversation) {
        let Conversation { turns, told } = conversation;
        let resolved = self.rewritten(turns).await;
        // Whoever asks may have gone away.
        let _ = told.send(resolved);
    }

    /// If a language model is there that can.
    async fn rewritten(&mut self, turns: Vec<Turn>) -> Resolved {
        let Some(rewriter) = self.state.toolbox.rewriter.clone() else {
            return Resolved::Unable;
        };
        let settings = &self.asked.settings;
        let call = Call::of(
            settings.tenant.clone(),
            Lane::Authoritative,
            Chance::CERTAIN,
        );
        // As for the agent's calls: the endpoint hears of its span, and quiescence waits for its end.
        let trace = settings.trace.as_ref();
        let trace = trace.map(|trace| match settings.journal {
            Some(_) => trace.child(NUMBER),
            None => trace.clone(),
        });
        let call = call.with(settings.wishes).traced(trace);
        let call = match &settings.life {
            Some(life) => call.within(life.clone()),
            None => call,
        };
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
        let (rewritten, end) = tokio::select! {
            biased;
            rewritten = timeout_at(until, rewriter.rewrite(&call, request)) => match rewritten {
                Ok(Ok(rewritten)) => (Ok(rewritten), CallEnd::Done),
                Ok(Err(error)) => (Err(with_causes(&error)), CallEnd::Failed),
                Err(_) => {
                    let took = began.elapsed().as_secs_f64();
                    (Err(format!("it took longer than {took:.1} s")), CallEnd::TimedOut)
                }
            },
            () = settings.finish_asked() => {
                (Err("the answer was wanted at once".to_owned()), CallEnd::Dropped)
            }
        };
        let counted = rewritten.as_ref().map(|rewritten| rewritten.tokens);
        let tokens = counted.unwrap_or_default().max(call.spent());
        rewriting.ended = Some(Ended {
            took: began.elapsed(),
            tokens,
            end,
        });
        let cost = rewriting.cost();
        let budget = &mut self.asked.settings.budget;
        budget.time = budget.time.map(|time| time.saturating_sub(cost.time));
        budget.tokens = budget
            .tokens
            .map(|most| most.saturating_sub(tokens.total()));
        budget.money = budget.money.map(|money| money.minus(cost.money));
        let question = match rewritten {
            Ok(rewritten) => rewritten.question,
            Err(reason) => return failed(reason),
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

    /// Whether the question is asked as it has written it.
    pub(super) fn is_used(&self) -> bool {
        self.ended.is_some_and(|ended| ended.end == CallEnd::Done)
    }

    /// Adds it to the segments: the generator has written.
    pub(super) fn charge(&self, usage: &mut Usage) {
        match self.is_used() {
            true => usage.segments.add(self.cost()),
            false => self.charge_wasted(usage),
        }
    }

    /// The same for a question that came to no answer.
    pub(super) fn charge_wasted(&self, usage: &mut Usage) {
        usage.segments.add_wasted(self.cost());
    }

    /// What is noted for its span. It is of no branch, and its times count from its own beginning.
    pub(super) fn note(&self) -> CallNote {
        let end = self.ended.map(|ended| ended.end);
        CallNote {
            number: NUMBER,
            stage: Stage::Segment,
            lookup: None,
            branch: None,
            hop: 0,
            began: Duration::ZERO,
            ended: self.took(),
            was_speculative: false,
            is_needed: true,
            was_kept: self.call.was_kept(),
            tokens: self.tokens(),
            activities: self.call.activities(),
            end: end.unwrap_or(CallEnd::Dropped),
        }
    }

    fn tokens(&self) -> Tokens {
        let counted = self.ended.map(|ended| ended.tokens);
        counted.unwrap_or_else(|| self.call.spent())
    }

    fn cost(&self) -> Cost {
        let tokens = self.tokens();
        Cost {
            tokens,
            time: self.took(),
            activities: self.call.activities(),
            money: self.price.call.plus(self.price.of(tokens)),
        }
    }
}

#[cfg(test)]
mod tests;
