//! The three kinds of work a branch waits for.

use std::fmt;

/// A kind of work that a branch waits for. The paper's latency quantities are named after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The planner writes a sub-question or the final answer.
    Segment,
    /// The target tool looks up, and the reader reads.
    Target,
    /// The speculator guesses.
    Speculation,
}

impl Stage {
    /// Every stage, for tables.
    pub const ALL: [Self; 3] = [Self::Segment, Self::Target, Self::Speculation];

    /// The stage's name on the wire, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Target => "target",
            Self::Speculation => "speculation",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
