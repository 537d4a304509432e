//! The door for HTTP: questions and answers as JSON, events as server-sent events.
//!
//! `POST /v1/ask` and `POST /v1/ask/stream` take an `AskRequest` in the JSON form of
//! [`spechop_proto::json`]. `/v1/questions/{id}/…` is for questions that are open or ended lately.
//! Errors have the form of [`HttpError`].

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use spechop_proto::json::{self, InJson};
use spechop_proto::{AskEvent, AskRequest};
use tonic_types::FieldViolation;

use super::{House, json_text, named};
use crate::admission::{Admission, Admitted};
use crate::caller::{Caller, caller};
use crate::events::{self, Events};
use crate::sse;
use crate::status::{AskError, HttpError};
use crate::transport::Door;

/// Builds the door.
pub(super) fn add_to(house: &mut House, admission: &Admission) {
    let http = Http {
        admission: admission.clone(),
    };
    let at = http.clone();
    let ask = post(async move |head: Parts, body: Bytes| at.ask(&head, &body).await);
    // The transport has seen to it.
    house.add(
        Door::post("/v1/ask"),
        ask.layer(DefaultBodyLimit::disable()),
    );
    let at = http.clone();
    let stream = post(async move |head: Parts, body: Bytes| at.stream(&head, &body).await);
    let stream = stream.layer(DefaultBodyLimit::disable());
    house.add(Door::post("/v1/ask/stream"), stream);
    let at = http.clone();
    let events = get(async move |Path(id): Path<String>, head: Parts| at.events(&id, &head));
    house.add(Door::get("/v1/questions/{id}/events"), events);
    let at = http.clone();
    let answer = get(async move |Path(id): Path<String>, head: Parts| at.answer(&id, &head).await);
    house.add(Door::get("/v1/questions/{id}/answer"), answer);
    let at = http.clone();
    let finish = post(async move |Path(id): Path<String>, head: Parts| at.finish(&id, &head));
    let door = Door::post("/v1/questions/{id}/finish").without_rate_limit();
    house.add(door, finish);
    let cancel = post(async move |Path(id): Path<String>, head: Parts| http.cancel(&id, &head));
    let door = Door::post("/v1/questions/{id}/cancel").without_rate_limit();
    house.add(door, cancel);
}

#[derive(Clone)]
struct Http {
    admission: Admission,
}

impl Http {
    async fn admit(&self, head: &Parts, body: &[u8]) -> Result<Admitted, AskError> {
        let read = caller_of(head).and_then(|caller| Ok((caller, json::read::<AskRequest>(body)?)));
        let (caller, request) = read.inspect_err(|error| self.admission.refused(error))?;
        self.admission.admit(&request, &caller, None).await
    }

    async fn ask(&self, head: &Parts, body: &[u8]) -> Result<Response, HttpError> {
        let admitted = self.admit(head, body).await?;
        let name = admitted.may_be_followed.then(|| admitted.name().to_owned());
        let answer = events::answer(admitted).await;
        let answer = answer.map_err(|error| HttpError::from(&*error))?;
        Ok(named(json_of(&answer)?, name.as_deref()))
    }

    async fn stream(&self, head: &Parts, body: &[u8]) -> Result<Response, HttpError> {
        let events = Events::of(self.admit(head, body).await?);
        Ok(streamed(events.map_err(|error| HttpError::from(&*error))?))
    }

    fn events(&self, id: &str, head: &Parts) -> Result<Response, HttpError> {
        let caller = caller_of(head)?;
        let after = after(head)?;
        let answer = self.admission.known(id, &caller)?.log.answer();
        if answer.is_some_and(|answer| answer.sequence == after) {
            // A browser's `EventSource` comes back whenever its stream has ended, unless it hears that.
            let none = (StatusCode::NO_CONTENT, [(CACHE_CONTROL, "no-store")]);
            return Ok(named(none.into_response(), Some(id)));
        }
        Ok(streamed(Events::resume(
            &self.admission,
            id,
            after,
            &caller,
        )?))
    }

    async fn answer(&self, id: &str, head: &Parts) -> Result<Response, HttpError> {
        let caller = caller_of(head)?;
        let answer = Events::last(&self.admission, id, &caller)?.answer().await;
        let answer = answer.map_err(|error| HttpError::from(&*error))?;
        Ok(named(json_of(&answer)?, Some(id)))
    }

    fn finish(&self, id: &str, head: &Parts) -> Result<Response, HttpError> {
        self.admission.finish_now(id, &caller_of(head)?)?;
        Ok(json_text(StatusCode::OK, "{}".to_owned()))
    }

    fn cancel(&self, id: &str, head: &Parts) -> Result<Response, HttpError> {
        self.admission.cancel(id, &caller_of(head)?)?;
        Ok(json_text(StatusCode::OK, "{}".to_owned()))
    }
}

fn caller_of(head: &Parts) -> Result<Caller, AskError> {
    caller(&head.headers, &head.extensions)
}

/// The number of the last event that the client knows: `after` in the query, or the header with which a
/// browser comes back to a stream. It comes back to the address that it began with, so the greater one counts.
fn after(head: &Parts) -> Result<u64, AskError> {
    let mut pairs = head.uri.query().unwrap_or_default().split('&');
    let named = pairs.find_map(|pair| pair.strip_prefix("after="));
    let header = head.headers.get("last-event-id");
    let header = header.and_then(|header| header.to_str().ok());
    let Some(value) = named.or(header) else {
        return Ok(0);
    };
    let value: u64 = value.parse().map_err(|_| {
        let problem = "must be the number of the last event that is known, or 0";
        AskError::Invalid(vec![FieldViolation::new("after", problem)])
    })?;
    // Beside `after`, a header that is no number says nothing.
    Ok(value.max(header.and_then(|header| header.parse().ok()).unwrap_or(0)))
}

/// The events of a question as server-sent events. The last one is `answer` or `error`.
fn streamed(events: Events) -> Response {
    let name = events.name().to_owned();
    let frames = events.map(|event| match event {
        Ok(event) => frame(&event).unwrap_or_else(|error| error_frame(&error)),
        Err(error) => error_frame(&error),
    });
    named(sse::respond(frames), Some(name.as_str()))
}

fn frame(event: &AskEvent) -> Result<String, AskError> {
    let (name, line) = json::write_event(event)?;
    Ok(format!(
        "id: {}\nevent: {name}\ndata: {line}\n\n",
        event.sequence
    ))
}

fn error_frame(error: &AskError) -> String {
    let body = HttpError::from(error).body();
    format!("event: error\ndata: {body}\n\n")
}

fn json_of<M: InJson>(message: &M) -> Result<Response, AskError> {
    Ok(json_text(StatusCode::OK, json::write(message)?))
}
