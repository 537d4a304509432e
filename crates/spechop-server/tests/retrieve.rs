//! `POST /retrieve`: passages for other programs, and for other servers of ours.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Server, bare, config, eventually, question};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use spechop_ports::{Call, Lane, PortError, Retriever, Wishes, contract};
use spechop_proto::AskResponse;
use spechop_server::Bare;
use spechop_testkit::Script;
use spechop_types::{Chance, Passage, Stage, Tenant};
use spechop_web::{HttpRetriever, HttpRetrieverOptions};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const ON: &str = "[server]\nretrieve = true\n";

async fn server(toml: &str) -> Server {
    Server::configured(Script::instant(1), &format!("{ON}{toml}")).await
}

/// What the server answers to this head and body: its status and what it says.
async fn post(server: &Server, head: &str, body: &str) -> (u16, String) {
    let (status, _, body) = server.http1(head, body.as_bytes()).await;
    (status, body)
}

/// The same as JSON, with the right head.
async fn retrieve(server: &Server, headers: &str, body: &str) -> (u16, Value) {
    let head = format!(
        "POST /retrieve HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/json; charset=utf-8\r\n{headers}"
    );
    let (status, body) = post(server, &head, body).await;
    (status, serde_json::from_str(&body).unwrap())
}

fn client(server: &Server) -> HttpRetriever {
    let mut options = HttpRetrieverOptions::new(format!("http://{}/retrieve", server.address));
    options.with_tenant = true;
    options.service.retries.max = 0;
    HttpRetriever::new(&options).unwrap()
}

/// As for questions: what is open when the server is told to end has the time of `server.shutdown_grace_ms`.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_look_ups_of_others() {
    let script = Script::steady(&[true], 1, 2_500, 1);
    let mut server = Server::configured(script, ON).await;
    let client = client(&server);
    let mut asking = JoinSet::new();
    asking.spawn(async move {
        let call = Call::authoritative();
        client.retrieve(&call, "q0 after nothing?", 3).await
    });
    eventually(|| server.ports.live() == 1).await;
    server.shut_down();
    assert!(asking.join_next().await.unwrap().unwrap().is_ok());
    server.ended().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gives_what_its_own_retriever_finds() {
    let server = server("").await;
    let client = client(&server);
    contract::retriever(&client).await;
    let call = Call::authoritative();
    for query in ["rivers of France", "\"quotes\"\nand lines", "Żuławski?"] {
        let over_http = client.retrieve(&call, query, 3).await.unwrap();
        let own = server.ports.retrieve(&call, query, 3).await.unwrap();
        assert_eq!(over_http, own);
        assert_eq!(own.len(), 3);
    }
    // Each of them had its turn.
    assert!(server.look_ups().await > 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_holds_the_index_and_another_answers() {
    let holder = server("").await;
    let answerer = Server::with(Script::instant(3), config(""), |ports| Bare {
        retriever: Arc::new(client(&holder)),
        ..bare(ports)
    })
    .await;
    let alone = Server::start(Script::instant(3)).await;
    let (together, alone) = (answerer.ask(question()).await, alone.ask(question()).await);
    let (together, alone) = (together.unwrap(), alone.unwrap());
    assert_eq!(together.answer, alone.answer);
    let said = |answer: AskResponse| -> Vec<_> {
        let hops = answer.hops.into_iter();
        hops.map(|hop| (hop.sub_question, hop.sub_answer, hop.observation))
            .collect()
    };
    assert_eq!(said(together), said(alone));
    assert!(holder.look_ups().await >= 3);
}

/// Finds nothing, and notes for which span it was asked, and whether for fresh results.
#[derive(Default)]
struct Overheard {
    parents: Mutex<Vec<String>>,
    fresh: Mutex<Vec<bool>>,
}

impl Overheard {
    /// A server that asks this.
    async fn server(self: &Arc<Self>) -> Server {
        Server::with(Script::instant(1), config(ON), |ports| Bare {
            retriever: self.clone(),
            ..bare(ports)
        })
        .await
    }
}

#[async_trait]
impl Retriever for Overheard {
    async fn retrieve(&self, call: &Call, _: &str, _: usize) -> Result<Vec<Passage>, PortError> {
        let parent = call.trace_headers().next().map(|(_, value)| value);
        self.parents.lock().extend(parent);
        self.fresh.lock().push(call.is_fresh());
        Ok(Vec::new())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_asked_in_turn_hears_of_the_callers_trace() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let overheard = Arc::new(Overheard::default());
    let server = overheard.server().await;
    let head = format!("traceparent: {PARENT}\r\n");
    let (status, answer) = retrieve(&server, &head, r#"{"queries":["a"]}"#).await;
    assert_eq!((status, &answer["result"]), (200, &json!([[]])));
    assert_eq!(*overheard.parents.lock(), [PARENT]);
}

/// As another server of ours says it, whose question is to be answered without kept results.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_asked_in_turn_hears_that_nothing_kept_may_serve() {
    let overheard = Arc::new(Overheard::default());
    let server = overheard.server().await;
    for (head, fresh) in [
        ("", false),
        ("Cache-Control: no-store\r\n", false),
        ("Cache-Control: max-age=0, No-Cache\r\n", true),
    ] {
        let (status, _) = retrieve(&server, head, r#"{"queries":["a"]}"#).await;
        let heard = overheard.fresh.lock().pop();
        assert_eq!((status, heard), (200, Some(fresh)), "{head}");
    }
    for fresh in [false, true] {
        let call = Call::authoritative().with(Wishes {
            fresh,
            ..Wishes::default()
        });
        client(&server).retrieve(&call, "a", 1).await.unwrap();
        assert_eq!(overheard.fresh.lock().pop(), Some(fresh));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_in_the_form_of_search_r1() {
    let server = server("").await;
    let asked = json!({ "queries": ["a", "b"], "topk": 1, "return_scores": true });
    let (status, answer) = retrieve(&server, "", &asked.to_string()).await;
    let document = |query: &str| {
        json!({
            "id": format!("p0-{query}"),
            "title": "Title 0",
            "contents": format!("\"Title 0\"\nText 0 about {query}"),
        })
    };
    let found = |query: &str| json!([{ "document": document(query), "score": 1.0 }]);
    assert_eq!(
        (status, answer),
        (200, json!({ "result": [found("a"), found("b")] }))
    );
    // Without scores the documents themselves, as many as are read for a hop.
    let (status, answer) = retrieve(&server, "", r#"{"queries":["a"]}"#).await;
    assert_eq!((status, &answer["result"][0][0]), (200, &document("a")));
    let counted = server
        .metric("spechop_retrievals_total{outcome=\"answered\"}")
        .await;
    assert_eq!(counted, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_told_what_is_wrong() {
    let server = server("[question]\npassages_max = 7").await;
    let many = json!({ "queries": vec!["q"; 65] }).to_string();
    let long = json!({ "queries": ["q", "x".repeat(9000)] }).to_string();
    for (body, said) in [
        ("", "body: must be JSON"),
        ("queries=a", "body: must be JSON"),
        (r#"[["a"],1,false]"#, "body: must be JSON"),
        ("{}", "missing field `queries`"),
        (r#"{"queries":"a"}"#, "expected a sequence"),
        (
            r#"{"queries":[]}"#,
            "there are 0 queries; 1 to 64 are taken",
        ),
        (&many, "there are 65 queries; 1 to 64 are taken"),
        (r#"{"queries":["a"," "]}"#, "query 2 must have some text"),
        (&long, "query 2 must have some text, and 4096 bytes at most"),
        (
            r#"{"queries":["a"],"topk":0}"#,
            "topk is 0; 1 to 7 are found",
        ),
        (
            r#"{"queries":["a"],"topk":8}"#,
            "topk is 8; 1 to 7 are found",
        ),
        (r#"{"queries":["a"],"topk":-1}"#, "body: must be JSON"),
    ] {
        let (status, answer) = retrieve(&server, "", body).await;
        let error = answer["message"].as_str().unwrap();
        assert!(status == 400 && error.contains(said), "{status} {error}");
        assert_eq!(answer["code"], "INVALID_ARGUMENT");
    }
    let twice = "spechop-tenant: a\r\nspechop-tenant: b\r\n";
    let (status, answer) = retrieve(&server, twice, r#"{"queries":["a"]}"#).await;
    let error = answer["message"].as_str().unwrap();
    assert_eq!(
        (status, error),
        (400, "spechop-tenant: must be there once, not more often")
    );
    assert_eq!(server.look_ups().await, 0);
    let counted = server
        .metric("spechop_retrievals_total{outcome=\"invalid\"}")
        .await;
    assert_eq!(counted, 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_and_those_who_are_not_meant_are_refused() {
    let on = server("").await;
    let off = Server::start(Script::instant(1)).await;
    let head =
        |host: &str, rest: &str| format!("POST /retrieve HTTP/1.1\r\nHost: {host}\r\n{rest}");
    let json = "Content-Type: application/json\r\n";
    let body = r#"{"queries":["a"]}"#;
    for (server, head, expected) in [
        // What a page may send without asking first.
        (&on, head("localhost", ""), 415),
        (&on, head("localhost", "Content-Type: text/plain\r\n"), 415),
        (
            &on,
            head(
                "localhost",
                "Content-Type: text/plain; application/json\r\n",
            ),
            415,
        ),
        (
            &on,
            head("localhost", "Content-Type: application/jsonp\r\n"),
            415,
        ),
        (
            &on,
            head(
                "localhost",
                &format!("{json}Origin: https://evil.example\r\n"),
            ),
            403,
        ),
        // A page's question whether it may.
        (
            &on,
            head("localhost", "Origin: https://evil.example\r\n").replace("POST", "OPTIONS"),
            403,
        ),
        (&on, head("evil.example", json), 421),
        (&on, head("localhost", json).replace("POST", "PUT"), 405),
        (&on, head("localhost", json).replace("POST", "GET"), 405),
        (
            &on,
            head("localhost", json).replace("/retrieve", "/retrieve/"),
            404,
        ),
        (
            &on,
            head("localhost", json).replace("/retrieve", "/metrics"),
            405,
        ),
        (&off, head("localhost", json), 404),
        (&on, head("localhost", json), 200),
    ] {
        let (status, said) = post(server, &head, body).await;
        assert_eq!(status, expected, "{head}: {said}");
    }
    assert_eq!((on.look_ups().await, off.look_ups().await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_pays_for_its_look_ups() {
    let server = server("[tenant]\ntarget_calls = 5\nperiod_s = 3600").await;
    let asked = |queries: usize| json!({ "queries": vec!["q"; queries] }).to_string();
    let a = "spechop-tenant: a\r\n";
    assert_eq!(retrieve(&server, a, &asked(4)).await.0, 200);
    let (status, answer) = retrieve(&server, a, &asked(2)).await;
    assert_eq!(status, 429, "{answer}");
    let said = "the budget of tenant a has 1 target calls left, and these are 2";
    assert_eq!(answer["message"], said);
    assert_eq!(answer["code"], "RESOURCE_EXHAUSTED");
    // The rest of an hour that has just begun.
    let again_in = answer["retry_after_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&again_in), "{again_in}");
    // What was refused has cost nothing.
    assert_eq!(retrieve(&server, a, &asked(1)).await.0, 200);
    assert_eq!(retrieve(&server, a, &asked(1)).await.0, 429);
    assert_eq!(retrieve(&server, "", &asked(5)).await.0, 200);
    // It would be too much for a new period, too.
    let (status, answer) = retrieve(&server, a, &asked(6)).await;
    assert_eq!(status, 400, "{answer}");
    let said = "queries: there are 6 queries; tenant.target_calls allows 5 in a period";
    assert_eq!(answer["message"], said);
    assert_eq!(answer["code"], "INVALID_ARGUMENT");

    // The client tells the tenant on, and hears of it.
    let tenant = Tenant::new("a").unwrap();
    let call = Call::of(tenant, Lane::Authoritative, Chance::CERTAIN);
    let error = client(&server).retrieve(&call, "q", 1).await.unwrap_err();
    assert!(matches!(error, PortError::Unavailable { .. }), "{error}");
}

/// Asks for this, and does not wait for the answer.
async fn begin(server: &Server, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut waits = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    waits.write_all(request.as_bytes()).await.unwrap();
    eventually(|| server.ports.live() == 1).await;
    waits
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retriever_that_fails_is_told_of_and_a_full_house_says_so() {
    let mut script = Script::instant(2);
    script.failures.insert((0, Stage::Target), 1);
    script.hops[1].target = Duration::from_secs(3600);
    let [fails, lasts] = [0, 1].map(|hop| json!({ "queries": [script.hops[hop].ask] }));
    let server = Server::configured(script, &format!("{ON}questions_max = 1")).await;
    let (status, answer) = retrieve(&server, "", &fails.to_string()).await;
    assert_eq!(status, 503, "{answer}");
    assert_eq!(answer["code"], "UNAVAILABLE");

    // The other one takes an hour.
    let waits = begin(&server, &lasts).await;
    let (status, answer) = retrieve(&server, "", r#"{"queries":["a"]}"#).await;
    assert_eq!(status, 429, "{answer}");
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .starts_with("1 requests are being answered")
    );
    assert_eq!(answer["retry_after_ms"], 1000);
    // Whoever hangs up makes room, and is counted.
    drop(waits);
    eventually(|| server.ports.live() == 0).await;
    let cancelled = "spechop_retrievals_total{outcome=\"cancelled\"}";
    while server.metric(cancelled).await == 0 {
        tokio::task::yield_now().await;
    }
    let (status, _) = retrieve(&server, "", r#"{"queries":["a"]}"#).await;
    assert_eq!(status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_all_its_places_hears_so_and_others_have_theirs() {
    let mut script = Script::instant(1);
    script.hops[0].target = Duration::from_secs(3600);
    let lasts = json!({ "queries": [script.hops[0].ask] });
    let limits = "questions_max = 3\n[tenant]\nquestions_max = 1\n";
    let server = Server::configured(script, &format!("{ON}{limits}")).await;
    let _waits = begin(&server, &lasts).await;
    let soon = r#"{"queries":["a"]}"#;
    let (status, answer) = retrieve(&server, "", soon).await;
    assert_eq!(status, 429, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.starts_with("1 requests of this tenant are being answered"),
        "{message}"
    );
    let counted = "spechop_retrievals_total{outcome=\"tenant_busy\"}";
    assert_eq!(server.metric(counted).await, 1);
    let other = "spechop-tenant: other\r\n";
    assert_eq!(retrieve(&server, other, soon).await.0, 200);
}
