//! One event of the window at k = 8: a whole question of accepted and rejected hops, per event.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spechop_types::{LookupId, Observation, Step, SubQuestion};
use spechop_window::{Effect, Event, Limits, Policy, Width, Window};
use std::sync::Arc;

/// Plays a question of `hops` hops in which every third guess is wrong; returns the events spent.
fn question(
    policy: Policy,
    hops: u32,
    asked: &[SubQuestion],
    right: &Arc<Observation>,
    wrong: &Arc<str>,
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
    let mut calls: std::collections::VecDeque<LookupId> = std::collections::VecDeque::new();
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
                lookup,
                guesses: vec![
                    if lookup.0 % 3 == 2 {
                        wrong
                    } else {
                        &right.answer
                    }
                    .clone(),
                ],
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
        effects = window.apply(event);
    }
}

fn apply(criterion: &mut Criterion) {
    let asked: Vec<_> = (0..997)
        .map(|i| SubQuestion::new(&format!("question {i}")))
        .collect();
    let right = Arc::new(Observation {
        answer: "fact".into(),
        found: true,
        evidence: Vec::new(),
    });
    let wrong: Arc<str> = "fiction".into();
    let mut group = criterion.benchmark_group("apply");
    for (name, policy) in [("paper", Policy::PAPER), ("salvage", Policy::default())] {
        for hops in [5, 16] {
            let events = question(policy, hops, &asked, &right, &wrong);
            group.throughput(Throughput::Elements(events));
            group.bench_function(format!("{name}, k=8, {hops} hops"), |bench| {
                bench.iter(|| question(policy, hops, &asked, &right, &wrong));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, apply);
criterion_main!(benches);
