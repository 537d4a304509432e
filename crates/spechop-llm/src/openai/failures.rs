//! What is made of a request that failed: which error it is, and whether another attempt may help.

use std::io;
use std::time::{Duration, SystemTime};

use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};
use secrecy::ExposeSecret;
use spechop_ports::retry::{Again, Failure, retry_after};
use spechop_ports::{PortError, reason};

use super::dialect::THOUGHT_TOKENS_MAX;
use super::{BODY_BYTES_MAX, OpenAiModel, wire};

impl OpenAiModel {
    /// Sorts an answer that is none by its status.
    pub(super) async fn refusal(&self, mut response: Response) -> Failure {
        let status = response.status();
        let after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| retry_after(value, SystemTime::now()));
        let (silence, mut body) = (self.limits.silence, Vec::new());
        // The reason is a courtesy: whatever arrives of it will do.
        while let Ok(Some(piece)) = self.next_piece(&mut response, silence).await {
            body.extend_from_slice(&piece);
            if body.len() > BODY_BYTES_MAX {
                break;
            }
        }
        let detail = format!("{status}: {}", self.reason(&body));
        self.failure(again_after(status, after), Some(status), &body, detail)
    }

    /// A failure that the server has told of, by its status or inside a stream.
    pub(super) fn failure(
        &self,
        again: Again,
        status: Option<StatusCode>,
        body: &[u8],
        detail: String,
    ) -> Failure {
        let is_too_long = status == Some(StatusCode::PAYLOAD_TOO_LARGE) || wire::is_too_long(body);
        let again = match is_too_long {
            true => Again::Never,
            false => again,
        };
        let error = match again {
            Again::Never if is_too_long => PortError::TooLong {
                what: self.name.clone(),
                detail,
            },
            Again::Never => PortError::Refused {
                what: self.name.clone(),
                detail,
            },
            _ => PortError::unavailable(&self.name, io::Error::other(detail)),
        };
        Failure { error, again }
    }

    pub(super) fn reason(&self, body: &[u8]) -> String {
        reason(
            body,
            self.key.as_ref().map(|key| key.expose_secret().trim()),
        )
    }

    pub(super) fn broken(&self, error: reqwest::Error) -> Failure {
        Failure {
            error: PortError::unavailable(&self.name, error.without_url()),
            again: Again::Soon,
        }
    }

    pub(super) fn silent(&self, silence: Duration) -> Failure {
        Failure {
            error: self.timeout(silence),
            // Another request would only add to what the server does not keep up with.
            again: Again::Never,
        }
    }

    pub(super) fn malformed(&self, detail: String) -> Failure {
        Failure {
            error: PortError::Malformed {
                what: self.name.clone(),
                detail,
            },
            again: Again::Never,
        }
    }

    pub(super) fn lost_in_thought(&self) -> PortError {
        PortError::Malformed {
            what: self.name.clone(),
            detail: format!(
                "it thought for {THOUGHT_TOKENS_MAX} tokens and wrote nothing; `reasoning_effort` may make it think less"
            ),
        }
    }

    pub(super) fn timeout(&self, limit: Duration) -> PortError {
        PortError::Timeout {
            what: self.name.clone(),
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// What another attempt could bring behind a status, and when.
pub(super) fn again_after(status: StatusCode, after: Option<Duration>) -> Again {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Again::PushedBack(after),
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT => Again::Soon,
        status if status.is_server_error() => match after {
            Some(_) => Again::PushedBack(after),
            None => Again::Soon,
        },
        _ => Again::Never,
    }
}
