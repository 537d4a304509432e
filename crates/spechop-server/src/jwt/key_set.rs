//! The public keys of an identity provider (JWKS, RFC 7517).

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The most keys. Providers have two or three.
const KEYS_MAX: usize = 100;

/// The keys that can be used; at least one.
#[derive(Debug)]
pub(super) struct KeySet {
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
    /// The keys in a document `{"keys": […]}`. Those of kinds that are not known are left out, and so are
    /// symmetric ones and those that are not for signatures.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
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

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key that a token names. A token that names none is taken if one key alone can be meant.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
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
