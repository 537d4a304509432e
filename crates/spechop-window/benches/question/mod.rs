//! The question that the benchmarks of the window play.

use std::collections::VecDeque;
use std::sync::Arc;

use spechop_types::{Chance, LookupId, Observation, Step, SubQuestion};
use spechop_window::{Effect, Effects, Event, Limits, Policy, WeighedGuess, Width, Window};

/// How likely every guess is said to be: two of them are, three are not.
const LIKELY: f64 = 0.67;

/// What is asked, found and wrongly guessed.
pub(crate) fn texts() -> (Vec<SubQuestion>, Arc<Observation>, Arc<str>) {
    let asked = (0..997).map(|i| SubQuestion::new(&format!("question {i}")));
    let right = Observation {
        answer: "fact".into(),
        found: true,
        confidence: None,
        evidence: Arc::default(),
    };
    (asked.collect(), Arc::new(right), "fiction".into())
}

/// Plays a question of `hops` hops in which every third guess is wrong, every event through `apply`;
/// returns the events spent.
pub(crate) fn question(
    policy: Policy,
    hops: u32,
    asked: &[SubQuestion],
    right: &Arc<Observation>,
    wrong: &Arc<str>,
    mut apply: impl FnMut(&mut Window, Event) -> Effects,
) -> u64 {
    let limits = Limits {
        width: 8.try_into().map_or(Width::UNBOUNDED, Width::bounded),
        hops_max: hops,
        not_found_max: 1,
        policy,
    };
    let (mut window, mut effects) = Window::open(limits);
    let (mut events, mut at) = (0, 0);
    // Newest work first, target calls last: the window fills before the head is observed.
    let mut work: Vec<Effect> = Vec::new();
    let mut calls: VecDeque<LookupId> = VecDeque::new();
    loop {
        for effect in effects.drain(..) {
            match effect {
                Effect::Call { lookup } => calls.push_back(lookup),
                Effect::Answer { .. } => return events,
                Effect::Write { .. } | Effect::Guess { .. } | Effect::Verify { .. } => {
                    work.push(effect);
                }
                _ => {}
            }
        }
        let event = match work.pop() {
            Some(Effect::Write {
                branch,
                must_answer,
            }) => {
                at += 1;
                let step = if must_answer {
                    Step::Answer(right.answer.clone())
                } else {
                    Step::Ask(asked[at % asked.len()].clone())
                };
                Event::Wrote { branch, step }
            }
            Some(Effect::Guess { lookup }) => Event::Guessed {
                more: false,
                lookup,
                guesses: vec![WeighedGuess {
                    text: if lookup.0 % 3 == 2 {
                        wrong
                    } else {
                        &right.answer
                    }
                    .clone(),
                    chance: Chance::of(LIKELY),
                    least: Chance::NONE,
                }],
            },
            Some(Effect::Verify { branch }) => Event::Verified {
                branch,
                accepted: window
                    .comparison(branch)
                    .is_some_and(|(guess, found)| *guess == found.answer),
            },
            _ => match calls.pop_front() {
                Some(lookup) => Event::Observed {
                    lookup,
                    observation: right.clone(),
                },
                None => return events,
            },
        };
        events += 1;
        effects = apply(&mut window, event);
    }
}
