//! The local web over its wire: three forms of search, pages, and everything that is broken on purpose.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod asked;
mod bad_input;
mod broken;
mod detour;
mod hostile;
mod providers;
mod served;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use served::{Served, passage};
use spechop_eval::dataset::{CorpusPassage, passages};
use spechop_eval::web::{Latency, Web, WebOptions};
use spechop_eval::{Dataset, load};
use spechop_types::canonical;
use tokio::net::TcpListener;

fn shipped(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("datasets")
        .join(file)
}

fn corpus(dataset: &str) -> Vec<CorpusPassage> {
    passages(&[shipped(&format!("{dataset}/corpus.jsonl.gz"))]).unwrap()
}

#[tokio::test]
async fn searxng_finds_pages_that_exist() {
    let web = Served::start(WebOptions::default()).await;
    let answer = web.get("/search?q=Oder%3F+It+rises&format=json").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let found = answer.json();
    // As where engines do not count: results are judged by themselves.
    assert_eq!(found["number_of_results"], 0);
    assert_eq!(found["unresponsive_engines"], Value::Array(Vec::new()));
    let first = &found["results"][0];
    assert_eq!(first["title"], "Oder");
    assert_eq!(first["content"], "It rises in the Czech Republic.");
    let page = web.get(web.path(first["url"].as_str().unwrap())).await;
    assert!(
        page.text().contains("It rises in the Czech Republic."),
        "{page:?}"
    );
    // The second page of results goes on where the first has ended.
    let urls = |page: &Value| {
        let results = page["results"].as_array().unwrap().iter();
        let urls = results.map(|result| result["url"].as_str().unwrap().to_owned());
        urls.collect::<Vec<_>>()
    };
    let first = urls(&web.get("/search?q=river&format=json").await.json());
    let second = urls(&web.get("/search?q=river&format=json&pageno=2").await.json());
    assert_eq!((first.len(), second.len()), (10, 10));
    assert!(first.iter().all(|url| !second.contains(url)));
    for nothing in ["q=volcano", "q=river&pageno=18446744073709551615"] {
        let none = web.get(&format!("/search?{nothing}&format=json")).await;
        assert_eq!(none.json()["results"], Value::Array(Vec::new()));
    }
    assert_eq!(web.get("/search?format=json").await.status, 400);
    let page = web.get("/search?q=Oder").await.text();
    assert!(page.contains(">Oder</a></h3>"), "{page}");
    assert_eq!(
        web.post("/search", "q=Oder&format=json").await.json()["query"],
        "Oder"
    );
}

#[tokio::test]
async fn duckduckgo_has_its_shape() {
    let web = Served::start(WebOptions::default()).await;
    let page = web.post("/html/", "q=city+in+Poland&b=&kl=").await;
    let text = page.text();
    assert_eq!(page.status, 200);
    assert_eq!(text.matches("result--ad").count(), 1);
    let own = text.split("web-result").nth(1).unwrap();
    let base = format!("http://{}/", web.address);
    let address = url::form_urlencoded::byte_serialize(base.as_bytes());
    let target = format!(
        "href=\"//duckduckgo.com/l/?uddg={}",
        address.collect::<String>()
    );
    assert!(own.contains(&target), "{own}");
    assert!(
        own.contains("a <b>city</b> <b>in</b> <b>Poland,</b>"),
        "{own}"
    );
    assert!(own.contains("&#60;film&#62; &#38; textiles"), "{own}");
    assert_eq!(web.post("/html/", "q=volcano").await.status, 303);
}

#[tokio::test]
async fn mediawiki_searches_and_gives_extracts() {
    let web = Served::start(WebOptions::default()).await;
    let api = "/w/api.php?action=query&format=json";
    let found = web
        .get(&format!("{api}&list=search&srsearch=textiles&srlimit=3"))
        .await
        .json();
    let first = &found["query"]["search"][0];
    assert_eq!(first["title"], "Łódź");
    let snippet = first["snippet"].as_str().unwrap();
    assert!(
        snippet.contains("&lt;film&gt; &amp; <span class=\"searchmatch\">textiles.</span>"),
        "{snippet}"
    );
    let id = &first["pageid"];
    let extracts = "prop=extracts&explaintext=1&exintro=1";
    let by_id = web
        .get(&format!("{api}&{extracts}&pageids={id}"))
        .await
        .json();
    let extract = by_id["query"]["pages"][id.to_string()]["extract"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        extract,
        "Łódź is a city in Poland, \"famous\" for <film> & textiles."
    );
    let by_title = web
        .get(&format!(
            "{api}&{extracts}&formatversion=2&titles=Oder|Nothing"
        ))
        .await
        .json();
    assert_eq!(by_title["query"]["pages"][0]["title"], "Oder");
    assert_eq!(by_title["query"]["pages"][1]["missing"], "");
    let both = format!(
        "{api}&generator=search&gsrsearch=river+Oder&gsrlimit=2&prop=extracts|info&inprop=url&explaintext"
    );
    let both = web.get(&both).await.json();
    let pages: Vec<&Value> = both["query"]["pages"]
        .as_object()
        .unwrap()
        .values()
        .collect();
    assert_eq!(pages.len(), 2);
    let oder = pages.iter().find(|page| page["index"] == 1).unwrap();
    assert!(oder["extract"].as_str().unwrap().starts_with("The Oder"));
    assert_eq!(
        web.get(web.path(oder["fullurl"].as_str().unwrap()))
            .await
            .status,
        200
    );
    assert_eq!(web.send("GET", api, "", "", u64::MAX).await.status, 403);
    assert_eq!(web.get(api).await.json()["error"]["code"], "missingparam");
}

#[tokio::test]
async fn pages_are_packed_and_asked_for_again() {
    let web = Served::start(WebOptions::default()).await;
    let found = web.get("/search?q=Oder&format=json").await.json();
    let path = web
        .path(found["results"][0]["url"].as_str().unwrap())
        .to_owned();
    let plain = web.get(&path).await;
    let packed = web
        .send("GET", &path, "Accept-Encoding: br, gzip\r\n", "", u64::MAX)
        .await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut GzDecoder::new(&packed.body[..]), &mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    let again = format!("If-None-Match: {}\r\n", plain.header("etag").unwrap());
    let again = web.send("GET", &path, &again, "", u64::MAX).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(web.get("/wiki/Nothing").await.status, 404);
    let stats = web.get("/stats").await.json();
    assert_eq!(
        (&stats["searches"], &stats["pages"]),
        (&1.into(), &3.into())
    );
}

#[tokio::test]
async fn searches_and_pages_take_their_time() {
    let latency = Latency::new(60.0, 20.0, 1).unwrap();
    let options = WebOptions {
        latency,
        ..WebOptions::default()
    };
    let web = Served::start(options).await;
    for query in ["Oder", "a city in Poland", "river"] {
        let begin = tokio::time::Instant::now();
        web.get(&format!(
            "/search?q={}&format=json",
            query.replace(' ', "+")
        ))
        .await;
        assert!(begin.elapsed() >= latency.search(query), "{query}");
    }
    let found = web.get("/search?q=Oder&format=json").await.json();
    let url = found["results"][0]["url"].as_str().unwrap().to_owned();
    let path = web.path(&url);
    let begin = tokio::time::Instant::now();
    assert_eq!(web.get(path).await.status, 200);
    assert!(begin.elapsed() >= latency.page(path), "{path}");
}

#[tokio::test]
async fn strangers_are_refused() {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let web = Web::new(vec![passage("A", "B.")], WebOptions::default());
    let refused = web.serve(listener).await.unwrap_err().to_string();
    assert!(refused.contains("not a loopback address"), "{refused}");
}

#[test]
fn all_passages_are_there_and_gold_pages_are_found() {
    for (dataset, folder, pages_min, share_min) in [
        (Dataset::Wiki, "2wikimultihopqa", 6000, 0.95),
        (Dataset::Musique, "musique", 1800, 0.85),
    ] {
        let corpus = corpus(folder);
        let mut texts: HashMap<&str, String> = HashMap::new();
        for CorpusPassage { title, text } in &corpus {
            *texts.entry(title).or_default() += &format!(" {}", canonical(text));
        }
        let web = Web::new(corpus.clone(), WebOptions::default());
        assert!(web.pages() > pages_min, "{} pages", web.pages());
        assert!(
            corpus
                .iter()
                .all(|passage| web.path(&passage.title).is_some())
        );
        let questions = load(dataset, &[shipped(&format!("{folder}/questions.jsonl.gz"))]).unwrap();
        let (mut asked, mut found) = (0, 0);
        for question in &questions {
            for hop in &question.hops {
                let mut query = hop.asks.replace(">>", " ");
                for (n, before) in question.hops.iter().enumerate() {
                    query = query.replace(&format!("#{}", n + 1), &before.answer);
                }
                let holds =
                    |title: &&String| texts[title.as_str()].contains(&canonical(&hop.answer));
                let gold: Vec<_> = question
                    .titles
                    .iter()
                    .filter(holds)
                    .map(|title| web.path(title))
                    .collect();
                if gold.is_empty() {
                    continue;
                }
                asked += 1;
                found += u32::from(
                    web.find(&query, 5)
                        .into_iter()
                        .any(|path| gold.contains(&Some(path))),
                );
            }
        }
        let share = f64::from(found) / f64::from(asked);
        assert!(
            asked > 150 && share > share_min,
            "{dataset}: {found} of {asked}"
        );
    }
}
