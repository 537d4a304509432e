//! Room for open questions: so many at once, and so many of each tenant.
//!
//! Without a limit of their own, one tenant's questions would take all places, and keep them for as long
//! as they take.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spechop_types::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::status::AskError;

/// The places of all tenants. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    free: Arc<Semaphore>,
    most: usize,
    of_one: usize,
    /// How many each tenant has; who has none is not in it.
    taken: Mutex<HashMap<Tenant, usize>>,
}

/// One of the places. Dropping it makes room for another question.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    tenant: Tenant,
    _one: OwnedSemaphorePermit,
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
                free: Arc::new(Semaphore::new(most)),
                most,
                of_one,
                taken: Mutex::default(),
            }),
        }
    }

    /// A place for a question of this tenant.
    pub(crate) fn take(&self, tenant: &Tenant) -> Result<Place, NoPlace> {
        let shared = &self.shared;
        let mut taken = shared.lock();
        let has = taken.get(tenant).copied().unwrap_or(0);
        if has >= shared.of_one {
            return Err(NoPlace::TenantFull(shared.of_one));
        }
        let one = Arc::clone(&shared.free).try_acquire_owned();
        let one = one.map_err(|_| NoPlace::Full(shared.most))?;
        taken.insert(tenant.clone(), has + 1);
        Ok(Place {
            shared: Arc::clone(shared),
            tenant: tenant.clone(),
            _one: one,
        })
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.shared.most - self.shared.free.available_permits()
    }

    /// How many there are.
    pub(crate) fn most(&self) -> usize {
        self.shared.most
    }

    /// Waits until all are free.
    pub(crate) async fn free(&self) {
        let all = u32::try_from(self.shared.most).unwrap_or(u32::MAX);
        // It fails if the semaphore is closed, which nobody does.
        let _ = self.shared.free.acquire_many(all).await;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, usize>> {
        // Nothing panics while it is held.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shared.lock();
        if let Some(has) = taken.get_mut(&self.tenant) {
            *has -= 1;
            if *has == 0 {
                taken.remove(&self.tenant);
            }
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
        assert!(places.shared.lock().is_empty());
    }
}
