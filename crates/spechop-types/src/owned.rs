//! What questions leave behind, and whose it is.
//!
//! **The rule.** Whatever a question leaves behind that can make a later one faster or different is
//! kept under a key that holds its tenant, and is found by that tenant alone. Otherwise a tenant could
//! tell from times, or from answers, what others have asked.
//!
//! [`Owned`] is that key, and [`OwnedCache`] is a bounded memory of such keys. A cache that needs
//! another shape (calls under way, the KV of a model) takes [`Owned`] for its key.
//!
//! Three things are common to all tenants, since they say nothing of any question: what the operator
//! gave to the server (models, indexes, instructions, prices), how busy each part of it is, and how
//! long its calls take on average. So a tenant can notice that others are at work, and no more.
//!
//! One thing that questions leave behind can be common, if the operator says so: a hot subset of the index
//! that follows the traffic of tenants whom the operator has named. By default there are none.
//!
//! A bound holds for all tenants together. Others can make a tenant's entries leave early, which
//! again says no more than that they are at work.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::num::NonZeroUsize;

use crate::Tenant;

/// An item and the tenant whose it is. Equal only for the same tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owned<T> {
    /// Whose it is.
    pub tenant: Tenant,
    /// What it is.
    pub item: T,
}

impl<T> Owned<T> {
    /// An item of this tenant.
    pub fn new(tenant: &Tenant, item: T) -> Self {
        Self {
            tenant: tenant.clone(),
            item,
        }
    }
}

/// A bounded memory of what questions leave behind. The least recently used entry leaves first.
///
/// Every operation takes time logarithmic in the number of entries, whoever asks and whatever for.
#[derive(Clone, Debug)]
pub struct OwnedCache<K, V> {
    most: usize,
    entries: HashMap<Owned<K>, Entry<V>>,
    /// The same keys by their last use.
    by_use: BTreeMap<u64, Owned<K>>,
    uses: u64,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    value: V,
    used: u64,
}

impl<K: Clone + Eq + Hash, V> OwnedCache<K, V> {
    /// Room for `most` entries, those of all tenants together.
    pub fn new(most: NonZeroUsize) -> Self {
        Self {
            most: most.get(),
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    /// What is kept under this key, which is now the last one used.
    pub fn get(&mut self, key: &Owned<K>) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        if let Some(key) = self.by_use.remove(&entry.used) {
            self.uses += 1;
            entry.used = self.uses;
            self.by_use.insert(self.uses, key);
        }
        Some(&mut entry.value)
    }

    /// What is kept under this key. Looking is no use: the entry leaves no later for it.
    pub fn peek(&self, key: &Owned<K>) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Keeps a value. Returns the entry that had to leave: the one under the same key, or else the
    /// least recently used one, if there was no room.
    pub fn insert(&mut self, key: Owned<K>, value: V) -> Option<(Owned<K>, V)> {
        let before = self.remove(&key).map(|value| (key.clone(), value));
        let full = self.entries.len() >= self.most;
        let left = before.or_else(|| if full { self.pop_oldest() } else { None });
        self.uses += 1;
        let used = self.uses;
        self.by_use.insert(used, key.clone());
        self.entries.insert(key, Entry { value, used });
        left
    }

    /// Takes out what is kept under this key.
    pub fn remove(&mut self, key: &Owned<K>) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.used);
        Some(entry.value)
    }

    /// Takes out the least recently used entry.
    pub fn pop_oldest(&mut self) -> Option<(Owned<K>, V)> {
        let (_, key) = self.by_use.pop_first()?;
        let entry = self.entries.remove(&key)?;
        Some((key, entry.value))
    }

    /// All entries, the least recently used first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Owned<K>, &V)> {
        let of = |key| Some((key, self.peek(key)?));
        self.by_use.values().filter_map(of)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious twin: a list, the last one used at its end.
    #[derive(Default)]
    struct List(Vec<(Owned<u64>, u64)>);

    impl List {
        fn take(&mut self, key: &Owned<u64>) -> Option<(Owned<u64>, u64)> {
            let at = self.0.iter().position(|(known, _)| known == key)?;
            Some(self.0.remove(at))
        }

        fn get(&mut self, key: &Owned<u64>) -> Option<u64> {
            let (key, value) = self.take(key)?;
            self.0.push((key, value));
            Some(value)
        }

        fn insert(&mut self, key: Owned<u64>, value: u64, most: usize) -> Option<u64> {
            let full = self.0.len() == most;
            let left = match self.take(&key) {
                Some(same) => Some(same),
                None if full => Some(self.0.remove(0)),
                None => None,
            };
            self.0.push((key, value));
            left.map(|(_, value)| value)
        }
    }

    #[test]
    fn it_keeps_what_a_list_would_keep() {
        const MOST: usize = 7;
        let mut cache = OwnedCache::new(NonZeroUsize::new(MOST).unwrap());
        let mut list = List::default();
        let tenants = ["a", "b", "c"].map(|name| Tenant::new(name).unwrap());
        let mut random = 1_u64;
        for step in 0..20_000 {
            // The high bits of a linear congruence.
            random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
            let draw = random >> 33;
            let key = Owned::new(&tenants[draw as usize % 3], draw / 3 % 5);
            match draw / 15 % 4 {
                0 => assert_eq!(cache.get(&key).copied(), list.get(&key), "{step}"),
                1 => {
                    let known = list.0.iter().find(|(known, _)| *known == key);
                    assert_eq!(cache.peek(&key), known.map(|(_, value)| value), "{step}");
                }
                _ => {
                    let left = cache.insert(key.clone(), step).map(|(_, value)| value);
                    assert_eq!(left, list.insert(key, step, MOST), "{step}");
                }
            }
            assert!(
                cache
                    .iter()
                    .eq(list.0.iter().map(|(key, value)| (key, value)))
            );
            assert!(cache.len() <= MOST);
        }
        while let Some(oldest) = cache.pop_oldest() {
            assert_eq!(oldest, list.0.remove(0));
        }
        assert!(list.0.is_empty() && cache.is_empty());
    }

    #[test]
    fn what_is_one_tenants_is_not_anothers() {
        let mut cache = OwnedCache::new(NonZeroUsize::MIN);
        let [a, b] = ["a", "b"].map(|name| Owned::new(&Tenant::new(name).unwrap(), "x"));
        cache.insert(a.clone(), 1);
        assert_eq!((cache.peek(&a), cache.peek(&b)), (Some(&1), None));
        assert_eq!(cache.get(&b), None);
    }
}
