//! Entries of a memory that servers of a test share, and that can be out of reach.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_ports::{Call, PortError, Remembered, SharedEntries, Version};
use spechop_types::{Owned, Tenant};

/// What shared entries owe their callers, in this process. Clones share everything.
#[derive(Clone, Default)]
pub struct SharedMap(Arc<Inner>);

/// An entry under its key, and how often it was written.
type Kept = (Owned<Arc<str>>, Remembered, u64);

#[derive(Default)]
struct Inner {
    /// The last one written is the last one.
    entries: Mutex<Vec<Kept>>,
    is_down: AtomicBool,
    asked: AtomicU64,
}

impl SharedMap {
    /// From now on it answers, or does not.
    pub fn set_down(&self, is_down: bool) {
        self.0.is_down.store(is_down, SeqCst);
    }

    /// How often anything was asked of it.
    pub fn asked(&self) -> u64 {
        self.0.asked.load(SeqCst)
    }

    /// Everything that is in it.
    pub fn all(&self) -> Vec<Remembered> {
        let entries = self.0.entries.lock();
        entries.iter().map(|(_, entry, _)| entry.clone()).collect()
    }

    fn answers(&self) -> Result<(), PortError> {
        self.0.asked.fetch_add(1, SeqCst);
        match self.0.is_down.load(SeqCst) {
            true => Err(PortError::unavailable("the shared memory", "it is down")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl SharedEntries for SharedMap {
    async fn find(
        &self,
        _: &Call,
        key: &Owned<Arc<str>>,
    ) -> Result<Option<(Remembered, Version)>, PortError> {
        self.answers()?;
        let entries = self.0.entries.lock();
        let found = entries.iter().find(|(known, ..)| known == key);
        Ok(found.map(|(_, entry, version)| (entry.clone(), version_of(*version))))
    }

    async fn near(
        &self,
        _: &Call,
        tenant: &Tenant,
        vector: &[i8],
        least: f32,
        most: NonZeroUsize,
    ) -> Result<Vec<(f32, Remembered)>, PortError> {
        self.answers()?;
        let entries = self.0.entries.lock();
        let own = entries.iter().filter(|(key, ..)| key.tenant == *tenant);
        let mut near: Vec<_> = own
            .filter_map(|(_, entry, _)| {
                let cosine = cosine(vector, entry.vector.as_deref()?);
                (cosine >= least).then(|| (cosine, entry.clone()))
            })
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.truncate(most.get());
        Ok(near)
    }

    async fn replace(
        &self,
        _: &Call,
        key: &Owned<Arc<str>>,
        entry: &Remembered,
        before: Option<&Version>,
    ) -> Result<bool, PortError> {
        self.answers()?;
        let mut entries = self.0.entries.lock();
        let at = entries.iter().position(|(known, ..)| known == key);
        let number = before.map(|before| before.number);
        if at.map(|at| entries[at].2) != number {
            return Ok(false);
        }
        if let Some(at) = at {
            entries.remove(at);
        }
        let version = number.unwrap_or(0) + 1;
        entries.push((key.clone(), entry.clone(), version));
        Ok(true)
    }

    async fn trim(&self, _: &Call, most: NonZeroUsize) -> Result<u64, PortError> {
        self.answers()?;
        let mut entries = self.0.entries.lock();
        let left = entries.len().saturating_sub(most.get());
        entries.drain(..left);
        Ok(left as u64)
    }
}

fn version_of(number: u64) -> Version {
    Version {
        number,
        ..Version::default()
    }
}

fn cosine(a: &[i8], b: &[i8]) -> f32 {
    let dot = |a: &[i8], b: &[i8]| -> f32 {
        let products = a.iter().zip(b).map(|(a, b)| f32::from(*a) * f32::from(*b));
        products.sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keeps_the_contract() {
        spechop_ports::contract::shared_entries(&SharedMap::default()).await;
    }
}
