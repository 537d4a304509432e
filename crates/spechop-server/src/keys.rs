//! Whether a key is right, at a cost that strangers cannot drive up.
//!
//! Argon2 takes milliseconds and megabytes on purpose. A key has one hash and a hash has one key, so the
//! digest of the right key is remembered beside its hash once it has been seen. From then on every key of
//! that name, right or wrong, costs one SHA-256. Only a key that nobody has used since the start is
//! checked by Argon2. [`CHECKS_AT_ONCE`] such checks run at once, on threads that may block, and
//! [`CHECKS_WAITING`] wait. What is remembered is bounded by the operator's own list.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use spechop_config::api_keys::{Key, KeyName, name_in};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::gcra::Gcra;

/// Checks by Argon2 at once: each takes a core, and 256 MiB at most.
const CHECKS_AT_ONCE: usize = 2;

/// Checks that may wait for their turn.
const CHECKS_WAITING: usize = 64;

/// The keys of the operator's list.
pub(crate) struct Ring {
    keys: HashMap<KeyName, Arc<Held>>,
    /// Makes digests that mean nothing outside of this process.
    salt: [u8; 32],
    checks: Arc<Semaphore>,
    /// Room for those that run and those that wait.
    room: Arc<Semaphore>,
}

/// A key, and what is known of it since the start.
pub(crate) struct Held {
    pub(crate) key: Key,
    /// What its own limit has left.
    pub(crate) bucket: Mutex<Gcra>,
    /// The digest of the right key, once it was there.
    right: OnceLock<[u8; 32]>,
}

/// Why a key is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckError {
    /// There is no such key.
    Wrong,
    /// Too many keys wait to be checked.
    Busy,
}

impl Ring {
    /// The keys of this list, no two of which have the same name. What `before` knows of a key that has
    /// stayed the same is known of it still.
    pub(crate) fn new(keys: &[Key], before: Option<&Self>) -> Self {
        let held = |key: &Key| {
            let same = before.and_then(|ring| ring.keys.get(&key.name));
            match same.filter(|held| held.key == *key) {
                Some(held) => Arc::clone(held),
                None => Arc::new(Held {
                    key: key.clone(),
                    bucket: Mutex::default(),
                    right: OnceLock::new(),
                }),
            }
        };
        let limited = |places| Arc::new(Semaphore::new(places));
        Self {
            keys: keys
                .iter()
                .map(|key| (key.name.clone(), held(key)))
                .collect(),
            salt: before.map_or_else(rand::random, |ring| ring.salt),
            checks: before.map_or_else(|| limited(CHECKS_AT_ONCE), |ring| ring.checks.clone()),
            room: before.map_or_else(
                || limited(CHECKS_AT_ONCE + CHECKS_WAITING),
                |ring| ring.room.clone(),
            ),
        }
    }

    /// Whether there is nobody who may ask.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key that this text is.
    pub(crate) async fn check(&self, text: &str) -> Result<Arc<Held>, CheckError> {
        let name = name_in(text).and_then(|name| KeyName::new(name).ok());
        let held = name.and_then(|name| self.keys.get(&name));
        let held = Arc::clone(held.ok_or(CheckError::Wrong)?);
        let digest = self.digest(text);
        if let Some(verdict) = held.known(&digest) {
            return verdict.map(|()| held);
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return Err(CheckError::Busy);
        };
        // It fails if the semaphore is closed, which nobody does.
        let turn = Arc::clone(&self.checks).acquire_owned().await;
        // Somebody else may have shown it meanwhile.
        if let Some(verdict) = held.known(&digest) {
            return verdict.map(|()| held);
        }
        let (text, checked) = (text.to_owned(), Arc::clone(&held));
        // It ends by itself. It keeps its turn until then, even if nobody waits for it any more.
        let fits = spawn_blocking(move || {
            let _held_until_the_end = (turn, room);
            checked.key.hash.fits(&text)
        });
        if !fits.await.unwrap_or(false) {
            return Err(CheckError::Wrong);
        }
        let _ = held.right.set(digest);
        Ok(held)
    }

    fn digest(&self, text: &str) -> [u8; 32] {
        let digest = Sha256::new_with_prefix(self.salt).chain_update(text);
        digest.finalize().into()
    }
}

impl Held {
    /// By its digest alone; `None` if the right one was never seen.
    fn known(&self, digest: &[u8; 32]) -> Option<Result<(), CheckError>> {
        let right = self.right.get()?;
        Some(match bool::from(right.ct_eq(digest)) {
            true => Ok(()),
            false => Err(CheckError::Wrong),
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use futures::stream::FuturesUnordered;
    use secrecy::ExposeSecret;
    use spechop_config::api_keys::{Behalf, Cost, NewKey, Role};
    use spechop_types::Tenant;

    use super::*;

    fn key(name: &str, memory_kib: u32) -> (String, Key) {
        let name = KeyName::new(name).unwrap();
        let cost = Cost {
            memory_kib,
            passes: 1,
        };
        let made = NewKey::generate(&name, cost).unwrap();
        let key = Key {
            name,
            hash: made.hash,
            behalf: Behalf::Of(Tenant::default()),
            roles: vec![Role::Ask],
            rate: None,
        };
        (made.key.expose_secret().to_owned(), key)
    }

    #[tokio::test]
    async fn the_right_key_alone_is_taken_before_and_after_it_was_seen() {
        let (text, one) = key("one", 64);
        let (other_text, _) = key("two", 64);
        let ring = Ring::new(&[one], None);
        let nearly = format!("{}x", &text[..text.len() - 1]);
        for _ in 0..2 {
            for wrong in ["", "spechop.one.", "spechop.one.x", &nearly, &other_text] {
                let checked = ring.check(wrong).await.map(|_| ());
                assert_eq!(checked, Err(CheckError::Wrong), "{wrong}");
            }
            assert_eq!(ring.check(&text).await.unwrap().key.name.as_str(), "one");
        }
    }

    /// Once the right key was there, nothing waits for Argon2 any more, though all turns are taken.
    #[tokio::test]
    async fn what_was_seen_costs_no_turn() {
        let (text, one) = key("one", 64);
        let ring = Ring::new(std::slice::from_ref(&one), None);
        ring.check(&text).await.unwrap();
        let _all = ring.room.try_acquire_many(66).unwrap();
        ring.check(&text).await.unwrap();
        let wrong = ring.check("spechop.one.wrong").await.map(|_| ());
        assert_eq!(wrong, Err(CheckError::Wrong));
        // A list that was read again knows it still, unless its hash is another one.
        let again = Ring::new(std::slice::from_ref(&one), Some(&ring));
        again.check(&text).await.unwrap();
        let (_, changed) = key("one", 64);
        let changed = Ring::new(&[changed], Some(&ring));
        let busy = changed.check(&text).await.map(|_| ());
        assert_eq!(busy, Err(CheckError::Busy));
    }

    /// A flood of wrong keys takes the threads that it may, and no more; the rest hears so.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_flood_is_bounded() {
        let (text, one) = key("one", 1024);
        let ring = Ring::new(&[one], None);
        let wrong: Vec<_> = (0..500).map(|n| format!("spechop.one.{n}")).collect();
        let turns = Arc::clone(&ring.checks).acquire_many_owned(2).await;
        let mut flood: FuturesUnordered<_> = wrong.iter().map(|key| ring.check(key)).collect();
        for _ in 0..500 - CHECKS_AT_ONCE - CHECKS_WAITING {
            let refused = flood.next().await.unwrap();
            assert_eq!(refused.err(), Some(CheckError::Busy));
        }
        drop(turns);
        while let Some(checked) = flood.next().await {
            assert_eq!(checked.err(), Some(CheckError::Wrong));
        }
        ring.check(&text).await.unwrap();
        assert_eq!(ring.room.available_permits(), 66);
    }
}
