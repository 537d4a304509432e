//! What the web has said lately: results of searches, and pages. Needed and speculative calls are served
//! alike (PASTE, section 6), each tenant from what it has asked itself.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use parking_lot::Mutex;
use spechop_ports::{Call, Lane, SearchFailure, SearchProvider, SearchResult, SharedCalls};
use spechop_types::{Owned, OwnedCache, ProviderChange};
use tokio::time::Instant;
use url::Url;

use crate::page::{Page, PageFailure, PageReader, Renewed, shown};

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Older results are searched anew, and of an older page it is asked whether it has changed. Zero keeps
    /// nothing.
    pub time: Duration,
    /// Searches that are kept, and pages: the most of each. A page is 10 KB, a search about 2, and 10 for each
    /// page that its provider sends along.
    pub most: NonZeroUsize,
}

/// A search of a tenant: its words and how many results.
type Search = (Arc<str>, usize);

/// A provider whose results are kept.
pub struct KeptSearches {
    inner: Arc<dyn SearchProvider>,
    time: Duration,
    kept: Mutex<OwnedCache<Search, KeptSearch>>,
}

struct KeptSearch {
    asked: Instant,
    told: Instant,
    results: Vec<SearchResult>,
    /// Whose results they are, if another provider should have been asked.
    changes: Vec<ProviderChange>,
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

    async fn search_streaming(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
        on_result: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        let key = call.owned((Arc::from(query), limit));
        if !call.is_fresh()
            && let Some(known) = self.kept.lock().get(&key)
            && known.told.elapsed() < self.time
        {
            call.serve_kept();
            for change in &known.changes {
                call.changed_provider(change.clone());
            }
            return Ok(known.results.clone());
        }
        let asked = Instant::now();
        let results = self
            .inner
            .search_streaming(call, query, limit, on_result)
            .await?;
        // That nothing was found may be a passing whim of the provider.
        if !results.is_empty() && !self.time.is_zero() {
            let search = KeptSearch {
                asked,
                told: Instant::now(),
                results: results.clone(),
                changes: call.provider_changes(),
            };
            let mut kept = self.kept.lock();
            // A fresh call may overtake another.
            if kept.peek(&key).is_none_or(|known| known.asked <= asked) {
                kept.insert(key, search);
            }
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

/// A reader whose pages are kept, and whose transfers under way are shared.
///
/// A call that wants a page `fresh` shares nothing: it may not be told what left the site before it asked.
pub struct KeptPages {
    pages: Arc<Pages>,
    /// Those under way. A failure, too, is told to all who wait.
    transfers: SharedCalls<Url, Result<Page, PageFailure>>,
}

/// The pages, and where others come from.
struct Pages {
    inner: Arc<dyn PageReader>,
    time: Duration,
    kept: Mutex<OwnedCache<Url, KeptPage>>,
}

#[derive(Clone)]
struct KeptPage {
    asked: Instant,
    told: Instant,
    page: Page,
}

impl KeptPages {
    /// `inner`, asked for what is not known.
    pub fn new(inner: Arc<dyn PageReader>, options: CacheOptions) -> Self {
        let pages = Pages {
            inner,
            time: options.time,
            kept: Mutex::new(OwnedCache::new(options.most)),
        };
        Self {
            pages: Arc::new(pages),
            transfers: SharedCalls::default(),
        }
    }
}

#[async_trait]
impl PageReader for KeptPages {
    async fn read(&self, call: &Call, url: &Url) -> Result<Page, PageFailure> {
        if call.is_fresh() {
            return self.pages.bring(call, url, None).await;
        }
        let known = self
            .pages
            .kept
            .lock()
            .get(&call.owned(url.clone()))
            .cloned();
        let old = match known {
            Some(kept) if kept.told.elapsed() < self.pages.time => {
                call.serve_kept();
                return Ok(kept.page);
            }
            other => other.map(|kept| kept.page),
        };
        let (pages, address) = (Arc::clone(&self.pages), url.clone());
        let start = |call: Call| async move { pages.bring(&call, &address, old).await }.boxed();
        // A look-up waits for several pages at once, and a call has only one seat.
        let page_call = call.sub_call();
        let (waiter, unused) = self.transfers.join(url.clone(), &page_call, start);
        let outcome = waiter.outcome().await.unwrap_or_else(|panic| {
            Err(PageFailure::Unreachable {
                url: shown(url),
                detail: panic.to_string(),
            })
        });
        // Another began it.
        let start = unused.filter(|_| call.lane() == Lane::Authoritative);
        match (outcome, start) {
            // The time of another was over; this one has had little of its own.
            (Err(PageFailure::Timeout { .. }), Some(start)) => start(page_call.clone()).await,
            // Nor is a part of the page what its own time might have brought.
            (Ok(part), Some(start)) if !part.whole => {
                Ok(start(page_call.clone()).await.unwrap_or(part))
            }
            (outcome, _) => outcome,
        }
    }
}

impl Pages {
    /// The page as it is now, which is kept; `old` is how it was.
    async fn bring(&self, call: &Call, url: &Url, old: Option<Page>) -> Result<Page, PageFailure> {
        let asked = Instant::now();
        let page = match old {
            Some(old) => match self.inner.renew(call, url, &old).await? {
                Renewed::Same => old,
                Renewed::Other(page) => page,
            },
            None => self.inner.read(call, url).await?,
        };
        if page.whole && !self.time.is_zero() {
            self.keep(call.owned(url.clone()), asked, page.clone());
        }
        Ok(page)
    }

    /// Keeps it, unless one is there that was asked for later: a fresh call may overtake another.
    fn keep(&self, key: Owned<Url>, asked: Instant, page: Page) {
        let told = Instant::now();
        let mut kept = self.kept.lock();
        if kept.peek(&key).is_none_or(|known| known.asked <= asked) {
            kept.insert(key, KeptPage { asked, told, page });
        }
    }
}

#[cfg(test)]
mod transfer_tests;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use spechop_ports::{Lane, Wishes, contract};
    use spechop_types::{Chance, Tenant};

    use super::*;
    use crate::page::Version;

    const OPTIONS: CacheOptions = CacheOptions {
        time: Duration::from_secs(60),
        most: NonZeroUsize::new(8).unwrap(),
    };

    /// A web of one page, which counts what it is asked and may change.
    #[derive(Default)]
    struct Site {
        searches: AtomicU64,
        reads: AtomicU64,
        renewals: AtomicU64,
        version: AtomicU64,
        /// It finds nothing.
        is_empty: bool,
        /// Its first search takes so long.
        first_takes: Duration,
        /// Its page breaks off.
        is_torn: bool,
    }

    impl Site {
        fn page(&self, url: &Url) -> Page {
            let version = self.version.load(SeqCst).to_string();
            Page {
                version: Version {
                    etag: Some(version.as_str().into()),
                    modified: None,
                },
                whole: !self.is_torn,
                ..Page::of_text(url, &"".into(), &version.into())
            }
        }
    }

    #[async_trait]
    impl SearchProvider for Site {
        fn name(&self) -> &str {
            "site"
        }

        async fn search_streaming(
            &self,
            _: &Call,
            query: &str,
            _: usize,
            _: &mut (dyn FnMut(SearchResult) + Send),
        ) -> Result<Vec<SearchResult>, SearchFailure> {
            let number = self.searches.fetch_add(1, SeqCst);
            if number == 0 {
                tokio::time::sleep(self.first_takes).await;
            }
            let result = SearchResult {
                url: "http://site.example/".parse().unwrap(),
                title: query.into(),
                snippet: number.to_string().into(),
                text: None,
            };
            Ok(if self.is_empty { vec![] } else { vec![result] })
        }
    }

    #[async_trait]
    impl PageReader for Site {
        async fn read(&self, _: &Call, url: &Url) -> Result<Page, PageFailure> {
            self.reads.fetch_add(1, SeqCst);
            Ok(self.page(url))
        }

        async fn renew(&self, _: &Call, url: &Url, known: &Page) -> Result<Renewed, PageFailure> {
            self.renewals.fetch_add(1, SeqCst);
            let now = self.page(url);
            Ok(if now.version == known.version {
                Renewed::Same
            } else {
                Renewed::Other(now)
            })
        }
    }

    fn of(tenant: Tenant) -> Call {
        Call::of(tenant, Lane::Speculative, Chance::EVEN)
    }

    #[tokio::test]
    async fn tenants_see_nothing_of_each_others_searches_and_pages() {
        let site = Arc::new(Site::default());
        let (searches, pages) = (
            KeptSearches::new(site.clone(), OPTIONS),
            KeptPages::new(site.clone(), OPTIONS),
        );
        contract::cache(async |tenant| {
            let before = site.searches.load(SeqCst);
            searches.search(&of(tenant), "q", 5).await.unwrap();
            site.searches.load(SeqCst) - before
        })
        .await;
        let url = "http://site.example/".parse().unwrap();
        contract::cache(async |tenant| {
            let before = site.reads.load(SeqCst);
            pages.read(&of(tenant), &url).await.unwrap();
            site.reads.load(SeqCst) - before
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_page_is_asked_for_by_its_version() {
        let site = Arc::new(Site::default());
        let pages = KeptPages::new(site.clone(), OPTIONS);
        let url: Url = "http://site.example/".parse().unwrap();
        let call = Call::authoritative();
        let read = async || pages.read(&call, &url).await.unwrap().text;
        let counts = || (site.reads.load(SeqCst), site.renewals.load(SeqCst));
        assert_eq!(
            (&*read().await, &*read().await, counts()),
            ("0", "0", (1, 0))
        );
        tokio::time::advance(OPTIONS.time).await;
        assert_eq!((&*read().await, counts()), ("0", (1, 1)));
        // That it has not changed is as good as new.
        assert_eq!((&*read().await, counts()), ("0", (1, 1)));
        tokio::time::advance(OPTIONS.time).await;
        site.version.store(1, SeqCst);
        assert_eq!((&*read().await, counts()), ("1", (1, 2)));
        let fresh = call.clone().with(Wishes {
            fresh: true,
            ..Wishes::default()
        });
        site.version.store(2, SeqCst);
        assert_eq!(&*pages.read(&fresh, &url).await.unwrap().text, "2");
        // What was read anew serves the others.
        assert_eq!((&*read().await, counts()), ("2", (2, 2)));
    }

    #[tokio::test]
    async fn who_wants_it_fresh_searches_anew_and_what_is_found_serves_the_others() {
        let site = Arc::new(Site::default());
        let searches = KeptSearches::new(site.clone(), OPTIONS);
        let usual = Call::authoritative();
        let fresh = usual.clone().with(Wishes {
            fresh: true,
            ..Wishes::default()
        });
        for (call, count) in [
            (&usual, 1),
            (&usual, 1),
            (&fresh, 2),
            (&usual, 2),
            (&fresh, 3),
        ] {
            searches.search(call, "q", 5).await.unwrap();
            assert_eq!(site.searches.load(SeqCst), count);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_search_that_ends_late_replaces_no_newer_one() {
        let site = Arc::new(Site {
            first_takes: Duration::from_secs(5),
            ..Site::default()
        });
        let searches = KeptSearches::new(site.clone(), OPTIONS);
        let usual = Call::authoritative();
        let fresh = usual.clone().with(Wishes {
            fresh: true,
            ..Wishes::default()
        });
        let later = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            searches.search(&fresh, "q", 5).await.unwrap()
        };
        let (old, new) = tokio::join!(searches.search(&usual, "q", 5), later);
        assert_eq!((&*old.unwrap()[0].snippet, &*new[0].snippet), ("0", "1"));
        let kept = searches.search(&usual, "q", 5).await.unwrap();
        assert_eq!(&*kept[0].snippet, "1");
        assert_eq!(site.searches.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn without_a_time_no_search_and_no_page_is_kept() {
        let site = Arc::new(Site::default());
        let options = CacheOptions {
            time: Duration::ZERO,
            ..OPTIONS
        };
        let (searches, pages) = (
            KeptSearches::new(site.clone(), options),
            KeptPages::new(site.clone(), options),
        );
        let call = Call::authoritative();
        searches.search(&call, "q", 5).await.unwrap();
        let url = "http://site.example/".parse().unwrap();
        pages.read(&call, &url).await.unwrap();
        assert!(searches.kept.lock().is_empty());
        assert!(pages.pages.kept.lock().is_empty());
    }

    #[tokio::test]
    async fn a_part_of_a_page_is_not_kept() {
        let site = Arc::new(Site {
            is_torn: true,
            ..Site::default()
        });
        let pages = KeptPages::new(site.clone(), OPTIONS);
        let url: Url = "http://site.example/".parse().unwrap();
        for reads in [1, 2] {
            pages.read(&Call::authoritative(), &url).await.unwrap();
            assert_eq!(site.reads.load(SeqCst), reads);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn results_grow_old_and_nothing_found_is_not_kept() {
        for (is_empty, expected) in [(false, [1, 1, 2]), (true, [1, 2, 3])] {
            let site = Arc::new(Site {
                is_empty,
                ..Site::default()
            });
            let searches = KeptSearches::new(site.clone(), OPTIONS);
            let call = Call::authoritative();
            let mut seen = Vec::new();
            for wait in [Duration::ZERO, Duration::ZERO, OPTIONS.time] {
                tokio::time::advance(wait).await;
                searches.search(&call, "q", 5).await.unwrap();
                seen.push(site.searches.load(SeqCst));
            }
            assert_eq!(seen, expected);
        }
    }
}
