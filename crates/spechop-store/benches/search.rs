//! Searches over an index of the size of the demo's, and over a larger one.
//!
//! `cargo bench -p spechop-store`
#![expect(
    clippy::expect_used,
    reason = "a benchmark that cannot be set up has nothing to measure"
)]

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_ports::Call;
use spechop_store::{IndexWriter, Inputs, PassageIndex, PassageRef, Query};

const WIDTH: usize = 384;
const LIMIT: usize = 5;

fn vector(random: &mut StdRng) -> Vec<f32> {
    (0..WIDTH)
        .map(|_| random.random_range(-1f32..1.0))
        .collect()
}

fn write(dir: &Path, rows: usize) {
    let inputs = Inputs {
        corpus_sha256: String::new(),
        encoder: "random".into(),
        width: WIDTH,
        text: String::new(),
        batch_rows: 256,
        shard_rows: 1 << 16,
        subset: None,
        extended: false,
        part: None,
    };
    let mut writer = IndexWriter::open(dir, inputs).expect("a folder");
    let mut random = StdRng::seed_from_u64(1);
    let text = "x".repeat(400);
    for row in 0..rows {
        let id = row.to_string();
        let passage = PassageRef {
            id: &id,
            title: "A title",
            text: &text,
            ..PassageRef::default()
        };
        writer.push(passage, &vector(&mut random)).expect("room");
    }
    writer.finish().expect("an index");
}

fn searches(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build();
    let runtime = runtime.expect("a runtime");
    for rows in [6_120, 200_000] {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), rows);
        let index = PassageIndex::open(dir.path()).expect("an index");
        let mut random = StdRng::seed_from_u64(2);
        let vectors: Vec<_> = (0..8).map(|_| vector(&mut random)).collect();
        let query = |v: &Vec<f32>| Query::new(v, LIMIT).expect("finite");
        let queries: Vec<Query> = vectors.iter().map(query).collect();
        let mut group = criterion.benchmark_group(format!("{rows} rows"));
        group.bench_function("open", |b| b.iter(|| PassageIndex::open(dir.path())));
        group.bench_function("scan, 1 query", |b| b.iter(|| index.scan(&queries[..1])));
        group.throughput(Throughput::Elements(8));
        group.bench_function("scan, 8 queries in one pass", |b| {
            b.iter(|| index.scan(&queries));
        });
        group.throughput(Throughput::Elements(1));
        // With the way to the index's thread and back, and the passages' text.
        group.bench_function("search", |b| {
            let call = Call::authoritative();
            b.to_async(&runtime)
                .iter(|| async { index.search(&call, &vectors[0], LIMIT).await.expect("hits") });
        });
        group.finish();
    }
}

criterion_group!(benches, searches);
criterion_main!(benches);
