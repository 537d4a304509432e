//! Entries of a memory of verified look-ups, where several servers share them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use spechop_types::{Owned, Tenant};

use crate::{Call, PortError};

/// How often an entry of a memory was right and wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Right.
    pub right: u32,
    /// Wrong.
    pub wrong: u32,
}

/// An entry of a memory of verified look-ups, as it is kept outside of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// Whose it is.
    pub tenant: Tenant,
    /// The sub-question, as it was last asked.
    pub asked: Arc<str>,
    /// What was last observed.
    pub answer: Arc<str>,
    /// For its own words.
    pub own: Record,
    /// As a neighbour of other sub-questions.
    pub neighbour: Record,
    /// The vector in whole numbers, if there is one: of the encoder that made it, and of no other.
    pub vector: Option<Vec<i8>>,
}

/// Which state of an entry was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// How often it had been written; from 1.
    pub number: u64,
    /// By whom lately: words of the one that keeps the entries, and of no meaning to others.
    pub writers: Arc<str>,
}

/// Entries that several servers share, each under a key that holds its tenant.
///
/// Nothing of one tenant is ever found for another. Writes are safe if several servers make them at the
/// same time: each says which state of the entry it is based upon, and only one of them is taken.
#[async_trait]
pub trait SharedEntries: Send + Sync {
    /// The entry under this key and its version; `None` if there is none.
    async fn find(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
    ) -> Result<Option<(Remembered, Version)>, PortError>;

    /// The tenant's entries whose vectors are nearest to this one, the nearest first, with their cosines:
    /// at most `most`, and of at least the cosine `least`.
    async fn near(
        &self,
        call: &Call,
        tenant: &Tenant,
        vector: &[i8],
        least: f32,
        most: NonZeroUsize,
    ) -> Result<Vec<(f32, Remembered)>, PortError>;

    /// Puts an entry in the place of the state `before`, or where there is none if that is
    /// `None`. False if the entry has changed since, or has come to be; then nothing was written. It is
    /// the last one used then.
    async fn replace(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
        entry: &Remembered,
        before: Option<&Version>,
    ) -> Result<bool, PortError>;

    /// Removes the entries that were written least recently, whosever they are, until there are `most`
    /// at most. Returns how many had to leave.
    async fn trim(&self, call: &Call, most: NonZeroUsize) -> Result<u64, PortError>;
}
