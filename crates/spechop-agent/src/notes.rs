//! Notes about branches and look-ups that the window does not need: times, cost, verdicts.

use std::sync::Arc;
use std::time::Duration;

use spechop_ports::{BranchFate, Guess};
use spechop_types::{BranchId, Chance, Draft, Observation, SubQuestion};
use spechop_verifier::Verdict;
use tokio::time::Instant;

use crate::Cost;
use crate::ledger::Paid;

/// Times, verdict and cost of a branch so far.
#[derive(Default)]
pub(crate) struct BranchNotes {
    /// Its hop, counted from 1.
    pub(crate) hop: u32,
    /// Whether its whole prefix is committed.
    pub(crate) is_head: bool,
    pub(crate) segment: Duration,
    /// When its segment ended.
    pub(crate) written_at: Option<Instant>,
    /// How sure the planner was of the step, if it could tell.
    pub(crate) certainty: Option<Chance>,
    /// What it may be about to write.
    pub(crate) drafts: Vec<Draft>,
    /// How many look-ups were begun of what it may be about to write.
    pub(crate) drafted: usize,
    /// The drafts that a language model has written for it, and what each has cost.
    pub(crate) model_drafts: Vec<(SubQuestion, Cost)>,
    /// The likeliest of the drafts, for good.
    pub(crate) likeliest: Option<SubQuestion>,
    pub(crate) verdict: Option<Verdict>,
    /// When it wrote a final answer, and how likely that was to be the question's.
    pub(crate) answered: Option<(Instant, Chance)>,
    /// Known to whoever writes for it.
    pub(crate) fate: BranchFate,
    pub(crate) paid: Paid,
}

/// Times, best guess and cost of a look-up so far.
pub(crate) struct LookupNotes {
    /// The branch that asked it last, as far as that was noted, and its hop. The window may have forgotten the
    /// look-up.
    pub(crate) asker: (BranchId, u32),
    pub(crate) launched: Instant,
    pub(crate) target: Duration,
    pub(crate) read: Duration,
    pub(crate) speculation: Option<Duration>,
    pub(crate) salvaged: bool,
    /// Its call was launched because it was drafted, and was not taken back since.
    pub(crate) drafted: bool,
    /// It was drafted: how long it had run when it was asked for. Zero if that was in vain.
    pub(crate) foreseen: Option<Duration>,
    /// It was begun because somebody had written that draft, at this cost.
    pub(crate) draft_cost: Option<Box<Cost>>,
    /// The guess had no turn, or lost it, or was not asked for because of the budget.
    pub(crate) guess_refused: bool,
    /// The guesses so far, in the order of their coming: the first is the one that counts.
    pub(crate) guesses: Vec<Guess>,
    /// The speculator answered while nobody needed the look-up.
    pub(crate) is_unheard: bool,
    /// The observation, if it arrived while nobody needed the look-up.
    pub(crate) unseen: Option<Arc<Observation>>,
    pub(crate) paid: Paid,
}

impl LookupNotes {
    pub(crate) fn new(launched: Instant, asker: (BranchId, u32)) -> Self {
        Self {
            asker,
            launched,
            target: Duration::ZERO,
            read: Duration::ZERO,
            speculation: None,
            salvaged: false,
            drafted: false,
            foreseen: None,
            draft_cost: None,
            guess_refused: false,
            guesses: Vec::new(),
            is_unheard: false,
            unseen: None,
            paid: Paid::default(),
        }
    }
}
