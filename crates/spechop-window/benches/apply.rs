//! One event of the window at k = 8: a whole question of accepted and rejected hops, per event.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spechop_types::{BranchId, Observation, Step, SubQuestion};
use spechop_window::{Effect, Event, Limits, Width, Window};
use std::sync::Arc;

/// Plays a question of `hops` hops in which every third guess is wrong; returns the events spent.
fn question(hops: u32, asked: &[SubQuestion], right: &Arc<Observation>, wrong: &Arc<str>) -> u64 {
    let limits = Limits {
        width: 8.try_into().map_or(Width::UNBOUNDED, Width::bounded),
        hops_max: hops,
        not_found_max: 1,
    };
    let (mut window, mut effects) = Window::open(limits);
    let (mut events, mut at) = (0, 0);
    // Newest work first, target calls last: the window fills before the head is observed.
    let mut work: Vec<Effect> = Vec::new();
    let mut calls: std::collections::VecDeque<BranchId> = std::collections::VecDeque::new();
    loop {
        for effect in effects.drain(..) {
            match effect {
                Effect::Call { branch } => calls.push_back(branch),
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
            Some(Effect::Guess { branch }) => Event::Guessed {
                branch,
                guess: Some(
                    if branch.0 % 3 == 2 {
                        wrong
                    } else {
                        &right.answer
                    }
                    .clone(),
                ),
            },
            Some(Effect::Verify { branch }) => Event::Verified {
                branch,
                accepted: branch.0 % 3 != 2,
            },
            _ => match calls.pop_front() {
                Some(branch) => Event::Observed {
                    branch,
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
    for hops in [5, 16] {
        let events = question(hops, &asked, &right, &wrong);
        group.throughput(Throughput::Elements(events));
        group.bench_function(format!("k=8, {hops} hops"), |bench| {
            bench.iter(|| question(hops, &asked, &right, &wrong));
        });
    }
    group.finish();
}

criterion_group!(benches, apply);
criterion_main!(benches);
