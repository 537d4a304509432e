//! A corpus that is searched in every way that is compared: an index, or those of its passages that are
//! in a smaller corpus.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use spechop_lexical::{Bm25, Builder};
use spechop_store::{PassageIndex, Query};

use super::{DEPTH, RetrievalError};

/// Passages of an index, numbered from 0, and BM25 over them.
pub struct Searched {
    /// What it is called in tables.
    name: String,
    index: Arc<PassageIndex>,
    /// The row of each passage.
    rows: Vec<usize>,
    ids: Vec<String>,
    ranking: Bm25,
}

impl Searched {
    /// All passages of an index, or those with the given ids. Reads every passage.
    ///
    /// # Errors
    ///
    /// The index cannot be read, or holds none of the passages.
    pub fn of(
        name: &str,
        index: &Arc<PassageIndex>,
        within: Option<&HashSet<String>>,
    ) -> Result<Self, RetrievalError> {
        let (mut rows, mut ids, mut words) = (Vec::new(), Vec::new(), Builder::default());
        for row in 0..index.rows() {
            let stored = index.passage(row)?;
            let passage = stored.fields();
            if within.is_some_and(|ids| !ids.contains(passage.id)) {
                continue;
            }
            // As the index itself mixes them.
            words.push(&format!("{}\n{}", passage.title, passage.text));
            ids.push(passage.id.to_owned());
            rows.push(row);
        }
        if rows.is_empty() {
            return Err(RetrievalError::Nothing("search in"));
        }
        Ok(Self {
            name: name.to_owned(),
            index: Arc::clone(index),
            rows,
            ids,
            ranking: words.finish(),
        })
    }

    /// What it is called in tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many passages there are.
    pub fn passages(&self) -> usize {
        self.ids.len()
    }

    /// The row of each passage in the index.
    pub(super) fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The score of every passage by the index's int8 rows.
    pub(super) fn cosines(&self, vector: &[f32]) -> Result<Vec<f32>, RetrievalError> {
        let mut by_row = vec![0.0; self.index.rows()];
        // The encoder gives finite numbers; of others nothing is found.
        if let Some(query) = Query::new(vector, self.index.rows()) {
            for hit in self.index.scan(&[query])?.concat() {
                by_row[hit.row] = hit.score;
            }
        }
        Ok(self.rows.iter().map(|row| by_row[*row]).collect())
    }

    /// The ids of BM25's best passages. One that holds no word of the query is not among them.
    pub(super) fn by_words(&self, text: &str) -> Vec<String> {
        let found = self.ranking.search(text, DEPTH).into_iter();
        found.map(|(at, _)| self.ids[at].clone()).collect()
    }

    /// BM25's scores of all passages, as shares of the most that the query could have.
    pub(super) fn shares(&self, text: &str) -> Vec<f32> {
        self.ranking.shares(text)
    }

    /// The ids of the best passages by their scores; of equals the earlier passage.
    pub(super) fn best(&self, scores: &[f32]) -> Vec<String> {
        let mut best: Vec<usize> = (0..scores.len()).collect();
        let better = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
        if DEPTH < best.len() {
            best.select_nth_unstable_by(DEPTH, better);
            best.truncate(DEPTH);
        }
        best.sort_unstable_by(better);
        best.into_iter().map(|at| self.ids[at].clone()).collect()
    }

    /// The numbers of passages by their ids.
    pub(super) fn numbers(&self) -> HashMap<&str, usize> {
        let ids = self.ids.iter().enumerate();
        ids.map(|(at, id)| (id.as_str(), at)).collect()
    }
}
