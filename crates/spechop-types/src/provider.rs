//! Providers of the target tool: who answers a search, and when that changes.

use std::sync::Arc;

/// A search went to another provider than the one that comes first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProviderChange {
    /// The provider that could not answer.
    pub from: Arc<str>,
    /// The provider that was asked instead.
    pub to: Arc<str>,
    /// Why, in a few words. No secrets.
    pub why: Arc<str>,
}
