//! A drawn question of five hops, drawing included: a million of them should take under ten seconds.

use criterion::{Criterion, criterion_group, criterion_main};
use spechop_sim::{Chances, Draw, Rules, Shape, Simulator};
use spechop_window::{Policy, Width};

fn simulate(criterion: &mut Criterion) {
    let mut shape = Shape::chain(5);
    let chances = Chances::paper(0.4, 0.05, 0.1, 0.4);
    let chain = Draw::new(chances, &[shape.clone()]);
    // Two chains side by side: half of what is rolled back can be salvaged.
    shape.depends_on = [&[][..], &[1], &[], &[3], &[4]]
        .map(|all| Some(all.to_vec()))
        .into();
    let salvage = Draw::new(chances, &[shape]);
    let (Some(chain), Some(salvage)) = (chain, salvage) else {
        return;
    };
    let mut group = criterion.benchmark_group("question of 5 hops");
    for (name, draw, policy) in [
        ("paper", chain, Policy::PAPER),
        ("salvage", salvage, Policy::default()),
    ] {
        for k in [1, 3, 8] {
            let width = k.try_into().map_or(Width::UNBOUNDED, Width::bounded);
            let mut simulator = Simulator::new();
            let mut traces = draw.traces(1, u64::MAX);
            let rules = Rules::new(width, policy);
            group.bench_function(format!("{name}, k={k}"), |bench| {
                bench.iter(|| traces.next().map(|trace| simulator.run(&trace, rules)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, simulate);
criterion_main!(benches);
