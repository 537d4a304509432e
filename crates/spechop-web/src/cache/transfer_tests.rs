//! Look-ups of one tenant that want the same page at the same time wait for one transfer.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use futures::future::{join, join_all};
use spechop_ports::{Progress, Wishes};
use spechop_types::{Chance, Tenant};
use tokio::time::sleep;

use super::*;

/// What a page of the site takes.
const TIME: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(400);

/// A slow site. The text of a page is the number of the transfer that brought it.
#[derive(Default)]
struct Site {
    begun: AtomicUsize,
    /// Ended or dropped.
    over: AtomicUsize,
    /// The lanes in which transfers ended.
    lanes: Mutex<Vec<Lane>>,
}

struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Site {
    fn kept(time: Duration) -> (Arc<Self>, KeptPages) {
        let site = Arc::new(Self::default());
        let most = NonZeroUsize::MIN;
        let pages = KeptPages::new(site.clone(), CacheOptions { time, most });
        (site, pages)
    }

    fn counts(&self) -> (usize, usize) {
        (self.begun.load(SeqCst), self.over.load(SeqCst))
    }
}

#[async_trait]
impl PageReader for Site {
    async fn read(&self, call: &Call, url: &Url) -> Result<Page, PageFailure> {
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        let _over = Over(&self.over);
        let is_slow = url.path() == "/slow" && number == 1;
        sleep(if is_slow { TIME * 3 } else { TIME }).await;
        self.lanes.lock().push(call.lane());
        match url.path() {
            "/broken" => Err(PageFailure::Unreachable {
                url: url.to_string(),
                detail: number.to_string(),
            }),
            // The first time only.
            "/late" if number == 1 => Err(PageFailure::Timeout {
                url: url.to_string(),
                limit: Duration::from_secs(1),
            }),
            // The first time a part, and then nothing at all.
            "/part" | "/cut" if number == 1 => Ok(Page {
                whole: false,
                ..Page::of_text(url, &"".into(), &"1".into())
            }),
            "/cut" => Err(PageFailure::Unreachable {
                url: url.to_string(),
                detail: number.to_string(),
            }),
            "/panics" => panic!("{number}"),
            "/told" => {
                call.advance(Progress::Begun);
                call.changed_provider(change());
                call.serve_kept();
                Ok(Page::of_text(url, &"".into(), &"1".into()))
            }
            _ => Ok(Page::of_text(url, &"".into(), &number.to_string().into())),
        }
    }
}

fn change() -> ProviderChange {
    ProviderChange {
        from: "a".into(),
        to: "b".into(),
        why: "it is down".into(),
    }
}

fn url(path: &str) -> Url {
    format!("http://site.example{path}").parse().unwrap()
}

fn speculative() -> Call {
    Call::new(Lane::Speculative, Chance::EVEN)
}

fn fresh() -> Call {
    Call::authoritative().with(Wishes {
        fresh: true,
        ..Wishes::default()
    })
}

/// The text of the page, or why there is none, and when it came.
async fn read(pages: &KeptPages, call: &Call, path: &str, after: Duration) -> (String, Duration) {
    let began = Instant::now();
    sleep(after).await;
    let text = match pages.read(call, &url(path)).await {
        Ok(page) => page.text.to_string(),
        Err(failure) => failure.to_string(),
    };
    (text, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn two_queries_that_want_a_page_wait_for_one_transfer() {
    for time in [Duration::ZERO, TIME * 60] {
        let (site, pages) = Site::kept(time);
        let (one, other) = (speculative(), speculative());
        let both = join(
            read(&pages, &one, "/", Duration::ZERO),
            read(&pages, &other, "/", SOON),
        );
        let expected = || ("1".to_owned(), TIME);
        assert_eq!(both.await, (expected(), expected()));
        assert_eq!((site.counts(), pages.transfers.len()), ((1, 1), 0));
        // Neither was served by something kept.
        assert!(!one.was_kept() && !other.was_kept());
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_transfer_was_told_is_told_of_all_who_waited() {
    let (_, pages) = Site::kept(Duration::ZERO);
    let (one, other) = (speculative(), speculative());
    join(
        read(&pages, &one, "/told", Duration::ZERO),
        read(&pages, &other, "/told", SOON),
    )
    .await;
    for call in [one, other] {
        assert_eq!(call.progress(), Progress::Begun);
        assert_eq!(call.provider_changes(), [change()]);
        assert!(call.was_kept());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_to_all_who_wait_and_to_nobody_later() {
    let (site, pages) = Site::kept(TIME * 60);
    let (one, other) = (speculative(), Call::authoritative());
    let both = join(
        read(&pages, &one, "/broken", Duration::ZERO),
        read(&pages, &other, "/broken", SOON),
    );
    let told = |number: usize| {
        let why = format!("http://site.example/broken cannot be fetched: {number}");
        (why, TIME)
    };
    assert_eq!(both.await, (told(1), told(1)));
    assert_eq!(pages.transfers.len(), 0);
    assert_eq!(read(&pages, &one, "/broken", Duration::ZERO).await, told(2));
    assert_eq!(site.counts(), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_needed_call_has_its_own_time_if_that_of_another_is_over() {
    // Who joins, and what both are told; 0.4 s after the first, which needs a second and fails.
    for (joins, told, transfers) in [(Call::authoritative(), "2", 2), (speculative(), "late", 1)] {
        let (site, pages) = Site::kept(TIME * 60);
        let first = speculative();
        let both = join(
            read(&pages, &first, "/late", Duration::ZERO),
            read(&pages, &joins, "/late", SOON),
        );
        let (one, other) = both.await;
        assert!(one.0.contains("longer than 1000 ms"), "{one:?}");
        assert!(other.0.contains(told), "{other:?}");
        assert_eq!(site.counts(), (transfers, transfers));
    }
}

#[tokio::test(start_paused = true)]
async fn a_needed_call_does_not_make_do_with_the_part_that_anothers_time_brought() {
    // Who joins, the page, what it is given, and the transfers.
    for (joins, path, given, transfers) in [
        (Call::authoritative(), "/part", "2", 2),
        (speculative(), "/part", "1", 1),
        // A part is better than nothing.
        (Call::authoritative(), "/cut", "1", 2),
    ] {
        let (site, pages) = Site::kept(TIME * 60);
        let first = speculative();
        let both = join(
            read(&pages, &first, path, Duration::ZERO),
            read(&pages, &joins, path, SOON),
        );
        let (one, other) = both.await;
        assert_eq!((&*one.0, &*other.0), ("1", given), "{path}");
        assert_eq!(site.counts(), (transfers, transfers), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_its_page_alone() {
    let (_, pages) = Site::kept(TIME * 60);
    let (one, other) = (speculative(), Call::authoritative());
    let both = join(
        read(&pages, &one, "/panics", Duration::ZERO),
        read(&pages, &other, "/panics", SOON),
    );
    let (one, other) = both.await;
    assert!(one.0.ends_with("it panicked: 1"), "{one:?}");
    assert_eq!(one, other);
    assert_eq!(pages.transfers.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn other_tenants_and_other_pages_are_transfers_of_their_own() {
    let (site, pages) = Site::kept(Duration::ZERO);
    let tenants = ["a", "b", "c"].map(|name| Tenant::new(name).unwrap());
    let calls = tenants.map(|tenant| Call::of(tenant, Lane::Authoritative, Chance::CERTAIN));
    let reads = calls
        .iter()
        .flat_map(|call| ["/", "/other"].map(|path| read(&pages, call, path, Duration::ZERO)));
    let mut numbers: Vec<_> = join_all(reads).await.into_iter().map(|(n, _)| n).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(site.counts(), (6, 6));
}

#[tokio::test(start_paused = true)]
async fn a_transfer_is_as_urgent_as_the_most_urgent_who_waits() {
    let lanes = async |joins: Option<Call>, promotes: bool| {
        let (site, pages) = Site::kept(Duration::ZERO);
        let first = speculative();
        let joining = async {
            match joins {
                Some(call) => drop(read(&pages, &call, "/", SOON).await),
                None => sleep(SOON).await,
            }
        };
        let promoting = async {
            sleep(SOON).await;
            if promotes {
                first.promote();
            }
        };
        // One call waits for two pages, as a look-up does.
        let both = join(
            read(&pages, &first, "/", Duration::ZERO),
            read(&pages, &first, "/other", Duration::ZERO),
        );
        join(join(joining, promoting), both).await;
        site.lanes.lock().clone()
    };
    let (maybe, needed) = (Lane::Speculative, Lane::Authoritative);
    assert_eq!(lanes(None, false).await, [maybe, maybe]);
    assert_eq!(lanes(Some(speculative()), false).await, [maybe, maybe]);
    assert_eq!(
        lanes(Some(Call::authoritative()), false).await,
        [needed, maybe]
    );
    assert_eq!(lanes(None, true).await, [needed, needed]);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_call_neither_joins_nor_is_joined_and_what_it_brings_stays() {
    let (site, pages) = Site::kept(TIME * 60);
    let call = Call::authoritative();
    let late = read(&pages, &call, "/slow", Duration::ZERO);
    let (one, other) = (fresh(), fresh());
    let (late, (one, other)) = join(
        late,
        join(
            read(&pages, &one, "/slow", SOON),
            read(&pages, &other, "/slow", SOON),
        ),
    )
    .await;
    assert_eq!(
        (late.0, one.0, other.0),
        ("1".into(), "2".into(), "3".into())
    );
    assert_eq!(site.counts(), (3, 3));
    // The first one came last, and knows least.
    assert_eq!(read(&pages, &call, "/slow", Duration::ZERO).await.0, "3");
}
