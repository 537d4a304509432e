//! What is remembered of verified look-ups survives a restart in a small file.
//!
//! It holds words of sub-questions and of their answers, unlike the tuner's: whoever may read it reads what
//! tenants have asked. Its owner alone may.

use std::convert::Infallible;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use spechop_ports::{Record, Remembered};
use spechop_speculate::{Memory, SharedMemory};
use spechop_types::Tenant;

use crate::state::{BYTES_MAX, ESCAPED, Keeper, Persisted, Purpose, Writing, newest};
use crate::toolbox::Verified;

mod reachable;

pub(crate) use reachable::Reachable;

const PURPOSE: Purpose = Purpose {
    content: "what was remembered",
    key: "speculator.memory_file",
    format: 1,
};
/// What an entry takes beside its texts and its vector: names of fields, numbers, a tenant.
const ENTRY_BYTES: usize = 512;

/// Everything in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    format: u64,
    /// The encoder that made the vectors.
    encoder: String,
    /// The least recently used first.
    entries: Vec<KeptEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptEntry {
    tenant: Tenant,
    asked: Arc<str>,
    answer: Arc<str>,
    /// Right, and wrong.
    own: (u32, u32),
    neighbour: (u32, u32),
    /// A byte for each component, in base64.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    vector: Option<String>,
}

/// Keeps a memory at work and in a file. Without a memory it does nothing.
///
/// A shared memory needs no file: it is kept up with what is committed.
pub(crate) enum MemoryKeeper {
    Own(Arc<Memory>, Keeper<Memory>),
    Shared(Arc<SharedMemory>),
    None,
}

impl MemoryKeeper {
    pub(crate) async fn open(
        memory: Option<&Verified>,
        file: Option<&Path>,
        writing: &Writing,
    ) -> Self {
        match memory.cloned() {
            Some(Verified::Own(memory)) => {
                let kept = Arc::clone(&memory);
                Self::Own(memory, Keeper::at(file, writing, move || Some(kept)).await)
            }
            Some(Verified::Shared(memory)) => Self::Shared(memory),
            None => Self::None,
        }
    }

    /// Gives vectors to new entries, and writes whenever it is time, for as long as it is polled.
    pub(crate) async fn keep(&self) -> Infallible {
        match self {
            Self::Own(memory, keeper) => tokio::select! {
                never = memory.keep_up() => never,
                never = keeper.keep() => never,
            },
            Self::Shared(memory) => memory.keep_up().await,
            Self::None => pending().await,
        }
    }

    /// Writes to its file what is new since the last time, if anything is.
    pub(crate) async fn save(&self) {
        if let Self::Own(_, keeper) = self {
            keeper.save().await;
        }
    }

    /// Has other servers know what was verified here, for as long as that takes.
    pub(crate) async fn share(&self) {
        let Self::Shared(memory) = self else { return };
        // Whoever wraps its entries says why.
        if memory.write().await.is_err() {
            let waiting = memory.waiting();
            tracing::warn!(waiting, "what was verified could not all be shared");
        }
    }
}

impl Persisted for Memory {
    const PURPOSE: Purpose = PURPOSE;

    type Kept = Kept;

    fn take_up(&self, kept: Kept, _: &Path) {
        let entries = kept.entries.len();
        let is_same_encoder = kept.encoder == self.encoder();
        for entry in kept.entries {
            let vector = entry.vector.filter(|_| is_same_encoder);
            let vector = vector.and_then(|text| BASE64.decode(text).ok());
            self.resume(Remembered {
                tenant: entry.tenant,
                asked: entry.asked,
                answer: entry.answer,
                own: record(entry.own),
                neighbour: record(entry.neighbour),
                vector: vector.map(|bytes| bytes.into_iter().map(u8::cast_signed).collect()),
            });
        }
        tracing::info!(entries, is_same_encoder, "resumed what was remembered");
    }

    fn revision(&self) -> u64 {
        self.changes()
    }

    /// The last used entries, as many as the file has room for.
    fn kept(&self) -> Kept {
        let mut room = BYTES_MAX;
        let size = |entry: &Remembered| {
            let texts = ESCAPED * (entry.asked.len() + entry.answer.len());
            let vector = entry.vector.as_ref().map_or(0, |vector| 2 * vector.len());
            texts + vector + ENTRY_BYTES
        };
        let entries = newest(self.entries().into_iter().rev(), &mut room, size);
        let entry = |entry: Remembered| KeptEntry {
            tenant: entry.tenant,
            asked: entry.asked,
            answer: entry.answer,
            own: (entry.own.right, entry.own.wrong),
            neighbour: (entry.neighbour.right, entry.neighbour.wrong),
            vector: entry.vector.map(|vector| {
                let bytes: Vec<u8> = vector.into_iter().map(i8::cast_unsigned).collect();
                BASE64.encode(bytes)
            }),
        };
        Kept {
            format: PURPOSE.format,
            encoder: self.encoder().to_owned(),
            entries: entries.into_iter().map(entry).collect(),
        }
    }
}

fn record((right, wrong): (u32, u32)) -> Record {
    Record { right, wrong }
}

#[cfg(test)]
mod tests;
