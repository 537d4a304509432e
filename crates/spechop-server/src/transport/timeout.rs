//! How long the client of a call waits, as its protocol says (`grpc-timeout`).
//!
//! tonic has a timer of its own around every route. What it answers is a status of gRPC at any path, and its
//! CANCELLED says that somebody has cancelled the question. So whatever the server does for such a request ends
//! a little sooner, and the client hears why: a question by its own deadline, which is mostly the first, and
//! all else after it.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};

/// How long before the client's own deadline that of a question ends.
const HEADSTART_MAX: Duration = Duration::from_millis(100);

/// The time after which the client waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrpcTimeout(Duration);

impl GrpcTimeout {
    /// The header, or the metadata key of gRPC.
    pub(crate) const KEY: &'static str = "grpc-timeout";

    /// Reads at most eight digits and a unit. `None` if it is anything else.
    pub(crate) fn read(value: &HeaderValue) -> Option<Self> {
        let value = value.to_str().ok()?;
        let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
        let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits.len() > 8 || !are_digits {
            return None;
        }
        let amount: u64 = digits.parse().ok()?;
        Some(Self(match unit {
            "H" => Duration::from_secs(amount * 3600),
            "M" => Duration::from_secs(amount * 60),
            "S" => Duration::from_secs(amount),
            "m" => Duration::from_millis(amount),
            "u" => Duration::from_micros(amount),
            "n" => Duration::from_nanos(amount),
            _ => return None,
        }))
    }

    /// That of a request. Like tonic's timer it knows the first one alone, if there are several.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        headers.get(Self::KEY).and_then(Self::read)
    }

    /// How long a question may take.
    pub(crate) fn for_question(self) -> Duration {
        self.0 - self.head_start()
    }

    /// How long anything may take.
    pub(super) fn for_request(self) -> Duration {
        self.0 - self.head_start() / 2
    }

    fn head_start(self) -> Duration {
        HEADSTART_MAX.min(self.0 / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_clients_deadline() {
        for (header, expected_ms) in [
            ("20S", Some((19_900, 19_950))),
            ("100m", Some((90, 95))),
            ("1H", Some((3_599_900, 3_599_950))),
            ("2M", Some((119_900, 119_950))),
            ("10000000u", Some((9_900, 9_950))),
            ("5", None),
            ("S", None),
            ("", None),
            ("123456789S", None),
            ("-1S", None),
            ("+1S", None),
            ("1x", None),
        ] {
            let timeout = GrpcTimeout::read(&header.parse().unwrap());
            let ends = timeout.map(|timeout| (timeout.for_question(), timeout.for_request()));
            let ms = Duration::from_millis;
            let expected = expected_ms.map(|(question, request)| (ms(question), ms(request)));
            assert_eq!(ends, expected, "{header:?}");
        }
    }
}
