//! The web as a configuration puts it together: how often a provider is asked, what a look-up leaves
//! to others, and what is told of a provider that failed.

use std::pin::pin;

use async_trait::async_trait;
use futures::future::{Either, join, join_all, select};
use parking_lot::Mutex;
use spechop_config::Config;
use spechop_ports::{Call, Lane, SearchFailure, SearchResult, Wishes};
use spechop_sched::Backend;
use spechop_testkit::{Script, TextVectors};
use spechop_types::{Chance, ProviderChange, Tenant};
use tokio::time::Instant;
use wiremock::{MockServer, ResponseTemplate};

use self::sites::{asked, saying, wiki};
use super::*;
use crate::server_state::scripted::state;

#[path = "../../tests/support/sites.rs"]
mod sites;

const WEB: &str = "[target]\nkind = \"web\"\n";

fn config(lines: &str) -> Arc<Config> {
    let (state, _) = state(Script::instant(1), &format!("{WEB}{lines}"));
    state.config()
}

/// The look-ups of this configuration, as the toolbox has them, and whatever they wait for.
fn open(lines: &str) -> (Arc<dyn Retriever>, Vec<Backend>) {
    let config = config(lines);
    let mut backends = Backends::elsewhere(&config);
    let mut look_up = backends.target();
    let encoder: Arc<dyn Encoder> = Arc::new(TextVectors::alike());
    let web = target(&config.target, &encoder, &mut backends, &mut look_up).unwrap();
    let (name, lanes) = config.target.lanes(&config.scheduler);
    let retriever = backends.retrieves_at(name, lanes, web.unwrap(), &look_up);
    (retriever, backends.opened().0)
}

/// Look-ups in this wiki alone, several at once.
fn open_wiki(wiki: &MockServer) -> Arc<dyn Retriever> {
    let url = wiki.uri();
    let lines = format!(
        "[web]\nproviders = [\"mediawiki\"]\n[web.mediawiki]\nurl = \"{url}/w/api.php\"\n\
         [scheduler.mediawiki]\ncapacity = 4"
    );
    open(&lines).0
}

fn needed() -> Call {
    Call::authoritative()
}

fn ahead() -> Call {
    Call::new(Lane::Speculative, Chance::EVEN)
}

fn fresh(call: Call) -> Call {
    call.with(Wishes {
        fresh: true,
        ..Wishes::default()
    })
}

/// A call that an answer of this tenant needs.
fn of(tenant: &str) -> Call {
    let tenant = Tenant::new(tenant).unwrap();
    Call::of(tenant, Lane::Authoritative, Chance::CERTAIN)
}

/// What a look-up finds; never nothing.
async fn look_up(web: &Arc<dyn Retriever>, call: &Call) -> Vec<String> {
    let found = web.retrieve(call, "bridges of the Ouse", 3).await.unwrap();
    assert!(!found.is_empty());
    found.iter().map(|passage| passage.id.to_string()).collect()
}

/// An engine that finds nothing, and notes in which second it was asked.
struct Noted {
    began: Instant,
    asked: Mutex<Vec<u64>>,
}

#[async_trait]
impl SearchProvider for Noted {
    fn name(&self) -> &'static str {
        "noted"
    }

    async fn search_streaming(
        &self,
        _: &Call,
        _: &str,
        _: usize,
        _: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        self.asked.lock().push(self.began.elapsed().as_secs());
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn duckduckgo_is_asked_every_two_seconds_unless_its_rate_says_otherwise() {
    for (lines, expected) in [
        ("", [0, 2, 4]),
        ("[scheduler.duckduckgo]\nper_second = 0.2", [0, 5, 10]),
        (
            "[scheduler.duckduckgo]\nper_second = 0.2\nburst = 2",
            [0, 0, 5],
        ),
    ] {
        let config = config(&format!("[web]\nproviders = [\"duckduckgo\"]\n{lines}"));
        let Target::Web(web) = &config.target else {
            panic!("another target")
        };
        let mut backends = Backends::elsewhere(&config);
        let look_up = backends.target();
        let engine = Arc::new(Noted {
            began: Instant::now(),
            asked: Mutex::default(),
        });
        let search = backends.searches(engine.clone(), web.providers[0].lanes, &look_up);
        // Of several questions, whosever they are.
        let calls = [of("a"), of("a"), of("b")];
        let searches = calls.iter().map(|call| search.search(call, "q", 5));
        assert!(join_all(searches).await.iter().all(Result::is_ok));
        assert_eq!(*engine.asked.lock(), expected, "{lines}");
    }
}

#[tokio::test]
async fn the_look_ups_of_all_questions_keep_the_pace_of_a_provider() {
    let engine = saying(ResponseTemplate::new(303)).await;
    let url = engine.uri();
    // Not a second time within this test, although there is a place for it.
    let (web, backends) = open(&format!(
        "[web]\nproviders = [\"duckduckgo\"]\n[web.duckduckgo]\nurl = \"{url}/html/\"\n\
         [scheduler.duckduckgo]\ncapacity = 4\nper_second = 0.001"
    ));
    let (one, other) = (of("a"), of("b"));
    let first = pin!(web.retrieve(&one, "q", 5));
    let second = pin!(web.retrieve(&other, "r", 5));
    let Either::Left((found, _waits)) = select(first, second).await else {
        panic!("the second was first")
    };
    assert_eq!(found.unwrap(), []);
    assert_eq!(asked(&engine).await, 1);
    let mut backends = backends.iter();
    let duckduckgo = backends.find(|backend| backend.name() == "duckduckgo");
    let gauges = duckduckgo.unwrap().gauges();
    assert_eq!((gauges.started, gauges.waiting_authoritative), (1, 1));
}

#[tokio::test]
async fn a_search_that_is_kept_serves_the_next_in_whatever_lane() {
    for (first, next) in [(ahead(), needed()), (needed(), ahead())] {
        let wiki = wiki().await;
        let web = open_wiki(&wiki);
        let found = look_up(&web, &first).await;
        assert_eq!(look_up(&web, &next).await, found);
        assert_eq!((first.was_kept(), next.was_kept()), (false, true));
        assert_eq!(asked(&wiki).await, 1);
        // Nobody else is told what this tenant has asked.
        assert_eq!(look_up(&web, &of("b")).await, found);
        assert_eq!(asked(&wiki).await, 2);
    }
}

#[tokio::test]
async fn the_same_search_at_the_same_time_is_made_once_in_whatever_lanes() {
    for (one, other) in [(ahead(), needed()), (needed(), ahead()), (ahead(), ahead())] {
        let wiki = wiki().await;
        let web = open_wiki(&wiki);
        let (found, same) = join(look_up(&web, &one), look_up(&web, &other)).await;
        assert_eq!(found, same);
        assert_eq!(asked(&wiki).await, 1);
    }
}

#[tokio::test]
async fn who_wants_it_fresh_shares_no_search_that_may_be_served_by_a_kept_one() {
    for (one, other) in [
        (fresh(needed()), needed()),
        (fresh(needed()), ahead()),
        (ahead(), fresh(needed())),
        (needed(), fresh(ahead())),
    ] {
        let wiki = wiki().await;
        let web = open_wiki(&wiki);
        join(look_up(&web, &one), look_up(&web, &other)).await;
        assert_eq!(asked(&wiki).await, 2);
        // What is kept by now serves the others alone.
        let (usual, anew) = (needed(), fresh(needed()));
        join(look_up(&web, &usual), look_up(&web, &anew)).await;
        assert_eq!((usual.was_kept(), anew.was_kept()), (true, false));
        assert_eq!(asked(&wiki).await, 3);
    }
}

#[tokio::test]
async fn all_who_share_a_look_up_hear_that_another_provider_was_asked() {
    let challenge = "<html><form id=captcha></form></html>";
    let blocked = saying(ResponseTemplate::new(200).set_body_string(challenge)).await;
    let wiki = wiki().await;
    let (first, second) = (blocked.uri(), wiki.uri());
    let (web, _) = open(&format!(
        "[web]\nproviders = [\"searxng\", \"mediawiki\"]\n[web.searxng]\nurl = \"{first}\"\n\
         [web.mediawiki]\nurl = \"{second}/w/api.php\""
    ));
    let (one, other) = (ahead(), needed());
    join(look_up(&web, &one), look_up(&web, &other)).await;
    let change = [ProviderChange {
        from: "searxng".into(),
        to: "mediawiki".into(),
        why: "blocks this server: a page with a captcha in place of an answer".into(),
    }];
    assert_eq!(one.provider_changes(), change);
    assert_eq!(other.provider_changes(), change);
    // So do those who are given what was kept of it.
    let later = needed();
    look_up(&web, &later).await;
    assert!(later.was_kept());
    assert_eq!(later.provider_changes(), change);
    assert_eq!(asked(&blocked).await, 1);
}
