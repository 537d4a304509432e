//! Pushes an index to a new collection, and compares searches there with the exact search of the index.
//!
//! ```text
//! cargo run --release -p spechop-qdrant --example measure -- INDEX URL [SETTINGS.json]
//! ```
//!
//! The queries are rows of the index with noise, at a cosine of about 0.9 to the row that they come
//! from. They stand for sub-questions, so that no encoder is needed. One JSON object is printed.

#![allow(clippy::print_stdout, reason = "what it is for")]

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_ports::{Call, Encoded, Encoder, PortError, Retriever, TextKind};
use spechop_qdrant::{
    Cluster, ClusterOptions, CollectionSettings, PassageIndex, Push, QdrantRetriever, SearchOptions,
};
use tokio::time::Instant;

const QUERIES: usize = 300;
const LIMIT: usize = 5;
/// The noise of each component, relative to a component of a unit vector: a cosine of about 0.9.
const NOISE: f32 = 0.84;

type Error = Box<dyn std::error::Error>;

/// Knows the vector of each query by its number.
struct Known {
    fingerprint: String,
    vectors: Vec<Vec<f32>>,
}

#[async_trait]
impl Encoder for Known {
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn width(&self) -> usize {
        self.vectors.first().map_or(0, Vec::len)
    }

    async fn encode(
        &self,
        _call: &Call,
        _kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        let vector = |text: &String| {
            let known = text.parse().ok().and_then(|at: usize| self.vectors.get(at));
            known.cloned().ok_or_else(|| {
                PortError::refused("the list of queries", format!("{text:?} is not in it"))
            })
        };
        let vectors: Result<Vec<_>, _> = texts.iter().map(vector).collect();
        Ok(Encoded {
            vectors: vectors?,
            tokens: None,
        })
    }
}

fn queries(index: &PassageIndex) -> Result<Vec<Vec<f32>>, Error> {
    let mut random = StdRng::seed_from_u64(1);
    let width = index.width();
    #[expect(clippy::cast_precision_loss, reason = "a few hundred components")]
    let most = NOISE / (width as f32).sqrt();
    let step = (index.rows() / QUERIES).max(1);
    let rows = (0..index.rows()).step_by(step).take(QUERIES);
    rows.map(|row| {
        let (vector, scale) = index.vector(row)?;
        let noisy = vector.iter().take(width);
        let noisy = noisy.map(|x| f32::from(*x) * scale + random.random_range(-most..most));
        let noisy: Vec<f32> = noisy.collect();
        let norm = noisy.iter().map(|x| x * x).sum::<f32>().sqrt();
        Ok(noisy.iter().map(|x| x / norm).collect())
    })
    .collect()
}

/// Recall against `exact`, and the median and the 99th percentile of the latency in milliseconds.
async fn search(
    retriever: &QdrantRetriever,
    exact: &[Vec<Arc<str>>],
) -> Result<serde_json::Value, Error> {
    let call = Call::authoritative();
    // The first search reads the label, too.
    retriever.retrieve(&call, "0", LIMIT).await?;
    let (mut hits, mut times) = (0, Vec::new());
    for (at, exact) in exact.iter().enumerate() {
        let started = Instant::now();
        let found = retriever.retrieve(&call, &at.to_string(), LIMIT).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        hits += found
            .iter()
            .filter(|passage| exact.contains(&passage.id))
            .count();
    }
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    #[expect(clippy::cast_precision_loss, reason = "a few thousand passages")]
    let recall = hits as f64 / exact.iter().map(Vec::len).sum::<usize>() as f64;
    Ok(serde_json::json!({ "recall_at_5": recall, "ms_p50": at(50), "ms_p99": at(99) }))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, url, settings @ ..] = &arguments[..] else {
        return Err("expected INDEX URL [SETTINGS.json]".into());
    };
    let settings = match settings {
        [file, ..] => CollectionSettings::parse(&std::fs::read_to_string(file)?)?,
        [] => CollectionSettings::default(),
    };
    let index = PassageIndex::open(Path::new(dir))?;
    let queries = queries(&index)?;
    let call = Call::authoritative();
    let mut exact = Vec::new();
    for query in &queries {
        let found = index.search(&call, query, LIMIT).await?;
        exact.push(found.into_iter().map(|passage| passage.id).collect());
    }
    let cluster = Arc::new(Cluster::new(
        &ClusterOptions::new(vec![url.clone()]).patient(),
    )?);
    let collection = format!("measured-{:016x}", rand::random::<u64>());
    let push = Push {
        settings,
        ..Push::new(&collection)
    };
    let started = Instant::now();
    let pushed = push.run(&index, &cluster, &mut |_| {}).await?;
    let seconds = started.elapsed().as_secs_f64();
    let encoder = Arc::new(Known {
        fingerprint: index.inputs().encoder.clone(),
        vectors: queries,
    });
    let mut searches = serde_json::Map::new();
    for (name, exactly) in [("exact", true), ("usual", false)] {
        let options = SearchOptions {
            exact: exactly,
            ..SearchOptions::default()
        };
        let cluster = Arc::clone(&cluster);
        let retriever = QdrantRetriever::new(encoder.clone(), cluster, &collection, options);
        searches.insert(name.to_owned(), search(&retriever, &exact).await?);
    }
    let summary = serde_json::json!({
        "passages": pushed.passages,
        "push_seconds": seconds,
        "queries": exact.len(),
        "collection": collection,
        "searches": searches,
    });
    println!("{summary}");
    Ok(())
}
