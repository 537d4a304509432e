//! Groups against a slow reference: several lanes on cores that come and go.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use spechop_sched::{CROWDED, Demand, Group, Millicores};

use super::*;

/// What can happen. Indices choose among the calls that it can happen to, and members among all.
#[derive(Clone, Debug)]
enum Step {
    Arrive {
        member: Index,
        authoritative: bool,
        utility: u32,
    },
    Finish(Index),
    Leave(Index),
    Promote(Index),
    PushBack(Index),
    Cores(u32),
    /// Milliseconds; they are told at once.
    Pass(u64),
}

/// A group on a sheet of paper: every sum is counted anew for every decision.
#[derive(Clone, Debug)]
struct SlowGroup {
    cores: u32,
    members: Vec<SlowMember>,
    /// Every call in order of arrival: its member, and its number there.
    calls: Vec<(usize, usize)>,
    /// Which of them the last step chose.
    chosen: Option<usize>,
    /// Which member the last step chose.
    at: usize,
    /// From when to when needed calls wanted more than there was, in seconds.
    crowded: Vec<(f64, f64)>,
}

#[derive(Clone, Debug)]
struct SlowMember {
    slow: Slow,
    demand: Demand,
}

impl SlowMember {
    /// Cores that so many needed calls and so many guesses take.
    fn takes(&self, needed: usize, guesses: usize, cores: u32) -> u32 {
        let least = |cores: Millicores, most: u32| cores.0.min(most);
        let (each, guess) = (
            least(self.demand.each, cores),
            least(self.demand.guess, cores),
        );
        let most = each * self.demand.at_once;
        let shares = (each * needed as u32).min(most);
        let beyond = match needed {
            1 => least(self.demand.alone, cores).saturating_sub(shares),
            _ => 0,
        };
        let all = each * needed as u32 + guess * guesses as u32;
        all.min(most) + beyond
    }

    fn running(&self, authoritative: bool) -> Vec<usize> {
        self.slow
            .those(|call| call.authoritative == authoritative && call.phase == Phase::Running)
    }

    fn ending(&self) -> usize {
        self.slow.those(|call| call.phase == Phase::Ending).len()
    }
}

impl SlowGroup {
    fn needed(&self) -> u32 {
        let takes = |m: &SlowMember| m.takes(m.running(true).len(), 0, self.cores);
        self.members.iter().map(takes).sum()
    }

    fn staying(&self) -> u32 {
        let takes =
            |m: &SlowMember| m.takes(m.running(true).len(), m.running(false).len(), self.cores);
        self.members.iter().map(takes).sum()
    }

    fn taken(&self) -> u32 {
        let takes = |m: &SlowMember| {
            let guesses = m.running(false).len() + m.ending();
            m.takes(m.running(true).len(), guesses, self.cores)
        };
        self.members.iter().map(takes).sum()
    }

    fn settle(&mut self) {
        self.members.iter_mut().for_each(|m| m.slow.settle_needed());
        while let Some((member, at)) = self.victim() {
            self.members[member].slow.calls[at].phase = Phase::Ending;
        }
        while let Some((member, at)) = self.to_start() {
            self.members[member].slow.start(at);
        }
    }

    /// The guess of the least utility of all engines that compute for guesses and can stop.
    fn victim(&self) -> Option<(usize, usize)> {
        if self.staying() <= self.cores {
            return None;
        }
        let guesses = self.members.iter().enumerate().filter_map(|(number, m)| {
            let (needed, guessed) = (m.running(true).len(), m.running(false));
            let computes = m.takes(needed, guessed.len(), self.cores);
            let for_guesses = computes > m.takes(needed, 0, self.cores);
            let gives = for_guesses && m.demand.yields;
            gives.then(|| guessed.into_iter().map(move |at| (number, at)))
        });
        let worst = |(member, at): &(usize, usize)| {
            let utility = self.members[*member].slow.calls[*at].utility;
            (std::cmp::Reverse(utility), *member, *at)
        };
        guesses.flatten().max_by_key(worst)
    }

    fn is_crowded(&self) -> bool {
        let wants = |m: &SlowMember| {
            let needed = |call: &SlowCall| {
                call.authoritative && matches!(call.phase, Phase::Waiting | Phase::Running)
            };
            let Demand { each, alone, .. } = m.demand;
            let least = |cores: Millicores| cores.0.min(self.cores);
            match m.slow.those(needed).len() as u32 {
                1 => least(alone),
                calls => least(each) * calls,
            }
        };
        self.members.iter().map(wants).sum::<u32>() > self.cores
    }

    /// The weight of the crowded times, if a second ago counts e times less than now.
    fn was_crowded(&self) -> bool {
        let now = self.members[0].slow.now.as_secs_f64();
        let weight = |(from, to): &(f64, f64)| (to - now).exp() - (from - now).exp();
        self.crowded.iter().map(weight).sum::<f64>() > CROWDED
    }

    /// The best guess of those that have a place and fit.
    fn to_start(&self) -> Option<(usize, usize)> {
        if self.was_crowded() {
            return None;
        }
        let idle = self.cores.saturating_sub(self.taken());
        let waiting = self.members.iter().enumerate().filter_map(|(number, m)| {
            let fits = m.demand.guess.0.min(self.cores) <= idle;
            let at = m.slow.speculative_to_start()?;
            fits.then_some((number, at))
        });
        let best = |(member, at): &(usize, usize)| {
            let utility = self.members[*member].slow.calls[*at].utility;
            (std::cmp::Reverse(utility), *member)
        };
        waiting.min_by_key(best)
    }

    fn choose(&self, index: &Index, can: impl Fn(&SlowCall) -> bool) -> Option<usize> {
        let call = |(member, at): &(usize, usize)| &self.members[*member].slow.calls[*at];
        let able = self.calls.iter().enumerate();
        let able: Vec<_> = able.filter(|(_, place)| can(call(place))).collect();
        (!able.is_empty()).then(|| able[index.index(able.len())].0)
    }
}

fn demands() -> impl Strategy<Value = Demand> {
    let yields = prop_oneof![3 => Just(true), 1 => Just(false)];
    let further = prop_oneof![1 => Just(0), 1 => 1..4_u32];
    let numbers = (1..5_u32, further, 1..5_u32, 1..5_u32, yields);
    numbers.prop_map(|(each, further, guess, at_once, yields)| Demand {
        each: Millicores(each * 500),
        alone: Millicores((each + further) * 500),
        guess: Millicores(guess.min(each) * 500),
        at_once,
        yields,
    })
}

impl ReferenceStateMachine for SlowGroup {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        let members = proptest::collection::vec((sheets(), demands()), 1..4);
        let start = |(members, cores): (Vec<(Sheet, Demand)>, u32)| Self {
            cores: cores * 500,
            members: members
                .into_iter()
                .map(|(sheet, demand)| SlowMember {
                    slow: Slow::new(sheet),
                    demand,
                })
                .collect(),
            calls: Vec::new(),
            chosen: None,
            at: 0,
            crowded: Vec::new(),
        };
        (members, 1..9_u32).prop_map(start).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Step> {
        let arrive = (any::<Index>(), any::<bool>(), 0..4_u32);
        let arrive = arrive.prop_map(|(member, authoritative, utility)| Step::Arrive {
            member,
            authoritative,
            utility,
        });
        prop_oneof![
            24 => arrive,
            12 => any::<Index>().prop_map(Step::Finish),
            6 => any::<Index>().prop_map(Step::Leave),
            9 => any::<Index>().prop_map(Step::Promote),
            1 => any::<Index>().prop_map(Step::PushBack),
            6 => (1..9_u32).prop_map(|halves| Step::Cores(halves * 500)),
            6 => (0..2_000_u64).prop_map(Step::Pass),
        ]
        .boxed()
    }

    fn apply(mut state: Self, step: &Step) -> Self {
        let placed = |call: &SlowCall| matches!(call.phase, Phase::Running | Phase::Ending);
        let alive = |call: &SlowCall| call.phase != Phase::Gone;
        state.chosen = match step {
            Step::Finish(index) => state.choose(index, placed),
            Step::Leave(index) => state.choose(index, alive),
            Step::Promote(index) => state.choose(index, |call| alive(call) && !call.authoritative),
            _ => None,
        };
        if let Step::Arrive { member, .. } | Step::PushBack(member) = step {
            state.at = member.index(state.members.len());
        }
        let chosen = state.chosen.map(|number| state.calls[number]);
        let at = state.at;
        match (step, chosen) {
            (
                &Step::Arrive {
                    authoritative,
                    utility,
                    ..
                },
                _,
            ) => {
                let slow = &mut state.members[at].slow;
                state.calls.push((at, slow.calls.len()));
                slow.arrive(authoritative, utility);
            }
            (Step::Finish(_), Some((member, call))) => state.members[member].slow.finish(call),
            (Step::Leave(_), Some((member, call))) => state.members[member].slow.leave(call),
            (Step::Promote(_), Some((member, call))) => state.members[member].slow.promote(call),
            (Step::PushBack(_), _) => state.members[at].slow.push_back(),
            (Step::Cores(cores), _) => state.cores = *cores,
            (Step::Pass(millis), _) => {
                let time = Duration::from_millis(*millis);
                if state.is_crowded() {
                    let from = state.members[0].slow.now;
                    let span = (from.as_secs_f64(), (from + time).as_secs_f64());
                    state.crowded.push(span);
                }
                state.members.iter_mut().for_each(|m| m.slow.pass(time));
            }
            (_, None) => {}
        }
        state.settle();
        state
    }
}

struct FastGroup {
    group: Group,
    /// In order of arrival, as the reference's calls.
    tickets: Vec<Ticket>,
}

impl FastGroup {
    fn new(slow: &SlowGroup) -> Self {
        let mut group = Group::new(Millicores(slow.cores));
        for member in &slow.members {
            group.join(limits(member.slow.sheet), member.demand);
        }
        Self {
            group,
            tickets: Vec::new(),
        }
    }
}

impl StateMachineTest for FastGroup {
    type SystemUnderTest = Self;
    type Reference = SlowGroup;

    fn init_test(reference: &SlowGroup) -> Self {
        Self::new(reference)
    }

    fn apply(mut fast: Self, reference: &SlowGroup, step: Step) -> Self {
        let (now, at) = (reference.members[0].slow.now, reference.at as u32);
        let (group, out) = (&mut fast.group, &mut Decisions::new());
        match (step, reference.chosen.map(|number| fast.tickets[number])) {
            (
                Step::Arrive {
                    authoritative,
                    utility,
                    ..
                },
                _,
            ) => {
                let ticket = group.arrive(now, at, rank(authoritative, utility), out);
                fast.tickets.push(ticket);
            }
            (Step::Finish(_), Some(ticket)) => {
                group.finish(now, ticket, Outcome::Answered, out);
            }
            (Step::Leave(_), Some(ticket)) => group.leave(now, ticket, out),
            (Step::Promote(_), Some(ticket)) => group.promote(now, ticket, out),
            (Step::PushBack(_), _) => group.push_back(now, at, out),
            (Step::Cores(cores), _) => group.set_cores(now, Millicores(cores), out),
            (Step::Pass(_), _) => group.wake(now, at, out),
            (_, None) => {}
        }
        // Whoever is told to start or to end hears of it at its own member.
        for decision in out.iter() {
            let (phase, ticket) = match decision {
                Decision::Start(ticket) => (Phase::Running, *ticket),
                Decision::Preempt(ticket) => (Phase::Ending, *ticket),
            };
            let stands = group.phase(ticket);
            assert!(stands == phase || stands == Phase::Ending, "{stands:?}");
        }
        fast
    }

    fn check_invariants(fast: &Self, reference: &SlowGroup) {
        assert_eq!(laws::broken_in_group(&fast.group), None);
        for ((member, at), ticket) in reference.calls.iter().zip(&fast.tickets) {
            let call = &reference.members[*member].slow.calls[*at];
            assert_eq!(fast.group.phase(*ticket), call.phase);
        }
        let taken = fast.group.core_use();
        assert_eq!(taken.needed.0, reference.needed());
        let staying = taken.needed.0 + taken.speculative.0;
        assert_eq!(staying, reference.staying());
        assert_eq!(staying + taken.ending.0, reference.taken());
        // Whoever waits for nothing but time is woken: no guess stays behind in a machine that is empty.
        for (number, member) in (0..).zip(&reference.members) {
            let waits = member.slow.speculative_to_start().is_some();
            if waits && reference.was_crowded() && !reference.is_crowded() {
                let wake = fast.group.next_wake(number);
                assert!(wake.is_some_and(|at| at > reference.members[0].slow.now));
            }
        }
    }

    fn teardown(mut fast: Self, reference: SlowGroup) {
        let now = reference.members[0].slow.now;
        for ticket in fast.tickets {
            fast.group.leave(now, ticket, &mut Decisions::new());
        }
        assert_eq!(fast.group.core_use(), spechop_sched::CoreUse::default());
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    /// The fast group decides as the slow one does, and breaks no law.
    #[test]
    fn a_group_decides_as_the_reference(sequential 1..80 => FastGroup);
}

/// The worlds drawn hold what the laws speak of; else the test above would prove little.
#[test]
fn cores_are_lacked_and_taken_back() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut over_full, mut for_cores, mut coreless, mut elsewhere) = (0, 0, 0, 0);
    let mut in_a_crowd = 0;
    for _ in 0..300 {
        let init = SlowGroup::init_state().new_tree(&mut runner);
        let mut state = init.expect("a state").current();
        for _ in 0..80 {
            let step = SlowGroup::transitions(&state).new_tree(&mut runner);
            let step = step.expect("a step").current();
            let ending = |s: &SlowGroup| -> Vec<usize> {
                s.members.iter().map(SlowMember::ending).collect()
            };
            let before = ending(&state);
            state = SlowGroup::apply(state, &step);
            over_full += u32::from(state.needed() > state.cores);
            let fewer = matches!(step, Step::Cores(_));
            let more = |n: usize| ending(&state)[n] > before[n];
            for_cores += u32::from(fewer && (0..before.len()).any(more));
            if let Step::Arrive { .. } = step {
                elsewhere += u32::from((0..before.len()).any(|n| n != state.at && more(n)));
            }
            let lacks = |m: &SlowMember| m.slow.speculative_to_start().is_some();
            coreless += u32::from(state.members.iter().any(lacks));
            let (idle, waited) = (state.taken() == 0, state.members.iter().any(lacks));
            in_a_crowd += u32::from(state.was_crowded() && idle && waited);
        }
    }
    let counts = [over_full, for_cores, coreless, elsewhere, in_a_crowd];
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}
