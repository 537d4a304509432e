//! What every request has to pass, whatever it asks for.

use std::mem;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Version};
use axum::middleware::Next;
use axum::response::Response;
use percent_encoding::percent_decode_str;
use spechop_types::with_causes;
use tokio::time::timeout;

use super::accept::Lines;
use super::access::{self, Access};
use super::body::{Answer, Talk, drain, hold, may_fit, receive};
use super::doors::{Door, Doors};
use super::hosts::Hosts;
use super::line::LineHandle;
use super::timeout::GrpcTimeout;
use crate::status::{ErrorForm, TransportError, is_grpc};

/// Calls in which both sides talk. All others send one message.
const TALKS: &str = "/grpc.reflection.";

/// A call that lasts for as long as the client likes, and that no connection is kept for.
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// What browsers post.
const FORM: &str = "application/x-www-form-urlencoded";

/// What is looked at, and what is known of it.
pub(crate) struct Guard {
    pub(super) hosts: Hosts,
    pub(super) doors: Doors,
    pub(super) lines: Lines,
    pub(super) access: Arc<Access>,
}

/// The layer around every route.
pub(super) async fn attend(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let form = match speaks_grpc(request.version(), request.headers()) {
        true => ErrorForm::Grpc,
        false => guard.doors.error_form(request.uri().path()),
    };
    let Some(time) = GrpcTimeout::of(request.headers()) else {
        return guard.see_to(request, next, form).await;
    };
    let is_head = request.method() == Method::HEAD;
    match timeout(time.for_request(), guard.see_to(request, next, form)).await {
        Ok(response) => response,
        Err(_) => guard.refuse(TransportError::OutOfTime, form, is_head),
    }
}

impl Guard {
    /// Lets a request in and has it answered, or refuses it.
    async fn see_to(&self, request: Request, next: Next, form: ErrorForm) -> Response {
        let (mut parts, mut body) = request.into_parts();
        let line = parts.extensions.get::<LineHandle>().cloned();
        let attended = line.as_ref().map(LineHandle::attend);
        let taken_in = self.take_in(line.as_ref(), &mut parts, &mut body).await;
        if let Err(error) = taken_in {
            // A client of gRPC reads answers while it sends. A client that waits for our word sends nothing
            // before it, and a late one has had its time.
            let is_heard = speaks_grpc(parts.version, &parts.headers)
                || parts.headers.contains_key(EXPECT)
                || matches!(error, TransportError::Late { .. });
            let response = self.refuse(error, form, parts.method == Method::HEAD);
            if let Some(line) = line
                && !is_heard
            {
                drain(&line, body, self.lines.limits()).await;
            }
            return response;
        }
        // Whatever comes over a listener of ours has it.
        let (Some(line), Some(attended)) = (line, attended) else {
            return next.run(Request::from_parts(parts, body)).await;
        };
        let path = parts.uri.path();
        let is_work = path != WATCH && !path.starts_with(TALKS);
        let working = is_work.then(|| line.begin());
        let response = next.run(Request::from_parts(parts, body)).await;
        response.map(|body| Body::new(Answer::new(body, line, attended, working)))
    }

    /// Says no.
    fn refuse(&self, error: TransportError, form: ErrorForm, is_head: bool) -> Response {
        self.lines.counts().refused(error.reason());
        tracing::debug!(reason = with_causes(&error), "request refused");
        let mut response = error.respond(form);
        // axum sees to it for the doors, and not for the paths of gRPC.
        if is_head {
            let bytes = response.body().size_hint().lower();
            response.headers_mut().insert(CONTENT_LENGTH, bytes.into());
            *response.body_mut() = Body::empty();
        }
        response
    }

    /// Lets a request in. Then its body is whole, or that of a call in which both sides talk.
    async fn take_in(
        &self,
        line: Option<&LineHandle>,
        parts: &mut Parts,
        body: &mut Body,
    ) -> Result<(), TransportError> {
        let limits = self.lines.limits();
        let door = self.check(parts, body)?;
        let bytes_max = door.and_then(|door| door.bytes_max);
        let bytes_max = bytes_max.unwrap_or(limits.message_bytes_max);
        let path = parts.uri.path();
        let role = door.map_or_else(|| access::role_of_service(path), |door| door.role);
        let is_rate_limited = door.map_or_else(
            || access::is_rate_limited(path),
            |door| door.is_rate_limited,
        );
        // Before it waits for its turn: until then it would be held and not counted.
        let held = line.map(|line| hold(line, &parts.headers)).transpose()?;
        if let Some(line) = line {
            let (interval, burst) = (limits.request_interval, limits.request_burst);
            line.turn(interval, burst).await;
        }
        self.access
            .admit(role, is_rate_limited, line, parts)
            .await?;
        let Some(held) = held else {
            return Ok(());
        };
        *body = if parts.uri.path().starts_with(TALKS) {
            Body::new(Talk::new(held, mem::take(body), limits)?)
        } else {
            may_fit(body, bytes_max)?;
            // Whoever waits until the body is asked for hears that now, and sends it.
            parts.headers.remove(EXPECT);
            Body::from(receive(held, body, limits, bytes_max).await?)
        };
        Ok(())
    }

    /// By its head alone. Returns the door that it wants, if it is not gRPC.
    fn check(&self, parts: &Parts, body: &Body) -> Result<Option<&Door>, TransportError> {
        let named = parts.uri.authority().map(|name| name.as_str());
        let mut hosts = parts.headers.get_all(HOST).into_iter();
        let host = hosts.next();
        // A proxy may go by another one of several than this server.
        if hosts.next().is_some() || (parts.version == Version::HTTP_11 && host.is_none()) {
            return Err(TransportError::NotOneHost);
        }
        let host = host.map(|host| host.to_str().unwrap_or_default());
        for name in named.into_iter().chain(host) {
            if !self.hosts.accept(name) {
                let host = short(name);
                return Err(TransportError::OtherHost { host });
            }
        }
        // Only browsers send it, on behalf of a page.
        let mut origins = parts.headers.get_all(ORIGIN).into_iter();
        if let Some(origin) = origins.next() {
            let origin = origin.to_str().unwrap_or_default();
            let host = named.or(host).unwrap_or_default();
            if origins.next().is_some() || !self.hosts.is_own_page(origin, host) {
                return Err(TransportError::FromAPage);
            }
        }
        let path = parts.uri.path();
        // Doors take names out of a path, and names are texts.
        if percent_decode_str(path).decode_utf8().is_err() {
            let doors = self.doors.to_string();
            return Err(TransportError::NoSuchPath { doors });
        }
        let Some(door) = self.doors.find(&parts.method, path) else {
            return self.check_grpc(parts).map(|()| None);
        };
        let reads = [Method::GET, Method::HEAD].contains(&parts.method);
        // Without a body there is nothing that could be taken for something else. Over HTTP/2 one may come without a
        // length, and the end of an empty one behind its head.
        let length = parts.headers.get(CONTENT_LENGTH);
        let is_empty = !parts.headers.contains_key(CONTENT_TYPE)
            && (body.is_end_stream() || length.is_some_and(|length| length == "0"));
        if reads || is_empty {
            return Ok(Some(door));
        }
        if let Some(coding) = packed(&parts.headers) {
            let coding = short(coding);
            return Err(TransportError::Packed { coding });
        }
        // Browsers ask first before they send JSON to another origin, and nobody says yes. They send forms
        // unasked, and say for which page.
        match kind(&parts.headers) {
            kind if door.is_form => {
                let has_origin = parts.headers.contains_key(ORIGIN);
                match is(FORM, kind) && has_origin {
                    true => Ok(Some(door)),
                    false => Err(TransportError::NotAForm {
                        kind: short(kind),
                        origin: if has_origin { "an" } else { "no" },
                    }),
                }
            }
            kind if is("application/json", kind) => Ok(Some(door)),
            kind => Err(TransportError::NotJson { kind: short(kind) }),
        }
    }

    /// Whatever wants none of the doors has to be gRPC.
    fn check_grpc(&self, parts: &Parts) -> Result<(), TransportError> {
        let (path, doors) = (parts.uri.path(), || self.doors.to_string());
        let is_grpc = is_grpc(&parts.headers);
        if !is_grpc && !is_of_a_service(path) {
            let (method, allowed) = (short(parts.method.as_str()), self.doors.methods(path));
            return Err(match allowed.is_empty() {
                true => TransportError::NoSuchPath { doors: doors() },
                false => TransportError::OtherMethod { method, allowed },
            });
        }
        if parts.version < Version::HTTP_2 {
            return Err(TransportError::OldHttp { doors: doors() });
        }
        if !is_grpc {
            let kind = short(kind(&parts.headers));
            return Err(TransportError::NotGrpc { kind });
        }
        Ok(())
    }
}

/// Whether a request is a call of gRPC that can be answered as one.
fn speaks_grpc(version: Version, headers: &HeaderMap) -> bool {
    version >= Version::HTTP_2 && is_grpc(headers)
}

/// Whether a path has the form of gRPC's: `/package.Service/Method`. A dot alone does not make it so: browsers
/// and scanners ask for `/.well-known/…` and `/.git/…`. No door has such a first segment.
fn is_of_a_service(path: &str) -> bool {
    let named = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    named.is_some_and(|(service, method)| {
        service.contains('.') && service.split('.').all(is_identifier) && !method.contains('/')
    })
}

/// Whether protobuf takes a word as a name.
fn is_identifier(word: &str) -> bool {
    let is_of_it = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.starts_with(|c: char| is_of_it(c) && !c.is_ascii_digit()) && word.chars().all(is_of_it)
}

/// What the body is said to be.
fn kind(headers: &HeaderMap) -> &str {
    let kind = headers.get(CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok()).unwrap_or("none")
}

/// How the body is packed, if it is.
fn packed(headers: &HeaderMap) -> Option<&str> {
    let codings = headers.get_all(CONTENT_ENCODING).into_iter();
    let mut codings = codings.map(|coding| coding.to_str().unwrap_or("unknown"));
    codings.find(|coding| !coding.eq_ignore_ascii_case("identity"))
}

/// Whether a content-type is this one, whatever its parameters.
fn is(expected: &str, kind: &str) -> bool {
    let kind = kind.split_once(';').map_or(kind, |(kind, _)| kind);
    kind.trim().eq_ignore_ascii_case(expected)
}

/// Of what strangers write, as much as belongs into an error.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}
