//! An embedded index of made-up passages, and an encoder that needs no model.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use spechop_ports::{Call, Encoder, PortError, Retriever};
use spechop_qdrant::{Cluster, ClusterOptions, QdrantRetriever, SearchOptions};
use spechop_store::{IndexWriter, Inputs, PassageIndex, PassageRef};
use spechop_testkit::TextVectors;
use tempfile::TempDir;

pub(crate) const WIDTH: usize = 64;

/// The sum of the words: each word has a direction of its own.
pub(crate) fn vector(text: &str, width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    for word in text.to_lowercase().split_whitespace() {
        for (part, components) in sum.chunks_mut(32).enumerate() {
            let digest = Sha256::digest(format!("{word} {part}"));
            for (x, byte) in components.iter_mut().zip(&digest[..]) {
                *x += f32::from(*byte) - 127.5;
            }
        }
    }
    let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt().max(1.0);
    sum.iter().map(|x| x / norm).collect()
}

/// An encoder of this name. That of the index is called `words`.
pub(crate) fn encoder(fingerprint: &'static str, width: usize) -> impl Encoder {
    TextVectors::new(fingerprint, width, move |text: &str| vector(text, width))
}

pub(crate) fn words() -> impl Encoder {
    encoder("words", WIDTH)
}

/// An index of so many passages.
pub(crate) struct World {
    _dir: TempDir,
    pub(crate) index: Arc<PassageIndex>,
}

pub(crate) fn id(number: usize) -> String {
    format!("p-{number:05}")
}

/// Finds this passage before all others.
pub(crate) fn query(number: usize) -> String {
    format!("river{number} flows through france")
}

impl World {
    pub(crate) fn new(passages: usize) -> Self {
        Self::of(passages, "c0")
    }

    pub(crate) fn of(passages: usize, corpus: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let inputs = Inputs {
            corpus_sha256: corpus.to_owned(),
            encoder: "words".to_owned(),
            width: WIDTH,
            text: "text".to_owned(),
            batch_rows: 1,
            shard_rows: 700,
            subset: None,
            extended: false,
            part: None,
        };
        let out = dir.path().join("index");
        let mut writer = IndexWriter::open(&out, inputs).unwrap();
        for number in 0..passages {
            let (id, text) = (id(number), query(number));
            let passage = PassageRef {
                id: &id,
                title: "Rivers of France",
                text: &text,
                ..PassageRef::default()
            };
            writer.push(passage, &vector(&text, WIDTH)).unwrap();
        }
        writer.finish().unwrap();
        let index = PassageIndex::open(&out).unwrap();
        Self {
            _dir: dir,
            index: Arc::new(index),
        }
    }
}

pub(crate) fn searcher(options: &ClusterOptions, collection: &str) -> QdrantRetriever {
    searcher_with(words(), options, collection)
}

pub(crate) fn searcher_with(
    encoder: impl Encoder + 'static,
    options: &ClusterOptions,
    collection: &str,
) -> QdrantRetriever {
    let cluster = Arc::new(Cluster::new(options).unwrap());
    let options = SearchOptions {
        exact: true,
        ..SearchOptions::default()
    };
    QdrantRetriever::new(Arc::new(encoder), cluster, collection, options)
}

/// The first passage that is found for the query of this one.
pub(crate) async fn first(retriever: &dyn Retriever, number: usize) -> Result<String, PortError> {
    let call = Call::authoritative();
    let found = retriever.retrieve(&call, &query(number), 1).await?;
    Ok(found
        .first()
        .map(|passage| passage.id.to_string())
        .unwrap_or_default())
}

/// Every passage is found by its own query.
pub(crate) async fn all_are_there(retriever: &dyn Retriever, passages: usize) {
    for number in 0..passages {
        assert_eq!(first(retriever, number).await.unwrap(), id(number));
    }
}
