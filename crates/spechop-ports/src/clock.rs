//! Where the time of a call goes, told by whoever works for it.

use parking_lot::Mutex;
use spechop_types::{Activities, Activity};
use tokio::time::Instant;

use crate::Call;

/// The activities of a call: which are under way, and how long each has taken.
///
/// A moment in which several are under way counts for the first of them, so that the times never add up
/// to more than the call took. An engine need not know who waits for it, or in which queue.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How many of each are under way.
    under_way: [u16; Activity::ALL.len()],
    /// Until when `activities` is up to date, while anything is under way.
    until: Option<Instant>,
    activities: Activities,
}

/// A call is busy with something, or waits for it, for as long as this lives.
#[derive(Debug)]
#[must_use = "the activity ends when this is dropped"]
pub struct Doing {
    call: Call,
    activity: Activity,
}

impl Doing {
    pub(crate) fn new(call: &Call, activity: Activity) -> Self {
        let call = call.clone();
        let mut state = call.clock().0.lock();
        state.settle();
        state.under_way[activity as usize] += 1;
        drop(state);
        Self { call, activity }
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        let mut state = self.call.clock().0.lock();
        state.settle();
        state.under_way[self.activity as usize] -= 1;
    }
}

impl Clock {
    /// How long each activity has taken until now.
    pub(crate) fn read(&self) -> Activities {
        let mut state = self.0.lock();
        // The time is asked only if it counts for something.
        if state.first().is_some() {
            state.settle();
        }
        state.activities
    }
}

impl State {
    /// What the moment counts for.
    fn first(&self) -> Option<Activity> {
        let mut activities = Activity::ALL.into_iter();
        activities.find(|activity| self.under_way[*activity as usize] > 0)
    }

    fn settle(&mut self) {
        let now = Instant::now();
        if let (Some(first), Some(until)) = (self.first(), self.until) {
            let time = now.saturating_duration_since(until);
            self.activities.add(first, time);
        }
        self.until = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn times(call: &Call) -> Vec<(Activity, u128)> {
        let all = call.activities();
        let ms = all
            .iter()
            .map(|(activity, time)| (activity, time.as_millis()));
        ms.filter(|(_, time)| *time > 0).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_moment_counts_once_for_the_first_activity() {
        let call = Call::authoritative();
        sleep(MS).await;
        assert_eq!(times(&call), [], "idle");
        let waiting = call.doing(Activity::Queue);
        sleep(2 * MS).await;
        // Clones are the same call.
        let first = call.clone().doing(Activity::Fetch);
        sleep(4 * MS).await;
        let second = call.doing(Activity::Fetch);
        drop(first);
        sleep(8 * MS).await;
        let fetched = [(Activity::Fetch, 12), (Activity::Queue, 2)];
        assert_eq!(times(&call), fetched, "it can be read at any time");
        drop(second);
        sleep(16 * MS).await;
        drop(waiting);
        sleep(32 * MS).await;
        assert_eq!(times(&call), [(Activity::Fetch, 12), (Activity::Queue, 18)]);
    }

    #[tokio::test(start_paused = true)]
    async fn parts_and_shared_work_take_the_time_of_the_call_that_they_were_made_of() {
        let call = Call::authoritative();
        let (part, detached) = (call.sub_call(), call.detached());
        let reading = part.doing(Activity::Read);
        sleep(MS).await;
        let scanning = detached.sub_call().doing(Activity::Scan);
        sleep(MS).await;
        drop(reading);
        sleep(MS).await;
        drop(scanning);
        let expected = [(Activity::Read, 2), (Activity::Scan, 1)];
        for call in [&call, &part, &detached] {
            assert_eq!(times(call), expected);
        }
        assert_eq!(times(&Call::authoritative()), []);
    }
}
