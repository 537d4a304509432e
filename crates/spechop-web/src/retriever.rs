//! Search, pages and ranking together: the web as a [`Retriever`].
//!
//! search ─▶ the first pages, each as soon as its result is known ─▶ their passages ─▶ the few that are the
//! best by their words (BM25) ─▶ those nearest to the query by the encoder and by words
//!
//! Everything is part of the one call, so that dropping it ends the search and every transfer, and
//! promoting it promotes them all.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::channel::mpsc::unbounded;
use futures::future::{Either, ready, select, try_join};
use futures::stream::FuturesUnordered;
use spechop_lexical::Bm25;
use spechop_ports::{
    Call, Encoder, Lane, PortError, Retriever, SearchFailure, SearchProvider, SearchResult, Seat,
    Sparingly, TextKind,
};
use spechop_types::{Activity, Passage, with_causes};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use crate::page::{Page, PageReader, chunks};

/// How the web is looked at.
#[derive(Clone, Copy, Debug)]
pub struct WebRetrieverOptions {
    /// Results of a search whose pages are read. The paper reads 5 (section 5).
    pub results: NonZeroUsize,
    /// The longest that reading them may take from the end of the search. What has come by then is used.
    pub pages_time: Duration,
    /// The most passages that the encoder ranks: the best by BM25 among those of the look-up. An encoder
    /// takes longer for the whole text of five pages than the pages take to come.
    pub ranked: NonZeroUsize,
    /// The longest that the encoder may take for them, and for a query that is not encoded by then, once the look-up
    /// is needed. If many look-ups want it at once, those that it does not get to in time keep the best passages by
    /// BM25.
    pub rank_time: Duration,
    /// How much words count beside vectors: the weight times a passage's share of the highest BM25 score
    /// is added to its cosine. So the passage index does it, too.
    pub lexical_weight: f32,
}

impl Default for WebRetrieverOptions {
    fn default() -> Self {
        const RESULTS: NonZeroUsize = NonZeroUsize::new(5).unwrap();
        const RANKED: NonZeroUsize = NonZeroUsize::new(8).unwrap();
        Self {
            results: RESULTS,
            pages_time: Duration::from_millis(3_100),
            ranked: RANKED,
            rank_time: Duration::from_millis(900),
            lexical_weight: 0.2,
        }
    }
}

/// Looks a query up on the web.
pub struct WebRetriever {
    search: Arc<dyn SearchProvider>,
    pages: Arc<dyn PageReader>,
    encoder: Arc<dyn Encoder>,
    options: WebRetrieverOptions,
    warnings: Sparingly,
}

/// The warning that the encoder has failed.
const BY_WORDS: &str = "ranked by words alone";

impl WebRetriever {
    /// Searches with `search`, reads with `pages`, ranks with `encoder`.
    pub fn new(
        search: Arc<dyn SearchProvider>,
        pages: Arc<dyn PageReader>,
        encoder: Arc<dyn Encoder>,
        options: WebRetrieverOptions,
    ) -> Self {
        Self {
            search,
            pages,
            encoder,
            options,
            warnings: Sparingly::default(),
        }
    }

    /// What a search finds, and the passages of the pages that come in time, in the order of the results.
    /// For a page that cannot be read stands what the engine shows of it.
    async fn find(&self, call: &Call, query: &str) -> Result<(usize, Vec<Passage>), SearchFailure> {
        let (tell, mut told) = unbounded();
        let mut early = |result: SearchResult| {
            // Whoever listens is this very function.
            let _ = tell.unbounded_send(result);
        };
        let limit = self.options.results.get();
        // The look-up as a whole has its place elsewhere.
        let part = call.sub_call();
        let search = self
            .search
            .search_streaming(&part, query, limit, &mut early);
        let mut search = pin!(search);
        let mut reading = FuturesUnordered::new();
        let mut begun = HashSet::new();
        let mut pages = HashMap::new();
        let results = loop {
            tokio::select! {
                biased;
                Some(result) = told.next() => {
                    if begun.insert(result.url.clone()) {
                        reading.push(self.read(call, result));
                    }
                }
                results = &mut search => break results?,
                Some((url, page)) = reading.next() => {
                    pages.insert(url, page);
                }
            }
        };
        let deadline = Instant::now() + self.options.pages_time;
        // A text that is brought along is better than a page that is still to come.
        for result in results.iter().filter(|result| result.text.is_some()) {
            let (url, page) = self.read(call, result.clone()).await;
            begun.insert(url.clone());
            pages.insert(url, page);
        }
        let late = results
            .iter()
            .filter(|result| begun.insert(result.url.clone()));
        reading.extend(late.map(|result| self.read(call, result.clone())));
        // What was begun for a result that does not stand in the end is not waited for.
        let wanted =
            |pages: &HashMap<Url, _>| results.iter().all(|one| pages.contains_key(&one.url));
        while !wanted(&pages)
            && let Ok(Some((url, page))) = timeout_at(deadline, reading.next()).await
        {
            pages.entry(url).or_insert(page);
        }
        let missing = results
            .iter()
            .filter(|result| !pages.contains_key(&result.url))
            .count();
        if missing > 0 {
            tracing::debug!(pages = missing, "not read in time");
        }
        let mut page = |result: &SearchResult| pages.remove(&result.url).flatten();
        let passages = results
            .iter()
            .map(|result| page(result).unwrap_or_else(|| snippet(result)));
        Ok((results.len(), passages.collect::<Vec<_>>().concat()))
    }

    /// The passages of a result's page, if it can be read.
    async fn read(&self, call: &Call, result: SearchResult) -> (Url, Option<Vec<Passage>>) {
        let page = match &result.text {
            Some(text) => Ok(Page::of_text(&result.url, &result.title, text)),
            None => self.pages.read(call, &result.url).await,
        };
        let passages = match page {
            Ok(page) => chunks(&page),
            Err(failure) => {
                tracing::debug!(%failure, "page left out");
                Vec::new()
            }
        };
        (
            result.url,
            Some(passages).filter(|passages| !passages.is_empty()),
        )
    }

    /// The best passages, the best first. Those that are the best by their words, if the encoder does not get
    /// to them or to the query in time, or [fails at them](PortError::allows_substitute): one passage that it does
    /// not take must not cost the look-up.
    async fn rank(
        &self,
        call: &Call,
        query: &str,
        vector: impl Future<Output = Result<Vec<f32>, PortError>>,
        found: Vec<Passage>,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        // Counting the words of five pages takes more than a millisecond.
        let words = query.to_owned();
        let counted = spawn_blocking(move || by_words(&words, found)).await;
        let mut found =
            counted.map_err(|error| PortError::unavailable("ranking by words", error))?;
        found.truncate(self.options.ranked.get().max(limit));
        let texts = found.iter().map(titled).collect();
        let part = call.sub_call();
        let vectors = self.encoder.encode(&part, TextKind::Passage, texts);
        let vectors = try_join(vector, vectors);
        match unless_late(call, self.options.rank_time, vectors).await {
            Some(Ok((vector, encoded))) => {
                for (passage, other) in found.iter_mut().zip(encoded.vectors) {
                    let cosine: f32 = vector.iter().zip(&other).map(|(a, b)| a * b).sum();
                    passage.score = cosine + self.options.lexical_weight * passage.score;
                }
                best_first(&mut found);
            }
            Some(Err(error)) if !error.allows_substitute(call.lane()) => return Err(error),
            Some(Err(error)) => {
                if let Some(left_out) = self.warnings.turn(BY_WORDS) {
                    let reason = with_causes(&error);
                    tracing::warn!(reason, passages = found.len(), left_out, "{BY_WORDS}");
                }
            }
            None => tracing::debug!(passages = found.len(), "not ranked in time"),
        }
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
        // The query is encoded while the engine searches and the pages come. A search that ends without any
        // does not wait for it, and an encoder that asks for less does not slow the search down.
        let part = call.sub_call();
        let vector = self.encoder.encode_query(&part, query);
        let found = pin!(self.find(call, query));
        let (vector, found) = match select(vector, found).await {
            Either::Left((Err(error), _)) if !error.allows_substitute(call.lane()) => {
                return Err(error);
            }
            Either::Left((vector, found)) => (Either::Left(ready(vector)), found.await),
            Either::Right((found, vector)) => (Either::Right(vector), found),
        };
        let (pages, found) = found?;
        if pages == 0 {
            return Ok(Vec::new());
        }
        // Not the same as having found nothing.
        if found.is_empty() {
            return Err(PortError::Unavailable {
                what: format!("the text of all {pages} pages found"),
                source: None,
            });
        }
        let _ranking = call.doing(Activity::Encode);
        self.rank(call, query, vector, found, limit).await
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

/// What comes of `work`. `None` once the answer has needed it for `limit`: a call that may be wasted keeps nobody
/// waiting.
async fn unless_late<T>(call: &Call, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let late = pin!(async {
        needed(call).await;
        sleep(limit).await;
    });
    match select(pin!(work), late).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// Waits until the answer needs the call.
async fn needed(call: &Call) {
    struct Bell(Notify);

    impl Seat for Bell {
        fn promoted(&self) {
            self.0.notify_one();
        }

        fn pushed_back(&self) {}
    }

    let bell = Arc::new(Bell(Notify::new()));
    // A part, since the call sits elsewhere.
    let part = call.sub_call();
    let seat: Weak<Bell> = Arc::downgrade(&bell);
    part.sit(seat);
    // A promotion before it sat was told to nobody.
    if part.lane() != Lane::Authoritative {
        bell.0.notified().await;
    }
}

/// The passages by the share of the highest BM25 score that each has, best first. A word that all of them
/// hold tells none from another, so it is these passages that say which words are rare. The same text
/// counts once, and so does a place of a page that two results lead to and that was not the same both times.
fn by_words(query: &str, mut found: Vec<Passage>) -> Vec<Passage> {
    let (mut texts, mut ids) = (HashSet::new(), HashSet::new());
    found.retain(|passage| {
        texts.insert(Arc::clone(&passage.text)) && ids.insert(Arc::clone(&passage.id))
    });
    let shares = Bm25::new(found.iter().map(titled)).shares(query);
    for (passage, share) in found.iter_mut().zip(shares) {
        passage.score = share;
    }
    best_first(&mut found);
    found
}

/// Equals stay in their order, so that the better result of the search comes first.
fn best_first(passages: &mut [Passage]) {
    passages.sort_by(|a, b| b.score.total_cmp(&a.score));
}

/// As the index has its passages encoded.
fn titled(passage: &Passage) -> String {
    match passage.title.trim() {
        "" => passage.text.to_string(),
        title => format!("{title}\n{}", passage.text),
    }
}

#[cfg(test)]
mod tests;
