//! What a failed request means: whether another attempt may help, and where.

use std::time::Duration;

use qdrant_client::QdrantError;
use spechop_ports::retry::{Again, FailedAttempt};
use spechop_ports::{PortError, reason};
use tonic::Code;

/// Who was asked about what.
pub(crate) struct Site<'a> {
    pub(crate) url: &'a str,
    pub(crate) collection: Option<&'a str>,
    /// To be cut from what the server says.
    pub(crate) key: Option<&'a str>,
    /// Whether there are other servers to ask.
    pub(crate) others: bool,
}

impl Site<'_> {
    /// Its name, for messages.
    fn what(&self) -> String {
        match self.collection {
            Some(collection) => format!("collection {collection} of Qdrant at {}", self.url),
            None => format!("Qdrant at {}", self.url),
        }
    }

    /// No answer in time. Another request would only add to what this server does not keep up with.
    pub(crate) fn late(&self, limit: Duration) -> (FailedAttempt, bool) {
        let error = PortError::timed_out(self.what(), limit);
        let again = match self.others {
            true => Again::Soon,
            false => Again::Never,
        };
        (FailedAttempt { error, again }, true)
    }
}

/// Sorts a failure, and says whether another server should be asked next.
pub(crate) fn sorted(error: &QdrantError, site: &Site<'_>) -> (FailedAttempt, bool) {
    let (code, said, after) = match error {
        QdrantError::ResponseError { status } => (status.code(), status.message(), None),
        QdrantError::ResourceExhaustedError {
            status,
            retry_after_seconds,
        } => {
            let after = Duration::from_secs(*retry_after_seconds);
            (status.code(), status.message(), Some(after))
        }
        other => {
            let detail = reason(other.to_string().as_bytes(), site.key);
            let error = PortError::unavailable(site.what(), detail);
            return (
                FailedAttempt {
                    error,
                    again: Again::Soon,
                },
                true,
            );
        }
    };
    let what = site.what();
    let said = unconnected(said).unwrap_or_else(|| said.to_owned());
    let said = reason(said.as_bytes(), site.key);
    let refused = |detail: String| PortError::refused(site.what(), detail);
    let (error, again, elsewhere) = match code {
        Code::Unauthenticated | Code::PermissionDenied => {
            let detail = format!("{said}: the API key is missing, wrong or not allowed to do this");
            (refused(detail), Again::Never, false)
        }
        Code::NotFound => {
            let detail = format!(
                "{said}: fill it with `spechop index push`, or correct the name (the collection of \
                 a memory is made again by itself)"
            );
            (refused(detail), Again::Never, false)
        }
        Code::InvalidArgument | Code::FailedPrecondition | Code::AlreadyExists => {
            (refused(said), Again::Never, false)
        }
        Code::Unimplemented => {
            let detail = format!("{said}: this is no Qdrant server, or one that is too old");
            (refused(detail), Again::Never, false)
        }
        Code::OutOfRange => (PortError::too_long(what, said), Again::Never, false),
        Code::DataLoss => (PortError::malformed(what, said), Again::Never, true),
        Code::ResourceExhausted => {
            let error = PortError::unavailable(what, said);
            (error, Again::PushedBack(after), site.others)
        }
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable => {
            let error = PortError::unavailable(what, with_hint(said, site.url));
            (error, Again::Soon, true)
        }
    };
    (FailedAttempt { error, again }, elsewhere)
}

/// Why no connection came about, in the system's words. The client quotes them within its own types, as programmers see
/// those.
fn unconnected(said: &str) -> Option<String> {
    let quoted = said.strip_prefix("Failed to connect to ")?;
    let mut keys = ["message: \"", "error: \""].into_iter();
    let (_, why) = keys.find_map(|key| quoted.split_once(key))?;
    let (why, _) = why.split_once('"')?;
    Some(format!("no connection: {why}"))
}

/// Qdrant serves REST on 6333 and gRPC on 6334. Whoever mixes them up sees a broken line.
fn with_hint(said: String, url: &str) -> String {
    match url.ends_with(":6333") {
        true => format!("{said} (6333 is the port of Qdrant's REST interface: try 6334)"),
        false => said,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use tonic::Status;

    use super::*;

    const ALONE: Site<'_> = Site {
        url: "http://q:6334",
        collection: Some("passages"),
        key: Some("hunter2"),
        others: false,
    };

    #[test]
    fn every_code_has_a_meaning_and_a_remedy_where_there_is_one() {
        use Again::{Never, PushedBack, Soon};
        for (code, kind, again, elsewhere) in [
            (Code::Unauthenticated, "API key", Never, false),
            (Code::PermissionDenied, "API key", Never, false),
            (Code::NotFound, "spechop index push", Never, false),
            (Code::NotFound, "made again by itself", Never, false),
            (Code::InvalidArgument, "refused the request", Never, false),
            (Code::Unimplemented, "too old", Never, false),
            (Code::OutOfRange, "cannot take so much", Never, false),
            (
                Code::ResourceExhausted,
                "unavailable",
                PushedBack(None),
                false,
            ),
            (Code::Internal, "unavailable", Soon, true),
            (Code::Unavailable, "unavailable", Soon, true),
            (Code::Cancelled, "unavailable", Soon, true),
        ] {
            let status = Status::new(code, "it said\nno hunter2");
            let (failure, moves) = sorted(&QdrantError::ResponseError { status }, &ALONE);
            let source = failure.error.source().map(ToString::to_string);
            let text = format!("{}: {}", failure.error, source.unwrap_or_default());
            assert!(text.contains(kind), "{code}: {text}");
            assert!(text.contains("it said no [key]"), "{code}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
            assert_eq!((failure.again, moves), (again, elsewhere), "{code}");
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_told_in_words() {
        for (quoted, why) in [
            (
                r#"ConnectError("tcp connect error", 127.0.0.1:9, Os { code: 111, kind: ConnectionRefused, message: "Connection refused" })"#,
                "no connection: Connection refused",
            ),
            (
                r#"ConnectError("dns error", Custom { kind: Uncategorized, error: "failed to look it up" })"#,
                "no connection: failed to look it up",
            ),
        ] {
            let said =
                format!("Failed to connect to http://q:6334/: tonic::transport::Error({quoted})");
            let status = Status::internal(said);
            let (failure, _) = sorted(&QdrantError::ResponseError { status }, &ALONE);
            let said = failure.error.source().map(ToString::to_string);
            assert_eq!(said.as_deref(), Some(why));
        }
    }

    #[test]
    fn a_server_says_when_it_takes_more() {
        let error = QdrantError::ResourceExhaustedError {
            status: Status::resource_exhausted("slowly"),
            retry_after_seconds: 7,
        };
        let (failure, _) = sorted(&error, &ALONE);
        let wait = Some(Duration::from_secs(7));
        assert_eq!(failure.again, Again::PushedBack(wait));
    }

    #[test]
    fn a_slow_server_is_asked_again_only_if_there_is_another() {
        for (others, again) in [(false, Again::Never), (true, Again::Soon)] {
            let site = Site { others, ..ALONE };
            let (failure, moves) = site.late(Duration::from_millis(20));
            assert!(matches!(
                failure.error,
                PortError::Timeout { limit, .. } if limit.as_millis() == 20
            ));
            assert_eq!((failure.again, moves), (again, true));
        }
    }

    #[test]
    fn the_port_of_rest_is_noticed() {
        for (url, hint) in [("http://q:6333", true), ("http://q:6334", false)] {
            let site = Site { url, ..ALONE };
            let status = Status::internal("broken line");
            let (failure, _) = sorted(&QdrantError::ResponseError { status }, &site);
            let said = failure.error.source().map(ToString::to_string);
            assert_eq!(said.unwrap_or_default().contains("try 6334"), hint, "{url}");
        }
    }
}
