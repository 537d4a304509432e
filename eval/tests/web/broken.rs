//! Search engines that are down and pages that are broken: each is what its name says.

use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::Value;
use spechop_eval::web::WebOptions;

use crate::served::{Answer, Served};

/// How long an answer is waited for: those that never end for a moment, others however busy the machine is.
fn patience(way: &str) -> Duration {
    match way {
        "silent" | "stalled" => Duration::from_secs(2),
        _ => Duration::from_secs(120),
    }
}

#[tokio::test]
async fn search_engines_are_down_in_every_way() {
    let web = Served::start(WebOptions::default()).await;
    let index = web.get("/").await.text();
    let ways: Vec<&str> = index
        .split("<code>/down/")
        .skip(1)
        .map(|rest| rest.split('<').next().unwrap())
        .collect();
    assert_eq!(ways.len(), 10, "{index}");
    for way in ways {
        let path = format!("/down/{way}/search?q=Oder&format=json");
        let answer = web.get(&path);
        let answer = tokio::time::timeout(patience(way), answer).await;
        let Ok(answer) = answer else {
            assert_eq!(way, "silent");
            continue;
        };
        match way {
            "rate-limited" => assert_eq!(
                (answer.status, answer.header("retry-after")),
                (429, Some("30"))
            ),
            "refused" => assert_eq!(answer.status, 403),
            "challenge" => assert_eq!(answer.status, 202),
            "hidden-challenge" => assert!(answer.text().contains("id=\"challenge-form\"")),
            "failing" => assert_eq!(answer.status, 500),
            "empty" => {
                let answer = answer.json();
                assert_eq!(answer["results"], Value::Array(Vec::new()));
                assert_eq!(answer["unresponsive_engines"][0][1], "CAPTCHA");
            }
            "no-urls" => {
                let first = &answer.json()["results"][0];
                assert_eq!((&first["title"], first.get("url")), (&"Oder".into(), None));
            }
            "not-json" => assert!(answer.text().starts_with("<!doctype html>")),
            "cut" => assert!(
                serde_json::from_slice::<Value>(&answer.body).is_err() && !answer.body.is_empty()
            ),
            other => panic!("untested: {other}"),
        }
    }
    let page = web.post("/down/no-urls/html/", "q=Oder").await.text();
    assert!(
        page.contains("class=\"result__a\">Oder</a>") && !page.contains("uddg="),
        "{page}"
    );
    assert_eq!(web.get("/down/strange/search?q=Oder").await.status, 404);
}

#[tokio::test]
async fn pages_are_broken_in_every_way() {
    const KNOWN: u64 = 3 << 20;
    let web = Served::start(WebOptions::default()).await;
    let index = web.get("/").await.text();
    let troubles: Vec<&str> = index
        .split("<code>/trouble/")
        .skip(1)
        .map(|rest| rest.split('<').next().unwrap())
        .collect();
    assert!(troubles.len() > 20, "{index}");
    for trouble in troubles {
        let path = format!("/trouble/{trouble}");
        let answer = web.send("GET", &path, "", "", KNOWN);
        let Ok(answer) = tokio::time::timeout(patience(trouble), answer).await else {
            assert!(
                ["stalled", "silent"].contains(&trouble),
                "{trouble} takes too long"
            );
            continue;
        };
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let plain = text.contains("built in 1871");
        let begins_odd = !text.starts_with("<!doctype html>");
        match trouble {
            "not-found" => assert!(answer.status == 404 && plain),
            "forbidden" => assert_eq!(answer.status, 403),
            "server-error" => assert_eq!(answer.status, 500),
            "redirect" | "redirects-5" | "redirects-6" | "redirect-loop" => {
                let mut to = answer.header("location").map(str::to_owned);
                let mut steps = 0;
                while let Some(next) = to.filter(|_| steps < 20) {
                    steps += 1;
                    to = web.get(&next).await.header("location").map(str::to_owned);
                }
                let expected = match trouble {
                    "redirect" => 1,
                    "redirects-5" => 5,
                    "redirects-6" => 6,
                    _ => 20,
                };
                assert_eq!(steps, expected, "{trouble}");
            }
            "redirect-private" => assert!(
                answer
                    .header("location")
                    .unwrap()
                    .contains("169.254.169.254")
            ),
            "redirect-file" => assert!(answer.header("location").unwrap().starts_with("file:")),
            "huge" => assert_eq!(answer.header("content-length"), Some("67108864")),
            "endless" => {
                assert!(answer.header("content-length").is_none() && answer.body.len() > 2 << 20);
            }
            "drip" | "robots" => assert!(plain && !begins_odd),
            "nested" => assert_eq!(text.matches("<div>").count(), 10_000),
            "attributes" => assert!(text.contains(" a9999=") && plain),
            "elements" => assert_eq!(text.matches("<i>").count(), 100_000),
            "bomb" => {
                assert!(answer.body.len() < 1 << 20);
                let unpacked =
                    std::io::copy(&mut GzDecoder::new(&answer.body[..]), &mut std::io::sink());
                assert_eq!(unpacked.unwrap(), 64 << 20);
            }
            "broken-gzip" => {
                let unpacked =
                    std::io::copy(&mut GzDecoder::new(&answer.body[..]), &mut std::io::sink());
                assert!(unpacked.is_err());
            }
            "misencoded" => assert!(std::str::from_utf8(&answer.body).is_err() && plain),
            "utf-16" => assert!(answer.body.starts_with(&[0xff, 0xfe])),
            "truncated" => {
                let announced: usize = answer.header("content-length").unwrap().parse().unwrap();
                assert!(!answer.body.is_empty() && answer.body.len() < announced);
            }
            "hostile" => assert!(text.contains("answer 42") && plain),
            "wrong-type" => assert_eq!(answer.header("content-type"), Some("image/png")),
            "binary" => assert!(answer.body.starts_with(b"\x89PNG")),
            "empty" => assert!(answer.status == 200 && answer.body.is_empty()),
            "script" => assert!(text.contains("<script>") && !plain),
            other => panic!("untested: {other}"),
        }
    }
    assert!(
        web.get("/robots.txt")
            .await
            .text()
            .contains("Disallow: /trouble/robots")
    );
    assert_eq!(web.get("/trouble/strange").await.status, 404);
}

#[tokio::test]
async fn a_share_of_the_pages_is_broken() {
    let all = WebOptions {
        broken: 1.0,
        seed: 3,
        ..WebOptions::default()
    };
    let web = Served::start(all).await;
    let sound = Served::start(WebOptions { broken: 0.0, ..all }).await;
    let found = sound.get("/search?q=river&format=json").await.json();
    let mut differ = 0;
    for result in found["results"].as_array().unwrap() {
        let path = sound.path(result["url"].as_str().unwrap());
        let whole = sound.get(path).await;
        let answer = web.send("GET", path, "", "", 1 << 20);
        let answer = tokio::time::timeout(Duration::from_millis(500), answer).await;
        let same = |answer: Answer| (answer.status, answer.body) == (200, whole.body.clone());
        differ += u32::from(!answer.is_ok_and(same));
        // A redirect ends at the page that was asked for.
        let to = format!("/trouble/redirect?left=0&to={path}");
        assert!(
            sound
                .get(&to)
                .await
                .text()
                .contains("A river, among others")
        );
    }
    assert!(differ >= 8, "only {differ} of 10 pages are broken");
    assert_eq!(web.get("/stats").await.json()["broken"], 10);
}
