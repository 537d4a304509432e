//! Each law sees the state that it forbids. Lanes never come into such a state by calls, so each row brings them
//! close to it and then breaks a field. A law that always held would pass everywhere else.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::{GROUP_LAWS, LAWS, broken, broken_in_group};
use crate::group::{Demand, Group, Millicores};
use crate::lanes::Lanes;
use crate::pressure::Pressure;
use crate::ticket::{Decisions, Limits, Rank};

const GUESS: Rank = Rank::Speculative { utility: 1.0 };

/// Of so many places, this many for guesses.
fn limits(capacity: usize, speculative_max: usize) -> Limits {
    Limits {
        capacity: NonZeroUsize::new(capacity).expect("a place"),
        rate: None,
        speculative_max,
    }
}

/// A way to break a law: the places, who comes, and the field.
type Row = (
    &'static str,
    (usize, usize),
    &'static [Rank],
    fn(&mut Lanes),
);

fn rows() -> Vec<Row> {
    const NEEDED: Rank = Rank::Authoritative;
    let mut rows: Vec<Row> = Vec::new();

    let law = "SCHED-1: capacity is kept";
    rows.push((law, (2, 1), &[], |lanes| lanes.needed_running = 3));
    rows.push((law, (2, 1), &[], |lanes| lanes.ending = 3));

    let law = "SCHED-2: speculation keeps to its places";
    // Fewer places are open than are taken.
    rows.push((law, (3, 1), &[GUESS], |lanes| {
        lanes.pressure = Pressure::new(0);
    }));
    // Those that are ending hold their places, too.
    rows.push((law, (3, 1), &[GUESS], |lanes| lanes.ending = 1));

    let law = "SCHED-3: authoritative never waits behind speculative";
    // A place is free, or a guess could make room.
    rows.push((law, (1, 1), &[NEEDED, NEEDED], |lanes| {
        lanes.needed_running = 0;
    }));
    rows.push((law, (1, 1), &[GUESS], |lanes| {
        lanes.needed.insert(0, 0);
    }));

    let law = "SCHED-4: slack is used";
    rows.push((law, (1, 1), &[GUESS, GUESS], |lanes| {
        lanes.speculating.clear();
    }));

    let law = "SCHED-5: sums equal calls";
    rows.push((law, (1, 1), &[NEEDED], |lanes| lanes.counts.arrived = 2));
    rows.push((law, (1, 1), &[NEEDED], |lanes| lanes.counts.finished = 1));
    rows.push((law, (1, 1), &[NEEDED], |lanes| lanes.counts.preempted = 1));
    rows.push((law, (1, 1), &[NEEDED], |lanes| lanes.counts.left = 1));
    rows.push((law, (1, 1), &[NEEDED], |lanes| lanes.counts.started = 2));
    rows.push((law, (1, 1), &[NEEDED], |lanes| {
        lanes.counts.started_speculative = 2;
    }));
    rows.push((law, (1, 1), &[NEEDED], |lanes| lanes.counts.shut_out = 1));
    rows.push((law, (1, 1), &[], |lanes| {
        // One that has come and was never served.
        (lanes.counts.arrived, lanes.counts.finished) = (1, 1);
        lanes.counts.unserved = 1;
    }));
    rows.push((law, (1, 1), &[], |lanes| lanes.counts.coreless = 1));
    rows
}

#[test]
fn every_law_of_lanes_sees_what_it_forbids() {
    let rows = rows();
    for (at, (name, (capacity, speculative_max), calls, breaks)) in rows.iter().enumerate() {
        let mut lanes = Lanes::new(limits(*capacity, *speculative_max));
        for rank in *calls {
            lanes.arrive(Duration::ZERO, *rank, &mut Decisions::new());
        }
        let law = LAWS.iter().find(|(law, _)| law == name);
        let (_, holds) = law.expect("a law of this name");
        assert!(holds(&lanes), "row {at} of {name}");
        assert_eq!(broken(&lanes), None, "row {at} of {name}");
        breaks(&mut lanes);
        assert!(!holds(&lanes), "row {at} of {name}");
        assert_eq!(broken(&lanes), Some(*name), "row {at} of {name}");
    }
    for (law, _) in LAWS {
        assert!(
            rows.iter().any(|(name, ..)| *name == law),
            "no row of {law}"
        );
    }
}

/// The last moment. A timer that is set for later than that panics.
const END: Duration = Duration::MAX;

/// A lane that shuts now opens before the end, and its next timer would be for later.
fn nearly_the_end() -> Duration {
    END - Duration::from_millis(1500)
}

/// Two members that share so many cores. The first one has a guess, and was asked for less. The second one has a
/// needed call, and a guess that runs if there is a core for it.
fn group(cores: usize) -> Group {
    let mut group = Group::new(Millicores::cores(cores));
    let demand = Demand {
        each: Millicores::ONE,
        alone: Millicores::ONE,
        guess: Millicores::ONE,
        at_once: 2,
        yields: true,
    };
    let (now, out) = (nearly_the_end(), &mut Decisions::new());
    let shut = group.join(limits(2, 1), demand);
    let open = group.join(limits(2, 1), demand);
    group.push_back(now, shut, out);
    group.arrive(now, shut, GUESS, out);
    group.arrive(now, open, Rank::Authoritative, out);
    group.arrive(now, open, GUESS, out);
    group
}

/// A way to break a law of a group.
type GroupRow = (&'static str, usize, fn(&mut Group, &mut Decisions));

/// The fields of a group are its own, and each of its steps ends with its laws: nothing within reach breaks one.
/// So a step is cut off instead. It comes at the end of time and sets a timer there, and the panic leaves the
/// group as it is in the middle of the step. The third row is a law of a member.
const GROUP_ROWS: [GroupRow; 3] = [
    // A core goes. The first member's lane opens, and sets a timer, before anybody is told to make room.
    (
        "SCHED-6: speculation keeps to idle cores",
        2,
        |group, out| {
            group.set_cores(END, Millicores::cores(1), out);
        },
    ),
    // A core comes. The same, before anybody gets it.
    ("SCHED-7: idle cores are used", 1, |group, out| {
        group.set_cores(END, Millicores::cores(2), out);
    }),
    // The second member is asked for less. Its lane shuts, and sets a timer, before its guess is told.
    (
        "SCHED-2: speculation keeps to its places",
        2,
        |group, out| {
            group.push_back(END, 1, out);
        },
    ),
];

#[test]
fn every_law_of_groups_sees_what_it_forbids() {
    for (name, cores, step) in GROUP_ROWS {
        let mut group = group(cores);
        let law = GROUP_LAWS.iter().find(|(law, _)| *law == name);
        let holds = |group: &Group| law.is_none_or(|(_, holds)| holds(group));
        assert!(holds(&group), "{name}");
        assert_eq!(broken_in_group(&group), None, "{name}");
        let cut_off = catch_unwind(AssertUnwindSafe(|| step(&mut group, &mut Decisions::new())));
        assert!(cut_off.is_err(), "{name}: the step was not cut off");
        assert_eq!(holds(&group), law.is_none(), "{name}");
        assert_eq!(broken_in_group(&group), Some(name));
    }
    for (law, _) in GROUP_LAWS {
        assert!(
            GROUP_ROWS.iter().any(|(name, ..)| *name == law),
            "no row of {law}"
        );
    }
}
