//! How many branches may be alive at once.

use std::fmt;
use std::num::NonZeroUsize;

use spechop_types::K;

/// The paper's k: the most branches alive at once, or no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Width(Option<NonZeroUsize>);

impl Width {
    /// k = 1: the standard agent, which never speculates.
    pub const STANDARD: Self = Self(Some(NonZeroUsize::MIN));
    /// k = ∞.
    pub const UNBOUNDED: Self = Self(None);

    /// k branches.
    pub fn bounded(k: NonZeroUsize) -> Self {
        Self(Some(k))
    }

    /// What is asked for. `None`: it is left to the server.
    pub fn asked(k: K) -> Option<Self> {
        match k {
            K::Bounded(k) => Some(Self::bounded(k)),
            K::Unbounded => Some(Self::UNBOUNDED),
            K::Auto => None,
        }
    }

    /// k, or `None` for no bound.
    pub fn get(self) -> Option<NonZeroUsize> {
        self.0
    }

    /// True if one more branch may join `alive` others.
    pub fn has_room(self, alive: usize) -> bool {
        self.0.is_none_or(|k| alive < k.get())
    }
}

impl From<Width> for K {
    fn from(width: Width) -> Self {
        width.0.map_or(Self::Unbounded, Self::Bounded)
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(k) => write!(f, "{k}"),
            None => f.write_str("inf"),
        }
    }
}
