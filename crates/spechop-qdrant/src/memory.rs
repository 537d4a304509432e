//! Entries of a memory of verified look-ups in a collection, for several servers that share them.
//!
//! ```text
//! id       the first 16 bytes of the SHA-256 of tenant, newline and key, as a UUID
//! vector   of the sub-question, in whole numbers; compared by cosine. Zeros if there is none
//! payload  tenant, key, asked, answer, four counts; version and last writers; when it was written
//! ```
//!
//! Whatever is read is asked for by its tenant, and its tenant is compared once more when it arrives.
//!
//! A write is conditional: Qdrant takes it only if the entry still has the version that the writer has
//! seen. Qdrant does not tell whether it has taken it, so the writer reads the entry again and looks
//! whether it is among its last writers.
//!
//! The metadata of the collection hold a label under the key `spechop-memory`. A collection of another
//! encoder is refused, and so is one that holds something else.

mod stored;

use std::collections::HashMap;
use std::iter;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use qdrant_client::qdrant::{
    CollectionInfo, Condition, CountPoints, CreateCollectionBuilder,
    CreateFieldIndexCollectionBuilder, DeletePointsBuilder, Distance, FieldType, Filter,
    GetPointsBuilder, KeywordIndexParamsBuilder, OrderBy, PointId, PointStruct, Query, QueryPoints,
    ScoredPoint, ScrollPointsBuilder, SearchParams, UpsertPoints, Value, VectorParamsBuilder,
    VectorsOutput, WriteOrdering, WriteOrderingType,
};
use rand::random;
use serde::{Deserialize, Serialize};
use spechop_ports::{Call, Encoder, PortError, Remembered, SharedEntries, Sparingly, Version};
use spechop_types::{Owned, Tenant};
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::label;
use stored::{Stored, id};

/// The key of the label among the metadata of the collection.
const KEY: &str = "spechop-memory";
/// The version of everything that is written.
const FORMAT: u64 = 1;
/// The collection is looked at again after this long: somebody may have removed it.
const LABEL_TIME: Duration = Duration::from_secs(30);
/// Writers that an entry remembers: more than write it while one of them looks again.
const WRITERS_MAX: usize = 16;
/// Points that are removed with one request.
const REMOVED_MAX: u64 = 1024;

/// What a collection holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryLabel {
    format: u64,
    encoder: String,
    width: usize,
}

/// A collection of Qdrant that holds the entries of a memory.
pub struct QdrantMemory {
    cluster: Arc<Cluster>,
    collection: String,
    label: MemoryLabel,
    /// When the label was found to fit.
    fitted: Mutex<Option<Instant>>,
    /// Warnings of points that are left out, by the field that cannot be used.
    warnings: Sparingly,
}

impl QdrantMemory {
    /// Connects to nothing yet. The vectors of all entries are this encoder's.
    pub fn new(
        cluster: Arc<Cluster>,
        collection: impl Into<String>,
        encoder: &dyn Encoder,
    ) -> Self {
        Self {
            cluster,
            collection: collection.into(),
            label: MemoryLabel {
                format: FORMAT,
                encoder: encoder.fingerprint().to_owned(),
                width: encoder.width(),
            },
            fitted: Mutex::new(None),
            warnings: Sparingly::default(),
        }
    }

    /// Asks the server for its version, and makes the collection if there is none. The number of entries.
    ///
    /// # Errors
    ///
    /// If no server answers; or [`PortError::Refused`] if the collection holds something else, or
    /// vectors of another encoder.
    pub async fn check(&self, call: &Call) -> Result<u64, PortError> {
        self.cluster.health(call).await?;
        self.fit(call).await?;
        self.count(call).await
    }

    /// Makes sure of the collection, if that was not done lately.
    async fn ready(&self, call: &Call) -> Result<(), PortError> {
        let fitted = *self.fitted.lock();
        match fitted.is_some_and(|at| at.elapsed() < LABEL_TIME) {
            true => Ok(()),
            false => self.fit(call).await,
        }
    }

    async fn fit(&self, call: &Call) -> Result<(), PortError> {
        let mut there = self.there(call).await?;
        if there.is_none() {
            let made = self.make(call).await;
            // Another server may have made it at the same time.
            there = self.there(call).await?;
            if there.is_none() {
                made?;
            }
        }
        self.index_fields(call, &there.unwrap_or_default()).await?;
        *self.fitted.lock() = Some(Instant::now());
        Ok(())
    }

    /// The collection of this name, if there is one; refused if it is not ours.
    async fn there(&self, call: &Call) -> Result<Option<CollectionInfo>, PortError> {
        let Some(info) = self.cluster.info(call, &self.collection).await? else {
            return Ok(None);
        };
        let config = info.config.as_ref();
        let value = config.and_then(|config| config.metadata.get(KEY));
        let found = value.map(|value| {
            let json = serde_json::Value::from(value.clone());
            serde_json::from_value::<MemoryLabel>(json)
        });
        let remedy = "name another collection in speculator.memory_collection, which is then made";
        let detail = match found {
            Some(Ok(found)) if found == self.label => match label::vector_width(&info) {
                Some(width) if u64::try_from(self.label.width) == Ok(width) => {
                    return Ok(Some(info));
                }
                _ => format!("its vectors are not as its label says: {remedy}"),
            },
            Some(Ok(found)) if found.format == FORMAT => format!(
                "its vectors were made by encoder {}, and the encoder in use is {}: {remedy}",
                found.encoder, self.label.encoder
            ),
            Some(Ok(found)) => format!(
                "it is of format {}, and this program knows format {FORMAT}: {remedy}",
                found.format
            ),
            Some(Err(error)) => format!("its label cannot be read ({error}): {remedy}"),
            None => format!("it holds no memory of SpecHop: {remedy}"),
        };
        Err(PortError::refused(self.what(), detail))
    }

    async fn make(&self, call: &Call) -> Result<(), PortError> {
        // A struct of strings and numbers always serialises.
        let label = serde_json::to_value(&self.label).unwrap_or_default();
        let vectors = VectorParamsBuilder::new(self.label.width as u64, Distance::Cosine);
        let mut request: qdrant_client::qdrant::CreateCollection =
            CreateCollectionBuilder::new(&self.collection)
                .vectors_config(vectors)
                .build();
        request.metadata = HashMap::from([(KEY.to_owned(), Value::from(label))]);
        request.timeout = Some(self.cluster.seconds());
        let made = self.cluster.ask(call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.create_collection(request).await }
        });
        made.await.map(drop)
    }

    /// Entries are asked for by tenant, and leave by age. An index that is there stays as it is: to make one, a
    /// cluster must agree, and whoever only reads should not need that.
    async fn index_fields(&self, call: &Call, there: &CollectionInfo) -> Result<(), PortError> {
        let field = |name: &str, kind| {
            CreateFieldIndexCollectionBuilder::new(&self.collection, name, kind).wait(true)
        };
        let tenants = KeywordIndexParamsBuilder::default().is_tenant(true);
        for request in [
            field("tenant", FieldType::Keyword).field_index_params(tenants),
            field("written", FieldType::Integer),
        ] {
            let request = request.build();
            if there.payload_schema.contains_key(&request.field_name) {
                continue;
            }
            let indexed = self.cluster.ask(call, Some(&self.collection), |client| {
                let request = request.clone();
                async move { client.create_field_index(request).await }
            });
            indexed.await?;
        }
        Ok(())
    }

    async fn count(&self, call: &Call) -> Result<u64, PortError> {
        let request = CountPoints {
            collection_name: self.collection.clone(),
            exact: Some(true),
            timeout: Some(self.cluster.seconds()),
            ..CountPoints::default()
        };
        let counted = self.cluster.ask(call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.count(request).await }
        });
        Ok(counted.await?.result.map_or(0, |result| result.count))
    }

    /// The entry under a key, as it is stored.
    async fn stored(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
    ) -> Result<Option<Stored>, PortError> {
        let request = GetPointsBuilder::new(&self.collection, vec![id(key).into()])
            .with_payload(true)
            .with_vectors(true)
            .timeout(self.cluster.seconds());
        let found = self.cluster.ask(call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.get_points(request).await }
        });
        let Some(found) = found.await?.result.pop() else {
            return Ok(None);
        };
        let stored = self.read(&found.payload, found.vectors.as_ref())?;
        // Two keys share a point by no accident, and nothing of another tenant is believed.
        let is_it = stored.entry.tenant == key.tenant && *stored.key == *key.item;
        Ok(Some(stored).filter(|_| is_it))
    }

    fn read(
        &self,
        payload: &HashMap<String, Value>,
        vectors: Option<&VectorsOutput>,
    ) -> Result<Stored, PortError> {
        let read = Stored::read(payload, vectors);
        read.map_err(|field| PortError::malformed(self.what(), unusable(field)))
    }

    /// The tenant's entries among these points, the nearest first. One that is damaged keeps nobody from the others.
    fn nearest(&self, found: &[ScoredPoint], tenant: &Tenant) -> Vec<(f32, Remembered)> {
        let mut near = Vec::with_capacity(found.len());
        for point in found {
            match Stored::read(&point.payload, None) {
                Ok(Stored { entry, .. }) if entry.tenant == *tenant && point.score.is_finite() => {
                    near.push((point.score, entry));
                }
                Ok(_) => {}
                Err(field) => {
                    if let Some(left_out) = self.warnings.turn(field) {
                        let (collection, reason) = (self.what(), unusable(field));
                        tracing::warn!(collection, reason, left_out, "an entry is passed over");
                    }
                }
            }
        }
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near
    }

    /// For messages.
    fn what(&self) -> String {
        format!("collection {} of {}", self.collection, self.cluster.name())
    }
}

#[async_trait]
impl SharedEntries for QdrantMemory {
    async fn find(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
    ) -> Result<Option<(Remembered, Version)>, PortError> {
        self.ready(call).await?;
        let found = self.stored(call, key).await?;
        Ok(found.map(|stored| (stored.entry, stored.version)))
    }

    async fn near(
        &self,
        call: &Call,
        tenant: &Tenant,
        vector: &[i8],
        least: f32,
        most: NonZeroUsize,
    ) -> Result<Vec<(f32, Remembered)>, PortError> {
        self.ready(call).await?;
        let vector: Vec<f32> = vector.iter().copied().map(f32::from).collect();
        let request = QueryPoints {
            collection_name: self.collection.clone(),
            query: Some(Query::new_nearest(vector)),
            filter: Some(Filter::must([is_of(tenant)])),
            params: Some(SearchParams {
                exact: Some(true),
                ..SearchParams::default()
            }),
            score_threshold: Some(least),
            limit: Some(most.get() as u64),
            with_payload: Some(true.into()),
            with_vectors: Some(false.into()),
            timeout: Some(self.cluster.seconds()),
            ..QueryPoints::default()
        };
        let found = self.cluster.ask(call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.query(request).await }
        });
        Ok(self.nearest(&found.await?.result, tenant))
    }

    async fn replace(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
        entry: &Remembered,
        before: Option<&Version>,
    ) -> Result<bool, PortError> {
        self.ready(call).await?;
        let before = before.cloned().unwrap_or_default();
        let writer = format!("{:016x}", random::<u64>());
        let others = before.writers.split(' ').take(WRITERS_MAX - 1);
        let writers: Vec<&str> = iter::once(&*writer).chain(others).collect();
        let stored = Stored {
            key: key.item.to_string(),
            entry: Remembered {
                tenant: key.tenant.clone(),
                ..entry.clone()
            },
            version: Version {
                number: before.number.saturating_add(1),
                writers: writers.join(" ").trim_end().into(),
            },
        };
        let vector = entry.vector.as_deref();
        let vector: Vec<f32> = match vector.filter(|vector| vector.len() == self.label.width) {
            Some(vector) => vector.iter().copied().map(f32::from).collect(),
            None => vec![0.0; self.label.width],
        };
        let version = i64::try_from(before.number).unwrap_or(i64::MAX);
        let request = UpsertPoints {
            collection_name: self.collection.clone(),
            wait: Some(true),
            points: vec![PointStruct::new(id(key), vector, stored.payload())],
            // All copies of the entry see the writes in one order, and take the same ones.
            ordering: Some(WriteOrdering {
                r#type: WriteOrderingType::Strong.into(),
            }),
            // Of no effect if there is no such point: then it is made. No point has version 0.
            update_filter: Some(Filter::must([
                is_of(&key.tenant),
                Condition::matches("version", version),
            ])),
            timeout: Some(self.cluster.seconds()),
            ..UpsertPoints::default()
        };
        let written = self.cluster.ask(call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.upsert_points(request).await }
        });
        written.await?;
        let now = self.stored(call, key).await?;
        // Others may have built upon this write by now.
        let has = |now: Stored| now.version.writers.split(' ').any(|mark| mark == writer);
        Ok(now.is_some_and(has))
    }

    async fn trim(&self, call: &Call, most: NonZeroUsize) -> Result<u64, PortError> {
        self.ready(call).await?;
        let too_many = self.count(call).await?.saturating_sub(most.get() as u64);
        if too_many == 0 {
            return Ok(0);
        }
        let limit = u32::try_from(too_many.min(REMOVED_MAX)).unwrap_or(u32::MAX);
        let request = ScrollPointsBuilder::new(&self.collection)
            .order_by(OrderBy {
                key: "written".to_owned(),
                ..OrderBy::default()
            })
            .limit(limit)
            .with_payload(false)
            .with_vectors(false)
            .timeout(self.cluster.seconds());
        let oldest = self.cluster.ask(call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.scroll(request).await }
        });
        let oldest = oldest.await?.result.into_iter();
        let oldest: Vec<PointId> = oldest.filter_map(|point| point.id).collect();
        let removed = oldest.len() as u64;
        let request = DeletePointsBuilder::new(&self.collection)
            .points(oldest)
            .wait(true)
            .timeout(self.cluster.seconds());
        let gone = self.cluster.ask(call, Some(&self.collection), |client| {
            let request = request.clone();
            async move { client.delete_points(request).await }
        });
        gone.await?;
        Ok(removed)
    }
}

fn is_of(tenant: &Tenant) -> Condition {
    Condition::matches("tenant", tenant.as_str().to_owned())
}

fn unusable(field: &str) -> String {
    format!("a point has no usable `{field}`: SpecHop has not written it")
}

#[cfg(test)]
mod tests {
    use spechop_ports::Record;
    use tokio::time::advance;

    use super::*;
    use crate::cluster::ClusterOptions;

    #[tokio::test(start_paused = true)]
    async fn damaged_points_are_told_of_once_in_a_while_and_counted() {
        let options = ClusterOptions::new(vec!["http://127.0.0.1:6334".to_owned()]);
        let memory = QdrantMemory {
            cluster: Arc::new(Cluster::new(&options).unwrap()),
            collection: "entries".to_owned(),
            label: MemoryLabel {
                format: FORMAT,
                encoder: "words".to_owned(),
                width: 2,
            },
            fitted: Mutex::new(None),
            warnings: Sparingly::default(),
        };
        let tenant = Tenant::try_from("t".to_owned()).unwrap();
        let entry = Remembered {
            tenant: tenant.clone(),
            asked: "who".into(),
            answer: "Amy".into(),
            own: Record::default(),
            neighbour: Record::default(),
            vector: None,
        };
        let point = |damaged: &str| {
            let stored = Stored {
                key: "who".to_owned(),
                entry: entry.clone(),
                version: Version::default(),
            };
            let mut payload: HashMap<String, Value> = stored.payload().into();
            payload.remove(damaged);
            ScoredPoint {
                payload,
                score: 0.9,
                ..ScoredPoint::default()
            }
        };
        let found = ["asked", "", "asked", "version", "asked"].map(point);
        assert_eq!(memory.nearest(&found, &tenant), [(0.9, entry)]);
        // One line of each field is written; the others wait for the next.
        assert_eq!(memory.warnings.turn("version"), None);
        advance(Duration::from_secs(1)).await;
        assert_eq!(memory.warnings.turn("asked"), Some(2));
        assert_eq!(memory.warnings.turn("version"), Some(1));
    }
}
