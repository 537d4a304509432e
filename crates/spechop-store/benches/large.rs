//! A large index against the machine's memory: one query, eight in one pass, 64 at once.
//!
//! ```text
//! cargo bench -p spechop-store --bench large -- --index DIR [--export DIR] [--json]
//! ```
//!
//! `eval/bench/search_baseline.py` makes the index, and runs this and other engines by turns.
//! With `--export`, the rows are written for them: `rows.i8`, `scales.f32` and `queries.f32`. Queries are
//! rows with noise, at a cosine of about 0.9 to the row that they come from.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark prints, and ends at the first mistake"
)]

use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_ports::Call;
use spechop_store::{PassageIndex, Query};
use tokio::task::JoinSet;
use tokio::time::Instant;

const LIMIT: usize = 5;
const QUERIES: usize = 64;
const ROUNDS: usize = 15;
/// The noise of each component, relative to a component of a unit vector: a cosine of about 0.9.
const NOISE: f32 = 0.84;
/// Bytes that are summed up to see what the memory gives.
const MEMORY_BYTES: usize = 1 << 29;

#[derive(Default)]
struct Args {
    index: PathBuf,
    export: Option<PathBuf>,
    json: bool,
}

fn arguments() -> Args {
    let mut args = Args::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match &*word {
            "--index" => args.index = words.next().expect("a folder").into(),
            "--export" => args.export = Some(words.next().expect("a folder").into()),
            "--json" => args.json = true,
            // Cargo's own.
            "--bench" => {}
            other => panic!("{other} is no argument of this benchmark"),
        }
    }
    args
}

fn main() {
    let args = arguments();
    // `make bench` runs every benchmark, and names no index.
    if args.index.as_os_str().is_empty() {
        println!("--index DIR is missing: `make bench-search` makes an index and names it");
        return;
    }
    let opened = median(5, || drop(PassageIndex::open(&args.index)));
    let index = PassageIndex::open(&args.index).expect("an index");
    let queries = queries(&index);
    if let Some(dir) = &args.export {
        return export(&index, &queries, dir);
    }
    let prepared: Vec<Query> = queries
        .iter()
        .map(|vector| Query::new(vector, LIMIT).expect("finite"))
        .collect();
    let row_bytes = index.rows() * index.vector(0).expect("a row").0.len();
    // Every row has been touched then.
    index.scan(&prepared[..1]).expect("hits");
    let resident = resident_bytes();

    let memory = memory_bytes_per_second();
    let one = median(ROUNDS, || drop(index.scan(&prepared[..1])));
    let eight = median(ROUNDS, || drop(index.scan(&prepared[..8])));
    let (p50, p99) = at_once(&Arc::new(index), &queries);

    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let bandwidth = row_bytes as f64 / one.as_secs_f64();
    let shares = (
        bandwidth / memory,
        eight.as_secs_f64() / 8.0 / one.as_secs_f64(),
        resident as f64 / row_bytes as f64,
        p99.as_secs_f64() / p50.as_secs_f64(),
    );
    if args.json {
        println!(
            "{{\"open_ms\":{:.3},\"one_ms\":{:.3},\"eight_ms\":{:.3},\"at_once_p50_ms\":{:.3},\
             \"at_once_p99_ms\":{:.3},\"memory_gb_s\":{:.2},\"of_memory\":{:.3},\"eight_each\":{:.3},\
             \"resident\":{:.3},\"p99_to_p50\":{:.3}}}",
            ms(opened),
            ms(one),
            ms(eight),
            ms(p50),
            ms(p99),
            memory / 1e9,
            shares.0,
            shares.1,
            shares.2,
            shares.3
        );
        return;
    }
    println!("opened in {:.1} ms", ms(opened));
    println!(
        "one query {:.2} ms: {:.1} GB/s, {:.0} % of the {:.1} GB/s that one thread can read",
        ms(one),
        bandwidth / 1e9,
        shares.0 * 100.0,
        memory / 1e9
    );
    println!(
        "eight in one pass {:.2} ms: each {:.0} % of one alone",
        ms(eight),
        shares.1 * 100.0
    );
    println!(
        "{QUERIES} at once: p50 {:.1} ms, p99 {:.1} ms, {:.2} times that",
        ms(p50),
        ms(p99),
        shares.3
    );
    println!("resident: {:.2} times the bytes of the rows", shares.2);
}

fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[rounds / 2]
}

fn queries(index: &PassageIndex) -> Vec<Vec<f32>> {
    let mut random = StdRng::seed_from_u64(1);
    let unit = 1.0 / (index.width() as f32).sqrt();
    (0..QUERIES)
        .map(|_| {
            let row = random.random_range(0..index.rows());
            let (vector, scale) = index.vector(row).expect("a row");
            vector
                .iter()
                .take(index.width())
                .map(|x| f32::from(*x) * scale + NOISE * unit * random.random_range(-1f32..1.0))
                .collect()
        })
        .collect()
}

/// What one thread can read from memory, in bytes a second.
fn memory_bytes_per_second() -> f64 {
    let words = vec![1u64; MEMORY_BYTES / 8];
    let time = median(ROUNDS, || {
        let sum = black_box(&words)
            .iter()
            .fold(0u64, |sum, word| sum.wrapping_add(*word));
        black_box(sum);
    });
    MEMORY_BYTES as f64 / time.as_secs_f64()
}

/// As many callers as queries, each of whom asks one after the other.
fn at_once(index: &Arc<PassageIndex>, queries: &[Vec<f32>]) -> (Duration, Duration) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .expect("a runtime");
    let mut times: Vec<Duration> = runtime.block_on(async {
        let mut callers = JoinSet::new();
        for vector in queries {
            let (index, vector) = (Arc::clone(index), vector.clone());
            callers.spawn(async move {
                let call = Call::authoritative();
                let mut times = Vec::new();
                for _ in 0..ROUNDS {
                    let start = Instant::now();
                    index.search(&call, &vector, LIMIT).await.expect("hits");
                    times.push(start.elapsed());
                }
                times
            });
        }
        let mut times = Vec::new();
        while let Some(caller) = callers.join_next().await {
            times.extend(caller.expect("an end"));
        }
        times
    });
    times.sort();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

/// Of this process, files that are mapped included.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.expect("a size").parse::<usize>().expect("a number") * 1024
}

fn export(index: &PassageIndex, queries: &[Vec<f32>], dir: &Path) {
    std::fs::create_dir_all(dir).expect("a folder");
    let create = |name: &str| {
        let file = std::fs::File::create(dir.join(name)).expect("a file");
        BufWriter::with_capacity(1 << 20, file)
    };
    let (mut rows, mut scales) = (create("rows.i8"), create("scales.f32"));
    for row in 0..index.rows() {
        let (vector, scale) = index.vector(row).expect("a row");
        let bytes: Vec<u8> = vector[..index.width()]
            .iter()
            .map(|x| x.cast_unsigned())
            .collect();
        rows.write_all(&bytes).expect("room");
        scales.write_all(&scale.to_le_bytes()).expect("room");
    }
    let mut file = create("queries.f32");
    for component in queries.iter().flatten() {
        file.write_all(&component.to_le_bytes()).expect("room");
    }
}
