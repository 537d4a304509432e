//! `POST /v1/embeddings`: vectors of the encoder that this server searches its index with.

use std::sync::Arc;

use axum::http::request::Parts;
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use spechop_ports::{Encoded, TextKind};

use super::{json_body, known_in, refused};
use crate::caller::caller;
use crate::embedder::Embedder;
use crate::json_object::{self, Object};
use crate::server_state::ServerState;
use crate::status::{AskError, HttpError};

/// The models: the same encoder, for texts that are found and for texts that are searched for.
pub(super) const EMBEDDERS: [&str; 2] = ["spechop-passage", "spechop-query"];

/// Most bytes of a request. A connection may hold not much more that has not arrived whole.
pub(super) const BYTES_MAX: usize = 512 << 10;

/// Most texts of a request, as OpenAI has it.
const TEXTS_MAX: usize = 2048;

/// The door.
pub(super) struct Embeddings(Embedder);

/// What was sent. Other fields mean nothing here and are ignored.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    input: Value,
    encoding_format: Option<String>,
    dimensions: Option<u64>,
    spechop: Option<Value>,
}

/// What is asked for.
#[derive(Debug)]
struct Wanted {
    model: &'static str,
    kind: TextKind,
    texts: Vec<String>,
    form: Form,
}

/// How a vector is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A list of numbers.
    Float,
    /// Its numbers as 32-bit floats, the lowest byte first.
    Base64,
}

impl Embeddings {
    /// `None` if this server has no encoder to ask.
    pub(super) fn open(state: &Arc<ServerState>) -> Option<Self> {
        Embedder::open(state).map(Self)
    }

    pub(super) async fn embed(&self, head: &Parts, body: &[u8]) -> Response {
        let read = caller(&head.headers, &head.extensions)
            .and_then(|caller| Ok((caller, Wanted::read(body, self.0.width())?)));
        let (caller, wanted) = match read {
            Ok(read) => read,
            Err(error) => return refused(&error),
        };
        match self.0.embed(&caller, wanted.kind, wanted.texts).await {
            Ok(encoded) => json_body(&answer(wanted.model, wanted.form, &encoded)),
            Err(error) => {
                let error = HttpError::from(&error);
                error.respond(&error.openai_body(None))
            }
        }
    }
}

fn answer(model: &str, form: Form, encoded: &Encoded) -> Value {
    let written = |vector: &Vec<f32>| match form {
        Form::Float => json!(vector),
        Form::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            json!(BASE64_STANDARD.encode(bytes))
        }
    };
    let data: Vec<_> = encoded
        .vectors
        .iter()
        .enumerate()
        .map(|(at, vector)| json!({ "object": "embedding", "index": at, "embedding": written(vector) }))
        .collect();
    let mut answer = json!({ "object": "list", "data": data, "model": model });
    // An encoder behind HTTP may not count.
    if let Some(tokens) = encoded.tokens {
        answer["usage"] = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    }
    answer
}

impl Wanted {
    /// `width` is how many components the vectors have.
    fn read(body: &[u8], width: usize) -> Result<Self, AskError> {
        let body: Body = json_object::read(body, "is no request for embeddings")?;
        let name = body.model.as_deref().unwrap_or(EMBEDDERS[0]);
        let model = known_in(&EMBEDDERS, name)?;
        let by_name = match model {
            "spechop-query" => TextKind::Query,
            _ => TextKind::Passage,
        };
        let form = match body.encoding_format.as_deref() {
            None | Some("float") => Form::Float,
            Some("base64") => Form::Base64,
            Some(_) => {
                return Err(AskError::wrong(
                    "encoding_format",
                    "must be float or base64",
                ));
            }
        };
        if body.dimensions.is_some_and(|wide| wide != width as u64) {
            let problem = format!("the vectors of this server have {width}; leave it out");
            return Err(AskError::wrong("dimensions", problem));
        }
        Ok(Self {
            model,
            kind: kind(body.spechop)?.unwrap_or(by_name),
            texts: texts(body.input)?,
            form,
        })
    }
}

/// What the object `spechop` says that the texts are for.
fn kind(object: Option<Value>) -> Result<Option<TextKind>, AskError> {
    /// Its only field.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Purpose {
        #[serde(rename = "as")]
        kind: Option<Kind>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Query,
        Passage,
    }
    let purpose: Option<Object<Purpose>> =
        object
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| {
                let form = r#"must be {"as": "query"} or {"as": "passage"}"#;
                AskError::unreadable("spechop", form, &error)
            })?;
    let kind = purpose.and_then(|Object(purpose)| purpose.kind);
    Ok(kind.map(|kind| match kind {
        Kind::Query => TextKind::Query,
        Kind::Passage => TextKind::Passage,
    }))
}

/// One text or several.
fn texts(input: Value) -> Result<Vec<String>, AskError> {
    let wrong = |problem: String| AskError::wrong("input", problem);
    let all = match input {
        Value::String(text) => vec![text],
        Value::Array(items) => {
            let count = items.len();
            if count == 0 || count > TEXTS_MAX {
                let problem = format!("has {count} texts; 1 to {TEXTS_MAX} are taken");
                return Err(wrong(problem));
            }
            let text = |item| match item {
                Value::String(text) => Ok(text),
                Value::Number(_) | Value::Array(_) => Err(wrong(
                    "must be texts: this server cuts them into tokens itself".to_owned(),
                )),
                _ => Err(wrong("must be a text or a list of texts".to_owned())),
            };
            items.into_iter().map(text).collect::<Result<_, _>>()?
        }
        _ => return Err(wrong("must be a text or a list of texts".to_owned())),
    };
    match all.iter().position(|text| text.trim().is_empty()) {
        Some(at) => Err(wrong(format!("text {} is empty", at + 1))),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &Value) -> Result<Wanted, AskError> {
        Wanted::read(fields.to_string().as_bytes(), 3)
    }

    #[test]
    fn the_name_of_the_model_or_the_object_says_what_texts_are_for() {
        for (fields, kind) in [
            (json!({ "input": "x" }), TextKind::Passage),
            (
                json!({ "input": "x", "model": "spechop-passage" }),
                TextKind::Passage,
            ),
            (
                json!({ "input": "x", "model": "spechop-query" }),
                TextKind::Query,
            ),
            (
                json!({ "input": "x", "model": "spechop-passage", "spechop": { "as": "query" } }),
                TextKind::Query,
            ),
            (
                json!({ "input": "x", "model": "spechop-query", "spechop": { "as": "passage" } }),
                TextKind::Passage,
            ),
            (
                json!({ "input": "x", "spechop": {}, "user": "u" }),
                TextKind::Passage,
            ),
        ] {
            assert_eq!(read(&fields).unwrap().kind, kind, "{fields}");
        }
        let wanted = read(&json!({ "input": ["a", "b"], "encoding_format": "base64" })).unwrap();
        assert_eq!((wanted.texts.len(), wanted.form), (2, Form::Base64));
        assert!(read(&json!({ "input": "x", "dimensions": 3 })).is_ok());
        for list in [
            json!(["spechop-query", "text", null, null, null]),
            json!({ "input": "x", "spechop": ["query"] }),
        ] {
            let said = read(&list).unwrap_err().to_string();
            assert!(said.contains("expected an object in braces"), "{said}");
        }
    }

    #[test]
    fn vectors_are_written_as_numbers_or_as_their_bytes() {
        let encoded = Encoded {
            vectors: vec![vec![1.0, -0.5], vec![0.25, 0.0]],
            tokens: Some(9),
        };
        let floats = answer("m", Form::Float, &encoded);
        assert_eq!(floats["data"][1]["embedding"], json!([0.25, 0.0]));
        assert_eq!(floats["data"][1]["index"], 1);
        assert_eq!(floats["usage"]["total_tokens"], 9);
        let bytes = answer("m", Form::Base64, &encoded);
        assert_eq!(bytes["data"][0]["embedding"], "AACAPwAAAL8=");
        let uncounted = Encoded {
            tokens: None,
            ..encoded
        };
        assert!(answer("m", Form::Float, &uncounted).get("usage").is_none());
    }
}
