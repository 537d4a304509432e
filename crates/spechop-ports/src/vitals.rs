//! How a part says that it is broken for good, and how whoever runs the parts hears of it.
//!
//! A failed call is an error of that call. This is for what no later call can mend: an index whose
//! files were cut, a thread that has ended.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// A part that is broken until the process starts anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenPart {
    /// What it is used for, if that was [said](Vitals::of).
    pub role: Option<&'static str>,
    /// Which part, by the name that its errors call it.
    pub part: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// The vital signs of all parts of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Vitals {
    role: Option<&'static str>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they were told; each part once in each role.
    failures: Vec<BrokenPart>,
    waiting: Vec<Waker>,
}

impl Vitals {
    /// The same, for a part that is used for this. The part itself need not know.
    #[must_use]
    pub fn of(&self, role: &'static str) -> Self {
        Self {
            role: Some(role),
            state: Arc::clone(&self.state),
        }
    }

    /// A part says that it is broken for good. Only its first reason counts.
    pub fn fail(&self, part: &str, reason: impl Into<String>) {
        let waiting = {
            let mut state = self.state.lock();
            let mut known = state.failures.iter();
            if known.any(|known| known.part == part && known.role == self.role) {
                return;
            }
            state.failures.push(BrokenPart {
                role: self.role,
                part: part.to_owned(),
                reason: reason.into(),
            });
            std::mem::take(&mut state.waiting)
        };
        // Woken outside the lock: they may well look at once.
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The parts that are broken now, in the order in which they broke.
    pub fn failures(&self) -> Vec<BrokenPart> {
        self.state.lock().failures.clone()
    }

    /// The failures behind the first `known`, once there are any.
    pub async fn after(&self, known: usize) -> Vec<BrokenPart> {
        poll_fn(|context| {
            let mut state = self.state.lock();
            match state.failures.get(known..) {
                Some(news) if !news.is_empty() => Poll::Ready(news.to_vec()),
                Some(_) | None => {
                    if !state.waiting.iter().any(|w| w.will_wake(context.waker())) {
                        state.waiting.push(context.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// What a thread says of the panic that it caught.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(failures: &[BrokenPart]) -> Vec<(&str, &str)> {
        failures
            .iter()
            .map(|failure| (&*failure.part, &*failure.reason))
            .collect()
    }

    #[tokio::test]
    async fn who_waits_hears_of_every_part_once() {
        let vitals = Vitals::default();
        let heard = vitals.clone();
        let hear = async {
            let first = heard.after(0).await;
            let second = heard.after(first.len()).await;
            (first, second)
        };
        let tell = async {
            tokio::task::yield_now().await;
            vitals.fail("index", "its files were cut");
            vitals.fail("index", "its files are gone");
            tokio::task::yield_now().await;
            vitals.fail("reader", "its thread has ended");
        };
        let ((first, second), ()) = tokio::join!(hear, tell);
        assert_eq!(parts(&first), [("index", "its files were cut")]);
        assert_eq!(parts(&second), [("reader", "its thread has ended")]);
        assert_eq!(vitals.failures().len(), 2);
        // Told before anybody listened.
        assert_eq!(vitals.after(0).await.len(), 2);
    }

    /// One model may have two roles, and be opened for each.
    #[test]
    fn a_part_is_told_once_in_each_role() {
        let vitals = Vitals::default();
        for vitals in [
            vitals.of("generator"),
            vitals.of("fallback"),
            vitals.clone(),
        ] {
            vitals.fail("model m", "its thread has ended");
            vitals.fail("model m", "its other thread has ended");
        }
        let failures = vitals.failures();
        let roles: Vec<_> = failures.iter().map(|failure| failure.role).collect();
        assert_eq!(roles, [Some("generator"), Some("fallback"), None]);
        assert_eq!(parts(&failures), [("model m", "its thread has ended"); 3]);
    }

    #[test]
    fn a_panic_is_quoted() {
        for (panic, text) in [
            (
                Box::new("a text") as Box<dyn std::any::Any + Send>,
                "a text",
            ),
            (Box::new("made".to_owned()), "made"),
            (Box::new(7), "a panic without a message"),
        ] {
            assert_eq!(panic_text(&*panic), text);
        }
    }
}
