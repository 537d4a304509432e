//! The lanes against a slow reference, under random arrivals, ends, promotions, cancels, push-backs
//! and time. The laws are asserted after every step.

#![expect(clippy::expect_used, reason = "a test's own helpers")]

mod group;
mod slow;

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use slow::{Sheet, Slow, SlowCall};
use spechop_sched::{Decision, Decisions, Lanes, Limits, Outcome, Phase, Rank, Rate, Ticket, laws};

/// What can happen. Indices choose among the calls that it can happen to.
#[derive(Clone, Debug)]
enum Step {
    Arrive {
        authoritative: bool,
        utility: u32,
    },
    Finish(Index),
    Leave(Index),
    Promote(Index),
    PushBack,
    /// Milliseconds, and whether the lanes are told at once.
    Pass(u64, bool),
}

/// The reference, and whom the last step chose.
#[derive(Clone, Debug)]
struct Reference {
    slow: Slow,
    chosen: Option<usize>,
    /// Time has passed that the lanes have not been told of.
    is_late: bool,
}

fn sheets() -> impl Strategy<Value = Sheet> {
    let rate = proptest::option::of((1..5_u64, 1..6_u64));
    (1..5_usize, 0..5_usize, rate).prop_map(|(capacity, speculative_max, rate)| Sheet {
        capacity,
        speculative_max,
        rate: rate.map(|(per_second, burst)| (1_000_000_000_u64.div_ceil(per_second), burst)),
    })
}

impl ReferenceStateMachine for Reference {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        let start = |sheet| Self {
            slow: Slow::new(sheet),
            chosen: None,
            is_late: false,
        };
        sheets().prop_map(start).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Step> {
        let arrive = (any::<bool>(), 0..4_u32).prop_map(|(authoritative, utility)| Step::Arrive {
            authoritative,
            utility,
        });
        prop_oneof![
            24 => arrive,
            12 => any::<Index>().prop_map(Step::Finish),
            6 => any::<Index>().prop_map(Step::Leave),
            9 => any::<Index>().prop_map(Step::Promote),
            1 => Just(Step::PushBack),
            9 => (0..2_000_u64, any::<bool>()).prop_map(|(millis, told)| Step::Pass(millis, told)),
        ]
        .boxed()
    }

    fn apply(mut state: Self, step: &Step) -> Self {
        let before: Vec<bool> = state.slow.calls.iter().map(|c| c.authoritative).collect();
        let was_needed = |at: usize| before[at];
        let slow = &mut state.slow;
        let choose = |among: Vec<usize>, index: &Index| {
            (!among.is_empty()).then(|| among[index.index(among.len())])
        };
        state.chosen = match step {
            Step::Finish(index) => choose(slow.placed(), index),
            Step::Leave(index) | Step::Promote(index) => choose(slow.alive(), index),
            Step::Arrive { .. } | Step::PushBack | Step::Pass(..) => None,
        };
        match (step, state.chosen) {
            (
                &Step::Arrive {
                    authoritative,
                    utility,
                },
                _,
            ) => slow.arrive(authoritative, utility),
            (Step::Finish(_), Some(at)) => slow.finish(at),
            (Step::Leave(_), Some(at)) => slow.leave(at),
            (Step::Promote(_), Some(at)) => slow.promote(at),
            (Step::PushBack, _) => slow.push_back(),
            (Step::Pass(millis, _), _) => slow.pass(Duration::from_millis(*millis)),
            (_, None) => {}
        }
        // Nobody settles anything where nothing happened that anybody was told of.
        state.is_late = match (step, state.chosen) {
            (Step::Pass(_, false), _) => true,
            (Step::Promote(_), Some(at)) if was_needed(at) => state.is_late,
            (Step::Finish(_) | Step::Leave(_) | Step::Promote(_), None) => state.is_late,
            _ => false,
        };
        if !state.is_late {
            state.slow.settle();
        }
        state
    }
}

fn limits(sheet: Sheet) -> Limits {
    let rate = |(interval, burst): (u64, u64)| {
        let burst = NonZeroU32::new(burst as u32).expect("a burst");
        Rate::per_second(1e9 / interval as f64, burst).expect("a rate")
    };
    Limits {
        capacity: NonZeroUsize::new(sheet.capacity).expect("a capacity"),
        rate: sheet.rate.map(rate),
        speculative_max: sheet.speculative_max,
    }
}

fn rank(authoritative: bool, utility: u32) -> Rank {
    if authoritative {
        Rank::Authoritative
    } else {
        let utility = utility as f32;
        Rank::Speculative { utility }
    }
}

struct Fast {
    lanes: Lanes,
    /// In order of arrival, as the reference's calls.
    tickets: Vec<Ticket>,
    starts: Vec<u32>,
}

impl Fast {
    fn new(sheet: Sheet) -> Self {
        Self {
            lanes: Lanes::new(limits(sheet)),
            tickets: Vec::new(),
            starts: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step, chosen: Option<usize>, now: Duration) {
        let mut out = Decisions::new();
        let lanes = &mut self.lanes;
        match (step, chosen.map(|at| self.tickets[at])) {
            (
                &Step::Arrive {
                    authoritative,
                    utility,
                },
                _,
            ) => {
                let rank = rank(authoritative, utility);
                self.tickets.push(lanes.arrive(now, rank, &mut out));
                self.starts.push(0);
            }
            (Step::Finish(_), Some(ticket)) => {
                lanes.finish(now, ticket, Outcome::Answered, &mut out);
            }
            (Step::Leave(_), Some(ticket)) => lanes.leave(now, ticket, &mut out),
            (Step::Promote(_), Some(ticket)) => lanes.promote(now, ticket, &mut out),
            (Step::PushBack, _) => lanes.push_back(now, &mut out),
            (Step::Pass(_, true), _) => lanes.wake(now, &mut out),
            (Step::Pass(_, false), _) => {}
            (_, None) => {}
        }
        for decision in out {
            if let Decision::Start(ticket) = decision {
                let at = self.tickets.iter().position(|t| *t == ticket);
                self.starts[at.expect("a call that arrived")] += 1;
            }
        }
    }
}

/// No call runs twice, whatever becomes of it.
fn no_call_runs_twice(fast: &Fast) -> bool {
    fast.starts.iter().all(|starts| *starts <= 1)
}

/// Everybody stands where the reference has them, and was started as often.
fn agrees_with_reference(fast: &Fast, slow: &Slow) -> bool {
    let calls = slow.calls.iter().zip(&fast.tickets).zip(&fast.starts);
    fast.tickets.len() == slow.calls.len()
        && calls.into_iter().all(|((call, ticket), starts)| {
            fast.lanes.phase(*ticket) == call.phase && *starts == call.starts
        })
}

/// What was started is what the calls themselves say.
fn sums_equal_starts(fast: &Fast) -> bool {
    let starts: u32 = fast.starts.iter().sum();
    fast.lanes.counts().started == u64::from(starts)
        && fast.lanes.counts().arrived == fast.tickets.len() as u64
}

/// Told to wake them when they say, somebody gets a turn or the time is a later one.
fn foretells_its_turns(slow: &Slow, fast: &Fast) -> bool {
    fast.lanes.next_wake().is_none_or(|at| at > slow.now)
}

impl StateMachineTest for Fast {
    type SystemUnderTest = Self;
    type Reference = Reference;

    fn init_test(reference: &Reference) -> Self {
        Self::new(reference.slow.sheet)
    }

    fn apply(mut fast: Self, reference: &Reference, step: Step) -> Self {
        fast.step(&step, reference.chosen, reference.slow.now);
        fast
    }

    fn check_invariants(fast: &Self, reference: &Reference) {
        assert_eq!(laws::broken(&fast.lanes), None);
        assert!(agrees_with_reference(fast, &reference.slow));
        assert!(no_call_runs_twice(fast));
        assert!(sums_equal_starts(fast));
        assert!(reference.is_late || foretells_its_turns(&reference.slow, fast));
    }

    fn teardown(mut fast: Self, reference: Reference) {
        let now = reference.slow.now;
        for ticket in fast.tickets.clone() {
            fast.lanes.leave(now, ticket, &mut Decisions::new());
        }
        assert_eq!(
            (fast.lanes.waiting(), fast.lanes.running()),
            ((0, 0), (0, 0))
        );
        assert_eq!(fast.lanes.next_wake(), None);
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// The fast lanes decide as the slow ones do, and break no law.
    #[test]
    fn decides_as_the_reference(sequential 1..80 => Fast);
}

/// The worlds drawn hold what the laws speak of; else the test above would prove little.
#[test]
fn every_kind_of_thing_happens() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut preempted, mut reprieved, mut waited, mut closed) = (0, 0, 0, 0);
    for _ in 0..300 {
        let init = Reference::init_state().new_tree(&mut runner);
        let mut state = init.expect("a state").current();
        for _ in 0..80 {
            let step = Reference::transitions(&state).new_tree(&mut runner);
            let step = step.expect("a step").current();
            let before = state.clone();
            state = Reference::apply(state, &step);
            let ending = |s: &Reference| s.slow.calls.iter().any(|c| c.phase == Phase::Ending);
            preempted += u32::from(!ending(&before) && ending(&state));
            let was = |at: usize| before.slow.calls[at].phase;
            if let (Step::Promote(_), Some(at)) = (&step, state.chosen) {
                reprieved += u32::from(was(at) == Phase::Ending);
                waited += u32::from(was(at) == Phase::Waiting);
            }
            closed += u32::from(matches!(step, Step::PushBack));
        }
    }
    let counts = [preempted, reprieved, waited, closed];
    assert!(counts.iter().all(|count| *count > 40), "{counts:?}");
}
