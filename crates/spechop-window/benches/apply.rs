//! One event of the window at k = 8: a whole question of accepted and rejected hops, per event.

mod question;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use question::{question, texts};
use spechop_window::{Event, Policy, Window};

fn apply(criterion: &mut Criterion) {
    let (asked, right, wrong) = texts();
    let play = |policy, hops| {
        let apply = |window: &mut Window, event: Event| window.apply(event);
        question(policy, hops, &asked, &right, &wrong, apply)
    };
    let mut group = criterion.benchmark_group("apply");
    for (name, policy) in [("paper", Policy::PAPER), ("salvage", Policy::default())] {
        for hops in [5, 16] {
            group.throughput(Throughput::Elements(play(policy, hops)));
            group.bench_function(format!("{name}, k=8, {hops} hops"), |bench| {
                bench.iter(|| play(policy, hops));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, apply);
criterion_main!(benches);
