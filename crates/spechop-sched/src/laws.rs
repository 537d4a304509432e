//! The laws of the lanes, each one named function: asserted after every step in debug builds, and
//! property-tested.

use crate::lanes::Lanes;

/// SCHED-1: never more calls at once than the backend takes, those that are ending among them.
pub fn fits_capacity(lanes: &Lanes) -> bool {
    let (needed, guessed) = lanes.running();
    needed + guessed <= lanes.limits.capacity.get()
}

/// SCHED-2: speculation keeps to the places that are open to it. What is over them is told to end
/// in the same step.
pub fn speculation_keeps_to_its_places(lanes: &Lanes) -> bool {
    lanes.speculating.len() <= lanes.speculative_places()
        && lanes.running().1 <= lanes.limits.speculative_max
}

/// SCHED-3: an authoritative call waits only for what no speculative call can give: it has a free
/// place at once, or someone is ending for it.
pub fn authoritative_never_waits_behind_speculative(lanes: &Lanes) -> bool {
    let waits_in_vain = !lanes.needed.is_empty() && lanes.is_free() && lanes.has_token();
    !waits_in_vain && lanes.victims_wanted() == 0
}

/// SCHED-4: no guess waits where there is slack.
pub fn slack_is_used(lanes: &Lanes) -> bool {
    lanes.guessed.is_empty() || !lanes.has_slack()
}

/// SCHED-5: every call that arrived waits, runs or has ended, and ended once; what was refused is
/// among the ended.
pub fn sums_equal_calls(lanes: &Lanes) -> bool {
    let (counts, waiting, running) = (lanes.counts(), lanes.waiting(), lanes.running());
    let here = (waiting.0 + waiting.1 + running.0 + running.1) as u64;
    let ended = counts.finished + counts.preempted + counts.left;
    counts.arrived == here + ended
        && counts.started + counts.unserved <= counts.arrived
        && counts.shut_out <= counts.preempted
        && counts.unserved <= counts.left
}

/// A law: its name, and whether it holds.
pub type Law = (&'static str, fn(&Lanes) -> bool);

/// Every law that can be seen in a state. That no call runs twice, and that the order is the slow
/// reference's, speaks of whole runs: see `tests/model.rs`.
pub const LAWS: [Law; 5] = [
    ("SCHED-1: capacity is kept", fits_capacity),
    (
        "SCHED-2: speculation keeps to its places",
        speculation_keeps_to_its_places,
    ),
    (
        "SCHED-3: authoritative never waits behind speculative",
        authoritative_never_waits_behind_speculative,
    ),
    ("SCHED-4: slack is used", slack_is_used),
    ("SCHED-5: sums equal calls", sums_equal_calls),
];

/// The first law that does not hold.
pub fn broken(lanes: &Lanes) -> Option<&'static str> {
    LAWS.iter()
        .find(|(_, holds)| !holds(lanes))
        .map(|(name, _)| *name)
}
