//! The one door through which errors become gRPC statuses: no other file of this crate builds one
//! (`tests/one_door.rs` reads the sources and checks it).

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use spechop_agent::AgentError;
use spechop_ports::PortError;
use spechop_types::{Stage, Tenant};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::accounts::Shortage;

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The request is wrong; every wrong field with what is wrong about it.
    #[error("{}", sentence(.0))]
    Invalid(Vec<FieldViolation>),
    /// As many questions as may be are being answered.
    #[error("{questions_max} questions are being answered, which is the most; try again later")]
    Busy { questions_max: usize },
    /// The tenant's account lends nothing.
    #[error("{}", short(.tenant, .shortage))]
    Overdrawn { tenant: Tenant, shortage: Shortage },
    /// The client has taken nothing of the stream for too long.
    #[error("nothing of the stream was read for {} s, so it was ended", .limit.as_secs_f64())]
    Unread { limit: Duration },
    /// [`spechop_proto::FinishNowRequest`] names no open question of its tenant.
    #[error("no question {0} is open")]
    NotOpen(Tenant),
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
                Self::Invalid(vec![FieldViolation::new("question", problem)])
            }
            error => Self::Agent(error),
        }
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
    /// A browser sent it for a web page.
    #[error("requests of web pages (with an Origin) are not served")]
    FromAPage,
    /// HTTP/1 where HTTP/2 is spoken.
    #[error(
        "this path needs HTTP/2; over HTTP/1.1 there are only GET /metrics and, if server.retrieve is \
         on, POST /retrieve"
    )]
    OldHttp,
    /// Neither a page nor gRPC.
    #[error("this path speaks gRPC (content-type application/grpc, not {kind})")]
    NotGrpc { kind: String },
    /// Anything else where JSON is taken. A web page may send that unasked, and JSON it may not.
    #[error("this path takes JSON (content-type application/json, not {kind})")]
    NotJson { kind: String },
    /// The message did not arrive in time.
    #[error("the request did not arrive within {} s", limit.as_secs_f64())]
    Late { limit: Duration },
    /// The message is longer than any may be.
    #[error("the request is longer than {most} bytes, the most that this server takes")]
    TooLong { most: usize },
    /// Too many bytes of one connection have not arrived whole.
    #[error("too many requests of this connection have not arrived whole")]
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
            Self::FromAPage => "origin",
            Self::OldHttp => "http1",
            Self::NotGrpc { .. } => "not_grpc",
            Self::NotJson { .. } => "not_json",
            Self::Late { .. } => "late",
            Self::TooLong { .. } => "too_long",
            Self::TooMuchAtOnce => "too_much_at_once",
            Self::Broken(_) => "broken",
        }
    }

    /// As the client expects it: a gRPC client a status, any other one a status of HTTP and a line.
    pub(crate) fn respond(self, speaks_grpc: bool) -> Response {
        if speaks_grpc {
            return Status::from(self).into_http();
        }
        let code = match self {
            Self::OtherHost { .. } => StatusCode::MISDIRECTED_REQUEST,
            Self::FromAPage => StatusCode::FORBIDDEN,
            Self::OldHttp => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::NotGrpc { .. } | Self::NotJson { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Late { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooMuchAtOnce => StatusCode::TOO_MANY_REQUESTS,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        };
        // Nothing more is read of what else it may have sent.
        (code, [(CONNECTION, "close")], format!("{self}\n")).into_response()
    }
}

impl From<TransportError> for Status {
    fn from(error: TransportError) -> Self {
        let code = match error {
            TransportError::OtherHost { .. } | TransportError::FromAPage => Code::PermissionDenied,
            TransportError::OldHttp
            | TransportError::NotGrpc { .. }
            | TransportError::NotJson { .. } => Code::Unimplemented,
            TransportError::Late { .. } => Code::DeadlineExceeded,
            TransportError::TooLong { .. } => Code::OutOfRange,
            TransportError::TooMuchAtOnce => Code::ResourceExhausted,
            TransportError::Broken(_) => Code::Cancelled,
        };
        Self::new(code, error.to_string())
    }
}

/// Whether a request speaks gRPC, as it says itself.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

impl AskError {
    /// How the question ended, in a word for the metrics.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::NotOpen(_) => "not_open",
            Self::Busy { .. } => "busy",
            Self::Overdrawn { .. } => "overdrawn",
            Self::Unread { .. } => "unread",
            Self::ShuttingDown => "shutting_down",
            Self::Agent(AgentError::Deadline { .. }) => "deadline",
            Self::Lost | Self::Agent(_) => "failed",
        }
    }
}

impl From<AskError> for Status {
    fn from(error: AskError) -> Self {
        let code = code(&error);
        let message = chain(&error);
        match error {
            AskError::Invalid(violations) => {
                Self::with_error_details(code, message, ErrorDetails::with_bad_request(violations))
            }
            AskError::Busy { .. } => Self::with_error_details(
                code,
                message,
                ErrorDetails::with_retry_info(Some(Duration::from_secs(1))),
            ),
            AskError::Overdrawn { shortage, .. } => {
                let (Shortage::UsedUp { again_in, .. }
                | Shortage::SetAside { again_in, .. }
                | Shortage::Strangers { again_in }) = shortage;
                let retry = ErrorDetails::with_retry_info(Some(again_in));
                Self::with_error_details(code, message, retry)
            }
            AskError::NotOpen(_)
            | AskError::Unread { .. }
            | AskError::ShuttingDown
            | AskError::Lost
            | AskError::Agent(_) => Self::new(code, message),
        }
    }
}

impl From<AdminError> for Status {
    fn from(error: AdminError) -> Self {
        let message = chain(&error);
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
        AskError::Busy { .. } | AskError::Overdrawn { .. } => Code::ResourceExhausted,
        AskError::NotOpen(_) => Code::NotFound,
        // Nothing is wrong with the question: asked again and read, it may well be answered.
        AskError::Unread { .. } => Code::Aborted,
        AskError::ShuttingDown => Code::Unavailable,
        AskError::Lost => Code::Internal,
        AskError::Agent(AgentError::Deadline { .. }) => Code::DeadlineExceeded,
        AskError::Agent(AgentError::Stage { source, .. }) => match source {
            // The client's own deadline is another matter: this is a part that is too slow today.
            PortError::Unavailable { .. }
            | PortError::Timeout { .. }
            | PortError::NotSpeculated { .. } => Code::Unavailable,
            PortError::Malformed { .. } => Code::Internal,
            // Too long by what was looked up, or by the operator's settings.
            PortError::Refused { .. } | PortError::TooLong { .. } => Code::FailedPrecondition,
        },
    }
}

/// Why a tenant's question is not begun.
fn short(tenant: &Tenant, shortage: &Shortage) -> String {
    match shortage {
        Shortage::UsedUp { what, again_in } => format!(
            "the budget of tenant {tenant} is used up ({what}); a new period begins in {} s",
            again_in.as_secs() + 1
        ),
        Shortage::SetAside { what, .. } => format!(
            "the rest of the budget of tenant {tenant} ({what}) is set aside for its open questions; \
             try again later"
        ),
        Shortage::Strangers { again_in } => format!(
            "too many tenants have spent something lately to take on tenant {tenant}; try again in {} s",
            again_in.as_secs() + 1
        ),
    }
}

/// The error and its sources in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        // Writing to a string cannot fail.
        let _ = write!(line, ": {error}");
        source = error.source();
    }
    line
}

fn sentence(violations: &[FieldViolation]) -> String {
    let parts: Vec<_> = violations
        .iter()
        .map(|wrong| format!("{}: {}", wrong.field, wrong.description))
        .collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_code_and_says_why() {
        let stage = |source| {
            AskError::Agent(AgentError::Stage {
                hop: 2,
                stage: Stage::Target,
                source,
            })
        };
        let what = || "model at h:1".to_owned();
        let too_long = || PortError::TooLong {
            what: what(),
            detail: "9 do not fit into 5".into(),
        };
        for (error, code, message) in [
            (
                stage(PortError::unavailable(what(), "connection refused")),
                Code::Unavailable,
                "hop 2 got nothing from its target stage: model at h:1 is unavailable: connection refused",
            ),
            (
                stage(PortError::Timeout {
                    what: what(),
                    limit_ms: 5,
                }),
                Code::Unavailable,
                "hop 2 got nothing from its target stage: model at h:1 took longer than 5 ms",
            ),
            (
                stage(PortError::Malformed {
                    what: what(),
                    detail: "no tag".into(),
                }),
                Code::Internal,
                "hop 2 got nothing from its target stage: model at h:1 gave an unusable answer: no tag",
            ),
            (
                stage(PortError::Refused {
                    what: what(),
                    detail: "no such model".into(),
                }),
                Code::FailedPrecondition,
                "hop 2 got nothing from its target stage: model at h:1 refused the request: no such model",
            ),
            (
                stage(too_long()),
                Code::FailedPrecondition,
                "hop 2 got nothing from its target stage: model at h:1 cannot take so much: 9 do not fit into 5",
            ),
            // The very first prompt is the question.
            (
                AgentError::Stage {
                    hop: 1,
                    stage: Stage::Segment,
                    source: too_long(),
                }
                .into(),
                Code::InvalidArgument,
                "question: is too long for model at h:1: 9 do not fit into 5",
            ),
            (
                AgentError::Deadline { committed: 1 }.into(),
                Code::DeadlineExceeded,
                "the deadline passed with 1 hops committed",
            ),
            (
                AskError::Busy { questions_max: 4 },
                Code::ResourceExhausted,
                "4 questions are being answered, which is the most; try again later",
            ),
            (
                AskError::Unread {
                    limit: Duration::from_millis(1500),
                },
                Code::Aborted,
                "nothing of the stream was read for 1.5 s, so it was ended",
            ),
            (
                AskError::NotOpen(Tenant::new("q-1").unwrap()),
                Code::NotFound,
                "no question q-1 is open",
            ),
            (
                AskError::ShuttingDown,
                Code::Unavailable,
                "the server is shutting down",
            ),
            (
                AskError::Invalid(vec![
                    FieldViolation::new("k", "wrong"),
                    FieldViolation::new("question", "empty"),
                ]),
                Code::InvalidArgument,
                "k: wrong; question: empty",
            ),
        ] {
            let status = Status::from(error);
            assert_eq!(status.code(), code);
            assert_eq!(status.message(), message);
        }
    }

    #[test]
    fn whoever_may_not_spend_hears_when_to_come_back() {
        let again_in = Duration::from_secs(9);
        let what = "tokens";
        for (shortage, words) in [
            (
                Shortage::UsedUp { what, again_in },
                "the budget of tenant a is used up (tokens); a new period begins in 10 s",
            ),
            (
                Shortage::SetAside { what, again_in },
                "the rest of the budget of tenant a (tokens) is set aside",
            ),
            (
                Shortage::Strangers { again_in },
                "too many tenants have spent something lately to take on tenant a",
            ),
        ] {
            let tenant = Tenant::new("a").unwrap();
            let status = Status::from(AskError::Overdrawn { tenant, shortage });
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert!(status.message().contains(words), "{status}");
            let retry = status.get_details_retry_info().unwrap();
            assert_eq!(retry.retry_delay, Some(again_in));
        }
    }

    #[test]
    fn operators_hear_why_and_which_field() {
        let offered = "hot, none".to_owned();
        let none = Status::from(AdminError::NoSpeculator { offered });
        assert_eq!(none.code(), Code::NotFound);
        assert_eq!(
            none.message(),
            "there is no such speculator; this server has hot, none"
        );
        let wrong = AdminError::Invalid(vec![FieldViolation::new("k", "too many")]);
        let wrong = Status::from(wrong);
        assert_eq!(wrong.code(), Code::InvalidArgument);
        assert_eq!(wrong.message(), "k: too many");
        let fields = wrong.get_details_bad_request().unwrap().field_violations;
        assert_eq!(fields[0].field, "k");
        let busy = Status::from(AdminError::Busy { callers_max: 7 });
        assert_eq!(busy.code(), Code::ResourceExhausted);
        assert!(busy.get_details_retry_info().is_some());
        assert_eq!(Status::from(AdminError::Lost).code(), Code::Internal);
    }
}
