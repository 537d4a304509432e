//! The page over a real socket: what any HTTP client gets, and from whom it takes questions.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::over_http::{Frames, client, get as fetch, post, url};
use crate::support::{Server, endless};
use reqwest::RequestBuilder;
use reqwest::header::{CONTENT_TYPE, ORIGIN};
use serde_json::{Value, json};
use spechop_proto::AskEvent;
use spechop_proto::ask_event::Event;
use spechop_proto::json as wire_json;
use spechop_testkit::Script;

/// Head and body of what the server answers.
async fn get(server: &Server, path: &str, headers: &str) -> (String, String) {
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}");
    let (_, head, body) = server.http1(&head, b"").await;
    (head.to_lowercase(), body)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_under_a_strict_policy() {
    let server = Server::start(Script::instant(1)).await;
    let (head, body) = get(&server, "/", "").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(body.contains("<spechop-page>"), "{body}");
    for header in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: same-origin",
        "etag: ",
    ] {
        assert!(head.contains(header), "{header} in {head}");
    }
    // Whatever it names is there.
    let named = body.split('"').filter(|part| part.starts_with("page/"));
    let named: Vec<_> = named.collect();
    assert!(named.len() >= 2, "{named:?}");
    for path in named {
        let (head, _) = get(&server, &format!("/{path}"), "").await;
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
    }
    let (head, _) = get(&server, "/page/../Cargo.toml", "").await;
    assert!(!head.starts_with("http/1.1 200"), "{head}");
    let (head, _) = get(&server, "/page/none.js", "").await;
    assert!(head.starts_with("http/1.1 404"), "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_page_may_read_it() {
    let server = Server::start(Script::instant(1)).await;
    let (head, _) = get(&server, "/", "Origin: https://evil.example\r\n").await;
    assert!(head.starts_with("http/1.1 403"), "{head}");
    assert!(!head.contains("access-control-allow-origin"), "{head}");
}

/// What a browser sends that posts the form.
async fn post_form(server: &Server, origin: Option<&str>, kind: &str, body: &str) -> (u16, String) {
    let mut request = client()
        .post(url(server, "/ask"))
        .header(CONTENT_TYPE, kind);
    if let Some(origin) = origin {
        request = request.header(ORIGIN, origin);
    }
    let response = request.body(body.to_owned()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

const FORM: &str = "application/x-www-form-urlencoded";

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_answered_with_a_table() {
    let server = Server::start(Script::steady(&[true, false], 1, 20, 1)).await;
    let own = format!("http://{}", server.address);
    let form = "question=What+comes+of+it%3F&k=2&speculator=&seconds=";
    let (status, html) = post_form(&server, Some(&own), FORM, form).await;
    assert_eq!(status, 200, "{html}");
    assert!(
        html.contains("<p class=\"final\" dir=\"auto\">so fact 1</p>"),
        "{html}"
    );
    assert_eq!(html.matches("<tr><td>").count(), 2, "{html}");
    assert!(
        html.contains("the guess was wrong") && !html.contains("<script"),
        "{html}"
    );
    assert!(
        html.contains("<h1 dir=\"auto\">What comes of it?</h1>"),
        "{html}"
    );
    let wrong = post_form(&server, Some(&own), FORM, "question=q&k=0").await;
    assert!(
        wrong.0 == 400 && wrong.1.contains("class=\"error\">options.k: "),
        "{wrong:?}"
    );
    let look_ups = server.look_ups().await;
    // From this page only, and as a form only.
    for (origin, kind, expected) in [
        (None, FORM, 415),
        (Some("http://evil.example"), FORM, 403),
        (Some("null"), FORM, 403),
        (Some(own.as_str()), "application/json", 415),
        (Some(own.as_str()), "text/plain", 415),
    ] {
        let (status, said) = post_form(&server, origin, kind, form).await;
        assert_eq!(status, expected, "{origin:?} {kind}: {said}");
    }
    // And a form goes nowhere else.
    let elsewhere = client().post(url(&server, "/v1/ask")).header(ORIGIN, &own);
    let elsewhere = elsewhere.header(CONTENT_TYPE, FORM).body(form).send();
    assert_eq!(elsewhere.await.unwrap().status().as_u16(), 415);
    assert_eq!(server.look_ups().await, look_ups);
    server.is_idle().await;
}

/// Asks, and reads to the end. The name of the question, and its events.
async fn answered(server: &Server, fields: Value) -> (String, Vec<Value>) {
    let frames = Frames::of(post(server, "/v1/ask/stream", fields).await);
    let id = frames.question_id();
    let events = frames.all().await;
    server.is_idle().await;
    (id, events.into_iter().map(|(_, _, event)| event).collect())
}

async fn what_if(server: &Server, id: &str, body: &str) -> (u16, Value) {
    let request = client().post(url(server, &format!("/v1/questions/{id}/what-if")));
    let request = request.header(CONTENT_TYPE, "application/json");
    let response = request.body(body.to_owned()).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Whether branches that stand on a wrong guess ask, and answer. Nothing that was recorded is shown as theirs.
fn went_astray(events: &[Value]) -> (bool, bool) {
    let of = |kind: &str, field: &str| {
        let told = events.iter().filter(move |event| event.get(kind).is_some());
        let said = |event: &Value| {
            let text = event[kind][field].as_str().unwrap_or_default();
            (event["branch"].clone(), text.to_owned())
        };
        told.map(said).collect::<Vec<_>>()
    };
    let is_made_up = |text: &str| text.starts_with('(') && text.ends_with("was never recorded)");
    let planned = of("planned", "sub_question");
    let has_asked = planned.iter().any(|(_, asked)| is_made_up(asked));
    for (branch, guess) in of("guessed", "guess") {
        let asked = planned.iter().find(|(of, _)| *of == branch).unwrap();
        let is_told = !guess.is_empty();
        assert_eq!(
            is_made_up(&guess),
            is_told && is_made_up(&asked.1),
            "{guess}"
        );
    }
    let answers = of("drafted", "answer");
    assert!(answers.last().is_none_or(|(_, answer)| !is_made_up(answer)));
    let has_answered = answers.iter().any(|(_, answer)| is_made_up(answer));
    (has_asked, has_answered)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answered_question_is_simulated_by_another_k() {
    let right = [true, false, true, true];
    let server = Server::start(Script::steady(&right, 5, 300, 5)).await;
    let (id, live) = answered(&server, json!({ "options": { "k": 3 } })).await;
    let answer = &live.last().unwrap()["answer"];
    let mut latencies = Vec::new();
    for (body, k) in [
        (r#"{"k": 1}"#, json!(1)),
        (r#"{"k": 3}"#, json!(3)),
        (r#"{"unbounded": {}}"#, Value::Null),
    ] {
        let (status, told) = what_if(&server, &id, body).await;
        assert_eq!(status, 200, "{told}");
        assert_eq!(told["k"], k, "{told}");
        assert!(told["filled_in"].as_f64().unwrap() < 1.0, "{told}");
        let latency_ms = told["latency_ms"].as_f64().unwrap();
        latencies.push(latency_ms);
        // The events are those of a question: numbered, in order, the answer last and once.
        let events = told["events"].as_array().unwrap();
        let mut at_ms = 0.0;
        for (event, n) in events.iter().zip(1..) {
            let event: AskEvent = wire_json::read(event.to_string().as_bytes()).unwrap();
            assert_eq!(event.sequence, n);
            assert!(event.at_ms >= at_ms);
            at_ms = event.at_ms;
            let is_last = n == events.len() as u64;
            assert_eq!(matches!(event.event, Some(Event::Answer(_))), is_last);
        }
        let simulated = &events.last().unwrap()["answer"];
        assert_eq!(simulated["elapsed_ms"].as_f64().unwrap(), latency_ms);
        let hops = |answer: &Value| {
            let hops = answer["hops"].as_array().unwrap().iter();
            let said = |hop: &Value| json!([hop["sub_question"], hop["times"]]);
            hops.map(said).collect::<Vec<_>>()
        };
        assert_eq!(
            (&simulated["answer"], hops(simulated)),
            (&answer["answer"], hops(answer))
        );
        let guesses = events.iter().filter(|event| event.get("guessed").is_some());
        assert_eq!(guesses.count() == 0, k == 1, "k = 1 does not guess");
        // Without bounds, the branch on the wrong guess comes to an answer.
        assert_eq!(went_astray(events), (k != 1, k.is_null()), "{events:?}");
        if k == 1 {
            assert_eq!(told["sequential_ms"], told["latency_ms"]);
        }
    }
    let [one, three, unbounded] = latencies[..] else {
        panic!("three were asked for");
    };
    // Three of four guesses are right, so a wider window hides look-ups.
    assert!(three < one && unbounded < one, "{latencies:?}");
    // At k = 1 nothing is known of guesses, and those of the question before take their place.
    let (alone, _) = answered(&server, json!({ "options": { "k": 1 } })).await;
    let (_, told) = what_if(&server, &alone, r#"{"k": 2}"#).await;
    assert_eq!(told["filled_in"], 1.0, "{told}");
    for (id, body, expected) in [
        ("nobody", r#"{"k": 1}"#, 404),
        (&*id, "{}", 400),
        (&*id, r#"{"k": 0}"#, 400),
        (&*id, r#"{"k": 2, "unbounded": {}}"#, 400),
        (&*id, "no", 400),
    ] {
        let (status, said) = what_if(&server, id, body).await;
        assert_eq!(status, expected, "{body}: {said}");
    }
    // Another tenant does not know the question.
    let request = client().post(url(&server, &format!("/v1/questions/{id}/what-if")));
    let request = request
        .header("spechop-tenant", "other")
        .json(&json!({ "k": 1 }));
    assert_eq!(request.send().await.unwrap().status().as_u16(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_question_is_neither_simulated_nor_shared() {
    let server = Server::configured(endless(), "[page]\nshare_s = 60").await;
    let frames = Frames::of(post(&server, "/v1/ask/stream", json!({})).await);
    let id = frames.question_id();
    assert_eq!(what_if(&server, &id, r#"{"k": 1}"#).await.0, 409);
    let share = client().post(url(&server, &format!("/v1/questions/{id}/share")));
    assert_eq!(share.send().await.unwrap().status().as_u16(), 409);
    drop(frames);
    server.is_idle().await;
}

/// The tenant without a name is not named.
fn on_behalf(request: RequestBuilder, tenant: &str) -> RequestBuilder {
    match tenant {
        "" => request,
        tenant => request.header("spechop-tenant", tenant),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_run_is_read_by_whoever_has_the_link_until_it_ends() {
    let server = Server::configured(Script::instant(2), "[page]\nshare_s = 60").await;
    let (id, events) = answered(&server, json!({})).await;
    let (other, _) = answered(&server, json!({})).await;
    let path = format!("/v1/questions/{id}/share");
    // Only its tenant may share it, and only what there is.
    let share = async |path: &str, tenant: &str| {
        let response = on_behalf(client().post(url(&server, path)), tenant);
        let response = response.send().await.unwrap();
        (
            response.status().as_u16(),
            response.json::<Value>().await.unwrap(),
        )
    };
    assert_eq!(share(&path, "other").await.0, 404);
    assert_eq!(share("/v1/questions/nobody/share", "").await.0, 404);
    let (status, shared) = share(&path, "").await;
    assert_eq!(
        (status, &shared["expires_s"]),
        (200, &json!(60)),
        "{shared}"
    );
    let link = shared["path"].as_str().unwrap();
    let page = fetch(&server, link).await;
    assert_eq!(page.status().as_u16(), 200);
    assert!(
        page.headers()["content-security-policy"]
            .to_str()
            .unwrap()
            .contains("script-src 'self'")
    );
    let html = page.text().await.unwrap();
    assert!(
        html.contains("<body class=\"shared\">") && html.contains("\"../page/app.js\""),
        "{html}"
    );
    let run = fetch(&server, &format!("{link}/events")).await;
    assert_eq!(run.headers()["cache-control"], "no-store");
    let lines = run.text().await.unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines, events);
    assert!(!lines.iter().any(|line| line.to_string().contains(&other)));
    // A link of somebody else's making leads nowhere.
    let gone = async |link: &str| {
        for path in [link.to_owned(), format!("{link}/events")] {
            assert_eq!(fetch(&server, &path).await.status().as_u16(), 404, "{path}");
        }
    };
    gone("/s/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").await;
    let end = async |tenant: &str| {
        let request = on_behalf(client().delete(url(&server, &path)), tenant);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    assert_eq!(end("other").await["ended"], false);
    assert_eq!(fetch(&server, link).await.status().as_u16(), 200);
    assert_eq!(end("").await["ended"], true);
    gone(link).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_shared_unless_the_configuration_says_so() {
    let server = Server::start(Script::instant(1)).await;
    let (id, _) = answered(&server, json!({})).await;
    let share = client().post(url(&server, &format!("/v1/questions/{id}/share")));
    assert_eq!(share.send().await.unwrap().status().as_u16(), 404);
    assert_eq!(fetch(&server, "/s/x").await.status().as_u16(), 404);
    let html = fetch(&server, "/").await.text().await.unwrap();
    assert!(html.contains("id=\"share\" hidden"), "{html}");
    let server = Server::configured(Script::instant(1), "[page]\nshare_s = 5").await;
    let html = fetch(&server, "/").await.text().await.unwrap();
    assert!(
        html.contains("id=\"share\"") && !html.contains("id=\"share\" hidden"),
        "{html}"
    );
}
