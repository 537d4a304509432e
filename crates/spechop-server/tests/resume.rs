//! Questions whose readers come back, and those that others end.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use crate::over_http::{Frames, answer_of, chat, client, get, post, url};
use crate::support::{Server, endless, named, of, question};
use futures::StreamExt;
use reqwest::StatusCode;
use serde_json::{Value, json};
use spechop_proto::ask_event::Event;
use spechop_proto::json as wire_json;
use spechop_proto::{AskRequest, AskResponse, Budget, GetAnswerRequest, ResumeRequest};
use spechop_testkit::Script;
use tokio::time::timeout;
use tonic::Code;

/// Four hops, each slow enough that a test can do something meanwhile.
fn slow() -> Script {
    Script::steady(&[true, true, true, true], 5, 120, 5)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_comes_back_misses_nothing() {
    let server = Server::start(slow()).await;
    let asked = post(
        &server,
        "/v1/ask/stream",
        json!({ "linger_ms": 20_000, "options": { "k": 1 } }),
    )
    .await;
    let mut frames = Frames::of(asked);
    let id = frames.question_id();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(frames.next().await.unwrap());
    }
    drop(frames);
    // Nobody reads, and the question continues.
    let again = get(&server, &format!("/v1/questions/{id}/events?after=3")).await;
    let rest = Frames::of(again).all().await;
    seen.extend(rest);
    let numbers: Vec<_> = seen.iter().map(|(id, ..)| id.unwrap()).collect();
    assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>());
    let answer = answer_of(&seen);
    assert_eq!(answer.answer, "so fact 3");
    server.is_idle().await;

    // It is kept for a while: all of it, its end, and the answer alone; over gRPC as well.
    let whole = Frames::of(get(&server, &format!("/v1/questions/{id}/events")).await);
    assert_eq!(whole.all().await, seen);
    let late = format!("/v1/questions/{id}/events?after={}", seen.len() - 1);
    assert_eq!(
        Frames::of(get(&server, &late).await).all().await,
        seen[seen.len() - 1..]
    );
    let alone = get(&server, &format!("/v1/questions/{id}/answer")).await;
    let alone: AskResponse = wire_json::read(&alone.bytes().await.unwrap()).unwrap();
    assert_eq!(alone, answer);
    let mut grpc = server.client().await;
    let wanted = GetAnswerRequest {
        question_id: id.clone(),
    };
    assert_eq!(
        grpc.get_answer(wanted.clone()).await.unwrap().into_inner(),
        answer
    );
    let resumed = ResumeRequest {
        question_id: id.clone(),
        after: 3,
    };
    let events = grpc.resume(resumed).await.unwrap().into_inner();
    let events: Vec<_> = events.map(Result::unwrap).collect().await;
    assert_eq!(events.len(), seen.len() - 3);
    assert_eq!(events.last().unwrap().event, Some(Event::Answer(answer)));
    // Another tenant has no such question.
    let other = grpc.get_answer(of("other", wanted)).await.unwrap_err();
    assert_eq!(other.code(), Code::NotFound);
    for path in ["events", "answer"] {
        let request = client().get(url(&server, &format!("/v1/questions/{id}/{path}")));
        let response = request
            .header("spechop-tenant", "other")
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
    }
    // A number that there is not yet.
    let ahead = get(&server, &format!("/v1/questions/{id}/events?after=999")).await;
    assert_eq!(ahead.status(), StatusCode::BAD_REQUEST);
}

/// A browser's `EventSource` comes back to the address that it began with, `after` included.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_numbers_that_a_reader_knows_the_greater_one_counts() {
    let server = Server::start(Script::instant(4)).await;
    let named = json!({ "question_id": "mine", "linger_ms": 20_000 });
    let asked = Frames::of(post(&server, "/v1/ask/stream", named).await);
    assert!(asked.all().await.len() > 6);
    server.is_idle().await;
    let resume = async |query: &str, header: Option<&str>| {
        let path = format!("/v1/questions/mine/events{query}");
        let mut request = client().get(url(&server, &path));
        if let Some(header) = header {
            request = request.header("last-event-id", header);
        }
        request.send().await.unwrap()
    };
    for (query, header, first) in [
        ("?after=2", Some("5"), 6),
        ("?after=5", Some("2"), 6),
        ("", Some("5"), 6),
        ("?after=5", None, 6),
        ("", None, 1),
        // It may be the name of an event of another stream.
        ("?after=5", Some("none"), 6),
        ("?after=5", Some(""), 6),
    ] {
        let mut frames = Frames::of(resume(query, header).await);
        let (id, ..) = frames.next().await.unwrap();
        assert_eq!(id, Some(first), "{query} {header:?}");
    }
    // What is all that a reader says has to be a number, and one that there is.
    for (query, header) in [
        ("", Some("none")),
        ("?after=none", Some("5")),
        ("?after=2", Some("999")),
    ] {
        let status = resume(query, header).await.status();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query} {header:?}");
    }
}

/// A browser's `EventSource` comes back whenever a stream ends, and 204 alone stops it.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_the_answer_hears_that_there_is_no_more() {
    let server = Server::start(Script::instant(1)).await;
    let asked = Frames::of(post(&server, "/v1/ask/stream", json!({})).await);
    let path = format!("/v1/questions/{}/events", asked.question_id());
    let (last, ..) = asked.all().await.pop().unwrap();
    server.is_idle().await;
    let again = client().get(url(&server, &path));
    let again = again.header("last-event-id", last.unwrap().to_string());
    let again = again.send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NO_CONTENT);
    assert_eq!(again.headers()["cache-control"], "no-store");
    assert!(again.bytes().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_longer_kept_is_said_to_be_gone() {
    // Room for the last event and hardly any other.
    let server = Server::configured(slow(), "[server]\nkept_bytes_max = 8000").await;
    let frames = Frames::of(post(&server, "/v1/ask/stream", json!({})).await);
    let id = frames.question_id();
    let frames = frames.all().await;
    server.is_idle().await;
    let again = get(&server, &format!("/v1/questions/{id}/events?after=1")).await;
    assert_eq!(again.status(), StatusCode::GONE);
    let error: Value = again.json().await.unwrap();
    assert_eq!(error["code"], "OUT_OF_RANGE");
    let alone = get(&server, &format!("/v1/questions/{id}/answer")).await;
    let alone: AskResponse = wire_json::read(&alone.bytes().await.unwrap()).unwrap();
    assert_eq!(alone, answer_of(&frames));
    // Nothing is kept if the operator says so.
    let server = Server::configured(Script::instant(1), "[server]\nkept_ms = 0").await;
    let frames = Frames::of(post(&server, "/v1/ask/stream", json!({})).await);
    let id = frames.question_id();
    frames.all().await;
    server.is_idle().await;
    let gone = get(&server, &format!("/v1/questions/{id}/answer")).await;
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_has_so_many_readers_and_no_more() {
    let server = Server::start(endless()).await;
    let named = json!({ "question_id": "mine" });
    let mut readers = vec![post(&server, "/v1/ask/stream", named).await];
    let events = "/v1/questions/mine/events";
    for _ in 1..16 {
        readers.push(get(&server, events).await);
    }
    for reader in &readers {
        assert_eq!(reader.status(), StatusCode::OK);
    }
    for path in [events, "/v1/questions/mine/answer"] {
        let refused = get(&server, path).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{path}");
        let error: Value = refused.json().await.unwrap();
        assert_eq!(error["code"], "RESOURCE_EXHAUSTED", "{error}");
        assert_eq!(error["retry_after_ms"], 1000, "{error}");
    }
    // Whoever leaves makes room.
    readers.pop();
    let comes = async { while get(&server, events).await.status() != StatusCode::OK {} };
    timeout(Duration::from_secs(120), comes).await.unwrap();
}

/// The name of any other question leads nowhere: it is forgotten with its answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_named_only_if_its_client_can_come_back_to_it() {
    const NAME: &str = "spechop-question-id";
    let server = Server::start(Script::instant(1)).await;
    for (question_id, linger_ms, is_named) in
        [("", 0, false), ("mine", 0, true), ("", 20_000, true)]
    {
        let ours = json!({ "question_id": question_id, "linger_ms": linger_ms });
        let over_json = post(&server, "/v1/ask", ours.clone()).await;
        server.is_idle().await;
        let openai = chat(&server, json!({ "spechop": ours })).send().await;
        server.is_idle().await;
        for response in [over_json, openai.unwrap()] {
            assert_eq!(response.status(), StatusCode::OK);
            let name = response.headers().get(NAME);
            assert_eq!(name.is_some(), is_named, "{ours}");
            if let Some(name) = name {
                let path = format!("/v1/questions/{}/answer", name.to_str().unwrap());
                assert_eq!(get(&server, &path).await.status(), StatusCode::OK);
            }
        }
        let asked = AskRequest {
            question_id: question_id.to_owned(),
            linger_ms,
            ..question()
        };
        let over_grpc = server.client().await.ask(asked).await.unwrap();
        assert_eq!(over_grpc.metadata().contains_key(NAME), is_named, "{ours}");
        server.is_idle().await;
    }
    // A stream is named whatever it asks for.
    let streamed = chat(&server, json!({ "stream": true })).send().await;
    assert!(streamed.unwrap().headers().contains_key(NAME));
}

/// A question that its client can come back to, of so many look-ups.
fn mine(calls: Option<u32>) -> AskRequest {
    AskRequest {
        budget: Some(Budget {
            target_calls: calls,
            ..Budget::default()
        }),
        ..named("mine")
    }
}

/// The client may not have heard the first answer, and asks once more.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_cannot_pay_for_a_second_answer_still_has_the_first() {
    let server = Server::configured(Script::instant(1), "[tenant]\ntarget_calls = 1").await;
    let answer = server.ask(mine(None)).await.unwrap();
    server.is_idle().await;
    for _ in 0..2 {
        let refused = server.ask(mine(None)).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        let wanted = GetAnswerRequest {
            question_id: "mine".to_owned(),
        };
        let kept = server.client().await.get_answer(wanted).await.unwrap();
        assert_eq!(kept.into_inner(), answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_by_a_name_that_is_taken_pays_nothing() {
    let server = Server::configured(endless(), "[tenant]\ntarget_calls = 10").await;
    let mut client = server.client().await;
    let mut open = vec![client.ask_stream(mine(Some(4))).await.unwrap()];
    for _ in 0..3 {
        let refused = client.ask(mine(Some(6))).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    let other = || AskRequest {
        question_id: String::new(),
        ..mine(Some(1))
    };
    for _ in 0..6 {
        open.push(client.ask_stream(other()).await.unwrap());
    }
    let refused = client.ask_stream(other()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    // Whoever has nothing left hears the same: waiting for more would not help.
    let refused = client.ask(mine(Some(1))).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_can_be_finished_and_cancelled_and_left_alone() {
    let server = Server::start(endless()).await;
    let named = json!({ "question_id": "mine", "linger_ms": 50 });
    let mut frames = Frames::of(post(&server, "/v1/ask/stream", named).await);
    assert_eq!(frames.question_id(), "mine");
    frames.next().await.unwrap();
    let taken = post(&server, "/v1/ask", json!({ "question_id": "mine" })).await;
    assert_eq!(taken.status(), StatusCode::BAD_REQUEST);
    let act = async |act: &str| {
        let path = format!("/v1/questions/mine/{act}");
        let response = client().post(url(&server, &path)).send().await.unwrap();
        response.status().as_u16()
    };
    assert_eq!(act("cancel").await, 200);
    let frames = frames.all().await;
    assert_eq!(frames.last().unwrap().2["code"], "CANCELLED");
    server.is_idle().await;
    assert_eq!(act("cancel").await, 200);

    // Whoever stays away for longer than the question may go on alone ends it.
    let named = json!({ "question_id": "mine", "linger_ms": 50 });
    drop(Frames::of(post(&server, "/v1/ask/stream", named).await));
    server.is_idle().await;
    let error = get(&server, "/v1/questions/mine/answer").await;
    let error: Value = error.json().await.unwrap();
    assert!(
        error["message"].as_str().unwrap().contains("0.05 s"),
        "{error}"
    );

    // Without that time it ends at once, and leaves nothing.
    drop(Frames::of(
        post(&server, "/v1/ask/stream", json!({ "question_id": "mine" })).await,
    ));
    server.is_idle().await;
    assert_eq!(
        get(&server, "/v1/questions/mine/answer").await.status(),
        StatusCode::NOT_FOUND
    );

    // One hop is there soon, the second never.
    let mut script = slow();
    script.hops[1].target = endless().hops[0].target;
    let server = Server::start(script).await;
    let mut frames =
        Frames::of(post(&server, "/v1/ask/stream", json!({ "options": { "k": 1 } })).await);
    let id = frames.question_id();
    while frames.next().await.unwrap().1 != "committed" {}
    let finish = url(&server, &format!("/v1/questions/{id}/finish"));
    let finished = client().post(&finish).send().await.unwrap();
    assert_eq!(finished.status(), StatusCode::OK);
    let answer = answer_of(&frames.all().await);
    assert_eq!(answer.hops.len(), 1);
    assert_eq!(answer.stop_reason().as_str_name(), "STOP_REASON_BUDGET");
    server.is_idle().await;
    // It is over now.
    let late = client().post(&finish).send().await.unwrap();
    assert_eq!(late.status(), StatusCode::NOT_FOUND);
}
