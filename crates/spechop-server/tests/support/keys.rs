//! API keys that cost next to nothing to check.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use secrecy::ExposeSecret;
use spechop_config::api_keys::{Cost, KeyName, NewKey};

/// A key, and the lines of configuration that hold its hash, with `more` below them.
pub fn key(name: &str, more: &str) -> (String, String) {
    let cost = Cost {
        memory_kib: 64,
        passes: 1,
    };
    let made = NewKey::generate(&KeyName::new(name).unwrap(), cost).unwrap();
    let hash = made.hash.as_str();
    let lines = format!("[[keys]]\nname = \"{name}\"\nhash = \"{hash}\"\n{more}\n");
    (made.key.expose_secret().to_owned(), lines)
}
