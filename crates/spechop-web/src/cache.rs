//! What the web has said lately: results of searches, and pages. Needed and speculative calls are served
//! alike (PASTE, section 6), each tenant from what it has asked itself.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use spechop_ports::{Call, SearchFailure, SearchProvider, SearchResult};
use spechop_types::OwnedCache;
use tokio::time::Instant;
use url::Url;

use crate::page::{Page, PageFailure, PageReader, Renewed};

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Older results are searched anew, and of an older page it is asked whether it has changed. Zero keeps
    /// nothing.
    pub time: Duration,
    /// Searches that are kept, and pages: the most of each. A page is 10 KB, a search about 2.
    pub most: NonZeroUsize,
}

/// Something, and when it was told.
type Told<T> = (Instant, T);

/// A search of a tenant: its words and how many results.
type Search = (Arc<str>, usize);

/// A provider whose results are kept.
pub struct KeptSearches {
    inner: Arc<dyn SearchProvider>,
    time: Duration,
    kept: Mutex<OwnedCache<Search, Told<Vec<SearchResult>>>>,
}

impl KeptSearches {
    /// `inner`, asked what is not known.
    pub fn new(inner: Arc<dyn SearchProvider>, options: CacheOptions) -> Self {
        Self {
            inner,
            time: options.time,
            kept: Mutex::new(OwnedCache::new(options.most)),
        }
    }
}

#[async_trait]
impl SearchProvider for KeptSearches {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn search(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        let key = call.owned((Arc::from(query), limit));
        if !call.is_fresh()
            && let Some((told, results)) = lock(&self.kept).get(&key)
            && told.elapsed() < self.time
        {
            return Ok(results.clone());
        }
        let results = self.inner.search(call, query, limit).await?;
        // That nothing was found may be a passing whim of the provider.
        if !results.is_empty() {
            let told = (Instant::now(), results.clone());
            lock(&self.kept).insert(key, told);
        }
        Ok(results)
    }

    async fn refusal(&self, call: &Call) -> SearchFailure {
        self.inner.refusal(call).await
    }

    async fn warm(&self, call: &Call) {
        self.inner.warm(call).await;
    }
}

/// A reader whose pages are kept.
pub struct KeptPages {
    inner: Arc<dyn PageReader>,
    time: Duration,
    kept: Mutex<OwnedCache<Url, Told<Page>>>,
}

impl KeptPages {
    /// `inner`, asked for what is not known.
    pub fn new(inner: Arc<dyn PageReader>, options: CacheOptions) -> Self {
        Self {
            inner,
            time: options.time,
            kept: Mutex::new(OwnedCache::new(options.most)),
        }
    }
}

#[async_trait]
impl PageReader for KeptPages {
    async fn read(&self, call: &Call, url: &Url) -> Result<Page, PageFailure> {
        let key = call.owned(url.clone());
        let known = match call.is_fresh() {
            true => None,
            false => lock(&self.kept).get(&key).cloned(),
        };
        let page = match known {
            Some((told, page)) if told.elapsed() < self.time => return Ok(page),
            Some((_, page)) => match self.inner.renew(call, url, &page).await? {
                Renewed::Same => page,
                Renewed::Other(page) => page,
            },
            None => self.inner.read(call, url).await?,
        };
        if !self.time.is_zero() {
            let told = (Instant::now(), page.clone());
            lock(&self.kept).insert(key, told);
        }
        Ok(page)
    }
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
