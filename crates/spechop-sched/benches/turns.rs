//! What a turn costs: the decision alone, and a whole run of work that is ready at once.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use futures::future::join_all;
use spechop_ports::{Call, Lane, PortError};
use spechop_sched::{
    Backend, Cores, Decisions, Demand, Group, Lanes, Limits, Millicores, Outcome, Rank,
};
use spechop_types::Chance;

const WAITING: u64 = 1000;

fn limits(capacity: usize, speculative_max: usize) -> Limits {
    Limits {
        capacity: NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN),
        rate: None,
        speculative_max,
    }
}

fn speculative(number: u64) -> Rank {
    // A permutation of the numbers below 2⁹, so that arrivals are in no order.
    let utility = (number * 167 % 512) as f32;
    Rank::Speculative { utility }
}

/// Eight run, a thousand guesses wait.
fn crowded() -> (Lanes, Decisions) {
    let (mut lanes, mut out) = (Lanes::new(limits(8, 8)), Decisions::new());
    for number in 0..WAITING + 8 {
        lanes.arrive(Duration::ZERO, speculative(number), &mut out);
    }
    out.clear();
    (lanes, out)
}

fn decisions(criterion: &mut Criterion) {
    let now = Duration::ZERO;
    let mut group = criterion.benchmark_group("decision");
    for (name, rank) in [
        ("authoritative", Rank::Authoritative),
        ("speculative", speculative(7)),
    ] {
        let (mut lanes, mut out) = (Lanes::new(limits(8, 8)), Decisions::new());
        group.bench_function(
            format!("nobody waits, {name} arrives and finishes"),
            |bench| {
                bench.iter(|| {
                    let ticket = lanes.arrive(now, black_box(rank), &mut out);
                    lanes.finish(now, ticket, Outcome::Failed, &mut out);
                    out.clear();
                });
            },
        );
    }
    // A call that comes, makes one end, runs and goes; the next guess is chosen among a thousand.
    let (mut lanes, mut out) = crowded();
    group.bench_function(
        "1,000 wait: one is pre-empted, one ends, the next starts",
        |bench| {
            let mut number = 0;
            bench.iter(|| {
                let needed = lanes.arrive(now, Rank::Authoritative, &mut out);
                let victim = out.pop();
                if let Some(spechop_sched::Decision::Preempt(victim)) = victim {
                    lanes.leave(now, victim, &mut out);
                }
                lanes.finish(now, needed, Outcome::Failed, &mut out);
                out.clear();
                number += 1;
                lanes.arrive(now, speculative(number), &mut out)
            });
        },
    );
    let (mut lanes, mut out) = crowded();
    group.bench_function("1,000 wait: one arrives and leaves", |bench| {
        let mut number = 0;
        bench.iter(|| {
            number += 1;
            let ticket = lanes.arrive(now, speculative(number), &mut out);
            lanes.leave(now, ticket, &mut out);
        });
    });
    group.bench_function("1,000 wait: one is promoted", |bench| {
        bench.iter_batched_ref(
            || {
                let (mut lanes, mut out) = crowded();
                let ticket = lanes.arrive(now, speculative(1), &mut out);
                (lanes, out, ticket)
            },
            |(lanes, out, ticket)| lanes.promote(now, *ticket, out),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

/// Five backends on eight cores, as many as a server has; so many guesses wait at them.
fn sharing(waiting: u64) -> (Group, Decisions) {
    let (mut group, mut out) = (Group::new(Millicores::cores(8)), Decisions::new());
    let demand = Demand {
        each: Millicores::ONE,
        alone: Millicores::ONE,
        guess: Millicores::ONE,
        at_once: 8,
        yields: true,
    };
    for _ in 0..5 {
        group.join(limits(8, 8), demand);
    }
    for number in 0..waiting {
        let member = (number % 5) as u32;
        group.arrive(Duration::ZERO, member, speculative(number), &mut out);
    }
    out.clear();
    (group, out)
}

fn decisions_on_shared_cores(criterion: &mut Criterion) {
    let now = Duration::ZERO;
    let mut bench_group = criterion.benchmark_group("decision on shared cores");
    let (mut group, mut out) = sharing(0);
    bench_group.bench_function(
        "nobody waits, authoritative arrives and finishes",
        |bench| {
            bench.iter(|| {
                let ticket = group.arrive(now, 1, black_box(Rank::Authoritative), &mut out);
                group.finish(now, ticket, Outcome::Failed, &mut out);
                out.clear();
            });
        },
    );
    let (mut group, mut out) = sharing(WAITING + 8);
    bench_group.bench_function(
        "1,000 wait: one is pre-empted, one ends, the next starts",
        |bench| {
            let mut number = 0;
            bench.iter(|| {
                let needed = group.arrive(now, 1, Rank::Authoritative, &mut out);
                let victim = out.pop();
                if let Some(spechop_sched::Decision::Preempt(victim)) = victim {
                    group.leave(now, victim, &mut out);
                }
                group.finish(now, needed, Outcome::Failed, &mut out);
                out.clear();
                number += 1;
                group.arrive(now, (number % 5) as u32, speculative(number), &mut out)
            });
        },
    );
    let (mut group, mut out) = sharing(WAITING + 8);
    bench_group.bench_function("1,000 wait: one arrives and leaves", |bench| {
        let mut number = 0;
        bench.iter(|| {
            number += 1;
            let member = (number % 5) as u32;
            let ticket = group.arrive(now, member, speculative(number), &mut out);
            group.leave(now, ticket, &mut out);
        });
    });
    bench_group.finish();
}

fn runs(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let Ok(runtime) = runtime else { return };
    let mut group = criterion.benchmark_group("run");
    for (name, lane) in [
        ("authoritative", Lane::Authoritative),
        ("speculative", Lane::Speculative),
    ] {
        let backend = Backend::new("bench", limits(8, 8));
        let call = Call::new(lane, Chance::EVEN);
        group.bench_function(format!("uncontended, {name}"), |bench| {
            bench.to_async(&runtime).iter(|| async {
                let work = async { Ok::<_, PortError>(black_box(1)) };
                backend.run(&call, 1.0, work).await
            });
        });
    }
    let cores = Cores::new(Millicores::cores(8));
    let demand = Demand {
        each: Millicores::ONE,
        alone: Millicores::ONE,
        guess: Millicores::ONE,
        at_once: 8,
        yields: true,
    };
    let on = |name: &str| Backend::on(&cores, demand, name, limits(8, 8));
    let shared: Vec<_> = ["a", "b", "c", "d", "e"].map(on).into();
    let call = Call::authoritative();
    group.bench_function("uncontended, authoritative, on shared cores", |bench| {
        bench.to_async(&runtime).iter(|| async {
            let work = async { Ok::<_, PortError>(black_box(1)) };
            shared[0].run(&call, 1.0, work).await
        });
    });
    let backend = Backend::new("bench", limits(8, 4));
    let calls: Vec<Call> = (0..64)
        .map(|n| match n % 2 {
            0 => Call::authoritative(),
            _ => Call::new(Lane::Speculative, Chance::EVEN.pow(n % 5)),
        })
        .collect();
    group.bench_function("64 at once over 8 places, of three turns each", |bench| {
        bench.to_async(&runtime).iter(|| {
            join_all(calls.iter().map(|call| {
                let work = async {
                    tokio::task::yield_now().await;
                    tokio::task::yield_now().await;
                    Ok::<_, PortError>(1)
                };
                backend.run(call, 1.0, work)
            }))
        });
    });
    group.finish();
}

criterion_group!(benches, decisions, decisions_on_shared_cores, runs);
criterion_main!(benches);
