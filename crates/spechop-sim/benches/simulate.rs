//! A drawn question of five hops, drawing included: a million of them should take under ten seconds.

use criterion::{Criterion, criterion_group, criterion_main};
use spechop_sim::{Draw, Simulator};
use spechop_window::Width;

fn simulate(criterion: &mut Criterion) {
    let Some(draw) = Draw::new(0.4, 0.05, 0.1, 0.4, 5) else {
        return;
    };
    let mut group = criterion.benchmark_group("question of 5 hops");
    for k in [1, 3, 8] {
        let width = k.try_into().map_or(Width::UNBOUNDED, Width::bounded);
        let mut simulator = Simulator::new();
        let mut traces = draw.traces(1, u64::MAX);
        group.bench_function(format!("k={k}"), |bench| {
            bench.iter(|| traces.next().map(|trace| simulator.run(&trace, width)));
        });
    }
    group.finish();
}

criterion_group!(benches, simulate);
criterion_main!(benches);
