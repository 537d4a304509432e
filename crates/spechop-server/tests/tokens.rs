//! Tokens of an identity provider in place of keys, over the wire.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::time::{Duration, SystemTime};

use crate::followed::Followed;
use crate::keys::key;
use crate::over_http::{client, url};
use crate::support::{Server, by, question};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use spechop_proto::GetBackendsRequest;
use spechop_proto::admin_client::AdminClient;
use spechop_testkit::Script;
use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A provider's private key, by its name.
struct Signer {
    name: &'static str,
    pair: EcdsaKeyPair,
}

impl Signer {
    fn new(name: &'static str) -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let made = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random).unwrap();
        Self { name, pair }
    }

    /// As the provider publishes it.
    fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": self.name, "use": "sig" })
    }

    fn token(&self, claims: &Value) -> String {
        let head = json!({ "alg": "ES256", "typ": "JWT", "kid": self.name });
        let [head, claims] = [&head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = format!("{head}.{claims}");
        let signed = self.pair.sign(&SystemRandom::new(), text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signed.unwrap()))
    }
}

/// What a good token says, that is over in so many seconds.
fn claims(seconds: i64) -> Value {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = i64::try_from(now.unwrap().as_secs()).unwrap();
    json!({ "iss": "https://id.example.org/", "aud": ["spechop", "other"], "sub": "team-7", "exp": now + seconds })
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

/// A provider that publishes these keys, and a server that takes its tokens.
async fn provider(keys: &[&Signer]) -> MockServer {
    let provider = MockServer::start().await;
    publish(&provider, keys).await;
    provider
}

async fn publish(provider: &MockServer, keys: &[&Signer]) {
    let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
    let told = ResponseTemplate::new(200).set_body_json(json!({ "keys": keys }));
    provider.reset().await;
    Mock::given(path("/keys"))
        .respond_with(told)
        .mount(provider)
        .await;
}

fn toml(provider: &MockServer) -> String {
    format!(
        "[jwt]\njwks = \"{}/keys\"\nissuer = \"https://id.example.org/\"\naudience = \"spechop\"\nrefresh_ms = 1000\n",
        provider.uri()
    )
}

/// How a question with this token, and in the name of this tenant, ends.
async fn ask(server: &Server, token: &str, tenant: &str) -> (Code, String) {
    let request = by(token, tenant, question());
    match server.client().await.ask(request).await {
        Ok(_) => (Code::Ok, String::new()),
        Err(status) => (status.code(), status.message().to_owned()),
    }
}

/// The same, once the provider's keys have been read.
async fn ask_when_known(server: &Server, token: &str) -> (Code, String) {
    let known = async {
        loop {
            let told = ask(server, token, "").await;
            if told.0 != Code::Unavailable && !told.1.contains("no key of the issuer") {
                return told;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, known).await.expect("the keys are read")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_says_who_asks_and_what_for() {
    let (signer, stranger) = (Signer::new("one"), Signer::new("one"));
    let provider = provider(&[&signer]).await;
    let (ops, lines) = key("ops", "");
    let toml = lines + &toml(&provider);
    let server = Server::configured(Script::instant(1), &toml).await;
    let good = signer.token(&claims(300));
    assert_eq!(ask_when_known(&server, &good).await.0, Code::Ok);
    let token = |claims: Value| signer.token(&claims);
    for (token, tenant, code, words) in [
        (good.clone(), "", Code::Ok, ""),
        (good.clone(), "team-7", Code::Ok, ""),
        (
            good.clone(),
            "team-8",
            Code::PermissionDenied,
            "the token is of tenant team-7, and spechop-tenant names another",
        ),
        // The clocks may differ by a minute.
        (token(claims(-50)), "", Code::Ok, ""),
        (
            token(claims(-70)),
            "",
            Code::Unauthenticated,
            "it has expired",
        ),
        (
            token(with(claims(300), "nbf", json!(4_102_444_800_u64))),
            "",
            Code::Unauthenticated,
            "not valid yet",
        ),
        (
            token(with(claims(300), "iss", json!("https://id.example.com/"))),
            "",
            Code::Unauthenticated,
            "another issuer",
        ),
        (
            token(with(claims(300), "aud", json!("other"))),
            "",
            Code::Unauthenticated,
            "another audience",
        ),
        (
            token(with(claims(300), "exp", Value::Null)),
            "",
            Code::Unauthenticated,
            "must have the claims",
        ),
        (
            token(with(claims(300), "sub", json!("auth0|7"))),
            "",
            Code::PermissionDenied,
            "the token's claim `sub` names no tenant",
        ),
        (
            stranger.token(&claims(300)),
            "",
            Code::Unauthenticated,
            "signature is wrong",
        ),
        (
            "x.y.z".to_owned(),
            "",
            Code::Unauthenticated,
            "not a signed JSON web token",
        ),
        (
            "x".repeat(9000),
            "",
            Code::Unauthenticated,
            "the API key is wrong",
        ),
        (
            "spechop.ops.x".to_owned(),
            "",
            Code::Unauthenticated,
            "the API key is wrong",
        ),
        (ops, "", Code::Ok, ""),
    ] {
        let (told, message) = ask(&server, &token, tenant).await;
        assert_eq!(told, code, "{message}");
        assert!(message.contains(words), "{message}");
    }
    let refused = |reason: &str| format!("spechop_requests_refused_total{{reason=\"{reason}\"}}");
    // Metrics take the role, too; these are read by the key's owner below.
    let admin = token(with(claims(300), "roles", json!(["spechop-admin"])));
    let page = client()
        .get(url(&server, "/metrics"))
        .bearer_auth(&admin)
        .send()
        .await
        .unwrap();
    let page = page.text().await.unwrap();
    for (reason, times) in [("wrong_token", 7), ("no_tenant", 1)] {
        let line = format!("{} {times}\n", refused(reason));
        assert!(page.contains(&line), "{reason}: {page}");
    }
    for (token, code) in [(&good, Code::PermissionDenied), (&admin, Code::Ok)] {
        let mut client = AdminClient::new(server.channel().await);
        let request = by(token, "", GetBackendsRequest {});
        let told = client.get_backends(request).await;
        assert_eq!(told.map_or_else(|status| status.code(), |_| Code::Ok), code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_change_are_read_again_and_those_that_were_read_stay() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let provider = provider(&[&old]).await;
    let server = Server::configured(Script::instant(1), &toml(&provider)).await;
    let [by_old, by_new] = [&old, &new].map(|signer| signer.token(&claims(300)));
    assert_eq!(ask_when_known(&server, &by_old).await.0, Code::Ok);
    assert_eq!(ask(&server, &by_new, "").await.0, Code::Unauthenticated);
    // A token that names a new key is the reason to look.
    publish(&provider, &[&old, &new]).await;
    assert_eq!(ask_when_known(&server, &by_new).await.0, Code::Ok);
    // A provider that is ill, or says nonsense, takes nothing away.
    for answer in [
        ResponseTemplate::new(500),
        ResponseTemplate::new(200).set_body_string("<html>sign in</html>"),
        ResponseTemplate::new(200).set_body_json(json!({ "keys": [] })),
        ResponseTemplate::new(302).insert_header("location", "/elsewhere"),
        ResponseTemplate::new(200).set_body_bytes(vec![b' '; 2 << 20]),
    ] {
        provider.reset().await;
        Mock::given(path("/keys"))
            .respond_with(answer)
            .expect(1..)
            .mount(&provider)
            .await;
        // Whoever asks for the second time has read the first answer.
        let asked = async {
            while provider.received_requests().await.unwrap().len() < 2 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, asked).await.expect("it is asked again");
        assert_eq!(ask(&server, &by_old, "").await.0, Code::Ok);
    }
    // One that was withdrawn counts no more.
    publish(&provider, &[&new]).await;
    let withdrawn = async {
        while ask(&server, &by_old, "").await.0 == Code::Ok {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, withdrawn).await.expect("it is withdrawn");
    assert_eq!(ask(&server, &by_new, "").await.0, Code::Ok);
}

/// The operator changes what tokens must say while the provider is down.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_were_read_stay_when_something_else_changes() {
    let signer = Signer::new("one");
    let provider = provider(&[&signer]).await;
    let followed = Followed::start(Script::instant(1), &toml(&provider)).await;
    let token = signer.token(&claims(300));
    assert_eq!(ask_when_known(&followed.server, &token).await.0, Code::Ok);
    provider.reset().await;
    let changed = format!("{}leeway_ms = 61000\n", toml(&provider));
    followed.takes_up(&changed).await;
    assert_eq!(ask(&followed.server, &token, "").await.0, Code::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn until_the_keys_are_known_clients_hear_when_to_try_again() {
    let signer = Signer::new("one");
    let provider = MockServer::start().await;
    let server = Server::configured(Script::instant(1), &toml(&provider)).await;
    let token = signer.token(&claims(300));
    let request = by(&token, "", question());
    let status = server.client().await.ask(request).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(1)));
    // Whoever shows nothing hears that something is wanted.
    let status = server.client().await.ask(question()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    // Nobody can be let in, so nobody should be sent here.
    let ready = async || {
        let answer = client().get(url(&server, "/readyz")).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let (code, told) = ready().await;
    assert_eq!(code, 503);
    let missing = r#""name":"issuer","needed":true,"ready":false"#;
    assert!(told.contains(missing), "{told}");
    let mut health = HealthClient::new(server.channel().await);
    let mut says = async |service: &str| {
        let service = service.to_owned();
        let told = health.check(HealthCheckRequest { service }).await.unwrap();
        told.into_inner().status()
    };
    let service = "spechop.v1.SpecHop";
    let told = async { while says(service).await != ServingStatus::NotServing {} };
    timeout(PATIENCE, told).await.expect("health says so");
    assert_eq!(says("").await, ServingStatus::Serving, "it is alive");
    publish(&provider, &[&signer]).await;
    assert_eq!(ask_when_known(&server, &token).await.0, Code::Ok);
    assert_eq!(ready().await.0, 200);
    let told = async { while says(service).await != ServingStatus::Serving {} };
    timeout(PATIENCE, told).await.expect("health says so");
}
