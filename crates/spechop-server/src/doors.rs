//! The doors: the ways in which clients reach the server. Each is thin: it reads a request, lets it in
//! through [`Admission`], and writes the answer in its own form. No door knows another one, and nothing
//! below knows any.
//!
//! To add a door, write a file beside this one and a line in [`open`].

mod admin;
mod form;
mod grpc;
mod health;
mod http;
mod mcp;
mod openai;
mod openapi;
mod page;
mod passage;
mod retrieve;
mod share;
mod tool_cache;
mod what_if;

use std::sync::Arc;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use serde_json::{Value, json};
use spechop_proto::admin_server::AdminServer;
use spechop_proto::spec_hop_server::SpecHopServer;
use spechop_proto::{Confidence, DESCRIPTORS};
use tonic::service::RoutesBuilder;
use tonic_health::pb::health_server::{Health, HealthServer};

use crate::admission::Admission;
use crate::finder::Finder;
use crate::readiness::Readiness;
use crate::transport::{Door, Doors, TALK_BYTES_MAX};

/// What the metrics are written in.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Said before the hops of a fallback, by doors at which nothing can be taken back.
const HANDED_OVER: &str = "The question is hardly of a form that the planner was trained on: the \
                           fallback begins anew.";

/// Everything that is served, and which of its paths are not gRPC.
pub(crate) struct House {
    pub(crate) routes: Router,
    pub(crate) doors: Doors,
}

/// Opens all doors.
pub(crate) fn open<H: Health>(
    admission: &Admission,
    health: HealthServer<H>,
    readiness: &Arc<Readiness>,
) -> Result<House, tonic_reflection::server::Error> {
    let state = admission.state();
    let mut house = House {
        routes: services(admission, health)?.routes().into_axum_router(),
        doors: Doors::default(),
    };
    let told = Arc::clone(state);
    let metrics = async move || ([(CONTENT_TYPE, METRICS_TYPE)], told.metrics.text());
    house.add(Door::get("/metrics").for_admins(), get(metrics));
    health::add_to(&mut house, admission, Arc::clone(readiness));
    page::add_to(&mut house, state.shares.as_ref());
    form::add_to(&mut house, admission);
    http::add_to(&mut house, admission);
    what_if::add_to(&mut house, admission);
    share::add_to(&mut house, admission);
    passage::add_to(&mut house, admission);
    openai::add_to(&mut house, admission);
    let finder = Arc::new(Finder::new(Arc::clone(state)));
    if state.config().server.retrieve {
        let route = retrieve::route(Arc::clone(&finder));
        house.add(Door::post(retrieve::PATH), route);
    }
    if state.config().server.mcp {
        house.add(Door::post(mcp::PATH), mcp::route(admission, &finder));
        // Clients may ask for a stream, or end a session: they hear that there is none (405).
        house.doors.add(Door::get(mcp::PATH));
        house.doors.add(Door::of(Method::DELETE, mcp::PATH));
    }
    if let Some(cache) = &state.toolbox.tool_cache {
        let door = tool_cache::ToolDoor::new(state, cache);
        let longest = state.config().server.transport.message_bytes_max;
        let put = Door::post(tool_cache::PATH).of_bytes(longest.max(tool_cache::BYTES_MAX));
        house.add(put, door.clone().put());
        house.add(Door::post(tool_cache::QUERY_PATH), door.query());
    }
    // Behind all others, which it describes.
    openapi::add_to(&mut house);
    Ok(house)
}

impl House {
    /// One more path that is not gRPC. Its `route` answers the method of the door.
    pub(crate) fn add(&mut self, door: Door, route: MethodRouter) {
        let routes = std::mem::take(&mut self.routes);
        self.routes = routes.route(door.name().1, route);
        self.doors.add(door);
    }
}

/// Everything that speaks gRPC.
fn services<H: Health>(
    admission: &Admission,
    health: HealthServer<H>,
) -> Result<RoutesBuilder, tonic_reflection::server::Error> {
    // Both versions of reflection know of each other: older clients speak the older one.
    let described = || {
        tonic_reflection::server::Builder::configure()
            .include_reflection_service(false)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // What the details of a status are.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(DESCRIPTORS)
    };
    let admin = admin::Admin::new(Arc::clone(admission.state()));
    let questions = grpc::Grpc::new(admission.clone());
    let mut routes = RoutesBuilder::default();
    let v1 = described().build_v1()?;
    let v1alpha = described().build_v1alpha()?;
    routes
        .add_service(SpecHopServer::new(questions))
        .add_service(AdminServer::new(admin))
        .add_service(health)
        .add_service(v1.max_decoding_message_size(TALK_BYTES_MAX))
        .add_service(v1alpha.max_decoding_message_size(TALK_BYTES_MAX));
    Ok(routes)
}

/// What an answer is worth, for forms that have no place of their own for it. What is not known is left out.
fn worth(sure: &Confidence) -> Value {
    let mut worth = json!({ "supported": sure.supported });
    if let Some(chance) = sure.chance {
        worth["chance"] = chance.into();
    }
    if let Some(of_form) = sure.of_form {
        worth["of_form"] = of_form.into();
    }
    if let Some(withheld) = &sure.withheld {
        worth["withheld"] = withheld.as_str().into();
    }
    worth
}

/// An answer in JSON.
fn json_response(status: StatusCode, body: &Value) -> Response {
    json_text(status, body.to_string())
}

fn json_text(status: StatusCode, body: String) -> Response {
    let head = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
    ];
    (status, head, body).into_response()
}

/// Tells the client the name of its question, which it may not have given itself; `None` if nobody can come
/// back to it.
fn named(mut response: Response, name: Option<&str>) -> Response {
    if let Some(Ok(name)) = name.map(HeaderValue::from_str) {
        response.headers_mut().insert("spechop-question-id", name);
    }
    response
}
