//! The lanes as one would write them down on a sheet of paper: a list of calls, looked through
//! again for every decision.

use std::time::Duration;

use spechop_sched::{Phase, Pressure};

/// What a backend takes, in plain numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sheet {
    pub(crate) capacity: usize,
    pub(crate) speculative_max: usize,
    /// Nanoseconds a token, and tokens in a burst.
    pub(crate) rate: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct SlowCall {
    pub(crate) authoritative: bool,
    pub(crate) utility: u32,
    pub(crate) phase: Phase,
    pub(crate) starts: u32,
    started: Duration,
    /// When it became authoritative, as a number in a row.
    needed: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Slow {
    pub(crate) sheet: Sheet,
    pub(crate) now: Duration,
    /// In order of arrival; nobody is ever taken off the list.
    pub(crate) calls: Vec<SlowCall>,
    pressure: Pressure,
    credit: u64,
    needed: usize,
}

impl Slow {
    pub(crate) fn new(sheet: Sheet) -> Self {
        Self {
            sheet,
            now: Duration::ZERO,
            calls: Vec::new(),
            pressure: Pressure::new(sheet.speculative_max.min(sheet.capacity)),
            credit: sheet.rate.map_or(0, |(interval, burst)| interval * burst),
            needed: 0,
        }
    }

    /// Calls that have not ended, by number.
    pub(crate) fn alive(&self) -> Vec<usize> {
        self.those(|call| call.phase != Phase::Gone)
    }

    /// Calls that have their turn.
    pub(crate) fn placed(&self) -> Vec<usize> {
        self.those(|call| matches!(call.phase, Phase::Running | Phase::Ending))
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        if let Some((interval, burst)) = self.sheet.rate {
            let passed = time.as_nanos() as u64;
            self.credit = (self.credit + passed).min(interval * burst);
        }
        self.pressure.wake(self.now);
    }

    pub(crate) fn arrive(&mut self, authoritative: bool, utility: u32) {
        self.needed += 1;
        self.calls.push(SlowCall {
            needed: self.needed,
            authoritative,
            utility,
            phase: Phase::Waiting,
            starts: 0,
            started: self.now,
        });
    }

    pub(crate) fn finish(&mut self, at: usize) {
        let call = &mut self.calls[at];
        call.phase = Phase::Gone;
        if call.authoritative {
            self.pressure.answered(self.now, self.now - call.started);
        }
    }

    pub(crate) fn leave(&mut self, at: usize) {
        self.calls[at].phase = Phase::Gone;
    }

    pub(crate) fn promote(&mut self, at: usize) {
        self.needed += 1;
        let call = &mut self.calls[at];
        if !call.authoritative {
            call.needed = self.needed;
        }
        call.authoritative = true;
        if call.phase == Phase::Ending {
            call.phase = Phase::Running;
        }
    }

    pub(crate) fn push_back(&mut self) {
        self.pressure.push_back(self.now);
    }

    /// Decides until there is nothing left to decide.
    pub(crate) fn settle(&mut self) {
        self.settle_needed();
        while let Some(at) = self.speculative_to_start() {
            self.start(at);
        }
    }

    /// The same without the turns of speculative calls.
    pub(crate) fn settle_needed(&mut self) {
        while let Some(at) = self.authoritative_to_start() {
            self.start(at);
        }
        while let Some(at) = self.victim() {
            self.calls[at].phase = Phase::Ending;
        }
    }

    pub(crate) fn start(&mut self, at: usize) {
        if let Some((interval, _)) = self.sheet.rate {
            self.credit -= interval;
        }
        let call = &mut self.calls[at];
        call.phase = Phase::Running;
        call.starts += 1;
        call.started = self.now;
    }

    fn authoritative_to_start(&self) -> Option<usize> {
        let waiting = self.those(|c| c.authoritative && c.phase == Phase::Waiting);
        let first = waiting
            .into_iter()
            .min_by_key(|at| self.calls[*at].needed)?;
        (self.tokens() > 0 && self.placed().len() < self.sheet.capacity).then_some(first)
    }

    /// The guess of the least utility, the youngest among equals, while too many run.
    fn victim(&self) -> Option<usize> {
        let waiting = self.those(|c| c.authoritative && c.phase == Phase::Waiting);
        let served = waiting.len().min(self.tokens());
        let ending = self.those(|c| c.phase == Phase::Ending).len();
        let free = self.sheet.capacity - self.placed().len();
        let running = self.those(|c| !c.authoritative && c.phase == Phase::Running);
        let wanted = served > free + ending || running.len() > self.pressure.places();
        let worst = |at: &usize| (std::cmp::Reverse(self.calls[*at].utility), *at);
        running.into_iter().max_by_key(worst).filter(|_| wanted)
    }

    pub(crate) fn speculative_to_start(&self) -> Option<usize> {
        let somebody_needs = self.those(|c| c.authoritative && c.phase == Phase::Waiting);
        let guesses = self.those(|c| {
            matches!(c.phase, Phase::Ending) || (!c.authoritative && c.phase == Phase::Running)
        });
        let has_spare = self.sheet.rate.is_none_or(|(interval, burst)| {
            self.credit >= interval && 2 * self.credit > interval * burst
        });
        let waiting = self.those(|c| !c.authoritative && c.phase == Phase::Waiting);
        let best = |at: &usize| (std::cmp::Reverse(self.calls[*at].utility), *at);
        waiting.into_iter().min_by_key(best).filter(|_| {
            somebody_needs.is_empty()
                && has_spare
                && self.placed().len() < self.sheet.capacity
                && guesses.len() < self.pressure.places()
        })
    }

    fn tokens(&self) -> usize {
        self.sheet.rate.map_or(usize::MAX, |(interval, _)| {
            (self.credit / interval) as usize
        })
    }

    pub(crate) fn those(&self, are: impl Fn(&SlowCall) -> bool) -> Vec<usize> {
        let found = self.calls.iter().enumerate().filter(|(_, call)| are(call));
        found.map(|(at, _)| at).collect()
    }
}
