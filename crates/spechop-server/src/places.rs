//! Room for open questions: so many at once, and so many of each tenant.
//!
//! Without a limit of their own, one tenant's questions would take all places, and keep them for as long
//! as they take.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spechop_types::Tenant;
use tokio::sync::Notify;

use crate::status::AskError;

/// The places of all tenants. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    book: Mutex<Book>,
    /// Told when the last place becomes free.
    all_free: Notify,
}

#[derive(Debug)]
struct Book {
    most: usize,
    of_one: usize,
    taken: usize,
    /// How many each tenant has; who has none is not in it.
    of: HashMap<Tenant, usize>,
}

/// One of the places. Dropping it makes room for another question.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    tenant: Tenant,
}

/// Why there is no place; with the most that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All of them are taken.
    Full(usize),
    /// The tenant has taken as many as it may.
    TenantFull(usize),
}

impl NoPlace {
    /// As whoever asks on behalf of this tenant hears it.
    pub(crate) fn told(self, tenant: &Tenant) -> AskError {
        match self {
            Self::Full(questions_max) => AskError::Busy { questions_max },
            Self::TenantFull(most) => AskError::TenantBusy {
                tenant: tenant.clone(),
                most,
            },
        }
    }
}

impl Places {
    /// `most` places, of which a tenant may have `of_one`.
    pub(crate) fn new(most: usize, of_one: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                book: Mutex::new(Book {
                    most,
                    of_one,
                    taken: 0,
                    of: HashMap::new(),
                }),
                all_free: Notify::new(),
            }),
        }
    }

    /// From now on there are so many. Those that are taken stay taken.
    pub(crate) fn resize(&self, most: usize, of_one: usize) {
        let mut book = self.shared.lock();
        (book.most, book.of_one) = (most, of_one);
    }

    /// A place for a question of this tenant.
    pub(crate) fn take(&self, tenant: &Tenant) -> Result<Place, NoPlace> {
        let mut book = self.shared.lock();
        let has = book.of.get(tenant).copied().unwrap_or(0);
        if has >= book.of_one {
            return Err(NoPlace::TenantFull(book.of_one));
        }
        if book.taken >= book.most {
            return Err(NoPlace::Full(book.most));
        }
        book.taken += 1;
        book.of.insert(tenant.clone(), has + 1);
        Ok(Place {
            shared: Arc::clone(&self.shared),
            tenant: tenant.clone(),
        })
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.shared.lock().taken
    }

    /// How many there are.
    pub(crate) fn most(&self) -> usize {
        self.shared.lock().most
    }

    /// Waits until all are free.
    pub(crate) async fn free(&self) {
        loop {
            let freed = self.shared.all_free.notified();
            tokio::pin!(freed);
            // Before the count is read, so that nothing is missed between the two.
            freed.as_mut().enable();
            if self.taken() == 0 {
                return;
            }
            freed.await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Book> {
        // Nothing panics while it is held.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut book = self.shared.lock();
        book.taken -= 1;
        if let Some(has) = book.of.get_mut(&self.tenant) {
            *has -= 1;
            if *has == 0 {
                book.of.remove(&self.tenant);
            }
        }
        if book.taken == 0 {
            self.shared.all_free.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_places_of_all() {
        let places = Places::new(3, 2);
        let [greedy, other] = ["greedy", "other"].map(|name| Tenant::new(name).unwrap());
        let mut held: Vec<_> = (0..2).map(|_| places.take(&greedy).unwrap()).collect();
        assert_eq!(places.take(&greedy).unwrap_err(), NoPlace::TenantFull(2));
        let last = places.take(&other).unwrap();
        assert_eq!(places.take(&other).unwrap_err(), NoPlace::Full(3));
        assert_eq!(places.taken(), 3);
        held.pop();
        held.push(places.take(&greedy).unwrap());
        drop((held, last));
        assert_eq!(places.taken(), 0);
        assert!(places.shared.lock().of.is_empty());
    }

    #[tokio::test]
    async fn fewer_places_evict_nobody_and_more_count_at_once() {
        let places = Places::new(2, 2);
        let tenant = Tenant::default();
        let held: Vec<_> = (0..2).map(|_| places.take(&tenant).unwrap()).collect();
        places.resize(1, 1);
        assert_eq!(places.taken(), 2);
        assert_eq!(places.take(&tenant).unwrap_err(), NoPlace::TenantFull(1));
        places.resize(3, 3);
        let third = places.take(&tenant).unwrap();
        assert_eq!(places.take(&tenant).unwrap_err(), NoPlace::TenantFull(3));
        let all_free = places.free();
        tokio::pin!(all_free);
        assert!(futures::poll!(all_free.as_mut()).is_pending());
        drop((held, third));
        all_free.await;
    }
}
