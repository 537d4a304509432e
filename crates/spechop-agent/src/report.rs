//! The result of a question: its answer, its hops, their times and the cost.

use std::sync::Arc;
use std::time::Duration;

use spechop_types::{
    Activities, Budget, Chance, Hop, Money, ProviderChange, Refusals, Stage, Tokens,
};
use spechop_verifier::Verdict;
use spechop_window::Stop;

use crate::{Due, TraceEvent, TraceKind};

/// A question's answer, its committed trajectory and its cost.
#[derive(Clone, Debug)]
pub struct Report {
    /// The final answer; its whole prefix is committed.
    pub answer: Arc<str>,
    /// The committed hops, oldest first.
    pub hops: Vec<HopReport>,
    /// Why the planner stopped asking.
    pub stopped: Stopped,
    /// Time of the segment that wrote the answer.
    pub final_segment: Duration,
    /// How sure the planner was of it, if it could tell.
    pub final_certainty: Option<Chance>,
    /// When the answer was first there. It was confirmed at the end.
    pub first_answer: FirstAnswer,
    /// Wall-clock time of the whole question.
    pub elapsed: Duration,
    /// Of it, what the plan took that the answer is of: less than `elapsed` after a search, or behind a first
    /// answer that was given up. What speculation has hidden is to be seen in this alone.
    pub followed: Duration,
    /// Calls, tokens, time and money; wasted work is counted apart.
    pub usage: Usage,
    /// Tokens that aborted calls may have taken beyond those: as of [`crate::Due`].
    pub tokens_lost: u64,
    /// The same in money.
    pub money_lost: Money,
    /// How many plans were followed ([`crate::Agent::search`]).
    pub plans: u32,
    /// How many branches there were. Their numbers are smaller.
    pub branches: u32,
    /// How likely the question is to be of a form that the first planner was trained on, if another one has
    /// answered it therefore ([`crate::Agent::take_over`]).
    pub handed_over: Option<Chance>,
    /// Of calls that were wasted as well.
    pub provider_changes: ProviderChanges,
}

/// Changes of provider, each once, in order, with how many calls made it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderChanges(Vec<(ProviderChange, u32)>);

impl ProviderChanges {
    /// Further ones are not kept.
    pub const MAX: usize = 16;

    /// In order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(ProviderChange, u32)> {
        self.0.iter()
    }

    /// So many calls more made this change.
    pub(crate) fn add(&mut self, change: ProviderChange, times: u32) {
        if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| *known == change) {
            *known = known.saturating_add(times);
        } else if self.0.len() < Self::MAX {
            self.0.push((change, times));
        }
    }

    /// A call of a plan made one, if the event says so.
    pub(crate) fn hear(&mut self, event: &TraceEvent) {
        if let TraceKind::ProviderChanged { change } = &event.kind {
            self.add(change.clone(), 1);
        }
    }

    /// Those of later calls.
    pub(crate) fn extend(&mut self, later: Self) {
        for (change, times) in later.0 {
            self.add(change, times);
        }
    }
}

/// When a branch wrote the answer that stood in the end, perhaps long before it was the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstAnswer {
    /// Since the question was taken up.
    pub at: Duration,
    /// How likely it was to stand: the chance that all guesses before it were right, as it was
    /// estimated then.
    pub chance: Chance,
}

/// A committed hop with its verdict and timings.
#[derive(Clone, Debug)]
pub struct HopReport {
    /// The hop.
    pub hop: Hop,
    /// The comparison that decided about its guess. `None` if there was none.
    pub verdict: Option<Verdict>,
    /// Whether its best guess was right. If the guess was too unlikely or too late to be built upon,
    /// there is no verdict, and it is compared for the record alone. `None` without a guess.
    pub guess_held: Option<bool>,
    /// Which of its guesses is the first that says what was observed, from 1, whether or not it was built
    /// upon. `None` if none does.
    pub right_guess: Option<u32>,
    /// How long its stages took.
    pub times: StageTimes,
    /// How long the question waited for its observation and could do nothing else to be done: from when its
    /// sub-question was written and the hop before committed, until it was committed itself.
    pub stall: Duration,
    /// What its calls spent that time on: its segment, its look-up, and its guess if that was right.
    pub activities: Activities,
    /// Whether its look-up was begun by a branch that was rolled back, and did not have to be made again.
    pub salvaged: bool,
    /// Whether its sub-question was drafted, word for word. `None` if nothing was drafted for it.
    pub draft_held: Option<bool>,
    /// Whether the likeliest draft was its sub-question, word for word, whether or not it was looked up: so
    /// the worth of drafts is known before they cost anything. `None` if the drafter had no idea.
    pub draft_right: Option<bool>,
    /// How long its look-up had already run when it was asked for, or how long it took. Zero if it was
    /// not drafted, or had to be made again.
    pub foreseen: Duration,
    /// Whether its guess had no turn, or lost it, or was not asked for because of the budget: that none was
    /// there in time tells nothing of the speculator then.
    pub guess_refused: bool,
    /// Whether its speculator was asked, was in time, and had no guess.
    pub silent: bool,
    /// How sure the planner was of its sub-question, if it could tell.
    pub certainty: Option<Chance>,
    /// The best guess's own estimate of being right; `None` if it gave none.
    pub confidence: Option<Chance>,
    /// Whose guess it was that was right, else the best one, if the speculator had asked others
    /// ([`spechop_ports::Guess::by`]).
    pub guess_by: Option<&'static str>,
    /// Whose the best guess was, which `guess_held` and `confidence` are about.
    pub best_by: Option<&'static str>,
}

/// How long the stages of a hop took, each from launch to result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Writing the sub-question.
    pub segment: Duration,
    /// Retrieval and reading together.
    pub target: Duration,
    /// Reading alone.
    pub read: Duration,
    /// The guess; `None` if none arrived.
    pub speculation: Option<Duration>,
}

/// Why the planner stopped asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stopped {
    /// It knew enough.
    Answered,
    /// The hop budget was used up.
    HopBudget,
    /// It asked the same sub-question twice.
    Repeated,
    /// Too many look-ups found nothing.
    NotFound,
    /// The question's [`spechop_types::Budget`] was used up, or the answer was wanted at once.
    Budget,
}

impl From<Stop> for Stopped {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::HopBudget => Self::HopBudget,
            Stop::Repeated => Self::Repeated,
            Stop::NotFound => Self::NotFound,
            Stop::Budget => Self::Budget,
        }
    }
}

/// What a question has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The planner's segments, the final one included.
    pub segments: Calls,
    /// Target calls.
    pub targets: Calls,
    /// Guesses.
    pub speculations: Calls,
    /// Drafts that a language model wrote. One is of use if it began a look-up that was then asked for.
    pub drafts: Calls,
    /// Target calls of aborted branches that another branch took over instead of calling again.
    pub salvaged: u32,
    /// Target calls that were made ahead of their sub-question; they are among [`Self::targets`].
    pub drafted: u32,
    /// How many of them a planner then asked for, without those that had to be made again.
    pub foreseen: u32,
    /// How long those had run by then, one after the other: time that no planner waited for.
    pub hidden: Duration,
}

/// Calls of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls started, aborted ones included. One that was refused before anything of it ran is not.
    pub started: u32,
    /// Calls started whose result the committed trajectory does not hold.
    pub wasted: u32,
    /// What all of them cost.
    pub cost: Cost,
    /// What the wasted ones cost.
    pub cost_wasted: Cost,
    /// Work ahead of need that was not done, or not to its end.
    pub refused: Refusals,
}

/// What calls took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Tokens read and written. Of calls that were aborted or failed: as far as they had told of them
    /// ([`spechop_ports::Call::spent`]).
    pub tokens: Tokens,
    /// From launch to end, one call after the other; until it was aborted, for an aborted call.
    pub time: Duration,
    /// What that time was spent on, as far as it is known.
    pub activities: Activities,
    /// By the operator's prices.
    pub money: Money,
}

impl Cost {
    pub(crate) fn add(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.time = self.time.saturating_add(other.time);
        self.activities += other.activities;
        self.money = self.money.plus(other.money);
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        let tokens = &mut self.tokens;
        tokens.prompt = tokens.prompt.saturating_sub(other.tokens.prompt);
        tokens.completion = tokens.completion.saturating_sub(other.tokens.completion);
        self.time = self.time.saturating_sub(other.time);
        self.activities = self.activities.minus(other.activities);
        self.money = self.money.minus(other.money);
    }
}

impl Calls {
    /// One more call, which was of use.
    pub fn add(&mut self, cost: Cost) {
        self.started += 1;
        self.cost.add(&cost);
    }

    /// One more call, made in vain.
    pub fn add_wasted(&mut self, cost: Cost) {
        self.add(cost);
        self.wasted += 1;
        self.cost_wasted.add(&cost);
    }
}

impl Report {
    /// What it leaves of a budget for another answer; `None` if it leaves too little for one.
    pub(crate) fn rest_of(&self, budget: Budget) -> Option<Budget> {
        if self.stopped == Stopped::Budget {
            return None;
        }
        let cost = self.usage.cost();
        let tokens = cost.tokens.total().saturating_add(self.tokens_lost);
        let money = cost.money.plus(self.money_lost);
        let rest = Budget {
            time: (budget.time).map(|time| time.saturating_sub(self.elapsed)),
            target_calls: (budget.target_calls)
                .map(|calls| calls.saturating_sub(self.usage.targets.started)),
            tokens: budget.tokens.map(|most| most.saturating_sub(tokens)),
            money: budget.money.map(|most| most.minus(money)),
        };
        (!rest.is_used_up()).then_some(rest)
    }

    /// Another plan of the question has cost this, too, and its answer was not taken.
    pub(crate) fn add_wasted(&mut self, due: &Due) {
        self.usage.add(&due.usage);
        self.tokens_lost = self.tokens_lost.saturating_add(due.tokens_lost);
        self.money_lost = self.money_lost.plus(due.money_lost);
    }
}

impl Due {
    /// Of a question whose answer is not taken.
    pub(crate) fn wasted(report: &Report) -> Self {
        Self {
            elapsed: report.elapsed,
            usage: report.usage.all_wasted(),
            tokens_lost: report.tokens_lost,
            money_lost: report.money_lost,
        }
    }

    /// Beside another one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.usage.add(&other.usage);
        self.tokens_lost = self.tokens_lost.saturating_add(other.tokens_lost);
        self.money_lost = self.money_lost.plus(other.money_lost);
    }
}

impl Usage {
    /// The calls of one stage.
    pub fn of(&mut self, stage: Stage) -> &mut Calls {
        match stage {
            Stage::Segment => &mut self.segments,
            Stage::Target => &mut self.targets,
            Stage::Speculation => &mut self.speculations,
            Stage::Draft => &mut self.drafts,
        }
    }

    /// The calls of every stage, in the order of [`Stage::ALL`].
    pub fn every(mut self) -> [Calls; Stage::ALL.len()] {
        Stage::ALL.map(|stage| *self.of(stage))
    }

    /// The same calls of a question that came to no answer: none of them was of use.
    pub(crate) fn all_wasted(mut self) -> Self {
        for stage in Stage::ALL {
            let calls = self.of(stage);
            calls.wasted = calls.started;
            calls.cost_wasted = calls.cost;
        }
        self
    }

    /// Beside those of another plan.
    pub(crate) fn add(&mut self, other: &Self) {
        for (stage, calls) in Stage::ALL.into_iter().zip(other.every()) {
            let own = self.of(stage);
            own.started += calls.started;
            own.wasted += calls.wasted;
            own.cost.add(&calls.cost);
            own.cost_wasted.add(&calls.cost_wasted);
            for (why, count) in calls.refused.iter() {
                own.refused[why] += count;
            }
        }
        self.salvaged += other.salvaged;
        self.drafted += other.drafted;
        self.foreseen += other.foreseen;
        self.hidden = self.hidden.saturating_add(other.hidden);
    }

    /// What all calls of all stages cost.
    pub fn cost(&self) -> Cost {
        let mut sum = Cost::default();
        for calls in self.every() {
            sum.add(&calls.cost);
        }
        sum
    }
}
