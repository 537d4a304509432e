//! What the failures of a call mean for whoever wants to call again.

use std::error::Error;
use std::fmt;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ErrorCode};
use rmcp::service::ServiceError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use spechop_ports::retry::{Again, FailedAttempt};
use spechop_ports::{PortError, reason};
use spechop_types::with_causes;

use crate::options::Server;
use crate::process::Fate;

/// Stands for a message that is longer than it may be. No server has this code.
pub(crate) const TOO_LONG: ErrorCode = ErrorCode(-32413);
/// Names that a message lists.
const NAMES_MAX: usize = 40;

/// Names the tool in errors, which go to whoever asks.
pub(crate) struct Blame<'a> {
    pub(crate) what: &'a str,
    /// Whose words are quoted without its secrets.
    pub(crate) server: &'a Server,
}

impl Blame<'_> {
    /// A call that came to no result.
    pub(crate) fn broken(&self, error: ServiceError, fate: Option<&Fate>) -> FailedAttempt {
        let has_ended = fate.is_some_and(Fate::has_ended);
        match error {
            ServiceError::McpError(error) => self.protocol(&error),
            ServiceError::TransportSend(error) if !has_ended => self.transport(&error),
            ServiceError::UnexpectedResponse => {
                self.malformed("it answered with something else than a result of the tool")
            }
            error => match fate.map(|fate| (fate.too_long(), fate.story())) {
                Some((Some(_), story)) => self.malformed(&story),
                Some((None, story)) => self.unavailable(story, Again::Soon),
                None => self.unavailable(self.quoted(&error.to_string()), Again::Soon),
            },
        }
    }

    /// A result by which the tool says that it failed. Whether that may pass it does not say.
    pub(crate) fn failed(&self, result: &CallToolResult) -> FailedAttempt {
        let texts = result.content.iter().filter_map(|block| block.as_text());
        let texts: Vec<_> = texts.map(|text| text.text.as_str()).collect();
        let said = self.quoted(&texts.join(" "));
        self.unavailable(format!("the tool says that it failed: {said}"), Again::Soon)
    }

    pub(crate) fn malformed(&self, detail: &str) -> FailedAttempt {
        FailedAttempt {
            error: PortError::malformed(self.what, detail),
            again: Again::Never,
        }
    }

    pub(crate) fn refused(&self, detail: &str) -> FailedAttempt {
        FailedAttempt {
            error: PortError::refused(self.what, detail),
            again: Again::Never,
        }
    }

    pub(crate) fn unavailable(&self, source: String, again: Again) -> FailedAttempt {
        FailedAttempt {
            error: PortError::unavailable(self.what, source),
            again,
        }
    }

    /// An error of the protocol: the request itself is refused, or the server is at fault.
    fn protocol(&self, error: &ErrorData) -> FailedAttempt {
        let said = self.quoted(&error.message);
        match error.code {
            TOO_LONG => self.malformed(&said),
            ErrorCode::INVALID_PARAMS
            | ErrorCode::METHOD_NOT_FOUND
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::RESOURCE_NOT_FOUND => self.refused(&said),
            _ => self.unavailable(format!("error {}: {said}", error.code.0), Again::Soon),
        }
    }

    /// What the server says, short and on one line.
    pub(crate) fn quoted(&self, said: &str) -> String {
        quoted(said, self.server)
    }

    fn transport(&self, error: &DynamicTransportError) -> FailedAttempt {
        let http = http_error(error);
        let said = || chain(&*error.error, self.server);
        match http {
            Some(StreamableHttpError::HttpStatus(status)) => {
                let code = status.status;
                let after = status.retry_after.as_deref().map(str::as_bytes);
                FailedAttempt::of_status(self.what, code, after, format!("HTTP status {code}"))
            }
            Some(StreamableHttpError::ResponseBodyTooLarge { max_size }) => {
                self.malformed(&format!("it wrote a message of more than {max_size} bytes"))
            }
            Some(error) if wants_key(error) => self.refused(WANTS_KEY),
            Some(
                StreamableHttpError::Deserialize(_) | StreamableHttpError::UnexpectedContentType(_),
            ) => self.malformed(&said()),
            Some(StreamableHttpError::UnexpectedServerResponse(text))
                if text.starts_with("could not parse JSON") =>
            {
                self.malformed(&said())
            }
            other => match other.and_then(status_of) {
                Some(code) => FailedAttempt::of_status(self.what, code, None, said()),
                None => self.unavailable(said(), Again::Soon),
            },
        }
    }
}

/// What to do about a server that [wants a key](wants_key).
pub(crate) const WANTS_KEY: &str = "it wants another key, or one at all (target.mcp.api_key_env)";

/// What the transport of HTTP says, if it is that.
pub(crate) fn http_error(
    error: &DynamicTransportError,
) -> Option<&StreamableHttpError<reqwest::Error>> {
    error.error.downcast_ref()
}

/// Whether the server wants a key, or another one, whether or not it says of which kind.
pub(crate) fn wants_key(error: &StreamableHttpError<reqwest::Error>) -> bool {
    let says_kind = matches!(
        error,
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)
    );
    says_kind || matches!(status_of(error), Some(401 | 403))
}

/// The status of an answer that is no message, if it is told with it.
pub(crate) fn status_of(error: &StreamableHttpError<reqwest::Error>) -> Option<u16> {
    let StreamableHttpError::UnexpectedServerResponse(said) = error else {
        return None;
    };
    said.strip_prefix("HTTP ")?.get(..3)?.parse().ok()
}

/// An error with its causes, which may be the server's words: short and on one line.
pub(crate) fn chain(error: &(dyn Error + 'static), server: &Server) -> String {
    quoted(&with_causes(error), server)
}

/// What the server says: short, on one line, and without its secrets.
pub(crate) fn quoted(said: &str, server: &Server) -> String {
    reason(said.as_bytes(), server.secrets())
}

/// How a server calls its tools or their arguments, for a message: the first ones, each of them quoted.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<String>);

impl Names {
    pub(crate) fn add<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, server: &Server) {
        // The last one only says that there are more.
        let room = (NAMES_MAX + 1).saturating_sub(self.0.len());
        let names = names.into_iter().take(room);
        self.0.extend(names.map(|name| quoted(name, server)));
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_at_checked(NAMES_MAX) {
            Some((listed, [_, ..])) => write!(f, "{}, …", listed.join(", ")),
            _ if self.0.is_empty() => f.write_str("none"),
            _ => f.write_str(&self.0.join(", ")),
        }
    }
}
