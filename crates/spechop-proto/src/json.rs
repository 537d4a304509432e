//! Messages as JSON: the canonical mapping of protobuf, with the field names of `proto/` and numbers as
//! numbers. The command line prints it, and the server speaks it over HTTP.
//!
//! On input the names may also be in lowerCamelCase, and enums may be names or numbers.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, ReflectMessage, SerializeOptions,
};
use serde_json::Value;

use crate::{AskEvent, AskRequest, AskResponse, DESCRIPTORS, Options, Passage};

/// A message that has a JSON form.
pub trait InJson: Message + Default {
    /// Its full name in `proto/`.
    const NAME: &'static str;
}

impl InJson for AskRequest {
    const NAME: &'static str = "spechop.v1.AskRequest";
}

impl InJson for Options {
    const NAME: &'static str = "spechop.v1.Options";
}

impl InJson for AskResponse {
    const NAME: &'static str = "spechop.v1.AskResponse";
}

impl InJson for AskEvent {
    const NAME: &'static str = "spechop.v1.AskEvent";
}

impl InJson for Passage {
    const NAME: &'static str = "spechop.v1.Passage";
}

/// Why there is no message, or no JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON at all.
    #[error("the text is not JSON: {0}")]
    NotJson(String),
    /// It is JSON, and is no such message.
    #[error("{}", sentence(.0))]
    Wrong(Vec<WrongField>),
    /// The program's own descriptors do not fit its messages.
    #[error("the program's description of its messages is damaged: {0}")]
    Ours(String),
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongField {
    /// Its name as it was sent, with those of the messages around it: `budget.tokens`.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

/// The message in one line. Fields that hold their default are written, too.
///
/// # Errors
///
/// [`JsonError::Ours`].
pub fn write<M: InJson>(message: &M) -> Result<String, JsonError> {
    line(&dynamic(message)?)
}

/// The name of what happened, as in `proto/`, and the whole event in one line.
///
/// # Errors
///
/// [`JsonError::Ours`].
pub fn write_event(event: &AskEvent) -> Result<(String, String), JsonError> {
    let event = dynamic(event)?;
    let kind = event.descriptor();
    let mut oneofs = kind.oneofs();
    let oneof = oneofs.find(|oneof| oneof.name() == "event");
    let mut fields = oneof.iter().flat_map(|oneof| oneof.fields());
    let happened = fields.find(|field| event.has_field(field));
    let name = happened.map_or_else(String::new, |field| field.name().to_owned());
    Ok((name, line(&event)?))
}

/// The message that a text holds.
///
/// # Errors
///
/// Every field that is wrong, or that there is none.
pub fn read<M: InJson>(text: &[u8]) -> Result<M, JsonError> {
    let kind = kind(M::NAME)?;
    let mut json = serde_json::Deserializer::from_slice(text);
    let read = DynamicMessage::deserialize(kind.clone(), &mut json);
    let read = read.and_then(|message| json.end().map(|()| message));
    match read {
        Ok(message) => {
            let message = message.transcode_to::<M>();
            message.map_err(|error| JsonError::Ours(error.to_string()))
        }
        Err(error) => Err(blamed(&kind, text, &error)),
    }
}

/// All messages and fields of the protocol, for describing them elsewhere.
///
/// # Errors
///
/// [`JsonError::Ours`].
pub fn descriptors() -> Result<&'static DescriptorPool, JsonError> {
    static POOL: LazyLock<Result<DescriptorPool, String>> =
        LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).map_err(|error| error.to_string()));
    let pool = POOL.as_ref();
    pool.map_err(|error| JsonError::Ours(error.clone()))
}

fn kind(name: &str) -> Result<MessageDescriptor, JsonError> {
    let kind = descriptors()?.get_message_by_name(name);
    kind.ok_or_else(|| JsonError::Ours(format!("it lacks {name}")))
}

fn dynamic<M: InJson>(message: &M) -> Result<DynamicMessage, JsonError> {
    let bytes = message.encode_to_vec();
    let message = DynamicMessage::decode(kind(M::NAME)?, bytes.as_slice());
    message.map_err(|error| JsonError::Ours(error.to_string()))
}

fn line(message: &DynamicMessage) -> Result<String, JsonError> {
    let mut line = Vec::new();
    let mut json = serde_json::Serializer::new(&mut line);
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    let written = message.serialize_with_options(&mut json, &options);
    written.map_err(|error| JsonError::Ours(error.to_string()))?;
    String::from_utf8(line).map_err(|error| JsonError::Ours(error.to_string()))
}

/// Which fields of a text that could not be read are to blame.
fn blamed(kind: &MessageDescriptor, text: &[u8], whole: &serde_json::Error) -> JsonError {
    let value: Value = match serde_json::from_slice(text) {
        Ok(value) => value,
        Err(error) => return JsonError::NotJson(short(&error.to_string())),
    };
    let mut wrong = Vec::new();
    blame(kind, &value, "", &mut wrong);
    if wrong.is_empty() {
        // Fields that are fine one by one may exclude each other.
        let (field, problem) = (String::new(), short(&whole.to_string()));
        wrong.push(WrongField { field, problem });
    }
    JsonError::Wrong(wrong)
}

fn blame(kind: &MessageDescriptor, value: &Value, path: &str, wrong: &mut Vec<WrongField>) {
    let Value::Object(fields) = value else {
        let field = path.trim_end_matches('.').to_owned();
        let problem = "must be an object in braces".to_owned();
        wrong.push(WrongField { field, problem });
        return;
    };
    for (name, value) in fields {
        let here = format!("{path}{name}");
        let mut known = kind.fields();
        let known = known.find(|field| field.name() == name || field.json_name() == name);
        let Some(known) = known else {
            let problem = "there is no such field".to_owned();
            wrong.push(WrongField {
                field: short(&here),
                problem,
            });
            continue;
        };
        if let (Kind::Message(inner), true) = (known.kind(), value.is_object()) {
            let before = wrong.len();
            blame(&inner, value, &format!("{here}."), wrong);
            // Fields that are fine one by one may exclude each other.
            if wrong.len() == before
                && let Err(error) = DynamicMessage::deserialize(inner, value.clone())
            {
                wrong.push(WrongField {
                    field: here,
                    problem: short(&error.to_string()),
                });
            }
            continue;
        }
        let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
        if let Err(error) = DynamicMessage::deserialize(kind.clone(), alone) {
            wrong.push(WrongField {
                field: here,
                problem: short(&error.to_string()),
            });
        }
    }
}

/// Of what strangers write, as much as belongs into an error.
fn short(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn sentence(wrong: &[WrongField]) -> String {
    let one = |wrong: &WrongField| match wrong.field.as_str() {
        "" => wrong.problem.clone(),
        field => format!("{field}: {}", wrong.problem),
    };
    wrong.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use crate::ask_event::Event;
    use crate::{Budget, CommitKind, Hop, Planned, StopReason, VerifierMode};

    use super::*;

    #[test]
    fn has_the_names_of_the_proto_file() {
        let response = AskResponse {
            answer: "Łódź".into(),
            hops: vec![Hop {
                kind: CommitKind::Accepted.into(),
                guess: Some("x".into()),
                ..Hop::default()
            }],
            stop_reason: StopReason::Answered.into(),
            ..AskResponse::default()
        };
        let json: Value = serde_json::from_str(&write(&response).unwrap()).unwrap();
        assert_eq!(json["answer"], "Łódź");
        assert_eq!(json["hops"][0]["kind"], "COMMIT_KIND_ACCEPTED");
        assert_eq!(json["hops"][0]["guess"], "x");
        assert_eq!(json["stop_reason"], "STOP_REASON_ANSWERED");
        assert_eq!(json["elapsed_ms"], 0.0);
        // There and back again.
        assert_eq!(
            read::<AskResponse>(json.to_string().as_bytes()).unwrap(),
            response
        );
    }

    #[test]
    fn an_event_has_the_name_of_what_happened() {
        let event = AskEvent {
            sequence: 3,
            event: Some(Event::Planned(Planned {
                sub_question: "a\nb".into(),
                took_ms: 1.5,
            })),
            ..AskEvent::default()
        };
        let (name, line) = write_event(&event).unwrap();
        assert_eq!(name, "planned");
        assert!(!line.contains('\n'), "{line}");
        let json: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["sequence"], 3);
        assert_eq!(json["planned"]["took_ms"], 1.5);
        let (name, _) = write_event(&AskEvent::default()).unwrap();
        assert_eq!(name, "");
    }

    #[test]
    fn reads_both_spellings_of_names_and_of_enums() {
        let expected = AskRequest {
            question: "q".into(),
            options: Some(Options {
                hop_budget: Some(3),
                verifier: VerifierMode::Exact.into(),
                ..Options::default()
            }),
            budget: Some(Budget {
                target_calls: Some(7),
                ..Budget::default()
            }),
            ..AskRequest::default()
        };
        for text in [
            r#"{"question":"q","options":{"hop_budget":3,"verifier":"VERIFIER_MODE_EXACT"},"budget":{"target_calls":7}}"#,
            r#"{"question":"q","options":{"hopBudget":3,"verifier":1,"k":null},"budget":{"targetCalls":7}}"#,
        ] {
            assert_eq!(
                read::<AskRequest>(text.as_bytes()).unwrap(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn every_wrong_field_is_named() {
        for (text, expected) in [
            (r#"{"questoin":"q"}"#, &["questoin"][..]),
            (
                r#"{"question":7,"options":{"k":"x","auto":1}}"#,
                &["options.auto", "options.k", "question"],
            ),
            (r#"{"k":1}"#, &["k"]),
            (r#"{"options":{"k":-1}}"#, &["options.k"]),
            (r#"{"options":{"unbounded":true}}"#, &["options.unbounded"]),
            (r#"{"options":{"k":1,"auto":{}}}"#, &["options"]),
            (r#"{"budget":{"tokens":1,"tokns":1}}"#, &["budget.tokns"]),
            (r#"{"budget":3}"#, &["budget"]),
            (r#"{"options":{"verifier":"EXACT"}}"#, &["options.verifier"]),
            ("[1]", &[""]),
        ] {
            let error = read::<AskRequest>(text.as_bytes()).unwrap_err();
            let JsonError::Wrong(wrong) = &error else {
                panic!("{text}: {error}")
            };
            let mut fields: Vec<_> = wrong.iter().map(|wrong| wrong.field.as_str()).collect();
            fields.sort_unstable();
            assert_eq!(fields, expected, "{text}: {error}");
        }
        for text in ["", "{", "{\"question\":\"q\"} x", "\u{0}"] {
            let error = read::<AskRequest>(text.as_bytes()).unwrap_err();
            assert!(matches!(error, JsonError::NotJson(_)), "{text}: {error}");
        }
        let error = read::<Options>(br#"{"k":1,"auto":{}}"#).unwrap_err();
        let JsonError::Wrong(wrong) = &error else {
            panic!("it is JSON: {error}")
        };
        assert!(wrong.len() == 1 && wrong[0].field.is_empty(), "{error}");
        let long = "x".repeat(10_000);
        for text in [
            format!(r#"{{"{long}":1}}"#),
            format!(r#"{{"options":"{long}"}}"#),
        ] {
            let error = read::<AskRequest>(text.as_bytes()).unwrap_err();
            assert!(error.to_string().len() < 500, "{error}");
        }
    }
}
