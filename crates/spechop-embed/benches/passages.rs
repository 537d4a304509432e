//! Passages a second, on a real corpus, and the time of a single query.
//!
//! ```text
//! cargo bench -p spechop-embed --bench passages -- [--corpus FILE.jsonl[.gz]] [--limit N]
//!     [--threads N] [--one-session] [--run-tokens N] [--model NAME] [--json]
//! ```
//!
//! Opening the model is not counted, tokenising is. `eval/bench/embed_baseline.py --against` runs
//! this and the same work in Python by turns, and prints the ratio.
#![expect(clippy::print_stdout, reason = "a benchmark's result")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_ports::{Call, Encoder, TextKind};
use spechop_testkit::assets::{model_dir, onnxruntime};
use tokio::time::Instant;

const BATCH_PASSAGES: usize = 512;
const QUERIES: usize = 50;

struct Args {
    corpus: PathBuf,
    limit: usize,
    model: String,
    options: EncoderOptions,
    json: bool,
}

#[derive(Deserialize)]
struct Passage {
    title: String,
    text: String,
}

fn main() -> anyhow::Result<()> {
    let args = arguments(std::env::args().skip(1))?;
    let texts = read(&args.corpus, args.limit)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;

    let start = Instant::now();
    let encoder = OnnxEncoder::open(&model_dir(&args.model), &args.options)?;
    let open_s = start.elapsed().as_secs_f64();

    let call = Call::authoritative();
    let start = Instant::now();
    let mut done = 0;
    for batch in texts.chunks(BATCH_PASSAGES) {
        let encoded = encoder.encode(&call, TextKind::Passage, batch.to_vec());
        done += runtime.block_on(encoded)?.vectors.len();
        eprint!("\r{done}/{} passages ", texts.len());
    }
    let passages_s = start.elapsed().as_secs_f64();
    eprintln!();
    let counts = encoder.counts();

    let mut query_ms = Vec::with_capacity(QUERIES);
    for text in texts.iter().take(QUERIES) {
        let query: String = text.split_inclusive(' ').take(12).collect();
        let start = Instant::now();
        runtime.block_on(encoder.encode_query(&call, &query))?;
        query_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    query_ms.sort_by(f64::total_cmp);
    let query_ms_p50 = query_ms
        .get(query_ms.len() / 2)
        .copied()
        .unwrap_or_default();

    let rate = done as f64 / passages_s;
    let tokens_mean = counts.tokens as f64 / done as f64;
    let padding = counts.padding as f64 / (counts.tokens + counts.padding) as f64;
    if args.json {
        println!(
            "{{\"passages\":{done},\"seconds\":{passages_s:.3},\"passages_per_second\":{rate:.2},\
             \"tokens_mean\":{tokens_mean:.1},\"padding_share\":{padding:.4},\"threads\":{},\
             \"sessions\":{},\"open_seconds\":{open_s:.3},\"query_ms_p50\":{query_ms_p50:.2}}}",
            args.options.threads, args.options.sessions
        );
    } else {
        println!(
            "{done} passages in {passages_s:.1} s: {rate:.1} a second on {} × {} threads \
             ({tokens_mean:.0} tokens a passage, {:.1} % padding); opened in {open_s:.2} s; \
             a query takes {query_ms_p50:.1} ms (median of {QUERIES})",
            args.options.sessions,
            args.options.threads,
            padding * 100.0
        );
    }
    Ok(())
}

fn arguments(mut words: impl Iterator<Item = String>) -> anyhow::Result<Args> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut args = Args {
        corpus: root.join("eval/datasets/2wikimultihopqa/corpus.jsonl.gz"),
        limit: usize::MAX,
        model: "e5-small-v2".to_owned(),
        options: EncoderOptions::new(onnxruntime()),
        json: false,
    };
    let mut one_session = false;
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} wants a value"))
        };
        match word.as_str() {
            // Cargo says so to every benchmark.
            "--bench" => {}
            "--one-session" => one_session = true,
            "--json" => args.json = true,
            "--corpus" => args.corpus = value()?.into(),
            "--limit" => args.limit = value()?.parse()?,
            "--model" => args.model = value()?,
            "--threads" => args.options.threads = value()?.parse::<NonZeroUsize>()?,
            "--run-tokens" => args.options.run_tokens_max = value()?.parse::<NonZeroUsize>()?,
            _ => bail!("unknown argument {word}"),
        }
    }
    // As an index is built, unless told otherwise.
    if !one_session {
        args.options = args.options.side_by_side();
    }
    Ok(args)
}

fn read(path: &Path, limit: usize) -> anyhow::Result<Vec<String>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let plain: Box<dyn Read> = if path.extension().is_some_and(|e| e == "gz") {
        Box::new(flate2::read::GzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut texts = Vec::new();
    for line in BufReader::new(plain).lines().take(limit) {
        let Passage { title, text } = serde_json::from_str(&line?)?;
        texts.push(format!("{title}. {text}"));
    }
    Ok(texts)
}
