//! How long one read takes: a sub-question and five passages, of 128 words each or as unlike as those of Wikipedia,
//! all of them or until one is sure, which here is the first.
//!
//! ```text
//! cargo bench -p spechop-embed --bench read
//! ```
//!
//! Needs ONNX Runtime (`make models`). The trained reader comes with the repository.
#![expect(
    clippy::expect_used,
    reason = "a benchmark that cannot be set up has nothing to measure"
)]

use std::num::NonZeroUsize;

use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use spechop_embed::{READER_RECIPE_FILE, ReaderOptions, SpanReader};
use spechop_ports::{Call, ReadRequest, Reader};
use spechop_testkit::assets::{onnxruntime, shipped_model};
use spechop_testkit::passage;
use spechop_types::SubQuestion;

/// How many words each passage has.
const ALIKE: [usize; 5] = [128; 5];
const UNLIKE: [usize; 5] = [60, 190, 35, 130, 85];

/// Words as common as an article's, about 1.3 tokens each.
const TEXT: &str = "Xawery Żuławski ( born 22 December 1971 in Warsaw ) is a Polish film director . \
    In 1995 he graduated National Film School in Łódź . He is the son of actress Małgorzata Braunek \
    and director Andrzej Żuławski . His second feature Wojna polsko - ruska won the main prize in \
    the New Polish Films competition at the festival .";

fn request(lengths: [usize; 5]) -> ReadRequest {
    let words = TEXT.split_whitespace().cycle();
    let passage = |(n, length): (usize, usize)| {
        // Not all alike.
        let words: Vec<_> = words.clone().skip(n).take(length).collect();
        passage(&n.to_string(), "Xawery Żuławski", words.join(" "))
    };
    ReadRequest {
        sub_question: SubQuestion::new("Who is the mother of Xawery Żuławski?"),
        passages: lengths.into_iter().enumerate().map(passage).collect(),
    }
}

/// A copy of the reader that reads all passages.
fn thorough(shipped: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for file in ["model.onnx", "tokenizer.json"] {
        std::fs::copy(shipped.join(file), dir.path().join(file)).expect("a copy");
    }
    let recipe = std::fs::read_to_string(shipped.join(READER_RECIPE_FILE)).expect("a recipe");
    let lines = recipe.lines().filter(|line| !line.starts_with("enough"));
    let recipe = lines.collect::<Vec<_>>().join("\n");
    std::fs::write(dir.path().join(READER_RECIPE_FILE), recipe).expect("a recipe");
    dir
}

fn reads(criterion: &mut Criterion) {
    let shipped = shipped_model("spechop-reader");
    let thorough = thorough(&shipped);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .expect("a runtime");
    let call = Call::authoritative();
    for (name, lengths, dir) in [
        ("all_alike", ALIKE, thorough.path()),
        ("all_unlike", UNLIKE, thorough.path()),
        ("until_sure_unlike", UNLIKE, &shipped),
    ] {
        let mut group = criterion.benchmark_group(format!("read_5_passages_{name}"));
        group.sample_size(20);
        for threads in [1, 2] {
            let mut options = ReaderOptions::new(onnxruntime());
            options.threads = NonZeroUsize::new(threads).expect("not zero");
            let reader = SpanReader::open(dir, &options).expect("it opens");
            group.bench_function(format!("{threads}_threads"), |bencher| {
                bencher.to_async(&runtime).iter(|| async {
                    let reading = reader.read(&call, request(lengths)).await;
                    reading.expect("a reading")
                });
            });
            let counts = reader.counts();
            let tokens = counts.tokens / counts.passages.max(1);
            let passages = counts.passages as f64 / counts.requests.max(1) as f64;
            eprintln!("{tokens} tokens a passage, {passages:.2} passages a read");
        }
        group.finish();
    }
}

criterion_group!(benches, reads);
criterion_main!(benches);
