//! What status 403 says of a query, and what of a provider.

use spechop_ports::{Call, SearchProvider};
use spechop_web::search::{Breaker, BreakerOptions};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request};

use super::{Kind, page};

/// The provider, whose server answers queries with this word with this status, and that server.
async fn disliking(kind: Kind, word: &'static str, status: u16) -> (Breaker, MockServer) {
    let server = MockServer::start().await;
    let answer = move |request: &Request| {
        let asked = format!("{} {}", request.url, String::from_utf8_lossy(&request.body));
        match asked.contains(word) {
            true => page(status, b"<h1>Forbidden</h1>"),
            false => page(200, kind.found()),
        }
    };
    Mock::given(any()).respond_with(answer).mount(&server).await;
    let provider = kind.at(&server.uri());
    (Breaker::new(provider, BreakerOptions::default()), server)
}

/// What becomes of a query: nothing to say if it is answered.
async fn ask(provider: &Breaker, query: &str) -> String {
    match provider.search(&Call::authoritative(), query, 5).await {
        Ok(found) => {
            assert!(!found.is_empty(), "{query}");
            String::new()
        }
        Err(failure) => failure.to_string(),
    }
}

#[tokio::test]
async fn a_forbidden_query_closes_no_provider_that_answers_others() {
    for (kind, lasting) in [
        (Kind::Brave, "brave does not accept the key: status 403"),
        (Kind::Serper, "serper does not accept the key: status 403"),
        (
            Kind::Searxng,
            "searxng is not set up for this: status 403: add `json` to `search.formats` in its \
             settings.yml",
        ),
        (
            Kind::MediaWiki,
            "mediawiki is not set up for this: status 403: it wants to know whom to contact; set \
             web.contact",
        ),
    ] {
        let (provider, server) = disliking(kind, "drop", 403).await;
        let name = format!("{kind:?}").to_lowercase();
        let alone = format!("{name} got no answer: this query gave an unusable answer: status 403");
        assert_eq!(ask(&provider, "rivers").await, "");
        // One query, however often it is asked.
        for query in ["drop table", "drop table", "drop table", "drop database"] {
            assert_eq!(ask(&provider, query).await, alone);
        }
        assert_eq!(ask(&provider, "lakes").await, "");
        for query in ["drop table", "drop database"] {
            assert_eq!(ask(&provider, query).await, alone);
        }
        // The third in a row: now it is the key, or the settings.
        for query in ["drop index", "rivers"] {
            assert_eq!(ask(&provider, query).await, lasting);
        }
        let requests = server.received_requests().await.unwrap().len();
        assert_eq!(requests, 9, "{name} is left alone");
    }
}

#[tokio::test]
async fn what_is_the_providers_closes_it_at_once() {
    use Kind::{Brave, DuckDuckGo};
    for (kind, status, has_answered, said) in [
        (
            Brave,
            403,
            false,
            "brave does not accept the key: status 403",
        ),
        (
            Brave,
            401,
            true,
            "brave does not accept the key: status 401",
        ),
        (
            DuckDuckGo,
            403,
            true,
            "duckduckgo blocks this server: status 403",
        ),
    ] {
        let (provider, server) = disliking(kind, "drop", status).await;
        if has_answered {
            assert_eq!(ask(&provider, "rivers").await, "");
        }
        for query in ["drop table", "lakes"] {
            assert_eq!(ask(&provider, query).await, said);
        }
        let requests = server.received_requests().await.unwrap().len();
        assert_eq!(requests, 1 + usize::from(has_answered), "{said}");
    }
}
