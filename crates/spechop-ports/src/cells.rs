//! Small texts that several servers share, each changed only by whoever knows what it was.

use std::time::Duration;

use async_trait::async_trait;

use crate::PortError;

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// It was made.
    Made,
    /// It was not, since something else is there: this. `None` is nothing.
    Other(Option<String>),
}

/// Texts under names: compare and swap, and nothing else.
///
/// Of several servers that change a text at the same time, one succeeds, and the others hear what is there
/// now. Whoever hears nothing does not know whether the change was made.
#[async_trait]
pub trait SharedCells: Send + Sync {
    /// What is there now; `None` is nothing.
    async fn read(&self, name: &str) -> Result<Option<String>, PortError>;

    /// Puts `new` in the place of `seen`, if that is still there. It stays for `keep`, and is gone then
    /// unless it has been changed meanwhile. `new` is not empty.
    async fn swap(
        &self,
        name: &str,
        seen: Option<&str>,
        new: &str,
        keep: Duration,
    ) -> Result<Swapped, PortError>;
}
