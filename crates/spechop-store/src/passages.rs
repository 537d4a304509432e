//! An index as [`Passages`]: its rows by the identifiers of their passages.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use async_trait::async_trait;
use spechop_ports::{Passages, PortError};
use spechop_types::Passage;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::error::IndexError;
use crate::index::PassageIndex;

/// Finds the passages of an index by their identifiers. The first call reads all identifiers, once. From
/// then on it holds 16 bytes for each row.
pub struct IndexPassages {
    index: Arc<PassageIndex>,
    rows: Arc<OnceCell<Arc<Rows>>>,
}

/// The rows in the order of their identifiers' hashes.
struct Rows {
    random: RandomState,
    by_hash: Vec<(u64, usize)>,
}

impl IndexPassages {
    /// Nothing is read yet.
    pub fn new(index: Arc<PassageIndex>) -> Self {
        Self {
            index,
            rows: Arc::default(),
        }
    }

    /// Read by a task of its own: whoever stops waiting does not stop those who wait for it, too, and nobody reads
    /// them twice.
    #[expect(
        clippy::disallowed_methods,
        reason = "it ends by itself, and belongs to all who wait for it"
    )]
    async fn rows(&self) -> Result<Arc<Rows>, PortError> {
        if let Some(rows) = self.rows.get() {
            return Ok(Arc::clone(rows));
        }
        let (index, cell) = (Arc::clone(&self.index), Arc::clone(&self.rows));
        let reading = tokio::spawn(async move {
            let read = || async {
                let of = Arc::clone(&index);
                let rows = spawn_blocking(move || Rows::read(&of)).await;
                let rows = rows.map_err(|error| unavailable(&index, error))?;
                let rows = rows.map_err(|error| unavailable(&index, error))?;
                Ok::<_, PortError>(Arc::new(rows))
            };
            cell.get_or_try_init(read).await.cloned()
        });
        let rows = reading.await;
        rows.map_err(|error| unavailable(&self.index, error))?
    }
}

#[async_trait]
impl Passages for IndexPassages {
    async fn passage(&self, id: &str) -> Result<Option<Passage>, PortError> {
        let rows = self.rows().await?;
        let (index, id) = (Arc::clone(&self.index), id.to_owned());
        // One record, of memory or of a file.
        let found = spawn_blocking(move || rows.find(&index, &id)).await;
        let found = found.map_err(|error| unavailable(self.index.as_ref(), error))?;
        let found = found.map_err(|error| unavailable(self.index.as_ref(), error))?;
        // What was found in a damaged index might be wrong.
        self.index.usable()?;
        Ok(found)
    }
}

fn unavailable(
    index: &PassageIndex,
    error: impl std::error::Error + Send + Sync + 'static,
) -> PortError {
    PortError::unavailable(format!("the index {}", index.dir().display()), error)
}

impl Rows {
    fn read(index: &PassageIndex) -> Result<Self, IndexError> {
        let random = RandomState::new();
        let mut by_hash = Vec::with_capacity(index.rows());
        for row in 0..index.rows() {
            by_hash.push((random.hash_one(index.passage(row)?.fields().id), row));
        }
        by_hash.sort_unstable();
        Ok(Self { random, by_hash })
    }

    fn find(&self, index: &PassageIndex, id: &str) -> Result<Option<Passage>, IndexError> {
        let hash = self.random.hash_one(id);
        let first = self.by_hash.partition_point(|(other, _)| *other < hash);
        let alike = self.by_hash[first..]
            .iter()
            .take_while(|(other, _)| *other == hash);
        for (_, row) in alike {
            let stored = index.passage(*row)?;
            let fields = stored.fields();
            if fields.id == id {
                return Ok(Some(Passage {
                    id: fields.id.into(),
                    title: fields.title.into(),
                    text: fields.text.into(),
                    url: fields.url.map(Into::into),
                    score: 0.0,
                }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::fixture::{unit_vectors, write};

    #[tokio::test]
    async fn whoever_stops_waiting_stops_no_reading() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &unit_vectors(1, 30, 8), 20);
        let passages = IndexPassages::new(Arc::new(PassageIndex::open(dir.path()).unwrap()));
        {
            let mut asked = pin!(passages.passage("p-7"));
            let once = |context: &mut std::task::Context<'_>| {
                assert!(asked.as_mut().poll(context).is_pending());
                Poll::Ready(())
            };
            std::future::poll_fn(once).await;
        }
        // It would never be, if the reading had gone with who asked.
        while !passages.rows.initialized() {
            tokio::task::yield_now().await;
        }
        let found = passages.passage("p-7").await.unwrap().unwrap();
        assert_eq!(&*found.title, "Title 7");
        assert!(passages.passage("p-30").await.unwrap().is_none());
    }
}
