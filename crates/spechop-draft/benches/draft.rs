//! What a draft costs, with the shipped patterns and with 256 learnt ones, and what mining costs.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use spechop_draft::{Lookup, MineOptions, PatternDrafter, Patterns, Trajectory, mine};
use spechop_ports::{DraftRequest, Drafter, KnownHop};
use spechop_types::{CommitKind, Hop, Observation, Question, SubQuestion, Tenant};

const QUESTION: &str = "Which film whose director was born first, The Last Paradises: On The Track Of Rare \
                        Animals or Waterlily Jaguar?";

fn hops(pairs: &[(&str, &str)]) -> Vec<KnownHop> {
    let hops = pairs.iter().map(|(asked, answer)| KnownHop {
        sub_question: SubQuestion::new(asked),
        answer: (*answer).into(),
    });
    hops.collect()
}

fn taught() -> PatternDrafter {
    let drafter = PatternDrafter::new(Patterns::shipped().unwrap());
    for n in 0..256 {
        let question = format!("Which film{n} whose director was born, One{n} or Two{n}?");
        let observation = Observation::read(Some("Al".into()), Vec::new());
        let hop = Hop {
            sub_question: SubQuestion::new(&format!("director of One{n}")),
            answer: "Al".into(),
            kind: CommitKind::Observed,
            guess: None,
            observation: Arc::new(observation),
        };
        drafter.learn(
            &Tenant::default(),
            &Question::new(&question).unwrap(),
            &[hop],
            true,
        );
    }
    drafter
}

fn drafting(c: &mut Criterion) {
    let question = Question::new(QUESTION).unwrap();
    let film = "Who is the director of the film The Last Paradises: On The Track Of Rare Animals?";
    let first = [(film, "Eugen Schuhmacher")];
    let third = [
        first[0],
        (
            "Who is the director of the film Waterlily Jaguar?",
            "Melora Walters",
        ),
        ("When was Eugen Schuhmacher born?", "August 4, 1906"),
    ];
    let drafters = [
        ("shipped", PatternDrafter::new(Patterns::shipped().unwrap())),
        ("taught", taught()),
    ];
    for (name, drafter) in &drafters {
        for hops in [hops(&[]), hops(&first), hops(&third)] {
            let request = DraftRequest {
                tenant: &Tenant::default(),
                question: &question,
                hops: &hops,
                limit: 2,
            };
            c.bench_function(&format!("draft/{name}/{} hops", hops.len()), |b| {
                b.iter(|| drafter.draft(black_box(&request)));
            });
        }
    }
}

fn mining(c: &mut Criterion) {
    let trajectory = |n: usize| {
        let name = format!("Name{n} Of The House{}", n % 97);
        let form = n % 200;
        let lookup = |sub_question: String| Lookup {
            sub_question,
            answer: format!("Answer {n}"),
            found: true,
        };
        Trajectory {
            question: format!(
                "When did the {form}th director of film {name} die, and where was it?"
            ),
            hops: vec![
                lookup(format!("Who is the {form}th director of the film {name}?")),
                lookup(format!("When did Answer {n} die?")),
            ],
        }
    };
    let trajectories: Vec<_> = (0..5_000).map(trajectory).collect();
    let mut group = c.benchmark_group("mine");
    group.sample_size(10);
    group.bench_function("5000 trajectories", |b| {
        b.iter(|| mine(black_box(&trajectories), &MineOptions::default()));
    });
}

criterion_group!(benches, drafting, mining);
criterion_main!(benches);
