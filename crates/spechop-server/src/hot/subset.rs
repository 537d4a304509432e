//! The hot subset that is searched, until another takes its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::RwLock;
use spechop_ports::{Call, Encoder, PortError, Retriever, Vitals};
use spechop_store::{IndexError, IndexRetriever, LexicalWeight, PassageIndex};
use spechop_types::Passage;

/// A hot subset that can be exchanged while it is searched. A search that has begun ends on the subset
/// that it began on. If there is no subset yet, nothing is found.
pub struct HotSubset {
    dir: PathBuf,
    encoder: Arc<dyn Encoder>,
    words: LexicalWeight,
    vitals: Vitals,
    open: RwLock<Option<Arc<IndexRetriever>>>,
}

impl HotSubset {
    /// Opens the subset in `dir`, if there is one. `words` is the weight of the index: only who ranks
    /// alike finds alike. **Blocks.**
    ///
    /// # Errors
    ///
    /// If it is damaged, or of another encoder.
    pub fn open(
        dir: &Path,
        encoder: &Arc<dyn Encoder>,
        words: LexicalWeight,
        vitals: &Vitals,
    ) -> Result<Self, IndexError> {
        let subset = Self {
            dir: dir.to_owned(),
            encoder: Arc::clone(encoder),
            words,
            vitals: vitals.clone(),
            open: RwLock::new(None),
        };
        if dir.exists() {
            subset.reopen()?;
        }
        Ok(subset)
    }

    /// Where it lies.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn is_there(&self) -> bool {
        self.current().is_some()
    }

    /// Opens what lies in the folder now. Searches that begin from now on are its. **Blocks.**
    pub(super) fn reopen(&self) -> Result<(), IndexError> {
        let index = PassageIndex::open_watched(&self.dir, &self.vitals)?;
        let index = index.with_words(self.words)?;
        let (passages, dir) = (index.rows(), self.dir.display());
        tracing::info!(part = "hot subset", passages, %dir, "index opened");
        let fresh = IndexRetriever::new(Arc::clone(&self.encoder), Arc::new(index))?;
        let old = self.open.write().replace(Arc::new(fresh));
        // Not under the lock: its threads end with it, unless a search still has it.
        drop(old);
        Ok(())
    }

    fn current(&self) -> Option<Arc<IndexRetriever>> {
        self.open.read().clone()
    }
}

#[async_trait]
impl Retriever for HotSubset {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        match self.current() {
            Some(subset) => subset.retrieve(call, query, limit).await,
            None => Ok(Vec::new()),
        }
    }

    async fn warm(&self, call: &Call, query: &str) -> Result<(), PortError> {
        match self.current() {
            Some(subset) => subset.warm(call, query).await,
            None => Ok(()),
        }
    }
}
