//! Fills a collection from an embedded index. Nothing is encoded again.
//!
//! ```text
//! no collection ─▶ create it, labelled "not complete"
//! one of ours   ─▶ keep its passages: of each batch, only missing ones are sent
//!       └─▶ batches, several at once ─▶ count ─▶ label "complete"
//! ```
//!
//! A push that was killed is resumed by the same command. A batch counts when the servers have
//! applied it. No more batches are read from the index than are on their way.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::ops::Range;

use futures::StreamExt;
use futures::stream;
use qdrant_client::qdrant::{
    CountPoints, GetPoints, PointId, PointStruct, UpdateCollection, UpsertPoints,
};
use spechop_ports::{Call, PortError};
use spechop_store::{IndexError, PassageIndex};

use crate::cluster::Cluster;
use crate::label::{Label, Misfit};
use crate::point;
use crate::settings::CollectionSettings;

/// A push from an index to a collection.
#[derive(Clone, Debug)]
pub struct Push {
    /// The name of the collection.
    pub collection: String,
    /// How it is made, if there is none of this name.
    pub settings: CollectionSettings,
    /// Passages that are sent together.
    pub batch: NonZeroUsize,
    /// Batches on their way at the same time.
    pub at_once: NonZeroUsize,
}

/// How far a push is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Passages that are in the collection for sure.
    pub done: usize,
    /// Passages of the index.
    pub total: usize,
}

/// What a push has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Passages of the collection.
    pub passages: usize,
    /// Those that were sent by this push.
    pub sent: usize,
}

/// Why a push has ended before its end. The passages that it has sent stay in the collection.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The collection could not be opened or made.
    #[error("cannot push to collection {collection}")]
    Collection {
        /// Its name.
        collection: String,
        /// Why.
        #[source]
        source: PortError,
    },
    /// A batch could not be sent.
    #[error(
        "the push stopped after {done} of {total} passages; run the same command again to resume it"
    )]
    Stopped {
        /// Passages that are in the collection for sure.
        done: usize,
        /// Passages of the index.
        total: usize,
        /// Why.
        #[source]
        source: PortError,
    },
    /// The index cannot be read.
    #[error("the index cannot be read")]
    Index(#[from] IndexError),
    /// Somebody else has written to the collection, or the servers have lost something.
    #[error(
        "collection {collection} holds {found} passages after the push instead of {wanted}: if \
         these are fewer, run the same command again; if more, somebody else writes to it, so name \
         another collection"
    )]
    Count {
        /// The name of the collection.
        collection: String,
        /// Passages in it.
        found: u64,
        /// Passages of the index.
        wanted: usize,
    },
}

impl Push {
    /// With the settings of the server, 256 passages a batch and four batches at once.
    pub fn new(collection: impl Into<String>) -> Self {
        Self {
            collection: collection.into(),
            settings: CollectionSettings::default(),
            batch: NonZeroUsize::MIN.saturating_add(255),
            at_once: NonZeroUsize::MIN.saturating_add(3),
        }
    }

    /// Pushes. **Reads of the index block**, so it belongs on a runtime that serves nobody else.
    ///
    /// # Errors
    ///
    /// If the collection belongs to something else, the servers cannot be reached for long, or the
    /// index is damaged.
    pub async fn run(
        &self,
        index: &PassageIndex,
        cluster: &Cluster,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Pushed, PushError> {
        let total = index.rows();
        let label = Label::of(index);
        let found = self.open(cluster, &label).await;
        found.map_err(|source| PushError::Collection {
            collection: self.collection.clone(),
            source,
        })?;
        let (mut done, mut sent) = (0, 0);
        progress(Progress { done, total });
        let rows = (0..total).step_by(self.batch.get());
        let batches = rows.map(|first| first..total.min(first + self.batch.get()));
        let send = |rows: Range<usize>| self.send(index, cluster, rows);
        let mut sending = stream::iter(batches.map(send)).buffer_unordered(self.at_once.get());
        while let Some(batch) = sending.next().await {
            let batch = batch.map_err(|failed| failed.after(done, total))?;
            done += batch.rows;
            sent += batch.sent;
            progress(Progress { done, total });
        }
        drop(sending);
        self.finish(cluster, label)
            .await
            .map_err(|failed| match failed {
                Ending::Port(source) => PushError::Stopped {
                    done,
                    total,
                    source,
                },
                Ending::Count(found) => PushError::Count {
                    collection: self.collection.clone(),
                    found,
                    wanted: total,
                },
            })?;
        Ok(Pushed {
            passages: total,
            sent,
        })
    }

    /// Makes the collection if there is none. It may hold passages already.
    async fn open(&self, cluster: &Cluster, label: &Label) -> Result<(), PortError> {
        let call = Call::authoritative();
        cluster.health(&call).await?;
        if let Some(info) = cluster.info(&call, &self.collection).await? {
            let taken = Label::read(&info).and_then(|found| found.takes(&info, label));
            return taken.map_err(|misfit| self.refused(cluster, &misfit));
        }
        let mut request = self.settings.create(&self.collection, label.width);
        request.metadata = label.metadata();
        request.timeout = Some(cluster.seconds());
        let created = cluster.ask(&call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.create_collection(request).await }
        });
        let created = created.await;
        // If the answer was lost, the second attempt finds what the first has made.
        match (cluster.info(&call, &self.collection).await?, created) {
            (Some(info), _) => {
                let made = Label::read(&info).and_then(|found| found.takes(&info, label));
                made.map_err(|misfit| self.refused(cluster, &misfit))
            }
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Err(PortError::malformed(
                cluster.name(),
                format!(
                    "collection {} is not there after it was made",
                    self.collection
                ),
            )),
        }
    }

    fn refused(&self, cluster: &Cluster, misfit: &Misfit) -> PortError {
        let what = format!("collection {} of {}", self.collection, cluster.name());
        PortError::refused(what, misfit.to_string())
    }

    async fn send(
        &self,
        index: &PassageIndex,
        cluster: &Cluster,
        rows: Range<usize>,
    ) -> Result<Batch, Failed> {
        let call = Call::authoritative();
        let mut points = rows
            .clone()
            .map(|row| {
                let (vector, scale) = index.vector(row)?;
                // A row is padded.
                let vector = vector.get(..index.width()).unwrap_or(vector);
                let passage = index.passage(row)?;
                Ok(point::point(passage.fields(), vector, scale))
            })
            .collect::<Result<Vec<PointStruct>, IndexError>>()
            .map_err(Failed::Index)?;
        let there = self.there(&call, cluster, &points).await;
        let there = there.map_err(Failed::Port)?;
        points.retain(|point| {
            let id = point.id.clone().and_then(point::uuid);
            id.is_none_or(|id| !there.contains(&id))
        });
        let sent = points.len();
        if sent > 0 {
            self.upsert(&call, cluster, points)
                .await
                .map_err(Failed::Port)?;
        }
        Ok(Batch {
            rows: rows.len(),
            sent,
        })
    }

    /// Those of the points that are in the collection.
    async fn there(
        &self,
        call: &Call,
        cluster: &Cluster,
        points: &[PointStruct],
    ) -> Result<HashSet<String>, PortError> {
        let ids: Vec<PointId> = points.iter().filter_map(|point| point.id.clone()).collect();
        let request = GetPoints {
            collection_name: self.collection.clone(),
            ids,
            with_payload: Some(false.into()),
            with_vectors: Some(false.into()),
            timeout: Some(cluster.seconds()),
            ..GetPoints::default()
        };
        let found = cluster
            .ask(call, Some(&self.collection), |client| {
                let request = request.clone();
                async move { client.get_points(request).await }
            })
            .await?;
        let ids = found.result.into_iter().filter_map(|point| point.id);
        Ok(ids.filter_map(point::uuid).collect())
    }

    async fn upsert(
        &self,
        call: &Call,
        cluster: &Cluster,
        points: Vec<PointStruct>,
    ) -> Result<(), PortError> {
        let request = UpsertPoints {
            collection_name: self.collection.clone(),
            // Only what has been applied is there after a crash.
            wait: Some(true),
            points,
            timeout: Some(cluster.seconds()),
            ..UpsertPoints::default()
        };
        let applied = cluster.ask(call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.upsert_points(request).await }
        });
        applied.await.map(drop)
    }

    /// Counts, and labels the collection as complete.
    async fn finish(&self, cluster: &Cluster, mut label: Label) -> Result<(), Ending> {
        let call = Call::authoritative();
        let request = CountPoints {
            collection_name: self.collection.clone(),
            exact: Some(true),
            timeout: Some(cluster.seconds()),
            ..CountPoints::default()
        };
        let counted = cluster
            .ask(&call, Some(&self.collection), |client| {
                let request = request.clone();
                async move { client.count(request).await }
            })
            .await
            .map_err(Ending::Port)?;
        let found = counted.result.map_or(0, |result| result.count);
        if found != label.passages as u64 {
            return Err(Ending::Count(found));
        }
        label.complete = true;
        let request = UpdateCollection {
            collection_name: self.collection.clone(),
            metadata: label.metadata(),
            timeout: Some(cluster.seconds()),
            ..UpdateCollection::default()
        };
        let labelled = cluster.ask(&call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.update_collection(request).await }
        });
        labelled.await.map_err(Ending::Port)?;
        let is_complete = |info: &_| Label::read(info).is_ok_and(|label| label.complete);
        cluster.settle(&self.collection, is_complete).await;
        Ok(())
    }
}

/// A batch that is in the collection.
struct Batch {
    rows: usize,
    sent: usize,
}

/// A batch that is not.
enum Failed {
    Index(IndexError),
    Port(PortError),
}

impl Failed {
    fn after(self, done: usize, total: usize) -> PushError {
        match self {
            Self::Index(error) => PushError::Index(error),
            Self::Port(source) => PushError::Stopped {
                done,
                total,
                source,
            },
        }
    }
}

/// What can go wrong after the last batch.
enum Ending {
    Port(PortError),
    Count(u64),
}
