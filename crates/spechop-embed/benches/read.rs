//! How long one read takes: a sub-question and five passages of about 128 words.
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

use criterion::{Criterion, criterion_group, criterion_main};
use spechop_embed::{ReaderOptions, SpanReader};
use spechop_ports::{Call, ReadRequest, Reader};
use spechop_testkit::assets::{onnxruntime, shipped_model};
use spechop_types::{Passage, SubQuestion};

const PASSAGES: usize = 5;
const WORDS: usize = 128;

/// Words as common as an article's, about 1.3 tokens each.
const TEXT: &str = "Xawery Żuławski ( born 22 December 1971 in Warsaw ) is a Polish film director . \
    In 1995 he graduated National Film School in Łódź . He is the son of actress Małgorzata Braunek \
    and director Andrzej Żuławski . His second feature Wojna polsko - ruska won the main prize in \
    the New Polish Films competition at the festival .";

fn request() -> ReadRequest {
    let words = TEXT.split_whitespace().cycle();
    let passage = |n: usize| Passage {
        id: n.to_string().into(),
        title: "Xawery Żuławski".into(),
        // Not all alike.
        text: words
            .clone()
            .skip(n)
            .take(WORDS)
            .collect::<Vec<_>>()
            .join(" ")
            .into(),
        url: None,
        score: 1.0,
    };
    ReadRequest {
        sub_question: SubQuestion::new("Who is the mother of Xawery Żuławski?"),
        passages: (0..PASSAGES).map(passage).collect(),
    }
}

fn reads(criterion: &mut Criterion) {
    let dir = shipped_model("spechop-reader");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .expect("a runtime");
    let call = Call::authoritative();
    let mut group = criterion.benchmark_group("read_5_passages_of_128_words");
    group.sample_size(20);
    for threads in [1, 2] {
        let mut options = ReaderOptions::new(onnxruntime());
        options.threads = NonZeroUsize::new(threads).expect("not zero");
        let reader = SpanReader::open(&dir, &options).expect("it opens");
        group.bench_function(format!("{threads}_threads"), |bencher| {
            bencher
                .to_async(&runtime)
                .iter(|| async { reader.read(&call, request()).await.expect("a reading") });
        });
        let counts = reader.counts();
        let tokens = counts.tokens / counts.passages.max(1);
        let padding = counts.padding / counts.passages.max(1);
        eprintln!("{tokens} tokens a passage, {padding} of padding");
    }
    group.finish();
}

criterion_group!(benches, reads);
criterion_main!(benches);
