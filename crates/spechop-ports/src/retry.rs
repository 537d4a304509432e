//! When a failed request to a server is sent again, and how long after.

use std::time::{Duration, SystemTime};

use spechop_types::with_causes;
use tokio::time::{Instant, sleep};

use crate::{Call, Lane, PortError};

/// How often and how fast to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Most attempts after the first.
    pub max: u32,
    /// The pause before the n-th retry is drawn from 0 to this × 2ⁿ⁻¹ ("full jitter").
    pub pause: Duration,
    /// Longest pause of our own choice; a `Retry-After` may ask for more.
    pub pause_max: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            max: 3,
            pause: Duration::from_millis(250),
            pause_max: Duration::from_secs(8),
        }
    }
}

impl Retries {
    /// The pause before the next attempt, after so many retries. It is drawn each time, so that servers which
    /// lost one upstream do not come back in step.
    pub fn pause(&self, retried: u32) -> Duration {
        let most = self
            .pause
            .saturating_mul(2_u32.saturating_pow(retried))
            .min(self.pause_max);
        rand::random_range(Duration::ZERO..=most)
    }
}

/// A failed attempt.
#[derive(Debug)]
pub struct FailedAttempt {
    /// Why it failed.
    pub error: PortError,
    /// Whether to try again.
    pub again: Again,
}

impl FailedAttempt {
    /// What an answer with this status of HTTP, and with this `Retry-After` header, makes of an attempt.
    pub fn of_status(
        what: impl Into<String>,
        status: u16,
        after: Option<&[u8]>,
        detail: String,
    ) -> Self {
        let again = Again::after_status(status, after);
        let error = match again {
            Again::Never if status == 413 => PortError::too_long(what, detail),
            Again::Never => PortError::refused(what, detail),
            Again::Soon | Again::PushedBack(_) => PortError::unavailable(what, detail),
        };
        Self { error, again }
    }
}

/// What another attempt could bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Nothing.
    Never,
    /// Perhaps an answer.
    Soon,
    /// An answer, once the load is gone; the server may have said when.
    PushedBack(Option<Duration>),
}

impl Again {
    fn after_status(status: u16, after: Option<&[u8]>) -> Self {
        let after = after.and_then(|value| std::str::from_utf8(value).ok());
        let after = after.and_then(|value| retry_after(value, SystemTime::now()));
        match status {
            429 | 503 => Self::PushedBack(after),
            // With any failure of its own a server may say when to ask again (RFC 9110, 10.2.3).
            500..=599 if after.is_some() => Self::PushedBack(after),
            // A conflict (409) is one with the state of what is asked for (15.5.10). Our requests change nothing,
            // so that only the server can be in that state, and it may leave it.
            408 | 409 | 500..=599 => Self::Soon,
            _ => Self::Never,
        }
    }
}

/// Attempts until one succeeds, fails for good, or too little time is left to wait for the next.
///
/// A speculative call does not insist where the server pushes back: its failure is not yet an
/// error, and the room belongs to calls that an answer needs.
pub async fn retry<T, F>(
    retries: &Retries,
    call: &Call,
    deadline: Instant,
    mut attempt: impl FnMut() -> F,
) -> Result<T, PortError>
where
    F: Future<Output = Result<T, FailedAttempt>>,
{
    let mut retried = 0;
    loop {
        let FailedAttempt { error, again } = match attempt().await {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        if matches!(again, Again::PushedBack(_)) {
            // Whoever gives turns hears of it although the attempt may yet be repeated.
            call.push_back();
        }
        let asked = match again {
            Again::Never => return Err(error),
            Again::PushedBack(_) if call.lane() == Lane::Speculative => return Err(error),
            Again::PushedBack(after) => after.unwrap_or_default(),
            Again::Soon => Duration::ZERO,
        };
        let pause = asked.saturating_add(retries.pause(retried));
        if retried == retries.max || deadline.saturating_duration_since(Instant::now()) <= pause {
            return Err(error);
        }
        tracing::debug!(
            reason = with_causes(&error),
            retry = retried + 1,
            pause_ms = pause.as_millis(),
            "trying again"
        );
        sleep(pause).await;
        retried += 1;
    }
}

/// The wait that a `Retry-After` header asks for: seconds, or an HTTP date. Some servers say parts of a second, too.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let is_decimal = value.chars().all(|c| c.is_ascii_digit() || c == '.');
    if let Some(seconds) = value.parse::<f64>().ok().filter(|_| is_decimal) {
        // Whatever is too long for a `Duration` is longer than anybody waits.
        return Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, Weak};

    use spechop_types::Chance;

    use super::*;
    use crate::Seat;

    const RETRIES: Retries = Retries {
        max: 3,
        pause: Duration::from_millis(100),
        pause_max: Duration::from_secs(1),
    };

    /// Runs a script of failures, then success; returns what came out, the number of attempts and
    /// the time that passed.
    async fn check(
        call: &Call,
        limit: Duration,
        script: Vec<Again>,
    ) -> (Result<(), PortError>, usize, Duration) {
        let started = Instant::now();
        let total = script.len();
        let script = RefCell::new(script.into_iter());
        let result = retry(&RETRIES, call, started + limit, || async {
            match script.borrow_mut().next() {
                None => Ok(()),
                Some(again) => Err(FailedAttempt {
                    error: PortError::Unavailable {
                        what: "it".into(),
                        source: None,
                    },
                    again,
                }),
            }
        })
        .await;
        let attempts = total - script.borrow().len() + usize::from(result.is_ok());
        (result, attempts, started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn tries_again_while_it_may_help_and_time_is_left() {
        use Again::{Never, PushedBack, Soon};
        let minute = Duration::from_secs(60);
        let wait = |seconds| PushedBack(Some(Duration::from_secs(seconds)));
        let needed = Call::authoritative();

        let (result, attempts, took) = check(&needed, minute, vec![Soon, PushedBack(None)]).await;
        assert!(result.is_ok() && attempts == 3 && took <= Duration::from_millis(310));

        let (result, attempts, took) = check(&needed, minute, vec![wait(7)]).await;
        assert!(result.is_ok() && attempts == 2 && took >= Duration::from_secs(7));

        let (result, attempts, took) = check(&needed, minute, vec![wait(61)]).await;
        assert!(result.is_err() && attempts == 1 && took.is_zero(), "no use");

        let (result, attempts, _) = check(&needed, minute, vec![Never]).await;
        assert!(result.is_err() && attempts == 1);

        let (result, attempts, _) = check(&needed, minute, vec![Soon; 9]).await;
        assert!(result.is_err() && attempts == 4);

        let maybe = Call::new(Lane::Speculative, Chance::EVEN);
        let (result, attempts, _) = check(&maybe, minute, vec![wait(1)]).await;
        assert!(result.is_err() && attempts == 1, "gives way");
        let (result, attempts, _) = check(&maybe, minute, vec![Soon]).await;
        assert!(result.is_ok() && attempts == 2);
        maybe.promote();
        let (result, attempts, _) = check(&maybe, minute, vec![wait(1)]).await;
        assert!(result.is_ok() && attempts == 2);
    }

    /// Counts how often it hears of push-back.
    #[derive(Default)]
    struct Heard(AtomicUsize);

    impl Seat for Heard {
        fn promoted(&self) {}

        fn pushed_back(&self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_turns_hears_of_every_push_back() {
        let minute = Duration::from_secs(60);
        for lane in [Lane::Authoritative, Lane::Speculative] {
            let (heard, call) = (Arc::new(Heard::default()), Call::new(lane, Chance::EVEN));
            let seat: Weak<Heard> = Arc::downgrade(&heard);
            call.sit(seat);
            let failures = vec![
                Again::Soon,
                Again::PushedBack(None),
                Again::PushedBack(None),
            ];
            let (result, ..) = check(&call, minute, failures).await;
            // What is needed insists, and is heard each time; what is not gives way at the first.
            let insists = lane == Lane::Authoritative;
            assert_eq!(result.is_ok(), insists);
            assert_eq!(heard.0.load(Relaxed), if insists { 2 } else { 1 });
        }
    }

    #[test]
    fn a_status_says_whether_another_attempt_may_help() {
        use Again::{Never, PushedBack, Soon};
        let seven = Some(Duration::from_secs(7));
        for (status, after, again, kind) in [
            (308, None, Never, "refused"),
            (400, None, Never, "refused"),
            (401, Some("7"), Never, "refused"),
            (408, None, Soon, "unavailable"),
            (409, None, Soon, "unavailable"),
            (413, Some("7"), Never, "too long"),
            (429, None, PushedBack(None), "unavailable"),
            (429, Some("7"), PushedBack(seven), "unavailable"),
            (500, None, Soon, "unavailable"),
            (500, Some("soon"), Soon, "unavailable"),
            (500, Some("7"), PushedBack(seven), "unavailable"),
            (503, None, PushedBack(None), "unavailable"),
        ] {
            let after = after.map(str::as_bytes);
            let failure = FailedAttempt::of_status("it", status, after, String::new());
            assert_eq!(failure.again, again, "{status}");
            let told = match failure.error {
                PortError::Refused { .. } => "refused",
                PortError::TooLong { .. } => "too long",
                PortError::Unavailable { .. } => "unavailable",
                other => panic!("{other}"),
            };
            assert_eq!(told, kind, "{status}");
        }
    }

    #[test]
    fn reads_both_forms_of_retry_after() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (value, millis) in [
            ("3", Some(3_000)),
            (" 0 ", Some(0)),
            ("1.5", Some(1_500)),
            ("0.25", Some(250)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            ("Sun, 06 Nov 1994 08:49:17 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("-1.5", None),
            ("1.5.2", None),
            ("inf", None),
            ("1e3", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(
                retry_after(value, now),
                millis.map(Duration::from_millis),
                "{value}"
            );
        }
        let ages = "9".repeat(400);
        for value in ["18446744073709551616", "99999999999999999999.5", &ages] {
            assert_eq!(retry_after(value, now), Some(Duration::MAX), "{value}");
        }
    }

    /// As with any other wait that is longer than there is time for.
    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ages() {
        let (needed, minute) = (Call::authoritative(), Duration::from_secs(60));
        let value = Some(&b"99999999999999999999"[..]);
        let again = FailedAttempt::of_status("it", 429, value, String::new()).again;
        let (result, attempts, took) = check(&needed, minute, vec![again]).await;
        assert!(result.is_err() && attempts == 1 && took.is_zero());
    }
}
