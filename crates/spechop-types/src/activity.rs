//! What a call spends its time on.

use std::fmt;
use std::iter::Sum;
use std::ops::AddAssign;
use std::time::Duration;

/// What a call is busy with, or what it waits for.
///
/// A call can be busy with several things at once, such as the pages of a search. Such a moment counts
/// once, for the first of them in the order of [`Activity::ALL`]: work before waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// A language model in this process reads its prompt.
    Prefill,
    /// A language model in this process writes.
    Decode,
    /// The extractive reader reads passages.
    Read,
    /// An encoder turns texts into vectors, in this process or behind HTTP.
    Encode,
    /// An index is searched: in this process, in Qdrant or behind HTTP.
    Scan,
    /// The text is taken out of web pages.
    Extract,
    /// Web pages are on their way.
    Fetch,
    /// A web search is on its way.
    Search,
    /// A language model behind an endpoint reads and writes: the two cannot be told apart from here.
    Generate,
    /// Latency that the server adds on purpose.
    Injected,
    /// An equal call of the same tenant runs, and this one takes its result.
    Join,
    /// It waits in the queue of an engine, or until an engine has told its result.
    Queue,
    /// It waits for its turn at the scheduler.
    Turn,
}

impl Activity {
    /// Every activity, in the order in which they count.
    pub const ALL: [Self; 13] = [
        Self::Prefill,
        Self::Decode,
        Self::Read,
        Self::Encode,
        Self::Scan,
        Self::Extract,
        Self::Fetch,
        Self::Search,
        Self::Generate,
        Self::Injected,
        Self::Join,
        Self::Queue,
        Self::Turn,
    ];

    /// The activity's name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Read => "read",
            Self::Encode => "encode",
            Self::Scan => "scan",
            Self::Extract => "extract",
            Self::Fetch => "fetch",
            Self::Search => "search",
            Self::Generate => "generate",
            Self::Injected => "injected",
            Self::Join => "join",
            Self::Queue => "queue",
            Self::Turn => "turn",
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How long each activity took. Its sum is the time in which anything was done or waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activities {
    /// By activity. 584 years fit.
    nanos: [u64; Activity::ALL.len()],
}

impl Activities {
    /// How long this one took.
    pub fn of(&self, activity: Activity) -> Duration {
        Duration::from_nanos(self.nanos[activity as usize])
    }

    /// It took so much longer.
    pub fn add(&mut self, activity: Activity, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let sum = &mut self.nanos[activity as usize];
        *sum = sum.saturating_add(nanos);
    }

    /// Every activity with its time, zeros included.
    pub fn iter(&self) -> impl Iterator<Item = (Activity, Duration)> + '_ {
        Activity::ALL
            .into_iter()
            .map(|activity| (activity, self.of(activity)))
    }

    /// All activities together.
    pub fn total(&self) -> Duration {
        let nanos = self.nanos.iter().copied().fold(0, u64::saturating_add);
        Duration::from_nanos(nanos)
    }

    /// What is left without these.
    #[must_use]
    pub fn minus(mut self, other: Self) -> Self {
        for (nanos, other) in self.nanos.iter_mut().zip(other.nanos) {
            *nanos = nanos.saturating_sub(other);
        }
        self
    }
}

impl AddAssign for Activities {
    fn add_assign(&mut self, other: Self) {
        for (nanos, other) in self.nanos.iter_mut().zip(other.nanos) {
            *nanos = nanos.saturating_add(other);
        }
    }
}

impl Sum for Activities {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_activity_has_a_time_and_a_name_of_its_own() {
        let mut activities = Activities::default();
        for (n, activity) in (1..).zip(Activity::ALL) {
            activities.add(activity, Duration::from_nanos(n));
        }
        let listed: Vec<_> = activities.iter().collect();
        let nanos = (1..).map(Duration::from_nanos);
        let expected: Vec<_> = Activity::ALL.into_iter().zip(nanos).collect();
        assert_eq!(listed, expected);
        assert_eq!(activities.total(), Duration::from_nanos(91));
        let twice: Activities = [activities; 2].into_iter().sum();
        assert_eq!(twice.minus(activities), activities);
        assert_eq!(activities.minus(twice), Activities::default());
        let names: std::collections::BTreeSet<_> = Activity::ALL.map(Activity::as_str).into();
        assert_eq!(names.len(), Activity::ALL.len());
    }
}
