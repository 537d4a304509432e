//! How a part says that it is broken for good, and how whoever runs the parts hears of it.
//!
//! A failed call is an error of that call. This is for what no later call can mend: an index whose
//! files were cut, a thread that has ended.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// A part that is broken until the process starts anew, or another takes its place.
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
    /// Whether the part that tells by this is out of use. Written under the lock of the state.
    is_retired: Arc<AtomicBool>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they were told; each part once in each role. None is ever removed,
    /// because whoever waits counts them.
    told: Vec<Told>,
    waiting: Vec<Waker>,
}

#[derive(Debug)]
struct Told {
    failure: BrokenPart,
    /// That of the vital signs by which it was told.
    is_retired: Arc<AtomicBool>,
}

impl Vitals {
    /// The same, for a part that is used for this. The part itself need not know.
    #[must_use]
    pub fn of(&self, role: &'static str) -> Self {
        Self {
            role: Some(role),
            ..self.clone()
        }
    }

    /// The same, for one of the parts that take each other's place while the process runs.
    #[must_use]
    pub fn replaceable(&self) -> Self {
        Self {
            is_retired: Arc::default(),
            ..self.clone()
        }
    }

    /// The [replaceable](Vitals::replaceable) part that tells by this is out of use. It does not
    /// count as broken any more, whatever it has said and may yet say.
    pub fn retire(&self) {
        let _state = self.state.lock();
        self.is_retired.store(true, Relaxed);
    }

    /// A part says that it is broken for good. Only its first reason counts.
    pub fn fail(&self, part: &str, reason: impl Into<String>) {
        let waiting = {
            let mut state = self.state.lock();
            let is_it = |known: &Told| {
                let BrokenPart { role, part: of, .. } = &known.failure;
                let by_it = Arc::ptr_eq(&known.is_retired, &self.is_retired);
                by_it && of == part && *role == self.role
            };
            if self.is_retired.load(Relaxed) || state.told.iter().any(is_it) {
                return;
            }
            state.told.push(Told {
                failure: BrokenPart {
                    role: self.role,
                    part: part.to_owned(),
                    reason: reason.into(),
                },
                is_retired: Arc::clone(&self.is_retired),
            });
            std::mem::take(&mut state.waiting)
        };
        // Woken outside the lock: they may well look at once.
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The parts that are broken now, in the order in which they broke.
    pub fn failures(&self) -> Vec<BrokenPart> {
        let state = self.state.lock();
        let told = state.told.iter();
        let broken = told.filter(|told| !told.is_retired.load(Relaxed));
        broken.map(|told| told.failure.clone()).collect()
    }

    /// The failures behind the first `known` that were told, once there are any. Those of parts that
    /// are out of use by now are among them.
    pub async fn after(&self, known: usize) -> Vec<BrokenPart> {
        poll_fn(|context| {
            let mut state = self.state.lock();
            match state.told.get(known..) {
                Some(news) if !news.is_empty() => {
                    let news: Vec<_> = news.iter().map(|told| told.failure.clone()).collect();
                    Poll::Ready(news)
                }
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

    #[tokio::test]
    async fn a_part_in_the_place_of_a_broken_one_is_whole_until_it_breaks_itself() {
        let vitals = Vitals::default();
        vitals.fail("reader", "its thread has ended");
        let hot = vitals.of("hot");
        let old = hot.replaceable();
        old.fail("index", "its files were cut");
        assert_eq!(vitals.failures().len(), 2);
        let fresh = hot.replaceable();
        old.retire();
        let reader = ("reader", "its thread has ended");
        assert_eq!(parts(&vitals.failures()), [reader]);
        // It is still searched by whoever began on it.
        old.fail("index", "its files are gone");
        old.fail("index's thread", "it has ended");
        assert_eq!(parts(&vitals.failures()), [reader]);
        fresh.fail("index", "it is damaged");
        let damaged = ("index", "it is damaged");
        assert_eq!(parts(&vitals.failures()), [reader, damaged]);
        // Whoever has heard of the first two hears of the third.
        assert_eq!(parts(&vitals.after(2).await), [damaged]);
        assert_eq!(vitals.failures()[1].role, Some("hot"));
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
