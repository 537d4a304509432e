//! What the engine itself costs: scripted tools without latency, everything but gRPC.

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spechop_agent::{Agent, Ports, Settings, Width};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Question;
use spechop_verifier::Mode;

fn overhead(criterion: &mut Criterion) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
    else {
        return;
    };
    let Ok(question) = Question::new("Who is the mother of the director?") else {
        return;
    };
    let hops = 8_u32;
    let port = Arc::new(ScriptedPorts::new(Script::instant(hops as usize)));
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: port.clone(),
        speculator: Some(port),
    });
    let mut group = criterion.benchmark_group("overhead per hop");
    group.throughput(Throughput::Elements(u64::from(hops)));
    for k in [1, 4] {
        let settings = Settings {
            width: k.try_into().map_or(Width::UNBOUNDED, Width::bounded),
            hops_max: hops,
            verifier: Mode::Exact,
            ..Settings::default()
        };
        group.bench_function(format!("k={k}, {hops} hops"), |bench| {
            bench.to_async(&runtime).iter(|| async {
                let mut events = 0_u32;
                let report = agent
                    .answer(&question, &settings, &mut |_| events += 1)
                    .await;
                (report.is_ok(), events)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, overhead);
criterion_main!(benches);
