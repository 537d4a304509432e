//! How often a tenant may ask, whatever its keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spechop_config::api_keys::RequestRate;
use spechop_types::Tenant;
use tokio::time::Instant;

use crate::gcra::Gcra;

/// Tenants with a bucket of their own. If there are more at the same time, the others share one.
const TENANTS_MAX: usize = 10_000;

/// The least time between two looks for buckets that are full, and therefore not needed.
const SWEEP: Duration = Duration::from_secs(1);

/// The limit of each tenant.
pub(super) struct Tenants {
    rate: RequestRate,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    buckets: HashMap<Tenant, Gcra>,
    /// Of tenants for whom there is no room.
    others: Gcra,
    swept: Option<Instant>,
}

impl Tenants {
    /// With this limit. What was `known` of tenants is known of them still.
    pub(super) fn new(rate: RequestRate, known: Option<&Self>) -> Self {
        let book = known.map_or_else(Arc::default, |tenants| Arc::clone(&tenants.book));
        Self { rate, book }
    }

    /// Takes one of the tenant's requests. Else says how long it has to wait for one.
    pub(super) fn take(&self, tenant: &Tenant, now: Instant) -> Result<(), Duration> {
        let RequestRate { interval, burst } = self.rate;
        let mut book = self.book.lock();
        if let Some(bucket) = book.buckets.get_mut(tenant) {
            return bucket.take(now, interval, burst);
        }
        let is_due = book.swept.is_none_or(|swept| now - swept >= SWEEP);
        if book.buckets.len() >= TENANTS_MAX && is_due {
            book.buckets
                .retain(|_, bucket| !bucket.is_full(now, interval, burst));
            book.swept = Some(now);
        }
        if book.buckets.len() >= TENANTS_MAX {
            return book.others.take(now, interval, burst);
        }
        let mut bucket = Gcra::default();
        let taken = bucket.take(now, interval, burst);
        book.buckets.insert(tenant.clone(), bucket);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flood of invented names takes no more memory than there is for it, and those who were there
    /// before keep what they have.
    #[tokio::test(start_paused = true)]
    async fn invented_tenants_share_what_is_left() {
        let rate = RequestRate {
            interval: Duration::from_secs(1),
            burst: 2,
        };
        let tenants = Tenants::new(rate, None);
        let now = Instant::now() + Duration::from_secs(60);
        let name = |n: usize| Tenant::new(&format!("t{n}")).unwrap();
        for n in 0..TENANTS_MAX {
            tenants.take(&name(n), now).unwrap();
        }
        let strangers = (0..50_000).filter(|n| {
            let stranger = name(TENANTS_MAX + n);
            tenants.take(&stranger, now).is_ok()
        });
        assert_eq!(strangers.count(), 2);
        assert_eq!(tenants.book.lock().buckets.len(), TENANTS_MAX);
        tenants.take(&name(0), now).unwrap();
        assert!(tenants.take(&name(0), now).is_err());
        // Whoever has not asked for a while needs no bucket.
        let later = now + Duration::from_secs(10);
        tenants.take(&name(TENANTS_MAX), later).unwrap();
        assert_eq!(tenants.book.lock().buckets.len(), 1);
    }
}
