//! The attributes of spans: a closed set. None of them holds a text of a question, of an answer or of a
//! passage, or the name of a tenant.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use super::otlp::attribute;

/// What is told of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The most branches alive at once; of a question.
    K,
    /// Who guessed; of a question.
    Speculator,
    /// How the question ended.
    Outcome,
    /// The hop, counted from 1.
    Hop,
    /// The branch, by its number within the question.
    Branch,
    /// What became of the work ([`super::Fate`]).
    Fate,
    /// Whether the verifier accepted the guess of the hop.
    Verdict,
    /// The rule that decided.
    Rule,
    /// Whether the call was launched ahead of need.
    Speculative,
    /// Whether the answer needed the call at its end.
    Needed,
    /// Whether a kept result served the call, or the result of an equal call under way.
    Cached,
    /// How the call ended.
    End,
    /// Why a speculative call was not made, or not to its end.
    Refusal,
    /// Tokens read, as far as they are known.
    TokensPrompt,
    /// Tokens written, as far as they are known.
    TokensCompletion,
    /// How long it waited for a turn or in a queue, in milliseconds.
    WaitingMs,
    /// How a look-up was begun that a branch took over; of a link.
    Origin,
    /// Calls that were too many to be told.
    LeftOut,
}

impl Key {
    /// Every attribute, for tables.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 18] = [
        Self::K,
        Self::Speculator,
        Self::Outcome,
        Self::Hop,
        Self::Branch,
        Self::Fate,
        Self::Verdict,
        Self::Rule,
        Self::Speculative,
        Self::Needed,
        Self::Cached,
        Self::End,
        Self::Refusal,
        Self::TokensPrompt,
        Self::TokensCompletion,
        Self::WaitingMs,
        Self::Origin,
        Self::LeftOut,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::K => "spechop.k",
            Self::Speculator => "spechop.speculator",
            Self::Outcome => "spechop.outcome",
            Self::Hop => "spechop.hop",
            Self::Branch => "spechop.branch",
            Self::Fate => "spechop.fate",
            Self::Verdict => "spechop.verdict",
            Self::Rule => "spechop.rule",
            Self::Speculative => "spechop.speculative",
            Self::Needed => "spechop.needed",
            Self::Cached => "spechop.cached",
            Self::End => "spechop.end",
            Self::Refusal => "spechop.refusal",
            Self::TokensPrompt => "spechop.tokens.prompt",
            Self::TokensCompletion => "spechop.tokens.completion",
            Self::WaitingMs => "spechop.waiting_ms",
            Self::Origin => "spechop.origin",
            Self::LeftOut => "spechop.left_out",
        }
    }

    pub(super) fn text(self, value: &'static str) -> KeyValue {
        attribute(self.as_str(), Value::StringValue(value.to_owned()))
    }

    pub(super) fn number(self, value: impl TryInto<i64>) -> KeyValue {
        let value = value.try_into().unwrap_or(i64::MAX);
        attribute(self.as_str(), Value::IntValue(value))
    }

    pub(super) fn decimal(self, value: f64) -> KeyValue {
        attribute(self.as_str(), Value::DoubleValue(value))
    }

    pub(super) fn flag(self, value: bool) -> KeyValue {
        attribute(self.as_str(), Value::BoolValue(value))
    }
}
