//! A map with few entries, kept in a vector: a scan of all of them is faster than a tree.

/// Unordered; a key occurs once.
pub(crate) struct Few<K, V>(Vec<(K, V)>);

impl<K: Copy + Eq, V> Few<K, V> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        let found = self.0.iter().find(|(at, _)| *at == key);
        found.map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let found = self.0.iter_mut().find(|(at, _)| *at == key);
        found.map(|(_, value)| value)
    }

    /// The entry of this key. `make` creates it if it does not exist.
    pub(crate) fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = match self.0.iter().position(|(at, _)| *at == key) {
            Some(at) => at,
            None => {
                self.0.push((key, make()));
                self.0.len() - 1
            }
        };
        &mut self.0[at].1
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let at = self.0.iter().position(|(at, _)| *at == key)?;
        Some(self.0.swap_remove(at).1)
    }
}
