//! API keys: what one looks like, what is kept of it, and what it allows.
//!
//! ```text
//! spechop.NAME.SECRET        32 random bytes in base64url; only its owner has it
//! $argon2id$v=19$m=…         what the configuration holds: nobody finds the key by it
//! ```
//!
//! The name is part of the key, so that one hash is compared and not those of all keys. Names are no
//! secrets. `keys` of the server says whether a key is right.

use std::fmt;
use std::time::Duration;

use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use spechop_types::Tenant;

/// What every key begins with: a search for secrets finds it by that.
pub(crate) const PREFIX: &str = "spechop.";

/// The most bytes of a key. Longer ones are not looked at.
const KEY_BYTES_MAX: usize = 256;

/// Bytes of the secret, and of the salt of its hash.
const SECRET_BYTES: usize = 32;
const SALT_BYTES: usize = 16;

/// What a check of a key may cost at most. Every check takes so much memory, for so many passes.
const MEMORY_KIB_MAX: u32 = 256 << 10;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 16;

/// The name of a key: letters, digits, hyphens and underscores.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

/// A name that no key can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key's name has 1 to 64 letters, digits, hyphens and underscores")]
pub struct InvalidName;

impl KeyName {
    /// The key of this name.
    ///
    /// # Errors
    ///
    /// Names that are empty, longer than 64 bytes or of other characters.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if (1..=64).contains(&name.len()) && name.chars().all(plain) {
            Ok(Self(name.to_owned()))
        } else {
            Err(InvalidName)
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a key may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Questions and passages.
    Ask,
    /// The admin service and the metrics.
    Admin,
}

impl Role {
    /// Every role.
    pub(crate) const ALL: [Self; 2] = [Self::Ask, Self::Admin];

    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Admin => "admin",
        }
    }
}

/// On whose behalf a key may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behalf {
    /// Of this tenant.
    Of(Tenant),
    /// Of whomever the caller names: a proxy that knows its clients.
    Anyone,
}

/// The most requests of somebody: at this distance in the long run, and so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    /// From one request to the next.
    pub interval: Duration,
    /// At once.
    pub burst: u32,
}

/// What the operator has written of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What it is called.
    pub name: KeyName,
    /// What it is checked by.
    pub hash: KeyHash,
    /// On whose behalf it may be used.
    pub behalf: Behalf,
    /// What it may be used for.
    pub roles: Vec<Role>,
    /// A limit of this key alone, beside that of its tenant.
    pub rate: Option<RequestRate>,
}

/// The Argon2id hash of a key. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyHash(String);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash")
    }
}

/// A text by which no key can be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidHash {
    /// Another kind of hash, a key itself, or half of one.
    #[error(
        "expected an Argon2id hash ($argon2id$v=19$m=…,t=…,p=…$SALT$HASH), as `spechop keys new` prints it"
    )]
    NotArgon2id,
    /// A check would take more than a server has to spare.
    #[error(
        "a check of this hash would take {memory_kib} KiB, {passes} passes and {lanes} lanes; at most \
         {MEMORY_KIB_MAX} KiB, {PASSES_MAX} and {LANES_MAX} are allowed: make a new key with `spechop keys new`"
    )]
    TooDear {
        /// Memory.
        memory_kib: u32,
        /// How often it is gone through.
        passes: u32,
        /// Parts of it.
        lanes: u32,
    },
}

impl KeyHash {
    /// The hash that is written so.
    ///
    /// # Errors
    ///
    /// Everything but an Argon2id hash of version 19 with a salt, and one that costs too much.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidHash> {
        let hash = PasswordHash::new(text).map_err(|_| InvalidHash::NotArgon2id)?;
        let params = Params::try_from(&hash).map_err(|_| InvalidHash::NotArgon2id)?;
        let is_argon2id = hash.algorithm == argon2::ARGON2ID_IDENT
            && hash.version == Some(Version::V0x13.into())
            && hash.salt.is_some()
            && hash.hash.is_some_and(|hash| hash.len() >= SALT_BYTES);
        if !is_argon2id {
            return Err(InvalidHash::NotArgon2id);
        }
        let (memory_kib, passes, lanes) = (params.m_cost(), params.t_cost(), params.p_cost());
        if memory_kib > MEMORY_KIB_MAX || passes > PASSES_MAX || lanes > LANES_MAX {
            return Err(InvalidHash::TooDear {
                memory_kib,
                passes,
                lanes,
            });
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether this is the hash of that key. Takes milliseconds, and the memory that the hash names.
    pub fn fits(&self, key: &str) -> bool {
        use argon2::password_hash::PasswordVerifier;
        Argon2::default()
            .verify_password(key.as_bytes(), self.0.as_str())
            .is_ok()
    }

    /// As it is written in the configuration.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What it costs to check a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Memory of a check.
    pub memory_kib: u32,
    /// How often it is gone through.
    pub passes: u32,
}

impl Default for Cost {
    /// What OWASP's password storage cheat sheet recommends: 19 MiB, two passes.
    fn default() -> Self {
        Self {
            memory_kib: Params::DEFAULT_M_COST,
            passes: Params::DEFAULT_T_COST,
        }
    }
}

/// A key that was made just now. Nobody can find it out again.
#[derive(Debug)]
pub struct NewKey {
    /// What its owner sends as `Authorization: Bearer …`.
    pub key: SecretString,
    /// What the configuration holds.
    pub hash: KeyHash,
}

/// The key could not be hashed: the cost is out of the range of Argon2.
#[derive(Debug, thiserror::Error)]
#[error("cannot hash a key at this cost: {0}")]
pub struct HashError(argon2::password_hash::Error);

impl NewKey {
    /// A key of random bytes.
    ///
    /// # Errors
    ///
    /// A cost at which Argon2 does not work.
    pub fn generate(name: &KeyName, cost: Cost) -> Result<Self, HashError> {
        let secret: [u8; SECRET_BYTES] = rand::random();
        let salt: [u8; SALT_BYTES] = rand::random();
        let secret = SecretString::from(URL_SAFE_NO_PAD.encode(secret));
        let key = format!("{PREFIX}{}.{}", name.as_str(), secret.expose_secret());
        let key = SecretString::from(key);
        let params = Params::new(cost.memory_kib, cost.passes, 1, None);
        let params = params.map_err(|error| HashError(error.into()))?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let hash = argon2.hash_password_with_salt(key.expose_secret().as_bytes(), &salt);
        let hash = KeyHash(hash.map_err(HashError)?.to_string());
        Ok(Self { key, hash })
    }
}

/// Whether a text says of itself that it is a key, be it right or wrong.
pub fn is_key(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// The name in a key, if it has the form of one.
pub fn name_in(key: &str) -> Option<&str> {
    let (name, secret) = key.strip_prefix(PREFIX)?.split_once('.')?;
    (key.len() <= KEY_BYTES_MAX && !secret.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Cost = Cost {
        memory_kib: 64,
        passes: 1,
    };

    #[test]
    fn a_new_key_fits_its_hash_and_no_other() {
        let name = KeyName::new("laptop").unwrap();
        let [one, other] = [0; 2].map(|_| NewKey::generate(&name, CHEAP).unwrap());
        let text = one.key.expose_secret();
        assert_eq!(name_in(text), Some("laptop"));
        assert!(one.hash.fits(text) && !other.hash.fits(text));
        assert_eq!(KeyHash::parse(one.hash.as_str()).as_ref(), Ok(&one.hash));
        let shown = format!("{one:?}");
        assert!(!shown.contains(text) && !shown.contains(one.hash.as_str()));
    }

    #[test]
    fn what_is_no_argon2id_hash_or_too_dear_is_refused() {
        let hash = |algorithm: &str, params: &str| {
            format!(
                "${algorithm}$v=19${params}$c2FsdHNhbHRzYWx0$NLEjT2EMiuQH0zS+5U8zhpQiDeX7eWYkzB7Nh8RtPNQ"
            )
        };
        assert!(KeyHash::parse(&hash("argon2id", "m=19456,t=2,p=1")).is_ok());
        assert!(KeyHash::parse(&hash("argon2id", "m=262144,t=16,p=16")).is_ok());
        for text in [
            "",
            "secret",
            "$2b$12$abcdefghijklmnopqrstuv",
            &hash("argon2i", "m=19456,t=2,p=1"),
            &hash("argon2d", "m=19456,t=2,p=1"),
            &hash("argon2id", "m=0,t=2,p=1"),
            &hash("argon2id", "m=19456,t=0,p=1"),
            "$argon2id$v=16$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$NLEjT2EMiuQH0zS+5U8zhpQiDeX7eWYkzB7Nh8RtPNQ",
            "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0",
            "$argon2id$v=19$m=64,t=1,p=1",
        ] {
            assert_eq!(
                KeyHash::parse(text),
                Err(InvalidHash::NotArgon2id),
                "{text}"
            );
        }
        for params in [
            "m=262145,t=1,p=1",
            "m=64,t=17,p=1",
            "m=256,t=1,p=17",
            "m=4294967295,t=1,p=1",
        ] {
            let error = KeyHash::parse(&hash("argon2id", params)).unwrap_err();
            assert!(matches!(error, InvalidHash::TooDear { .. }), "{params}");
            assert!(error.to_string().contains("262144"), "{error}");
        }
    }

    #[test]
    fn names_have_no_full_stop() {
        for (name, valid) in [
            ("a", true),
            ("Team-7_x", true),
            ("", false),
            ("a.b", false),
            ("a b", false),
            (&"x".repeat(65), false),
        ] {
            assert_eq!(KeyName::new(name).is_ok(), valid, "{name:?}");
        }
        for (key, name) in [
            ("spechop.a.b", Some("a")),
            ("spechop.a.b.c", Some("a")),
            ("spechop.a.", None),
            ("spechop.a", None),
            ("other.a.b", None),
            ("", None),
            (&format!("spechop.a.{}", "x".repeat(KEY_BYTES_MAX)), None),
        ] {
            assert_eq!(name_in(key), name, "{key:?}");
        }
    }
}
