//! The one door through which errors become gRPC statuses: no other file of this crate builds one, but for
//! the exporter of spans, which is a client (`tests/one_door.rs` reads the sources and checks it).

mod http;
mod words;

use std::time::Duration;

use axum::http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use spechop_agent::AgentError;
use spechop_ports::{PortError, reason};
use spechop_types::{Stage, Tenant};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

pub(crate) use self::http::{ErrorForm, HttpError};
use self::words::{brief, sentence, short, told};
use crate::accounts::Shortage;
use crate::caller::named;
use crate::finder::FindError;
use crate::outcome::Outcome;
use crate::places::InVain;
use crate::transport::AccessError;

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The request is wrong; every wrong field with what is wrong about it.
    #[error("{}", sentence(.0))]
    Invalid(Vec<FieldViolation>),
    /// As many questions as may be are being answered.
    #[error(
        "{questions_max} questions are being answered, which is the most{wait}; try again later{}",
        .wait.remedy("server.questions_max")
    )]
    Busy { questions_max: usize, wait: InVain },
    /// As many questions of one tenant as may be are being answered.
    #[error(
        "{most} questions of {} are being answered, which is the most{wait}; try again later{}",
        named(.tenant), .wait.remedy("tenant.questions_max")
    )]
    TenantBusy {
        tenant: Tenant,
        most: usize,
        wait: InVain,
    },
    /// The tenant's account lends nothing.
    #[error("{}", short(.tenant, .shortage))]
    Overdrawn { tenant: Tenant, shortage: Shortage },
    /// The client has taken nothing of the stream for too long.
    #[error("nothing of the stream was read for {} s, so it was ended", .limit.as_secs_f64())]
    Unread { limit: Duration },
    /// The tenant has no question of that name that would do.
    #[error("no question {0} is open on this server: it has ended, or has not begun")]
    NotOpen(Tenant),
    /// The reader wants events that are no longer kept.
    #[error(
        "the events from {} to {} are no longer kept; ask for those after {}, or for the answer alone",
        .after + 1, .first - 1, .first - 1
    )]
    TooOld { after: u64, first: u64 },
    /// As many as may read the events or wait for the answer of that question.
    #[error("{most} readers follow this question, which is the most; try again later")]
    TooManyReaders { most: usize },
    /// The server has no model of that name; a client of OpenAI has to name one.
    #[error("there is no such model; this server has {offered}")]
    NoModel { offered: String },
    /// The index has no passage of that identifier.
    #[error("the index has no passage {id}")]
    NoPassage { id: String },
    /// The question is not as far, or no longer there as a whole.
    #[error("{0}")]
    NotNow(&'static str),
    /// As many runs are shared as may be.
    #[error(
        "as many runs are shared as may be ({most} of a tenant), or as many bytes of them; end one, or wait until one expires"
    )]
    SharesFull { most: usize },
    /// A part of the server that stands apart from questions failed.
    #[error(transparent)]
    Port(PortError),
    /// Somebody has cancelled the question, or its client has gone away.
    #[error("the question was cancelled")]
    Cancelled,
    /// Nobody has followed the question for as long as it may go on alone.
    #[error("nobody has followed the question for {} s, so it was ended", .linger.as_secs_f64())]
    Alone { linger: Duration },
    /// The server stops; the question was not begun, or not finished in time.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The question's task came to an end without a result.
    #[error("the question's task ended without a result")]
    Lost,
    /// The agent gave up.
    #[error(transparent)]
    Agent(AgentError),
}

impl From<AgentError> for AskError {
    fn from(error: AgentError) -> Self {
        match error {
            // The first prompt holds nothing of the client's but the question. Later ones also hold hops.
            AgentError::Stage {
                hop: 1,
                stage: Stage::Segment,
                source: PortError::TooLong { what, detail },
            } => {
                let problem = format!("is too long for {what}: {detail}");
                Self::wrong("question", problem)
            }
            error => Self::Agent(error),
        }
    }
}

impl From<PortError> for AskError {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

/// Why an operator's call was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    /// The request is wrong; every wrong field with what is wrong about it.
    #[error("{}", sentence(.0))]
    Invalid(Vec<FieldViolation>),
    /// The server offers no speculator of the requested name.
    #[error("there is no such speculator; this server has {offered}")]
    NoSpeculator {
        /// The names that it does offer, separated by commas.
        offered: String,
    },
    /// As many simulations wait as may.
    #[error("{callers_max} simulations are asked for, which is the most; try again later")]
    Busy { callers_max: usize },
    /// The simulation's thread came to an end without a result.
    #[error("the simulation ended without a result")]
    Lost,
}

/// Why the transport let a request go no further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    /// The request is addressed to somebody else.
    #[error(
        "{host} is no name of this server; if it is meant to be one, add it to server.hosts in the \
         configuration"
    )]
    OtherHost { host: String },
    /// It names no host, or several.
    #[error("a request names its host once (Host)")]
    NotOneHost,
    /// A browser sent it for a web page of another server.
    #[error("requests of other servers' web pages (with another Origin) are not served")]
    FromAPage,
    /// HTTP/1 where HTTP/2 is spoken.
    #[error("gRPC needs HTTP/2; over HTTP/1.1 there are only {doors}")]
    OldHttp {
        /// Methods and paths, separated by commas.
        doors: String,
    },
    /// Neither a service of gRPC nor anything else.
    #[error("there is no such path; beside gRPC there are only {doors}")]
    NoSuchPath {
        /// Methods and paths, separated by commas.
        doors: String,
    },
    /// The path is there for other methods.
    #[error("this path is there for {allowed}, not for {method}")]
    OtherMethod {
        method: String,
        /// Methods, separated by commas.
        allowed: String,
    },
    /// Neither a page nor gRPC.
    #[error("this path speaks gRPC (content-type application/grpc, not {kind})")]
    NotGrpc { kind: String },
    /// Anything else where JSON is taken. A web page may send that unasked, and JSON it may not.
    #[error("this path takes JSON (content-type application/json, not {kind})")]
    NotJson { kind: String },
    /// Anything else where a form of the page is taken.
    #[error(
        "this path takes a form that a browser posts from the page of this server (with its Origin, and \
         content-type application/x-www-form-urlencoded); this request has {origin} Origin, and \
         content-type {kind}"
    )]
    NotAForm { kind: String, origin: &'static str },
    /// A body that would have to be unpacked.
    #[error("packed bodies (content-encoding {coding}) are not read here: send it as it is")]
    Packed { coding: String },
    /// Whoever sends it may not ask, or not now.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The message did not arrive in time.
    #[error("the request did not arrive within {} s", limit.as_secs_f64())]
    Late { limit: Duration },
    /// The client waits no longer.
    #[error("the deadline passed that the client has set for the call (grpc-timeout)")]
    OutOfTime,
    /// The message is longer than any may be.
    #[error("the request is longer than {most} bytes, the most that this server takes")]
    TooLong { most: usize },
    /// Too many bytes of one connection have not arrived whole.
    #[error("too many requests of this connection have not arrived whole, or wait for their turn")]
    TooMuchAtOnce,
    /// The client has given up in the middle of it.
    #[error("the request broke off")]
    Broken(#[source] axum::Error),
}

impl TransportError {
    /// In a word, for the metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::OtherHost { .. } => "host",
            Self::NotOneHost => "not_one_host",
            Self::FromAPage => "origin",
            Self::OldHttp { .. } => "http1",
            Self::NoSuchPath { .. } => "path",
            Self::OtherMethod { .. } => "method",
            Self::NotGrpc { .. } => "not_grpc",
            Self::NotJson { .. } => "not_json",
            Self::NotAForm { .. } => "not_a_form",
            Self::Packed { .. } => "packed",
            Self::Access(error) => error.reason(),
            Self::Late { .. } => "late",
            Self::OutOfTime => "out_of_time",
            Self::TooLong { .. } => "too_long",
            Self::TooMuchAtOnce => "too_much_at_once",
            Self::Broken(_) => "broken",
        }
    }

    /// As the client of such a path expects it.
    pub(crate) fn respond(self, form: ErrorForm) -> Response {
        let is_access = matches!(self, Self::Access(_));
        let remedy = match &self {
            Self::OtherMethod { allowed, .. } => {
                let allowed = HeaderValue::from_str(allowed);
                allowed.ok().map(|allowed| (ALLOW, allowed))
            }
            Self::Packed { .. } => Some((ACCEPT_ENCODING, HeaderValue::from_static("identity"))),
            _ => None,
        };
        let error = match form {
            ErrorForm::Grpc => return Status::from(self).into_http(),
            ErrorForm::Json | ErrorForm::OpenAi => HttpError::from(self),
        };
        let mut response = match form {
            ErrorForm::OpenAi => error.respond(&error.openai_body(None)),
            ErrorForm::Json | ErrorForm::Grpc => error.into_response(),
        };
        if !is_access {
            // Nothing more is read of what else it may have sent.
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        if let Some((name, value)) = remedy {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl From<TransportError> for Status {
    fn from(error: TransportError) -> Self {
        let code = match error {
            TransportError::OtherHost { .. } | TransportError::FromAPage => Code::PermissionDenied,
            TransportError::NotOneHost => Code::InvalidArgument,
            TransportError::NoSuchPath { .. } => Code::NotFound,
            TransportError::OldHttp { .. }
            | TransportError::OtherMethod { .. }
            | TransportError::NotGrpc { .. }
            | TransportError::NotJson { .. }
            | TransportError::NotAForm { .. }
            | TransportError::Packed { .. } => Code::Unimplemented,
            TransportError::Late { .. } | TransportError::OutOfTime => Code::DeadlineExceeded,
            TransportError::TooLong { .. } => Code::OutOfRange,
            TransportError::TooMuchAtOnce => Code::ResourceExhausted,
            TransportError::Broken(_) => Code::Cancelled,
            TransportError::Access(error) => return error.into(),
        };
        Self::new(code, brief(&error.to_string()))
    }
}

impl From<AccessError> for Status {
    fn from(error: AccessError) -> Self {
        let code = match error {
            AccessError::NoKey
            | AccessError::TwoKeys
            | AccessError::WrongKey
            | AccessError::WrongToken { .. } => Code::Unauthenticated,
            AccessError::NoRole { .. }
            | AccessError::OtherTenant { .. }
            | AccessError::NoTenant { .. } => Code::PermissionDenied,
            AccessError::ChecksBusy | AccessError::NoTokenKeys => Code::Unavailable,
            AccessError::TenantTooFast { .. } | AccessError::KeyTooFast { .. } => {
                Code::ResourceExhausted
            }
        };
        let mut details = ErrorDetails::new();
        if let Some(again_in) = error.again_in() {
            details.set_retry_info(Some(again_in));
        }
        Self::with_error_details(code, brief(&error.to_string()), details)
    }
}

/// Whether a request speaks gRPC, as it says itself.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

impl AskError {
    /// One field of the request is wrong.
    pub(crate) fn wrong(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldViolation::new(field, problem)])
    }

    /// A part of the request cannot be read. The reason quotes it, and is kept short.
    pub(crate) fn unreadable(field: &str, problem: &str, error: &serde_json::Error) -> Self {
        let why = reason(error.to_string().as_bytes(), None);
        Self::wrong(field, format!("{problem}: {why}"))
    }

    /// How the question ended.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Invalid(_) | Self::NoModel { .. } => Outcome::Invalid,
            // No question ends like this: these are calls about an earlier one, or for a passage.
            Self::NotOpen(_) | Self::NoPassage { .. } | Self::TooOld { .. } | Self::NotNow(_) => {
                Outcome::Invalid
            }
            Self::Cancelled | Self::Alone { .. } => Outcome::Cancelled,
            Self::Busy { .. } | Self::TooManyReaders { .. } | Self::SharesFull { .. } => {
                Outcome::Busy
            }
            Self::TenantBusy { .. } => Outcome::TenantBusy,
            Self::Overdrawn { .. } => Outcome::Overdrawn,
            Self::Unread { .. } => Outcome::Unread,
            Self::ShuttingDown => Outcome::ShuttingDown,
            Self::Agent(AgentError::Deadline { .. }) => Outcome::Deadline,
            Self::Lost | Self::Port(_) | Self::Agent(AgentError::Stage { .. }) => Outcome::Failed,
        }
    }
}

impl From<AskError> for Status {
    fn from(error: AskError) -> Self {
        (&error).into()
    }
}

impl From<&AskError> for Status {
    fn from(error: &AskError) -> Self {
        let code = code(error);
        let message = told(error);
        match error {
            AskError::Invalid(violations) => {
                let details = ErrorDetails::with_bad_request(violations.clone());
                Self::with_error_details(code, message, details)
            }
            AskError::Busy { .. }
            | AskError::TenantBusy { .. }
            | AskError::TooManyReaders { .. } => {
                let retry = ErrorDetails::with_retry_info(Some(Duration::from_secs(1)));
                Self::with_error_details(code, message, retry)
            }
            AskError::Overdrawn { shortage, .. } => {
                let (Shortage::UsedUp { again_in, .. }
                | Shortage::SetAside { again_in, .. }
                | Shortage::Strangers { again_in }) = shortage;
                let retry = ErrorDetails::with_retry_info(Some(*again_in));
                Self::with_error_details(code, message, retry)
            }
            AskError::NotOpen(_)
            | AskError::NoModel { .. }
            | AskError::NoPassage { .. }
            | AskError::NotNow(_)
            | AskError::SharesFull { .. }
            | AskError::Port(_)
            | AskError::TooOld { .. }
            | AskError::Cancelled
            | AskError::Alone { .. }
            | AskError::Unread { .. }
            | AskError::ShuttingDown
            | AskError::Lost
            | AskError::Agent(_) => Self::new(code, message),
        }
    }
}

impl From<&FindError> for Status {
    fn from(error: &FindError) -> Self {
        match error {
            FindError::Ask(error) => error.into(),
            FindError::Busy { .. } | FindError::TenantBusy { .. } => Self::with_error_details(
                Code::ResourceExhausted,
                told(error),
                ErrorDetails::with_retry_info(Some(Duration::from_secs(1))),
            ),
            FindError::Short { again_in, .. } => Self::with_error_details(
                Code::ResourceExhausted,
                told(error),
                ErrorDetails::with_retry_info(Some(*again_in)),
            ),
            FindError::Late { .. } => Self::deadline_exceeded(told(error)),
        }
    }
}

impl From<AdminError> for Status {
    fn from(error: AdminError) -> Self {
        let message = told(&error);
        match error {
            AdminError::Invalid(violations) => Self::with_error_details(
                Code::InvalidArgument,
                message,
                ErrorDetails::with_bad_request(violations),
            ),
            AdminError::NoSpeculator { .. } => Self::not_found(message),
            AdminError::Busy { .. } => Self::with_error_details(
                Code::ResourceExhausted,
                message,
                ErrorDetails::with_retry_info(Some(Duration::from_secs(1))),
            ),
            AdminError::Lost => Self::internal(message),
        }
    }
}

fn code(error: &AskError) -> Code {
    match error {
        AskError::Invalid(_) => Code::InvalidArgument,
        AskError::Busy { .. }
        | AskError::TenantBusy { .. }
        | AskError::TooManyReaders { .. }
        | AskError::SharesFull { .. }
        | AskError::Overdrawn { .. } => Code::ResourceExhausted,
        AskError::NotOpen(_) | AskError::NoModel { .. } | AskError::NoPassage { .. } => {
            Code::NotFound
        }
        AskError::TooOld { .. } => Code::OutOfRange,
        AskError::Cancelled | AskError::Alone { .. } => Code::Cancelled,
        // Nothing is wrong with the question: asked again and read, it may well be answered.
        AskError::Unread { .. } | AskError::NotNow(_) => Code::Aborted,
        AskError::ShuttingDown => Code::Unavailable,
        AskError::Lost => Code::Internal,
        AskError::Agent(AgentError::Deadline { .. }) => Code::DeadlineExceeded,
        AskError::Port(source) | AskError::Agent(AgentError::Stage { source, .. }) => {
            match source {
                // The client's own deadline is another matter: this is a part that is too slow today.
                PortError::Unavailable { .. }
                | PortError::Timeout { .. }
                | PortError::NotSpeculated { .. } => Code::Unavailable,
                PortError::Malformed { .. } => Code::Internal,
                // Too long by what was looked up, or by the operator's settings.
                PortError::Refused { .. } | PortError::TooLong { .. } => Code::FailedPrecondition,
            }
        }
    }
}

#[cfg(test)]
mod tests;
