//! Pages and searches through a proxy of the operator's choice, and nothing past it.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use crate::support::{self, Names, Site, article, options, read};
use spechop_ports::{Call, SearchProvider, SearchTrouble};
use spechop_web::Proxy;
use spechop_web::page::{HttpPageReader, Page, PageFailure, PageOptions};
use spechop_web::search::{EngineKind, SearchEngine};

/// A proxy for a web of one site, which also sends its clients where a query says.
fn proxy() -> Site {
    Site::start(|address, answer| match address.split_once("?to=") {
        Some((_, to)) => answer.redirect(to),
        None if address == "http://site.example/" => answer.page(article("Site")),
        None if address.starts_with("http://search.example/search?") => {
            answer.ok("application/json", include_str!("recorded/searxng.json"));
        }
        None => answer.status(403),
    })
}

fn at(proxy: &Site) -> Proxy {
    Proxy::new(&format!("http://{}", proxy.address)).unwrap()
}

/// A server on the public internet behind that proxy. No name means anything to it.
fn behind(proxy: Proxy) -> PageOptions {
    PageOptions {
        ports: vec![80, 443],
        proxy: Some(proxy),
        ..options(&[])
    }
}

fn reader(options: PageOptions) -> HttpPageReader {
    HttpPageReader::with_names(options, Names::of(&[])).unwrap()
}

#[track_caller]
fn assert_forbidden(outcome: &Result<Page, PageFailure>, what: &str) {
    assert!(
        matches!(outcome, Err(PageFailure::Forbidden { .. })),
        "{what}: {outcome:?}"
    );
}

#[tokio::test]
async fn a_page_comes_through_the_proxy_which_alone_resolves_names() {
    let proxy = proxy();
    let login = at(&proxy).with_login("user:p@ss:%41".into()).unwrap();
    let page = read(&reader(behind(login)), "http://site.example/")
        .await
        .unwrap();
    assert_eq!(&*page.title, "Site");
    let [asked] = &proxy.requests()[..] else {
        unreachable!("it is asked once")
    };
    assert!(asked.starts_with("GET http://site.example/ HTTP/1.1\r\n"));
    // `user:p@ss:%41` in Base64.
    let login = "proxy-authorization: Basic dXNlcjpwQHNzOiU0MQ==\r\n";
    assert!(asked.contains(login), "{asked}");
}

#[tokio::test]
async fn the_proxy_may_have_a_name_and_be_a_neighbour() {
    let proxy = proxy();
    let names = Names::of(&[("proxy.internal", &[&["127.0.0.1"]])]);
    let named = Proxy::new(&format!("http://proxy.internal:{}", proxy.port())).unwrap();
    let reader = HttpPageReader::with_names(behind(named), names.clone()).unwrap();
    let page = read(&reader, "http://site.example/").await.unwrap();
    assert_eq!((&*page.title, names.asked("proxy.internal")), ("Site", 1));
    // As a page it is still a neighbour.
    let url = format!("http://proxy.internal:{}/", proxy.port());
    assert_forbidden(&read(&reader, &url).await, "the proxy itself");
    assert_eq!(proxy.requests().len(), 1);
}

/// What no page may be, as far as an address says it.
const PRIVATE: &[&str] = &[
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://10.0.0.1/",
    "https://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://localhost/",
    "http://metadata.google.internal/",
    "http://intranet/",
    "http://site.example:8080/",
    "http://user:password@site.example/",
    "file:///etc/passwd",
];

#[tokio::test]
async fn what_is_written_in_an_address_is_refused_before_the_proxy_hears_of_it() {
    let proxy = proxy();
    // The second opens a network, but what its names stand for is not seen.
    let open = PageOptions {
        allow: vec!["10.9.0.0/16".parse().unwrap()],
        ..behind(at(&proxy))
    };
    for options in [behind(at(&proxy)), open] {
        let reader = reader(options);
        for url in PRIVATE {
            assert_forbidden(&read(&reader, url).await, url);
        }
    }
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn redirects_are_checked_at_every_hop() {
    let proxy = proxy();
    let reader = reader(behind(at(&proxy)));
    for (n, to) in PRIVATE.iter().enumerate() {
        let url = format!("http://other.example/?to=http://next.example/%3Fto={to}");
        let asked = |path: &str| format!("GET http://{path}");
        let far = read(&reader, &url.replace("%3F", "?")).await;
        assert_forbidden(&far, to);
        let requests = proxy.requests();
        assert_eq!(requests.len(), 2 * (n + 1), "{to}");
        assert!(requests[2 * n + 1].starts_with(&asked("next.example/")));
    }
    let url = "http://other.example/?to=http://site.example/";
    let page = read(&reader, url).await.unwrap();
    assert_eq!(page.url.as_str(), "http://site.example/");
}

#[tokio::test]
async fn a_proxy_that_refuses_is_a_failure_without_its_login() {
    let proxy = proxy();
    let login = at(&proxy).with_login("somebody:secret".into()).unwrap();
    let gone = Proxy::new("http://127.0.0.1:9").unwrap();
    let gone = gone.with_login("somebody:secret".into()).unwrap();
    for (proxy, url) in [
        (login.clone(), "http://elsewhere.example/"),
        (login, "https://elsewhere.example/"),
        (gone.clone(), "http://elsewhere.example/"),
        (gone, "https://elsewhere.example/"),
    ] {
        let failure = read(&reader(behind(proxy)), url).await.unwrap_err();
        assert!(
            matches!(failure, PageFailure::Unreachable { .. }),
            "{failure}"
        );
        let shown = format!("{failure} {failure:?}");
        assert!(
            !shown.contains("somebody") && !shown.contains("secret"),
            "{shown}"
        );
    }
    // What is encrypted is a tunnel to the proxy.
    let tunnel = "CONNECT elsewhere.example:443 HTTP/1.1\r\n";
    assert!(proxy.requests()[1].starts_with(tunnel));
}

fn searxng(url: &str, proxy: &Site) -> Arc<dyn SearchProvider> {
    let mut engine = SearchEngine::new(EngineKind::Searxng {
        engines: None,
        language: None,
    });
    engine.endpoint.base_url = url.to_owned();
    engine.endpoint.proxy = Some(at(proxy));
    engine.open().unwrap()
}

#[tokio::test]
async fn a_search_goes_through_it_unless_the_provider_is_on_this_machine() {
    let (proxy, here) = (
        proxy(),
        Site::start(|_, answer| {
            answer.ok("application/json", include_str!("recorded/searxng.json"));
        }),
    );
    let call = Call::authoritative();
    let away = searxng("http://search.example", &proxy);
    assert!(!away.search(&call, "rivers", 5).await.unwrap().is_empty());
    assert_eq!(proxy.requests().len(), 1);
    let here_too = searxng(&here.url(""), &proxy);
    assert!(
        !here_too
            .search(&call, "rivers", 5)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!((proxy.requests().len(), here.requests().len()), (1, 1));
}

#[tokio::test]
async fn a_proxy_that_wants_another_login_is_told_as_such() {
    let proxy = Site::start(|_, answer| answer.status(407));
    // What is encrypted gets no tunnel, and the rest an answer of the proxy's own.
    for (url, asked) in [
        ("https://search.example", "CONNECT search.example:443 "),
        ("http://search.example", "GET http://search.example/search?"),
    ] {
        let provider = searxng(url, &proxy);
        let failure = provider.search(&Call::authoritative(), "rivers", 5).await;
        let trouble = failure.unwrap_err().trouble;
        assert_eq!(
            trouble,
            SearchTrouble::Misconfigured {
                remedy: "status 407: the proxy wants another login; set web.proxy_login_env".into()
            }
        );
        assert!(proxy.requests().last().unwrap().starts_with(asked), "{url}");
    }
}

/// Tells the test below, in a process of its own, where the proxy is.
const PROXY: &str = "SPECHOP_TEST_PROXY";

#[tokio::test]
async fn the_environment_neither_changes_the_proxy_nor_leaves_it_out() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment is what is tested"
    )]
    let told = std::env::var(PROXY);
    if let Ok(url) = told {
        let reader = reader(behind(Proxy::new(&url).unwrap()));
        let page = read(&reader, "http://site.example/").await.unwrap();
        assert_eq!(&*page.title, "Site");
        return;
    }
    let (right, wrong) = (proxy(), proxy());
    let test = "the_environment_neither_changes_the_proxy_nor_leaves_it_out";
    support::run_again(module_path!(), test, |child| {
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            child.env(name, wrong.url(""));
        }
        child.env("no_proxy", "*").env("NO_PROXY", "*");
        child.env(PROXY, right.url(""));
    });
    assert_eq!((right.connections(), wrong.connections()), (1, 0));
}
