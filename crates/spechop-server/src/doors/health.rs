//! The doors for whoever looks after the server: is it alive (`/healthz`), and can it answer (`/readyz`)?
//!
//! Neither needs a key. They name parts, and no address.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::routing::get;

use super::{House, json_response};
use crate::admission::Admission;
use crate::readiness::Readiness;
use crate::transport::Door;

/// Builds the doors.
pub(super) fn add_to(house: &mut House, admission: &Admission, parts: Arc<Readiness>) {
    // What was true a while ago is of no use.
    let alive = get(async || ([(CACHE_CONTROL, "no-store")], "ok\n"));
    house.add(Door::get("/healthz").for_anybody(), alive);
    let state = Arc::clone(admission.state());
    let ready = get(async move || {
        let ready = parts.look(state.phases.closing.is_cancelled()).await;
        let status = match ready.ready {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        // Names and truth values are always JSON.
        let body = serde_json::to_value(&ready).unwrap_or_default();
        json_response(status, &body)
    });
    house.add(Door::get("/readyz").for_anybody(), ready);
}
