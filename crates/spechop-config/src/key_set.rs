//! The public keys of an identity provider (JWKS, RFC 7517).

use std::fs;
use std::path::Path;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The most keys. Providers have two or three.
const KEYS_MAX: usize = 100;

/// The public keys of an identity provider that can be used; at least one.
#[derive(Debug)]
pub struct KeySet {
    keys: Vec<Key>,
    /// What they were read from.
    text: Vec<u8>,
}

impl PartialEq for KeySet {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The kinds of signatures that it may have made.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl KeySet {
    /// The keys that a file holds. Blocks.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, which is named.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Self::parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))
    }

    /// The keys in a document `{"keys": […]}`. Those of kinds that are not known are left out, and so are
    /// symmetric ones and those that are not for signatures.
    ///
    /// # Errors
    ///
    /// What is wrong with the document.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let document: Value =
            serde_json::from_slice(text).map_err(|error| format!("this is no JSON: {error}"))?;
        let list = document["keys"].as_array();
        let list = list.ok_or("this is no set of keys: expected {\"keys\": [...]}")?;
        if list.len() > KEYS_MAX {
            return Err(format!(
                "there are {} keys; at most {KEYS_MAX} are taken",
                list.len()
            ));
        }
        let keys: Vec<_> = list.iter().filter_map(usable).collect();
        if keys.is_empty() {
            return Err("there is no key in it that signatures can be checked with".to_owned());
        }
        Ok(Self {
            keys,
            text: text.to_vec(),
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// The key that a token names. A token that names none is taken if one key alone can be meant.
    pub fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut fitting = self.keys.iter().filter(|key| {
            key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id)
        });
        let first = fitting.next()?;
        fitting.next().is_none().then_some(&first.key)
    }
}

fn usable(written: &Value) -> Option<Key> {
    let jwk = Jwk::deserialize(written).ok()?;
    let common = &jwk.common;
    if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms().to_vec(),
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => vec![Algorithm::ES256],
            EllipticCurve::P384 => vec![Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(key) => match key.curve {
            EllipticCurve::Ed25519 => vec![Algorithm::EdDSA],
            _ => return None,
        },
        _ => return None,
    };
    if let Some(only) = common.key_algorithm {
        let only = Algorithm::try_from(only).ok()?;
        algorithms.retain(|algorithm| *algorithm == only);
    }
    if algorithms.is_empty() {
        return None;
    }
    Some(Key {
        id: common.key_id.clone(),
        algorithms,
        key: DecodingKey::from_jwk(&jwk).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm::{ES256, HS256, RS256, RS384};
    use serde_json::json;

    use super::*;

    fn parse(list: &[Value]) -> Result<KeySet, String> {
        KeySet::parse(json!({ "keys": list }).to_string().as_bytes())
    }

    #[test]
    fn a_set_of_keys_holds_what_signatures_can_be_checked_with() {
        let one = json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "rsa", "use": "sig" });
        let mut symmetric = json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256" });
        let mut to_encrypt = one.clone();
        to_encrypt["use"] = json!("enc");
        let mut for_one = one.clone();
        for_one["alg"] = json!("RS384");
        let strange = json!({ "kty": "AKP", "pub": "x" });
        let list = [
            symmetric.clone(),
            to_encrypt.clone(),
            strange,
            json!(7),
            for_one,
        ];
        let set = parse(&list).unwrap();
        assert_eq!(set.count(), 1);
        assert!(set.find(Some("rsa"), RS384).is_some() && set.find(None, RS384).is_some());
        assert!(set.find(Some("rsa"), RS256).is_none() && set.find(Some("s"), HS256).is_none());
        // Without a name, two keys of a kind could be meant.
        let mut other = one.clone();
        other["kid"] = json!("other");
        let curve = json!({ "kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB", "kid": "p256" });
        let two = parse(&[one.clone(), other, curve]).unwrap();
        assert!(two.find(None, RS256).is_none() && two.find(Some("other"), RS256).is_some());
        assert!(two.find(None, ES256).is_some());
        symmetric["kid"] = json!("again");
        for list in [vec![], vec![symmetric], vec![to_encrypt]] {
            assert!(parse(&list).unwrap_err().contains("no key"));
        }
        let many = parse(&vec![one; 101]).unwrap_err();
        assert!(many.contains("101 keys"), "{many}");
        for text in ["", "{}", "[]", "{\"keys\": 1}", "{\"keys\": {}}", "\u{0}"] {
            assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
