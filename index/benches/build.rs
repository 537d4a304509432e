//! What a build costs beside the encoder: reading, checking, quantising, writing, reading back.
//!
//! `cargo bench -p spechop-index`
#![expect(
    clippy::expect_used,
    reason = "a benchmark that cannot be set up has nothing to measure"
)]

use std::fmt::Write;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spechop_index::Build;
use spechop_testkit::TextVectors;

const ROWS: usize = 6_120;

fn builds(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let dir = tempfile::tempdir().expect("a folder");
    let mut corpus = String::new();
    let text = "word ".repeat(90);
    for n in 0..ROWS {
        writeln!(
            corpus,
            r#"{{"id":"{n}","title":"Title {n}","text":"{text}"}}"#
        )
        .expect("memory");
    }
    let path = dir.path().join("corpus.jsonl");
    std::fs::write(&path, corpus).expect("a corpus");
    let build = Build::new(&path, dir.path().join("index"));
    let free = TextVectors::new("free", 384, |text: &str| vec![text.len() as f32; 384]);
    let mut group = criterion.benchmark_group("build");
    group
        .throughput(Throughput::Elements(ROWS as u64))
        .sample_size(10);
    group.bench_function("6120 passages, encoder free of cost", |b| {
        b.iter_batched(
            || drop(std::fs::remove_dir_all(&build.out)),
            |()| {
                runtime
                    .block_on(build.run(&free, &mut |_| {}))
                    .expect("an index")
            },
            criterion::BatchSize::PerIteration,
        );
    });
    group.bench_function("up to date", |b| {
        b.iter(|| {
            runtime
                .block_on(build.run(&free, &mut |_| {}))
                .expect("an index")
        });
    });
    group.finish();
}

criterion_group!(benches, builds);
criterion_main!(benches);
