//! What travels: the request, and the parts of a response that we read.

use std::borrow::Cow;

use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request_form::RequestForm;
use crate::thoughts::THOUGHT_TOKENS_MAX;
use crate::{Chat, Generation, Role};

/// The most tokens that a server's count is believed. No context is that long; a larger number is a
/// mistake, and one such number must not use up every budget and overflow every counter.
const TOKENS_MAX: u64 = u32::MAX as u64;

/// The temperature of every sample but the first. High enough for other words, low enough for likely ones.
const SAMPLE_TEMPERATURE: f32 = 0.8;

/// Roles of messages.
const SYSTEM: &str = "system";
const USER: &str = "user";

#[derive(Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction<'a>>,
}

/// What the text is expected to be.
#[derive(Serialize)]
struct Prediction<'a> {
    r#type: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Cow<'a, str>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Request<'a> {
    /// Stop texts are not sent: a server cuts them off, and then nobody can tell which one it was,
    /// or that there was one.
    pub(super) fn new(
        model: &'a str,
        chat: &'a Chat,
        Generation {
            tokens_max, sample, ..
        }: &Generation,
        form: RequestForm,
    ) -> Self {
        let temperature = match *sample {
            0 => 0.0,
            _ => SAMPLE_TEMPERATURE,
        };
        let limit = match form.thinks() {
            true => tokens_max.saturating_add(THOUGHT_TOKENS_MAX),
            false => *tokens_max,
        };
        // A whole answer has its count unasked.
        let asks_for_count = form.streams() && form.takes_stream_options();
        Self {
            model,
            messages: messages(chat, form),
            temperature: form.takes_temperature().then_some(temperature),
            max_tokens: (!form.limits_completion()).then_some(limit),
            max_completion_tokens: form.limits_completion().then_some(limit),
            stream: form.streams(),
            stream_options: asks_for_count.then_some(StreamOptions {
                include_usage: true,
            }),
            reasoning_effort: None,
            prediction: None,
        }
    }

    /// With the endpoint's own word for how much the model is to think.
    pub(super) fn thinking(mut self, effort: Option<&'a str>) -> Self {
        self.reasoning_effort = effort;
        self
    }

    /// With what the text is expected to be.
    pub(super) fn predicting(mut self, content: Option<&'a str>) -> Self {
        self.prediction = content.map(|content| Prediction {
            r#type: "content",
            content,
        });
        self
    }
}

fn messages(chat: &Chat, form: RequestForm) -> Vec<Message<'_>> {
    let mut messages: Vec<_> = chat.messages.iter().map(Message::from).collect();
    if let [system, user, ..] = messages.as_mut_slice()
        && (system.role, user.role) == (SYSTEM, USER)
        && !form.takes_system()
    {
        user.content = format!("{}\n\n{}", system.content, user.content).into();
        messages.remove(0);
    }
    messages
}

impl<'a> From<&'a crate::Message> for Message<'a> {
    fn from(message: &'a crate::Message) -> Self {
        Self {
            role: match message.role {
                Role::System => SYSTEM,
                Role::User => USER,
                Role::Assistant => "assistant",
            },
            content: Cow::Borrowed(&message.text),
        }
    }
}

/// One event of the stream, or the whole answer of a server that does not stream.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
    /// Some servers report failures inside a stream.
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    delta: Option<Delta>,
    /// In place of `delta` where the server does not stream.
    message: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Delta {
    content: Option<Content>,
    /// Thoughts, where a server tells them apart. Servers name them otherwise; their form is of no interest.
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
}

/// What a model says: a text, or parts of several kinds, as Mistral's models that think have it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text {
        text: String,
    },
    /// Their form is of no interest.
    Thinking {
        thinking: Value,
    },
    /// Such as a reference to a source.
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    /// How many of the latter were thoughts, which need not be sent; some servers say so.
    completion_tokens_details: Option<Value>,
}

/// Tokens that a server has counted. It may count one kind and not the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) prompt: Option<u64>,
    pub(super) completion: Option<u64>,
}

impl Counted {
    /// With the earlier count of a kind that this one leaves out.
    pub(super) fn or(self, earlier: Self) -> Self {
        Self {
            prompt: self.prompt.or(earlier.prompt),
            completion: self.completion.or(earlier.completion),
        }
    }
}

impl Chunk {
    /// The text it adds; empty where it adds none.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self.delta().and_then(|delta| delta.content.as_ref()) {
            None => Cow::Borrowed(""),
            Some(Content::Text(text)) => Cow::Borrowed(text.as_str()),
            Some(Content::Parts(parts)) => {
                Cow::Owned(parts.iter().filter_map(Part::text).collect())
            }
        }
    }

    /// Whether it says anything of an answer.
    pub(super) fn has_choice(&self) -> bool {
        self.choice().is_some()
    }

    /// Whether its text is no piece of the answer, but all of it.
    pub(super) fn is_whole(&self) -> bool {
        self.choice().is_some_and(|choice| choice.delta.is_none())
    }

    /// Whether it adds to the model's thoughts.
    pub(super) fn thinks(&self) -> bool {
        let Some(delta) = self.delta() else {
            return false;
        };
        let parts = match &delta.content {
            Some(Content::Parts(parts)) => parts.as_slice(),
            Some(Content::Text(_)) | None => &[],
        };
        let apart = [&delta.reasoning_content, &delta.reasoning];
        let mut thoughts =
            (apart.into_iter().flatten()).chain(parts.iter().filter_map(Part::thought));
        thoughts.any(|thought| match thought {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(parts) => !parts.is_empty(),
            _ => true,
        })
    }

    /// Whether the server's count says that the model has thought.
    pub(super) fn counts_thoughts(&self) -> bool {
        let details = self.usage.as_ref();
        let details = details.and_then(|usage| usage.completion_tokens_details.as_ref());
        let thoughts = details.and_then(|details| details.get("reasoning_tokens")?.as_u64());
        thoughts.is_some_and(|tokens| tokens > 0)
    }

    fn delta(&self) -> Option<&Delta> {
        let choice = self.choice()?;
        choice.delta.as_ref().or(choice.message.as_ref())
    }

    /// Why the server ended the generation, once it has.
    pub(super) fn finish_reason(&self) -> Option<&str> {
        self.choice()?.finish_reason.as_deref()
    }

    /// The server's count, if it gives one. A count of 0 is none: some servers send zeros until they
    /// have counted, and a call that was paid for must not be free.
    pub(super) fn counted(&self) -> Counted {
        let believed = |tokens: Option<u64>| {
            let tokens = tokens.filter(|&tokens| tokens > 0)?;
            Some(tokens.min(TOKENS_MAX))
        };
        let usage = self.usage.as_ref();
        Counted {
            prompt: believed(usage.and_then(|usage| usage.prompt_tokens)),
            completion: believed(usage.and_then(|usage| usage.completion_tokens)),
        }
    }

    fn choice(&self) -> Option<&Choice> {
        self.choices.as_ref()?.first()
    }
}

impl Part {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Thinking { .. } | Self::Other => None,
        }
    }

    fn thought(&self) -> Option<&Value> {
        match self {
            Self::Thinking { thinking } => Some(thinking),
            Self::Text { .. } | Self::Other => None,
        }
    }
}

/// What else is said of a prompt that is longer than the model's context: by llama.cpp before it had a type for
/// that, by LM Studio, and by TGI of a prompt with its answer and of a prompt alone.
const TOO_LONG: [&str; 4] = [
    "exceeds the available context size",
    "loaded with context length of only",
    "`inputs` tokens + `max_new_tokens` must be <=",
    "`inputs` must have less than",
];

/// Whether an error body says that the prompt is longer than the model's context: by OpenAI's code, by llama.cpp's
/// type, in the words that vLLM and SGLang have from OpenAI, or in those of [`TOO_LONG`]. No other words are guessed
/// at. If OpenAI's name the limit of tokens, prompt and limit do not fit together: a shorter prompt would, unless
/// the limit fits nowhere.
pub(super) fn is_too_long(body: &[u8]) -> bool {
    let value = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let is = |path, word| value.pointer(path).and_then(Value::as_str) == Some(word);
    let text = String::from_utf8_lossy(body);
    let names_limit = ["max_tokens", "max_completion_tokens"]
        .into_iter()
        .any(|limit| text.contains(limit));
    is("/error/code", "context_length_exceeded")
        || is("/error/type", "exceed_context_size_error")
        || TOO_LONG.iter().any(|words| text.contains(words))
        || text.contains("maximum context length") && (!names_limit || is_limit_smaller(&text))
}

/// Whether the limit of tokens alone would fit, in vLLM's words: "'max_tokens' or 'max_completion_tokens' is too
/// large: 128. This model's maximum context length is 4096 tokens and your request has 4000 input tokens".
fn is_limit_smaller(text: &str) -> bool {
    let number_behind = |words: &str| {
        let (_, behind) = text.split_once(words)?;
        let digits = behind.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    };
    let limit = number_behind("is too large: ");
    let context = number_behind("maximum context length is ");
    let both = limit.zip(context);
    both.is_some_and(|(limit, context)| limit < context)
}

/// The status that an error inside a stream would have had by itself, if it names one as its code.
pub(super) fn status_of(error: &Value) -> Option<StatusCode> {
    let code = error.get("code")?;
    let number = code
        .as_u64()
        .or_else(|| code.as_str().and_then(|code| code.parse().ok()))?;
    let status = StatusCode::from_u16(u16::try_from(number).ok()?).ok()?;
    (status.is_client_error() || status.is_server_error()).then_some(status)
}

/// Tokens of a prompt that no server has counted: a quarter of its bytes and four a message, which
/// is near the truth for English and too low for other scripts.
pub(super) fn prompt_tokens_guess(generation: &Generation) -> u64 {
    let tokens = |text: &str| 4 + text.len().div_ceil(4) as u64;
    generation.prompt.texts().map(tokens).sum()
}
