//! Asks every retriever the same look-ups, and keeps what each found.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spechop_ports::{Call, Encoder, Retriever, TextKind};
use spechop_store::{IndexRetriever, PassageIndex};

use super::searched::Searched;
use super::{DEPTH, LookUps, RetrievalError};

/// Passages that are encoded at once.
const BATCH: usize = 256;

/// What a retriever found for a look-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The corpus that was searched.
    pub corpus: String,
    /// Who searched.
    pub retriever: String,
    /// The question.
    pub id: String,
    /// The number of the hop that was asked, from 0; none if the question itself was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<usize>,
    /// The ids of the first passages, best first.
    pub found: Vec<String>,
}

/// The retrievers that are compared.
pub struct Measurement {
    encoder: Arc<dyn Encoder>,
    /// The vectors of all rows as the encoder gave them, if they are compared, too.
    exact: Option<Vec<Vec<f32>>>,
    /// How much words count in the mixture, if there is one.
    weight: Option<f32>,
    /// Further retrievers over the whole index, by name: hot subsets and others.
    further: Vec<(String, Arc<dyn Retriever>)>,
}

impl Measurement {
    /// The index's own rows, and BM25.
    ///
    /// # Errors
    ///
    /// The index was built with another encoder.
    pub fn new(encoder: Arc<dyn Encoder>, index: &PassageIndex) -> Result<Self, RetrievalError> {
        let built_with = &index.inputs().encoder;
        if built_with != encoder.fingerprint() || index.width() != encoder.width() {
            return Err(RetrievalError::Encoder {
                built_with: built_with.clone(),
                in_use: encoder.fingerprint().to_owned(),
            });
        }
        Ok(Self {
            encoder,
            exact: None,
            weight: None,
            further: Vec::new(),
        })
    }

    /// Words count so much beside the index's rows.
    #[must_use]
    pub fn mixing(self, weight: f32) -> Self {
        let weight = Some(weight);
        Self { weight, ..self }
    }

    /// Another retriever over the whole index.
    pub fn add(&mut self, name: String, retriever: Arc<dyn Retriever>) {
        self.further.push((name, retriever));
    }

    /// A hot subset, or another index of the same encoder.
    ///
    /// # Errors
    ///
    /// It was built with another encoder, or is a part of an index.
    pub fn add_index(&mut self, name: String, index: PassageIndex) -> Result<(), RetrievalError> {
        let retriever = IndexRetriever::new(Arc::clone(&self.encoder), Arc::new(index))?;
        self.add(name, Arc::new(retriever));
        Ok(())
    }

    /// The encoder.
    pub fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::clone(&self.encoder)
    }

    /// Encodes every passage again, to compare the vectors themselves. Takes as long as the build of
    /// the index, and 4 bytes a component.
    ///
    /// # Errors
    ///
    /// The encoder fails, or the index cannot be read.
    pub async fn encode(
        &mut self,
        index: &PassageIndex,
        progress: &mut (dyn FnMut(usize) + Send),
    ) -> Result<(), RetrievalError> {
        let call = Call::authoritative();
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(index.rows());
        while vectors.len() < index.rows() {
            progress(vectors.len());
            let batch = vectors.len()..index.rows().min(vectors.len() + BATCH);
            let mut texts = Vec::with_capacity(batch.len());
            for row in batch {
                let stored = index.passage(row)?;
                let passage = stored.fields();
                // As a build of the index does it.
                texts.push(match passage.title.trim() {
                    "" => passage.text.to_owned(),
                    title => format!("{title}\n{}", passage.text),
                });
            }
            let encoded = self.encoder.encode(&call, TextKind::Passage, texts).await;
            vectors.extend(encoded.map_err(failed("the encoder"))?.vectors);
        }
        self.exact = Some(vectors);
        Ok(())
    }

    /// Asks each question, and each of its hops if `per_hop`.
    ///
    /// # Errors
    ///
    /// A retriever or the encoder fails, a gold passage is not there, or there is no question.
    pub async fn ask(
        &self,
        corpus: &Searched,
        look_ups: &[LookUps],
        per_hop: bool,
        whole_index: bool,
        progress: &mut (dyn FnMut(usize) + Send),
    ) -> Result<Vec<Found>, RetrievalError> {
        if look_ups.is_empty() {
            return Err(RetrievalError::Nothing("ask"));
        }
        let numbers = corpus.numbers();
        let mut rows = Vec::new();
        for (done, question) in look_ups.iter().enumerate() {
            progress(done);
            // Of a page with several passages, one is enough.
            let there = |page: &&Vec<String>| page.iter().any(|id| numbers.contains_key(&**id));
            if let Some(page) = question.gold.iter().find(|page| !there(page)) {
                return Err(RetrievalError::NoSuchPassage {
                    question: question.id.clone(),
                    passage: page.concat(),
                });
            }
            let hops = question.hops.iter().enumerate().filter(|_| per_hop);
            let hops = hops.map(|(hop, asked)| (Some(hop), &asked.asks));
            for (hop, text) in std::iter::once((None, &question.question)).chain(hops) {
                for (retriever, found) in self.search(corpus, text, whole_index).await? {
                    rows.push(Found {
                        corpus: corpus.name().to_owned(),
                        retriever,
                        id: question.id.clone(),
                        hop,
                        found,
                    });
                }
            }
        }
        Ok(rows)
    }

    /// What each retriever finds, in the order of the tables.
    async fn search(
        &self,
        corpus: &Searched,
        text: &str,
        whole_index: bool,
    ) -> Result<Vec<(String, Vec<String>)>, RetrievalError> {
        let call = Call::authoritative();
        let vector = self.encoder.encode_query(&call, text).await;
        let vector = vector.map_err(failed("the encoder"))?;
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        if let Some(exact) = &self.exact {
            let dot = |row: &usize| -> f32 {
                let products = exact[*row].iter().zip(&vector).map(|(a, b)| a * b);
                products.sum()
            };
            let scores: Vec<f32> = corpus.rows().iter().map(dot).collect();
            all.push(("vectors, fp32".to_owned(), corpus.best(&scores)));
        }
        let cosines = corpus.cosines(&vector)?;
        let dense = corpus.best(&cosines);
        let words = corpus.by_words(text);
        let seen: HashSet<&String> = dense.iter().collect();
        let others = words.iter().filter(|id| !seen.contains(id)).cloned();
        let both: Vec<String> = dense.iter().cloned().chain(others).collect();
        all.push((INT8.to_owned(), dense));
        all.push(("BM25".to_owned(), words));
        if let Some(weight) = self.weight {
            let shares = corpus.shares(text).into_iter();
            let mixed: Vec<f32> = cosines
                .iter()
                .zip(shares)
                .map(|(c, s)| c + weight * s)
                .collect();
            all.push((format!("mixed, weight {weight}"), corpus.best(&mixed)));
        }
        all.push((BOTH.to_owned(), both));
        if whole_index {
            for (name, retriever) in &self.further {
                let found = retriever.retrieve(&call, text, DEPTH).await;
                let found = found.map_err(failed(name))?;
                let ids = found.iter().map(|passage| passage.id.to_string()).collect();
                all.push((name.clone(), ids));
            }
        }
        Ok(all)
    }
}

/// The retriever that others are compared with: what is searched if nothing is configured.
pub(super) const INT8: &str = "vectors, int8 rows";
/// Up to ten passages: no retriever, but the most that a mixture of the two could hope for.
pub(super) const BOTH: &str = "int8's five and BM25's five";

fn failed(who: &str) -> impl FnOnce(spechop_ports::PortError) -> RetrievalError {
    let who = who.to_owned();
    move |source| RetrievalError::Port { who, source }
}
