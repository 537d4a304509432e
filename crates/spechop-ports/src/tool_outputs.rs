//! Outputs of tools that are at hand before anybody calls the tool.

use std::fmt;

use crate::Call;

/// Says whether the output of a look-up is at hand.
///
/// It is asked by threads that compute for others, too: it answers at once, waits for nobody, and does not
/// panic.
pub trait ToolOutputs: fmt::Debug + Send + Sync {
    /// Whether this look-up needs no tool if this call makes it now. What another tenant has left is not at
    /// hand, and nothing is for a call that [wants fresh results](Call::is_fresh). To ask is not to take: nothing
    /// is changed by it.
    fn has(&self, call: &Call, query: &str) -> bool;
}
