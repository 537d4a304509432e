//! SPEC-8: with an exact verifier the committed trajectory is the same for every k, every policy and
//! every interleaving, and equals the standard agent's. All other laws are asserted after every event.

use crate::world::{Outcome, Schedule, Seen, draw, oracle};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

/// The standard agent's world, and what it makes of the question.
#[derive(Clone, Debug)]
struct Slow {
    numbers: [u64; 11],
    outcome: Outcome,
}

/// Which of the running calls ends.
#[derive(Clone, Debug)]
struct Ends(Index);

impl ReferenceStateMachine for Slow {
    type State = Self;
    type Transition = Ends;

    fn init_state() -> BoxedStrategy<Self> {
        any::<[u64; 11]>()
            .prop_map(|numbers| {
                let (world, limits) = draw(numbers);
                let outcome = oracle(world, limits);
                Self { numbers, outcome }
            })
            .boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Ends> {
        any::<Index>().prop_map(Ends).boxed()
    }

    fn apply(state: Self, _: &Ends) -> Self {
        // The standard agent has one way through the question, whatever ends when.
        state
    }
}

struct Fast(Schedule);

impl StateMachineTest for Fast {
    type SystemUnderTest = Self;
    type Reference = Slow;

    fn init_test(slow: &Slow) -> Self {
        let (world, limits) = draw(slow.numbers);
        Self(Schedule::new(world, limits))
    }

    fn apply(mut fast: Self, _: &Slow, Ends(which): Ends) -> Self {
        fast.0.step(|running| which.index(running));
        fast
    }

    fn check_invariants(fast: &Self, slow: &Slow) {
        if let Some(outcome) = &fast.0.outcome {
            assert_eq!(*outcome, slow.outcome);
        }
    }

    fn teardown(mut fast: Self, slow: Slow) {
        // What the transitions left, ends newest first.
        while fast.0.outcome.is_none() {
            fast.0.step(|running| running - 1);
        }
        assert_eq!(fast.0.outcome, Some(slow.outcome));
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    /// Speculation buys time, never a different answer.
    #[test]
    fn answer_does_not_depend_on_width_policy_or_order(sequential 1..48 => Fast);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// Told to finish at any moment, it answers from the hops it has, and nothing is left.
    #[test]
    fn finishing_now_keeps_a_prefix(
        numbers in any::<[u64; 11]>(),
        before in proptest::collection::vec(any::<Index>(), 0..32),
    ) {
        let (world, limits) = draw(numbers);
        let mut schedule = Schedule::new(world, limits);
        for which in before {
            schedule.step(|running| which.index(running));
        }
        let ended = schedule.outcome.is_some();
        schedule.finish_now();
        if !ended {
            // Only the answer is left to be written; begun ahead of time, it may fail once.
            for _ in 0..2 {
                schedule.step(|running| {
                    assert_eq!(running, 1);
                    0
                });
            }
        }
        let outcome = schedule.outcome.unwrap();
        prop_assert!(oracle(world, limits).hops.starts_with(&outcome.hops));
    }
}

/// The worlds drawn hold what the laws speak of; else the tests above would prove little.
#[test]
fn every_kind_of_thing_happens() {
    let mut seen = Seen::default();
    for seed in 0..16_000_u64 {
        let number = |i: u64| {
            (seed + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(7 * i as u32)
        };
        let (world, limits) = draw(std::array::from_fn(|i| number(i as u64)));
        let mut schedule = Schedule::new(world, limits);
        let mut turn = seed;
        while schedule.outcome.is_none() {
            turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            schedule.step(|running| (turn >> 33) as usize % running);
        }
        seen.add(schedule.seen);
    }
    let counts = [
        seen.rolled_back,
        seen.salvaged,
        seen.expired,
        seen.left_open,
        seen.second_guesses,
        seen.told_early,
        seen.asked_late,
        seen.gated,
        seen.failures,
        seen.drafts_right,
        seen.drafts_wrong,
    ];
    assert!(counts.iter().all(|count| *count > 40), "{seen:?}");
    // Rare: two guesses are known, the first holds, and both look-ups are slow.
    assert!(seen.let_through > 10, "{seen:?}");
}
