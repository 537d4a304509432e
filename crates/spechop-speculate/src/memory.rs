//! Guessing what was looked up and verified before.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_ports::{
    Call, Encoder, Guess, GuessRequest, Guessed, Lane, PortError, Remembered, Speculator,
};
use spechop_types::{Chance, Hop, Owned, OwnedCache, SubQuestion, Tenant, Tokens};
use tokio::sync::Notify;

use entry::{Entry, Heard, neighbours};
use nearest::{Vector, Vectors};
pub use shared::{Agrees, SharedMemory};

mod entry;
mod nearest;
mod shared;

/// Guesses whose outcome is awaited. A branch that was rolled back never tells.
const GIVEN_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

/// How long a memory learns nothing after it could not.
const PAUSE: Duration = Duration::from_secs(5);

/// How a [`Memory`] remembers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryOptions {
    /// Most entries, those of all tenants together. The least recently used one is forgotten.
    pub most: NonZeroUsize,
    /// The least cosine, 0 to 1, at which another sub-question counts as nearly the same.
    pub similarity: f32,
}

/// Remembers the sub-questions of committed hops with what the target tool found for them, and guesses
/// that again. The guess is verified like any other: the memory can be out of date, and never makes an
/// answer wrong.
///
/// A sub-question is found by its own words ([`SubQuestion::key`]), which takes no model. Otherwise the
/// nearest ones are taken, if they are near enough and name the same things: sub-questions about different
/// films differ in one word, and their vectors hardly at all.
///
/// **Records.** An entry counts how often it was right and wrong: for its own words whenever a hop with
/// them is committed, whoever guessed it, and as a neighbour whenever it was guessed as one. As a neighbour
/// it is neither right nor wrong if nothing was found, or if its answer has changed meanwhile. An entry that
/// was wrong more often than right is not guessed, until its own words have been right again. So an answer
/// that changes all the time falls silent. The confidence of a guess is that of its record, by Laplace's
/// rule of succession, times the similarity.
///
/// **Whose.** Entries belong to tenants ([`spechop_types::Owned`]). Only committed hops are remembered, and
/// of these only what was observed, never what was guessed.
///
/// **Cost.** An entry takes up to 2 KiB. The nearest ones are found by looking at each of the tenant's
/// vectors (384 bytes each, of which a core compares some ten million in a second), under a lock.
pub struct Memory {
    encoder: Arc<dyn Encoder>,
    options: MemoryOptions,
    kept: Mutex<Kept>,
    /// Told if an entry waits for its vector.
    unencoded: Notify,
    changes: AtomicU64,
}

struct Kept {
    /// By [`SubQuestion::key`].
    entries: OwnedCache<Arc<str>, Entry>,
    vectors: HashMap<Tenant, Vectors>,
    /// Keys of entries without vectors.
    unencoded: OwnedCache<Arc<str>, ()>,
    /// By the key of what was asked: the neighbour's key, and its answer at that time.
    given: OwnedCache<Arc<str>, (Arc<str>, Arc<str>)>,
}

impl Memory {
    /// Remembers nothing yet.
    pub fn new(encoder: Arc<dyn Encoder>, options: MemoryOptions) -> Self {
        Self {
            encoder,
            options,
            kept: Mutex::new(Kept {
                entries: OwnedCache::new(options.most),
                vectors: HashMap::new(),
                unencoded: OwnedCache::new(options.most),
                given: OwnedCache::new(GIVEN_MAX),
            }),
            unencoded: Notify::new(),
            changes: AtomicU64::new(0),
        }
    }

    /// A hop of the tenant was committed. `agrees` says whether a guess says what was observed.
    pub fn committed(&self, tenant: &Tenant, hop: &Hop, agrees: impl Fn(&str, &str) -> bool) {
        let heard = Heard::of(hop);
        let key = Owned::new(tenant, Arc::<str>::from(heard.asked.key()));
        let mut kept = self.kept.lock();
        if let Some((neighbour, answer)) = kept.given.remove(&key) {
            let neighbour = Owned::new(tenant, neighbour);
            if let Some(entry) = kept.entries.get(&neighbour) {
                entry.was_neighbour(&answer, &heard, &agrees);
            }
        }
        match kept.entries.get(&key) {
            Some(entry) => {
                entry.hears(&heard, agrees);
                // The encoder may have failed when it was new.
                if kept.vector(&key).is_none() {
                    kept.unencoded.insert(key, ());
                    self.unencoded.notify_one();
                }
            }
            None => {
                let Some(entry) = Entry::new(&heard) else {
                    return;
                };
                kept.insert(key, entry, None);
                self.unencoded.notify_one();
            }
        }
        drop(kept);
        self.changes.fetch_add(1, Relaxed);
    }

    /// Gives vectors to new entries for as long as it is polled. Until an entry has one, it is found by its
    /// own words only.
    pub async fn keep_up(&self) -> Infallible {
        loop {
            self.encode().await;
            self.unencoded.notified().await;
        }
    }

    /// Gives vectors to the entries that have none by now. Waits if the encoder has no room for that.
    pub async fn encode(&self) {
        while let Some((key, asked)) = self.next_unencoded() {
            // Behind everything that anybody waits for.
            let call = Call::of(key.tenant.clone(), Lane::Speculative, Chance::NONE);
            match self.encoder.encode_query(&call, &asked).await {
                Ok(vector) => {
                    self.kept.lock().give(key, Vector::of(&vector));
                    self.changes.fetch_add(1, Relaxed);
                }
                // It made room for what is needed: again, in a while.
                Err(PortError::NotSpeculated { .. }) => {
                    self.kept.lock().unencoded.insert(key, ());
                    tokio::time::sleep(PAUSE).await;
                }
                // An encoder that fails has said so elsewhere; without a vector it has its own words, until they
                // are heard again.
                Err(_) => {}
            }
        }
    }

    fn next_unencoded(&self) -> Option<(Owned<Arc<str>>, Arc<str>)> {
        let mut kept = self.kept.lock();
        loop {
            let (key, ()) = kept.unencoded.pop_oldest()?;
            if let Some(entry) = kept.entries.peek(&key) {
                let asked = Arc::clone(&entry.asked);
                return Some((key, asked));
            }
        }
    }

    /// How often anything has changed: a hint that it is time to write.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// The encoder that the vectors are made with.
    pub fn encoder(&self) -> &str {
        self.encoder.fingerprint()
    }

    /// All entries, the least recently used first.
    pub fn entries(&self) -> Vec<Remembered> {
        let kept = self.kept.lock();
        let remembered = |(key, entry): (&Owned<Arc<str>>, &Entry)| {
            let vector = kept.vector(key).map(|vector| vector.values().to_vec());
            entry.remembered(&key.tenant, vector)
        };
        kept.entries.iter().map(remembered).collect()
    }

    /// Takes up an entry that was kept elsewhere; it is the last one used. One that this memory would not
    /// have kept is passed over, and a vector of another width is made anew.
    pub fn resume(&self, remembered: Remembered) {
        let Some(entry) = Entry::resumed(&remembered) else {
            return;
        };
        let width = self.encoder.width();
        let vector = remembered.vector.filter(|values| values.len() == width);
        let asked = SubQuestion::new(&remembered.asked);
        let key = Owned::new(&remembered.tenant, asked.key().into());
        self.kept.lock().insert(key, entry, vector.map(Vector::new));
        self.unencoded.notify_one();
    }
}

impl Kept {
    fn insert(&mut self, key: Owned<Arc<str>>, entry: Entry, vector: Option<Vector>) {
        if let Some((left, _)) = self.entries.insert(key.clone(), entry)
            && let Some(vectors) = self.vectors.get_mut(&left.tenant)
        {
            vectors.remove(&left.item);
            if vectors.is_empty() {
                self.vectors.remove(&left.tenant);
            }
        }
        match vector {
            Some(vector) => self.give(key, vector),
            None => {
                self.unencoded.insert(key, ());
            }
        }
    }

    /// The vector of an entry, if it has one by now.
    fn vector(&self, key: &Owned<Arc<str>>) -> Option<&Vector> {
        self.vectors.get(&key.tenant)?.get(&key.item)
    }

    /// Gives a vector to an entry, if it is still there.
    fn give(&mut self, key: Owned<Arc<str>>, vector: Vector) {
        if self.entries.peek(&key).is_some() {
            let vectors = self.vectors.entry(key.tenant).or_default();
            vectors.insert(key.item, vector);
        }
    }

    /// The nearest entries that may be guessed, the nearest first, no answer twice.
    fn near(
        &self,
        of: &Owned<Arc<str>>,
        asked: &str,
        vector: &Vector,
        (least, most): (f32, usize),
    ) -> Vec<(Arc<str>, Guess)> {
        let Some(vectors) = self.vectors.get(&of.tenant) else {
            return Vec::new();
        };
        let mut near = vectors.near(vector, least);
        near.sort_by_key(|(similarity, _)| Reverse(Chance::of(f64::from(*similarity))));
        let near = near.into_iter().filter_map(|(similarity, key)| {
            let owned = Owned::new(&of.tenant, Arc::clone(&key));
            Some((similarity, key, self.entries.peek(&owned)?))
        });
        neighbours(asked, near, most)
    }
}

#[async_trait]
impl Speculator for Memory {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let asked = request.sub_question;
        let key = call.owned(Arc::<str>::from(asked.key()));
        let has_vectors = {
            let mut kept = self.kept.lock();
            if let Some(entry) = kept.entries.get(&key) {
                return Ok(guessed(entry.own_guess()));
            }
            kept.vectors.contains_key(&key.tenant)
        };
        if !has_vectors {
            return Ok(guessed(None));
        }
        let vector = self.encoder.encode_query(call, asked.as_str()).await?;
        let vector = Vector::of(&vector);
        let within = (self.options.similarity, request.limit.get());
        let mut kept = self.kept.lock();
        let near = kept.near(&key, asked.as_str(), &vector, within);
        if let Some((neighbour, best)) = near.first() {
            let used = Owned::new(&key.tenant, Arc::clone(neighbour));
            kept.entries.get(&used);
            let given = (Arc::clone(neighbour), Arc::clone(&best.text));
            kept.given.insert(key, given);
        }
        Ok(guessed(near.into_iter().map(|(_, guess)| guess)))
    }
}

fn guessed(guesses: impl IntoIterator<Item = Guess>) -> Guessed {
    Guessed {
        guesses: guesses.into_iter().collect(),
        tokens: Tokens::default(),
    }
}

#[cfg(test)]
mod tests;
