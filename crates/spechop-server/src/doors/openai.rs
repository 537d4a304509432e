//! The door for clients of OpenAI: `/v1/chat/completions` and `/v1/models`.
//!
//! The last message of the user is the question. The committed hops are the reasoning
//! (`reasoning_content`), and the answer cites the passages that they rest on (`annotations`). What such
//! clients cannot say otherwise stands in an object `spechop` of the request, which holds the fields of an
//! `AskRequest`.

mod asked;
mod said;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use spechop_proto::ask_event::Event;
use tonic_types::FieldViolation;

use self::asked::{Asked, MODELS};
use self::said::{Citing, hop_line, usage};
use super::House;
use crate::admission::{Admission, Admitted};
use crate::caller::caller;
use crate::events::{self, Events};
use crate::sse;
use crate::status::{AskError, HttpError};
use crate::transport::Door;

/// A conversation may be long, of which the last message is asked.
const BODY_BYTES_MAX: usize = 256 << 10;

/// The end of a stream.
const DONE: &str = "data: [DONE]\n\n";

/// Builds the door.
pub(super) fn add_to(house: &mut House, admission: &Admission) {
    let at = admission.clone();
    let chat = post(async move |head: Parts, body: Bytes| complete(&at, &head, &body).await);
    let door = Door::post("/v1/chat/completions").of_bytes(BODY_BYTES_MAX);
    // The transport has seen to it.
    house.add(door, chat.layer(DefaultBodyLimit::disable()));
    let models = get(async || {
        let models: Vec<_> = MODELS.into_iter().map(model).collect();
        json_body(&json!({ "object": "list", "data": models }))
    });
    house.add(Door::get("/v1/models"), models);
    let one = get(async |Path(id): Path<String>| match asked::known(&id) {
        Ok(id) => json_body(&model(id)),
        Err(error) => refused(&error),
    });
    house.add(Door::get("/v1/models/{id}"), one);
}

async fn complete(admission: &Admission, head: &Parts, body: &[u8]) -> Response {
    let read = caller(&head.headers, &head.extensions).and_then(|caller| {
        let k_max = admission.state().config().questions.k_max;
        Ok((caller, Asked::read(body, k_max)?))
    });
    let (caller, asked) = match read {
        Ok(read) => read,
        Err(error) => {
            admission.refused(&error);
            return refused(&error);
        }
    };
    let admitted = match admission.admit(&asked.request, &caller, None) {
        Ok(admitted) => admitted,
        Err(error) => return refused(&error),
    };
    let has_passages = admission.state().toolbox.passages.is_some();
    let citing = Citing::of(head, has_passages);
    let name = admitted.name().to_owned();
    let completion = Completion {
        id: format!("chatcmpl-{name}"),
        created: now(),
        asked,
        citing,
    };
    let answered = match completion.asked.stream {
        true => completion.stream(admitted),
        false => completion.whole(admitted).await,
    };
    let mut response = answered.unwrap_or_else(|error| refused(&error));
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert("spechop-question-id", name);
    }
    response
}

/// An answer on its way.
struct Completion {
    id: String,
    created: u64,
    asked: Asked,
    citing: Citing,
}

impl Completion {
    async fn whole(self, admitted: Admitted) -> Result<Response, Arc<AskError>> {
        let answer = events::answer(admitted).await?;
        let mut reasoning = self.asked.note().unwrap_or_default();
        for (at, hop) in answer.hops.iter().enumerate() {
            reasoning += &hop_line(at + 1, hop);
        }
        let (content, annotations) = self.citing.content(&answer);
        let message = json!({
            "role": "assistant",
            "content": content,
            "refusal": null,
            "reasoning_content": reasoning,
            "annotations": annotations,
        });
        let choice = json!({
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": "stop",
        });
        Ok(json_body(&json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.asked.model,
            "choices": [choice],
            "usage": usage(&answer),
        })))
    }

    fn stream(self, admitted: Admitted) -> Result<Response, Arc<AskError>> {
        let events = Events::of(admitted)?;
        let mut first = vec![self.chunk(&json!({ "role": "assistant", "content": "" }), None)];
        if let Some(note) = self.asked.note() {
            first.push(self.chunk(&json!({ "reasoning_content": note }), None));
        }
        let mut hops = 0;
        let rest = events.flat_map(move |event| {
            let frames = match event.map(Arc::unwrap_or_clone) {
                Ok(event) => self.frames(event.event.as_ref(), &mut hops),
                Err(error) => vec![data(&error_body(&error))],
            };
            stream::iter(frames)
        });
        Ok(sse::respond(stream::iter(first).chain(rest)))
    }

    /// What a client hears of an event.
    fn frames(&self, event: Option<&Event>, hops: &mut usize) -> Vec<String> {
        match event {
            Some(Event::Committed(committed)) => {
                let hop = committed.hop.iter();
                let line = hop.map(|hop| {
                    *hops += 1;
                    let line = hop_line(*hops, hop);
                    self.chunk(&json!({ "reasoning_content": line }), None)
                });
                line.collect()
            }
            Some(Event::Answer(answer)) => {
                let (content, annotations) = self.citing.content(answer);
                let mut delta = json!({ "content": content });
                if !annotations.is_empty() {
                    delta["annotations"] = annotations.into();
                }
                let mut frames = vec![
                    self.chunk(&delta, None),
                    self.chunk(&json!({}), Some("stop")),
                ];
                if self.asked.include_usage {
                    let mut last = self.outline();
                    last["choices"] = json!([]);
                    last["usage"] = usage(answer);
                    frames.push(data(&last));
                }
                frames.push(DONE.to_owned());
                frames
            }
            _ => Vec::new(),
        }
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> String {
        let mut chunk = self.outline();
        chunk["choices"] = json!([{
            "index": 0,
            "delta": delta,
            "logprobs": null,
            "finish_reason": finish_reason,
        }]);
        if self.asked.include_usage {
            chunk["usage"] = Value::Null;
        }
        data(&chunk)
    }

    fn outline(&self) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.asked.model,
        })
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn model(id: &str) -> Value {
    json!({ "id": id, "object": "model", "created": 0, "owned_by": "spechop" })
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn refused(error: &AskError) -> Response {
    HttpError::from(error).respond(&error_body(error))
}

/// An error in OpenAI's form.
fn error_body(whose: &AskError) -> Value {
    let error = HttpError::from(whose);
    let kind = match error.status().as_u16() {
        400 | 410 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        _ => "server_error",
    };
    let fields = error.fields();
    let param = if matches!(whose, AskError::NoModel { .. }) {
        Some("model".to_owned())
    } else {
        fields.first().map(|wrong: &FieldViolation| {
            // The question is a message here, and every other option stands in the object.
            match wrong.field.as_str() {
                "question" => "messages".to_owned(),
                field if asked::is_own(field) => field.to_owned(),
                field => format!("spechop.{field}"),
            }
        })
    };
    json!({
        "error": {
            "message": error.message(),
            "type": kind,
            "param": param,
            "code": error.code().to_ascii_lowercase(),
        }
    })
}

fn json_body(value: &Value) -> Response {
    let head = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
    ];
    (head, value.to_string()).into_response()
}
