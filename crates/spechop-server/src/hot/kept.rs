//! The file in which the counts survive a restart.
//!
//! It holds names of tenants and ids of passages: whoever may read it can tell what tenants have asked
//! about. Its owner alone may.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spechop_types::{Tenant, with_causes};

use super::traffic::Traffic;
use crate::state::{BYTES_MAX, ESCAPED, Persisted, Purpose, Useless, newest};

const PURPOSE: Purpose = Purpose {
    content: "what answers came from",
    key: "speculator.traffic_file",
    format: 1,
};
/// What an entry takes beside the id of its passage: names of fields, a number, a tenant.
const ENTRY_BYTES: usize = 160;

/// How many verified answers of a tenant came from a passage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Whose answers.
    pub tenant: Tenant,
    /// The id of the passage.
    pub passage: Arc<str>,
    /// How many; at least one.
    pub answers: u64,
}

/// Everything in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    format: u64,
    /// The least recently used first.
    counted: Vec<Counted>,
}

/// A file that holds no counts.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} cannot be used: {reason}; name the file of speculator.traffic_file, as a server of this \
     version has written it",
    path.display()
)]
pub struct NoTraffic {
    path: PathBuf,
    reason: String,
}

/// What a server has counted in the file of `speculator.traffic_file`. **Blocks.**
///
/// # Errors
///
/// If there is no such file, or if it is damaged or of another version.
pub fn read_traffic(path: &Path) -> Result<Vec<Counted>, NoTraffic> {
    let failed = |reason: String| NoTraffic {
        path: path.to_owned(),
        reason,
    };
    let read: Result<Option<Kept>, Useless> = PURPOSE.read(path);
    let kept = read.map_err(|useless| failed(with_causes(&useless)))?;
    let kept = kept.ok_or_else(|| failed("there is no such file".to_owned()))?;
    Ok(kept.counted)
}

impl Persisted for Traffic {
    const PURPOSE: Purpose = PURPOSE;

    type Kept = Kept;

    fn take_up(&self, kept: Kept, _: &Path) {
        let passages = kept.counted.len();
        for counted in kept.counted {
            self.resume(counted);
        }
        tracing::info!(passages, "resumed what answers came from");
    }

    fn revision(&self) -> u64 {
        self.changes()
    }

    /// The last used counts, as many as the file has room for.
    fn kept(&self) -> Kept {
        let mut room = BYTES_MAX;
        let size = |counted: &Counted| ESCAPED * counted.passage.len() + ENTRY_BYTES;
        Kept {
            format: PURPOSE.format,
            counted: newest(self.entries().into_iter().rev(), &mut room, size),
        }
    }
}
