//! Where the endpoint is and how long it may take.

use std::num::NonZeroUsize;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderValue, InvalidHeaderValue};
use secrecy::{ExposeSecret, SecretString};
use spechop_ports::base_url;
use spechop_ports::retry::Retries;

/// An OpenAI-compatible endpoint, as the operator describes it.
#[derive(Clone, Debug)]
pub struct ChatEndpoint {
    /// Up to and including the version, e.g. `http://127.0.0.1:8080/v1`.
    pub base_url: String,
    /// The model's name there.
    pub model: String,
    /// Sent as a bearer token; never shown.
    pub key: Option<SecretString>,
    /// How much the model is to think before it answers, in the endpoint's own word (`reasoning_effort`).
    /// `None` leaves it to the endpoint.
    pub reasoning_effort: Option<String>,
    /// Whether the model's template opens its thoughts and the endpoint does not tell them apart, so that a text
    /// begins within them and holds nothing but their end, `</think>`.
    pub opens_thoughts: bool,
    /// Whether a text that is expected goes with the request (OpenAI's `prediction`), so that the endpoint
    /// may write it sooner. It may cost more: an endpoint may charge for predicted tokens that it rejects.
    pub predicted_output: bool,
    /// Most requests under way at once.
    pub requests_max: NonZeroUsize,
    /// Time limits.
    pub limits: TimeLimits,
    /// What to do about failures that may pass.
    pub retries: Retries,
}

/// Time limits of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// For a connection to be made, TLS included.
    pub connect: Duration,
    /// Without a byte from the server: before the first one, while it reads the prompt, and
    /// between any two later ones. A model that thinks may be silent for the whole call before its first word,
    /// since not every server sends thoughts. So may one whose server refuses to stream.
    pub silence: Duration,
    /// For the whole call: waiting for a turn, retries and their pauses included.
    pub total: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(30),
            total: Duration::from_secs(120),
        }
    }
}

impl ChatEndpoint {
    /// An endpoint without a key, with the default limits and four requests at once.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            key: None,
            reasoning_effort: None,
            opens_thoughts: false,
            predicted_output: false,
            requests_max: NonZeroUsize::MIN.saturating_add(3),
            limits: TimeLimits::default(),
            retries: Retries::default(),
        }
    }

    /// Says what is wrong with the base URL, without asking anybody.
    pub fn check_url(&self) -> Result<(), InvalidChatEndpoint> {
        self.chat_url().map(drop)
    }

    /// Says what is wrong with the key, if there is one.
    pub fn check_key(&self) -> Result<(), InvalidChatEndpoint> {
        self.authorization().map(drop)
    }

    /// The URL that chat requests go to.
    pub(super) fn chat_url(&self) -> Result<Url, InvalidChatEndpoint> {
        let url = base_url(&self.base_url);
        let mut url = url.map_err(|reason| InvalidChatEndpoint::Url { reason })?;
        // `http` and `https` URLs always have a path.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["chat", "completions"]);
        }
        Ok(url)
    }

    /// The `Authorization` header, marked as sensitive.
    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>, InvalidChatEndpoint> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        let key = key.expose_secret().trim();
        if key.is_empty() {
            return Err(InvalidChatEndpoint::EmptyKey);
        }
        let mut value = HeaderValue::try_from(format!("Bearer {key}"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidChatEndpoint {
    /// The base URL is none, or not one that we speak to.
    #[error("the base URL is unusable: {reason}")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// No model is named.
    #[error("no model is named")]
    NoModel,
    /// The key is there, but blank.
    #[error("the key is empty")]
    EmptyKey,
    /// The key cannot be sent in a header.
    #[error("the key holds characters that a header cannot carry")]
    Key(#[from] InvalidHeaderValue),
    /// The HTTP client could not be made, e.g. because there are no root certificates.
    #[error("no HTTP client could be made")]
    Client(#[source] reqwest::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_the_chat_url_or_says_what_is_wrong() {
        let chat = "http://h:1/v1/chat/completions";
        for (base, url) in [
            ("http://h:1/v1", chat),
            ("http://h:1/v1/", chat),
            ("https://h", "https://h/chat/completions"),
        ] {
            assert_eq!(
                ChatEndpoint::new(base, "m").chat_url().unwrap().as_str(),
                url
            );
        }
        for base in [
            "",
            "localhost:8080/v1",
            "ftp://h/v1",
            "http://",
            "http://user:pw@h/v1",
            "http://h/v1?key=1",
            "http://h/v1#a",
        ] {
            assert!(ChatEndpoint::new(base, "m").chat_url().is_err(), "{base:?}");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        let mut endpoint = ChatEndpoint::new("http://h/v1", "m");
        endpoint.key = Some("sk-secret".into());
        let header = endpoint.authorization().unwrap().unwrap();
        assert_eq!(header, "Bearer sk-secret");
        assert!(!format!("{endpoint:?} {header:?}").contains("secret"));
        for bad in ["", "  ", "a\nb"] {
            endpoint.key = Some(bad.into());
            let error = endpoint.authorization().unwrap_err();
            assert!(!format!("{error:?}").contains("a\nb"));
        }
    }
}
