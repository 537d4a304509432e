//! Cells that several servers of one test share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use spechop_ports::{PortError, SharedCells, Swapped};
use tokio::time::{Instant, sleep};

/// Each by its name, and until when it stays.
type Texts = HashMap<String, (String, Instant)>;

/// Texts in this process. They can be put out of reach, or made to lose their answers.
#[derive(Debug, Default)]
pub struct CellMap {
    texts: Mutex<Texts>,
    /// Whether nobody reaches them.
    pub is_down: AtomicBool,
    /// Whether changes are made, and nobody hears of it.
    pub is_mute: AtomicBool,
    /// How often they were asked.
    pub asked: AtomicU64,
}

impl CellMap {
    fn reach(&self) -> Result<MutexGuard<'_, Texts>, PortError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_down.load(Ordering::Relaxed) {
            return Err(PortError::unavailable("the cells", "they are down"));
        }
        let mut texts = self.texts.lock();
        let now = Instant::now();
        texts.retain(|_, (_, until)| now < *until);
        Ok(texts)
    }
}

#[async_trait]
impl SharedCells for CellMap {
    async fn read(&self, name: &str) -> Result<Option<String>, PortError> {
        // As long as a server next door takes.
        sleep(Duration::from_millis(1)).await;
        Ok(self.reach()?.get(name).map(|(text, _)| text.clone()))
    }

    async fn swap(
        &self,
        name: &str,
        seen: Option<&str>,
        new: &str,
        keep: Duration,
    ) -> Result<Swapped, PortError> {
        sleep(Duration::from_millis(1)).await;
        let mut texts = self.reach()?;
        let there = texts.get(name).map(|(text, _)| text.clone());
        if there.as_deref() != seen {
            return Ok(Swapped::Other(there));
        }
        texts.insert(name.to_owned(), (new.to_owned(), Instant::now() + keep));
        if self.is_mute.load(Ordering::Relaxed) {
            return Err(PortError::unavailable("the cells", "the answer is lost"));
        }
        Ok(Swapped::Made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn they_keep_the_promises_of_the_port() {
        spechop_ports::contract::shared_cells(&CellMap::default()).await;
    }
}
