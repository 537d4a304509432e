//! Who may ask: keys, roles, tenants and their limits, at every door.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::convert::Infallible;
use std::fs;
use std::future::poll_fn;
use std::time::Duration;

use crate::keys::key;
use crate::over_http::{client, url};
use crate::support::{Server, by, endless, eventually, finish, named, question, replace};
use axum::body::Bytes;
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use spechop_proto::admin_client::AdminClient;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{AskRequest, GetBackendsRequest, GetTuningRequest};
use spechop_testkit::Script;
use spechop_testkit::frames::message;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tonic::codegen::Service;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

async fn ask(server: &Server, key: &str, tenant: &str) -> Result<(), Status> {
    let request = by(key, tenant, question());
    server.client().await.ask(request).await.map(|_| ())
}

/// The answer to a request of HTTP/1.1: its head and its body.
async fn http(server: &Server, request: &str, more: &str, body: &str) -> (String, String) {
    let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\n{more}");
    let answer = server.http1(&head, body.as_bytes());
    let (_, head, body) = timeout(PATIENCE, answer).await.unwrap();
    (head.to_lowercase(), body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_says_who_asks_and_what_for() {
    let (team, one) = key("team", "tenant = \"team-7\"");
    let (ops, two) = key("ops", "roles = [\"admin\"]");
    let (proxy, three) = key("proxy", "tenant = \"*\"");
    let (unknown, _) = key("unknown", "");
    let (other_of_team, _) = key("team", "");
    let server = Server::configured(Script::instant(1), &(one + &two + &three)).await;
    let channel = server.channel().await;
    let admin = AdminClient::new(channel.clone());
    for (key, tenant, asks, administers) in [
        ("", "", Code::Unauthenticated, Code::Unauthenticated),
        ("", "team-7", Code::Unauthenticated, Code::Unauthenticated),
        ("spechop", "", Code::Unauthenticated, Code::Unauthenticated),
        (&*unknown, "", Code::Unauthenticated, Code::Unauthenticated),
        (
            &*other_of_team,
            "",
            Code::Unauthenticated,
            Code::Unauthenticated,
        ),
        (&*team, "", Code::Ok, Code::PermissionDenied),
        (&*team, "team-7", Code::Ok, Code::PermissionDenied),
        (
            &*team,
            "team-8",
            Code::PermissionDenied,
            Code::PermissionDenied,
        ),
        (&*ops, "", Code::PermissionDenied, Code::Ok),
        (
            &*ops,
            "team-7",
            Code::PermissionDenied,
            Code::PermissionDenied,
        ),
        (&*proxy, "anybody", Code::Ok, Code::PermissionDenied),
        (
            &*proxy,
            "a/b",
            Code::InvalidArgument,
            Code::PermissionDenied,
        ),
    ] {
        let code =
            |answer: Result<(), Status>| answer.map_or_else(|status| status.code(), |()| Code::Ok);
        let asked = ask(&server, key, tenant).await;
        assert_eq!(code(asked), asks, "{key} {tenant}");
        let mut admin = admin.clone();
        let request = by(key, tenant, GetBackendsRequest {});
        let told = admin.get_backends(request).await.map(|_| ());
        assert_eq!(code(told), administers, "{key} {tenant}");
        let request = by(key, tenant, GetTuningRequest {});
        let told = admin.get_tuning(request).await.map(|_| ());
        assert_eq!(code(told), administers, "{key} {tenant}");
    }
    // Whoever starts and stops the server need not have one.
    let request = HealthCheckRequest::default();
    HealthClient::new(channel).check(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_without_grpc_hear_it_in_their_own_words() {
    let (team, one) = key("team", "tenant = \"team-7\"");
    let (ops, two) = key("ops", "roles = [\"admin\"]");
    let config = format!("{one}{two}[server]\nretrieve = true\n");
    let server = Server::configured(Script::instant(1), &config).await;
    let metrics = async |more: String| http(&server, "GET /metrics", &more, "").await;
    let (head, body) = metrics(String::new()).await;
    assert!(
        head.starts_with("http/1.1 401") && head.contains("www-authenticate: bearer"),
        "{head}"
    );
    let error: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("authorization: Bearer KEY")
    );
    for (sent, status) in [
        ("Authorization: \r\n".to_owned(), "401"),
        ("Authorization: Bearer\r\n".to_owned(), "401"),
        ("Authorization: Basic dTpw\r\n".to_owned(), "401"),
        (
            format!("Authorization: Bearer {}\r\n", "x".repeat(12_000)),
            "401",
        ),
        (
            format!("Authorization: Bearer {ops}\r\nAuthorization: Bearer {ops}\r\n"),
            "401",
        ),
        (format!("Authorization: Bearer {team}\r\n"), "403"),
        (
            format!("Authorization: Bearer {ops}\r\nspechop-tenant: other\r\n"),
            "403",
        ),
        (format!("authorization: bearer {ops}\r\n"), "200"),
    ] {
        let (head, body) = metrics(sent.clone()).await;
        assert!(
            head.starts_with(&format!("http/1.1 {status}")),
            "{sent}: {head}\n{body}"
        );
    }
    let retrieve = async |key: &str| {
        let more = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
        http(&server, "POST /retrieve", &more, "{\"queries\":[\"q\"]}")
            .await
            .0
    };
    assert!(retrieve(&team).await.starts_with("http/1.1 200"));
    assert!(retrieve(&ops).await.starts_with("http/1.1 403"));
}

/// What a client says of itself counts for nothing: names of questions are those of the key's tenant.
#[tokio::test(flavor = "multi_thread")]
async fn the_tenant_is_that_of_the_key() {
    let (mine, one) = key("mine", "tenant = \"mine\"");
    let (mine_too, two) = key("mine_too", "tenant = \"mine\"");
    let (other, three) = key("other", "tenant = \"other\"");
    let server = Server::configured(endless(), &(one + &two + &three)).await;
    let request = by(&mine, "", named("q"));
    let mut client = server.client().await;
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.ask(request).await.map(|_| ()) });
    eventually(|| server.gauges.questions_open() == 1).await;
    let finishes = async |key: &str| {
        let mut client = server.client().await;
        client.finish_now(by(key, "", finish("q"))).await
    };
    assert_eq!(finishes(&other).await.unwrap_err().code(), Code::NotFound);
    finishes(&mine_too).await.unwrap();
    asking.join_next().await.unwrap().unwrap().unwrap();
}

/// Wrong keys wait for their answers, and hold up nobody but themselves.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_are_answered_slowly() {
    let (right, lines) = key("right", "");
    let server = Server::configured(Script::instant(1), &lines).await;
    let channel = server.channel().await;
    let mut asking = JoinSet::new();
    for number in 0..40 {
        let mut client = SpecHopClient::new(channel.clone());
        asking.spawn(async move {
            let wrong = format!("spechop.right.{number}");
            client.ask(by(&wrong, "", question())).await.map(|_| ())
        });
    }
    // Twenty at once, a second between the others: the last ones come long after this.
    for _ in 0..20 {
        let refused = asking.join_next().await.unwrap().unwrap().unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    let mut client = SpecHopClient::new(channel);
    client.ask(by(&right, "", question())).await.unwrap();
    // Those that have ended by now are in the set until they are taken out.
    while asking.try_join_next().is_some() {}
    assert!(!asking.is_empty(), "all of them were answered meanwhile");
}

/// They are held while they wait, so they count among what a connection may hold.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_that_wait_do_not_pile_up() {
    let (_, lines) = key("right", "");
    let server = Server::configured(Script::instant(1), &lines).await;
    let channel = server.channel().await;
    let mut asking = JoinSet::new();
    for number in 0..80 {
        let mut client = SpecHopClient::new(channel.clone());
        let mut request = by(&format!("spechop.right.{number}"), "", question());
        let padding = "x".repeat(14_000).parse().unwrap();
        request.metadata_mut().insert("padding", padding);
        asking.spawn(async move { client.ask(request).await.map(|_| ()) });
    }
    let too_much = async {
        while let Some(refused) = asking.join_next().await {
            if refused.unwrap().unwrap_err().code() == Code::ResourceExhausted {
                return true;
            }
        }
        false
    };
    assert!(timeout(PATIENCE, too_much).await.expect("soon"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_so_many_requests_and_hears_when_to_come_again() {
    let (busy, one) = key("busy", "tenant = \"busy\"");
    let (also_busy, two) = key("also", "tenant = \"busy\"");
    let (slow, three) = key("slow", "tenant = \"slow\"\nrequests_per_second = 0.001");
    let config =
        format!("{one}{two}{three}[tenant]\nrequests_per_second = 0.01\nrequests_burst = 2\n");
    let server = Server::configured(Script::instant(1), &config).await;
    ask(&server, &busy, "").await.unwrap();
    ask(&server, &also_busy, "").await.unwrap();
    let refused = ask(&server, &busy, "").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("tenant busy"), "{refused}");
    let retry = refused
        .get_details_retry_info()
        .unwrap()
        .retry_delay
        .unwrap();
    assert!(
        retry > Duration::from_secs(90) && retry <= Duration::from_secs(100),
        "{retry:?}"
    );
    ask(&server, &slow, "").await.unwrap();
    let refused = ask(&server, &slow, "").await.unwrap_err();
    assert!(refused.message().contains("the API key slow"), "{refused}");
    assert_eq!(
        refused
            .get_details_retry_info()
            .unwrap()
            .retry_delay
            .unwrap()
            .as_secs()
            / 100,
        9
    );
}

/// A name that is none is the door's to refuse, and no way round the limits of the key.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_anybody_has_its_limit_whatever_name_it_gives() {
    let (proxy, one) = key(
        "proxy",
        "tenant = \"*\"\nrequests_per_second = 0.001\nrequests_burst = 1",
    );
    let server = Server::configured(Script::instant(1), &one).await;
    let head = format!("authorization: Bearer {proxy}\r\nspechop-tenant: a/b\r\n");
    for (status, number) in [("200", 1), ("429", 2)] {
        let (answered, body) = http(&server, "GET /v1/models", &head, "").await;
        assert!(
            answered.starts_with(&format!("http/1.1 {status}")),
            "{number}: {answered} {body}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_sent_too_many_requests_may_still_end_a_question() {
    let limit = "requests_per_second = 0.001\nrequests_burst = 1\n";
    let (slow, lines) = key("slow", limit);
    let server = Server::configured(endless(), &format!("{lines}[tenant]\n{limit}")).await;
    let request = by(&slow, "", named("q"));
    let mut client = server.client().await;
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.ask(request).await.map(|_| ()) });
    eventually(|| server.gauges.questions_open() == 1).await;
    let mut client = server.client().await;
    client.finish_now(by(&slow, "", finish("q"))).await.unwrap();
    asking.join_next().await.unwrap().unwrap().unwrap();
    // It is over, and known for a while.
    let head = format!("authorization: Bearer {slow}\r\n");
    for (request, status) in [
        ("POST /v1/questions/q/cancel", "200"),
        ("POST /v1/questions/q/finish", "404"),
        ("GET /v1/questions/q/answer", "429"),
    ] {
        let (answered, body) = http(&server, request, &head, "").await;
        let expected = format!("http/1.1 {status}");
        assert!(answered.starts_with(&expected), "{answered} {body}");
    }
}

/// Without keys, limits hold for whomever the client says it is.
#[tokio::test(flavor = "multi_thread")]
async fn without_keys_nothing_is_asked_for() {
    let config = "[tenant]\nrequests_per_second = 0.01\nrequests_burst = 1\n";
    let server = Server::configured(Script::instant(1), config).await;
    ask(&server, "", "a").await.unwrap();
    ask(&server, "whatever", "b").await.unwrap();
    let refused = ask(&server, "", "a").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let (head, body) = http(&server, "GET /metrics", "spechop-tenant: a\r\n", "").await;
    assert!(
        head.starts_with("http/1.1 429") && head.contains("retry-after: "),
        "{head}"
    );
    assert!(body.contains("tenant a"), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_the_places_of_others() {
    let config = "[tenant]\nquestions_max = 1\n[server]\nquestions_max = 2\nqueue_ms = 0\n";
    let server = Server::configured(endless(), config).await;
    let mut asking = JoinSet::new();
    for tenant in ["greedy", "other"] {
        let mut client = server.client().await;
        asking.spawn(async move { client.ask(by("", tenant, question())).await.map(|_| ()) });
        let open = usize::from(tenant == "other") + 1;
        eventually(|| server.gauges.questions_open() == open).await;
        if tenant == "greedy" {
            let refused = ask(&server, "", "greedy").await.unwrap_err();
            assert_eq!(refused.code(), Code::ResourceExhausted);
            assert!(
                refused.message().contains("1 questions of tenant greedy"),
                "{refused}"
            );
            assert!(refused.get_details_retry_info().is_some());
        }
    }
    let refused = ask(&server, "", "third").await.unwrap_err();
    assert!(
        refused.message().contains("2 questions are being answered"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_keys_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let ((old, old_lines), (new, new_lines)) =
        (key("old", "roles = [\"ask\", \"admin\"]"), key("new", ""));
    fs::write(&path, &old_lines).unwrap();
    let config = format!(
        "[server]\nkeys_file = \"{}\"\nreload_ms = 5\n",
        path.display()
    );
    let server = Server::configured(Script::instant(1), &config).await;
    let write = |text: &str| replace(&path, text);
    let until = async |key: &str, may: bool| {
        let changes = async { while ask(&server, key, "").await.is_ok() != may {} };
        timeout(PATIENCE, changes).await.expect("the file was read");
    };
    until(&old, true).await;
    let is_told = async |value: u8| {
        let line = format!("spechop_last_read_successful{{source=\"keys\"}} {value}\n");
        let page = async || {
            let asked = client().get(url(&server, "/metrics")).bearer_auth(&old);
            asked.send().await.unwrap().text().await.unwrap()
        };
        let told = async { while !page().await.contains(&line) {} };
        timeout(PATIENCE, told).await.expect("it is told");
    };
    is_told(1).await;
    write(&format!("{old_lines}{new_lines}"));
    until(&new, true).await;
    // What cannot be read changes nothing, however often it is looked at.
    write("[[keys]]\nname = 5");
    is_told(0).await;
    let looked_at_often = Instant::now() + Duration::from_millis(200);
    while Instant::now() < looked_at_often {
        ask(&server, &old, "").await.unwrap();
    }
    write(&new_lines);
    until(&old, false).await;
    ask(&server, &new, "").await.unwrap();
    // Nobody may ask if there is no key: an empty file does not open the door.
    write("");
    until(&new, false).await;
    let refused = ask(&server, "", "").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_tenant_in_the_file_of_keys_has_its_share_of_the_places() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let (one, one_lines) = key("one", "tenant = \"t\"");
    let (_, two_lines) = key("two", "tenant = \"u\"");
    let write = |text: &str| replace(&path, text);
    write(&one_lines);
    let config = format!(
        "[server]\nquestions_max = 2\nqueue_ms = 0\nkeys_file = \"{}\"\nreload_ms = 5\n",
        path.display()
    );
    let server = Server::configured(endless(), &config).await;
    let mut first = server.client().await;
    let request = by(&one, "", question());
    let mut asking = JoinSet::new();
    asking.spawn(async move { first.ask(request).await.map(|_| ()) });
    eventually(|| server.gauges.questions_open() == 1).await;
    // Whether the tenant of the open question may have another one: it then ends by its deadline.
    let until_another_ends_with = async |code: Code| {
        let ends = async {
            loop {
                let request = AskRequest {
                    deadline_ms: Some(20),
                    ..question()
                };
                let asked = server.client().await.ask(by(&one, "", request)).await;
                if asked.unwrap_err().code() == code {
                    return;
                }
            }
        };
        timeout(PATIENCE, ends).await.expect("the file was read");
    };
    until_another_ends_with(Code::DeadlineExceeded).await;
    write(&format!("{one_lines}{two_lines}"));
    until_another_ends_with(Code::ResourceExhausted).await;
    write(&one_lines);
    until_another_ends_with(Code::DeadlineExceeded).await;
}

/// Who may not ask is refused by the head of its request: nothing of it is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_no_message_is_held() {
    let (_, lines) = key("one", "");
    let toml = format!("{lines}[server]\nmessage_ms_max = 3600000\n");
    let server = Server::configured(Script::instant(1), &toml).await;
    let begun = Bytes::from(message(12_000, &[b'x'; 6_000]));
    let begun = stream::iter([Ok::<_, Infallible>(Frame::data(begun))]);
    // The rest of the message does not come.
    let body = StreamBody::new(begun.chain(stream::pending()));
    let request = axum::http::Request::post("/spechop.v1.SpecHop/Ask")
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::new(body))
        .unwrap();
    let mut channel = server.channel().await;
    poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
    // Long before server.message_ms_max, by which a message is refused that is late.
    let refused = timeout(PATIENCE, channel.call(request));
    let refused = refused.await.expect("it is refused at once").unwrap();
    assert_eq!(refused.headers()["grpc-status"], "16");
}
