//! What is made of a request that failed: which error it is, and whether another attempt may help.

use std::time::Duration;

use reqwest::header::{HeaderValue, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use secrecy::ExposeSecret;
use spechop_ports::retry::{Again, FailedAttempt};
use spechop_ports::{PortError, reason};
use tokio::time::timeout;

use super::{BODY_BYTES_MAX, ERROR_BODY_WAIT, OpenAiModel, wire};
use crate::thoughts::THOUGHT_TOKENS_MAX;

impl OpenAiModel {
    /// Sorts an answer that is none by its status.
    pub(super) async fn refusal(&self, mut response: Response) -> FailedAttempt {
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).cloned();
        let mut body = Vec::new();
        // The reason is a courtesy: whatever arrives of it in time will do. Whoever is pushed back must
        // know it soon.
        let read = async {
            while let Ok(Some(piece)) = response.chunk().await {
                body.extend_from_slice(&piece);
                if body.len() > BODY_BYTES_MAX {
                    break;
                }
            }
        };
        let _ = timeout(self.limits.silence.min(ERROR_BODY_WAIT), read).await;
        let detail = format!("{status}: {}", self.reason(&body));
        let after = after.as_ref().map(HeaderValue::as_bytes);
        self.failure(status, after, &body, detail)
    }

    /// A failure that the server has told of, by its status or inside a stream.
    pub(super) fn failure(
        &self,
        status: StatusCode,
        after: Option<&[u8]>,
        body: &[u8],
        detail: String,
    ) -> FailedAttempt {
        // Few servers have a status for it.
        let status = match wire::is_too_long(body) {
            true => StatusCode::PAYLOAD_TOO_LARGE,
            false => status,
        };
        FailedAttempt::of_status(&self.name, status.as_u16(), after, detail)
    }

    pub(super) fn reason(&self, body: &[u8]) -> String {
        reason(
            body,
            self.key.as_ref().map(|key| key.expose_secret().trim()),
        )
    }

    pub(super) fn broken(&self, error: reqwest::Error) -> FailedAttempt {
        FailedAttempt {
            error: PortError::unavailable(&self.name, error.without_url()),
            again: Again::Soon,
        }
    }

    pub(super) fn silent(&self, silence: Duration) -> FailedAttempt {
        FailedAttempt {
            error: self.timeout(silence),
            // Another request would only add to what the server does not keep up with.
            again: Again::Never,
        }
    }

    pub(super) fn malformed(&self, detail: String) -> FailedAttempt {
        FailedAttempt {
            error: PortError::malformed(&self.name, detail),
            again: Again::Never,
        }
    }

    pub(super) fn lost_in_thought(&self) -> PortError {
        let detail = format!(
            "it thought for {THOUGHT_TOKENS_MAX} tokens and wrote nothing; `reasoning_effort` may make it think less"
        );
        PortError::malformed(&self.name, detail)
    }

    pub(super) fn filtered(&self) -> PortError {
        PortError::refused(
            &self.name,
            "its content filter has left nothing of the answer",
        )
    }

    pub(super) fn timeout(&self, limit: Duration) -> PortError {
        PortError::timed_out(&self.name, limit)
    }
}
