//! Search, pages and ranking together: the web as a [`Retriever`].
//!
//! search ─▶ the first pages, all at once ─▶ their passages ─▶ the few that share most words with the
//! query ─▶ those nearest to it by the encoder
//!
//! Everything is part of the one call, so that dropping it ends the search and every transfer, and
//! promoting it promotes them all.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::join;
use futures::stream::FuturesUnordered;
use spechop_ports::{Call, Encoder, PortError, Retriever, SearchProvider, SearchResult};
use spechop_types::{Activity, Passage, canonical};
use tokio::time::{Instant, timeout_at};

use crate::page::{Page, PageReader, chunks};

/// How the web is looked at.
#[derive(Clone, Copy, Debug)]
pub struct WebOptions {
    /// Results of a search whose pages are read. The paper reads 5 (section 5).
    pub results: NonZeroUsize,
    /// The longest that reading them may take from the end of the search. What has come by then is used.
    pub pages_time: Duration,
    /// The most passages that the encoder ranks: those that share most words with the query. An encoder
    /// takes longer for the whole text of five pages than the pages take to come.
    pub ranked: NonZeroUsize,
}

impl Default for WebOptions {
    fn default() -> Self {
        const RESULTS: NonZeroUsize = NonZeroUsize::new(5).unwrap();
        const RANKED: NonZeroUsize = NonZeroUsize::new(16).unwrap();
        Self {
            results: RESULTS,
            pages_time: Duration::from_millis(3_100),
            ranked: RANKED,
        }
    }
}

/// Looks a query up on the web.
pub struct WebRetriever {
    search: Arc<dyn SearchProvider>,
    pages: Arc<dyn PageReader>,
    encoder: Arc<dyn Encoder>,
    options: WebOptions,
}

impl WebRetriever {
    /// Searches with `search`, reads with `pages`, ranks with `encoder`.
    pub fn new(
        search: Arc<dyn SearchProvider>,
        pages: Arc<dyn PageReader>,
        encoder: Arc<dyn Encoder>,
        options: WebOptions,
    ) -> Self {
        Self {
            search,
            pages,
            encoder,
            options,
        }
    }

    /// The passages of the pages that come in time, in the order of the results. For a page that cannot
    /// be read stands what the engine shows of it.
    async fn read_all(&self, call: &Call, results: &[SearchResult]) -> Vec<Passage> {
        let deadline = Instant::now() + self.options.pages_time;
        let mut reading: FuturesUnordered<_> = results
            .iter()
            .enumerate()
            .map(|(at, result)| async move { (at, self.read(call, result).await) })
            .collect();
        let mut read: Vec<_> = results.iter().map(snippet).collect();
        while let Ok(Some((at, page))) = timeout_at(deadline, reading.next()).await {
            if let Some(page) = page {
                read[at] = page;
            }
        }
        if !reading.is_empty() {
            tracing::debug!(pages = reading.len(), "not read in time");
        }
        read.concat()
    }

    async fn read(&self, call: &Call, result: &SearchResult) -> Option<Vec<Passage>> {
        let page = match &result.text {
            Some(text) => Page::of_text(&result.url, &result.title, text),
            None => match self.pages.read(call, &result.url).await {
                Ok(page) => page,
                Err(failure) => {
                    tracing::debug!(%failure, "page left out");
                    return None;
                }
            },
        };
        let passages = chunks(&page);
        (!passages.is_empty()).then_some(passages)
    }

    /// The nearest passages of those that share most words with the query.
    async fn rank(
        &self,
        query: &str,
        vector: &[f32],
        found: Vec<Passage>,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let mut found = most_in_common(query, found, self.options.ranked.get().max(limit));
        let texts = found.iter().map(|passage| {
            // As the index has its passages encoded.
            match passage.title.trim() {
                "" => passage.text.to_string(),
                title => format!("{title}\n{}", passage.text),
            }
        });
        let vectors = self.encoder.encode_passages(texts.collect()).await?;
        for (passage, other) in found.iter_mut().zip(vectors) {
            passage.score = vector.iter().zip(&other).map(|(a, b)| a * b).sum();
        }
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(limit);
        Ok(found)
    }
}

#[async_trait]
impl Retriever for WebRetriever {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let results = self.options.results.get();
        let results = self.search.search(call, query, results).await?;
        // The query is encoded while the pages come.
        let vector = self.encoder.encode_query(call, query);
        let (vector, found) = join(vector, self.read_all(call, &results)).await;
        if found.is_empty() {
            return match results.len() {
                0 => Ok(Vec::new()),
                // Not the same as having found nothing.
                pages => Err(PortError::Unavailable {
                    what: format!("the text of all {pages} pages found"),
                    source: None,
                }),
            };
        }
        let _ranking = call.doing(Activity::Encode);
        self.rank(query, &vector?, found, limit).await
    }

    /// Opens a connection to the search engine. A query would tell it what may be asked.
    async fn warm(&self, call: &Call, _query: &str) -> Result<(), PortError> {
        self.search.warm(call).await;
        Ok(())
    }
}

fn snippet(result: &SearchResult) -> Vec<Passage> {
    if result.snippet.trim().is_empty() {
        return Vec::new();
    }
    vec![Passage {
        id: format!("{}#snippet", result.url).into(),
        title: Arc::clone(&result.title),
        text: Arc::clone(&result.snippet),
        url: Some(result.url.as_str().into()),
        score: 0.0,
    }]
}

/// The passages that share most words with the query, at most `limit`; among equals, those of the better
/// result. The same text counts once.
fn most_in_common(query: &str, found: Vec<Passage>, limit: usize) -> Vec<Passage> {
    let query = canonical(query);
    let query: HashSet<&str> = query.split(' ').collect();
    let mut texts = HashSet::new();
    let mut ranked: Vec<_> = found
        .into_iter()
        .filter_map(|passage| {
            let words = canonical(&format!("{} {}", passage.title, passage.text));
            let words: HashSet<&str> = words.split(' ').collect();
            let common = query.intersection(&words).count();
            texts
                .insert(Arc::clone(&passage.text))
                .then_some((common, passage))
        })
        .collect();
    // A stable sort: what was first stays first.
    ranked.sort_by_key(|(common, _)| Reverse(*common));
    ranked.truncate(limit);
    ranked.into_iter().map(|(_, passage)| passage).collect()
}

#[cfg(test)]
mod tests;
