//! The cost of a question so far, and the rest of its budget.
//!
//! Before a call is launched, its likely cost is set aside; when it ends, its real cost is settled. So
//! calls under way count. The likely cost is that of the dearest finished call of the same stage. If a
//! call costs more than that, a budget of tokens or money is overrun by the difference. A budget of
//! target calls is never overrun.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use spechop_types::{Activities, Budget, CommitKind, Money, Refusal, Stage, Tokens};

use crate::report::{Calls, Cost, Usage};
use crate::settings::Prices;

/// Counts every call when it starts, and its cost when it ends.
pub(crate) struct Ledger {
    budget: Budget,
    prices: Prices,
    /// A call counts as wasted until the answer's trajectory holds what it brought.
    calls: PerStage<Calls>,
    /// The cost of the dearest finished call.
    dearest: PerStage<Spent>,
    /// What aborted calls had set aside beyond what is known of them: they may have cost that much more.
    lost: Spent,
    salvaged: u32,
    drafted: u32,
    foreseen: u32,
    hidden: Duration,
}

/// What a call took by its own account, and by the clock.
#[derive(Clone, Copy, Default)]
pub(crate) struct Taken {
    /// Of one that was aborted or failed: all that is known.
    pub(crate) tokens: Tokens,
    /// Of these, what turns took that it lost: it was taken up again, and they have brought nothing.
    pub(crate) lost: Tokens,
    /// From launch to end.
    pub(crate) time: Duration,
    pub(crate) activities: Activities,
    /// It waited for its first turn to the end, or lost that before it heard of it, or was dropped as soon as
    /// launched: nothing of it was ever started.
    pub(crate) never_began: bool,
    /// It was in line for another turn: what it has told is all that it took.
    pub(crate) was_in_line: bool,
}

/// What a budget limits beside calls and time.
#[derive(Clone, Copy, Default)]
struct Spent {
    tokens: u64,
    money: Money,
}

/// What one branch or look-up has paid, by stage; a stage that has brought nothing is not there. Hardly one has
/// two.
#[derive(Default)]
pub(crate) struct Paid(Vec<(Stage, Cost)>);

/// How many calls of each stage are under way.
#[derive(Clone, Copy, Default)]
pub(crate) struct Open(PerStage<u32>);

#[derive(Clone, Copy, Debug, Default)]
struct PerStage<T>([T; Stage::ALL.len()]);

impl Open {
    pub(crate) fn add(&mut self, stage: Stage) {
        self.0[stage] += 1;
    }
}

impl Paid {
    pub(crate) fn add(&mut self, stage: Stage, cost: Cost) {
        // The last result is the one that counts; what was spent before it was wasted.
        match self.0.iter_mut().find(|(paid, _)| *paid == stage) {
            Some((_, last)) => *last = cost,
            None => self.0.push((stage, cost)),
        }
    }

    fn of(&self, stage: Stage) -> Option<&Cost> {
        let found = self.0.iter().find(|(paid, _)| *paid == stage);
        found.map(|(_, cost)| cost)
    }

    /// What a committed hop's calls spent their time on: this is its branch's, with its look-up's.
    pub(crate) fn activities_with(&self, lookup: &Self, kind: CommitKind) -> Activities {
        let guess = lookup.of(Stage::Speculation);
        let guess = guess.filter(|_| kind == CommitKind::Accepted);
        let used = [self.of(Stage::Segment), lookup.of(Stage::Target), guess];
        let used = used.into_iter().flatten();
        used.map(|cost| cost.activities).sum()
    }
}

impl Ledger {
    pub(crate) fn new(budget: Budget, prices: Prices) -> Self {
        Self {
            budget,
            prices,
            calls: PerStage::default(),
            dearest: PerStage::default(),
            lost: Spent::default(),
            salvaged: 0,
            drafted: 0,
            foreseen: 0,
            hidden: Duration::ZERO,
        }
    }

    pub(crate) fn start(&mut self, stage: Stage) {
        let fee = self.prices.of(stage).call;
        let calls = &mut self.calls[stage];
        calls.started += 1;
        calls.wasted += 1;
        calls.cost.money = calls.cost.money.plus(fee);
        calls.cost_wasted.money = calls.cost_wasted.money.plus(fee);
    }

    /// A call has ended, well or badly. Says what it cost without the turns that it lost; its time is all of it.
    pub(crate) fn settle(&mut self, stage: Stage, taken: Taken) -> Cost {
        let cost = self.charge(stage, taken);
        let dearest = &mut self.dearest[stage];
        dearest.tokens = dearest.tokens.max(cost.tokens.total());
        dearest.money = dearest.money.max(cost.money);
        self.with_fee(stage, cost)
    }

    /// A call was aborted. It took what it had told of, at least; the rest of what was set aside for it
    /// stays set aside.
    pub(crate) fn abort(&mut self, stage: Stage, taken: Taken) -> Cost {
        let cost = self.charge(stage, taken);
        let set_aside = self.dearest[stage];
        let rest = Spent {
            tokens: set_aside.tokens.saturating_sub(cost.tokens.total()),
            money: set_aside.money.minus(cost.money),
        };
        self.lost.add(rest, 1);
        self.with_fee(stage, cost)
    }

    /// Counts what a call took beyond the fee, which was counted at its start. Says the same without the turns that
    /// it lost; its time is all of it.
    fn charge(&mut self, stage: Stage, taken: Taken) -> Cost {
        let cost = Cost {
            tokens: taken.tokens,
            time: taken.time,
            activities: taken.activities,
            money: self.prices.of(stage).of(taken.tokens),
        };
        let calls = &mut self.calls[stage];
        calls.cost.add(&cost);
        calls.cost_wasted.add(&cost);
        let tokens = taken.tokens.without(taken.lost);
        let money = self.prices.of(stage).of(tokens);
        Cost {
            tokens,
            money,
            ..cost
        }
    }

    fn with_fee(&self, stage: Stage, cost: Cost) -> Cost {
        Cost {
            money: cost.money.plus(self.prices.of(stage).call),
            ..cost
        }
    }

    /// Work ahead of need was not done, or not to its end.
    pub(crate) fn refuse(&mut self, stage: Stage, why: Refusal) {
        self.calls[stage].refused[why] += 1;
    }

    /// A call that was counted at its start was never made. If it was warmed up for, that took what it
    /// had told of.
    pub(crate) fn withdraw(&mut self, stage: Stage, spent: Tokens) {
        let price = self.prices.of(stage);
        let spent = Cost {
            tokens: spent,
            money: price.of(spent),
            // It is nobody's call, so its time is nobody's, either.
            ..Cost::default()
        };
        let calls = &mut self.calls[stage];
        calls.started = calls.started.saturating_sub(1);
        calls.wasted = calls.wasted.saturating_sub(1);
        for cost in [&mut calls.cost, &mut calls.cost_wasted] {
            cost.money = cost.money.minus(price.call);
            cost.add(&spent);
        }
    }

    /// The answer's trajectory holds what a branch got from this stage.
    pub(crate) fn use_up(&mut self, stage: Stage, paid: &Paid) {
        if let Some(cost) = paid.of(stage) {
            let calls = &mut self.calls[stage];
            calls.wasted = calls.wasted.saturating_sub(1);
            calls.cost_wasted.subtract(cost);
        }
    }

    /// A branch took over a look-up of an aborted branch.
    pub(crate) fn salvage(&mut self) {
        self.salvaged += 1;
    }

    /// Such a call came to nothing.
    pub(crate) fn unsalvage(&mut self) {
        self.salvaged = self.salvaged.saturating_sub(1);
    }

    /// A target call was made of what a planner may be about to ask.
    pub(crate) fn draft(&mut self) {
        self.drafted += 1;
    }

    /// Such a call was never made.
    pub(crate) fn withdraw_draft(&mut self) {
        self.drafted = self.drafted.saturating_sub(1);
    }

    /// The planner asked just that. The call had run for so long.
    pub(crate) fn foresee(&mut self, saved: Duration) {
        self.foreseen += 1;
        self.hidden = self.hidden.saturating_add(saved);
    }

    /// Such a call was never made, or came to nothing: no time was hidden by it.
    pub(crate) fn unforesee(&mut self, saved: Duration) {
        self.foreseen = self.foreseen.saturating_sub(1);
        self.hidden = self.hidden.saturating_sub(saved);
    }

    /// A hop is final: its segment and its target call were used, its guess if it was right, and the draft
    /// that began its look-up.
    pub(crate) fn commit(&mut self, kind: CommitKind, segment: &Paid, lookup: &Paid) {
        self.use_up(Stage::Segment, segment);
        self.use_up(Stage::Draft, segment);
        self.use_up(Stage::Target, lookup);
        if kind == CommitKind::Accepted {
            self.use_up(Stage::Speculation, lookup);
        }
    }

    /// True if not even needed work may be launched. `needed` are the needed calls under way: the
    /// cost that is set aside for others must not starve them.
    pub(crate) fn is_spent(&self, needed: Open) -> bool {
        let calls = self.calls[Stage::Target].started;
        self.budget.target_calls.is_some_and(|most| calls >= most)
            || self.is_priced() && {
                let spent = self.spent(needed);
                self.budget.tokens.is_some_and(|most| spent.tokens >= most)
                    || self.budget.money.is_some_and(|most| spent.money >= most)
            }
    }

    /// Whether anything is limited that has to be added up first.
    pub(crate) fn is_priced(&self) -> bool {
        self.budget.tokens.is_some() || self.budget.money.is_some()
    }

    /// Whether enough is known to set something aside for a call of this stage, if anything is limited that
    /// has to be added up: one has finished. Of calls that nobody needs there must not be many before.
    pub(crate) fn can_price(&self, stage: Stage) -> bool {
        let Spent { tokens, money } = self.dearest[stage];
        !self.is_priced() || tokens > 0 || money > Money(0)
    }

    /// True if work that may be wasted leaves enough for the work that will be needed: a target
    /// call for each of the `hops_left` hops still possible, and half of the tokens and the money.
    /// `open` are all calls under way.
    pub(crate) fn may_speculate(&self, hops_left: u32, open: Open) -> bool {
        let calls = self.calls[Stage::Target].started;
        let spares_calls = |most: u32| most.saturating_sub(calls) >= hops_left;
        let spares = |spent: Spent| {
            let tokens = self.budget.tokens;
            let money = self.budget.money;
            tokens.is_none_or(|most| spent.tokens < most / 2)
                && money.is_none_or(|most| spent.money.0 < most.0 / 2)
        };
        self.budget.target_calls.is_none_or(spares_calls)
            && (!self.is_priced() || spares(self.spent(open)))
    }

    /// Spent, lost, and set aside.
    fn spent(&self, open: Open) -> Spent {
        let mut sum = self.lost;
        for stage in Stage::ALL {
            let Cost { tokens, money, .. } = self.calls[stage].cost;
            let finished = Spent {
                tokens: tokens.total(),
                money,
            };
            sum.add(finished, 1);
            sum.add(self.dearest[stage], open.0[stage]);
        }
        sum
    }

    /// Tokens and money that aborted calls may have cost beyond what is known.
    pub(crate) fn lost(&self) -> (u64, Money) {
        (self.lost.tokens, self.lost.money)
    }

    /// What was started, and what of it was of no use. Calls that are still `in_line` for their first
    /// turn have not been started.
    pub(crate) fn usage(&self, in_line: Open) -> Box<Usage> {
        // Filled where it stays: it is large, and told at every commit.
        let mut usage = Box::<Usage>::default();
        usage.salvaged = self.salvaged;
        usage.drafted = self.drafted;
        usage.foreseen = self.foreseen;
        usage.hidden = self.hidden;
        for stage in Stage::ALL {
            let waiting = in_line.0[stage];
            let fees = self.prices.of(stage).call.0.saturating_mul(waiting.into());
            let calls = usage.of(stage);
            *calls = self.calls[stage];
            calls.started = calls.started.saturating_sub(waiting);
            calls.wasted = calls.wasted.saturating_sub(waiting);
            for cost in [&mut calls.cost, &mut calls.cost_wasted] {
                cost.money = cost.money.minus(Money(fees));
            }
        }
        usage
    }
}

impl Spent {
    fn add(&mut self, other: Self, times: u32) {
        let times = u64::from(times);
        self.tokens = self
            .tokens
            .saturating_add(other.tokens.saturating_mul(times));
        self.money = self.money.plus(Money(other.money.0.saturating_mul(times)));
    }
}

impl<T> Index<Stage> for PerStage<T> {
    type Output = T;

    fn index(&self, stage: Stage) -> &T {
        &self.0[stage as usize]
    }
}

impl<T> IndexMut<Stage> for PerStage<T> {
    fn index_mut(&mut self, stage: Stage) -> &mut T {
        &mut self.0[stage as usize]
    }
}

#[cfg(test)]
mod tests {
    use spechop_types::Activity;

    use super::*;

    fn open(stages: &[Stage]) -> Open {
        let mut open = Open::default();
        stages.iter().for_each(|stage| open.add(*stage));
        open
    }

    fn taken(tokens: Tokens) -> Taken {
        Taken {
            tokens,
            ..Taken::default()
        }
    }

    /// Of 100 tokens, one segment has taken 30.
    fn ledger() -> Ledger {
        let budget = Budget {
            tokens: Some(100),
            ..Budget::default()
        };
        let mut ledger = Ledger::new(budget, Prices::default());
        ledger.start(Stage::Segment);
        let tokens = Tokens {
            prompt: 20,
            completion: 10,
        };
        ledger.settle(Stage::Segment, taken(tokens));
        ledger
    }

    #[test]
    fn what_is_set_aside_for_speculation_does_not_starve_what_is_needed() {
        let ledger = ledger();
        let three = open(&[Stage::Segment; 3]);
        assert!(!ledger.may_speculate(1, three), "no room for a fourth");
        assert!(
            !ledger.is_spent(Open::default()),
            "none of the three is needed"
        );
        assert!(ledger.is_spent(three), "all of them are");
    }

    #[test]
    fn an_aborted_call_may_have_cost_what_was_set_aside_for_it() {
        let mut ledger = ledger();
        assert!(ledger.may_speculate(1, Open::default()));
        for _ in 0..3 {
            assert!(!ledger.is_spent(Open::default()));
            ledger.start(Stage::Segment);
            ledger.abort(Stage::Segment, Taken::default());
            assert!(!ledger.may_speculate(1, Open::default()));
        }
        assert!(ledger.is_spent(Open::default()));
        assert_eq!(
            ledger.usage(Open::default()).segments.cost.tokens.total(),
            30,
            "what is known"
        );
    }

    #[test]
    fn a_call_that_was_never_made_has_cost_what_its_warm_up_told() {
        let mut ledger = ledger();
        let before = ledger.usage(Open::default()).segments;
        for (prompt, completion) in [(0, 0), (7, 1)] {
            ledger.start(Stage::Segment);
            ledger.withdraw(Stage::Segment, Tokens { prompt, completion });
        }
        let segments = ledger.usage(Open::default()).segments;
        assert_eq!(segments.started, before.started);
        let tokens = |cost: Cost| cost.tokens.total();
        assert_eq!(tokens(segments.cost), tokens(before.cost) + 8);
        assert_eq!(tokens(segments.cost_wasted), tokens(before.cost_wasted) + 8);
    }

    /// A call that was taken up again: what its first turn took is paid, and is nobody's.
    #[test]
    fn what_lost_turns_took_is_wasted_and_says_nothing_of_the_next_call() {
        let mut ledger = ledger();
        let lost = Tokens {
            prompt: 20,
            completion: 4,
        };
        let paid = Paid(vec![(
            Stage::Segment,
            ledger.settle(
                Stage::Segment,
                Taken {
                    lost,
                    ..taken(Tokens {
                        prompt: 40,
                        completion: 14,
                    })
                },
            ),
        )]);
        let segments = |ledger: &Ledger| ledger.usage(Open::default()).segments;
        assert_eq!(segments(&ledger).cost.tokens.total(), 30 + 54);
        assert_eq!(ledger.dearest[Stage::Segment].tokens, 30);
        ledger.use_up(Stage::Segment, &paid);
        assert_eq!(segments(&ledger).cost_wasted.tokens.total(), 30 + 24);
    }

    #[test]
    fn what_an_aborted_call_has_told_is_wasted_and_not_set_aside_again() {
        let mut ledger = ledger();
        let spent = |prompt, completion| Tokens { prompt, completion };
        for (spent, counted, budgeted) in [
            // Of 30 set aside, 25 were told: the other 5 may have been taken.
            (spent(20, 5), 55, 60),
            // More than was set aside.
            (spent(20, 20), 95, 100),
        ] {
            ledger.start(Stage::Segment);
            let mut taken = taken(spent);
            taken.time = Duration::from_millis(5);
            taken.activities.add(Activity::Decode, taken.time);
            ledger.abort(Stage::Segment, taken);
            let segments = ledger.usage(Open::default()).segments;
            assert_eq!(segments.cost.tokens.total(), counted);
            assert_eq!(segments.cost_wasted, segments.cost);
            assert_eq!(ledger.spent(Open::default()).tokens, budgeted);
        }
    }
}
