//! Links to runs: `POST /v1/questions/{id}/share` makes one, `DELETE` ends it, and `GET /s/{token}/events`
//! is what it leads to: the events as JSON lines. Whoever may read the events of a question may share them.
//!
//! ```text
//! {"path": "/s/…", "expires_s": 3600}
//! ```

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use serde_json::json;
use spechop_proto::json as wire_json;

use super::{House, json_response};
use crate::admission::Admission;
use crate::caller::caller;
use crate::shares::Shares;
use crate::status::{AskError, HttpError};
use crate::transport::Door;

const PATH: &str = "/v1/questions/{id}/share";

/// Builds the door, if runs may be shared.
pub(super) fn add_to(house: &mut House, admission: &Admission) {
    let Some(shares) = &admission.state().shares else {
        return;
    };
    let at = Sharing {
        admission: admission.clone(),
        shares: Arc::clone(shares),
    };
    let ends = at.clone();
    let share = post(async move |Path(id): Path<String>, head: Parts| at.share(&id, &head));
    let both = share.merge(delete(async move |Path(id): Path<String>, head: Parts| {
        ends.end(&id, &head)
    }));
    house.add(Door::post(PATH), both);
    house.doors.add(Door::of(Method::DELETE, PATH));
    let shares = Arc::clone(shares);
    let events = get(async move |Path(token): Path<String>| found(&shares, &token));
    house.add(Door::get("/s/{token}/events").for_anybody(), events);
}

#[derive(Clone)]
struct Sharing {
    admission: Admission,
    shares: Arc<Shares>,
}

impl Sharing {
    fn share(&self, id: &str, head: &Parts) -> Result<Response, HttpError> {
        let caller = caller(&head.headers, &head.extensions)?;
        let question = self.admission.known(id, &caller)?;
        let recording = question.log.whole().ok_or(AskError::NotNow(
            "the question is still open, or not all of its events are kept, so it cannot be shared",
        ))?;
        let mut lines = String::with_capacity(2 * recording.bytes);
        for event in &recording.events {
            lines += &wire_json::write_event(event).map_err(AskError::from)?.1;
            lines.push('\n');
        }
        if let Some(error) = &recording.error {
            lines += &json!({ "error": HttpError::from(&**error).body() }).to_string();
            lines.push('\n');
        }
        let shared = self.shares.share(&question.id, Bytes::from(lines));
        let token = shared.map_err(|full| AskError::SharesFull { most: full.most })?;
        let body = json!({
            "path": format!("/s/{token}"),
            "expires_s": self.shares.time().as_secs(),
        });
        Ok(json_response(StatusCode::OK, &body))
    }

    fn end(&self, id: &str, head: &Parts) -> Result<Response, HttpError> {
        let caller = caller(&head.headers, &head.extensions)?;
        // The question itself may be forgotten by now.
        let id = self.admission.name_of(id, &caller)?;
        let ended = self.shares.end(&id);
        Ok(json_response(StatusCode::OK, &json!({ "ended": ended })))
    }
}

fn found(shares: &Shares, token: &str) -> Response {
    let head = [
        (CONTENT_TYPE, "application/x-ndjson"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    match shares.run(token) {
        Some(run) => (head, run).into_response(),
        None => {
            let body = json!({
                "code": "NOT_FOUND",
                "message": "this link has expired, was ended, or never led anywhere",
            });
            json_response(StatusCode::NOT_FOUND, &body)
        }
    }
}
