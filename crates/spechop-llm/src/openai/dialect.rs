//! Which fields of a request an endpoint takes, and how many tokens its model needs. OpenAI's own models disagree:
//! those that think refuse `max_tokens` and any `temperature` but theirs. Others take the usual form, and have
//! thought until the limit before they write a word; and some, as Mistral's, forbid whatever they do not know. An
//! endpoint is asked in the usual form first. What it says it does not support is replaced or left out from then
//! on, and a model that was seen to think gets room for it.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Tokens that a model may think before it writes, where its thoughts count as what it writes does.
pub(super) const THOUGHT_TOKENS_MAX: u32 = 2_048;

/// The form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect(u8);

impl Dialect {
    /// What most servers take, and older ones take alone.
    const USUAL: Self = Self(0);
    /// `max_completion_tokens` in place of `max_tokens`.
    const COMPLETION_TOKENS: u8 = 1;
    const NO_TEMPERATURE: u8 = 1 << 1;
    const NO_PREDICTION: u8 = 1 << 2;
    /// Room for thoughts beside what it may write.
    const THOUGHTS: u8 = 1 << 3;
    /// The server counts tokens unasked, or not at all.
    const NO_STREAM_OPTIONS: u8 = 1 << 4;

    fn has(self, part: u8) -> bool {
        self.0 & part != 0
    }

    pub(super) fn limits_completion(self) -> bool {
        self.has(Self::COMPLETION_TOKENS)
    }

    /// Whether its thoughts need room. An endpoint that limits the completion has a model that thinks.
    pub(super) fn thinks(self) -> bool {
        self.has(Self::THOUGHTS | Self::COMPLETION_TOKENS)
    }

    /// The same with room for thoughts, for a model that was seen to think. `None` if it had that.
    pub(super) fn with_thoughts(self) -> Option<Self> {
        (!self.thinks()).then_some(Self(self.0 | Self::THOUGHTS))
    }

    pub(super) fn takes_temperature(self) -> bool {
        !self.has(Self::NO_TEMPERATURE)
    }

    pub(super) fn takes_prediction(self) -> bool {
        !self.has(Self::NO_PREDICTION)
    }

    pub(super) fn takes_stream_options(self) -> bool {
        !self.has(Self::NO_STREAM_OPTIONS)
    }

    /// The form to try after a refusal in these words. `None` if there is no other.
    ///
    /// A refusal that is about the value of a field leads to no other form: a server that ignores what it does
    /// not know would then write without a limit. One that names none of the fields may mean the prediction, if
    /// there was one.
    pub(super) fn after(self, refusal: &str, predicted: bool) -> Option<Self> {
        const UNSUPPORTED: [&str; 2] = ["unsupported", "not support"];
        // Of a field that a server does not know. Only one that can be missed is left out for such words.
        const FORBIDDEN: [&str; 4] = [
            "not permitted",
            "extra_forbidden",
            "unrecognized",
            "unknown",
        ];
        let refusal = refusal.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| refusal.contains(words));
        let unsupported = says(&UNSUPPORTED) || says(&["max_completion_tokens' instead"]);
        let names = |field| unsupported && refusal.contains(field);
        let is_unknown = |field| (unsupported || says(&FORBIDDEN)) && refusal.contains(field);
        let part = if !self.limits_completion() && names("max_tokens") {
            Self::COMPLETION_TOKENS
        } else if self.takes_temperature() && names("temperature") {
            Self::NO_TEMPERATURE
        } else if self.takes_stream_options() && is_unknown("stream_options") {
            Self::NO_STREAM_OPTIONS
        } else if self.takes_prediction() && predicted {
            Self::NO_PREDICTION
        } else {
            return None;
        };
        Some(Self(self.0 | part))
    }

    /// What was left out or replaced, for people.
    fn said(self) -> Vec<&'static str> {
        let parts = [
            (
                Self::COMPLETION_TOKENS,
                "max_completion_tokens is sent for max_tokens",
            ),
            (Self::NO_TEMPERATURE, "no temperature is sent"),
            (Self::NO_PREDICTION, "no predicted output is sent"),
            (
                Self::NO_STREAM_OPTIONS,
                "it is not asked for its count of tokens",
            ),
            (
                Self::THOUGHTS,
                "its limit of tokens has room for its thoughts",
            ),
        ];
        let said = parts.into_iter().filter(|(part, _)| self.has(*part));
        said.map(|(_, said)| said).collect()
    }
}

/// What an endpoint is known to refuse.
#[derive(Debug)]
pub(super) struct Spoken(AtomicU8);

impl Spoken {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(Dialect::USUAL.0))
    }

    pub(super) fn get(&self) -> Dialect {
        Dialect(self.0.load(Relaxed))
    }

    /// It was answered in this form: the next request begins with it. A refusal alone teaches nothing, for it
    /// may have been about something else.
    pub(super) fn learn(&self, dialect: Dialect, model: &str) {
        let before = self.0.fetch_or(dialect.0, Relaxed);
        let learnt = Dialect(dialect.0 & !before);
        if learnt != Dialect::USUAL {
            let from_now_on = learnt.said().join(", ");
            tracing::warn!(
                model,
                "the usual form of a request is not for it; from now on {from_now_on}"
            );
        }
    }
}
