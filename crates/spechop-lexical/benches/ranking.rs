//! What words take: building the postings of a corpus, their bytes, and a query.
//!
//! Times are processor time of this thread, so that other work on the machine does not count.
//!
//! Texts of 90 words that are as frequent as words are (Zipf's law over 300,000 words).
//!
//! `cargo bench -p spechop-lexical -- --bench 100000` takes another number of texts than 20,000.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark measures and prints, and without its law it has nothing to measure"
)]

use std::fs;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use spechop_lexical::Builder;

const TEXTS: usize = 20_000;
const WORDS: usize = 90;
/// Texts between two looks at the clock.
const BATCH: usize = 1000;
const VOCABULARY: f32 = 300_000.0;
/// A sub-question: words as frequent as those of texts.
const ASKED: usize = 10;
const QUERIES: u32 = 50;

fn main() {
    let texts = std::env::args().find_map(|word| word.parse().ok());
    let texts = texts.unwrap_or(TEXTS);
    let zipf = Zipf::new(VOCABULARY, 1.0).expect("a law");
    let mut random = StdRng::seed_from_u64(1);
    let mut text = |words: usize| {
        let word = |_| format!("w{}", random.sample(zipf) as u32);
        (0..words).map(word).collect::<Vec<_>>().join(" ")
    };
    let mut builder = Builder::default();
    let mut took = Duration::ZERO;
    for batch in (0..texts).step_by(BATCH) {
        let batch: Vec<String> = (batch..texts.min(batch + BATCH))
            .map(|_| text(WORDS))
            .collect();
        let started = cpu();
        batch.iter().for_each(|text| builder.push(text));
        took += cpu() - started;
    }
    let started = cpu();
    let ranking = builder.finish();
    took += cpu() - started;
    let mib = ranking.bytes() as f64 / f64::from(1 << 20);
    println!(
        "{texts} texts: built in {:.2} s, {mib:.1} MiB",
        took.as_secs_f64()
    );
    let queries: Vec<String> = (0..QUERIES).map(|_| text(ASKED)).collect();
    let started = cpu();
    let sum: f32 = queries.iter().flat_map(|query| ranking.shares(query)).sum();
    let each = (cpu() - started) / QUERIES;
    println!(
        "a query of {ASKED} words: {:.2} ms ({sum:.0})",
        each.as_secs_f64() * 1e3
    );
}

/// What this thread has computed so far.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = stat.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the time on the processor"))
}
