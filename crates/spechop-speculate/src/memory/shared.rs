//! A memory whose entries several servers share.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_ports::{
    Call, Encoder, GuessRequest, Guessed, Lane, PortError, SharedEntries, Speculator,
};
use spechop_types::{Chance, Hop, Owned, OwnedCache, SubQuestion, Tenant};
use tokio::sync::Notify;

use super::entry::{Entry, Heard, neighbours};
use super::nearest::Vector;
use super::{GIVEN_MAX, MemoryOptions, PAUSE, guessed};

/// Committed hops that wait to be written. If there are more, the oldest is not learnt from: while the
/// entries cannot be reached, the memory of this server must not grow.
const NEWS_MAX: usize = 1024;
/// How often a change is tried if other servers change the same entry at the same time.
const ATTEMPTS_MAX: usize = 8;
/// Neighbours that are looked at for each guess: some of them name other things, or say the same.
const LOOKED_AT: usize = 4;

/// Whether a guess says what was observed.
pub type Agrees = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// A [`Memory`](super::Memory) whose entries are elsewhere, so that every server that shares them guesses
/// what any of them has verified. The records of entries are shared as well: what was wrong for one server
/// falls silent for all.
///
/// **Whose.** Entries belong to tenants, as those of a [`Memory`](super::Memory) do.
///
/// **Writing** is not waited for by questions: committed hops are put in line, and
/// [`SharedMemory::keep_up`] writes them. If the entries cannot be reached, or the encoder has no room for
/// their vectors, the line waits, and its oldest hops leave if it grows too long.
///
/// **Guessing** asks for the entry of the same words, and then for the nearest ones. If the entries
/// cannot be reached, the guess fails, which is what a hop without a guess is.
///
/// If a write was taken and the answer to it is lost, it is made again, and counted twice.
pub struct SharedMemory {
    entries: Arc<dyn SharedEntries>,
    encoder: Arc<dyn Encoder>,
    options: MemoryOptions,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

struct Waiting {
    news: VecDeque<News>,
    /// By the key of what was asked: the neighbour's key, and its answer at that time.
    given: OwnedCache<Arc<str>, Given>,
}

type Given = (Arc<str>, Arc<str>);

/// A committed hop that is still to be written.
#[derive(Clone)]
struct News {
    tenant: Tenant,
    heard: Heard,
    /// What was guessed for it as a neighbour; `None` once its record is written.
    given: Option<Given>,
    agrees: Agrees,
}

/// A hop that is being written. If that fails for now, or is dropped, the hop is first in line again.
struct InHand<'a> {
    line: &'a Mutex<Waiting>,
    news: News,
    still_waits: bool,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if !self.still_waits {
            return;
        }
        let mut waiting = self.line.lock();
        if waiting.news.len() < NEWS_MAX {
            waiting.news.push_front(self.news.clone());
        }
    }
}

impl SharedMemory {
    /// Over these entries; those of `options.most` that were written last stay.
    pub fn new(
        entries: Arc<dyn SharedEntries>,
        encoder: Arc<dyn Encoder>,
        options: MemoryOptions,
    ) -> Self {
        Self {
            entries,
            encoder,
            options,
            waiting: Mutex::new(Waiting {
                news: VecDeque::new(),
                given: OwnedCache::new(GIVEN_MAX),
            }),
            arrived: Notify::new(),
        }
    }

    /// A hop of the tenant was committed.
    pub fn committed(&self, tenant: &Tenant, hop: &Hop, agrees: Agrees) {
        let heard = Heard::of(hop);
        let key = Owned::new(tenant, Arc::<str>::from(heard.asked.key()));
        let mut waiting = self.waiting.lock();
        let given = waiting.given.remove(&key);
        if waiting.news.len() >= NEWS_MAX {
            waiting.news.pop_front();
        }
        waiting.news.push_back(News {
            tenant: tenant.clone(),
            heard,
            given,
            agrees,
        });
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Writes what was committed for as long as it is polled.
    pub async fn keep_up(&self) -> Infallible {
        loop {
            match self.write().await {
                Ok(()) => self.arrived.notified().await,
                // Whoever wraps the entries says why.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Writes what was committed by now.
    ///
    /// # Errors
    ///
    /// If the entries cannot be reached, or the encoder has no room: what could not be written still waits. Or if a
    /// hop is refused, which does not wait. One whose entry cannot be read is passed over.
    pub async fn write(&self) -> Result<(), PortError> {
        loop {
            let next = self.waiting.lock().news.pop_front();
            let Some(news) = next else { return Ok(()) };
            let mut in_hand = InHand {
                line: &self.waiting,
                news,
                still_waits: true,
            };
            let ended = self.learn(&mut in_hand.news).await;
            in_hand.still_waits = matches!(
                ended,
                Err(PortError::Unavailable { .. }
                    | PortError::Timeout { .. }
                    | PortError::NotSpeculated { .. })
            );
            match ended {
                // Nobody can read this entry, now or later. The other hops do not wait for it.
                Ok(()) | Err(PortError::Malformed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// How many committed hops wait to be written.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().news.len()
    }

    async fn learn(&self, news: &mut News) -> Result<(), PortError> {
        // Behind everything that anybody waits for.
        let call = Call::of(news.tenant.clone(), Lane::Speculative, Chance::NONE);
        let heard = &news.heard;
        if let Some((neighbour, answer)) = news.given.clone() {
            let key = call.owned(neighbour);
            self.change(&call, &key, |before| {
                let mut entry = before?;
                let counts = entry.was_neighbour(&answer, heard, &*news.agrees);
                counts.then_some(entry)
            })
            .await?;
            // If the rest fails, it is not counted again.
            news.given = None;
        }
        let key = call.owned(heard.asked.key().into());
        let change = self.change(&call, &key, |before| match before {
            Some(mut entry) => {
                entry.hears(heard, &*news.agrees);
                Some(entry)
            }
            None => Entry::new(heard),
        });
        if change.await? == Change::New {
            // The hop is written by now: if this failed it, it would be written and counted again. The next
            // new entry trims as well, and whoever wraps the entries says why.
            let _ = self.entries.trim(&call, self.options.most).await;
        }
        Ok(())
    }

    /// Changes an entry, whoever else changes it meanwhile.
    async fn change(
        &self,
        call: &Call,
        key: &Owned<Arc<str>>,
        fold: impl Fn(Option<Entry>) -> Option<Entry>,
    ) -> Result<Change, PortError> {
        for _ in 0..ATTEMPTS_MAX {
            let found = self.entries.find(call, key).await?;
            let (before, version) = match found {
                Some((before, version)) => (Some(before), Some(version)),
                None => (None, None),
            };
            let Some(after) = fold(before.as_ref().and_then(Entry::resumed)) else {
                return Ok(Change::None);
            };
            let width = self.encoder.width();
            let known = before.and_then(|before| before.vector);
            let known = known.filter(|vector| vector.len() == width);
            let vector = match known {
                Some(vector) => Some(vector),
                None => self.vector(call, &after.asked).await?,
            };
            let after = after.remembered(&key.tenant, vector);
            if self
                .entries
                .replace(call, key, &after, version.as_ref())
                .await?
            {
                return Ok(match version {
                    Some(_) => Change::Changed,
                    None => Change::New,
                });
            }
        }
        // So many others write the same entry that this hop is not missed.
        Ok(Change::None)
    }

    /// An encoder that fails has said so elsewhere; without a vector an entry has its own words. One that made
    /// room for what is needed is asked again: the entry would be without one for all servers.
    async fn vector(&self, call: &Call, asked: &str) -> Result<Option<Vec<i8>>, PortError> {
        match self.encoder.encode_query(call, asked).await {
            Ok(vector) => Ok(Some(Vector::of(&vector).values().to_vec())),
            Err(error @ PortError::NotSpeculated { .. }) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// What has become of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Changed,
    New,
}

#[async_trait]
impl Speculator for SharedMemory {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let asked = request.sub_question;
        let key = call.owned(Arc::<str>::from(asked.key()));
        if let Some((found, _)) = self.entries.find(call, &key).await? {
            let entry = Entry::resumed(&found);
            return Ok(guessed(entry.and_then(|entry| entry.own_guess())));
        }
        let vector = self.encoder.encode_query(call, asked.as_str()).await?;
        let vector = Vector::of(&vector);
        let limit = request.limit.get();
        let looked_at = NonZeroUsize::MIN.saturating_add(LOOKED_AT * limit);
        let (tenant, least) = (&key.tenant, self.options.similarity);
        let near = self
            .entries
            .near(call, tenant, vector.values(), least, looked_at);
        let near = near.await?;
        let near: Vec<_> = near
            .iter()
            .filter_map(|(cosine, found)| Some((*cosine, Entry::resumed(found)?)))
            .collect();
        let keyed = near.iter().map(|(cosine, entry)| {
            let key: Arc<str> = SubQuestion::new(&entry.asked).key().into();
            (*cosine, key, entry)
        });
        let guesses = neighbours(asked.as_str(), keyed, limit);
        if let Some((neighbour, best)) = guesses.first() {
            let given = (Arc::clone(neighbour), Arc::clone(&best.text));
            self.waiting.lock().given.insert(key, given);
        }
        Ok(guessed(guesses.into_iter().map(|(_, guess)| guess)))
    }
}

#[cfg(test)]
mod tests;
