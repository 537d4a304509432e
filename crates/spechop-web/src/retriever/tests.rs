use std::collections::HashMap;

use futures::future::join;
use parking_lot::Mutex;
use spechop_ports::{SearchFailure, SearchTrouble, contract};
use spechop_testkit::TextVectors;
use spechop_types::{Chance, Refusal};
use tokio::time::sleep;
use url::Url;

use super::*;
use crate::page::PageFailure;

/// A web of pages: how long each takes, and what is on it; `None` cannot be read.
#[derive(Default)]
struct Web {
    pages: HashMap<&'static str, (u64, Option<&'static str>)>,
    results: Vec<SearchResult>,
    /// Milliseconds between one result and the next; results that take no time come together.
    pace_ms: u64,
    /// A result that is listed first and is none in the end.
    whim: Option<SearchResult>,
    read: Mutex<Vec<String>>,
}

impl Web {
    fn page(mut self, name: &'static str, ms: u64, text: Option<&'static str>) -> Self {
        self.pages.insert(name, (ms, text));
        self.results.push(SearchResult {
            url: format!("http://web.example/{name}").parse().unwrap(),
            title: name.into(),
            snippet: format!("{name} in short").into(),
            text: None,
        });
        self
    }

    fn retriever(self) -> (Arc<Self>, WebRetriever) {
        let web = Arc::new(self);
        let (search, pages) = (Arc::clone(&web), Arc::clone(&web));
        let encoder = Arc::new(TextVectors::letters());
        let retriever = WebRetriever::new(search, pages, encoder, WebRetrieverOptions::default());
        (web, retriever)
    }
}

#[async_trait]
impl SearchProvider for Web {
    fn name(&self) -> &str {
        "web"
    }

    async fn search_streaming(
        &self,
        _: &Call,
        query: &str,
        limit: usize,
        on_result: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        if query == "down" {
            let detail = "no answer".to_owned();
            return Err(SearchTrouble::Unreachable { detail }.of(&"web".into()));
        }
        let results: Vec<_> = self.results.iter().take(limit).cloned().collect();
        if self.pace_ms > 0 {
            for result in self.whim.iter().chain(&results) {
                sleep(Duration::from_millis(self.pace_ms)).await;
                on_result(result.clone());
            }
        }
        Ok(results)
    }
}

#[async_trait]
impl PageReader for Web {
    async fn read(&self, _: &Call, url: &Url) -> Result<Page, PageFailure> {
        let name = url.path().trim_start_matches('/');
        self.read.lock().push(name.to_owned());
        let (ms, text) = self.pages[name];
        sleep(Duration::from_millis(ms)).await;
        let unreadable = || PageFailure::Unreadable {
            url: url.to_string(),
            detail: "no text".to_owned(),
        };
        let text = text.ok_or_else(unreadable)?;
        Ok(Page::of_text(url, &name.into(), &text.into()))
    }
}

/// A text's vector counts its letters. For texts of this kind it takes so long, or fails.
fn letters(
    kind: TextKind,
    says: impl Fn() -> Result<Duration, PortError> + Send + Sync + 'static,
) -> Arc<dyn Encoder> {
    Arc::new(TextVectors::letters().after(move |_, of| match of == kind {
        true => says(),
        false => Ok(Duration::ZERO),
    }))
}

fn ids(passages: &[Passage]) -> Vec<&str> {
    let id = |passage: &'_ Passage| passage.id.rsplit('/').next().unwrap().len();
    passages
        .iter()
        .map(|passage| &passage.id[passage.id.len() - id(passage)..])
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_time_is_ranked_and_the_rest_is_shown_in_short() {
    let (web, retriever) = Web::default()
        .page("slow", 60_000, Some("never in time"))
        .page("wrong", 20, None)
        .page(
            "far",
            40,
            Some("Quite another matter: jazz, quizzes and xylophones."),
        )
        .page("near", 2_900, Some("The director of Halcón is Ana Ruiz."))
        .retriever();
    let began = Instant::now();
    let call = Call::authoritative();
    let found = retriever
        .retrieve(&call, "director of Halcón", 10)
        .await
        .unwrap();
    assert_eq!(began.elapsed(), WebRetrieverOptions::default().pages_time);
    assert_eq!(web.read.lock().len(), 4);
    let mut all = ids(&found);
    assert_eq!(all[0], "near#1");
    all.sort_unstable();
    assert_eq!(all, ["far#1", "near#1", "slow#snippet", "wrong#snippet"]);
    assert_eq!(found[0].url.as_deref(), Some("http://web.example/near"));
    assert!(found.is_sorted_by(|a, b| a.score >= b.score));
}

#[tokio::test(start_paused = true)]
async fn a_page_is_fetched_as_soon_as_its_result_is_known() {
    // Results at 1, 2 and 3 s; the search ends with the last one.
    let of_pace = |pace_ms| {
        let mut web = Web::default()
            .page("first", 2_900, Some("the one"))
            .page("second", 100, Some("the other"))
            .page("third", 300, Some("the last"));
        web.pace_ms = pace_ms;
        web
    };
    for (pace_ms, expected) in [(1_000, 3_900), (0, 2_900)] {
        let (_, retriever) = of_pace(pace_ms).retriever();
        let began = Instant::now();
        let call = Call::authoritative();
        let found = retriever.retrieve(&call, "the one", 5).await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_millis(expected));
        assert_eq!(found.len(), 3);
    }
    // What does not stand among the results in the end is neither waited for nor used.
    let mut web = of_pace(1_000).page("whim", 60_000, Some("the one and only"));
    web.whim = web.results.pop();
    let (web, retriever) = web.retriever();
    let began = Instant::now();
    let call = Call::authoritative();
    let found = retriever.retrieve(&call, "the one", 5).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_millis(4_900));
    assert_eq!(web.read.lock()[0], "whim");
    assert_eq!(found.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_encoder_that_is_not_there_in_time_leaves_the_order_of_words() {
    for kind in [TextKind::Passage, TextKind::Query] {
        leaves_the_order_of_words(kind).await;
    }
}

async fn leaves_the_order_of_words(kind: TextKind) {
    let found = async |slow, call: Call| {
        let (web, _) = Web::default()
            .page("letters", 0, Some("thing"))
            .page("words", 0, Some("on the other side of it"))
            .retriever();
        let retriever = WebRetriever::new(
            web.clone(),
            web,
            letters(kind, move || Ok(Duration::from_millis(slow))),
            WebRetrieverOptions {
                lexical_weight: 0.0,
                ..WebRetrieverOptions::default()
            },
        );
        let began = Instant::now();
        let found = retriever.retrieve(&call, "night on", 5).await.unwrap();
        (began.elapsed(), found)
    };
    let needed = Call::authoritative;
    let (took, ranked) = found(800, needed()).await;
    assert_eq!(took, Duration::from_millis(800));
    assert_eq!(ids(&ranked), ["letters#1", "words#1"]);
    let (took, by_words) = found(60_000, needed()).await;
    let limit = WebRetrieverOptions::default().rank_time;
    assert_eq!(took, limit);
    assert_eq!(ids(&by_words), ["words#1", "letters#1"]);
    let is_share = |passage: &Passage| (0.0..=1.0).contains(&passage.score);
    assert!(by_words.iter().all(is_share), "{by_words:?}");

    // What may be wasted keeps nobody waiting, until it is needed.
    let ahead = || Call::new(Lane::Speculative, Chance::EVEN);
    let (took, found_ahead) = found(60_000, ahead()).await;
    assert_eq!(took, Duration::from_millis(60_000));
    assert_eq!(found_ahead, ranked);
    let call = ahead();
    let promote = async {
        sleep(Duration::from_millis(10_000)).await;
        call.promote();
    };
    let ((took, found), ()) = join(found(60_000, call.clone()), promote).await;
    assert_eq!(took, Duration::from_millis(10_000) + limit);
    assert_eq!(found, by_words);
}

/// Ahead of need only what is so for everybody leaves it: all else might not have failed a needed call.
#[tokio::test]
async fn an_encoder_that_fails_at_a_passage_or_the_query_leaves_the_order_of_words() {
    let ranked = async |why: fn() -> PortError, kind: TextKind, call: Call| {
        let (web, _) = Web::default()
            .page("letters", 0, Some("thing"))
            .page("words", 0, Some("on the other side of it"))
            .retriever();
        let encoder = letters(kind, move || Err(why()));
        let retriever =
            WebRetriever::new(web.clone(), web, encoder, WebRetrieverOptions::default());
        let found = retriever.retrieve(&call, "night on", 5).await;
        found.is_ok_and(|found| {
            assert_eq!(ids(&found), ["words#1", "letters#1"]);
            true
        })
    };
    let too_long = || PortError::too_long("encoder", "413");
    let refused = || PortError::refused("encoder", "400");
    let pushed_back = || PortError::Unavailable {
        what: "encoder".to_owned(),
        source: None,
    };
    let given_up = || PortError::NotSpeculated {
        what: "encoder".to_owned(),
        why: Refusal::NoPlace,
    };
    for (why, needed, ahead) in [
        (too_long as fn() -> PortError, true, true),
        (refused, true, true),
        (pushed_back, true, false),
        (given_up, false, false),
    ] {
        for kind in [TextKind::Passage, TextKind::Query] {
            assert_eq!(ranked(why, kind, Call::authoritative()).await, needed);
            let call = Call::new(Lane::Speculative, Chance::EVEN);
            assert_eq!(ranked(why, kind, call).await, ahead);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_encoder_that_goes_on_failing_is_told_of_once_in_a_while() {
    let (web, _) = Web::default()
        .page("words", 0, Some("on the other side of it"))
        .retriever();
    let refused = || PortError::refused("encoder", "400");
    let encoder = letters(TextKind::Passage, move || Err(refused()));
    let retriever = WebRetriever::new(web.clone(), web, encoder, WebRetrieverOptions::default());
    let call = Call::authoritative();
    for _ in 0..3 {
        let found = retriever.retrieve(&call, "night on", 5).await.unwrap();
        assert_eq!(ids(&found), ["words#1"]);
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(retriever.warnings.turn(BY_WORDS), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_look_up_ends_with_its_last_page() {
    let (_, retriever) = Web::default()
        .page("a", 700, Some("the one"))
        .page("b", 300, Some("the other"))
        .retriever();
    let began = Instant::now();
    let call = Call::authoritative();
    let found = retriever.retrieve(&call, "one", 1).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_millis(700));
    assert_eq!(ids(&found), ["a#1"]);
}

#[tokio::test]
async fn nothing_found_is_no_failure_and_a_failure_is_not_nothing_found() {
    let call = Call::authoritative();
    let (_, retriever) = Web::default().retriever();
    assert_eq!(retriever.retrieve(&call, "x", 5).await.unwrap(), []);
    let failed = retriever.retrieve(&call, "down", 5).await;
    assert!(matches!(failed, Err(PortError::Unavailable { .. })));
    let mut web = Web::default().page("wrong", 0, None);
    web.results[0].snippet = "".into();
    let (_, retriever) = web.retriever();
    let failed = retriever.retrieve(&call, "x", 5).await;
    assert!(matches!(failed, Err(PortError::Unavailable { .. })));
}

#[tokio::test]
async fn a_text_that_comes_with_the_result_is_not_fetched() {
    let mut web = Web::default().page("here", 0, None);
    web.results[0].text = Some("The text itself.".into());
    let (web, retriever) = web.retriever();
    let call = Call::authoritative();
    let found = retriever.retrieve(&call, "text", 5).await.unwrap();
    assert_eq!(&*found[0].text, "The text itself.");
    assert!(web.read.lock().is_empty());
}

#[test]
fn the_words_of_the_query_choose_what_is_ranked() {
    let passage = |id: &str, text: &str| spechop_testkit::passage(id, "", text);
    let found = vec![
        passage("none", "a village"),
        passage("hills", "the town of hills"),
        passage("rivers", "the town of rivers"),
        passage("lakes", "the town of lakes"),
        passage("seas", "the town of seas"),
        passage("rare", "Łódź, a place"),
        passage("again", "Łódź, a place"),
    ];
    // One rare word is worth more than three that most of them hold.
    let chosen = by_words("the town of Lodz", found);
    assert_eq!(
        ids(&chosen),
        ["rare", "hills", "rivers", "lakes", "seas", "none"]
    );
    assert!(
        chosen
            .iter()
            .all(|passage| (0.0..=1.0).contains(&passage.score))
    );
}

/// Two results lead to one page, which shows its reader something else each time.
#[test]
fn no_place_of_a_page_is_there_twice() {
    let passage = |id: &str, text: &str| spechop_testkit::passage(id, "", text);
    let found = vec![
        passage("page#1", "the town at noon"),
        passage("page#2", "its lakes"),
        passage("page#1", "the town at one"),
        passage("page#2", "its lakes"),
        passage("page#3", "its hills"),
    ];
    let chosen = by_words("the town", found);
    assert_eq!(ids(&chosen), ["page#1", "page#2", "page#3"]);
    assert_eq!(&*chosen[0].text, "the town at noon");
}

#[tokio::test]
async fn words_count_beside_vectors() {
    // Of the same letters, so their vectors are the same.
    let web = || {
        Web::default()
            .page("a", 0, Some("night lake"))
            .page("b", 0, Some("thing kale"))
    };
    for (lexical_weight, first) in [(0.0, "a#1"), (0.2, "b#1")] {
        let (_, mut retriever) = web().retriever();
        retriever.options.lexical_weight = lexical_weight;
        let call = Call::authoritative();
        let found = retriever.retrieve(&call, "kale", 2).await.unwrap();
        assert_eq!(ids(&found)[0], first, "{lexical_weight}");
    }
}

#[tokio::test]
async fn keeps_the_contract() {
    let (_, retriever) = Web::default().page("a", 0, Some("text")).retriever();
    contract::retriever(&retriever).await;
}

/// Pages that come slowly, and the lanes in which they began and ended.
#[derive(Default)]
struct Lanes(Mutex<Vec<(spechop_ports::Lane, spechop_ports::Lane)>>);

#[async_trait]
impl PageReader for Lanes {
    async fn read(&self, call: &Call, url: &Url) -> Result<Page, PageFailure> {
        let began = call.lane();
        sleep(Duration::from_millis(500)).await;
        self.0.lock().push((began, call.lane()));
        Ok(Page::of_text(url, &"".into(), &"text".into()))
    }
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_on_their_way_are_promoted_with_their_look_up() {
    use spechop_ports::Lane::{Authoritative, Speculative};

    let kept = crate::CacheOptions {
        time: Duration::ZERO,
        most: NonZeroUsize::MIN,
    };
    for (is_shared, promotes) in [(false, false), (false, true), (true, false), (true, true)] {
        let web = Web::default().page("a", 0, None).page("b", 0, None);
        let lanes = Arc::new(Lanes::default());
        // As the server has it, and without what shares transfers.
        let pages: Arc<dyn PageReader> = match is_shared {
            true => Arc::new(crate::KeptPages::new(lanes.clone(), kept)),
            false => lanes.clone(),
        };
        let (encoder, options) = (TextVectors::letters(), WebRetrieverOptions::default());
        let retriever = WebRetriever::new(Arc::new(web), pages, Arc::new(encoder), options);
        let call = Call::new(Speculative, spechop_types::Chance::EVEN);
        let promoting = async {
            sleep(Duration::from_millis(200)).await;
            if promotes {
                call.promote();
            }
        };
        let (found, ()) = join(retriever.retrieve(&call, "text", 5), promoting).await;
        assert_eq!(found.unwrap().len(), 1, "equal texts count once");
        let end = if promotes { Authoritative } else { Speculative };
        let seen = lanes.0.lock().clone();
        assert_eq!(seen, [(Speculative, end); 2], "{is_shared}");
    }
}
