//! What becomes of calls, counted. A closed set: every call that arrived ended in one of these ways.

use spechop_types::{Refusal, Refusals};

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

impl Counts {
    /// By reason. `denied` calls never came to the lanes, since the policy forbids it.
    pub(crate) fn refused(&self, denied: u64) -> Refusals {
        let mut refused = Refusals::default();
        refused[Refusal::Denied] = denied;
        refused[Refusal::NoPlace] = self.unserved - self.coreless;
        refused[Refusal::NoCore] = self.coreless;
        refused[Refusal::Preempted] = self.preempted - self.shut_out;
        refused[Refusal::PushedBack] = self.shut_out;
        refused
    }
}

/// What a backend is doing, and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Authoritative calls that have their turn.
    pub running_authoritative: usize,
    /// Speculative calls that have their turn, those that are being dropped among them.
    pub running_speculative: usize,
    /// Authoritative calls that wait.
    pub waiting_authoritative: usize,
    /// Speculative calls that wait.
    pub waiting_speculative: usize,
    /// Calls that got their turn.
    pub started: u64,
    /// Those of them that were speculative when they got it.
    pub started_speculative: u64,
    /// Calls that had their turn and were dropped, to make room or because the lane closed.
    pub preempted: u64,
    /// Calls that became authoritative while they waited or ran.
    pub promoted: u64,
    /// Calls that shared the run of an identical one.
    pub joined: u64,
    /// How often the backend asked for less, or slowed down.
    pub pushed_back: u64,
    /// Places that are open to speculation.
    pub speculative_places: usize,
    /// Speculative calls that did not run, or not to their end, by reason. On shared cores a call that loses a
    /// turn may go back into line, and counts for each.
    pub refused: Refusals,
}
