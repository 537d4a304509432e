//! The doors for clients of OpenAI: `/v1/chat/completions`, `/v1/embeddings` and `/v1/models`.
//!
//! The last message of the user is the question. The committed hops are the reasoning
//! (`reasoning_content`), and the answer cites the passages that they rest on (`annotations`). What such
//! clients cannot say otherwise stands in an object `spechop` of the request, which holds the fields of an
//! `AskRequest`.

mod asked;
mod completion;
mod embeddings;
mod open_webui;
mod said;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tonic_types::FieldViolation;

use self::asked::MODELS;
use self::completion::Chat;
use self::embeddings::{EMBEDDERS, Embeddings};
use super::{House, json_response};
use crate::admission::Admission;
use crate::status::{AskError, ErrorForm, HttpError};
use crate::transport::Door;

/// A conversation may be long, of which the last message is asked.
const CHAT_BYTES_MAX: usize = 256 << 10;

/// Builds the doors. Without an encoder there are no vectors, and no models that make some.
pub(super) fn add_to(house: &mut House, admission: &Admission) {
    let in_their_form = |door: Door| door.telling_errors(ErrorForm::OpenAi);
    let at = Arc::new(Chat::new(admission.clone()));
    let chat = post(async move |head: Parts, body: Bytes| at.complete(&head, &body).await);
    let door = Door::post("/v1/chat/completions").of_bytes(CHAT_BYTES_MAX);
    // The transport has seen to it.
    let chat = chat.layer(DefaultBodyLimit::disable());
    house.add(in_their_form(door), chat);
    let mut names = MODELS.to_vec();
    if let Some(at) = Embeddings::open(admission.state()).map(Arc::new) {
        names.extend(EMBEDDERS);
        let embed = post(async move |head: Parts, body: Bytes| at.embed(&head, &body).await);
        let door = Door::post("/v1/embeddings").of_bytes(embeddings::BYTES_MAX);
        let embed = embed.layer(DefaultBodyLimit::disable());
        house.add(in_their_form(door), embed);
    }
    let names: Arc<[_]> = names.into();
    let known = Arc::clone(&names);
    let models = get(async move || {
        let models: Vec<_> = names.iter().map(|name| model(name)).collect();
        json_body(&json!({ "object": "list", "data": models }))
    });
    house.add(in_their_form(Door::get("/v1/models")), models);
    let one = get(
        async move |Path(id): Path<String>| match known_in(&known, &id) {
            Ok(id) => json_body(&model(id)),
            Err(error) => refused(&error),
        },
    );
    house.add(in_their_form(Door::get("/v1/models/{id}")), one);
}

/// The model of this name.
fn known_in(offered: &[&'static str], name: &str) -> Result<&'static str, AskError> {
    let found = offered.iter().find(|model| **model == name);
    found.copied().ok_or_else(|| AskError::NoModel {
        offered: offered.join(", "),
    })
}

fn model(id: &str) -> Value {
    json!({ "id": id, "object": "model", "created": 0, "owned_by": "spechop" })
}

fn refused(error: &AskError) -> Response {
    HttpError::from(error).respond(&error_body(error))
}

/// An error in OpenAI's form.
fn error_body(whose: &AskError) -> Value {
    let error = HttpError::from(whose);
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
    error.openai_body(param.as_deref())
}

fn json_body(value: &Value) -> Response {
    json_response(StatusCode::OK, value)
}
