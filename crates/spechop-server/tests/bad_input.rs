//! What is no question, or asks for what cannot be: a clear status, and the server goes on.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use crate::support::{Server, at, bare, config, failure, finish, question};
use prost::Message;
use spechop_ports::{Call, PlanRequest, Planned, Planner, PortError};
use spechop_proto::options::Width;
use spechop_proto::{AskRequest, AskResponse, Budget};
use spechop_server::Bare;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Stage;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_field_is_named() {
    let server = Server::start(Script::instant(1)).await;
    let asking = |text: &str| AskRequest {
        question: text.to_owned(),
        ..AskRequest::default()
    };
    let budget = |limit: fn(&mut Budget)| {
        let mut budget = Budget::default();
        limit(&mut budget);
        AskRequest {
            budget: Some(budget),
            ..question()
        }
    };
    for (request, fields, words) in [
        (asking(""), &["question"][..], "is empty"),
        (asking(" \n\t\u{0} ?!"), &["question"], "is empty"),
        (
            asking(&"a".repeat(5_000)),
            &["question"],
            "5000 bytes; the most is 4096",
        ),
        (at(0), &["options.k"], "must be at least 1, not 0"),
        (at(65), &["options.k"], "must be at most 64, not 65"),
        (at(u32::MAX), &["options.k"], "must be at most 64"),
        (
            question().with(|asked| asked.hop_budget = Some(0)),
            &["options.hop_budget"],
            "must be at least 1, not 0",
        ),
        (
            question().with(|asked| asked.hop_budget = Some(33)),
            &["options.hop_budget"],
            "must be at most 32, not 33",
        ),
        (
            question().with(|asked| asked.top_passages = Some(0)),
            &["options.top_passages"],
            "at least 1",
        ),
        (
            question().with(|asked| asked.top_passages = Some(21)),
            &["options.top_passages"],
            "must be at most 20, not 21",
        ),
        (
            question().with(|asked| asked.guesses = Some(0)),
            &["options.guesses"],
            "must be at least 1, not 0",
        ),
        (
            question().with(|asked| asked.guesses = Some(5)),
            &["options.guesses"],
            "must be at most 4, not 5",
        ),
        (
            question().with(|asked| asked.drafts = Some(9)),
            &["options.drafts"],
            "must be at most 8, not 9",
        ),
        (
            question().with(|asked| asked.chance_min = Some(-0.01)),
            &["options.chance_min"],
            "must be from 0 to 1, not -0.01",
        ),
        (
            question().with(|asked| asked.chance_min = Some(1.5)),
            &["options.chance_min"],
            "must be from 0 to 1, not 1.5",
        ),
        (
            question().with(|asked| asked.chance_min = Some(f64::NAN)),
            &["options.chance_min"],
            "must be from 0 to 1, not NaN",
        ),
        (
            question().with(|asked| {
                asked.salvage = Some(false);
                asked.plan_ahead = Some(true);
            }),
            &["options.plan_ahead"],
            "needs salvage",
        ),
        (
            question().with(|asked| asked.verifier = 77),
            &["options.verifier"],
            "no mode 77",
        ),
        (
            AskRequest {
                deadline_ms: Some(0),
                ..question()
            },
            &["deadline_ms"],
            "at least 1",
        ),
        (
            question().with(|asked| asked.speculator = Some("oracle".into())),
            &["options.speculator"],
            "this server has llm, none",
        ),
        (
            budget(|budget| budget.time_ms = Some(0)),
            &["budget.time_ms"],
            "at least 1",
        ),
        (
            budget(|budget| budget.target_calls = Some(0)),
            &["budget.target_calls"],
            "at least 1",
        ),
        (
            budget(|budget| budget.tokens = Some(0)),
            &["budget.tokens"],
            "at least 1",
        ),
        (
            asking("").with(|asked| {
                asked.width = Some(Width::K(0));
                asked.hop_budget = Some(0);
                asked.top_passages = Some(0);
            }),
            &[
                "question",
                "options.k",
                "options.hop_budget",
                "options.top_passages",
            ],
            "; ",
        ),
    ] {
        let status = server.ask(request.clone()).await.unwrap_err();
        assert_eq!(
            status.code(),
            Code::InvalidArgument,
            "{request:?}: {status}"
        );
        assert!(status.message().contains(words), "{status}");
        let details = status.get_details_bad_request().unwrap();
        let named: Vec<_> = details
            .field_violations
            .iter()
            .map(|wrong| &*wrong.field)
            .collect();
        assert_eq!(named, fields);
        // The other method checks the same.
        let other = server.client().await.ask_stream(request).await.unwrap_err();
        assert_eq!(
            (other.code(), other.message()),
            (status.code(), status.message())
        );
    }
    assert_eq!(
        server.ports.started(),
        0,
        "nothing was begun for any of them"
    );
    server.ask(question()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_can_take_less() {
    let toml = "[question]\nk = 2\nk_max = 2\npassages_max = 5";
    let server = Server::configured(Script::instant(1), toml).await;
    for (request, words) in [
        (at(3), "options.k: must be at most 2, not 3"),
        (
            question().with(|asked| asked.width = Some(Width::UNBOUNDED)),
            "options.unbounded: this server takes k up to 2",
        ),
        (
            question().with(|asked| asked.top_passages = Some(6)),
            "options.top_passages: must be at most 5",
        ),
    ] {
        let status = server.ask(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(words), "{status}");
    }
}

/// With one guess of a hop there are no more branches than hops. With two, they double at each.
#[tokio::test(flavor = "multi_thread")]
async fn several_guesses_of_each_hop_need_a_bound() {
    let server = Server::start(Script::instant(1)).await;
    let asked = |guesses: u32| {
        question().with(|asked| {
            asked.width = Some(Width::UNBOUNDED);
            asked.guesses = Some(guesses);
        })
    };
    server.ask(asked(1)).await.unwrap();
    let status = server.ask(asked(2)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let words = "options.unbounded: does not go with several guesses of a hop";
    assert!(status.message().contains(words), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_there_twice_is_wrong() {
    let server = Server::start(Script::instant(1)).await;
    for (key, values) in [
        ("spechop-tenant", ["a", "b"]),
        ("spechop-tenant", ["a", "a"]),
        ("grpc-timeout", ["5S", "1H"]),
    ] {
        let request = || {
            let mut request = Request::new(question());
            for value in values {
                request.metadata_mut().append(key, value.parse().unwrap());
            }
            request
        };
        let mut client = server.client().await;
        for status in [
            client.ask(request()).await.unwrap_err(),
            client.ask_stream(request()).await.unwrap_err(),
        ] {
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            let details = status.get_details_bad_request().unwrap();
            assert_eq!(details.field_violations[0].field, key);
            assert!(status.message().contains("once"), "{status}");
        }
    }
    let mut finish = Request::new(finish("q"));
    for tenant in ["a", "b"] {
        let tenant = tenant.parse().unwrap();
        finish.metadata_mut().append("spechop-tenant", tenant);
    }
    let status = server.client().await.finish_now(finish).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert_eq!(server.ports.started(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_cannot_be_read_is_wrong() {
    let server = Server::start(Script::instant(1)).await;
    let mut client = server.client().await;
    let mut ask = Request::new(question());
    let mut finish = Request::new(finish("q"));
    for metadata in [ask.metadata_mut(), finish.metadata_mut()] {
        metadata.insert("grpc-timeout", "soon".parse().unwrap());
    }
    for status in [
        client.ask(ask).await.unwrap_err(),
        client.finish_now(finish).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        let details = status.get_details_bad_request().unwrap();
        assert_eq!(details.field_violations[0].field, "grpc-timeout");
    }
    assert_eq!(server.ports.started(), 0);
}

/// A planner that takes short questions, and few hops.
struct Narrow(ScriptedPorts);

#[async_trait::async_trait]
impl Planner for Narrow {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        if request.question.as_str().len() > 100 || request.hops.len() > 1 {
            let detail = "it reads 100 bytes and a hop";
            return Err(PortError::too_long("the planner", detail));
        }
        self.0.plan(call, request).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_too_long_for_the_planner_is_the_clients_mistake() {
    let server = Server::with(Script::instant(3), config(""), |ports| Bare {
        planner: Arc::new(Narrow(ports.clone())),
        ..bare(ports)
    })
    .await;
    let long = AskRequest {
        question: "a".repeat(4000),
        ..question()
    };
    let status = server.ask(long.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let details = status.get_details_bad_request().unwrap();
    assert_eq!(details.field_violations[0].field, "question");
    assert!(status.message().contains("100 bytes"), "{status}");
    let streamed = failure(server.stream(long).await).await;
    assert_eq!(streamed.message(), status.message());
    let outcome = |name: &str| format!("spechop_questions_total{{outcome=\"{name}\"}}");
    assert_eq!(server.metric(&outcome("invalid")).await, 2);

    // Hops that outgrow the planner are nobody's mistake.
    let status = server.ask(at(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert_eq!(server.metric(&outcome("failed")).await, 1);
}

/// A request whose question is not UTF-8.
#[derive(Clone, PartialEq, Message)]
struct Bytes {
    #[prost(bytes = "vec", tag = "1")]
    question: Vec<u8>,
}

/// A request whose question is a number.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    question: u64,
}

async fn send<M: Message + 'static>(server: &Server, method: &'static str, message: M) -> Status {
    let mut client = tonic::client::Grpc::new(server.channel().await);
    client.ready().await.unwrap();
    let codec = ProstCodec::<M, AskResponse>::default();
    client
        .unary(Request::new(message), method.parse().unwrap(), codec)
        .await
        .unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_the_senders_mistake() {
    let server = Server::start(Script::instant(1)).await;
    for method in ["/spechop.v1.SpecHop/Ask", "/spechop.v1.SpecHop/AskStream"] {
        for question in [
            vec![0xff, 0xfe, b'?'],
            b"caf\xe9".to_vec(),
            vec![0xed, 0xa0, 0x80],
        ] {
            let status = send(&server, method, Bytes { question }).await;
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            assert!(status.message().contains("UTF-8"), "{status}");
        }
        let status = send(&server, method, Number { question: 7 }).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");

        let status = send(
            &server,
            method,
            Bytes {
                question: vec![b'a'; 1 << 20],
            },
        )
        .await;
        assert_eq!(status.code(), Code::OutOfRange, "{status}");
        assert!(
            status.message().contains("16384"),
            "names the limit: {status}"
        );
    }
    let status = send(&server, "/spechop.v1.SpecHop/Tell", Number { question: 7 }).await;
    assert_eq!(status.code(), Code::Unimplemented);
    server.ask(question()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_part_is_named() {
    for (stage, words) in [
        (Stage::Segment, "segment stage"),
        (Stage::Target, "target stage"),
    ] {
        let mut script = Script::instant(2);
        script.failures.insert((1, stage), u32::MAX);
        let server = Server::start(script).await;
        let status = server.ask(question()).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        // So a client can tell it from a connection that was lost.
        assert!(status.metadata().contains_key("spechop-ended"));
        assert!(
            status.message().starts_with("hop 2 got nothing from its"),
            "{status}"
        );
        assert!(status.message().contains(words) && status.message().contains("so it is written"));
        server.is_idle().await;
    }
    // A speculator that never works costs nothing but time.
    let mut script = Script::instant(2);
    for hop in 0..2 {
        script.failures.insert((hop, Stage::Speculation), u32::MAX);
    }
    let expected = script.answer();
    let server = Server::start(script).await;
    assert_eq!(server.ask(question()).await.unwrap().answer, expected);
}
