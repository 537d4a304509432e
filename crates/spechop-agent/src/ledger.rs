//! What a question has cost, and what it may still cost.

use std::ops::{Index, IndexMut};

use spechop_types::{Budget, CommitKind, Stage, Tokens};

use crate::report::{Calls, Usage};

/// Counts every call when it starts and its tokens when it ends.
pub(crate) struct Ledger {
    budget: Budget,
    calls: PerStage<Calls>,
    used: PerStage<u32>,
    used_tokens: PerStage<Tokens>,
    salvaged: u32,
}

/// Tokens that one branch or look-up has paid, by stage. `None` where the stage has brought nothing.
#[derive(Default)]
pub(crate) struct Paid(PerStage<Option<Tokens>>);

#[derive(Clone, Copy, Debug, Default)]
struct PerStage<T>([T; 3]);

impl Paid {
    pub(crate) fn add(&mut self, stage: Stage, tokens: Tokens) {
        // The last result is the one that counts; what was spent before it was wasted.
        self.0[stage] = Some(tokens);
    }
}

impl Ledger {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            calls: PerStage::default(),
            used: PerStage::default(),
            used_tokens: PerStage::default(),
            salvaged: 0,
        }
    }

    pub(crate) fn start(&mut self, stage: Stage) {
        self.calls[stage].started += 1;
    }

    pub(crate) fn settle(&mut self, stage: Stage, tokens: Tokens) {
        self.calls[stage].tokens += tokens;
    }

    /// The answer's trajectory holds what a branch got from this stage.
    pub(crate) fn use_up(&mut self, stage: Stage, paid: &Paid) {
        if let Some(tokens) = paid.0[stage] {
            self.used[stage] += 1;
            self.used_tokens[stage] += tokens;
        }
    }

    /// A look-up of an aborted branch is of use after all.
    pub(crate) fn salvage(&mut self) {
        self.salvaged += 1;
    }

    /// A hop is final: its segment and its target call were of use, and a guess if it was right.
    pub(crate) fn commit(&mut self, kind: CommitKind, segment: &Paid, lookup: &Paid) {
        self.use_up(Stage::Segment, segment);
        self.use_up(Stage::Target, lookup);
        if kind == CommitKind::Accepted {
            self.use_up(Stage::Speculation, lookup);
        }
    }

    /// True where not even needed work may be launched any more.
    pub(crate) fn is_spent(&self) -> bool {
        let calls = self.calls[Stage::Target].started;
        self.budget.target_calls.is_some_and(|most| calls >= most)
            || self
                .budget
                .tokens
                .is_some_and(|most| self.usage().tokens() >= most)
    }

    /// True where work that may be wasted leaves enough for the work that will be needed: a target
    /// call for each of the `hops_left` hops still possible, and half of the tokens.
    pub(crate) fn may_speculate(&self, hops_left: u32) -> bool {
        let calls = self.calls[Stage::Target].started;
        let spares_calls = |most: u32| most.saturating_sub(calls) >= hops_left;
        let spares_tokens = |most: u64| self.usage().tokens() < most / 2;
        self.budget.target_calls.is_none_or(spares_calls)
            && self.budget.tokens.is_none_or(spares_tokens)
    }

    /// What was started, and what of it was of no use.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage {
            salvaged: self.salvaged,
            ..Usage::default()
        };
        for stage in Stage::ALL {
            let calls = self.calls[stage];
            let (all, used) = (calls.tokens, self.used_tokens[stage]);
            *usage.of(stage) = Calls {
                wasted: calls.started.saturating_sub(self.used[stage]),
                tokens_wasted: Tokens {
                    prompt: all.prompt.saturating_sub(used.prompt),
                    completion: all.completion.saturating_sub(used.completion),
                },
                ..calls
            };
        }
        usage
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
