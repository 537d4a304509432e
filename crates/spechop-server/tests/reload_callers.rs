//! Who may ask changes while the server runs: keys, the files that hold them, and the issuer of tokens.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::followed::Followed;
use crate::keys::key;
use crate::over_http::{client, url};
use crate::reload::k_of;
use crate::support::{by, eventually, home, named, question, replace, written};
use serde_json::{Value, json};
use spechop_proto::CancelRequest;
use spechop_proto::ask_event::Event;
use spechop_testkit::{OwnPort, Script};
use tonic::{Code, Request, Status};

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// Tokens of another implementation, and the public keys for them.
const TOKENS: &str = include_str!("../src/jwt/tokens.json");

fn with<T>(key: &str, message: T) -> Request<T> {
    by(key, "", message)
}

/// Who has no configuration file may still change the keys.
#[tokio::test(flavor = "multi_thread")]
async fn the_bell_has_keys_read_although_there_is_no_configuration_file() {
    let home = home();
    let path = home.path().join("keys.toml");
    let ((old, old_lines), (new, new_lines)) = (key("old", ""), key("new", ""));
    fs::write(&path, old_lines).unwrap();
    let mut written = written("", "");
    written.file = None;
    let path_flag = ["server.keys_file", "--set", path.to_str().unwrap()].map(str::to_owned);
    // By itself it would look in an hour.
    let seldom = ["server.reload_ms", "--set", "3600000"].map(str::to_owned);
    written.flags.extend([path_flag.into(), seldom.into()]);
    let followed = Followed::of(Script::instant(1), written, home).await;
    let asks = async |key: &str| {
        let mut client = followed.server.client().await;
        let asked = client.ask(with(key, question())).await;
        asked.map_err(|status| status.code())
    };
    asks(&old).await.unwrap();
    assert_eq!(asks(&new).await.unwrap_err(), Code::Unauthenticated);
    fs::write(&path, new_lines).unwrap();
    followed.bell.notify_one();
    let changes = async { while asks(&new).await.is_err() {} };
    tokio::time::timeout(PATIENCE, changes)
        .await
        .expect("the keys were read");
    assert_eq!(asks(&old).await.unwrap_err(), Code::Unauthenticated);
}

/// What was let in stays in; everything new that the key asks for is refused, news of its own question
/// included.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_opens_nothing_and_its_stream_is_read_to_its_end() {
    let (stays, one) = key("stays", "");
    let (goes, two) = key("goes", "");
    let script = Script::steady(&[true, true, true], 5, 200, 5);
    let expected = script.answer();
    let followed = Followed::start(script, &format!("{one}{two}")).await;
    let mut client = followed.server.client().await;
    let stream = client.ask_stream(with(&goes, named("mine"))).await.unwrap();
    let mut stream = stream.into_inner();
    assert!(stream.message().await.unwrap().is_some());
    followed.takes_up(&one).await;
    let refused = |status: Status| assert_eq!(status.code(), Code::Unauthenticated);
    refused(client.ask(with(&goes, question())).await.unwrap_err());
    let cancel = CancelRequest {
        question_id: "mine".to_owned(),
    };
    refused(client.cancel(with(&goes, cancel)).await.unwrap_err());
    client.ask(with(&stays, question())).await.unwrap();
    let mut answer = None;
    while let Some(event) = stream.message().await.unwrap() {
        if let Some(Event::Answer(last)) = event.event {
            answer = Some(last.answer);
        }
    }
    assert_eq!(answer, Some(expected));
    // A file without any key, such as one that was cut off, lets nobody in who has none.
    followed.refuses("").await;
    refused(followed.server.ask(question()).await.unwrap_err());
    client.ask(with(&stays, question())).await.unwrap();
}

/// What a server has opened may be gone from the disk when its keys change.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_revoked_although_the_index_of_the_start_is_gone() {
    let ((stays, one), (goes, two)) = (key("stays", ""), key("goes", ""));
    let [start, next] = [(); 2].map(|()| home());
    let toml = |keys: &str, index: &Path| format!("{keys}[index]\ndir = {index:?}\n");
    let both = one.clone() + &two;
    let followed = Followed::start(Script::instant(1), &toml(&both, start.path())).await;
    followed.takes_up(&toml(&both, next.path())).await;
    drop(start);
    followed.takes_up(&toml(&one, next.path())).await;
    let mut client = followed.server.client().await;
    client.ask(with(&stays, question())).await.unwrap();
    let status = client.ask(with(&goes, question())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
}

/// Nobody has touched the key of the index.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_revoked_although_the_index_that_is_served_is_gone() {
    let ((stays, one), (goes, two)) = (key("stays", ""), key("goes", ""));
    let start = home();
    let index = format!("[index]\ndir = {:?}\n", start.path());
    let toml = |keys: &str| format!("{keys}{index}");
    let followed = Followed::start(Script::instant(1), &toml(&(one.clone() + &two))).await;
    drop(start);
    followed.takes_up(&toml(&one)).await;
    let mut client = followed.server.client().await;
    client.ask(with(&stays, question())).await.unwrap();
    let status = client.ask(with(&goes, question())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
}

/// The file itself is right, and another one that it names is not there yet. Nobody rings, and nobody touches
/// the file again. Until it counts, a key that it takes away is still taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_refused_counts_as_soon_as_the_others_are_right() {
    let ((old, old_lines), (new, new_lines)) = (key("old", ""), key("new", ""));
    let often = "[server]\nreload_ms = 20";
    let followed = Followed::start(Script::instant(1), &format!("{often}\n{old_lines}")).await;
    let gauges = &followed.server.gauges;
    let counted = || (gauges.config_refusals(), gauges.config_generation());
    let later = || tokio::time::sleep(Duration::from_millis(200));
    let asks = async |key: &str| {
        let mut client = followed.server.client().await;
        let answer = client.ask(with(key, question())).await;
        let k = answer.map(|answer| k_of(&answer.into_inner()));
        k.map_err(|status| status.code())
    };
    let elsewhere = home();
    let keys = elsewhere.path().join("keys.toml");
    let toml = format!("{often}\nkeys_file = {keys:?}\n[question]\nk = 4\n");
    replace(&followed.file, &toml);
    // Each reason is told once, however often it is looked at.
    eventually(|| counted() == (1, 1)).await;
    later().await;
    assert_eq!(counted(), (1, 1));
    replace(&keys, "keys = 7");
    eventually(|| counted() == (2, 1)).await;
    later().await;
    assert_eq!(counted(), (2, 1));
    assert_eq!(asks(&old).await, Ok(Some(3)));
    replace(&keys, &new_lines);
    eventually(|| counted() == (2, 2)).await;
    assert_eq!(asks(&old).await, Err(Code::Unauthenticated));
    assert_eq!(asks(&new).await, Ok(Some(4)));
    // From then on nothing is tried again.
    later().await;
    assert_eq!(counted(), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_of_tokens_is_taken_up_and_its_file_followed() {
    let made: Value = serde_json::from_str(TOKENS).unwrap();
    let token = made["tokens"][0]["token"].as_str().unwrap();
    let followed = Followed::start(Script::instant(1), "").await;
    followed.server.ask(question()).await.unwrap();
    let keys = tempfile::NamedTempFile::new().unwrap();
    fs::write(keys.path(), made["jwks"].to_string()).unwrap();
    let toml = format!(
        "[jwt]\njwks = \"{}\"\nissuer = \"https://id.example.org/\"\naudience = \"spechop\"\nrefresh_ms = 1000\n",
        keys.path().display()
    );
    followed.takes_up(&toml).await;
    let ask = async || {
        let mut client = followed.server.client().await;
        client.ask(with(token, question())).await
    };
    ask().await.unwrap();
    let status = followed.server.ask(question()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    // A file without keys takes nothing away; one with others counts.
    fs::write(keys.path(), "{}").unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    ask().await.unwrap();
    let others = json!({ "keys": [made["jwks"]["keys"][2]] });
    fs::write(keys.path(), others.to_string()).unwrap();
    let withdrawn = async {
        while ask().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, withdrawn).await.unwrap();
    followed.refuses("").await;
    let status = followed.server.ask(question()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
}

/// The next look at the file comes in ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_place_of_an_issuer_that_is_gone_is_told_as_read_at_once() {
    let made: Value = serde_json::from_str(TOKENS).unwrap();
    let (admin, lines) = key("admin", "roles = [\"ask\", \"admin\"]");
    let keys = tempfile::NamedTempFile::new().unwrap();
    fs::write(keys.path(), made["jwks"].to_string()).unwrap();
    let toml = |jwks: &str| {
        format!(
            "{lines}[jwt]\njwks = \"{jwks}\"\nissuer = \"https://id.example.org/\"\naudience = \"spechop\"\n"
        )
    };
    let nobody = OwnPort::reserve();
    let gone = toml(&format!("http://{}/keys", nobody.address()));
    let followed = Followed::start(Script::instant(1), &gone).await;
    let is_told = async |value: u8| {
        let line = format!("spechop_last_read_successful{{source=\"jwks\"}} {value}\n");
        let page = async || {
            let asked = client().get(url(&followed.server, "/metrics"));
            let asked = asked.bearer_auth(&admin).send();
            asked.await.unwrap().text().await.unwrap()
        };
        let told = async { while !page().await.contains(&line) {} };
        let told = tokio::time::timeout(PATIENCE, told).await;
        told.expect("it is told");
    };
    is_told(0).await;
    let file = keys.path().display().to_string();
    followed.takes_up(&toml(&file)).await;
    is_told(1).await;
}
