//! What is sent.

use spechop_ports::{Call, contract};
use spechop_types::TraceContext;
use spechop_web::search::{EngineKind, SearchEngine};
use wiremock::{Request, ResponseTemplate};

use super::{KEY, Kind, saying};
use crate::support::Site;

/// Asks with this query; returns what the provider got.
async fn ask(kind: Kind, query: &str) -> Request {
    let server = saying(ResponseTemplate::new(200).set_body_bytes(kind.found())).await;
    let provider = kind.at(&server.uri());
    let found = provider.search(&Call::authoritative(), query, 1).await;
    assert_eq!(found.map(|found| found.len()), Ok(1), "{kind:?}");
    let mut requests = server.received_requests().await.expect("recording is on");
    assert_eq!(requests.len(), 1, "{kind:?}");
    requests.remove(0)
}

fn body(request: &Request) -> String {
    String::from_utf8_lossy(&request.body).into_owned()
}

#[tokio::test]
async fn each_is_asked_as_it_wants_to_be() {
    let query = "Żuławski & son?";
    let request = ask(Kind::Searxng, query).await;
    assert_eq!(
        request
            .url
            .to_string()
            .split_once("/search")
            .map(|(_, q)| q),
        Some("?q=%C5%BBu%C5%82awski+%26+son%3F&format=json")
    );

    let request = ask(Kind::DuckDuckGo, query).await;
    assert_eq!(request.method, "POST");
    assert_eq!(
        body(&request),
        "q=%C5%BBu%C5%82awski+%26+son%3F&b=&kl=wt-wt"
    );

    let request = ask(Kind::Brave, query).await;
    assert_eq!(request.url.path(), "/web/search");
    assert!(request.url.query().is_some_and(|q| q.contains("count=1&")));
    assert_eq!(request.headers["x-subscription-token"], KEY);

    let request = ask(Kind::Tavily, query).await;
    assert_eq!(request.url.path(), "/search");
    assert_eq!(request.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(
        body(&request),
        r#"{"include_raw_content":"text","max_results":1,"query":"Żuławski & son?"}"#
    );

    let request = ask(Kind::Serper, query).await;
    assert_eq!(request.headers["x-api-key"], KEY);
    assert_eq!(body(&request), r#"{"num":1,"q":"Żuławski & son?"}"#);

    let request = ask(Kind::MediaWiki, query).await;
    assert!(request.url.query().is_some_and(|query| {
        query.contains("generator=search")
            && query.contains("prop=info%7Cextracts")
            && query.contains("exintro=1&explaintext=1")
    }));
}

#[tokio::test]
async fn a_query_is_cut_to_what_the_engine_takes() {
    let long = "wörd ".repeat(1000);
    for (kind, chars) in [
        (Kind::Searxng, 399),
        (Kind::DuckDuckGo, 499),
        (Kind::Brave, 50 * 5 - 1),
        (Kind::Tavily, 399),
        (Kind::Serper, 2044),
        (Kind::MediaWiki, 299),
    ] {
        let request = ask(kind, &long).await;
        let (in_url, in_body) = (request.url.query().unwrap_or_default(), body(&request));
        let words = [in_url, &in_body]
            .map(|text| text.matches("w%C3%B6rd").count() + text.matches("wörd").count());
        let sent = words.iter().sum::<usize>() * 5 - 1;
        assert_eq!(sent, chars, "{kind:?}");
    }
}

#[tokio::test]
async fn each_says_who_asks_and_whom_to_contact() {
    let own = concat!("spechop/", env!("CARGO_PKG_VERSION"));
    for (kind, name) in Kind::ALL
        .into_iter()
        .flat_map(|kind| [(kind, None), (kind, Some("Acme/2"))])
    {
        let server = saying(ResponseTemplate::new(200).set_body_bytes(kind.found())).await;
        let provider = kind.open(|endpoint| {
            endpoint.base_url = server.uri();
            endpoint.key = Some(KEY.into());
            endpoint.user_agent = name.map(str::to_owned);
            endpoint.contact = Some("+https://example.org/bot".to_owned());
        });
        let call = Call::authoritative();
        let _ = provider.unwrap().search(&call, "q", 1).await;
        let requests = server.received_requests().await.unwrap();
        let agent = requests[0].headers["user-agent"].to_str().unwrap();
        let name = name.unwrap_or(own);
        assert_eq!(agent, format!("{name} (+https://example.org/bot)"));
    }
}

#[tokio::test]
async fn a_search_belongs_to_the_trace_of_its_call() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = TraceContext::parse(parent, "vendor=1");
    for kind in Kind::ALL {
        let server = saying(ResponseTemplate::new(200).set_body_bytes(kind.found())).await;
        let call = Call::authoritative().traced(trace.clone());
        kind.at(&server.uri()).search(&call, "q", 1).await.unwrap();
        let requests = server.received_requests().await.unwrap();
        let headers = &requests[0].headers;
        let told = TraceContext::HEADERS.map(|name| headers.get(name)?.to_str().ok());
        assert_eq!(told, [Some(parent), Some("vendor=1")], "{kind:?}");
    }
}

#[tokio::test]
async fn options_are_sent() {
    let server = saying(ResponseTemplate::new(200).set_body_bytes(Kind::Searxng.found())).await;
    let mut engine = SearchEngine::new(EngineKind::Searxng {
        engines: Some("wikipedia,brave".to_owned()),
        language: Some("en".to_owned()),
    });
    // It may live under a path.
    engine.endpoint.base_url = format!("{}/searx/", server.uri());
    let provider = engine.open().unwrap();
    let call = Call::authoritative();
    provider.search(&call, "q", 1).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    let sent = requests[0].url.to_string();
    assert!(
        sent.ends_with("/searx/search?q=q&format=json&engines=wikipedia%2Cbrave&language=en"),
        "{sent}"
    );
}

#[tokio::test]
async fn every_provider_keeps_the_contract() {
    for kind in Kind::ALL {
        let server = saying(ResponseTemplate::new(200).set_body_bytes(kind.found())).await;
        contract::search_provider(&*kind.at(&server.uri())).await;
        let provider = kind.at(&server.uri());
        let before = server.received_requests().await.unwrap().len();
        for blank in [" \n", "\u{0} \u{1f}"] {
            let found = provider.search(&Call::authoritative(), blank, 5).await;
            assert_eq!(found, Ok(Vec::new()));
        }
        let after = server.received_requests().await.unwrap().len();
        assert_eq!(before, after, "nobody is asked nothing");
    }
}

#[tokio::test]
async fn warming_up_asks_nothing_and_only_once() {
    let server = saying(ResponseTemplate::new(405)).await;
    let provider = Kind::DuckDuckGo.at(&format!("{}/html/", server.uri()));
    let call = Call::authoritative();
    provider.warm(&call).await;
    provider.warm(&call).await;
    let requests = server.received_requests().await.unwrap();
    let [request] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(request.method, "HEAD");
    assert_eq!((request.url.path(), request.url.query()), ("/", None));
    assert!(request.body.is_empty());
}

#[tokio::test]
async fn a_search_goes_over_the_connection_that_was_warmed_up() {
    for kind in Kind::ALL {
        let site = Site::start(move |path, answer| match path {
            "/" => answer.status(405),
            _ => answer.ok("text/plain", kind.found()),
        });
        let (provider, call) = (kind.at(&site.url("/api")), Call::authoritative());
        provider.warm(&call).await;
        assert_eq!((site.connections(), site.requests().len()), (1, 1));
        let found = provider.search(&call, "q", 5).await;
        assert!(found.is_ok_and(|found| !found.is_empty()), "{kind:?}");
        let counts = (site.connections(), site.requests().len());
        assert_eq!(counts, (1, 2), "{kind:?}");
    }
}

/// `!g` would ask another site than the operator has chosen.
#[tokio::test]
async fn no_word_of_a_query_commands_the_engine() {
    for kind in [Kind::DuckDuckGo, Kind::Searxng] {
        let request = ask(kind, "!g who wrote !!w Hamlet").await;
        let sent = format!(
            "{} {}",
            request.url.query().unwrap_or_default(),
            body(&request)
        );
        assert!(sent.contains("q=g+who+wrote+w+Hamlet"), "{kind:?}: {sent}");
    }
    // A regular expression, or another namespace.
    let request = ask(Kind::MediaWiki, "insource:/(/ who wrote Hamlet").await;
    let sent = request.url.query().unwrap_or_default();
    let plain = "gsrsearch=insource+%2F%28%2F+who+wrote+Hamlet&";
    assert!(sent.contains(plain), "{sent}");
    // Pages without the very word that is asked for, else.
    let request = ask(Kind::MediaWiki, "where is !Kung spoken").await;
    let sent = request.url.query().unwrap_or_default();
    assert!(sent.contains("gsrsearch=where+is+Kung+spoken&"), "{sent}");
    for kind in Kind::ALL {
        let request = ask(kind, "what freezes at -40").await;
        let sent = format!(
            "{} {}",
            request.url.query().unwrap_or_default(),
            body(&request)
        );
        let is_plain = sent.contains("at+40") || sent.contains("at 40");
        assert!(is_plain, "{kind:?}: {sent}");
    }
}

#[tokio::test]
async fn texts_that_come_along_are_cut() {
    let text_chars_max = 20;
    let mut found = Vec::new();
    for (kind, of) in [
        (Kind::Tavily, EngineKind::Tavily { text_chars_max }),
        (Kind::MediaWiki, EngineKind::MediaWiki { text_chars_max }),
    ] {
        let server = saying(ResponseTemplate::new(200).set_body_bytes(kind.found())).await;
        let mut engine = SearchEngine::new(of);
        engine.endpoint.base_url = server.uri();
        engine.endpoint.key = Some(KEY.into());
        let provider = engine.open().unwrap();
        let more = provider.search(&Call::authoritative(), "q", 5).await;
        found.extend(more.unwrap());
    }
    let texts = found.iter().filter_map(|result| result.text.as_deref());
    let texts: Vec<_> = texts.collect();
    assert_eq!(texts.len(), 3);
    let is_cut = |text: &str| (1..=20).contains(&text.chars().count());
    assert!(texts.iter().all(|text| is_cut(text)), "{texts:?}");
}
