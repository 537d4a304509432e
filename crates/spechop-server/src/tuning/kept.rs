//! The file in which what was learnt survives a restart.
//!
//! It holds the names of tenants,
//! and of each its times, hit rates and which hops depend on which: no word of any question or answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spechop_sim::{History, Past};
use spechop_theory::{CallRate, Learnt};
use spechop_types::Tenant;

use super::Members;
use super::identity::Identity;
use crate::state::{Purpose, newest};

/// Changes whenever an older program would misread a new file, or the other way round.
/// 2: what was learnt is each tenant's own.
const FORMAT: u64 = 2;
/// Most hops of all questions that are kept; a hop is up to 450 bytes. Of each earlier hop that a hop
/// depends on there is a number, which counts as much.
pub(super) const HOPS_KEPT: usize = 60_000;

/// The file of `tuning.state`.
pub(super) const PURPOSE: Purpose = Purpose {
    content: "what was learnt",
    key: "tuning.state",
    format: FORMAT,
};

/// Everything in the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    format: u64,
    /// What the estimates of each speculator are about, by its name.
    pub(super) identities: BTreeMap<String, Identity>,
    /// The least recently used first.
    pub(super) tunings: Vec<KeptSpeculator>,
}

/// What was learnt of one speculator for one tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptSpeculator {
    /// Whose questions it was learnt from.
    pub(super) tenant: Tenant,
    /// The speculator's name.
    pub(super) speculator: String,
    /// Hops that were learnt from.
    pub(super) hops: u64,
    /// Of the questions that left k to the server.
    #[serde(default)]
    pub(super) calls: CallRate,
    pub(super) learnt: Learnt,
    /// Those whom it asks, if it asks several: names that the configuration knows.
    #[serde(default, skip_serializing_if = "Members::is_empty")]
    pub(super) members: Members,
    /// The last questions, oldest first.
    pub(super) questions: Vec<Past>,
}

impl Kept {
    /// To be written.
    pub(super) fn new(
        identities: BTreeMap<String, Identity>,
        tunings: Vec<KeptSpeculator>,
    ) -> Self {
        Self {
            format: FORMAT,
            identities,
            tunings,
        }
    }
}

/// The last of these questions, as far as there is room for their hops.
pub(super) fn last_questions(history: &History, room: &mut usize) -> Vec<Past> {
    let size = |past: &&Past| {
        let numbers = |of: &std::sync::Arc<[u32]>| of.len();
        let hops = past.hops.iter();
        let hops = hops.map(|hop| 1 + hop.depends_on.as_ref().map_or(0, numbers));
        hops.sum::<usize>().max(1)
    };
    let last = newest(history.questions().rev(), room, size);
    last.into_iter().cloned().collect()
}
