//! How long a question is worked for, and what becomes of its branches.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Something that is there for as long as anybody works for a question. Each of its calls holds it, and so
/// does whoever has been handed the call; what it does when it is dropped is its own business.
#[derive(Clone)]
pub struct Life(Arc<Held>);

/// One pointer to it is as short as any, and every call carries one.
struct Held {
    _thing: Arc<dyn Any + Send + Sync>,
}

impl Life {
    /// That of this thing.
    pub fn of(held: Arc<dyn Any + Send + Sync>) -> Self {
        Self(Arc::new(Held { _thing: held }))
    }

    /// Tells whether it is over, and makes it no longer.
    pub fn downgrade(&self) -> WeakLife {
        WeakLife(Arc::downgrade(&self.0))
    }
}

/// The same thing, not one that is like it.
impl PartialEq for Life {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Life {}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Arc::strong_count(&self.0);
        f.debug_struct("Life").field("held", &held).finish()
    }
}

/// Tells whether a [`Life`] is over, for whoever keeps something that is of use to its question alone. It
/// holds nothing.
#[derive(Clone)]
pub struct WeakLife(Weak<Held>);

impl WeakLife {
    /// Whether nobody works for the question any more.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// That of the same thing. While one of them is there, no other life can be taken for it.
impl PartialEq for WeakLife {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for WeakLife {}

impl Hash for WeakLife {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ptr::hash(self.0.as_ptr(), state);
    }
}

impl fmt::Debug for WeakLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = self.is_over();
        f.debug_struct("WeakLife")
            .field("is_over", &is_over)
            .finish()
    }
}

/// What becomes of a branch of the window. Each of its calls knows it, so whoever keeps something that is of
/// use to the branch alone can drop it when the branch is rolled back. Clones are of the same branch.
#[derive(Clone, Debug, Default)]
pub struct BranchFate(Arc<AtomicBool>);

impl BranchFate {
    /// The branch is rolled back, for good.
    pub fn roll_back(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether it has been.
    pub fn is_rolled_back(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Of the same branch, not of one that is like it.
impl PartialEq for BranchFate {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for BranchFate {}
