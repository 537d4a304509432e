//! What has come of a load run: questions under way are counted, and summed up at its end.

use std::collections::HashSet;
use std::time::Duration;

use super::arrivals::Arrival;
use super::tally::{Latency, Outcome, Tally};
use super::{LoadOptions, LoadProgress, Loaded};

/// What an arrival is counted as that was not sent, for there were too many under way.
const NOT_SENT: &str = "NOT_SENT";

/// What has come of a run so far.
pub(super) struct Running<'a> {
    options: &'a LoadOptions,
    tally: Tally,
    /// Those under way that count, by setting and pair.
    open: HashSet<(usize, usize)>,
    /// The different questions of those that count.
    asked: HashSet<usize>,
    late: Latency,
    in_flight: usize,
    in_flight_max: usize,
    warm_up: u64,
    answered: u64,
    /// Of `answered`, those that count.
    counted: u64,
    failed: u64,
    pub(super) ended_early: bool,
}

impl<'a> Running<'a> {
    pub(super) fn new(options: &'a LoadOptions) -> Self {
        Self {
            tally: Tally::new(&options.settings),
            options,
            open: HashSet::new(),
            asked: HashSet::new(),
            late: Latency::default(),
            in_flight: 0,
            in_flight_max: 0,
            warm_up: 0,
            answered: 0,
            counted: 0,
            failed: 0,
            ended_early: false,
        }
    }

    fn counts(&self, arrival: &Arrival) -> bool {
        arrival.at >= self.options.warm_up
    }

    /// A question is due. `false`: there is no room for it.
    pub(super) fn begin(&mut self, arrival: &Arrival, late: Duration) -> bool {
        let counts = self.counts(arrival);
        if self.in_flight >= self.options.in_flight_max {
            self.failed += 1;
            if counts {
                let outcome = Outcome::Failed(NOT_SENT.to_owned());
                self.tally.count(arrival.setting, arrival.pair, outcome);
            }
            return false;
        }
        self.in_flight += 1;
        self.tally.begins(arrival.setting, counts);
        if counts {
            self.in_flight_max = self.in_flight_max.max(self.in_flight);
            self.late.record(late);
            self.open.insert((arrival.setting, arrival.pair));
            self.asked.insert(arrival.question);
        } else {
            self.warm_up += 1;
        }
        true
    }

    pub(super) fn settle(&mut self, arrival: &Arrival, outcome: Outcome) {
        self.in_flight -= 1;
        self.tally.ends(arrival.setting);
        let is_answered = matches!(outcome, Outcome::Answered(_));
        self.answered += u64::from(is_answered);
        self.failed += u64::from(!is_answered);
        if !self.counts(arrival) {
            return;
        }
        self.counted += u64::from(is_answered);
        self.open.remove(&(arrival.setting, arrival.pair));
        self.tally.count(arrival.setting, arrival.pair, outcome);
    }

    /// What is still open was cancelled.
    pub(super) fn abandon_rest(&mut self) {
        for (setting, pair) in std::mem::take(&mut self.open) {
            self.tally.count(setting, pair, Outcome::Unfinished);
        }
    }

    pub(super) fn progress(&self, elapsed: Duration, of: Duration) -> LoadProgress {
        LoadProgress {
            elapsed: elapsed.min(of),
            of,
            in_flight: self.in_flight,
            answered: self.answered,
            failed: self.failed,
        }
    }

    /// `lasted`: how long questions arrived that count. `whole`: that, and until the last answer.
    pub(super) fn loaded(&self, lasted: Duration, whole: Duration, ended_early: bool) -> Loaded {
        let whole = whole.as_secs_f64();
        Loaded {
            rate: self.options.rate,
            lasted_s: lasted.as_secs_f64(),
            warm_up: self.warm_up,
            questions: self.asked.len(),
            ended_early: ended_early || self.ended_early,
            answered_per_s: if whole > 0.0 {
                self.counted as f64 / whole
            } else {
                0.0
            },
            in_flight_max: self.in_flight_max,
            sent_late_ms: self.late.summary(),
            settings: self.tally.measured(),
            compared: self.tally.compared(),
        }
    }
}
