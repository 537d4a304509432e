//! Whoever goes away takes everything along: calls, tasks, places.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

use std::time::Duration;

use crate::support::{
    Server, endless, eventually, failure, finish, is_own_timer, named, of, question, tasks,
};
use spechop_config::Env;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{AskRequest, CancelRequest, GetAnswerRequest, ResumeRequest};
use spechop_testkit::Script;
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Code, Request};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_its_question() {
    let server = Server::start(endless()).await;
    let mut client = server.client().await;
    let asking = client.ask(question());
    tokio::select! {
        _ = asking => panic!("there is no end to it"),
        () = eventually(|| server.ports.live() > 1) => {}
    }
    server.is_idle().await;

    let mut stream = client.ask_stream(question()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    eventually(|| server.ports.live() > 1).await;
    drop(stream);
    server.is_idle().await;

    // The whole connection, not only the call.
    let mut stream = client.ask_stream(question()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    drop((client, stream));
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_cancelled_questions_leave_nothing() {
    const WAVE: usize = 50;
    let toml = "[server]\nquestions_max = 100\n[scheduler.retriever]\ncapacity = 1000";
    let server = Server::configured(endless(), toml).await;
    let client = server.client().await;
    // One question first, so that whatever stays for good is there.
    drop(client.clone().ask_stream(question()).await.unwrap());
    server.is_idle().await;
    let before = tasks();
    for wave in 0..1250 / WAVE {
        let mut asking = JoinSet::new();
        for i in 0..WAVE {
            let mut client = client.clone();
            // Tenants share no look-ups, so that each question has its own.
            let question = of(&format!("t{i}"), question());
            asking.spawn(async move {
                if i % 2 == 0 {
                    let _ = client.ask(question).await;
                } else if let Ok(stream) = client.ask_stream(question).await {
                    let mut stream = stream.into_inner();
                    while let Ok(Some(_)) = stream.message().await {}
                }
            });
        }
        // Cancelled in different moments of their lives; 250 perhaps before they have begun.
        match wave {
            0..10 => eventually(|| server.ports.live() >= 2 * WAVE).await,
            10..20 => eventually(|| server.gauges.questions_open() == WAVE).await,
            _ => tokio::task::yield_now().await,
        }
        asking.shutdown().await;
        server.is_idle().await;
    }
    eventually(|| tasks() <= before).await;
    hold_nothing(&server).await;
    assert!(
        server.ports.started() >= 1000,
        "they had begun: {}",
        server.ports.started()
    );
}

/// Questions that go away at four moments of their lives. SPECHOP_CANCELS says how many, 100,000 in `deploy/attack.sh`;
/// 2,000 if it is not set.
#[tokio::test(flavor = "multi_thread")]
async fn many_cancels_leave_no_task_and_no_call() {
    const AT_ONCE: usize = 40;
    // A connection on which a thousand streams were taken back is closed (ENHANCE_YOUR_CALM).
    const WAVES_A_CONNECTION: usize = 10;
    let env = Env::read().unwrap();
    let cancels: usize = env
        .get("SPECHOP_CANCELS")
        .map_or(2_000, |n| n.parse().unwrap());
    let toml = "[server]\nquestions_max = 100\nrequests_per_second = 1000000\n\
                [scheduler.retriever]\ncapacity = 1000\n[scheduler.generator]\ncapacity = 1000";
    let server = Server::configured(endless(), toml).await;
    let mut client = server.client().await;
    // One question first, so that whatever stays for good is there.
    drop(client.clone().ask_stream(question()).await.unwrap());
    server.is_idle().await;
    let before = tasks();
    for wave in 0..cancels / AT_ONCE {
        if wave % WAVES_A_CONNECTION == 0 {
            client = server.client().await;
        }
        let mut asking = JoinSet::new();
        for i in 0..AT_ONCE {
            let client = client.clone();
            asking.spawn(cancelled(client, format!("q{wave}-{i}"), i % 4));
        }
        while let Some(asked) = asking.join_next().await {
            asked.unwrap();
        }
        // Their places are free again soon, or the next wave would be refused.
        eventually(|| server.gauges.questions_open() == 0).await;
    }
    server.is_idle().await;
    eventually(|| tasks() <= before).await;
    hold_nothing(&server).await;
}

/// No call runs at any backend, and none waits.
async fn hold_nothing(server: &Server) {
    for backend in server.backends().await {
        let running = backend.running_authoritative + backend.running_speculative;
        let waiting = backend.waiting_authoritative + backend.waiting_speculative;
        assert_eq!((running, waiting), (0, 0), "{}", backend.name);
    }
}

/// Asks, and takes it back at this moment.
async fn cancelled(mut client: SpecHopClient<Channel>, name: String, moment: usize) {
    let mut asked = question();
    match moment {
        // As soon as it is on its way, or before.
        0 => tokio::select! {
            biased;
            _ = client.ask(asked) => panic!("there is no end to it"),
            () = tokio::task::yield_now() => {}
        },
        // When the answer has begun.
        1 => drop(client.ask_stream(asked).await.unwrap()),
        // When something has happened.
        2 => {
            let mut stream = client.ask_stream(asked).await.unwrap().into_inner();
            stream.message().await.unwrap();
        }
        // By the call that is there for it.
        _ => {
            asked.question_id.clone_from(&name);
            let stream = client.ask_stream(asked).await.unwrap().into_inner();
            let cancel = CancelRequest { question_id: name };
            client.cancel(cancel).await.unwrap();
            assert_eq!(failure(stream).await.code(), Code::Cancelled);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_not_said_to_be_unheard_of() {
    let cancel = || CancelRequest {
        question_id: "q".to_owned(),
    };
    // Nobody remembers a question whose client has gone away.
    let server = Server::start(endless()).await;
    let mut client = server.client().await;
    drop(client.ask_stream(named("q")).await.unwrap());
    server.is_idle().await;
    let again = client.cancel(cancel()).await.unwrap_err();
    // An answered one is known, and cannot end early any more.
    let server = Server::start(Script::instant(1)).await;
    let mut client = server.client().await;
    client.ask(named("q")).await.unwrap();
    let late = client.finish_now(finish("q")).await.unwrap_err();
    for status in [again, late] {
        assert_eq!(status.code(), Code::NotFound);
        let words = "no question q is open on this server: it has ended, or has not begun";
        assert_eq!(status.message(), words);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_back_to_a_cancelled_question_hears_so() {
    let server = Server::start(endless()).await;
    let mut client = server.client().await;
    let question_id = || "q".to_owned();
    let cancel = || CancelRequest {
        question_id: question_id(),
    };
    let stream = client.ask_stream(named("q")).await.unwrap().into_inner();
    client.cancel(cancel()).await.unwrap();
    assert_eq!(failure(stream).await.code(), Code::Cancelled);
    server.is_idle().await;
    client.cancel(cancel()).await.unwrap();
    let wanted = GetAnswerRequest {
        question_id: question_id(),
    };
    let status = client.get_answer(wanted).await.unwrap_err();
    assert_eq!(status.code(), Code::Cancelled, "{status}");
    let resumed = ResumeRequest {
        question_id: question_id(),
        after: 0,
    };
    let stream = client.resume(resumed).await.unwrap().into_inner();
    assert_eq!(failure(stream).await.code(), Code::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_questions_at_once_are_refused() {
    let toml = "[server]\nquestions_max = 2\nqueue_ms = 0";
    let server = Server::configured(endless(), toml).await;
    let mut client = server.client().await;
    let first = client.ask_stream(question()).await.unwrap();
    let second = client.ask_stream(question()).await.unwrap();
    for status in [
        client.ask_stream(question()).await.unwrap_err(),
        client.ask(question()).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("2 questions"), "{status}");
    }
    drop(first);
    eventually(|| server.gauges.questions_open() == 1).await;
    let third = client.ask_stream(question()).await.unwrap();
    drop((second, third));
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_earliest_deadline_counts() {
    let long = Duration::from_secs(3600);
    for (toml, deadline_ms, timeout) in [
        ("", Some(60), None),
        ("", None, Some(Duration::from_secs(1))),
        ("[question]\ndeadline_ms = 60", None, None),
        ("[question]\ndeadline_ms = 60", Some(3_600_000), Some(long)),
        ("", Some(60), Some(long)),
    ] {
        let server = Server::configured(endless(), toml).await;
        let mut client = server.client().await;
        let request = || {
            let mut request = Request::new(AskRequest {
                deadline_ms,
                ..question()
            });
            if let Some(timeout) = timeout {
                request.set_timeout(timeout);
            }
            request
        };
        let status = client.ask(request()).await.unwrap_err();
        // The client's own timer is a tenth of a second behind the server's, and may be heard first.
        let has_own_timer = timeout.is_some_and(|timeout| timeout < long);
        if !(has_own_timer && is_own_timer(&status)) {
            assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
            assert!(status.message().contains("the deadline passed"), "{status}");
        }

        let status = failure(server.stream(request()).await).await;
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        server.is_idle().await;
    }
    // A deadline that is not reached changes nothing.
    let server = Server::start(Script::instant(1)).await;
    let mut request = Request::new(question());
    request.set_timeout(long);
    server.client().await.ask(request).await.unwrap();
}
