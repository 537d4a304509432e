//! What becomes of an answer that is none.

use std::sync::Arc;
use std::time::Duration;

use spechop_ports::{Call, SearchFailure, SearchProvider, SearchTrouble};
use spechop_testkit::OwnPort;
use spechop_web::InvalidHttpEndpoint;
use spechop_web::search::{Breaker, BreakerOptions, Chain};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{KEY, Kind, page, recorded, saying};
use crate::support::PushedBack;

/// The trouble that this answer is, and whether whoever gives the turns heard of it.
async fn ask(kind: Kind, answer: ResponseTemplate) -> (SearchTrouble, bool) {
    let (failure, heard) = fail(kind, answer).await;
    (failure.trouble, heard)
}

/// The same with the name of the provider.
async fn fail(kind: Kind, answer: ResponseTemplate) -> (SearchFailure, bool) {
    let server = saying(answer).await;
    let call = Call::authoritative();
    let heard = PushedBack::of(&call);
    let outcome = kind.at(&server.uri()).search(&call, "q", 5).await;
    let failure: SearchFailure = outcome.expect_err("a failure");
    let said = format!("{failure} {failure:?}");
    assert!(!said.contains(KEY), "{said}");
    let requests = server.received_requests().await.expect("recording is on");
    assert_eq!(requests.len(), 1, "once, and no redirect is followed");
    (failure, heard.times() > 0)
}

/// The kind of trouble, for tables.
fn name(trouble: &SearchTrouble) -> &'static str {
    match trouble {
        SearchTrouble::Blocked { .. } => "blocked",
        SearchTrouble::RateLimited { .. } => "rate limited",
        SearchTrouble::BadKey { .. } => "bad key",
        SearchTrouble::Misconfigured { .. } => "misconfigured",
        SearchTrouble::Unreachable { .. } => "unreachable",
        SearchTrouble::Malformed { .. } => "malformed",
        SearchTrouble::QueryRefused { .. } => "query refused",
        SearchTrouble::NotSpeculated { .. } => "not speculated",
        SearchTrouble::All(_) => "all",
    }
}

#[tokio::test]
async fn every_status_has_its_meaning() {
    use Kind::{Brave, DuckDuckGo, MediaWiki, Searxng, Serper, Tavily};
    let credits = br#"{"message":"Not enough credits","statusCode":400}"#;
    let bad_request = br#"{"message":"Missing query parameter","statusCode":400}"#;
    for (kind, answer, expected) in [
        (Searxng, page(403, b"<h1>Forbidden</h1>"), "misconfigured"),
        (Searxng, page(429, b"Too Many Requests"), "rate limited"),
        (Searxng, page(404, b""), "misconfigured"),
        (Searxng, page(500, b""), "unreachable"),
        (Searxng, page(200, recorded!("searxng-blocked.json")), "all"),
        (
            Searxng,
            page(200, recorded!("searxng-unresponsive.json"))
                .insert_header("server-timing", "total;dur=9.1"),
            "unreachable",
        ),
        (DuckDuckGo, page(202, b""), "blocked"),
        (DuckDuckGo, page(403, b""), "blocked"),
        (DuckDuckGo, page(429, b""), "rate limited"),
        (
            DuckDuckGo,
            page(200, recorded!("duckduckgo-challenge.html")),
            "blocked",
        ),
        (
            DuckDuckGo,
            page(200, b"<script src=/anomaly.js?sv=html>a</script>"),
            "blocked",
        ),
        (
            DuckDuckGo,
            page(200, b"<html><body>Welcome</body></html>"),
            "malformed",
        ),
        (DuckDuckGo, page(200, b""), "malformed"),
        (Brave, page(401, b""), "bad key"),
        (Brave, page(403, b""), "bad key"),
        // Of a proxy on the way.
        (Brave, page(407, b""), "misconfigured"),
        (Brave, page(422, recorded!("brave-bad-key.json")), "bad key"),
        (
            Brave,
            page(422, br#"{"error":{"code":"VALIDATION"}}"#),
            "all",
        ),
        (
            Brave,
            page(429, recorded!("brave-rate-limited.json")),
            "rate limited",
        ),
        (
            Tavily,
            page(401, recorded!("tavily-bad-key.json")),
            "bad key",
        ),
        (Tavily, page(432, b"{}"), "bad key"),
        (Tavily, page(433, b"{}"), "bad key"),
        (Tavily, page(429, b"{}"), "rate limited"),
        (
            Serper,
            page(403, br#"{"message":"Unauthorized.","statusCode":403}"#),
            "bad key",
        ),
        (Serper, page(400, credits), "bad key"),
        (Serper, page(400, bad_request), "all"),
        (
            MediaWiki,
            page(403, b"Please set a user-agent"),
            "misconfigured",
        ),
        (
            MediaWiki,
            page(200, recorded!("mediawiki-maxlag.json")),
            "rate limited",
        ),
        (
            MediaWiki,
            page(200, br#"{"error":{"code":"badvalue"}}"#),
            "malformed",
        ),
    ] {
        let told = format!("{kind:?} {answer:?}");
        let (trouble, heard) = ask(kind, answer).await;
        assert_eq!(name(&trouble), expected, "{told}: {trouble}");
        let pushes_back = ["blocked", "rate limited"].contains(&expected);
        assert_eq!(heard, pushes_back, "{told}");
    }
}

#[tokio::test]
async fn what_any_of_them_may_say_means_the_same_for_all() {
    for kind in Kind::ALL {
        let moved = ResponseTemplate::new(301);
        let moved = moved.insert_header("location", "https://elsewhere.example/secret?q=1");
        let busy = page(503, b"").insert_header("retry-after", "7");
        let mitigated = page(403, b"").insert_header("cf-mitigated", "challenge");
        let mut table = vec![
            (page(200, recorded!("challenge.html")), "blocked"),
            (page(403, recorded!("challenge.html")), "blocked"),
            (mitigated, "blocked"),
            (moved, "misconfigured"),
            (busy, "rate limited"),
            (page(502, b"<h1>Bad gateway</h1>"), "unreachable"),
            (page(408, b""), "unreachable"),
            (page(414, b""), "all"),
            (page(418, b""), "malformed"),
            (page(204, b""), "malformed"),
            (page(200, b"\xff\xfe\x00"), "malformed"),
            (page(200, &[b'['; 100_000]), "malformed"),
            (page(200, &vec![b' '; 9 * 1024 * 1024]), "malformed"),
        ];
        if kind == Kind::DuckDuckGo {
            // Its own challenge is recognised by its parts, since results may speak of one.
            table.remove(0);
        }
        for (answer, expected) in table {
            let (trouble, _) = ask(kind, answer).await;
            assert_eq!(name(&trouble), expected, "{kind:?}: {trouble}");
            assert!(!trouble.to_string().contains("secret"), "{trouble}");
        }
    }
}

#[tokio::test]
async fn a_block_says_whose_it_is_and_what_it_was_recognised_by() {
    use Kind::{Brave, DuckDuckGo, MediaWiki, Searxng, Serper, Tavily};
    let mut table = vec![
        (
            DuckDuckGo,
            page(200, recorded!("duckduckgo-challenge.html")),
            "a challenge in place of results",
        ),
        (
            DuckDuckGo,
            page(202, recorded!("duckduckgo-challenge.html")),
            "status 202",
        ),
        (DuckDuckGo, page(403, b""), "status 403"),
        (
            Serper,
            page(200, b"<html><form id=captcha>"),
            "a page with a captcha in place of an answer",
        ),
        (
            Tavily,
            page(403, recorded!("challenge.html")),
            "status 403 and a challenge",
        ),
        (
            Brave,
            page(503, b"").insert_header("cf-mitigated", "challenge"),
            "status 503 and a challenge",
        ),
        (
            MediaWiki,
            page(405, b"").insert_header("x-amzn-waf-action", "challenge"),
            "status 405 and a challenge",
        ),
    ];
    let with_others = [Searxng, Brave, Tavily, Serper, MediaWiki];
    let how = "a page with a challenge in place of an answer";
    let challenge = page(200, recorded!("challenge.html"));
    table.extend(with_others.map(|kind| (kind, challenge.clone(), how)));
    for (kind, answer, how) in table {
        let (failure, _) = fail(kind, answer).await;
        let name = format!("{kind:?}").to_lowercase();
        let said = format!("{name} blocks this server: {how}");
        assert_eq!(failure.to_string(), said);
    }
}

#[tokio::test]
async fn the_operator_is_told_what_to_change() {
    let (trouble, _) = ask(Kind::Searxng, page(403, b"")).await;
    assert_eq!(
        trouble.to_string(),
        "is not set up for this: status 403: add `json` to `search.formats` in its settings.yml"
    );
    let (trouble, _) = ask(Kind::MediaWiki, page(403, b"")).await;
    assert_eq!(
        trouble.to_string(),
        "is not set up for this: status 403: it wants to know whom to contact; set web.contact"
    );
    for kind in [Kind::Searxng, Kind::MediaWiki] {
        let (trouble, _) = ask(kind, page(401, b"")).await;
        assert_eq!(
            trouble.to_string(),
            "is not set up for this: status 401: something before it wants a login; check its base \
             URL"
        );
    }
    let moved = ResponseTemplate::new(301).insert_header("location", "https://new.example/x");
    let (trouble, _) = ask(Kind::Brave, moved).await;
    assert_eq!(
        trouble.to_string(),
        "is not set up for this: status 301: it has moved to new.example; set its base URL to \
         where it is now"
    );
    for kind in [Kind::Brave, Kind::Tavily, Kind::Serper] {
        let error = kind.open(|_| {}).err().expect("no key");
        assert!(
            matches!(error, InvalidHttpEndpoint::NoKey { .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn it_is_said_until_when_no_more_is_taken() {
    let limited = |header: &str, value: &str| page(429, b"").insert_header(header, value);
    let both = limited("x-ratelimit-reset", "2, 86400");
    for (kind, answer, seconds) in [
        (Kind::Tavily, limited("retry-after", "60"), Some(60)),
        (Kind::Brave, both.clone(), Some(2)),
        (
            Kind::Brave,
            both.insert_header("x-ratelimit-remaining", "1, 0"),
            Some(86_400),
        ),
        (Kind::Serper, page(429, b""), None),
        (Kind::Serper, limited("retry-after", "soon"), None),
        (
            Kind::MediaWiki,
            page(200, recorded!("mediawiki-maxlag.json")).insert_header("retry-after", "9"),
            Some(9),
        ),
        (
            Kind::MediaWiki,
            page(200, recorded!("mediawiki-maxlag.json")),
            Some(5),
        ),
    ] {
        let (trouble, _) = ask(kind, answer).await;
        let retry_after = seconds.map(Duration::from_secs);
        assert_eq!(trouble, SearchTrouble::RateLimited { retry_after });
    }
}

#[tokio::test]
async fn a_provider_that_wants_ages_of_rest_has_an_hour() {
    let ages = page(429, b"").insert_header("retry-after", &*u64::MAX.to_string());
    let server = saying(ages).await;
    let provider = Kind::Tavily.at(&server.uri());
    let breaker = Breaker::new(provider, BreakerOptions::default());
    let call = Call::authoritative();
    let ask = async || breaker.search(&call, "q", 5).await.unwrap_err().trouble;
    let told = |seconds| SearchTrouble::RateLimited {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    assert_eq!(ask().await, told(u64::MAX));
    match ask().await {
        SearchTrouble::RateLimited {
            retry_after: Some(rest),
        } => assert!(rest <= Duration::from_secs(3600), "{rest:?}"),
        other => panic!("{other}"),
    }
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 1, "it is left alone");
}

/// The next one is asked, the wiki is asked as before, and if there is no other, nothing is found.
#[tokio::test]
async fn a_query_that_a_wiki_refuses_says_nothing_of_the_wiki() {
    let other = saying(page(200, Kind::Searxng.found())).await;
    for code in [
        "cirrussearch-regex-syntax-error",
        "cirrussearch-query-too-long",
    ] {
        let refused = serde_json::json!({ "error": { "code": code, "info": "of the query" } });
        let refused = ResponseTemplate::new(200).set_body_json(refused);
        for others in [Vec::new(), vec![Kind::Searxng.at(&other.uri())]] {
            let (wiki, is_alone) = (saying(refused.clone()).await, others.is_empty());
            let provider = Kind::MediaWiki.at(&wiki.uri());
            let breaker = Breaker::new(provider, BreakerOptions::default());
            let chain = Chain::new(Arc::new(breaker), others);
            for _ in 0..4 {
                let found = chain.search(&Call::authoritative(), "q", 5).await;
                assert_eq!(found.unwrap().is_empty(), is_alone);
            }
            assert_eq!(wiki.received_requests().await.unwrap().len(), 4);
        }
    }
}

/// The next provider is asked, but this one may know more of the next query.
#[tokio::test]
async fn searches_that_fail_by_themselves_say_nothing_of_the_provider() {
    use Kind::{Brave, Searxng, Serper};
    let silent = br#"{"results":[],"unresponsive_engines":[["google","Suspended: CAPTCHA"]]}"#;
    let silent = page(200, silent);
    let timed = |times: &str| silent.clone().insert_header("server-timing", times);
    let beside = "total;dur=9.1, render;dur=0.0, total_0_bing;dur=8.9, load_0_bing;dur=8.1";
    let of_part = "searxng got no answer: a part of it cannot be reached: its engines are blocked: \
                   google (Suspended: CAPTCHA)";
    let other = saying(page(200, Kind::MediaWiki.found())).await;
    for (kind, answer, said, is_asked_again) in [
        (Searxng, timed(beside), of_part, true),
        // A proxy has taken the times out, and perhaps put its own in.
        (Searxng, silent.clone(), of_part, true),
        (Searxng, timed("cdn;dur=9.3"), of_part, true),
        (
            Serper,
            page(400, b""),
            "serper got no answer: this query gave an unusable answer: status 400",
            true,
        ),
        (
            Brave,
            page(422, b"{}"),
            "brave got no answer: this query gave an unusable answer: status 422",
            true,
        ),
        // None of its engines has answered.
        (
            Searxng,
            timed("total;dur=9.1, render;dur=0.0"),
            "searxng cannot be reached: its engines are blocked: google (Suspended: CAPTCHA)",
            false,
        ),
    ] {
        let server = MockServer::start().await;
        for (answer, times) in [(answer, 3), (page(200, kind.found()), 1)] {
            let anything = Mock::given(any()).respond_with(answer);
            anything.up_to_n_times(times).mount(&server).await;
        }
        let provider = kind.at(&server.uri());
        let breaker = Arc::new(Breaker::new(provider, BreakerOptions::default()));
        let chain = Chain::new(breaker.clone(), vec![Kind::MediaWiki.at(&other.uri())]);
        let call = Call::authoritative();
        let failure = breaker.search(&call, "q", 5).await.unwrap_err();
        assert_eq!(failure.to_string(), said);
        for _ in 0..3 {
            let found = chain.search(&call, "q", 5).await.unwrap();
            assert!(!found.is_empty(), "{said}");
        }
        let requests = server.received_requests().await.unwrap().len();
        assert_eq!(requests, if is_asked_again { 4 } else { 3 }, "{said}");
    }
}

#[tokio::test]
async fn duckduckgo_answers_with_303_if_there_is_nothing() {
    let server = saying(ResponseTemplate::new(303)).await;
    let provider = Kind::DuckDuckGo.at(&server.uri());
    let found = provider.search(&Call::authoritative(), "q", 5).await;
    assert_eq!(found, Ok(Vec::new()));
}

#[tokio::test]
async fn who_is_not_there_or_never_ends_cannot_be_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = format!("http://{}", listener.local_addr().unwrap());
    // Promises a body and drips it.
    let drip = async {
        loop {
            let (mut line, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = line.read(&mut request).await;
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
            let _ = line.write_all(head).await;
            while line.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    let port = OwnPort::reserve();
    let nobody = format!("http://{}", port.address());
    let ask = async {
        for kind in Kind::ALL {
            for (url, said) in [
                (&slow, "cannot be reached: no answer within 300 ms"),
                (&nobody, "cannot be reached: "),
            ] {
                let provider = kind.open(|endpoint| {
                    endpoint.base_url = url.clone();
                    endpoint.key = Some(KEY.into());
                    endpoint.time_limit = Duration::from_millis(300);
                });
                let call = Call::authoritative();
                let failure = provider.unwrap().search(&call, "q", 5).await.unwrap_err();
                let trouble = failure.trouble.to_string();
                assert!(trouble.starts_with(said), "{trouble}");
            }
        }
    };
    tokio::select! {
        () = ask => {}
        () = drip => {}
    }
}
