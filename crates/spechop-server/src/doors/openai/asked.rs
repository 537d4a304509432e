//! What a client of OpenAI asks, as a question of ours.

use std::num::NonZeroUsize;

use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;
use spechop_ports::{Speaker, Turn};
use spechop_proto::AskRequest;
use spechop_proto::json::{self, JsonError};
use spechop_proto::options::Width;
use tonic_types::FieldViolation;

use super::known_in;
use crate::json_object::{self, Object};
use crate::status::AskError;

/// The default, the standard agent without speculation, and the one whose k the server chooses.
pub(super) const MODELS: [&str; 3] = ["spechop", "spechop-k1", "spechop-auto"];

/// Fields of such a request that may be wrong; what else is wrong is one of ours.
const OWN: [&str; 16] = [
    "audio",
    "body",
    "dimensions",
    "encoding_format",
    "function_call",
    "input",
    "messages",
    "modalities",
    "model",
    "n",
    "reasoning_effort",
    "response_format",
    "spechop-events",
    "spechop-footer",
    "spechop-tenant",
    "tool_choice",
];

/// A request that can be asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: AskRequest,
    pub(super) model: String,
    pub(super) stream: bool,
    /// Whether a stream tells the usage at its end.
    pub(super) include_usage: bool,
    /// What was said before the question, oldest first.
    pub(super) turns: Vec<Turn>,
    pub(super) show: Show,
}

/// What a client is shown if it asks for it: in the object `spechop`, or with a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Show {
    /// Events of Open WebUI, in streams.
    pub(super) events: bool,
    /// A list of the sources below the answer.
    pub(super) footer: bool,
}

/// What was sent. Other fields mean nothing here and are ignored.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    messages: Vec<Object<Message>>,
    #[serde(default)]
    stream: Option<bool>,
    stream_options: Option<Object<StreamOptions>>,
    n: Option<u64>,
    tool_choice: Option<Value>,
    function_call: Option<Value>,
    response_format: Option<Value>,
    modalities: Option<Vec<String>>,
    audio: Option<Value>,
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
    Parts(Vec<Object<Part>>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// Whether an error about this field is about OpenAI's own part of a request.
pub(super) fn is_own(field: &str) -> bool {
    OWN.contains(&field) || field == "spechop" || field.starts_with("spechop.")
}

impl Asked {
    pub(super) fn read(
        body: &[u8],
        headers: &HeaderMap,
        k_max: NonZeroUsize,
    ) -> Result<Self, AskError> {
        let mut body: Body = json_object::read(body, "is no chat completion request")?;
        body.decline()?;
        let model = known_in(&MODELS, body.model.as_deref().unwrap_or(MODELS[0]))?;
        let show = Show {
            events: flag("events", body.spechop.as_mut(), headers)?,
            footer: flag("footer", body.spechop.as_mut(), headers)?,
        };
        let mut request = fields(body.spechop.as_ref())?;
        let options = request.options.get_or_insert_default();
        if options.width.is_none() {
            options.width = match model {
                "spechop-k1" => Some(Width::K(1)),
                "spechop-auto" => Some(Width::AUTO),
                _ => effort(body.reasoning_effort.as_deref(), k_max)?.map(Width::K),
            };
        }
        let asks = |Object(message): &Object<Message>| message.role == "user";
        let Some(at) = body.messages.iter().rposition(asks) else {
            return Err(AskError::wrong(
                "messages",
                "there is no message of the user",
            ));
        };
        request.question = body.messages[at].0.text()?;
        Ok(Self {
            request,
            model: model.to_owned(),
            stream: body.stream.unwrap_or(false),
            include_usage: body
                .stream_options
                .and_then(|Object(options)| options.include_usage)
                .unwrap_or(false),
            turns: body.messages[..at]
                .iter()
                .filter_map(|Object(message)| message.turn())
                .collect(),
            show,
        })
    }
}

impl Body {
    /// What this server does not do is declined, rather than left out in silence.
    fn decline(&self) -> Result<(), AskError> {
        // Chat programs offer tools with every message. An offer that nobody takes is no error: a model may
        // always answer without one. A call that must be made is.
        let must = |choice: &Option<Value>| match choice {
            None | Some(Value::Null) => false,
            Some(Value::String(choice)) => !["auto", "none"].contains(&choice.as_str()),
            Some(_) => true,
        };
        for (field, choice) in [
            ("tool_choice", &self.tool_choice),
            ("function_call", &self.function_call),
        ] {
            if must(choice) {
                let problem =
                    "this server calls its own tools and no others: leave it out, or say \"auto\"";
                return Err(AskError::wrong(field, problem));
            }
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(AskError::wrong(
                "n",
                "this server gives one answer; leave it out",
            ));
        }
        let format = self.response_format.as_ref();
        let mut modalities = self.modalities.iter().flatten();
        for (field, is_other) in [
            (
                "response_format",
                format.is_some_and(|format| format["type"] != "text"),
            ),
            ("modalities", modalities.any(|kind| kind != "text")),
            ("audio", self.audio.is_some()),
        ] {
            if is_other {
                let problem = "this server answers with text; leave it out";
                return Err(AskError::wrong(field, problem));
            }
        }
        Ok(())
    }
}

impl Message {
    /// As a part of the conversation before the question. What is no text is left out.
    fn turn(&self) -> Option<Turn> {
        let speaker = match self.role.as_str() {
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            _ => return None,
        };
        let text = match self.content.as_ref()? {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| part.0.text.as_deref());
                texts.collect::<Vec<_>>().join("\n")
            }
        };
        let text = text.trim();
        (!text.is_empty()).then(|| Turn {
            speaker,
            text: text.into(),
        })
    }

    fn text(&self) -> Result<String, AskError> {
        let parts = match &self.content {
            None => {
                return Err(AskError::wrong(
                    "messages",
                    "the last message of the user is empty",
                ));
            }
            Some(Content::Text(text)) => return Ok(text.clone()),
            Some(Content::Parts(parts)) => parts,
        };
        let text = parts
            .iter()
            .map(|Object(part)| match (part.kind.as_str(), &part.text) {
                ("text", Some(text)) => Ok(text.as_str()),
                ("text", None) => Err(AskError::wrong(
                    "messages",
                    "a part of type text has no text",
                )),
                (kind, _) => {
                    let short: String = kind.chars().take(32).collect();
                    let problem = format!("this server reads text only, not parts of type {short}");
                    Err(AskError::wrong("messages", problem))
                }
            });
        Ok(text.collect::<Result<Vec<_>, _>>()?.join("\n"))
    }
}

/// Whether the client wants this: the object has priority over the header `spechop-NAME`. It is taken out
/// of the object.
fn flag(
    name: &'static str,
    object: Option<&mut Value>,
    headers: &HeaderMap,
) -> Result<bool, AskError> {
    let said = object.and_then(|object| object.as_object_mut()?.remove(name));
    match said {
        Some(Value::Bool(wanted)) => return Ok(wanted),
        None | Some(Value::Null) => {}
        Some(_) => {
            let field = format!("spechop.{name}");
            return Err(AskError::wrong(field, "must be true or false"));
        }
    }
    let header = format!("spechop-{name}");
    match headers.get(&header).map(|value| value.as_bytes()) {
        None | Some(b"false" | b"0") => Ok(false),
        Some(b"true" | b"1") => Ok(true),
        Some(_) => Err(AskError::wrong(header, "must be true or false")),
    }
}

/// The fields of an `AskRequest` that the object holds.
fn fields(object: Option<&Value>) -> Result<AskRequest, AskError> {
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
        Err(AskError::wrong("spechop.question", problem))
    }
}

/// The more effort, the more work runs ahead. It changes how soon an answer is there.
fn effort(effort: Option<&str>, k_max: NonZeroUsize) -> Result<Option<u32>, AskError> {
    let k = match effort {
        None | Some("medium") => return Ok(None),
        Some("none" | "minimal") => 1,
        Some("low") => 2,
        Some("high") => 6,
        Some("xhigh" | "max") => 8,
        Some(other) => {
            let short: String = other.chars().take(32).collect();
            let problem =
                format!("must be none, minimal, low, medium, high, xhigh or max, not {short}");
            return Err(AskError::wrong("reasoning_effort", problem));
        }
    };
    let k_max = u32::try_from(k_max.get()).unwrap_or(u32::MAX);
    Ok(Some(k.min(k_max)))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn read(fields: &Value) -> Result<Asked, AskError> {
        let mut body = json!({ "messages": [{ "role": "user", "content": "q" }] });
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let k_max = NonZeroUsize::new(7).unwrap();
        Asked::read(body.to_string().as_bytes(), &HeaderMap::new(), k_max)
    }

    #[test]
    fn the_width_comes_from_the_options_then_the_model_then_the_effort() {
        let k = |k| Some(Width::K(k));
        for (fields, width) in [
            (json!({}), None),
            (
                json!({ "model": "spechop", "reasoning_effort": "medium" }),
                None,
            ),
            (json!({ "reasoning_effort": "minimal" }), k(1)),
            (json!({ "reasoning_effort": "low" }), k(2)),
            (json!({ "reasoning_effort": "xhigh" }), k(7)),
            (json!({ "reasoning_effort": "max" }), k(7)),
            (
                json!({ "model": "spechop-k1", "reasoning_effort": "high" }),
                k(1),
            ),
            (json!({ "model": "spechop-auto" }), Some(Width::AUTO)),
            (
                json!({ "model": "spechop-k1", "spechop": { "options": { "k": 4 } } }),
                k(4),
            ),
            (
                json!({ "model": "spechop-k1", "spechop": { "options": { "unbounded": {} } } }),
                Some(Width::UNBOUNDED),
            ),
            (
                json!({ "model": "spechop-k1", "spechop": { "options": { "fresh": true } } }),
                k(1),
            ),
        ] {
            let asked = read(&fields).unwrap();
            assert_eq!(asked.request.options.unwrap().width, width, "{fields}");
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
        let turns: Vec<_> = asked.turns.iter().map(|turn| &*turn.text).collect();
        assert_eq!(turns, ["one", "1"]);
        assert_eq!(asked.turns[1].speaker, Speaker::Assistant);
        assert!(read(&json!({})).unwrap().turns.is_empty());
    }

    #[test]
    fn what_is_shown_is_said_in_the_object_or_with_a_header() {
        let mut headers = HeaderMap::new();
        headers.insert("spechop-events", HeaderValue::from_static("true"));
        headers.insert("spechop-footer", HeaderValue::from_static("0"));
        let show = |object: Value, headers: &HeaderMap| {
            let message = json!({ "role": "user", "content": "q" });
            let body = json!({ "messages": [message], "spechop": object });
            let k_max = NonZeroUsize::MIN;
            let asked = Asked::read(body.to_string().as_bytes(), headers, k_max).unwrap();
            assert_eq!(asked.request.options.unwrap().width, Some(Width::K(1)));
            (asked.show.events, asked.show.footer)
        };
        let none = HeaderMap::new();
        assert_eq!(
            show(json!({ "options": { "k": 1 } }), &none),
            (false, false)
        );
        assert_eq!(
            show(json!({ "options": { "k": 1 } }), &headers),
            (true, false)
        );
        let object = json!({ "options": { "k": 1 }, "events": false, "footer": true });
        assert_eq!(show(object, &headers), (false, true));
    }

    #[test]
    fn what_is_not_done_is_declined_by_its_name() {
        let image = json!([{ "type": "image_url", "image_url": { "url": "x" } }]);
        for (fields, field) in [
            (json!({ "n": 2 }), "n"),
            (json!({ "tool_choice": "required" }), "tool_choice"),
            (
                json!({ "tool_choice": { "type": "function", "function": { "name": "f" } } }),
                "tool_choice",
            ),
            (json!({ "function_call": { "name": "f" } }), "function_call"),
            (
                json!({ "response_format": { "type": "json_object" } }),
                "response_format",
            ),
            (json!({ "response_format": "json" }), "response_format"),
            (json!({ "modalities": ["text", "audio"] }), "modalities"),
            (json!({ "audio": { "voice": "alloy" } }), "audio"),
            (
                json!({ "messages": [{ "role": "user", "content": image }] }),
                "messages",
            ),
            (
                json!({ "messages": [{ "role": "system", "content": "x" }] }),
                "messages",
            ),
            (json!({ "reasoning_effort": "huge" }), "reasoning_effort"),
            (json!({ "spechop": { "k": 1 } }), "spechop.k"),
            (
                json!({ "spechop": { "options": { "kk": 1 } } }),
                "spechop.options.kk",
            ),
            (
                json!({ "spechop": { "question": "x" } }),
                "spechop.question",
            ),
            (json!({ "spechop": 3 }), "spechop"),
            (json!({ "spechop": { "events": 1 } }), "spechop.events"),
            (json!({ "messages": "x" }), "body"),
            (json!({ "messages": [["user", "q"]] }), "body"),
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
        for modalities in [json!(null), json!(["text"])] {
            let format = json!({ "type": "text" });
            let text =
                json!({ "modalities": modalities, "audio": null, "response_format": format });
            assert!(read(&text).is_ok(), "{text}");
        }
        // Tools that are offered are not called.
        for choice in [json!(null), json!("auto"), json!("none")] {
            let offer = json!({ "tools": [{ "type": "function" }], "tool_choice": choice });
            assert!(read(&offer).is_ok(), "{offer}");
        }
        assert!(read(&json!({ "model": "gpt" })).is_err());
    }

    #[test]
    fn what_is_wrong_with_a_text_is_said_in_short() {
        let said = |messages: Value| {
            let read = read(&json!({ "messages": messages }));
            read.unwrap_err().to_string()
        };
        let of = |part: Value| said(json!([{ "role": "user", "content": [part] }]));
        let problem = "messages: a part of type text has no text";
        assert_eq!(of(json!({ "type": "text" })), problem);
        let long = "x".repeat(10_000);
        for said in [of(json!({ "type": &long })), said(json!(&long))] {
            assert!(said.contains("xxx") && said.len() < 500, "{said:.500}");
        }
    }
}
