//! How full the window of a question was.

use std::collections::BTreeMap;
use std::time::Duration;

use spechop_agent::{TraceEvent, TraceKind};
use spechop_types::{BranchId, Stage};

/// Counts the living branches of a question, by its events.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    /// Since when each is alive.
    alive: BTreeMap<BranchId, Duration>,
    /// The most that were alive at once.
    pub(crate) most: usize,
    /// Of all that are not alive any more: how long they were, one after the other.
    pub(crate) time: Duration,
}

impl Occupancy {
    /// Something happened.
    pub(crate) fn hear(&mut self, event: &TraceEvent) {
        match &event.kind {
            TraceKind::Launched {
                stage: Stage::Segment,
            } => {
                self.alive.entry(event.branch).or_insert(event.at);
                self.most = self.most.max(self.alive.len());
            }
            TraceKind::Committed { .. } | TraceKind::RolledBack => {
                if let Some(began) = self.alive.remove(&event.branch) {
                    self.time += event.at.saturating_sub(began);
                }
            }
            TraceKind::HandedOver { .. } => self.ended(event.at),
            TraceKind::Launched { .. }
            | TraceKind::Planned { .. }
            | TraceKind::Drafted { .. }
            | TraceKind::Guessed { .. }
            | TraceKind::Observed { .. }
            | TraceKind::Verified { .. }
            | TraceKind::ProviderChanged { .. }
            | TraceKind::AskedAhead { .. }
            | TraceKind::Foreseen { .. }
            | TraceKind::Salvaged { .. }
            | TraceKind::Promoted
            | TraceKind::NotSpeculated { .. }
            | TraceKind::Failed { .. } => {}
        }
    }

    /// An answer was there after so long: whoever is still alive has been until then.
    pub(crate) fn ended(&mut self, elapsed: Duration) {
        let alive = std::mem::take(&mut self.alive);
        let lives = alive.values().map(|began| elapsed.saturating_sub(*began));
        self.time += lives.sum::<Duration>();
    }
}
