use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::{join, pending, poll_fn, ready};
use spechop_types::{Chance, ProviderChange, Tenant};
use tokio::sync::Notify;
use tokio::task::{JoinSet, yield_now};

use super::*;
use crate::{Lane, Progress};

/// Identical calls of it share a run, which is numbered and ends when it is told to.
#[derive(Default)]
struct World {
    calls: SharedCalls<&'static str, usize>,
    work: Arc<Work>,
}

#[derive(Default)]
struct Work {
    begun: AtomicUsize,
    /// Ended or dropped.
    over: AtomicUsize,
    may_end: Notify,
    /// The lanes in which runs ended.
    lanes: Mutex<Vec<Lane>>,
}

struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl World {
    async fn ask(&self, call: &Call, key: &'static str) -> Result<usize, Panicked> {
        let work = Arc::clone(&self.work);
        let start = move |call: Call| async move { work.run(&call, key).await }.boxed();
        let (waiter, _) = self.calls.join(key, call, start);
        waiter.outcome().await
    }

    /// Runs that have begun, those that are over, and those under way.
    fn counts(&self) -> (usize, usize, usize) {
        let [begun, over] = [&self.work.begun, &self.work.over].map(|count| count.load(SeqCst));
        (begun, over, self.calls.len())
    }
}

impl Work {
    async fn run(&self, call: &Call, key: &str) -> usize {
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        let _over = Over(&self.over);
        call.advance(Progress::Begun);
        call.changed_provider(change());
        call.serve_kept();
        self.may_end.notified().await;
        self.lanes.lock().push(call.lane());
        assert!(key != "panics", "{number}");
        number
    }
}

fn change() -> ProviderChange {
    ProviderChange {
        from: "a".into(),
        to: "b".into(),
        why: "it is down".into(),
    }
}

fn speculative() -> Call {
    Call::new(Lane::Speculative, Chance::EVEN)
}

type Asked<'a> = BoxFuture<'a, Result<usize, Panicked>>;

fn is_waiting(asked: &mut Asked<'_>) -> bool {
    asked.now_or_never().is_none()
}

#[tokio::test]
async fn a_run_outlives_its_first_caller_but_not_the_last_who_waits() {
    let world = World::default();
    let (first, second) = (speculative(), speculative());
    let mut one = world.ask(&first, "a").boxed();
    let mut other = world.ask(&second, "a").boxed();
    assert!(is_waiting(&mut one) && is_waiting(&mut other));
    drop(one);
    assert_eq!(world.counts(), (1, 0, 1));
    world.work.may_end.notify_one();
    assert_eq!(other.await, Ok(1));
    assert_eq!(world.counts(), (1, 1, 0));

    let mut one = world.ask(&first, "a").boxed();
    let mut other = world.ask(&second, "a").boxed();
    assert!(is_waiting(&mut one) && is_waiting(&mut other));
    assert_eq!(world.counts(), (2, 1, 1));
    drop((other, one));
    assert_eq!(world.counts(), (2, 2, 0));
}

/// Nothing is done any more for who has left, unless it was the last: a thread may still be at the work.
#[test]
fn a_run_lives_for_the_questions_of_those_who_wait() {
    let calls = SharedCalls::<&str, ()>::default();
    let [first, second] = [0; 2].map(|_| speculative().within(Life::of(Arc::new(()))));
    let life = |call: &Call| call.life().map(Life::downgrade).unwrap();
    let (began, joined) = (life(&first), life(&second));
    let mut works = None;
    let (one, _) = calls.join("a", &first, |run: Call| {
        works = Some(run);
        pending()
    });
    let (other, _) = calls.join("a", &second, |_| pending());
    drop(one);
    drop(first);
    assert!(began.is_over(), "it waits no more");
    drop(other);
    drop(second);
    assert!(!joined.is_over(), "its work goes on");
    drop(works);
    assert!(joined.is_over());
    assert!(calls.is_empty());
}

#[tokio::test]
async fn other_tenants_and_other_keys_have_runs_of_their_own() {
    let world = World::default();
    let tenants = ["a", "b", "c"].map(|name| Tenant::new(name).unwrap());
    let calls = tenants.map(|tenant| Call::of(tenant, Lane::Authoritative, Chance::CERTAIN));
    let asked = calls
        .iter()
        .flat_map(|call| ["x", "y"].map(|key| world.ask(call, key).boxed()));
    let mut asked: Vec<_> = asked.collect();
    assert!(asked.iter_mut().all(is_waiting));
    assert_eq!(world.counts(), (6, 0, 6));
}

#[tokio::test]
async fn a_run_is_as_urgent_as_the_most_urgent_who_waits() {
    for (joins, is_promoted, lane) in [
        (speculative(), false, Lane::Speculative),
        (Call::authoritative(), false, Lane::Authoritative),
        (speculative(), true, Lane::Authoritative),
    ] {
        let world = World::default();
        let first = speculative();
        let mut one = world.ask(&first, "a").boxed();
        let mut other = world.ask(&joins, "a").boxed();
        assert!(is_waiting(&mut one) && is_waiting(&mut other));
        if is_promoted {
            joins.promote();
        }
        world.work.may_end.notify_one();
        assert_eq!(join(one, other).await, (Ok(1), Ok(1)));
        assert_eq!(*world.work.lanes.lock(), [lane]);
        assert_eq!(first.lane(), Lane::Speculative, "only the run is needed");
    }
}

/// Without that, dropping the run would panic in turn, which ends the process.
#[tokio::test]
async fn a_panic_is_told_to_all_who_wait_and_to_nobody_later() {
    let world = World::default();
    let (first, second) = (speculative(), speculative());
    let mut one = world.ask(&first, "panics").boxed();
    let mut other = world.ask(&second, "panics").boxed();
    assert!(is_waiting(&mut one) && is_waiting(&mut other));
    world.work.may_end.notify_one();
    let (one, other) = join(one, other).await;
    assert_eq!(one.as_ref().unwrap_err().to_string(), "it panicked: 1");
    assert_eq!(one, other);
    assert_eq!(world.counts(), (1, 1, 0));
    let mut next = world.ask(&first, "panics").boxed();
    assert!(is_waiting(&mut next));
    assert_eq!(world.counts(), (2, 1, 1));
}

#[tokio::test]
async fn a_call_that_leaves_takes_along_how_far_the_run_has_come_and_who_served_it() {
    let world = World::default();
    let (first, second) = (speculative(), speculative());
    let part = second.sub_call();
    let mut one = world.ask(&first, "a").boxed();
    let mut other = world.ask(&part, "a").boxed();
    assert!(is_waiting(&mut one) && is_waiting(&mut other));
    let has_it_all = |call: &Call| {
        assert_eq!(call.progress(), Progress::Begun);
        assert_eq!(call.provider_changes(), [change()]);
        assert!(call.was_kept());
    };
    assert!(!second.was_kept());
    // It leaves early.
    drop(other);
    has_it_all(&second);
    assert!(!first.was_kept());
    world.work.may_end.notify_one();
    assert_eq!(one.await, Ok(1));
    has_it_all(&first);
}

/// A task that is gone does not keep the others from being woken.
#[tokio::test]
async fn who_waits_in_another_task_is_woken_when_the_first_is_gone() {
    let world = Arc::new(World::default());
    let mut tasks = JoinSet::new();
    let begin = |tasks: &mut JoinSet<_>, world: Arc<World>| {
        tasks.spawn(async move { world.ask(&speculative(), "a").await })
    };
    let first = begin(&mut tasks, Arc::clone(&world));
    yield_now().await;
    begin(&mut tasks, Arc::clone(&world));
    yield_now().await;
    assert_eq!(world.counts(), (1, 0, 1));
    first.abort();
    assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
    world.work.may_end.notify_one();
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), Ok(1));
    assert!(world.calls.is_empty());
}

#[tokio::test]
async fn who_joined_in_time_is_told_even_if_it_looks_late() {
    let calls = SharedCalls::<&str, usize>::default();
    let run = |number: usize| move |_: Call| ready(number).boxed();
    let [first, second, third] = [0; 3].map(|_| speculative());
    let (one, _) = calls.join("a", &first, run(1));
    let (other, unused) = calls.join("a", &second, run(2));
    assert!(unused.is_some());
    assert_eq!(one.outcome().await, Ok(1));
    assert!(calls.is_empty());
    let (next, unused) = calls.join("a", &third, run(3));
    assert!(unused.is_none());
    assert_eq!(other.outcome().await, Ok(1));
    // The end of the old run leaves the place to the new one.
    assert_eq!(calls.len(), 1);
    assert_eq!(next.outcome().await, Ok(3));
    assert!(calls.is_empty());
}

/// A call that came while another one was just driving the run has not been woken with that one.
#[test]
fn a_run_goes_on_when_a_call_that_was_woken_for_it_leaves() {
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    let calls = Arc::new(SharedCalls::<&str, usize>::default());
    let woken = Arc::new(Woken::default());
    let second: Arc<Mutex<Option<Asked<'static>>>> = Arc::default();
    let joining = Arc::clone(&calls);
    let other = async move {
        let call = speculative();
        let (waiter, _) = joining.join("a", &call, |_| pending().boxed());
        waiter.outcome().await
    };
    *second.lock() = Some(other.boxed());
    let (comes, waker) = (Arc::clone(&second), Waker::from(Arc::clone(&woken)));
    let mut looks = 0;
    let run = poll_fn(move |context| {
        looks += 1;
        if looks == 2 {
            return Poll::Ready(7);
        }
        context.waker().wake_by_ref();
        let mut comes = comes.lock();
        let comes = comes.as_mut().unwrap();
        let outcome = comes.poll_unpin(&mut Context::from_waker(&waker));
        assert!(outcome.is_pending());
        Poll::Pending
    });
    let first = speculative();
    let (waiter, _) = calls.join("a", &first, |_| run.boxed());
    let mut one = waiter.outcome().boxed();
    assert!(is_waiting(&mut one));
    assert_eq!(woken.0.load(SeqCst), 0);
    drop(one);
    assert_eq!(woken.0.load(SeqCst), 1);
    let other = second.lock().take().unwrap();
    assert_eq!(other.now_or_never(), Some(Ok(7)));
    assert!(calls.is_empty());
}

#[tokio::test]
async fn places_of_runs_that_are_over_are_swept() {
    let calls = SharedCalls::<usize, usize>::default();
    let places = || calls.0.lock().by_key.len();
    let held = speculative();
    let (waiting, _) = calls.join(0, &held, |_| pending());
    for key in 1..10 * SWEEP_MIN {
        let call = speculative();
        let (waiter, _) = calls.join(key, &call, |_| ready(key));
        assert_eq!(waiter.outcome().await, Ok(key));
        assert!(places() <= SWEEP_MIN, "{key}");
        assert_eq!(calls.len(), 1, "the one that is under way");
    }
    // It kept its place.
    let (joined, unused) = calls.join(0, &held, |_| ready(1));
    assert!(unused.is_some());
    drop((waiting, joined));
    assert!(calls.is_empty());
}
