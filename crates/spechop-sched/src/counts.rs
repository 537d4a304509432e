//! What becomes of calls, counted. A closed set: every call that arrived ended in one of these ways.

/// What has happened since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that arrived.
    pub arrived: u64,
    /// Calls that got their turn.
    pub started: u64,
    /// Those of them that were speculative when they got it.
    pub started_speculative: u64,
    /// Calls that ran to their end.
    pub finished: u64,
    /// Calls that were told to end, and did.
    pub preempted: u64,
    /// Those of them that were told so because the speculative lane closed, not to make room.
    pub shut_out: u64,
    /// Calls that went away on their own, waiting or running.
    pub left: u64,
    /// Those of them that were speculative and still waited for their turn.
    pub unserved: u64,
    /// Those of them that had a free place, and lacked an idle core.
    pub coreless: u64,
    /// Calls that became authoritative after they arrived.
    pub promoted: u64,
    /// How often the speculative lane was closed, or kept closed.
    pub pushed_back: u64,
}
