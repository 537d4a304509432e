//! The real encoder over a slice of the real corpus.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use flate2::read::GzDecoder;
use serde_json::Value;
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_index::{Build, Hot};
use spechop_ports::{Call, Encoded, Encoder, PortError, Retriever, TextKind};
use spechop_store::{IndexRetriever, PassageIndex, Query};
use spechop_testkit::assets;
use tokio::sync::Mutex;

const PASSAGES: usize = 300;

/// Remembers the vectors that went into the index, for comparison.
struct Recording {
    encoder: OnnxEncoder,
    vectors: Mutex<Vec<Vec<f32>>>,
}

#[async_trait]
impl Encoder for Recording {
    fn fingerprint(&self) -> &str {
        self.encoder.fingerprint()
    }

    fn width(&self) -> usize {
        self.encoder.width()
    }

    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        let encoded = self.encoder.encode(call, kind, texts).await?;
        if kind == TextKind::Passage {
            let mut vectors = self.vectors.lock().await;
            vectors.extend_from_slice(&encoded.vectors);
        }
        Ok(encoded)
    }
}

#[tokio::test]
async fn finds_real_passages_as_exact_vectors_would() {
    let datasets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../eval/datasets/2wikimultihopqa");
    let dir = tempfile::tempdir().unwrap();
    let corpus = dir.path().join("corpus.jsonl");
    let mut whole = String::new();
    let gzip = std::fs::File::open(datasets.join("corpus.jsonl.gz")).unwrap();
    GzDecoder::new(gzip).read_to_string(&mut whole).unwrap();
    let slice: Vec<&str> = whole.lines().take(PASSAGES).collect();
    std::fs::write(&corpus, slice.join("\n")).unwrap();

    let options = EncoderOptions::new(assets::onnxruntime());
    let encoder = OnnxEncoder::open(&assets::model_dir("e5-small-v2"), &options).unwrap();
    let recording = Arc::new(Recording {
        encoder,
        vectors: Mutex::default(),
    });
    let encoder: Arc<dyn Encoder> = recording.clone();
    let mut build = Build::new(&corpus, dir.path().join("index"));
    build.batch_rows = 64;
    build.shard_rows = 128;
    build.hot = Some(Hot {
        fraction: 0.25,
        in_degree: Some(datasets.join("in_degree.jsonl.gz")),
    });
    let built = build.run(&*encoder, &mut |_| {}).await.unwrap();
    assert_eq!((built.rows, built.hot_rows), (PASSAGES, Some(75)));

    let open = |dir: &Path| Arc::new(PassageIndex::open(dir).unwrap());
    let index = open(&build.out);
    let retriever = IndexRetriever::new(Arc::clone(&encoder), Arc::clone(&index)).unwrap();
    spechop_ports::contract::retriever(&retriever).await;
    let hot = IndexRetriever::new(Arc::clone(&encoder), open(&build.out.join("hot"))).unwrap();
    spechop_ports::contract::retriever(&hot).await;

    // A passage is found by its title.
    let call = Call::authoritative();
    let records: Vec<Value> = slice
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut found = 0;
    for record in records.iter().step_by(10) {
        let title = record["title"].as_str().unwrap();
        let hits = retriever.retrieve(&call, title, 5).await.unwrap();
        found += usize::from(
            hits.iter()
                .any(|hit| *hit.id == *record["id"].as_str().unwrap()),
        );
    }
    assert!(found >= 28, "{found} of 30 titles found their passage");

    // Eight bits find what 32 find.
    let vectors = recording.vectors.lock().await;
    assert_eq!(vectors.len(), PASSAGES);
    let (mut same, mut wanted) = (0, 0);
    for record in records.iter().step_by(10) {
        let question = format!("Who is {}?", record["title"].as_str().unwrap());
        let query = encoder.encode_query(&call, &question).await.unwrap();
        let dot = |row: usize| -> f32 { vectors[row].iter().zip(&query).map(|(a, b)| a * b).sum() };
        let mut exact: Vec<usize> = (0..PASSAGES).collect();
        exact.sort_by(|a, b| dot(*b).total_cmp(&dot(*a)));
        let hits = &index.scan(&[Query::new(&query, 10).unwrap()]).unwrap()[0];
        same += hits
            .iter()
            .filter(|hit| exact[..10].contains(&hit.row))
            .count();
        wanted += 10;
    }
    let recall = same as f64 / f64::from(wanted);
    eprintln!("recall@10 of int8 against f32 on real vectors: {recall:.3}");
    assert!(recall >= 0.95, "recall@10 {recall}");
}
