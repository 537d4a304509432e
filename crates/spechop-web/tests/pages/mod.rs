//! Pages as the web has them: each is read, or fails in time and says why.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod text;
mod transfer;

use std::future::Future;
use std::time::Duration;

use crate::support::{Answer, Site, article, options, read};
use spechop_ports::Call;
use spechop_types::{Activity, TraceContext};
use spechop_web::page::{HttpPageReader, Page, PageFailure, PageOptions, PageReader};
use tokio::time::Instant;

/// A limit that tests wait out, and what nothing may outlast even on a machine that is busy.
const LIMIT: Duration = Duration::from_millis(600);
const FAR_BEYOND: Duration = Duration::from_secs(120);

fn impatient(site: &Site) -> PageOptions {
    PageOptions {
        limit: LIMIT,
        ..options(&[site])
    }
}

/// What one path of a site comes to, within its limit.
async fn outcome(options: PageOptions, site: &Site, path: &str) -> Result<Page, PageFailure> {
    let reader = HttpPageReader::new(options).unwrap();
    in_time(read(&reader, &site.url(path))).await
}

async fn in_time<T>(read: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let outcome = read.await;
    assert!(started.elapsed() < FAR_BEYOND, "{:?}", started.elapsed());
    outcome
}

/// What the answer to one request comes to.
async fn of(answer: impl Fn(&mut Answer<'_>) + Send + Sync + 'static) -> Result<Page, PageFailure> {
    let site = Site::start(move |_, to| answer(to));
    outcome(options(&[&site]), &site, "/").await
}

async fn of_html(html: String) -> Result<Page, PageFailure> {
    of(move |answer| answer.page(&html)).await
}

#[track_caller]
fn assert_unreadable(outcome: Result<Page, PageFailure>, expected: &str) {
    match outcome {
        Err(PageFailure::Unreadable { detail, .. }) if detail.contains(expected) => {}
        other => panic!("not unreadable for {expected:?}: {other:?}"),
    }
}

#[track_caller]
fn assert_unreachable(outcome: Result<Page, PageFailure>, expected: &str) {
    match outcome {
        Err(PageFailure::Unreachable { detail, .. }) if detail.contains(expected) => {}
        other => panic!("not unreachable for {expected:?}: {other:?}"),
    }
}

#[track_caller]
fn assert_late(outcome: Result<Page, PageFailure>) {
    match outcome {
        Err(PageFailure::Timeout { limit, .. }) if limit == LIMIT => {}
        other => panic!("not late: {other:?}"),
    }
}

#[tokio::test]
async fn a_page_is_read_where_its_redirects_lead() {
    let site = Site::start(|path, answer| match path {
        "/old?a=1" => answer.redirect("/new?b=2#part"),
        "/new?b=2" => answer.page(article("The river Ouse")),
        _ => answer.status(404),
    });
    let options = PageOptions {
        contact: Some("https://example.org/bot".into()),
        ..options(&[&site])
    };
    let reader = HttpPageReader::new(options).unwrap();
    let page = read(&reader, &site.url("/old?a=1#top")).await.unwrap();
    assert_eq!(page.url.as_str(), site.url("/new?b=2"));
    assert_eq!(&*page.title, "The river Ouse");
    assert!(
        page.text.contains("turns east at the old mill"),
        "{}",
        page.text
    );
    assert!(
        !page.text.contains("Home") && !page.text.contains("About us"),
        "{}",
        page.text
    );
    let requests = site.requests();
    for expected in [
        "user-agent: SpecHop/0.1.0 (+https://example.org/bot)",
        "accept: text/html,application/xhtml+xml,text/plain;q=0.8",
        "accept-encoding: zstd,gzip,br",
    ] {
        assert!(requests[1].contains(expected), "{}", requests[1]);
    }
    for unwanted in ["cookie", "referer", "authorization", "#"] {
        assert!(!requests[1].contains(unwanted), "{}", requests[1]);
    }
    // The connection is kept.
    read(&reader, &site.url("/new?b=2")).await.unwrap();
    assert_eq!((site.requests().len(), site.connections()), (3, 1));
}

#[tokio::test]
async fn what_fetching_and_its_text_take_is_told_of_the_call() {
    let site = Site::start(|_, answer| answer.page(article("The river Ouse")));
    let reader = HttpPageReader::new(options(&[&site])).unwrap();
    let call = Call::authoritative();
    let url = site.url("/").parse().unwrap();
    reader.read(&call, &url).await.unwrap();
    let activities = call.activities();
    for activity in [Activity::Fetch, Activity::Extract] {
        assert!(!activities.of(activity).is_zero(), "{activities:?}");
    }
}

/// Whoever runs a site is a stranger, and no part of our traces.
#[tokio::test]
async fn a_site_hears_of_no_trace() {
    let site = Site::start(|path, answer| match path {
        "/robots.txt" => answer.status(404),
        _ => answer.page(article("The river Ouse")),
    });
    let options = PageOptions {
        robots: true,
        ..options(&[&site])
    };
    let reader = HttpPageReader::new(options).unwrap();
    let call = Call::authoritative().traced(Some(TraceContext::root(7, 5, true)));
    let url = site.url("/").parse().unwrap();
    reader.read(&call, &url).await.unwrap();
    assert_eq!(call.trace_headers().count(), 1);
    let requests = site.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    for name in TraceContext::HEADERS {
        let says = |head: &String| head.to_lowercase().contains(name);
        assert!(!requests.iter().any(says), "{requests:?}");
    }
}

#[tokio::test]
async fn redirects_end() {
    let site = Site::start(|path, answer| match path.strip_prefix("/left/") {
        Some("0") => answer.page(article("Site")),
        Some(left) => {
            let left: u32 = left.parse().unwrap();
            answer.redirect(&format!("/left/{}", left - 1));
        }
        None => match path {
            "/self" => answer.redirect("/self#again"),
            "/ping" => answer.redirect("/pong"),
            "/pong" => answer.redirect("/ping"),
            "/nowhere" => _ = answer.write("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"),
            "/broken" => answer.redirect("http://[::1"),
            _ => {
                answer.wait(Duration::from_millis(200));
                answer.redirect(&format!("{path}a"));
            }
        },
    });
    let reader = HttpPageReader::new(options(&[&site])).unwrap();
    let at = async |path: &str| read(&reader, &site.url(path)).await;
    assert!(at("/left/5").await.is_ok());
    assert_unreachable(at("/left/6").await, "more than 5 redirects");
    for path in ["/self", "/ping"] {
        assert_unreachable(at(path).await, "in a circle");
    }
    for path in ["/nowhere", "/broken"] {
        assert_unreachable(at(path).await, "a redirect to nowhere");
    }
    // One limit for all of them together.
    assert_late(outcome(impatient(&site), &site, "/slow").await);
}

#[tokio::test]
async fn what_is_no_page_is_said_to_be_none() {
    for status in [204, 206, 304, 400, 401, 403, 404, 410, 429, 500, 503] {
        let failed = of(move |answer| answer.status(status)).await;
        assert_unreachable(failed, &format!("status {status}"));
    }
    for kind in [
        "application/pdf",
        "application/json",
        "image/png",
        "video/mp4",
        "text/css",
        "x",
    ] {
        let failed = of(move |answer| answer.ok(kind, article("Other"))).await;
        assert_unreadable(failed, "neither HTML nor plain text");
    }
    for kind in [
        "text/html",
        "Text/HTML;Charset=UTF-8",
        "application/xhtml+xml; x=y",
        "text/html;charset",
    ] {
        assert_eq!(
            &*of(move |answer| answer.ok(kind, article("Page")))
                .await
                .unwrap()
                .title,
            "Page"
        );
    }
    let nameless = of(|answer| {
        let page = article("Nameless");
        answer.write(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}",
            page.len()
        ));
    });
    assert_eq!(&*nameless.await.unwrap().title, "Nameless");
    let plain = of(|answer| {
        answer.ok(
            "text/plain",
            "Ana Ruiz\n\nShe <b>films</b>\nin Cádiz.\n\nA lot.",
        );
    });
    let plain = plain.await.unwrap();
    assert_eq!(
        (&*plain.title, &*plain.text),
        ("Ana Ruiz", "She <b>films</b> in Cádiz.\nA lot.")
    );

    for empty in ["", " \n\n", "<html></html>", "<script>alert(1)</script>"] {
        assert_unreadable(of_html(empty.to_owned()).await, "it has no text");
    }
    let picture: Vec<u8> = (0..50_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for kind in ["text/html", "text/plain", "text/html; charset=utf-8"] {
        let picture = picture.clone();
        assert_unreadable(of(move |answer| answer.ok(kind, &picture)).await, "no text");
    }
    for noise in [
        "",
        "HTTP/9.9 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9.6\r\n",
        "\0\0\0\0",
        "HTTP/1.1 99999 X\r\n\r\n",
    ] {
        let failed = of(move |answer| {
            answer.write(noise);
            answer.close();
        });
        assert_unreachable(failed.await, "");
    }
    let heads = of(|answer| {
        answer.write(format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            "X-Header: value\r\n".repeat(100_000)
        ));
        answer.close();
    });
    assert_unreachable(heads.await, "");
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_read() {
    let said = of(|answer| {
        answer
            .write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2000001\r\n\r\n");
        answer.wait(FAR_BEYOND);
    });
    assert_unreadable(said.await, "larger than 2000000 bytes");
    let endless = of(|answer| {
        answer.write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n");
        let block = "<p>More and more text.</p>".repeat(1000);
        while answer.write(&block) {}
    });
    assert_unreadable(endless.await, "larger than 2000000 bytes");
    let full = format!("{}{}", article("Full"), " ".repeat(1_900_000));
    assert_eq!(&*of_html(full).await.unwrap().title, "Full");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    type Change = fn(&mut PageOptions);
    let changes: [(Change, &str); 8] = [
        (
            |options| options.limit = Duration::ZERO,
            "limit of pages must be more than 0",
        ),
        (
            |options| options.body_bytes_max = 0,
            "body_bytes_max of pages must be more than 0",
        ),
        (
            |options| options.text_chars_max = 0,
            "text_chars_max of pages must be more than 0",
        ),
        (
            |options| options.user_agent.clear(),
            "the user agent \"\" cannot be sent",
        ),
        (
            |options| options.user_agent = "(bot)".into(),
            "the user agent \"(bot)\" cannot be sent",
        ),
        (
            |options| options.user_agent = "Bot\n/1".into(),
            "the user agent \"Bot\\n/1\" cannot be sent",
        ),
        (
            |options| options.contact = Some("é".into()),
            "cannot be sent: it must be visible ASCII",
        ),
        (
            |options| options.ports.clear(),
            "no page can be read: ports and allow are both empty",
        ),
    ];
    for (change, expected) in changes {
        let mut options = PageOptions::default();
        change(&mut options);
        let error = HttpPageReader::new(options)
            .err()
            .expect(expected)
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}
