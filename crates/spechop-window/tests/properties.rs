//! SPEC-8: with an exact verifier the committed trajectory is the same for every k and every
//! interleaving, and equals the slow agent's. All other laws are asserted after every event.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's own helpers"
)]

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use proptest::prelude::*;
use spechop_types::{BranchId, Observation, Stage, Step, SubQuestion};
use spechop_window::{Effect, Event, Limits, Stop, Width, Window, laws};

/// A world whose every answer is a function of its seed and what was asked.
#[derive(Clone, Copy, Debug)]
struct World {
    seed: u64,
    /// Out of 8: how often a guess is right, a speculative call fails, a look-up finds nothing.
    right: u64,
    failing: u64,
    missing: u64,
}

type Known = Vec<(String, String)>;

impl World {
    fn draw(&self, what: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, what).hash(&mut hasher);
        hasher.finish()
    }

    fn step(&self, known: &Known, must_answer: bool) -> Step {
        let draw = self.draw(&("step", known));
        if must_answer || (draw % 8) < known.len() as u64 {
            return Step::Answer(format!("answer {draw}").into());
        }
        // Few sub-questions, so that some are asked twice.
        Step::Ask(SubQuestion::new(&format!("question {}", draw % 23)))
    }

    fn observation(&self, asked: &str) -> Observation {
        let draw = self.draw(&("observation", asked));
        Observation {
            answer: format!("fact {}", draw % 5).into(),
            found: draw / 8 % 8 >= self.missing,
            evidence: Vec::new(),
        }
    }

    fn guess(&self, asked: &str, known: &Known) -> Option<Arc<str>> {
        let draw = self.draw(&("guess", asked, known));
        match draw % 8 {
            x if x < self.right => Some(self.observation(asked).answer),
            7 => None,
            _ => Some(format!("fact {}", draw / 8 % 5).into()),
        }
    }
}

/// What a question ends with.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    hops: Known,
    answer: Arc<str>,
    stopped: Option<Stop>,
}

/// The slow, obvious agent.
fn oracle(world: World, limits: Limits) -> Outcome {
    let mut hops = Known::new();
    let mut not_found = 0;
    loop {
        let mut stopped = if hops.len() >= limits.hops_max as usize {
            Some(Stop::HopBudget)
        } else if not_found > limits.not_found_max {
            Some(Stop::NotFound)
        } else {
            None
        };
        let mut step = world.step(&hops, stopped.is_some());
        if let Step::Ask(again) = &step
            && hops
                .iter()
                .any(|(asked, _)| SubQuestion::new(asked) == *again)
        {
            stopped = Some(Stop::Repeated);
            step = world.step(&hops, true);
        }
        match step {
            Step::Answer(answer) => {
                return Outcome {
                    hops,
                    answer,
                    stopped,
                };
            }
            Step::Ask(sub_question) => {
                let observation = world.observation(sub_question.as_str());
                not_found += u32::from(!observation.found);
                hops.push((sub_question.as_str().into(), observation.answer.to_string()));
            }
        }
    }
}

/// Calls that are running, by branch and kind; a launch while one runs is a broken promise.
#[derive(Default)]
struct Running(BTreeMap<(BranchId, u8), Work>);

#[derive(Clone, Copy)]
struct Work {
    stage: Stage,
    must_answer: bool,
    authoritative: bool,
}

impl Running {
    fn start(&mut self, branch: BranchId, stage: Stage, must_answer: bool, authoritative: bool) {
        let work = Work {
            stage,
            must_answer,
            authoritative,
        };
        assert!(
            self.0.insert((branch, stage as u8), work).is_none(),
            "launched twice"
        );
    }
}

/// Drives the window with an arbitrary choice of which call ends next.
fn run(world: World, limits: Limits, mut choices: impl FnMut(usize) -> usize) -> Outcome {
    let (mut window, mut effects) = Window::open(limits);
    let mut running = Running::default();
    let mut commits = 0;
    loop {
        let mut pending = std::collections::VecDeque::from(effects);
        while let Some(effect) = pending.pop_front() {
            match effect {
                Effect::Write {
                    branch,
                    must_answer,
                } => {
                    let head = window.depth(branch) == Some(0);
                    running.start(branch, Stage::Segment, must_answer, head);
                }
                Effect::Call { branch } => {
                    let head = window.depth(branch) == Some(0);
                    running.start(branch, Stage::Target, false, head);
                }
                Effect::Guess { branch } => {
                    assert!(limits.width != Width::STANDARD);
                    running.start(branch, Stage::Speculation, false, false);
                }
                Effect::DropGuess { branch } => {
                    assert!(
                        running
                            .0
                            .remove(&(branch, Stage::Speculation as u8))
                            .is_some()
                    );
                }
                Effect::Verify { branch } => {
                    let (guess, observation) = window.comparison(branch).unwrap();
                    let accepted = *guess == observation.answer;
                    assert!(pending.is_empty(), "the verdict comes before anything else");
                    pending.extend(window.apply(Event::Verified { branch, accepted }));
                }
                Effect::Commit { branch, at } => {
                    assert_eq!(at, commits, "SPEC-4: hops are committed in order");
                    commits += 1;
                    assert!(
                        running.0.keys().all(|(b, _)| *b != branch),
                        "committed with work left"
                    );
                }
                Effect::Promote { branch } => assert!(running.0.keys().all(|(b, _)| *b >= branch)),
                Effect::Abort { branch } => running.0.retain(|(b, _), _| *b != branch),
                Effect::Answer { answer, .. } => {
                    assert!(running.0.is_empty(), "SPEC-9: work is left");
                    assert!(pending.is_empty());
                    let hops = window
                        .committed()
                        .iter()
                        .map(|hop| (hop.sub_question.as_str().into(), hop.answer.to_string()))
                        .collect();
                    return Outcome {
                        hops,
                        answer,
                        stopped: window.stopped(),
                    };
                }
                Effect::Fail { .. } => panic!("no authoritative call failed"),
            }
            assert_eq!(laws::broken(&window), None);
        }
        let at = choices(running.0.len());
        let (&(branch, kind), &work) = running
            .0
            .iter()
            .nth(at)
            .expect("SPEC-9: nothing is running");
        running.0.remove(&(branch, kind));
        let known: Known = window
            .trajectory(branch)
            .map(|(asked, answer)| (asked.as_str().into(), answer.to_string()))
            .collect();
        let asked = window.sub_question(branch).map(|q| q.as_str().to_owned());
        let fails =
            !work.authoritative && world.draw(&("failure", branch, kind)) % 8 < world.failing;
        let event = match (work.stage, asked) {
            (stage, _) if fails => Event::Failed { branch, stage },
            (Stage::Segment, _) => Event::Wrote {
                branch,
                step: world.step(&known, work.must_answer),
            },
            (Stage::Target, Some(asked)) => Event::Observed {
                branch,
                observation: world.observation(&asked).into(),
            },
            (Stage::Speculation, Some(asked)) => Event::Guessed {
                branch,
                guess: world.guess(&asked, &known),
            },
            (_, None) => panic!("a call without a sub-question"),
        };
        effects = window.apply(event);
    }
}

fn worlds() -> impl Strategy<Value = World> {
    (any::<u64>(), 0..8u64, 0..4u64, 0..4u64).prop_map(|(seed, right, failing, missing)| World {
        seed,
        right,
        failing,
        missing,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// Given an exact verifier, speculation buys time, never a different answer.
    #[test]
    fn answer_does_not_depend_on_width_or_order(
        world in worlds(),
        k in 0..9usize,
        hops_max in 0..8u32,
        not_found_max in 0..3u32,
        choices in proptest::collection::vec(any::<prop::sample::Index>(), 1..64),
    ) {
        let width = k.try_into().map_or(Width::UNBOUNDED, Width::bounded);
        let limits = Limits { width, hops_max, not_found_max };
        let mut turn = 0;
        let outcome = run(world, limits, |len| {
            turn += 1;
            choices[turn % choices.len()].index(len)
        });
        prop_assert_eq!(outcome, oracle(world, limits));
    }

    /// Told to finish at any moment, it answers from the hops it has, and nothing is left.
    #[test]
    fn finishing_now_keeps_a_prefix(world in worlds(), k in 1..5usize, after in 0..20usize) {
        let limits = Limits {
            width: Width::bounded(k.try_into().unwrap()),
            hops_max: 6,
            not_found_max: 3,
        };
        let (mut window, _) = Window::open(limits);
        let expected = oracle(world, limits);
        // In order of branch and stage: enough to reach every kind of state.
        for _ in 0..after {
            let Some(id) = window.alive().last() else { break };
            let known: Known = window
                .trajectory(id)
                .map(|(asked, answer)| (asked.as_str().into(), answer.to_string()))
                .collect();
            let event = match window.sub_question(id).map(|q| q.as_str().to_owned()) {
                None => Event::Wrote { branch: id, step: world.step(&known, false) },
                Some(asked) => Event::Observed { branch: id, observation: world.observation(&asked).into() },
            };
            let before = window.clone();
            window.apply(event);
            if window.is_over() {
                window = before;
                break;
            }
        }
        let effects = window.apply(Event::FinishNow);
        if let Some(Effect::Write { branch, must_answer: true }) = effects.last() {
            let answer: Arc<str> = "budget".into();
            let effects = window.apply(Event::Wrote { branch: *branch, step: Step::Answer(answer.clone()) });
            prop_assert_eq!(effects, vec![Effect::Answer { branch: *branch, answer }]);
        }
        let hops: Known = window
            .committed()
            .iter()
            .map(|hop| (hop.sub_question.as_str().into(), hop.answer.to_string()))
            .collect();
        prop_assert!(expected.hops.starts_with(&hops));
    }
}
