//! The kinds of work that is done for a branch.

use std::fmt;

/// A kind of work that is done for a branch. The paper's latency quantities are named after the first
/// three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The planner writes a sub-question or the final answer.
    Segment,
    /// The target tool looks up, and the reader reads.
    Target,
    /// The speculator guesses.
    Speculation,
    /// A language model guesses what the planner is about to ask. No branch waits for it.
    Draft,
}

impl Stage {
    /// Every stage, for tables.
    pub const ALL: [Self; 4] = [Self::Segment, Self::Target, Self::Speculation, Self::Draft];

    /// The stage's name on the wire, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Target => "target",
            Self::Speculation => "speculation",
            Self::Draft => "draft",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
