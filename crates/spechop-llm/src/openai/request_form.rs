//! Which fields of a request an endpoint takes, and how many tokens its model needs. OpenAI's own models disagree:
//! those that think refuse `max_tokens` and any `temperature` but theirs. Others take the usual form, and have
//! thought until the limit before they write a word; and some, as Mistral's, forbid whatever they do not know. An
//! endpoint is asked in the usual form first. What it says it does not support is replaced or left out from then
//! on, and a model that was seen to think gets room for it. So does one that has written nothing until its limit:
//! not every endpoint shows thoughts.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestForm(u8);

impl RequestForm {
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
    /// Instructions are a part of the first message: its template has no place of their own for them.
    const NO_SYSTEM: u8 = 1 << 5;
    /// Its template opens the model's thoughts, so that the text begins within them.
    const OPENED_THOUGHTS: u8 = 1 << 6;
    /// It gives whole answers only, to this model or to this key.
    const NO_STREAM: u8 = 1 << 7;

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

    pub(super) fn opens_thoughts(self) -> bool {
        self.has(Self::OPENED_THOUGHTS)
    }

    /// The same, for a model whose text was seen to end thoughts that it had not opened.
    pub(super) fn with_opened_thoughts(self) -> Self {
        Self(self.0 | Self::OPENED_THOUGHTS)
    }

    /// The same without all that was taken for thoughts by mistake.
    pub(super) fn without_thoughts(self) -> Self {
        Self(self.0 & !(Self::OPENED_THOUGHTS | Self::THOUGHTS))
    }

    pub(super) fn streams(self) -> bool {
        !self.has(Self::NO_STREAM)
    }

    pub(super) fn takes_system(self) -> bool {
        !self.has(Self::NO_SYSTEM)
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
    /// A refusal that is about the value of a limit leads to no other form: a server that ignores what it does
    /// not know would then write without one. A temperature can be missed, whatever is wrong with it. A refusal
    /// that names none of the fields may mean the prediction, if there was one.
    pub(super) fn after(self, refusal: &str, predicted: bool) -> Option<Self> {
        const UNSUPPORTED: [&str; 2] = ["unsupported", "not support"];
        // Of a field that a server does not know. Only one that can be missed is left out for such words.
        const FORBIDDEN: [&str; 4] = [
            "not permitted",
            "extra_forbidden",
            "unrecognized",
            "unknown",
        ];
        // Mistral's templates say the third and the fourth: instructions stand before the user's first message.
        // The last is what Gemini's endpoint says of Gemma.
        const SYSTEM: [&str; 5] = [
            "system role",
            "'system'",
            "roles must alternate",
            "only user and assistant roles",
            "developer instruction is not enabled",
        ];
        // OpenAI says the first of o1, and the second to organisations that it has not verified.
        const STREAM: [&str; 3] = [
            "'stream' does not support",
            "to stream this model",
            "streaming is not supported",
        ];
        let refusal = refusal.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| refusal.contains(words));
        let unsupported = says(&UNSUPPORTED) || says(&["max_completion_tokens' instead"]);
        let is_unknown = |field| (unsupported || says(&FORBIDDEN)) && refusal.contains(field);
        let part = if !self.limits_completion() && unsupported && refusal.contains("max_tokens") {
            Self::COMPLETION_TOKENS
        } else if self.takes_stream_options() && is_unknown("stream_options") {
            Self::NO_STREAM_OPTIONS
        } else if self.takes_prediction() && predicted && is_unknown("prediction") {
            // Before the words that are looked for by themselves: such a refusal may quote what was predicted.
            Self::NO_PREDICTION
        } else if self.streams() && says(&STREAM) {
            Self::NO_STREAM
        } else if self.takes_system() && says(&SYSTEM) {
            Self::NO_SYSTEM
        } else if self.takes_temperature() && refusal.contains("temperature") {
            Self::NO_TEMPERATURE
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
            (
                Self::NO_SYSTEM,
                "instructions are sent in the first message of the user",
            ),
            (Self::NO_PREDICTION, "no predicted output is sent"),
            (
                Self::NO_STREAM_OPTIONS,
                "it is not asked for its count of tokens",
            ),
            (
                Self::THOUGHTS,
                "its limit of tokens has room for its thoughts",
            ),
            (
                Self::OPENED_THOUGHTS,
                "its text is what stands behind </think>",
            ),
            (Self::NO_STREAM, "its answers are not streamed"),
        ];
        let said = parts.into_iter().filter(|(part, _)| self.has(*part));
        said.map(|(_, said)| said).collect()
    }
}

/// What an endpoint is known to refuse.
#[derive(Debug)]
pub(super) struct Spoken {
    known: AtomicU8,
    /// The operator says that the template opens the model's thoughts.
    is_told: bool,
}

impl Spoken {
    /// The operator may know that the template opens the model's thoughts.
    pub(super) fn new(opens_thoughts: bool) -> Self {
        let known = match opens_thoughts {
            true => RequestForm::OPENED_THOUGHTS | RequestForm::THOUGHTS,
            false => RequestForm::USUAL.0,
        };
        Self {
            known: AtomicU8::new(known),
            is_told: opens_thoughts,
        }
    }

    pub(super) fn get(&self) -> RequestForm {
        RequestForm(self.known.load(Relaxed))
    }

    /// It was answered in this form: the next request begins with it. A refusal alone teaches nothing, for it
    /// may have been about something else.
    pub(super) fn learn(&self, form: RequestForm, model: &str) {
        let before = self.known.fetch_or(form.0, Relaxed);
        let learnt = RequestForm(form.0 & !before);
        if learnt != RequestForm::USUAL {
            let from_now_on = learnt.said().join(", ");
            tracing::warn!(
                model,
                "the usual form of a request is not for it; from now on {from_now_on}"
            );
        }
    }

    /// A text that was taken to begin within thoughts held no end of any. What had looked like one may have been an
    /// answer about `</think>`, which must not cost all later answers. What the operator says stays.
    pub(super) fn forget_opened_thoughts(&self, model: &str) {
        if self.is_told {
            return;
        }
        let before = RequestForm(self.known.fetch_and(!RequestForm::OPENED_THOUGHTS, Relaxed));
        if before.opens_thoughts() {
            tracing::warn!(
                model,
                "its text is not taken to begin with thoughts any more"
            );
        }
    }
}
