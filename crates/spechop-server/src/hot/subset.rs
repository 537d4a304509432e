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
    open: RwLock<Option<Opened>>,
}

/// A subset, and what it tells by if it breaks.
struct Opened {
    retriever: Arc<IndexRetriever>,
    vitals: Vitals,
}

impl HotSubset {
    /// Opens the subset in `dir`, if there is one. `words` is the weight of the index: only who ranks
    /// alike finds alike. **Blocks.**
    ///
    /// # Errors
    ///
    /// If it is damaged, of another encoder, or a part of an index.
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
    ///
    /// If the old one was broken, the subset is whole again. If the new one cannot be opened, the old
    /// one stays, and so does what is known of it.
    pub(super) fn reopen(&self) -> Result<(), IndexError> {
        let vitals = self.vitals.replaceable();
        // Nobody searches it then, so it does not matter what its thread has found out meanwhile.
        let retriever = self.retriever(&vitals).inspect_err(|_| vitals.retire())?;
        let retriever = Arc::new(retriever);
        let old = self.open.write().replace(Opened { retriever, vitals });
        // Not under the lock: its threads end with it, unless a search still has it.
        if let Some(old) = old {
            old.vitals.retire();
        }
        Ok(())
    }

    fn retriever(&self, vitals: &Vitals) -> Result<IndexRetriever, IndexError> {
        let index = PassageIndex::open_watched(&self.dir, vitals)?;
        let index = index.with_words(self.words)?;
        let (passages, dir) = (index.rows(), self.dir.display());
        tracing::info!(part = "hot subset", passages, %dir, "index opened");
        IndexRetriever::new(Arc::clone(&self.encoder), Arc::new(index))
    }

    fn current(&self) -> Option<Arc<IndexRetriever>> {
        let open = self.open.read();
        open.as_ref().map(|opened| Arc::clone(&opened.retriever))
    }

    /// What the subset that is searched now tells by.
    #[cfg(test)]
    pub(super) fn told_by(&self) -> Option<Vitals> {
        let open = self.open.read();
        open.as_ref().map(|opened| opened.vitals.clone())
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
