//! What a client of OpenAI asks, as a question of ours.

use std::num::NonZeroUsize;

use serde::Deserialize;
use serde_json::Value;
use spechop_proto::AskRequest;
use spechop_proto::json::{self, JsonError};
use tonic_types::FieldViolation;

use crate::status::AskError;

/// The default, the standard agent without speculation, and the one whose k the server chooses.
pub(super) const MODELS: [&str; 3] = ["spechop", "spechop-k1", "spechop-auto"];

/// Fields of such a request that may be wrong; what else is wrong is one of ours.
const OWN: [&str; 9] = [
    "body",
    "functions",
    "messages",
    "model",
    "n",
    "reasoning_effort",
    "response_format",
    "spechop-tenant",
    "tools",
];

/// A request that can be asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: AskRequest,
    pub(super) model: String,
    pub(super) stream: bool,
    /// Whether a stream tells the usage at its end.
    pub(super) include_usage: bool,
    /// Whether there are messages before the question.
    has_earlier_turns: bool,
}

/// What was sent. Other fields mean nothing here and are ignored.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    messages: Vec<Message>,
    #[serde(default)]
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u64>,
    tools: Option<Value>,
    functions: Option<Value>,
    response_format: Option<Value>,
    reasoning_effort: Option<String>,
    spechop: Option<Value>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Option<Content>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// Whether an error about this field is about OpenAI's own part of a request.
pub(super) fn is_own(field: &str) -> bool {
    OWN.contains(&field) || field.starts_with("spechop.")
}

/// The model of this name.
pub(super) fn known(name: &str) -> Result<&'static str, AskError> {
    let mut models = MODELS.into_iter();
    let found = models.find(|model| *model == name);
    found.ok_or_else(|| AskError::NoModel {
        offered: MODELS.join(", "),
    })
}

impl Asked {
    pub(super) fn read(body: &[u8], k_max: NonZeroUsize) -> Result<Self, AskError> {
        let body: Body = serde_json::from_slice(body)
            .map_err(|error| wrong("body", format!("is no chat completion request: {error}")))?;
        body.decline()?;
        let model = known(body.model.as_deref().unwrap_or(MODELS[0]))?;
        let mut request = options(body.spechop.as_ref())?;
        if !(request.k.is_some() || request.unbounded || request.auto) {
            match model {
                "spechop-k1" => request.k = Some(1),
                "spechop-auto" => request.auto = true,
                _ => request.k = effort(body.reasoning_effort.as_deref(), k_max)?,
            }
        }
        let asks = |message: &Message| message.role == "user";
        let Some(at) = body.messages.iter().rposition(asks) else {
            return Err(wrong("messages", "there is no message of the user"));
        };
        request.question = body.messages[at].text()?;
        let said = |message: &Message| ["user", "assistant"].contains(&message.role.as_str());
        Ok(Self {
            request,
            model: model.to_owned(),
            stream: body.stream.unwrap_or(false),
            include_usage: body
                .stream_options
                .and_then(|options| options.include_usage)
                .unwrap_or(false),
            has_earlier_turns: body.messages[..at].iter().any(said),
        })
    }

    /// What the client should know before the hops.
    pub(super) fn note(&self) -> Option<String> {
        self.has_earlier_turns.then(|| {
            "Only the last message was asked: earlier turns of the conversation are not read.\n"
                .to_owned()
        })
    }
}

impl Body {
    /// What this server does not do is declined, rather than left out in silence.
    fn decline(&self) -> Result<(), AskError> {
        let any = |value: &Option<Value>| match value {
            None | Some(Value::Null) => false,
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        if any(&self.tools) {
            let problem = "this server calls its own tools and no others; leave it out";
            return Err(wrong("tools", problem));
        }
        if any(&self.functions) {
            let problem = "this server calls its own tools and no others; leave it out";
            return Err(wrong("functions", problem));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(wrong("n", "this server gives one answer; leave it out"));
        }
        let format = self.response_format.as_ref();
        let format = format.and_then(|format| format.get("type")?.as_str());
        if format.is_some_and(|format| format != "text") {
            let problem = "this server answers with text; leave it out";
            return Err(wrong("response_format", problem));
        }
        Ok(())
    }
}

impl Message {
    fn text(&self) -> Result<String, AskError> {
        let parts = match &self.content {
            None => return Err(wrong("messages", "the last message of the user is empty")),
            Some(Content::Text(text)) => return Ok(text.clone()),
            Some(Content::Parts(parts)) => parts,
        };
        let text = parts
            .iter()
            .map(|part| match (part.kind.as_str(), &part.text) {
                ("text", Some(text)) => Ok(text.as_str()),
                (kind, _) => {
                    let problem = format!("this server reads text only, not parts of type {kind}");
                    Err(wrong("messages", problem))
                }
            });
        Ok(text.collect::<Result<Vec<_>, _>>()?.join("\n"))
    }
}

/// The fields of an `AskRequest` that the object holds.
fn options(object: Option<&Value>) -> Result<AskRequest, AskError> {
    let Some(object) = object.filter(|object| !object.is_null()) else {
        return Ok(AskRequest::default());
    };
    let within = |error: JsonError| match error {
        JsonError::Wrong(fields) => {
            let violation = |wrong: json::WrongField| {
                let field = format!("spechop.{}", wrong.field);
                FieldViolation::new(field.trim_end_matches('.'), wrong.problem)
            };
            AskError::Invalid(fields.into_iter().map(violation).collect())
        }
        other => AskError::from(other),
    };
    let request: AskRequest = json::read(object.to_string().as_bytes()).map_err(within)?;
    if request.question.is_empty() {
        Ok(request)
    } else {
        let problem = "the question is the last message of the user";
        Err(wrong("spechop.question", problem))
    }
}

/// The more effort, the more work runs ahead. It changes how soon an answer is there.
fn effort(effort: Option<&str>, k_max: NonZeroUsize) -> Result<Option<u32>, AskError> {
    let k = match effort {
        None | Some("medium") => return Ok(None),
        Some("none" | "minimal") => 1,
        Some("low") => 2,
        Some("high") => 6,
        Some("xhigh") => 8,
        Some(other) => {
            let short: String = other.chars().take(32).collect();
            let problem = format!("must be none, minimal, low, medium, high or xhigh, not {short}");
            return Err(wrong("reasoning_effort", problem));
        }
    };
    let k_max = u32::try_from(k_max.get()).unwrap_or(u32::MAX);
    Ok(Some(k.min(k_max)))
}

fn wrong(field: &str, problem: impl Into<String>) -> AskError {
    AskError::Invalid(vec![FieldViolation::new(field, problem)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(fields: &Value) -> Result<Asked, AskError> {
        let mut body = json!({ "messages": [{ "role": "user", "content": "q" }] });
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let k_max = NonZeroUsize::new(7).unwrap();
        Asked::read(body.to_string().as_bytes(), k_max)
    }

    #[test]
    fn the_width_comes_from_the_options_then_the_model_then_the_effort() {
        for (fields, k, auto) in [
            (json!({}), None, false),
            (
                json!({ "model": "spechop", "reasoning_effort": "medium" }),
                None,
                false,
            ),
            (json!({ "reasoning_effort": "minimal" }), Some(1), false),
            (json!({ "reasoning_effort": "low" }), Some(2), false),
            (json!({ "reasoning_effort": "xhigh" }), Some(7), false),
            (
                json!({ "model": "spechop-k1", "reasoning_effort": "high" }),
                Some(1),
                false,
            ),
            (json!({ "model": "spechop-auto" }), None, true),
            (
                json!({ "model": "spechop-k1", "spechop": { "k": 4 } }),
                Some(4),
                false,
            ),
        ] {
            let asked = read(&fields).unwrap();
            assert_eq!((asked.request.k, asked.request.auto), (k, auto), "{fields}");
            assert_eq!(asked.request.question, "q");
        }
    }

    #[test]
    fn the_last_message_of_the_user_is_the_question() {
        let messages = json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "one" },
            { "role": "assistant", "content": "1" },
            { "role": "user", "content": [
                { "type": "text", "text": "two" },
                { "type": "text", "text": "three" },
            ] },
        ]);
        let asked = read(&json!({ "messages": messages })).unwrap();
        assert_eq!(asked.request.question, "two\nthree");
        assert!(asked.note().unwrap().contains("not read"));
        assert!(read(&json!({})).unwrap().note().is_none());
    }

    #[test]
    fn what_is_not_done_is_declined_by_its_name() {
        let image = json!([{ "type": "image_url", "image_url": { "url": "x" } }]);
        for (fields, field) in [
            (json!({ "n": 2 }), "n"),
            (json!({ "tools": [{ "type": "function" }] }), "tools"),
            (json!({ "functions": [{}] }), "functions"),
            (
                json!({ "response_format": { "type": "json_object" } }),
                "response_format",
            ),
            (
                json!({ "messages": [{ "role": "user", "content": image }] }),
                "messages",
            ),
            (
                json!({ "messages": [{ "role": "system", "content": "x" }] }),
                "messages",
            ),
            (json!({ "reasoning_effort": "huge" }), "reasoning_effort"),
            (json!({ "spechop": { "kk": 1 } }), "spechop.kk"),
            (
                json!({ "spechop": { "question": "x" } }),
                "spechop.question",
            ),
            (json!({ "spechop": 3 }), "spechop"),
            (json!({ "messages": "x" }), "body"),
        ] {
            let error = read(&fields).unwrap_err();
            let AskError::Invalid(wrong) = &error else {
                panic!("{error}")
            };
            assert_eq!(wrong[0].field, field, "{fields}: {error}");
        }
        // What means nothing is ignored.
        let usual =
            json!({ "n": 1, "tools": [], "temperature": 0.5, "max_tokens": 5, "user": "u" });
        assert!(read(&usual).is_ok());
        assert!(read(&json!({ "model": "gpt" })).is_err());
    }
}
