//! Something that fails for a while: the log says so once, and once more when it works again.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Whether something fails at the moment. The lines of the log are the caller's.
///
/// ```text
/// Err(error) if outage.fails(&reason).is_none() => tracing::warn!(reason, "it cannot be asked"),
/// Ok(_) if outage.works() => tracing::info!("it answers again"),
/// ```
#[derive(Debug, Default)]
pub(crate) struct Outage {
    pause: Duration,
    last: Mutex<Option<Failed>>,
}

/// The latest attempt, which failed.
#[derive(Debug)]
struct Failed {
    reason: String,
    at: Instant,
}

impl Outage {
    /// For so long after a failure, nobody should try.
    pub(crate) fn with_pause(pause: Duration) -> Self {
        Self {
            pause,
            last: Mutex::default(),
        }
    }

    /// Why nobody should try now, if that is so.
    pub(crate) fn paused(&self) -> Option<String> {
        let last = self.last.lock();
        let failed = last.as_ref()?;
        (failed.at.elapsed() < self.pause).then(|| failed.reason.clone())
    }

    /// Whether the latest attempt has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.last.lock().is_some()
    }

    /// An attempt has failed. Returns why the one before it did; `None` if it did not, so that this is news.
    pub(crate) fn fails(&self, reason: &str) -> Option<String> {
        let failed = Failed {
            reason: reason.to_owned(),
            at: Instant::now(),
        };
        let before = self.last.lock().replace(failed);
        before.map(|before| before.reason)
    }

    /// An attempt has failed. Whether that is news: the one before it did not fail, or for another reason.
    pub(crate) fn fails_anew(&self, reason: &str) -> bool {
        self.fails(reason).as_deref() != Some(reason)
    }

    /// An attempt has succeeded. Whether the one before it failed, so that this is news.
    pub(crate) fn works(&self) -> bool {
        self.last.lock().take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_news_once_that_it_fails_and_once_that_it_works_again() {
        const PAUSE: Duration = Duration::from_secs(5);
        let outage = Outage::with_pause(PAUSE);
        for _ in 0..2 {
            assert!(!outage.works(), "it did before");
            assert_eq!(outage.fails("a"), None);
            assert_eq!(outage.fails("b").as_deref(), Some("a"));
            assert_eq!(outage.paused().as_deref(), Some("b"));
            tokio::time::advance(PAUSE).await;
            assert_eq!(outage.paused(), None);
            // It is still out: nobody has tried.
            assert_eq!(outage.fails("c").as_deref(), Some("b"));
            assert_eq!(outage.paused().as_deref(), Some("c"));
            assert!(outage.works());
            assert_eq!(outage.paused(), None);
            let news = ["a", "a", "b", "b"].map(|reason| outage.fails_anew(reason));
            assert_eq!(news, [true, false, true, false], "another reason is news");
            assert!(outage.works());
        }
        // Nobody waits where no pause was asked for.
        let outage = Outage::default();
        assert_eq!(outage.fails("a"), None);
        assert_eq!(outage.paused(), None);
    }
}
