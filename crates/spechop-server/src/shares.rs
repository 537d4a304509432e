//! Runs that somebody may look at who has no key: each by a link that nobody can guess, for a time.
//!
//! What is shared is a copy of the run as it was when it was shared, and nothing else of its question. Number
//! and bytes are bounded, for all and for each tenant, so that one cannot take the room of the others.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, interval};

use crate::questions::QuestionId;

/// The most runs that are shared at once, and their bytes.
const SHARES_MAX: usize = 256;
const BYTES_MAX: usize = 64 << 20;
/// A tenant may have this part of both: one of so many.
const PART: usize = 4;
/// What makes a link hard to guess.
const TOKEN_BYTES: usize = 24;
/// How often it is looked at which have expired.
const SWEEP: Duration = Duration::from_secs(1);

/// The runs that are shared.
pub(crate) struct Shares {
    time: Duration,
    shared: Mutex<HashMap<String, Shared>>,
}

struct Shared {
    of: QuestionId,
    run: Bytes,
    ends: Instant,
}

/// No further run can be shared: as many are as may be, or as many bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// The most runs of a tenant.
    pub(crate) most: usize,
}

impl Shares {
    /// Links that work for so long.
    pub(crate) fn new(time: Duration) -> Self {
        Self {
            time,
            shared: Mutex::default(),
        }
    }

    /// How long a link works.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Shares a run of this question, and returns the token of its link. A question has one link: an earlier
    /// one no longer works.
    pub(crate) fn share(&self, of: &QuestionId, run: Bytes) -> Result<String, Full> {
        let mut shared = self.lock();
        let room = |shares: usize, bytes: usize, part: usize| {
            shares < SHARES_MAX / part && bytes + run.len() <= BYTES_MAX / part
        };
        let bytes = |shared: &[&Shared]| shared.iter().map(|shared| shared.run.len()).sum();
        let all: Vec<_> = shared.values().filter(|other| other.of != *of).collect();
        let own: Vec<_> = all
            .iter()
            .copied()
            .filter(|other| other.of.tenant == of.tenant)
            .collect();
        if !room(all.len(), bytes(&all), 1) || !room(own.len(), bytes(&own), PART) {
            return Err(Full {
                most: SHARES_MAX / PART,
            });
        }
        shared.retain(|_, other| other.of != *of);
        let token = BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; TOKEN_BYTES]>());
        let ends = Instant::now() + self.time;
        let of = of.clone();
        shared.insert(token.clone(), Shared { of, run, ends });
        Ok(token)
    }

    /// The run of a link that still works.
    pub(crate) fn run(&self, token: &str) -> Option<Bytes> {
        self.lock().get(token).map(|shared| shared.run.clone())
    }

    /// Ends the link of a question. False if it has none.
    pub(crate) fn end(&self, of: &QuestionId) -> bool {
        let mut shared = self.lock();
        let before = shared.len();
        shared.retain(|_, other| other.of != *of);
        shared.len() < before
    }

    /// Forgets what has expired, for as long as it is polled.
    pub(crate) async fn sweep(&self) -> Infallible {
        let mut ticks = interval(SWEEP);
        loop {
            ticks.tick().await;
            drop(self.lock());
        }
    }

    /// Those that have not expired.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Shared>> {
        let mut shared = self.shared.lock();
        let now = Instant::now();
        shared.retain(|_, shared| shared.ends > now);
        shared
    }
}

#[cfg(test)]
mod tests {
    use spechop_types::{Owned, Tenant};
    use tokio::time::advance;

    use super::*;

    fn of(tenant: &str, name: &str) -> QuestionId {
        Owned::new(&Tenant::new(tenant).unwrap(), Tenant::new(name).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_works_for_its_time_and_then_nothing_is_left() {
        let shares = Shares::new(Duration::from_secs(60));
        let token = shares
            .share(&of("a", "q"), Bytes::from_static(b"run"))
            .unwrap();
        assert_eq!(token.len(), 32);
        advance(Duration::from_millis(59_999)).await;
        assert_eq!(shares.run(&token).unwrap(), "run");
        assert_eq!(shares.run("other"), None);
        advance(Duration::from_millis(1)).await;
        assert_eq!(shares.run(&token), None);
        // The sweep forgets it, too, if nobody asks.
        let token = shares
            .share(&of("a", "q"), Bytes::from_static(b"run"))
            .unwrap();
        let _ = tokio::time::timeout(Duration::from_secs(62), shares.sweep()).await;
        assert!(!shares.shared.lock().contains_key(&token));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_has_one_link_and_only_its_own_is_ended() {
        let shares = Shares::new(Duration::from_secs(60));
        let run = || Bytes::from_static(b"run");
        let first = shares.share(&of("a", "q"), run()).unwrap();
        let second = shares.share(&of("a", "q"), run()).unwrap();
        assert_ne!(first, second);
        assert_eq!(shares.run(&first), None);
        assert!(!shares.end(&of("b", "q")) && !shares.end(&of("a", "r")));
        assert!(shares.run(&second).is_some());
        assert!(shares.end(&of("a", "q")));
        assert_eq!(shares.run(&second), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_cannot_take_the_room_of_the_others() {
        let shares = Shares::new(Duration::from_secs(60));
        let most = SHARES_MAX / PART;
        for n in 0..most {
            let name = format!("q{n}");
            shares
                .share(&of("a", &name), Bytes::from_static(b"run"))
                .unwrap();
        }
        let full = Err(Full { most });
        assert_eq!(shares.share(&of("a", "more"), Bytes::new()), full);
        assert!(shares.share(&of("b", "q"), Bytes::new()).is_ok());
        // Bytes count as well.
        let large = Bytes::from(vec![0; BYTES_MAX / PART + 1]);
        assert_eq!(shares.share(&of("b", "large"), large.clone()), full);
        // What is refused takes no link away.
        let token = shares.share(&of("b", "q"), Bytes::new()).unwrap();
        assert_eq!(shares.share(&of("b", "q"), large), full);
        assert_eq!(shares.run(&token), Some(Bytes::new()));
        advance(Duration::from_secs(61)).await;
        assert!(shares.share(&of("a", "more"), Bytes::new()).is_ok());
    }
}
