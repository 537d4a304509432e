//! Faults on purpose: whatever ports do, an answer is the undisturbed one, or there is an error that says
//! what failed.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use spechop_proto::AskRequest;
use spechop_testkit::Script;
use tokio::task::JoinSet;
use tonic::Code;

use crate::support::{Server, at, eventually};

fn script() -> Script {
    Script::steady(&[true, false, true], 1, 4, 1)
}

fn asked(k: u32) -> AskRequest {
    at(k).with(|asked| asked.fresh = true)
}

/// Asks `count` questions, eight at once; how often each answer or status came.
async fn ask_all(server: &Server, count: u32) -> BTreeMap<String, u32> {
    let client = server.client().await;
    let mut seen = BTreeMap::new();
    let mut under_way = JoinSet::new();
    for n in 0..count {
        let mut client = client.clone();
        under_way.spawn(async move { client.ask(asked(1 + n % 4)).await });
        if under_way.len() == 8 {
            note(&mut seen, under_way.join_next().await.unwrap().unwrap());
        }
    }
    while let Some(done) = under_way.join_next().await {
        note(&mut seen, done.unwrap());
    }
    seen
}

fn note(
    seen: &mut BTreeMap<String, u32>,
    done: Result<tonic::Response<spechop_proto::AskResponse>, tonic::Status>,
) {
    let what = match done {
        Ok(answer) => answer.into_inner().answer,
        Err(status) => {
            assert!(!status.message().is_empty());
            format!("{:?}", status.code())
        }
    };
    *seen.entry(what).or_default() += 1;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_the_undisturbed_one_or_there_is_an_error() {
    let exact = "[question]\nverifier = \"exact\"\ndeadline_ms = 1500\n[server]\nrequests_per_second = 100000\n";
    let calm = Server::configured(script(), exact).await;
    let expected = calm.ask(asked(1)).await.unwrap().answer;
    assert_eq!(expected, script().answer());

    let chaos = "[chaos]\nseed = 5\nlate = 0.05\nlate_ms = 20\nerror = 0.03\nhang = 0.01\ngarbage = 0.05\n\
                 disconnect = 0.03";
    let server = Server::configured(script(), &format!("{exact}{chaos}")).await;
    let seen = ask_all(&server, 120).await;
    let clear = [Code::Unavailable, Code::Internal, Code::DeadlineExceeded];
    let clear: Vec<_> = clear.iter().map(|code| format!("{code:?}")).collect();
    for what in seen.keys() {
        assert!(*what == expected || clear.contains(what), "{seen:?}");
    }
    // It was disturbed, and not broken.
    assert!(seen[&expected] > 10, "{seen:?}");
    assert!(seen.len() > 1, "{seen:?}");
    // What hung was cancelled with its question.
    eventually(|| server.ports.live() == 0).await;
}

/// A speculator that talks nothing but garbage costs time, never an answer or an error.
#[tokio::test]
async fn garbage_of_a_speculator_changes_no_answer() {
    let chaos = "[chaos]\ngarbage = 1.0\nports = [\"speculator\"]";
    let server = Server::configured(script(), chaos).await;
    let answer = server.ask(asked(4)).await.unwrap();
    assert_eq!(answer.answer, script().answer());
    let guesses: Vec<_> = answer
        .hops
        .iter()
        .filter_map(|hop| hop.guess.as_deref())
        .collect();
    assert!(!guesses.is_empty(), "{answer:?}");
    assert!(
        guesses.iter().all(|guess| guess.contains("garbage")),
        "{guesses:?}"
    );
}

/// Only the ports that are named have faults, and each fault ends as its own kind of error.
#[tokio::test]
async fn each_port_has_its_own_faults() {
    for (port, fault, code) in [
        ("planner", "error", Code::Unavailable),
        ("retriever", "disconnect", Code::Unavailable),
        ("reader", "garbage", Code::Internal),
    ] {
        let chaos = format!("[chaos]\n{fault} = 1.0\nlate_ms = 1\nports = [\"{port}\"]");
        let server = Server::configured(script(), &chaos).await;
        let status = server.ask(asked(1)).await.unwrap_err();
        assert_eq!(status.code(), code, "{port}: {status:?}");
    }
}
