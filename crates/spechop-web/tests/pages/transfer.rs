//! How pages come: packed, slowly, in part, beside others, or no longer wanted.

use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use spechop_ports::{Call, Lane};
use spechop_types::{Chance, Tenant};
use spechop_web::page::{HttpPageReader, PageFailure, PageOptions, PageReader};
use spechop_web::{CacheOptions, KeptPages};
use tokio::time::Instant;

use super::{
    FAR_BEYOND, assert_late, assert_unreachable, assert_unreadable, impatient, of, outcome,
};
use crate::support::{Site, article, options, read};

#[tokio::test]
async fn tenants_share_no_connections() {
    let site = Site::start(|_, answer| answer.page(article("Site")));
    let reader = HttpPageReader::new(options(&[&site])).unwrap();
    for (tenant, connections) in [("a", 1), ("b", 2), ("a", 2), ("b", 2)] {
        let call = Call::of(
            Tenant::new(tenant).unwrap(),
            Lane::Authoritative,
            Chance::CERTAIN,
        );
        reader
            .read(&call, &site.url("/").parse().unwrap())
            .await
            .unwrap();
        assert_eq!(site.connections(), connections, "{tenant}");
    }
}

/// A page that is kept for hardly any time is asked for by its version each time.
#[tokio::test]
async fn an_old_page_is_asked_for_by_what_its_site_calls_its_version() {
    let asked = AtomicUsize::new(0);
    let site = Site::start(move |_, answer| match asked.fetch_add(1, SeqCst) {
        0 => {
            let body = article("Old");
            let length = body.len();
            answer.write(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"v1\"\r\n\
                 Last-Modified: Tue, 03 Nov 2026 08:00:00 GMT\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
        }
        1 => answer.status(304),
        _ => answer.page(article("New")),
    });
    let reader = HttpPageReader::new(options(&[&site])).unwrap();
    let kept = CacheOptions {
        time: Duration::from_nanos(1),
        most: NonZeroUsize::MIN,
    };
    let pages = KeptPages::new(Arc::new(reader), kept);
    for (number, title) in ["Old", "Old", "New"].into_iter().enumerate() {
        let url = site.url("/").parse().unwrap();
        let page = pages.read(&Call::authoritative(), &url).await.unwrap();
        assert_eq!(&*page.title, title);
        let head = site.requests().pop().unwrap().to_ascii_lowercase();
        let marks = [
            "if-none-match: \"v1\"",
            "if-modified-since: tue, 03 nov 2026 08:00:00 gmt",
        ];
        for mark in marks {
            assert_eq!(head.contains(mark), number > 0, "{number}: {head}");
        }
    }
    assert_eq!(site.requests().len(), 3);
}

/// What an address leads to may change, and be older than what it led to before.
#[tokio::test]
async fn a_version_is_of_the_page_that_a_redirect_led_to() {
    let asked = AtomicUsize::new(0);
    let site = Site::start(move |path, answer| match path {
        "/today" if asked.fetch_add(1, SeqCst) == 0 => answer.redirect("/a"),
        "/today" => answer.redirect("/b"),
        "/a" => {
            let body = article("A");
            let length = body.len();
            answer.write(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\
                 Last-Modified: Tue, 03 Nov 2026 08:00:00 GMT\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
        }
        _ => answer.status(304),
    });
    let reader = HttpPageReader::new(options(&[&site])).unwrap();
    let call = Call::authoritative();
    let url = site.url("/today").parse().unwrap();
    let page = reader.read(&call, &url).await.unwrap();
    assert_eq!(page.url.path(), "/a");
    let renewed = reader.renew(&call, &url, &page).await;
    let head = site.requests().pop().unwrap().to_ascii_lowercase();
    assert!(head.starts_with("get /b ") && !head.contains("if-modified-since"));
    // A site that says so unasked says nothing.
    assert!(matches!(renewed, Err(PageFailure::Unreachable { .. })));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut packer = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
    packer.write_all(bytes).unwrap();
    packer.into_inner()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn packed(encoding: &str, body: &[u8], length: usize) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: {encoding}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

type Pack = fn(&[u8]) -> Vec<u8>;
const PACKERS: [(&str, Pack); 3] = [("gzip", gzip), ("br", brotli), ("zstd", zstd)];

#[tokio::test]
async fn packed_pages_are_unpacked_and_bombs_end_at_the_limit() {
    let bomb = [article("Bomb").into_bytes(), vec![b' '; 8 << 20]].concat();
    for (encoding, pack) in PACKERS {
        let answer = move |bytes: &[u8]| {
            let body = pack(bytes);
            packed(encoding, &body, body.len())
        };
        let page = answer(article("Packed").as_bytes());
        let page = of(move |to| _ = to.write(&page)).await.unwrap();
        assert_eq!(&*page.title, "Packed", "{encoding}");
        let bomb = answer(&bomb);
        assert!(bomb.len() < 20_000, "{encoding}: {}", bomb.len());
        assert_unreadable(
            of(move |to| _ = to.write(&bomb)).await,
            "larger than 2000000 bytes",
        );
    }
    // A bomb in a bomb is not even unpacked once.
    let body = gzip(&gzip(article("Twice").as_bytes()));
    let twice = packed("gzip, gzip", &body, body.len());
    assert_unreadable(of(move |to| _ = to.write(&twice)).await, "packed as");
    let deflated = packed("x, Deflate", b"it is not", 9);
    assert_unreadable(of(move |to| _ = to.write(&deflated)).await, "packed as");
    // Said in the wrong place, and nothing that a body is packed with.
    for mistaken in ["UTF-8", "none", ""] {
        let body = article("Plain");
        let plain = packed(mistaken, body.as_bytes(), body.len());
        let page = of(move |to| _ = to.write(&plain)).await.unwrap();
        assert_eq!(&*page.title, "Plain", "{mistaken}");
    }
    // What breaks off, or is not what it says.
    for (encoding, _) in PACKERS {
        let broken = packed(encoding, b"no such thing, and much too short", 33);
        let outcome = of(move |to| _ = to.write(&broken)).await;
        assert!(
            matches!(outcome, Err(PageFailure::Unreachable { .. })),
            "{encoding}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn what_came_in_time_is_used() {
    let site = Site::start(|path, answer| {
        let (head, body) = (
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
            article("Part"),
        );
        let most = &body[..body.len() - 300];
        let long = "Content-Length: 100000\r\n\r\n";
        match path {
            // Never ends.
            "/hangs" => {
                answer.write(format!("{head}{long}{most}"));
                answer.wait(FAR_BEYOND);
            }
            "/drips" => {
                answer.write(format!("{head}{long}{most}"));
                while answer.write(" drop") {
                    answer.wait(Duration::from_millis(20));
                }
            }
            // Breaks off.
            "/breaks" => {
                answer.write(format!("{head}{long}{most}"));
                answer.close();
            }
            "/chunk" => {
                answer.write(format!(
                    "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n",
                    most.len()
                ));
                answer.write(format!("{most}\r\nno number\r\n"));
                answer.close();
            }
            "/gzip" => {
                // Noise packs badly, so that half of the bytes is half of the page.
                let noise = (0..20_000_u32).map(|n| n.wrapping_mul(2_654_435_761) >> 7);
                let noise: String = noise.map(|n| format!("<p>{n}</p>")).take(4000).collect();
                let body = gzip(format!("{body}{noise}").as_bytes());
                answer.write(packed("gzip", &body[..body.len() / 2], body.len()));
                answer.close();
            }
            // Too little of it.
            "/little" => {
                answer.write(format!("{head}{long}<title>Part</title><p>A few words."));
                answer.wait(FAR_BEYOND);
            }
            "/little-breaks" => {
                answer.write(format!("{head}{long}<title>Part</title><p>A few words."));
                answer.close();
            }
            "/head" => {
                answer.write("HTTP/1.1 200 OK\r\nContent-Ty");
                answer.wait(FAR_BEYOND);
            }
            "/slow-head" => {
                while answer.write("HTTP/1.1 200 OK\r\nX: x\r\n") {
                    answer.wait(Duration::from_millis(20));
                }
            }
            "/silent" => answer.wait(FAR_BEYOND),
            _ => answer.close(),
        }
    });
    // Of those that never end, what came before a limit that leaves a busy machine time for the text.
    let patient = || PageOptions {
        limit: Duration::from_secs(10),
        ..options(&[&site])
    };
    let paths = ["/hangs", "/drips", "/breaks", "/chunk", "/gzip"];
    let pages = paths.map(|path| outcome(patient(), &site, path));
    for (path, page) in paths.iter().zip(join_all(pages).await) {
        let page = page.unwrap_or_else(|failure| panic!("{path}: {failure}"));
        assert!(
            page.text.contains("turns east at the old mill"),
            "{path}: {}",
            page.text
        );
        assert_eq!((&*page.title, page.whole), ("Part", false), "{path}");
    }
    for path in ["/little", "/head", "/silent"] {
        assert_late(outcome(impatient(&site), &site, path).await);
    }
    assert_unreachable(outcome(impatient(&site), &site, "/little-breaks").await, "");
    assert_unreachable(outcome(impatient(&site), &site, "/closes").await, "");
    // Headers for ever: whichever limit comes first.
    assert!(
        outcome(impatient(&site), &site, "/slow-head")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn dropping_the_call_ends_the_transfer() {
    let hung_up = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&hung_up);
    let site = Site::start(move |_, answer| {
        answer.write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>Text");
        answer.wait(FAR_BEYOND);
        told.store(true, SeqCst);
    });
    let reader = HttpPageReader::new(PageOptions {
        limit: Duration::from_secs(60),
        ..options(&[&site])
    })
    .unwrap();
    let url = site.url("/");
    let mut call = read(&reader, &url).boxed();
    while site.requests().is_empty() {
        assert!(
            tokio::time::timeout(Duration::from_millis(5), &mut call)
                .await
                .is_err()
        );
    }
    drop(call);
    let started = Instant::now();
    while !hung_up.load(SeqCst) {
        assert!(started.elapsed() < FAR_BEYOND);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn pages_at_once_do_not_wait_for_the_worst_of_them() {
    let site = Site::start(|path, answer| match path {
        "/good" => answer.page(article("Good")),
        _ => answer.wait(FAR_BEYOND),
    });
    let reader = HttpPageReader::new(options(&[&site])).unwrap();
    let bad = join_all((0..50).map(|n| {
        let url = site.url(&format!("/bad/{n}"));
        let reader = &reader;
        async move { read(reader, &url).await }
    }));
    let mut bad = bad.boxed();
    let url = site.url("/good");
    let mut good = read(&reader, &url).boxed();
    tokio::select! {
        page = &mut good => assert_eq!(&*page.unwrap().title, "Good"),
        _ = &mut bad => panic!("the hanging ones ended first"),
    }
}
