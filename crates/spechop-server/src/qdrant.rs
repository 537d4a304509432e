//! Opens collections of Qdrant: the target, and a memory that servers share.

use std::sync::Arc;

use spechop_config::{MemoryCollection, Qdrant};
use spechop_ports::{Call, Encoder, PortError, Retriever, SharedEntries};
use spechop_qdrant::{Cluster, QdrantMemory, QdrantRetriever};
use spechop_types::with_causes;
use tokio::runtime::Handle;

use crate::toolbox::OpenError;

/// **Blocks** until a server has answered or none has in time.
///
/// A collection that can never be searched like this is an error. A server that does not answer is
/// not: it may come back, and then it answers.
pub(crate) fn open(
    qdrant: &Qdrant,
    encoder: &Arc<dyn Encoder>,
) -> Result<Arc<dyn Retriever>, OpenError> {
    let cluster = Cluster::new(&qdrant.cluster).map_err(OpenError::of("target"))?;
    let (collection, search) = (&*qdrant.collection, qdrant.search);
    let retriever =
        QdrantRetriever::new(Arc::clone(encoder), Arc::new(cluster), collection, search);
    // Models are opened on a thread of the runtime that may block. Without a runtime there is nobody
    // to serve, and the first search checks the collection.
    if let Ok(runtime) = Handle::try_current() {
        match runtime.block_on(retriever.check(&Call::authoritative())) {
            Ok(passages) => tracing::info!(collection, passages, "collection opened"),
            Err(error @ PortError::Refused { .. }) => return Err(OpenError::of("target")(error)),
            Err(error) => {
                let why = with_causes(&error);
                tracing::warn!(why, "look-ups will fail until Qdrant answers");
            }
        }
    }
    Ok(Arc::new(retriever))
}

/// The entries that servers share. **Blocks** as [`open`] does, and for the same reasons.
pub(crate) fn memory(
    shared: &MemoryCollection,
    encoder: &Arc<dyn Encoder>,
) -> Result<Arc<dyn SharedEntries>, OpenError> {
    let failed = "shared memory";
    let cluster = Cluster::new(&shared.cluster).map_err(OpenError::of(failed))?;
    let collection = &*shared.collection;
    let memory = QdrantMemory::new(Arc::new(cluster), collection, &**encoder);
    if let Ok(runtime) = Handle::try_current() {
        match runtime.block_on(memory.check(&Call::authoritative())) {
            Ok(entries) => tracing::info!(collection, entries, "shared memory opened"),
            Err(error @ PortError::Refused { .. }) => return Err(OpenError::of(failed)(error)),
            Err(error) => {
                let why = with_causes(&error);
                tracing::warn!(
                    why,
                    "questions go without the shared memory until Qdrant answers"
                );
            }
        }
    }
    Ok(Arc::new(memory))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use spechop_qdrant::{ClusterOptions, SearchOptions};
    use spechop_testkit::{OwnPort, TextVectors};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_qdrant_that_is_down_keeps_no_server_from_starting() {
        let nobody = OwnPort::reserve();
        let url = format!("http://{}", nobody.address());
        let mut cluster = ClusterOptions::new(vec![url.clone()]);
        cluster.retries.pause = Duration::ZERO;
        let qdrant = Qdrant {
            cluster,
            collection: "passages".to_owned(),
            search: SearchOptions::default(),
        };
        let encoder: Arc<dyn Encoder> = Arc::new(TextVectors::alike());
        let opening = tokio::task::spawn_blocking(move || open(&qdrant, &encoder));
        let retriever = opening.await.unwrap().unwrap();
        let call = Call::authoritative();
        let error = retriever.retrieve(&call, "rivers", 3).await.unwrap_err();
        assert!(matches!(error, PortError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains(&url), "{error}");
    }
}
