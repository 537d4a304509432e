//! What sites want robots to leave alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Answer, Site, article, options, read};
use spechop_ports::{Call, Lane};
use spechop_types::{Chance, Tenant};
use spechop_web::page::{HttpPageReader, PageFailure, PageOptions, PageReader};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

fn polite(sites: &[&Site]) -> HttpPageReader {
    HttpPageReader::new(PageOptions {
        robots: true,
        ..options(sites)
    })
    .unwrap()
}

/// A site with this `robots.txt`.
fn site(robots: impl Fn(&mut Answer<'_>) + Send + Sync + 'static) -> Site {
    Site::start(move |path, answer| match path {
        "/robots.txt" => robots(answer),
        _ => answer.page(article("Site")),
    })
}

fn of(robots: &'static str) -> Site {
    site(move |answer| answer.ok("text/plain", robots))
}

/// Why the path is not fetched; `None` if it is.
async fn refusal(reader: &HttpPageReader, site: &Site, path: &str) -> Option<String> {
    match read(reader, &site.url(path)).await {
        Ok(_) => None,
        Err(PageFailure::Forbidden { why, .. }) => Some(why),
        Err(other) => panic!("{path}: {other}"),
    }
}

const EXCLUDED: &str = "the site's robots.txt excludes it";

#[tokio::test]
async fn a_file_is_asked_once_and_heeded() {
    let site = of(
        "User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.php$\n\n\
         User-agent: other\nDisallow: /\n",
    );
    let reader = polite(&[&site]);
    for (path, excluded) in [
        ("/", false),
        ("/public", false),
        ("/private", true),
        ("/private/deep?a=1", true),
        ("/private/open/page", false),
        ("/a.php", true),
        ("/a.php?b", false),
    ] {
        let refusal = refusal(&reader, &site, path).await;
        assert_eq!(refusal.as_deref(), excluded.then_some(EXCLUDED), "{path}");
    }
    let asked = site.requests();
    assert_eq!(
        asked
            .iter()
            .filter(|request| request.contains(" /robots.txt "))
            .count(),
        1
    );
    // What is excluded is not requested.
    assert!(
        asked
            .iter()
            .all(|request| !request.contains("/private/deep"))
    );

    // Another tenant asks for itself.
    let call = Call::of(
        Tenant::new("b").unwrap(),
        Lane::Authoritative,
        Chance::CERTAIN,
    );
    reader
        .read(&call, &site.url("/").parse().unwrap())
        .await
        .unwrap();
    let asked = site.requests();
    assert_eq!(
        asked
            .iter()
            .filter(|request| request.contains(" /robots.txt "))
            .count(),
        2
    );

    let impolite = HttpPageReader::new(options(&[&site])).unwrap();
    assert_eq!(refusal(&impolite, &site, "/private").await, None);
}

#[tokio::test]
async fn a_site_may_mean_us_by_name() {
    let site = of("User-agent: SpecHop\nDisallow: /\n\nUser-agent: *\nDisallow:\n");
    assert_eq!(
        refusal(&polite(&[&site]), &site, "/").await.as_deref(),
        Some(EXCLUDED)
    );
    let site = of("User-agent: *\nDisallow: /\n\nUser-agent: spechop\nAllow: /\n");
    assert_eq!(refusal(&polite(&[&site]), &site, "/").await, None);
    // As it stands in a log.
    let site =
        of("User-agent: *\nAllow: /\n\nuser-agent: SpecHop/0.1.0 (x)\r\nDisallow: /private\n");
    for (path, refused) in [("/", None), ("/private", Some(EXCLUDED))] {
        let refusal = refusal(&polite(&[&site]), &site, path).await;
        assert_eq!(refusal.as_deref(), refused, "{path}");
    }
    // Some editors put a mark in front.
    let site = of("\u{feff}User-agent: SpecHop/0.1.0\nDisallow: /\n\nUser-agent: *\nAllow: /\n");
    assert_eq!(
        refusal(&polite(&[&site]), &site, "/").await.as_deref(),
        Some(EXCLUDED)
    );
}

#[tokio::test]
async fn a_path_has_one_spelling() {
    let site = of(
        "User-agent: *\nDisallow: /private\nDisallow: /caf%c3%a9\nDisallow: /%7Eana\nDisallow: /a%2fb\n\
         Disallow: /100%\nDisallow: /tag/{draft}\nDisallow: /find?q={a}'b\nDisallow: /it's\n\
         Disallow: /find?w=`\nDisallow: /a|b\nDisallow: /c|\nDisallow /d|e\n",
    );
    let reader = polite(&[&site]);
    for (path, excluded) in [
        ("/%70rivate/x", true),
        ("/caf%C3%A9", true),
        ("/~ana/", true),
        ("/a%2Fb", true),
        // Another path.
        ("/a/b", false),
        ("/100%zz", true),
        ("/tag/{draft}", true),
        ("/tag/%7bdraft%7D", true),
        ("/tag/draft", false),
        ("/find?q={a}'b", true),
        ("/find?q=%7Ba%7D%27b", true),
        ("/find?w=`", true),
        ("/it's", true),
        ("/it%27s", true),
        ("/a|b", true),
        ("/a%7cb", true),
        ("/c%7C/d", true),
        ("/c", false),
        ("/d|e", true),
        ("/d", false),
        ("/public%", false),
    ] {
        let refusal = refusal(&reader, &site, path).await;
        assert_eq!(refusal.as_deref(), excluded.then_some(EXCLUDED), "{path}");
    }
}

/// `$` means the end of an address only at the end of a rule, and what is written as `%24` or `%2A` means itself.
#[tokio::test]
async fn signs_of_rules_can_be_meant_as_they_are() {
    let site = of(
        "User-agent: *\nDisallow: /a$b\nDisallow: /cost-%24\nDisallow: /file-%2a.html\n\
         Disallow: /end$ # $5\nDisallow: /zero$\0Disallow: /both$$\r\nDisallow: /tag*$5\n\
         Disallow /plain$x*y$\n",
    );
    let reader = polite(&[&site]);
    for (path, excluded) in [
        ("/a$b/c", true),
        ("/a%24b", true),
        ("/a", false),
        ("/ab", false),
        ("/cost-$", true),
        ("/cost-%24/5", true),
        ("/cost-", false),
        ("/file-*.html", true),
        ("/file-%2A.html", true),
        ("/file-1.html", false),
        ("/end", true),
        ("/end/", false),
        ("/end$", false),
        ("/zero", true),
        ("/zero/", false),
        ("/both$", true),
        ("/both", false),
        ("/both$/", false),
        ("/tags/$5", true),
        ("/tag*%245", true),
        ("/tags/5", false),
        ("/plain$x-y", true),
        ("/plain$x-yz", false),
    ] {
        let refusal = refusal(&reader, &site, path).await;
        assert_eq!(refusal.as_deref(), excluded.then_some(EXCLUDED), "{path}");
    }
}

#[tokio::test]
async fn no_file_excludes_itself() {
    let site = of("User-agent: *\nDisallow: /\n");
    let reader = polite(&[&site]);
    let excluded = refusal(&reader, &site, "/").await;
    assert_eq!(excluded.as_deref(), Some(EXCLUDED));
    // It is no page, so it is not read as one, but that is all.
    let itself = read(&reader, &site.url("/robots.txt")).await;
    assert!(!matches!(itself, Err(PageFailure::Forbidden { .. })));
}

/// Many sites have none, and send their usual page instead.
#[tokio::test]
async fn a_page_in_place_of_a_file_excludes_nothing() {
    let site = site(|answer| {
        let prices = "<script>$(this)</script><li>allowed: $5</li>\n".repeat(300);
        answer.page(prices);
    });
    assert_eq!(refusal(&polite(&[&site]), &site, "/").await, None);
}

#[tokio::test]
async fn no_file_allows_everything_and_a_broken_site_nothing() {
    for status in [400, 401, 403, 404, 410] {
        let site = site(move |answer| answer.status(status));
        assert_eq!(
            refusal(&polite(&[&site]), &site, "/").await,
            None,
            "{status}"
        );
    }
    for (status, expected) in [
        (429, "the site asks for patience"),
        (500, "the site's robots.txt cannot be fetched"),
        (503, "the site's robots.txt cannot be fetched"),
    ] {
        let site = site(move |answer| answer.status(status));
        let reader = polite(&[&site]);
        for _ in 0..2 {
            assert_eq!(
                refusal(&reader, &site, "/").await.as_deref(),
                Some(expected),
                "{status}"
            );
        }
        // It is not asked again at once.
        assert_eq!(site.requests().len(), 1, "{status}");
    }
    let is_first = AtomicBool::new(true);
    let silent = site(move |answer| match is_first.swap(false, Relaxed) {
        true => answer.wait(Duration::from_secs(120)),
        false => answer.status(404),
    });
    let hasty = PageOptions {
        robots: true,
        limit: Duration::from_secs(2),
        ..options(&[&silent])
    };
    let hasty = HttpPageReader::new(hasty).unwrap();
    for _ in 0..2 {
        assert_eq!(
            refusal(&hasty, &silent, "/").await.as_deref(),
            Some("the site's robots.txt took too long")
        );
    }
    // That may have been our own line: it is asked again soon, and not after ten minutes.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    assert_eq!(refusal(&hasty, &silent, "/").await, None);
}

#[tokio::test]
async fn hostile_files_cost_little() {
    // Only its beginning counts, whatever ends its lines.
    for end in ["\n", "\r"] {
        let long = format!(
            "User-agent: *{end}Disallow: /private{end}{}Disallow: /{end}",
            format!("# more{end}").repeat(200_000)
        );
        let site = self::site(move |answer| answer.ok("text/plain", &long));
        let reader = polite(&[&site]);
        assert_eq!(refusal(&reader, &site, "/").await, None, "{end:?}");
        assert_eq!(
            refusal(&reader, &site, "/private").await.as_deref(),
            Some(EXCLUDED),
            "{end:?}"
        );
    }

    for rules in [
        "Disallow: /a*b*c$\n".repeat(20_000),
        // A key is never made of an encoded one.
        "%44isallow: /a*b*c$\n".repeat(20_000),
        "Allow:\n".repeat(70_000),
        "Allow:\r".repeat(70_000),
        "Allow:\0".repeat(70_000),
    ] {
        let rules = format!("User-agent: *\n{rules}");
        let site = self::site(move |answer| answer.ok("text/plain", &rules));
        let refused = refusal(&polite(&[&site]), &site, "/").await;
        assert_eq!(
            refused.as_deref(),
            Some("the site's robots.txt is too long")
        );
    }

    // As regular expressions, rules of many stars could not be had, and those of fewer would take seconds.
    for key in ["Disallow:", "Disallow "] {
        let rule = format!("{key}/{}b$\n", "*a".repeat(900));
        let rules = format!("User-agent: *\n{}", rule.repeat(256));
        let site = self::site(move |answer| answer.ok("text/plain", &rules));
        let reader = polite(&[&site]);
        let long = "a".repeat(7_000);
        for (path, excluded) in [
            (format!("/{long}"), false),
            (format!("/{long}b"), true),
            (format!("/{long}ba"), false),
        ] {
            let refusal = refusal(&reader, &site, &path).await;
            let end = &path[7_000..];
            assert_eq!(
                refusal.as_deref(),
                excluded.then_some(EXCLUDED),
                "{key} {end}"
            );
        }
    }

    let noise =
        self::site(|answer| answer.ok("text/plain", (0..=255).collect::<Vec<u8>>().repeat(100)));
    assert_eq!(refusal(&polite(&[&noise]), &noise, "/").await, None);
}

fn packed(answer: &mut Answer<'_>) {
    answer.write("HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: 4\r\n\r\nrule");
}

/// Of bytes that are still packed, no line is a rule.
#[tokio::test]
async fn a_file_that_is_packed_as_nobody_has_asked_for_allows_nothing() {
    let site = site(packed);
    let refused = refusal(&polite(&[&site]), &site, "/").await;
    assert_eq!(
        refused.as_deref(),
        Some("the site's robots.txt cannot be read")
    );
}

/// The site may mend it.
#[tokio::test]
async fn a_file_that_cannot_be_read_is_asked_for_again_after_ten_minutes() {
    let is_first = AtomicBool::new(true);
    let site = site(move |answer| match is_first.swap(false, Relaxed) {
        true => packed(answer),
        false => answer.ok("text/plain", "User-agent: *\nDisallow: /private\n"),
    });
    let reader = polite(&[&site]);
    for _ in 0..2 {
        assert_eq!(
            refusal(&reader, &site, "/").await.as_deref(),
            Some("the site's robots.txt cannot be read")
        );
    }
    assert_eq!(site.requests().len(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(601)).await;
    tokio::time::resume();
    assert_eq!(refusal(&reader, &site, "/").await, None);
}

#[tokio::test]
async fn each_stop_of_a_redirect_is_asked() {
    let end = of("User-agent: *\nDisallow: /end\n");
    let (closed, open) = (end.url("/end"), end.url("/open"));
    let begin = Site::start(move |path, answer| match path {
        "/closed" => answer.redirect(&closed),
        "/open" => answer.redirect(&open),
        _ => answer.status(404),
    });
    let reader = polite(&[&begin, &end]);
    assert_eq!(
        refusal(&reader, &begin, "/closed").await.as_deref(),
        Some(EXCLUDED)
    );
    assert_eq!(refusal(&reader, &begin, "/open").await, None);
}

/// A file that redirects inside is no way in.
#[tokio::test]
async fn a_file_is_fetched_as_safely_as_a_page() {
    let inside = Site::start(|_, answer| answer.ok("text/plain", "User-agent: *\nAllow: /\n"));
    let to = inside.url("/robots.txt");
    let site = site(move |answer| answer.redirect(&to));
    let reader = polite(&[&site]);
    let refusal = refusal(&reader, &site, "/").await;
    assert_eq!(
        refusal.as_deref(),
        Some("the site's robots.txt cannot be fetched")
    );
    assert_eq!(inside.connections(), 0);
}

/// What the path comes to. As long as the only thread for long work is busy, that is nothing, and so
/// many requests are made.
async fn once_a_thread_is_free(
    reader: &HttpPageReader,
    site: &Site,
    path: &str,
    requests: usize,
) -> Option<String> {
    let (release, held) = mpsc::channel::<()>();
    let _busy = spawn_blocking(move || held.recv());
    let mut outcome = pin!(refusal(reader, site, path));
    while site.requests().len() < requests {
        let early = timeout(Duration::from_millis(5), &mut outcome).await;
        assert_eq!(early.ok(), None, "{path}");
    }
    let early = timeout(Duration::from_millis(300), &mut outcome).await;
    assert_eq!(early.ok(), None, "{path}");
    assert_eq!(site.requests().len(), requests, "{path}");
    drop(release);
    outcome.await
}

#[test]
fn a_file_is_read_and_compared_off_the_threads_of_the_runtime() {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let closed = of("User-agent: *\nDisallow: /\n");
        let outcome = once_a_thread_is_free(&polite(&[&closed]), &closed, "/", 1).await;
        assert_eq!(outcome.as_deref(), Some(EXCLUDED));
        // A file that is known by now.
        let site = of("User-agent: *\nDisallow: /private\n");
        let reader = polite(&[&site]);
        assert_eq!(refusal(&reader, &site, "/").await, None);
        let outcome = once_a_thread_is_free(&reader, &site, "/private", 2).await;
        assert_eq!(outcome.as_deref(), Some(EXCLUDED));
    });
}
