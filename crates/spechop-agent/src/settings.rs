//! The settings of one question.

use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spechop_ports::{Life, Wishes};
use spechop_types::{
    AnswerOptions, Budget, Chance, Effort, Money, Price, Stage, Tenant, TraceContext,
};
use spechop_verifier::Mode;
pub use spechop_window::{Hidden, Policy, ReliabilityCurve, Weighing, Width};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::{Journal, Usage};

/// Most passages of a hop that are read with low effort.
const PASSAGES_LOW: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// How one question is to be answered. Every value is valid.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most branches alive at once (the paper's k). 1 is the standard agent.
    pub width: Width,
    /// Additions to the paper's algorithm: salvage, plan-ahead, several guesses, the gate.
    pub policy: Policy,
    /// How long a target call of an aborted branch is kept, in case it is asked again.
    pub orphan_time: Duration,
    /// Most hops; after them the planner must answer.
    pub hops_max: u32,
    /// Most observations without relevant information; one more and the planner must answer.
    pub not_found_max: u32,
    /// Passages read for each hop.
    pub passages: NonZeroUsize,
    /// When a guess counts as right.
    pub verifier: Mode,
    /// Soft limits: at the end of the budget the planner answers from what is committed.
    pub budget: Budget,
    /// What calls cost.
    pub prices: Prices,
    /// On whose behalf the question is asked.
    pub tenant: Tenant,
    /// What it wishes of its calls. If it is quiet, no target call is made ahead of need.
    pub wishes: Wishes,
    /// How likely a guess is to be right if it does not say so itself.
    pub guess_chance: Chance,
    /// How much is done for a better answer.
    pub effort: Effort,
    /// How many drafts of a sub-question are written side by side, if somebody writes drafts at all (λ of
    /// arXiv 2512.15834). 0 writes none.
    pub draft_samples: u32,
    /// By which somebody may end the question early.
    pub finish: Option<Finish>,
    /// Where it is noted what the question has cost if it comes to no answer.
    pub bill: Option<Bill>,
    /// The span of a trace that the question is. With a [`Self::journal`], each call is a child of it by
    /// its number; without, nobody will hear of children, and every call is this span.
    pub trace: Option<TraceContext>,
    /// Nobody needs the answer: every call is one that may be wasted, however near it is. One that has no
    /// turn, or loses it, ends the question with an error.
    pub is_unneeded: bool,
    /// Held by every call for as long as somebody works for it.
    pub life: Option<Life>,
    /// Where it is noted what becomes of each call.
    pub journal: Option<Journal>,
    /// The hard limit: at this instant everything stops with an error.
    pub deadline: Option<Instant>,
    /// Limits of single stages.
    pub limits: StageLimits,
}

impl Settings {
    /// With what is said about them. What is not said stays. Who guesses is nothing that they hold.
    #[must_use]
    pub fn with(self, said: &AnswerOptions) -> Self {
        let passages = said.top_passages.unwrap_or(self.passages);
        let effort = said.effort.unwrap_or(self.effort);
        Self {
            width: said.k.and_then(Width::asked).unwrap_or(self.width),
            policy: self.policy.with(said),
            hops_max: said.hop_budget.unwrap_or(self.hops_max),
            not_found_max: said.not_found_max.unwrap_or(self.not_found_max),
            passages: match effort {
                Effort::Low => passages.min(PASSAGES_LOW),
                Effort::Normal | Effort::High => passages,
            },
            effort,
            verifier: said.verifier.unwrap_or(self.verifier),
            wishes: Wishes {
                fresh: said.fresh || self.wishes.fresh,
                quiet: said.quiet || self.wishes.quiet,
            },
            ..self
        }
    }

    /// Ends once somebody wants the answer now; never if nobody can say so.
    pub async fn finish_asked(&self) {
        match self.finish.clone() {
            Some(finish) => finish.asked().await,
            None => pending().await,
        }
    }

    /// Whether somebody has said that the answer is wanted now.
    pub fn is_finish_asked(&self) -> bool {
        self.finish.as_ref().is_some_and(Finish::is_asked)
    }

    /// What they say, but who guesses.
    pub fn options(&self) -> AnswerOptions {
        let policy = &self.policy;
        AnswerOptions {
            k: Some(self.width.into()),
            hop_budget: Some(self.hops_max),
            top_passages: Some(self.passages),
            verifier: Some(self.verifier),
            speculator: None,
            salvage: Some(policy.salvages()),
            plan_ahead: Some(policy.plans_ahead()),
            guesses: Some(policy.guesses_max),
            chance_min: Some(policy.chance_min),
            not_found_max: Some(self.not_found_max),
            drafts: Some(u32::try_from(policy.drafts_max).unwrap_or(u32::MAX)),
            effort: Some(self.effort),
            fresh: self.wishes.fresh,
            quiet: self.wishes.quiet,
        }
    }
}

/// Ends a question early: the answer is then written from what is committed, as at the end of a
/// budget. Clones are handles to the same question.
#[derive(Clone, Debug, Default)]
pub struct Finish(Arc<watch::Sender<bool>>);

impl Finish {
    /// Finish now. The question may be over already.
    pub fn now(&self) {
        self.0.send_replace(true);
    }

    /// Whether somebody has asked for it. Whoever has waits for no further answer, either.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends once somebody asks for it, or at once if somebody has.
    pub(crate) async fn asked(self) {
        // The sender is in here, so it does not go away.
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }
}

/// Where it is noted what a question has cost that came to no answer: it failed, or its future was
/// dropped. Clones are handles to the same bill.
#[derive(Clone, Debug, Default)]
pub struct Bill(Arc<Mutex<Option<Due>>>);

/// The cost of a question that came to no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// From its beginning to its end.
    pub elapsed: Duration,
    /// Its calls and what is known of their cost, all of it wasted.
    pub usage: Usage,
    /// Tokens that aborted calls may have taken beyond those that are known. Each had as many set aside
    /// as the dearest finished call of its stage took.
    pub tokens_lost: u64,
    /// The same in money.
    pub money_lost: Money,
}

impl Bill {
    /// The cost, once. `None` as long as the question is open or if nothing of it was begun, and if it
    /// was answered: then the cost stands in the report.
    pub fn take(&self) -> Option<Due> {
        self.0.lock().take()
    }

    pub(crate) fn set(&self, due: Due) {
        *self.0.lock() = Some(due);
    }
}

/// What the calls of each stage cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// A segment.
    pub segment: Price,
    /// A target call, its reading included.
    pub target: Price,
    /// A guess.
    pub speculation: Price,
    /// A draft that a language model writes.
    pub draft: Price,
}

impl Prices {
    pub(crate) fn of(&self, stage: Stage) -> Price {
        match stage {
            Stage::Segment => self.segment,
            Stage::Target => self.target,
            Stage::Speculation => self.speculation,
            Stage::Draft => self.draft,
        }
    }
}

/// How long a single stage may take, its waiting for a turn included.
#[derive(Clone, Copy, Debug)]
pub struct StageLimits {
    /// Writing a sub-question or the final answer.
    pub segment: Duration,
    /// Retrieval and reading together.
    pub target: Duration,
    /// A guess; a late guess is no guess.
    pub speculation: Duration,
    /// A draft. It ends with its segment at the latest.
    pub draft: Duration,
}

impl StageLimits {
    /// No limits: a stage may take for ever.
    pub const NONE: Self = Self {
        segment: Duration::MAX,
        target: Duration::MAX,
        speculation: Duration::MAX,
        draft: Duration::MAX,
    };
}

impl Default for Settings {
    /// The paper's settings (k = 3, top 5 passages, rule verifier), and salvage.
    fn default() -> Self {
        Self {
            width: Width::bounded(NonZeroUsize::MIN.saturating_add(2)),
            policy: Policy::default(),
            orphan_time: Duration::from_secs(10),
            hops_max: 6,
            not_found_max: 1,
            passages: NonZeroUsize::MIN.saturating_add(4),
            verifier: Mode::Rule,
            budget: Budget::default(),
            prices: Prices::default(),
            tenant: Tenant::default(),
            wishes: Wishes::default(),
            guess_chance: Chance::EVEN,
            effort: Effort::Normal,
            draft_samples: 1,
            finish: None,
            bill: None,
            trace: None,
            is_unneeded: false,
            life: None,
            journal: None,
            deadline: None,
            limits: StageLimits::default(),
        }
    }
}

impl Default for StageLimits {
    fn default() -> Self {
        Self {
            segment: Duration::from_secs(60),
            target: Duration::from_secs(60),
            speculation: Duration::from_secs(20),
            draft: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_counts_and_the_rest_stays() {
        let usual = Settings::default().options();
        assert_eq!(Settings::default().with(&usual).options(), usual);
        let mut quiet = AnswerOptions::default();
        quiet.say("quiet", "on").unwrap();
        let quiet = Settings::default().with(&quiet);
        let options = quiet.options();
        assert!(options.quiet);
        assert_eq!(quiet.with(&AnswerOptions::default()).options(), options);
        for (option, value) in [
            ("k", "7"),
            ("k", "inf"),
            ("hop_budget", "9"),
            ("top_passages", "2"),
            ("verifier", "paper"),
            ("salvage", "off"),
            ("plan_ahead", "on"),
            ("guesses", "3"),
            ("chance_min", "0.25"),
            ("not_found_max", "4"),
            ("drafts", "2"),
            ("fresh", "on"),
            ("quiet", "on"),
        ] {
            let mut said = AnswerOptions::default();
            said.say(option, value).unwrap();
            let options = Settings::default().with(&said).options();
            assert_eq!(options, said.or(&usual), "{option}={value}");
        }
        // Who chooses comes later.
        let mut auto = AnswerOptions::default();
        auto.say("k", "auto").unwrap();
        assert_eq!(Settings::default().with(&auto).options(), usual);
    }
}
