//! An embedded index of made-up passages, and an encoder that needs no model.

use std::sync::Arc;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use spechop_ports::{Call, Encoder, PortError, Retriever};
use spechop_qdrant::{Cluster, ClusterOptions, QdrantRetriever, SearchOptions};
use spechop_store::{IndexWriter, Inputs, PassageIndex, PassageRef};
use tempfile::TempDir;

pub(crate) const WIDTH: usize = 64;

/// The sum of the words: each word has a direction of its own.
pub(crate) struct Words {
    pub(crate) fingerprint: &'static str,
    pub(crate) width: usize,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            fingerprint: "words",
            width: WIDTH,
        }
    }
}

impl Words {
    fn encode(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0; self.width];
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
}

#[async_trait]
impl Encoder for Words {
    fn fingerprint(&self) -> &str {
        self.fingerprint
    }

    fn width(&self) -> usize {
        self.width
    }

    async fn encode_query(&self, _call: &Call, text: &str) -> Result<Vec<f32>, PortError> {
        Ok(self.encode(text))
    }

    async fn encode_passages(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, PortError> {
        Ok(texts.iter().map(|text| self.encode(text)).collect())
    }
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
            encoder: Words::default().fingerprint.to_owned(),
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
            writer
                .push(passage, &Words::default().encode(&text))
                .unwrap();
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
    searcher_with(Words::default(), options, collection)
}

pub(crate) fn searcher_with(
    encoder: Words,
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

impl Words {
    /// Where a query for "strange" points to.
    pub(crate) fn default_vector() -> Vec<f32> {
        Self::default().encode("strange")
    }
}
