use std::fs;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

/// Made by `make_tokens.py`, that is by another implementation.
const MADE: &str = include_str!("tokens.json");

const NAME: &str = "https://id.example.org/";

fn issuer() -> Issuer {
    Issuer {
        keys: KeySource::Url("https://id.example.org/keys".to_owned()),
        name: NAME.to_owned(),
        audience: "spechop".to_owned(),
        tenant_claim: "sub".to_owned(),
        roles_claim: "roles".to_owned(),
        admin_role: "spechop-admin".to_owned(),
        leeway: Duration::from_secs(60),
        refresh: Duration::from_mins(10),
    }
}

/// An issuer whose keys are in this file. There is none yet.
fn in_a_file() -> (TempDir, PathBuf, Issuer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let issuer = Issuer {
        keys: KeySource::File(path.clone()),
        ..issuer()
    };
    (folder, path, issuer)
}

/// Tokens of this issuer, whose keys are these.
fn tokens(issuer: Issuer, keys: &Value) -> Tokens {
    let tokens = Tokens::new(issuer, None);
    let keys = KeySet::parse(keys.to_string().as_bytes()).unwrap();
    *tokens.known.write() = Some(Known::now(keys));
    tokens
}

/// `(key, algorithm, token)` of each token, and the keys.
fn made() -> (Value, Vec<(String, String, String)>) {
    let made: Value = serde_json::from_str(MADE).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = made["tokens"].as_array().unwrap().iter();
    let list = list.map(|one| (text(&one["kid"]), text(&one["alg"]), text(&one["token"])));
    (made["jwks"].clone(), list.collect())
}

#[test]
fn every_kind_of_signature_of_another_implementation_is_read() {
    let (keys, list) = made();
    let tokens = tokens(issuer(), &keys);
    let team = Bearer {
        tenant: Tenant::new("team-7").unwrap(),
        roles: BTreeSet::from([Role::Ask]),
    };
    let mut taken = 0;
    for (key, algorithm, token) in &list {
        let checked = tokens.check(token);
        if key == "short" {
            let wrong = TokenError::Wrong("its signature is wrong");
            assert_eq!(checked, Err(wrong), "a key of 1,024 bits");
            continue;
        }
        assert_eq!(checked.as_ref(), Ok(&team), "{key} {algorithm}");
        taken += 1;
    }
    assert_eq!(taken, 9);
}

#[test]
fn no_token_with_a_changed_byte_is_read() {
    let (keys, list) = made();
    let tokens = tokens(issuer(), &keys);
    let (_, _, token) = list.iter().find(|(_, kind, _)| kind == "ES256").unwrap();
    let mut refused = 0;
    for at in 0..token.len() {
        for other in ['A', 'f', '.', '!'] {
            let mut changed = token.clone();
            changed.replace_range(at..=at, &other.to_string());
            // The last letter of a signature holds bits that mean nothing.
            if changed == *token || at + 1 == token.len() {
                continue;
            }
            assert!(tokens.check(&changed).is_err(), "{changed}");
            refused += 1;
        }
    }
    assert!(refused > 800, "{refused}");
    for short in 0..token.len() - 1 {
        assert!(tokens.check(&token[..short]).is_err());
    }
}

/// A token that somebody makes who has nothing but the public keys.
#[test]
fn what_anybody_can_make_is_refused() {
    let (keys, list) = made();
    let tokens = tokens(issuer(), &keys);
    let (_, _, good) = &list[0];
    let parts: Vec<_> = good.split('.').collect();
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    for head in [
        json!({ "alg": "none", "kid": "rsa" }),
        json!({ "alg": "HS256", "kid": "rsa" }),
        json!({ "alg": "RS256", "kid": "p256" }),
        json!({ "alg": "ES256", "kid": "rsa" }),
        json!({ "alg": "RS256", "kid": "unknown" }),
        // Keys that the token itself brings along are not looked at.
        json!({ "alg": "RS256", "kid": "mine", "jwk": keys["keys"][0] }),
        json!({ "alg": "RS256", "jku": "https://evil.example/keys" }),
        json!({ "kid": "rsa" }),
        json!([]),
    ] {
        let head = encode(head);
        for signature in [parts[2], ""] {
            let token = format!("{head}.{}.{signature}", parts[1]);
            assert!(tokens.check(&token).is_err(), "{token}");
        }
    }
    for text in [
        "",
        ".",
        "..",
        "a.b.c",
        "é.é.é",
        &format!("{good}.x"),
        &format!("{good} "),
    ] {
        assert!(tokens.check(text).is_err(), "{text}");
    }
}

#[test]
fn what_a_token_must_say() {
    let (keys, list) = made();
    let token = &list[0].2;
    let checked = |change: &dyn Fn(&mut Issuer)| {
        let mut issuer = issuer();
        change(&mut issuer);
        tokens(issuer, &keys).check(token)
    };
    let wrong = |problem| Err(TokenError::Wrong(problem));
    assert!(checked(&|_| {}).is_ok());
    let other = checked(&|issuer| issuer.name = "https://id.example.org".to_owned());
    assert_eq!(other, wrong("another issuer has made it"));
    let other = checked(&|issuer| issuer.audience = "other".to_owned());
    assert_eq!(other, wrong("it is meant for another audience"));
    let nobody = checked(&|issuer| issuer.tenant_claim = "team".to_owned());
    assert_eq!(nobody, Err(TokenError::NoTenant("team".to_owned())));
    // A number is no name.
    let nobody = checked(&|issuer| issuer.tenant_claim = "exp".to_owned());
    assert_eq!(nobody, Err(TokenError::NoTenant("exp".to_owned())));
}

#[test]
fn roles_are_words_of_a_claim_wherever_it_is() {
    let told = |roles_claim: &str, claims: Value| {
        let issuer = Issuer {
            roles_claim: roles_claim.to_owned(),
            ..issuer()
        };
        let tokens = Tokens::new(issuer, None);
        let mut claims = claims.as_object().unwrap().clone();
        claims.insert("sub".to_owned(), json!("me"));
        tokens.bearer(&claims).unwrap().roles.contains(&Role::Admin)
    };
    for (name, claims, is_admin) in [
        ("roles", json!({}), false),
        ("roles", json!({ "roles": ["spechop-admin"] }), true),
        ("roles", json!({ "roles": ["user", "spechop-admin"] }), true),
        (
            "roles",
            json!({ "roles": ["spechop-administrator"] }),
            false,
        ),
        ("scope", json!({ "scope": "openid spechop-admin" }), true),
        ("scope", json!({ "scope": "openid-spechop-admin" }), false),
        (
            "realm_access.roles",
            json!({ "realm_access": { "roles": ["spechop-admin"] } }),
            true,
        ),
        (
            "https://a.org/roles",
            json!({ "https://a.org/roles": ["spechop-admin"] }),
            true,
        ),
        (
            "roles",
            json!({ "roles": { "spechop-admin": true } }),
            false,
        ),
        ("a.b", json!({ "a": "spechop-admin" }), false),
    ] {
        assert_eq!(told(name, claims.clone()), is_admin, "{name} {claims}");
    }
}

#[test]
fn keys_stay_known_as_long_as_they_are_at_the_same_place() {
    let (keys, list) = made();
    let token = &list[0].2;
    let before = tokens(issuer(), &keys);
    let after = |change: &dyn Fn(&mut Issuer)| {
        let mut issuer = issuer();
        change(&mut issuer);
        Tokens::new(issuer, Some(&before)).check(token)
    };
    assert!(after(&|issuer| issuer.leeway = Duration::from_secs(61)).is_ok());
    let elsewhere = "https://id.example.org/others";
    let others = after(&|issuer| issuer.keys = KeySource::Url(elsewhere.to_owned()));
    assert_eq!(others, Err(TokenError::NoKeys));
}

/// As if the operator withdrew a key and changed `[jwt]` in one go.
#[test]
fn a_file_of_keys_is_read_by_whoever_begins_anew() {
    let (keys, list) = made();
    let (_folder, path, issuer) = in_a_file();
    fs::write(&path, keys.to_string()).unwrap();
    let before = Tokens::new(issuer.clone(), None);
    let after = || {
        let issuer = Issuer {
            leeway: Duration::from_secs(61),
            ..issuer.clone()
        };
        Tokens::new(issuer, Some(&before)).check(&list[0].2)
    };
    assert!(after().is_ok());
    fs::write(&path, "{}").unwrap();
    assert!(after().is_ok(), "a file without keys takes nothing away");
    let others = json!({ "keys": [keys["keys"][2]] });
    fs::write(&path, others.to_string()).unwrap();
    assert!(after().is_err(), "it was withdrawn");
}

/// As if other callers were taken up every minute, which begins the waiting anew.
#[tokio::test(start_paused = true)]
async fn whoever_begins_anew_does_not_put_the_next_look_off() {
    let (keys, list) = made();
    let (_folder, path, issuer) = in_a_file();
    fs::write(&path, keys.to_string()).unwrap();
    let tokens = Tokens::new(issuer, None);
    let others = json!({ "keys": [keys["keys"][2]] });
    fs::write(&path, others.to_string()).unwrap();
    assert!(tokens.check(&list[0].2).is_ok());
    for _ in 0..11 {
        let _ = timeout(
            Duration::from_mins(1),
            tokens.keep_fresh(&Counts::default()),
        )
        .await;
    }
    assert!(tokens.check(&list[0].2).is_err(), "it was withdrawn");
}

/// The log is told of it once, and not at every look.
#[tokio::test(start_paused = true)]
async fn keys_that_cannot_be_read_are_looked_for_until_they_can() {
    let (keys, list) = made();
    let (_folder, path, issuer) = in_a_file();
    let tokens = Tokens::new(issuer, None);
    let counts = Counts::default();
    let look = || timeout(Duration::from_secs(30), tokens.keep_fresh(&counts));
    assert!(look().await.is_err() && tokens.outage.has_failed());
    assert_eq!(tokens.check(&list[0].2), Err(TokenError::NoKeys));
    fs::write(&path, keys.to_string()).unwrap();
    assert!(look().await.is_err() && !tokens.outage.has_failed());
    assert!(tokens.check(&list[0].2).is_ok());
}
