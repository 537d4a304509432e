//! A collection and the encoder that it was filled with, as a [`Retriever`].

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{Either, select};
use parking_lot::Mutex;
use qdrant_client::qdrant::{
    CollectionInfo, QuantizationSearchParams, Query, QueryPoints, ReadConsistency,
    ReadConsistencyType, SearchParams, read_consistency,
};
use spechop_ports::{Call, Encoder, PortError, Retriever};
use spechop_types::{Activity, Passage};
use tokio::time::{Instant, timeout};

use crate::cluster::Cluster;
use crate::label::Label;
use crate::point;

/// An alias can point to another collection at any time. Its label is read again after this long.
const LABEL_TIME: Duration = Duration::from_secs(30);
/// How long a search that has ended waits for the label that is read again beside it.
const LABEL_WAIT: Duration = Duration::from_millis(250);

/// How a collection is searched. The server decides what is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SearchOptions {
    /// Compares the query with every vector as it was pushed, without graph and quantisation.
    pub exact: bool,
    /// Candidates that are kept while the graph is searched.
    pub hnsw_ef: Option<u64>,
    /// Whether candidates are compared again by their vectors as they were pushed.
    pub rescore: Option<bool>,
    /// How many times more candidates than passages are compared again.
    pub oversampling: Option<f64>,
    /// How many replicas must agree.
    pub consistency: Option<Consistency>,
}

/// How many replicas must agree about a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// All of them.
    All,
    /// Most of all that are asked.
    Majority,
    /// All of the half plus one that are asked.
    Quorum,
    /// All of so many that are asked.
    Replicas(NonZeroU64),
}

impl FromStr for Consistency {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "all" => Self::All,
            "majority" => Self::Majority,
            "quorum" => Self::Quorum,
            number => match number.parse() {
                Ok(replicas) => Self::Replicas(replicas),
                Err(_) => return Err("expected \"all\", \"majority\", \"quorum\" or a number"),
            },
        })
    }
}

impl Consistency {
    fn wire(self) -> ReadConsistency {
        let kind = |kind: ReadConsistencyType| read_consistency::Value::Type(kind.into());
        let value = match self {
            Self::All => kind(ReadConsistencyType::All),
            Self::Majority => kind(ReadConsistencyType::Majority),
            Self::Quorum => kind(ReadConsistencyType::Quorum),
            Self::Replicas(replicas) => read_consistency::Value::Factor(replicas.get()),
        };
        ReadConsistency { value: Some(value) }
    }
}

impl SearchOptions {
    fn params(&self) -> SearchParams {
        let quantization = QuantizationSearchParams {
            ignore: self.exact.then_some(true),
            rescore: self.rescore,
            oversampling: self.oversampling,
        };
        let asked = quantization != QuantizationSearchParams::default();
        SearchParams {
            hnsw_ef: self.hnsw_ef,
            exact: self.exact.then_some(true),
            quantization: asked.then_some(quantization),
            ..SearchParams::default()
        }
    }
}

/// Encodes a query and searches a collection for it.
pub struct QdrantRetriever {
    encoder: Arc<dyn Encoder>,
    cluster: Arc<Cluster>,
    collection: String,
    options: SearchOptions,
    /// When the label was found to fit; `None` if it never was, or the collection was refused since.
    fitted: Mutex<Option<Instant>>,
}

impl QdrantRetriever {
    /// Connects to nothing yet.
    pub fn new(
        encoder: Arc<dyn Encoder>,
        cluster: Arc<Cluster>,
        collection: impl Into<String>,
        options: SearchOptions,
    ) -> Self {
        Self {
            encoder,
            cluster,
            collection: collection.into(),
            options,
            fitted: Mutex::new(None),
        }
    }

    /// Asks the server for its version and the collection for its label. The number of passages.
    ///
    /// # Errors
    ///
    /// If no server answers; or [`PortError::Refused`] if this collection cannot be searched with
    /// this encoder by this program, whoever answers.
    pub async fn check(&self, call: &Call) -> Result<usize, PortError> {
        self.cluster.health(call).await?;
        Ok(self.fit(call).await?.passages)
    }

    async fn fit(&self, call: &Call) -> Result<Label, PortError> {
        let info = self.cluster.info(call, &self.collection).await?;
        let label = self.label(info);
        *self.fitted.lock() = label.is_ok().then(Instant::now);
        label
    }

    /// The label of the collection, if it fits.
    fn label(&self, info: Option<CollectionInfo>) -> Result<Label, PortError> {
        let refused = |detail: String| PortError::refused(self.what(), detail);
        let info = info.ok_or_else(|| {
            refused(
                "there is no such collection: fill it with `spechop index push`, or correct the \
                 name"
                    .to_owned(),
            )
        })?;
        let label = Label::read(&info).and_then(|label| {
            label.fits(&info, self.encoder.fingerprint(), self.encoder.width())?;
            Ok(label)
        });
        label.map_err(|misfit| refused(misfit.to_string()))
    }

    async fn search(
        &self,
        call: &Call,
        vector: Vec<f32>,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let request = QueryPoints {
            collection_name: self.collection.clone(),
            query: Some(Query::new_nearest(vector)),
            params: Some(self.options.params()),
            limit: Some(limit as u64),
            with_payload: Some(point::FIELDS.to_vec().into()),
            with_vectors: Some(false.into()),
            read_consistency: self.options.consistency.map(Consistency::wire),
            timeout: Some(self.cluster.seconds()),
            ..QueryPoints::default()
        };
        let answer = self
            .cluster
            .ask(call, Some(&self.collection), |client| {
                let request = request.clone();
                async move { client.query(request).await }
            })
            .await?;
        let found: Result<Vec<_>, _> = answer.result.iter().map(point::passage).collect();
        let found = found.map_err(|detail| PortError::malformed(self.what(), detail))?;
        Ok(ranked(found, limit))
    }

    /// For messages.
    fn what(&self) -> String {
        format!("collection {} of {}", self.collection, self.cluster.name())
    }
}

#[async_trait]
impl Retriever for QdrantRetriever {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let vector = self.encoder.encode_query(call, query).await?;
        if !vector.iter().all(|x| x.is_finite()) {
            let detail = "a query with a component that is no finite number";
            return Err(PortError::refused(self.what(), detail));
        }
        if limit == 0 {
            return Ok(Vec::new());
        }
        let _scanning = call.doing(Activity::Scan);
        let fitted = *self.fitted.lock();
        match fitted.map(|at| at.elapsed() < LABEL_TIME) {
            Some(true) => self.search(call, vector, limit).await,
            Some(false) => {
                let fit = pin!(self.fit(call));
                let search = pin!(self.search(call, vector, limit));
                unless_refused(fit, search).await
            }
            // Together they take no longer than the search. If both fail, the label says why.
            None => {
                let both = tokio::join!(self.fit(call), self.search(call, vector, limit));
                both.0.and(both.1)
            }
        }
    }

    /// Encodes the query, for an encoder that remembers.
    async fn warm(&self, call: &Call, query: &str) -> Result<(), PortError> {
        self.encoder.encode_query(call, query).await.map(drop)
    }
}

/// What a search finds beside which a label is read again that has fitted before.
///
/// Only a label that does not fit any more spoils it. If the label cannot be read now, or not soon,
/// nothing is known against the passages, and the next search reads it.
async fn unless_refused<L, T>(
    fit: impl Future<Output = Result<L, PortError>> + Unpin,
    search: impl Future<Output = Result<T, PortError>> + Unpin,
) -> Result<T, PortError> {
    match select(fit, search).await {
        Either::Left((Err(refused @ PortError::Refused { .. }), _)) => Err(refused),
        Either::Left((_, search)) => search.await,
        Either::Right((found, fit)) => match timeout(LABEL_WAIT, fit).await {
            Ok(Err(refused @ PortError::Refused { .. })) => Err(refused),
            Ok(_) | Err(_) => found,
        },
    }
}

/// Best first, equal scores by id, no id twice.
fn ranked(mut found: Vec<Passage>, limit: usize) -> Vec<Passage> {
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
    let mut ids = HashSet::new();
    found.retain(|passage| ids.insert(Arc::clone(&passage.id)));
    found.truncate(limit);
    found
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[test]
    fn consistency_is_a_word_or_a_number() {
        for (text, consistency) in [
            ("all", Some(Consistency::All)),
            ("majority", Some(Consistency::Majority)),
            ("quorum", Some(Consistency::Quorum)),
            ("2", NonZeroU64::new(2).map(Consistency::Replicas)),
            ("0", None),
            ("most", None),
        ] {
            assert_eq!(text.parse().ok(), consistency, "{text}");
        }
    }

    /// The result after so many milliseconds.
    async fn after<T>(ms: u64, result: Result<T, PortError>) -> Result<T, PortError> {
        sleep(Duration::from_millis(ms)).await;
        result
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_label_that_is_refused_spoils_a_search_and_none_holds_it_up() {
        const LONG: u64 = 60_000;
        let held = 5 + LABEL_WAIT.as_millis() as u64;
        let fits = || Ok(());
        let silent = || Err(PortError::timed_out("label", LABEL_TIME));
        let misfit = || Err(PortError::refused("label", "of another encoder"));
        let found = || Ok("passages");
        let down = || Err(PortError::unavailable("search", "down"));
        for (fit, search, expected, ms) in [
            (after(1, fits()), after(5, found()), "passages", 5),
            (after(7, fits()), after(5, found()), "passages", 7),
            (after(1, silent()), after(5, found()), "passages", 5),
            (after(7, silent()), after(5, found()), "passages", 7),
            (after(LONG, fits()), after(5, found()), "passages", held),
            // It is true of the passages that were found, too.
            (after(1, misfit()), after(5, found()), "label refused", 1),
            (after(7, misfit()), after(5, found()), "label refused", 7),
            (after(7, misfit()), after(5, down()), "label refused", 7),
            (after(1, silent()), after(5, down()), "search is", 5),
            (after(7, fits()), after(5, down()), "search is", 7),
        ] {
            let begun = Instant::now();
            let ended = unless_refused(pin!(fit), pin!(search)).await;
            let said = match ended {
                Ok(found) => found.to_owned(),
                Err(error) => error.to_string(),
            };
            assert!(said.starts_with(expected), "{said}, not {expected}");
            assert_eq!(begun.elapsed().as_millis() as u64, ms, "{expected}");
        }
    }

    #[test]
    fn nothing_is_asked_of_the_server_that_nobody_has_asked_for() {
        let options = SearchOptions::default();
        assert_eq!(options.params(), SearchParams::default());
        let exact = SearchOptions {
            exact: true,
            ..options
        };
        assert_eq!(exact.params().exact, Some(true));
        let ignores = exact.params().quantization.and_then(|q| q.ignore);
        assert_eq!(ignores, Some(true));
    }

    #[test]
    fn results_are_in_one_order_and_each_is_there_once() {
        let passage = |(id, score)| Passage {
            score,
            ..spechop_testkit::passage(id, "", "")
        };
        let found = [("c", 0.5), ("b", 0.5), ("a", 0.25), ("d", 0.75), ("b", 0.5)];
        let found = found.map(passage).to_vec();
        let ids = |limit| -> Vec<_> {
            let ranked = ranked(found.clone(), limit).into_iter();
            ranked.map(|passage| passage.id.to_string()).collect()
        };
        assert_eq!(ids(9), ["d", "b", "c", "a"]);
        assert_eq!(ids(2), ["d", "b"]);
    }
}
