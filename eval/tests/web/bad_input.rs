//! Providers that are down and pages that are broken, over whole questions: each ends with an answer or with a
//! status that says who failed, and nothing of it stays behind.

use std::sync::Arc;
use std::time::Duration;

use spechop_eval::web::WebOptions;
use spechop_ports::SearchProvider;
use spechop_proto::AskResponse;
use spechop_server::App;
use spechop_testkit::OwnPort;
use spechop_web::search::{EngineKind, SearchEngine};
use tonic::{Code, Status};

use crate::asked::{ANSWER, PATIENT, QUESTION, evidence, gold, question, searxng, server};
use crate::corpus;
use crate::detour::Detour;
use crate::served::Served;

/// For what never comes: whatever limit there is passes.
const SHORT: Duration = Duration::from_millis(300);

/// The pages of a data set, and those that hold the answer.
async fn web() -> Arc<Served> {
    let mut passages = corpus("musique");
    passages.extend(gold(""));
    let web = Served::of(passages, WebOptions::default()).await;
    Arc::new(web)
}

/// Asks, and sees that nothing of the question is left.
async fn ask(server: &App) -> Result<AskResponse, Status> {
    let asked = tokio::time::timeout(PATIENT, server.ask(&question(QUESTION))).await;
    // Every question ends.
    let answer = asked.unwrap();
    assert_eq!(server.gauges().questions_open(), 0);
    answer
}

fn duckduckgo(url: String) -> Arc<dyn SearchProvider> {
    let region = "wt-wt".to_owned();
    let mut engine = SearchEngine::new(EngineKind::DuckDuckGo { region });
    engine.endpoint.base_url = url;
    engine.open().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_down_or_lies_ends_in_a_clear_status_or_in_another_provider() {
    let web = web().await;
    let at = |way: &str| format!("http://{}/down/{way}", web.address);
    let nobody = OwnPort::reserve();
    let nobody_at = format!("http://{}", nobody.address());
    for (provider, words) in [
        (searxng("down", nobody_at, PATIENT), "cannot be reached"),
        (searxng("down", at("failing"), PATIENT), "cannot be reached"),
        (searxng("down", at("silent"), SHORT), "cannot be reached"),
        (searxng("down", at("no-urls"), PATIENT), "unusable answer"),
        (searxng("down", at("cut"), PATIENT), "unusable answer"),
        (
            searxng("down", at("hidden-challenge"), PATIENT),
            "blocks this server",
        ),
        (
            duckduckgo(at("hidden-challenge") + "/html/"),
            "blocks this server",
        ),
        (searxng("down", at("refused"), PATIENT), "is not set up"),
        (
            searxng("down", at("rate-limited"), PATIENT),
            "no more requests",
        ),
    ] {
        let name = provider.name().to_owned();
        let alone = server(vec![Arc::clone(&provider)], web.address, PATIENT);
        let status = ask(&alone).await.unwrap_err();
        let told = status.message();
        // A wrong setting stays until the operator mends it.
        let code = match words {
            "is not set up" => Code::FailedPrecondition,
            _ => Code::Unavailable,
        };
        assert_eq!(status.code(), code, "{status}");
        assert!(told.contains(&name) && told.contains(words), "{status}");

        let second = searxng("second", format!("http://{}", web.address), PATIENT);
        let both = server(vec![provider, second], web.address, PATIENT);
        let answer = ask(&both).await.unwrap();
        assert_eq!(answer.answer, ANSWER);
        let changes = &answer.provider_changes;
        for change in changes {
            assert_eq!((&*change.from, &*change.to), (&*name, "second"));
            assert!(change.why.contains(words), "{change:?}");
        }
        // Once a hop.
        let times: u32 = changes.iter().map(|change| change.times).sum();
        assert_eq!(times, 2, "{changes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_however_its_pages_are_broken() {
    let web = web().await;
    let detour = Detour::over(&web).await;
    // What it is, how long a page may take, and whether anything of it is read.
    for (trouble, page_time, is_read) in [
        ("redirect", PATIENT, Some(true)),
        ("endless", PATIENT, Some(false)),
        ("huge", PATIENT, Some(false)),
        // Its half is read if that has come in time.
        ("stalled", SHORT, None),
        ("silent", SHORT, Some(false)),
        ("bomb", PATIENT, Some(false)),
        ("nested", PATIENT, Some(true)),
        ("elements", PATIENT, Some(true)),
        ("redirect-private", PATIENT, Some(false)),
        ("server-error", PATIENT, Some(false)),
    ] {
        let provider = searxng("searxng", detour.url(trouble), PATIENT);
        let server = server(vec![provider], web.address, page_time);
        let answer = ask(&server).await.unwrap();
        assert_eq!(answer.answer, ANSWER, "{trouble}");
        let read = evidence(&answer);
        assert!(read.len() == 2 && read.iter().all(|hop| !hop.is_empty()));
        let mut parts = read.iter().flatten();
        let is_shown = parts.all(|(id, _)| id.ends_with("#snippet"));
        assert_eq!(
            is_read.unwrap_or(!is_shown),
            !is_shown,
            "{trouble}: {read:?}"
        );
    }
}
