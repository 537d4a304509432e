//! How long a question is worked for.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::{Arc, Weak};

/// Something that is there for as long as anybody works for a question. Each of its calls holds it, and so
/// does whoever has been handed the call; what it does when it is dropped is its own business.
#[derive(Clone)]
pub struct Life(Arc<dyn Any + Send + Sync>);

impl Life {
    /// That of this thing.
    pub fn of(held: Arc<dyn Any + Send + Sync>) -> Self {
        Self(held)
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

impl Hash for Life {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ptr::hash(Arc::as_ptr(&self.0).cast::<()>(), state);
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Arc::strong_count(&self.0);
        f.debug_struct("Life").field("held", &held).finish()
    }
}

/// Tells whether a [`Life`] is over, for whoever keeps something that is of use to its question alone. It
/// holds nothing.
#[derive(Clone)]
pub struct WeakLife(Weak<dyn Any + Send + Sync>);

impl WeakLife {
    /// Whether nobody works for the question any more.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
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
