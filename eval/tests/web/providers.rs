//! The service's own providers against the local web: it has the forms of the real ones, and is down in their ways.

use std::sync::Arc;
use std::time::Duration;

use spechop_eval::web::WebOptions;
use spechop_ports::{Call, SearchProvider, SearchResult, SearchTrouble};
use spechop_web::search::{EngineKind, SearchEngine};

use crate::served::Served;

/// All of them, at the web itself or behind a prefix.
fn providers(web: &Served, prefix: &str) -> [Arc<dyn SearchProvider>; 3] {
    let (engines, language) = (None, None);
    let (region, text_chars_max) = ("wt-wt".to_owned(), 10_000);
    [
        (EngineKind::Searxng { engines, language }, ""),
        (EngineKind::DuckDuckGo { region }, "/html/"),
        (EngineKind::MediaWiki { text_chars_max }, "/w/api.php"),
    ]
    .map(|(kind, path)| {
        let mut engine = SearchEngine::new(kind);
        engine.endpoint.base_url = format!("http://{}{prefix}{path}", web.address);
        engine.endpoint.contact = Some("tests@example.org".to_owned());
        // For what never comes, whatever limit there is passes.
        engine.endpoint.time_limit = match prefix {
            "/down/silent" => Duration::from_secs(1),
            _ => Duration::from_secs(60),
        };
        engine.open().unwrap()
    })
}

async fn search(
    provider: &dyn SearchProvider,
    query: &str,
) -> Result<Vec<SearchResult>, SearchTrouble> {
    let found = provider.search(&Call::authoritative(), query, 5).await;
    found.map_err(|failure| failure.trouble)
}

#[tokio::test]
async fn every_provider_finds_the_page() {
    let web = Served::start(WebOptions::default()).await;
    for provider in providers(&web, "") {
        let name = provider.name();
        let found = search(&*provider, "a city in Poland").await.unwrap();
        let first = &found[0];
        assert_eq!(&*first.title, "Łódź", "{name}");
        let page = web.get(web.path(first.url.as_str())).await;
        assert_eq!(page.status, 200, "{name}: {}", first.url);
        if name == "mediawiki" {
            let text = first.text.as_deref().unwrap();
            assert_eq!(
                text,
                "Łódź is a city in Poland, \"famous\" for <film> & textiles."
            );
        } else {
            assert!(
                first.snippet.contains("<film> & textiles"),
                "{name}: {first:?}"
            );
        }
        assert_eq!(
            search(&*provider, "river").await.unwrap().len(),
            5,
            "{name}"
        );
        assert_eq!(search(&*provider, "volcano").await.unwrap(), [], "{name}");
    }
}

#[tokio::test]
async fn every_way_to_be_down_is_told_apart() {
    let web = Served::start(WebOptions::default()).await;
    for (way, is_expected) in [
        (
            "rate-limited",
            (|_, trouble| {
                matches!(
                    trouble,
                    SearchTrouble::RateLimited {
                        retry_after: Some(_)
                    }
                )
            }) as fn(&str, &SearchTrouble) -> bool,
        ),
        ("failing", |_, trouble| {
            matches!(trouble, SearchTrouble::Unreachable { .. })
        }),
        ("silent", |_, trouble| {
            matches!(trouble, SearchTrouble::Unreachable { .. })
        }),
        ("cut", |_, trouble| {
            matches!(trouble, SearchTrouble::Malformed { .. })
        }),
        ("not-json", |_, trouble| {
            matches!(trouble, SearchTrouble::Malformed { .. })
        }),
        ("refused", |name, trouble| match name {
            "duckduckgo" => matches!(trouble, SearchTrouble::Blocked { .. }),
            _ => matches!(trouble, SearchTrouble::Misconfigured { .. }),
        }),
        ("challenge", |name, trouble| {
            name != "duckduckgo" || matches!(trouble, SearchTrouble::Blocked { .. })
        }),
        ("hidden-challenge", |name, trouble| {
            name != "duckduckgo" || matches!(trouble, SearchTrouble::Blocked { .. })
        }),
    ] {
        for provider in providers(&web, &format!("/down/{way}")) {
            let name = provider.name();
            let asked = search(&*provider, "Oder").await;
            let trouble = asked.expect_err(&format!("{way}: {name}"));
            assert!(is_expected(name, &trouble), "{way}: {name} {trouble}");
        }
    }
    // Engines that do not answer are no empty web, and results without an address are none.
    let [searxng, ..] = providers(&web, "/down/empty");
    let trouble = search(&*searxng, "Oder").await.unwrap_err();
    assert!(
        matches!(trouble, SearchTrouble::Unreachable { .. }),
        "{trouble}"
    );
    for provider in providers(&web, "/down/no-urls") {
        let found = search(&*provider, "Oder").await;
        assert!(
            found.is_err_and(|trouble| matches!(trouble, SearchTrouble::Malformed { .. })),
            "{}",
            provider.name()
        );
    }
}
