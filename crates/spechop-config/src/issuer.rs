//! An identity provider, and where its public keys are.

use std::path::PathBuf;
use std::time::Duration;

use spechop_web::HttpEndpoint;

use super::KeySet;

/// The most bytes of a provider's keys.
const KEYS_BYTES_MAX: usize = 1 << 20;

/// The longest that the provider may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// An identity provider, and what its tokens must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Where its public keys are.
    pub keys: KeySource,
    /// The `iss` of its tokens.
    pub name: String,
    /// The `aud` of tokens that are meant for this server.
    pub audience: String,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that lists what its owner may do.
    pub roles_claim: String,
    /// The word in it that opens the admin service and the metrics.
    pub admin_role: String,
    /// How far the provider's clock may be from ours.
    pub leeway: Duration,
    /// How often its keys are read.
    pub refresh: Duration,
}

/// Where a provider's keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// At a URL.
    Url(String),
    /// In a file.
    File(PathBuf),
}

impl KeySource {
    /// Tells what is wrong with it, as far as that can be known without asking anybody. Blocks.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::File(path) => KeySet::read(path).map(drop),
            Self::Url(url) => match Self::endpoint(url).is_safe_from_others() {
                Ok(true) => Ok(()),
                Ok(false) => Err(
                    "expected https://: whoever can change the keys on their way decides who may ask"
                        .to_owned(),
                ),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// How the keys at this URL are asked for.
    pub fn endpoint(url: &str) -> HttpEndpoint {
        HttpEndpoint {
            time_limit: PATIENCE,
            body_bytes_max: KEYS_BYTES_MAX,
            ..HttpEndpoint::new("the token issuer", url)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_source_of_keys_is_checked_before_anybody_is_asked() {
        for (url, fine) in [
            ("https://id.example.org/keys", true),
            ("http://127.0.0.1:8080/keys", true),
            ("http://[::1]/keys", true),
            ("http://localhost/keys", true),
            ("http://id.example.org/keys", false),
            ("http://localhost.example.org/keys", false),
            ("ftp://id.example.org/keys", false),
            ("https://", false),
        ] {
            let checked = KeySource::Url(url.to_owned()).check();
            assert_eq!(checked.is_ok(), fine, "{url}: {checked:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let file = KeySource::File(path.clone());
        let missing = file.check().unwrap_err();
        assert!(missing.contains("cannot be read"), "{missing}");
        fs::write(&path, "{}").unwrap();
        let empty = file.check().unwrap_err();
        assert!(
            empty.contains("keys.json: this is no set of keys"),
            "{empty}"
        );
        let keys = r#"{"keys": [{"kty": "RSA", "kid": "one", "n": "AQAB", "e": "AQAB"}]}"#;
        fs::write(&path, keys).unwrap();
        file.check().unwrap();
    }
}
