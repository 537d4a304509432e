//! What is known of a branch or a look-up beside the window's own state.

use std::sync::Arc;
use std::time::Duration;

use spechop_ports::Guess;
use spechop_types::{BranchId, Observation};
use spechop_verifier::Verdict;
use tokio::time::Instant;

use crate::ledger::Paid;

/// What a branch has taken so far.
#[derive(Default)]
pub(crate) struct BranchNotes {
    /// Its hop, counted from 1.
    pub(crate) hop: u32,
    pub(crate) segment: Duration,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) paid: Paid,
}

/// What a look-up has taken so far.
pub(crate) struct LookupNotes {
    /// The branch that first asked it, and its hop.
    pub(crate) asker: (BranchId, u32),
    pub(crate) launched: Instant,
    pub(crate) target: Duration,
    pub(crate) read: Duration,
    pub(crate) speculation: Option<Duration>,
    pub(crate) salvaged: bool,
    /// The best guess, where there was one.
    pub(crate) best: Option<Guess>,
    /// What it found while nobody needed it.
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
            best: None,
            unseen: None,
            paid: Paid::default(),
        }
    }
}
