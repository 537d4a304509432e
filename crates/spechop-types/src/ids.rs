//! Identities.

use std::fmt;

/// One speculative branch of one question. Never used twice within a question, so news about a
/// dead branch cannot be taken for news about a living one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchId(pub u32);

impl fmt::Display for BranchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}
