//! How a part says that it is broken for good, and how whoever runs the parts hears of it.
//!
//! A failed call is an error of that call. This is for what no later call can mend: an index whose
//! files were cut, a thread that has ended.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A part that is broken until the process starts anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which part, by the name that its errors call it.
    pub part: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// The vital signs of all parts of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Vitals(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// In the order in which they were told; each part once.
    failures: Vec<Failure>,
    waiting: Vec<Waker>,
}

impl Vitals {
    /// A part says that it is broken for good. Only its first reason counts.
    pub fn fail(&self, part: &str, reason: impl Into<String>) {
        let waiting = {
            let mut state = self.lock();
            if state.failures.iter().any(|known| known.part == part) {
                return;
            }
            state.failures.push(Failure {
                part: part.to_owned(),
                reason: reason.into(),
            });
            std::mem::take(&mut state.waiting)
        };
        // Woken outside the lock: they may well look at once.
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The parts that are broken now, in the order in which they broke.
    pub fn failures(&self) -> Vec<Failure> {
        self.lock().failures.clone()
    }

    /// The failures behind the first `known`, once there are any.
    pub async fn after(&self, known: usize) -> Vec<Failure> {
        poll_fn(|context| {
            let mut state = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn parts(failures: &[Failure]) -> Vec<(&str, &str)> {
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
