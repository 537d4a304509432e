//! Look-ups over the local web, which is slow by script: what a look-up takes behind its search if all
//! its pages are broken, and what 64 at once do to each other.
//!
//! `cargo bench -p spechop-eval --bench lookups`; `-- at-once` leaves the broken pages out, which take minutes.
//!
//! Each part is measured twice: passages ranked by the real encoder (two cores have much to do if 64
//! look-ups rank 8 passages each), and by one that costs nothing, so that search and pages stand alone.
//! The script has a small deviation, so that what differs is the program's doing.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark prints, ends at the first mistake, and its web ends with it"
)]

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use parking_lot::Mutex;
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_eval::dataset::passages;
use spechop_eval::web::{Latency, Web, WebOptions};
use spechop_eval::{Dataset, load};
use spechop_ports::{Call, Encoder, Retriever, SearchFailure, SearchProvider, SearchResult};
use spechop_testkit::{TextVectors, assets};
use spechop_types::ms;
use spechop_web::WebRetriever;
use spechop_web::page::{HttpPageReader, PageOptions};
use spechop_web::search::{EngineKind, SearchEngine};
use tokio::net::TcpListener;
use tokio::time::Instant;

const MEAN_MS: f64 = 4150.0;
const SIGMA_MS: f64 = 40.0;
const AT_ONCE: usize = 64;
const ROUNDS: usize = 3;
const PASSAGES: usize = 5;

/// Notes when each search has ended, by its query.
struct Noting {
    searxng: Arc<dyn SearchProvider>,
    ended: Mutex<Vec<(String, Instant)>>,
}

impl Noting {
    fn ended(&self, query: &str) -> Option<Instant> {
        let ended = self.ended.lock();
        ended
            .iter()
            .rev()
            .find(|one| one.0 == query)
            .map(|one| one.1)
    }
}

#[async_trait]
impl SearchProvider for Noting {
    fn name(&self) -> &str {
        self.searxng.name()
    }

    async fn search_streaming(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
        _: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        let found = self.searxng.search(call, query, limit).await;
        let mut ended = self.ended.lock();
        ended.push((query.to_owned(), Instant::now()));
        found
    }
}

fn shipped(file: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/datasets/2wikimultihopqa/"
    ))
    .join(file)
}

/// A web, this share of whose pages is broken, and its look-ups.
async fn over(broken: f64, encoder: Arc<dyn Encoder>) -> (WebRetriever, Arc<Noting>) {
    let corpus = passages(&[shipped("corpus.jsonl.gz")]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = WebOptions {
        latency: Latency::new(MEAN_MS, SIGMA_MS, 1).unwrap(),
        broken,
        ..WebOptions::default()
    };
    tokio::spawn(Web::new(corpus, options).serve(listener));
    let mut searxng = SearchEngine::new(EngineKind::Searxng {
        engines: None,
        language: None,
    });
    searxng.endpoint.base_url = format!("http://{address}");
    let search = Arc::new(Noting {
        searxng: searxng.open().unwrap(),
        ended: Mutex::default(),
    });
    let pages = PageOptions {
        allow: vec![address.to_string().parse().unwrap()],
        robots: false,
        ..PageOptions::default()
    };
    let pages = Arc::new(HttpPageReader::new(pages).unwrap());
    let web = WebRetriever::new(
        search.clone(),
        pages,
        encoder,
        spechop_web::WebRetrieverOptions::default(),
    );
    (web, search)
}

/// Milliseconds, and how many passages were found; those of a failed look-up are none.
async fn look_up(web: &WebRetriever, query: &str) -> (f64, usize) {
    let started = Instant::now();
    let found = web.retrieve(&Call::authoritative(), query, PASSAGES).await;
    (ms(started.elapsed()), found.map_or(0, |found| found.len()))
}

/// Nearest rank.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// One look-up after the other, every page broken in one way or another: from the end of the search.
async fn broken(encoder: Arc<dyn Encoder>, queries: &[String]) {
    let (web, search) = over(1.0, encoder).await;
    let (mut behind, mut empty) = (Vec::new(), 0);
    for query in queries {
        let (_, found) = look_up(&web, query).await;
        behind.extend(search.ended(query).map(|end| ms(end.elapsed())));
        empty += usize::from(found == 0);
    }
    behind.sort_by(f64::total_cmp);
    println!(
        "  every page broken, {} look-ups one by one: behind the search p50 {:.0} ms, at most {:.0} ms; {empty} found nothing",
        queries.len(),
        quantile(&behind, 0.5),
        quantile(&behind, 1.0),
    );
}

async fn at_once(encoder: Arc<dyn Encoder>, queries: &[String]) {
    let (web, _) = over(0.0, encoder).await;
    let (alone, _) = look_up(&web, &queries[AT_ONCE * ROUNDS]).await;
    let mut all = Vec::new();
    for round in 0..ROUNDS {
        let queries = &queries[round * AT_ONCE..][..AT_ONCE];
        let times = join_all(queries.iter().map(|query| look_up(&web, query))).await;
        all.extend(times.into_iter().map(|(ms, _)| ms));
    }
    all.sort_by(f64::total_cmp);
    let (p50, p99) = (quantile(&all, 0.5), quantile(&all, 0.99));
    println!(
        "  one alone {alone:.0} ms; {AT_ONCE} at once, {ROUNDS} rounds: p50 {p50:.0} ms, p99 {p99:.0} ms, p99 / p50 {:.2}",
        p99 / p50
    );
}

fn main() {
    if spechop_testkit::bench_arguments().is_none() {
        return;
    }
    let questions = load(Dataset::Wiki, &[shipped("questions.jsonl.gz")]).unwrap();
    let mut queries: Vec<String> = questions
        .iter()
        .flat_map(|question| {
            question
                .hops
                .iter()
                .map(|hop| hop.asks.replace(" >> ", " "))
        })
        .collect();
    queries.sort();
    queries.dedup();
    let options = EncoderOptions::new(assets::onnxruntime());
    let real = OnnxEncoder::open(&assets::default_encoder(), &options.side_by_side()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let all = !std::env::args().any(|argument| argument == "at-once");
    println!("search and slowest page {MEAN_MS} ms by script, sigma {SIGMA_MS} ms; 5 pages");
    for (name, encoder) in [
        (
            "ranked for nothing",
            Arc::new(TextVectors::alike()) as Arc<dyn Encoder>,
        ),
        ("ranked by the encoder", Arc::new(real)),
    ] {
        println!("{name}");
        if all {
            runtime.block_on(broken(Arc::clone(&encoder), &queries[..30]));
        }
        runtime.block_on(at_once(encoder, &queries));
    }
}
