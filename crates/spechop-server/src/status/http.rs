//! Errors as HTTP and JSON have them: a status, and a body with the code names of gRPC.
//!
//! ```text
//! {"code": "INVALID_ARGUMENT", "message": "…", "fields": [{"field", "description"}], "retry_after_ms"}
//! ```
//!
//! The doors for clients of OpenAI have a form of their own:
//!
//! ```text
//! {"error": {"message": "…", "type": "invalid_request_error", "param": null, "code": "invalid_argument"}}
//! ```

use std::time::Duration;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use spechop_ports::PortError;
use spechop_proto::code_name;
use spechop_proto::json::JsonError;
use tonic::{Code, Status};
use tonic_types::{FieldViolation, StatusExt};

use super::{AdminError, AskError, TransportError};
use crate::finder::FindError;

/// An error on its way to a client that does not speak gRPC.
#[derive(Debug)]
pub(crate) struct HttpError {
    error: Status,
    /// If HTTP says more exactly what it is than its code.
    status: Option<StatusCode>,
}

/// The words in which a path tells its errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// A status of gRPC.
    Grpc,
    /// [`HttpError::body`].
    #[default]
    Json,
    /// [`HttpError::openai_body`].
    OpenAi,
}

impl From<&AskError> for HttpError {
    fn from(error: &AskError) -> Self {
        Self {
            error: error.into(),
            status: None,
        }
    }
}

impl From<AskError> for HttpError {
    fn from(error: AskError) -> Self {
        (&error).into()
    }
}

impl From<&FindError> for HttpError {
    fn from(error: &FindError) -> Self {
        let status = match error {
            // A server of ours that asks this one tells them apart.
            FindError::Ask(AskError::Port(PortError::TooLong { .. })) => {
                Some(StatusCode::PAYLOAD_TOO_LARGE)
            }
            FindError::Ask(AskError::Port(PortError::Timeout { .. })) => {
                Some(StatusCode::GATEWAY_TIMEOUT)
            }
            // No question's deadline: the next request may be in time.
            FindError::Late { .. } => Some(StatusCode::GATEWAY_TIMEOUT),
            _ => None,
        };
        Self {
            error: error.into(),
            status,
        }
    }
}

impl From<TransportError> for HttpError {
    fn from(error: TransportError) -> Self {
        let status = match error {
            TransportError::OtherHost { .. } => Some(StatusCode::MISDIRECTED_REQUEST),
            TransportError::FromAPage => Some(StatusCode::FORBIDDEN),
            TransportError::OldHttp { .. } => Some(StatusCode::HTTP_VERSION_NOT_SUPPORTED),
            TransportError::NoSuchPath { .. } => Some(StatusCode::NOT_FOUND),
            TransportError::OtherMethod { .. } => Some(StatusCode::METHOD_NOT_ALLOWED),
            TransportError::NotGrpc { .. }
            | TransportError::NotJson { .. }
            | TransportError::NotAForm { .. }
            | TransportError::Packed { .. } => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            TransportError::Late { .. } => Some(StatusCode::REQUEST_TIMEOUT),
            TransportError::TooLong { .. } => Some(StatusCode::PAYLOAD_TOO_LARGE),
            TransportError::TooMuchAtOnce => Some(StatusCode::TOO_MANY_REQUESTS),
            TransportError::Broken(_) => Some(StatusCode::BAD_REQUEST),
            TransportError::NotOneHost | TransportError::OutOfTime | TransportError::Access(_) => {
                None
            }
        };
        Self {
            error: error.into(),
            status,
        }
    }
}

impl From<AdminError> for HttpError {
    fn from(error: AdminError) -> Self {
        Self {
            error: error.into(),
            status: None,
        }
    }
}

impl From<JsonError> for AskError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::NotJson(problem) => Self::wrong("body", format!("is not JSON: {problem}")),
            JsonError::Wrong(wrong) => {
                let violation = |wrong: spechop_proto::json::WrongField| {
                    let whole = wrong.field.is_empty();
                    let field = if whole {
                        "body".to_owned()
                    } else {
                        wrong.field
                    };
                    FieldViolation::new(field, wrong.problem)
                };
                Self::Invalid(wrong.into_iter().map(violation).collect())
            }
            JsonError::Ours(problem) => {
                tracing::error!(problem, "a message could not be written as JSON");
                Self::Lost
            }
        }
    }
}

impl HttpError {
    /// The status of a response that is nothing but this error.
    pub(crate) fn status(&self) -> StatusCode {
        if let Some(status) = self.status {
            return status;
        }
        match self.error.code() {
            Code::Ok => StatusCode::OK,
            // The client has gone away, or has said so: nginx's name for it.
            Code::Cancelled => {
                StatusCode::from_u16(499).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Code::InvalidArgument => StatusCode::BAD_REQUEST,
            Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::OutOfRange => StatusCode::GONE,
            Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            // An upstream server refuses the operator's settings: nothing that the client could mend.
            Code::FailedPrecondition | Code::Internal | Code::Unknown | Code::DataLoss => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    /// The name that gRPC has for it.
    fn code(&self) -> String {
        code_name(self.error.code())
    }

    /// What is wrong, in a sentence.
    pub(crate) fn message(&self) -> &str {
        self.error.message()
    }

    /// Every wrong field of the request.
    pub(crate) fn fields(&self) -> Vec<FieldViolation> {
        let wrong = self.error.get_details_bad_request();
        wrong.map_or_else(Vec::new, |wrong| wrong.field_violations)
    }

    /// When to try again, if that may help.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.error.get_details_retry_info()?.retry_delay
    }

    /// The body.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({ "code": self.code(), "message": self.message() });
        let fields = self.fields();
        if !fields.is_empty() {
            let named = |wrong: &FieldViolation| json!({ "field": wrong.field, "description": wrong.description });
            body["fields"] = fields.iter().map(named).collect();
        }
        if let Some(delay) = self.retry_after() {
            // No sooner: a request that comes a part of a millisecond too early is refused, too.
            let ms = delay.as_nanos().div_ceil(1_000_000);
            body["retry_after_ms"] = json!(u64::try_from(ms).unwrap_or(u64::MAX));
        }
        body
    }

    /// The body as clients of OpenAI expect it. `param` is the field of the request that is wrong.
    pub(crate) fn openai_body(&self, param: Option<&str>) -> Value {
        let kind = match self.status() {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            // What is asked for needs HTTP/2.
            StatusCode::HTTP_VERSION_NOT_SUPPORTED => "invalid_request_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        };
        json!({
            "error": {
                "message": self.message(),
                "type": kind,
                "param": param,
                "code": self.code().to_ascii_lowercase(),
            }
        })
    }

    /// A response with this body, which may be of another form than [`HttpError::body`].
    pub(crate) fn respond(&self, body: &Value) -> Response {
        let head = [
            (CONTENT_TYPE, "application/json"),
            (CACHE_CONTROL, "no-store"),
        ];
        let mut response = (self.status(), head, body.to_string()).into_response();
        if let Some(delay) = self.retry_after() {
            let seconds = delay.as_millis().div_ceil(1000).max(1);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if self.error.code() == Code::Unauthenticated {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        if self.would_fail_again() {
            let never = HeaderValue::from_static("false");
            response.headers_mut().insert("x-should-retry", never);
        }
        response
    }

    /// Whether the same question would only be answered up to here, and charged, once more. Clients of OpenAI ask
    /// again twice after any status of 500 and above, unless they are told not to.
    fn would_fail_again(&self) -> bool {
        match self.error.code() {
            Code::FailedPrecondition => true,
            // The question's own deadline. Other limits that have passed bring a status of their own.
            Code::DeadlineExceeded => self.status.is_none(),
            _ => false,
        }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        self.respond(&self.body())
    }
}

#[cfg(test)]
mod tests {
    use spechop_agent::AgentError;

    use super::*;
    use crate::places::InVain;
    use crate::transport::AccessError;

    #[test]
    fn a_body_has_what_a_status_has() {
        let wrong = vec![FieldViolation::new("k", "must be from 1 to 64, not 0")];
        let error = HttpError::from(AskError::Invalid(wrong));
        assert_eq!(error.status(), StatusCode::BAD_REQUEST);
        let message = "k: must be from 1 to 64, not 0";
        let field = json!({ "field": "k", "description": "must be from 1 to 64, not 0" });
        let body = json!({ "code": "INVALID_ARGUMENT", "message": message, "fields": [field] });
        assert_eq!(error.body(), body);

        let error = HttpError::from(AskError::Busy {
            questions_max: 4,
            wait: InVain::NoLine,
        });
        assert_eq!(error.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(error.body()["retry_after_ms"], 1000);
        assert_eq!(error.into_response().headers()[RETRY_AFTER], "1");
        let error = HttpError::from(TransportError::Access(AccessError::KeyTooFast {
            key: "laptop".to_owned(),
            again_in: Duration::from_micros(1_200),
        }));
        assert_eq!(error.body()["retry_after_ms"], 2);

        let error = HttpError::from(AskError::TooOld { after: 3, first: 9 });
        assert_eq!(error.status(), StatusCode::GONE);
        assert!(error.message().contains("after 8"), "{}", error.message());
    }

    #[test]
    fn only_a_deadline_of_the_question_itself_is_told_not_to_be_tried_again() {
        let limit = Duration::from_secs(1);
        let deadline = AskError::from(AgentError::Deadline { committed: 1 });
        for (error, status, told) in [
            (HttpError::from(deadline), 504, Some("false")),
            (HttpError::from(&FindError::Late { limit }), 504, None),
            (HttpError::from(TransportError::Late { limit }), 408, None),
        ] {
            assert_eq!(error.code(), "DEADLINE_EXCEEDED");
            let response = error.into_response();
            assert_eq!(response.status().as_u16(), status);
            let header = response.headers().get("x-should-retry");
            assert_eq!(header.map(|value| value.to_str().unwrap()), told);
        }
    }

    #[test]
    fn what_the_transport_refuses_keeps_its_status_in_both_forms() {
        let most = 7;
        for (refused, status, code, kind) in [
            (
                TransportError::TooLong { most },
                413,
                "OUT_OF_RANGE",
                "invalid_request_error",
            ),
            (
                TransportError::TooMuchAtOnce,
                429,
                "RESOURCE_EXHAUSTED",
                "rate_limit_error",
            ),
            (
                TransportError::FromAPage,
                403,
                "PERMISSION_DENIED",
                "permission_error",
            ),
            (
                TransportError::Access(AccessError::NoKey),
                401,
                "UNAUTHENTICATED",
                "authentication_error",
            ),
        ] {
            let error = HttpError::from(refused);
            assert_eq!(error.status().as_u16(), status);
            assert_eq!(error.body()["code"], code);
            let theirs = error.openai_body(None);
            assert_eq!(theirs["error"]["type"], kind);
            assert_eq!(theirs["error"]["message"], error.body()["message"]);
            assert_eq!(theirs["error"]["param"], Value::Null);
        }
    }
}
