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

/// One look-up of one question: a sub-question's target call and its guess. It may outlive the
/// branch that asked for it. Never used twice within a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookupId(pub u32);

impl fmt::Display for LookupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "l{}", self.0)
    }
}
