//! What was verified before is guessed again, and verified anew: over the wire, over restarts, and beside
//! other speculators.

#![allow(clippy::unwrap_used, reason = "a test")]

use spechop_proto::admin_client::AdminClient;
use spechop_proto::{AskResponse, CommitKind, GetTuningRequest};
use spechop_testkit::{Script, SharedMap};
use tonic::Code;

use crate::support::{Server, at, config, eventually, of, question};

/// Two hops; a look-up takes long enough for any guess.
fn script(right: bool) -> Script {
    Script::steady(&[right, right], 2, 60, 2)
}

async fn ask(server: &Server, tenant: &str, speculator: &str) -> AskResponse {
    let request = at(3).with(|asked| asked.speculator = Some(speculator.to_owned()));
    let answer = server.client().await.ask(of(tenant, request)).await;
    answer.unwrap().into_inner()
}

/// Of each hop: how it came about, and whose guess it was.
fn hops(answer: &AskResponse) -> Vec<(CommitKind, Option<&str>)> {
    let hop = |hop: &'_ spechop_proto::Hop| hop.kind();
    let kinds = answer.hops.iter().map(hop);
    let by = answer.hops.iter().map(|hop| hop.guess_by.as_deref());
    kinds.zip(by).collect()
}

fn judged(speculator: &str, verdict: &str) -> String {
    format!("spechop_guesses_total{{speculator=\"{speculator}\",verdict=\"{verdict}\"}}")
}

#[tokio::test]
async fn what_was_verified_is_guessed_again() {
    let server = Server::remembering(script(true), config("")).await;
    let first = ask(&server, "a", "memory").await;
    assert_eq!(hops(&first), [(CommitKind::Observed, None); 2]);
    let second = ask(&server, "a", "memory").await;
    assert_eq!(hops(&second), [(CommitKind::Accepted, None); 2]);
    assert_eq!(second.answer, first.answer);
    // Its answer was there while the first hop was looked up.
    let first_answer = second.first_answer.unwrap();
    assert!(first_answer.chance < 1.0 && first_answer.at_ms < first_answer.confirmed_ms);
    // Another tenant has asked nothing.
    let other = ask(&server, "b", "memory").await;
    assert_eq!(hops(&other), [(CommitKind::Observed, None); 2]);
    assert_eq!(server.metric(&judged("memory", "right")).await, 2);
    assert_eq!(server.metric(&judged("memory", "none")).await, 4);
}

#[tokio::test]
async fn what_others_guessed_wrongly_is_not_what_is_remembered() {
    let server = Server::remembering(script(false), config("")).await;
    let first = ask(&server, "a", "llm").await;
    assert_eq!(hops(&first)[0], (CommitKind::Rejected, None));
    let second = ask(&server, "a", "memory").await;
    assert_eq!(hops(&second), [(CommitKind::Accepted, None); 2]);
    assert_eq!(server.metric(&judged("llm", "wrong")).await, 2);
}

#[tokio::test]
async fn a_cascade_tells_whose_guess_it_was() {
    let toml = "[speculator]\nkind = \"cascade\"\ncascade = [\"memory\", \"llm\"]\n\
                cascade_confidence = 0.5\nmemory_file = \"none\"";
    let server = Server::remembering(script(true), config(toml)).await;
    for member in ["llm", "memory"] {
        let answer = ask(&server, "a", "cascade").await;
        assert_eq!(hops(&answer), [(CommitKind::Accepted, Some(member)); 2]);
        assert_eq!(server.metric(&judged(member, "right")).await, 2);
    }
    assert_eq!(server.metric(&judged("cascade", "right")).await, 0);
    let mut admin = AdminClient::new(server.channel().await);
    let tunings = admin.get_tuning(of("a", GetTuningRequest {})).await;
    let tunings = tunings.unwrap().into_inner().tunings;
    let cascade = tunings
        .iter()
        .find(|tuning| tuning.speculator == "cascade")
        .unwrap();
    let members = cascade.members.iter();
    let members: Vec<_> = members
        .map(|m| (&*m.speculator, m.guesses, m.accepted))
        .collect();
    assert_eq!(members, [("llm", 2, 2), ("memory", 2, 2)]);
}

#[tokio::test]
async fn servers_share_what_they_have_verified() {
    let entries = SharedMap::default();
    let one = Server::sharing(script(true), entries.clone(), config("")).await;
    let other = Server::sharing(script(true), entries.clone(), config("")).await;
    let first = ask(&one, "a", "memory").await;
    assert_eq!(hops(&first), [(CommitKind::Observed, None); 2]);
    eventually(|| entries.all().len() == 2).await;
    let second = ask(&other, "a", "memory").await;
    assert_eq!(hops(&second), [(CommitKind::Accepted, None); 2]);
    let stranger = ask(&other, "b", "memory").await;
    assert_eq!(hops(&stranger), [(CommitKind::Observed, None); 2]);
}

#[tokio::test]
async fn a_shared_memory_that_is_out_of_reach_hurts_no_question() {
    let entries = SharedMap::default();
    let mut one = Server::sharing(script(true), entries.clone(), config("")).await;
    entries.set_down(true);
    let first = ask(&one, "a", "memory").await;
    let second = ask(&one, "a", "memory").await;
    for answer in [&first, &second] {
        assert_eq!(hops(answer), [(CommitKind::Observed, None); 2]);
    }
    assert_eq!(first.answer, second.answer);
    // Not asked at every guess, and what was verified is written before the server has ended, if it can be.
    assert!(entries.asked() < 4, "{}", entries.asked());
    one.shut_down();
    one.ended().await.unwrap();
    assert_eq!(entries.all(), []);
}

#[tokio::test]
async fn a_server_without_one_says_so() {
    let server = Server::start(script(true)).await;
    let refused = server
        .ask(question().with(|asked| asked.speculator = Some("memory".to_owned())))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn it_is_known_after_a_restart_unless_the_file_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("memory.json");
    let config = config(&format!("[speculator]\nmemory_file = {file:?}"));
    let mut first = Server::remembering(script(true), config.clone()).await;
    ask(&first, "a", "memory").await;
    first.shut_down();
    first.ended().await.unwrap();

    let second = Server::remembering(script(true), config.clone()).await;
    let known = ask(&second, "a", "memory").await;
    assert_eq!(hops(&known), [(CommitKind::Accepted, None); 2]);
    let other = ask(&second, "b", "memory").await;
    assert_eq!(hops(&other), [(CommitKind::Observed, None); 2]);
    drop(second);

    let text = std::fs::read_to_string(&file).unwrap();
    let damaged = text.replace("fact 0", "fact 9");
    assert_ne!(text, damaged);
    std::fs::write(&file, &damaged).unwrap();
    let third = Server::remembering(script(true), config).await;
    let anew = ask(&third, "a", "memory").await;
    assert_eq!(hops(&anew), [(CommitKind::Observed, None); 2]);
    let aside = dir.path().join("memory.json.damaged");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), damaged);
}
