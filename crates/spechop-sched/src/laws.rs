//! The laws of the lanes and of their groups, each one named function: asserted after every step in debug builds, and
//! property-tested.

use crate::group::{Group, Millicores};
use crate::lanes::Lanes;

/// SCHED-1: never more calls at once than the backend takes, those that are ending among them.
pub(crate) fn fits_capacity(lanes: &Lanes) -> bool {
    let (needed, guessed) = lanes.running();
    needed + guessed <= lanes.limits.capacity.get()
}

/// SCHED-2: speculation keeps to the places that are open to it. What is over them is told to end
/// in the same step.
pub(crate) fn speculation_keeps_to_its_places(lanes: &Lanes) -> bool {
    lanes.speculating.len() <= lanes.speculative_places()
        && lanes.running().1 <= lanes.limits.speculative_max
}

/// SCHED-3: an authoritative call waits only for what no speculative call can give: it has a free
/// place at once, or someone is ending for it.
pub(crate) fn authoritative_never_waits_behind_speculative(lanes: &Lanes) -> bool {
    let waits_in_vain = !lanes.needed.is_empty() && lanes.is_free() && lanes.has_token();
    !waits_in_vain && lanes.victims_wanted() == 0
}

/// SCHED-4: no guess waits where there is slack. In a group a place alone is none:
/// [`idle_cores_are_used`] says it there.
pub(crate) fn slack_is_used(lanes: &Lanes) -> bool {
    lanes.guessed.is_empty() || !lanes.gives_slack()
}

/// SCHED-5: every call that arrived waits, runs or has ended, and ended once; what was refused is
/// among the ended.
pub(crate) fn sums_equal_calls(lanes: &Lanes) -> bool {
    let (counts, waiting, running) = (lanes.counts(), lanes.waiting(), lanes.running());
    let here = (waiting.0 + waiting.1 + running.0 + running.1) as u64;
    let ended = counts.finished + counts.preempted + counts.left;
    counts.arrived == here + ended
        && counts.started + counts.unserved <= counts.arrived
        && counts.started_speculative <= counts.started
        && counts.shut_out <= counts.preempted
        && counts.unserved <= counts.left
        && counts.coreless <= counts.unserved
}

/// SCHED-6: speculation of a group computes on cores that what is needed leaves idle. What is over
/// them and can give them back is told to end in the same step, whether calls came or cores went.
pub(crate) fn speculation_keeps_to_idle_cores(group: &Group) -> bool {
    let Some(cores) = group.cores() else {
        return true;
    };
    group.yielding() == Millicores(0) || group.core_use().staying() <= cores.0
}

/// SCHED-7: no guess of a group waits where its backend has a place and the cores that it takes are
/// idle, unless needed calls wanted more than all cores for most of the last second. That a needed call does
/// not wait for a core is SCHED-3 of its own lanes.
pub(crate) fn idle_cores_are_used(group: &Group) -> bool {
    group.best_to_start().is_none()
}

/// A law: its name, and whether it holds.
pub type Law = (&'static str, fn(&Lanes) -> bool);

/// Every law that can be seen in a state. That no call runs twice, and that the order is the slow
/// reference's, speaks of whole runs: see `tests/model/main.rs`.
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

/// A law of a group.
pub type GroupLaw = (&'static str, fn(&Group) -> bool);

/// What holds in a group, beside [`LAWS`] in each of its lanes.
pub const GROUP_LAWS: [GroupLaw; 2] = [
    (
        "SCHED-6: speculation keeps to idle cores",
        speculation_keeps_to_idle_cores,
    ),
    ("SCHED-7: idle cores are used", idle_cores_are_used),
];

/// The first law that does not hold in a group, or in one of its lanes.
pub fn broken_in_group(group: &Group) -> Option<&'static str> {
    let of_lanes = group.lanes().find_map(broken);
    let of_group = || GROUP_LAWS.iter().find(|(_, holds)| !holds(group));
    of_lanes.or_else(|| of_group().map(|(name, _)| *name))
}

/// The first law that does not hold.
pub fn broken(lanes: &Lanes) -> Option<&'static str> {
    LAWS.iter()
        .find(|(_, holds)| !holds(lanes))
        .map(|(name, _)| *name)
}

#[cfg(test)]
mod tests;
