//! What is counted when a question ends.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use spechop_agent::{Calls, Cost, HopReport, Report, Usage, Width};
use spechop_types::{Activities, CommitKind, Refusals, Stage};
use tokio::time::Instant;

use super::label::{
    Busy, BusyAt, Decided, Ended, Fate, HopKind, Judged, Name, OfStage, Refused, Waited, Who,
};
use super::{Histograms, Occupancy};
use crate::config::SpeculatorKind;
use crate::outcome::{Outcome, WaitEnd};

/// Seconds: from a hop on a fast index to the longest question.
const BUCKETS: [f64; 12] = [
    0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0,
];

/// Seconds of one activity of a hop: from a scan of a small index to a slow page.
const ACTIVITY_BUCKETS: [f64; 12] = [
    0.0001, 0.0005, 0.002, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 4.0, 15.0,
];

/// Seconds of a stage: from a guess out of a memory to a look-up on a slow web.
const STAGE_BUCKETS: [f64; 14] = [
    0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// Seconds in line for a place: from the end of another question to the longest line that makes sense.
const WAIT_BUCKETS: [f64; 12] = [
    0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 60.0,
];

/// Branches at once.
const WIDTHS: [f64; 10] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0];

/// In the order of the fields of [`Usage`].
const STAGES: [Stage; 4] = [
    Stage::Segment,
    Stage::Target,
    Stage::Speculation,
    Stage::Draft,
];

const USED: &str = "used";
const WASTED: &str = "wasted";
const FATES: [&str; 2] = [USED, WASTED];

/// Counters of questions.
pub(crate) struct Questions {
    questions: Family<Ended, Counter>,
    handed_over: Counter,
    waits: Histograms<Waited>,
    seconds: Histograms<Who>,
    followed: Counter<f64, AtomicU64>,
    stages: Histograms<OfStage>,
    stalled: Counter<f64, AtomicU64>,
    overlapped: Counter<f64, AtomicU64>,
    widths: Histogram,
    branches: Histogram,
    branch_seconds: Counter<f64, AtomicU64>,
    hops: Family<HopKind, Counter>,
    guesses: Family<Judged, Counter>,
    verdicts: Family<Decided, Counter>,
    calls: Family<Fate, Counter>,
    tokens: Family<Fate, Counter>,
    call_seconds: Family<Fate, Counter<f64, AtomicU64>>,
    hop_seconds: Histograms<Busy>,
    activity_seconds: Family<BusyAt, Counter<f64, AtomicU64>>,
    money: Family<Fate, Counter>,
    salvaged: Counter,
    drafted: Counter,
    foreseen: Counter,
    /// In seconds.
    hidden: Counter<f64, AtomicU64>,
    refused: Family<Refused, Counter>,
    still: Histogram,
}

impl Questions {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let r = registry;
        let waits: Histograms<Waited> = super::histograms(
            r,
            "question_wait",
            "Time that questions stood in line for a place, by how that ended",
            || Histogram::new(WAIT_BUCKETS),
        );
        // Nobody may ever wait, and whoever asks finds zeros then and not nothing.
        for end in WaitEnd::ALL {
            let _ = waits.get_or_create(&Waited { end });
        }
        let new = Self {
            questions: super::counters(r, "questions", "Questions by how they ended"),
            handed_over: super::counter(
                r,
                "handed_over",
                "Questions of other forms than the planner knows, which the fallback has answered",
            ),
            waits,
            seconds: super::histograms(r, "question", "Time of answered questions", || {
                Histogram::new(BUCKETS)
            }),
            followed: super::second(
                r,
                "followed",
                "Time that the plans took which answers are of, other plans and given up answers left out",
            ),
            stages: super::histograms(
                r,
                "stage",
                "Time of the stages of committed hops and of final segments, from launch to result",
                || Histogram::new(STAGE_BUCKETS),
            ),
            stalled: super::second(
                r,
                "stall",
                "Time in which answered questions waited for an observation with their next sub-question \
                 written and the hop before committed",
            ),
            overlapped: super::second(
                r,
                "overlap",
                "Time of the target calls of committed hops that passed beside other work",
            ),
            widths: super::histogram(r, "question_k", "The k of answered questions", WIDTHS),
            branches: super::histogram(
                r,
                "question_branches",
                "The most branches that an answered question had alive at once",
                WIDTHS,
            ),
            branch_seconds: super::second(
                r,
                "branch",
                "How long the branches of answered questions were alive, one after the other",
            ),
            hops: super::counters(r, "hops", "Committed hops by how they came about"),
            guesses: super::counters(
                r,
                "guesses",
                "Committed hops by who guessed them best, and whether that was right",
            ),
            verdicts: super::counters(
                r,
                "verdicts",
                "Verdicts on guesses that were built upon, by whose guess it was and the rule that decided",
            ),
            calls: super::counters(r, "calls", "Calls by stage, used or wasted"),
            tokens: super::counters(r, "tokens", "Tokens by stage, used or wasted"),
            call_seconds: super::seconds(r, "call", "Time of calls by stage, used or wasted"),
            hop_seconds: super::histograms(
                r,
                "hop_activity",
                "Time that the calls of a committed hop spent on an activity, if they spent any",
                || Histogram::new(ACTIVITY_BUCKETS),
            ),
            activity_seconds: super::seconds(
                r,
                "activity",
                "Time of calls by stage and by what it was spent on, used or wasted",
            ),
            money: super::counters(
                r,
                "money_micros",
                "Money by stage, used or wasted, in millionths of the currency of the prices",
            ),
            salvaged: super::counter(
                r,
                "salvaged",
                "Look-ups of rolled-back branches that were taken over",
            ),
            drafted: super::counter(
                r,
                "drafted",
                "Look-ups that were begun while their sub-question was still being written",
            ),
            foreseen: super::counter(
                r,
                "foreseen",
                "Look-ups of these that the planner then asked for",
            ),
            hidden: super::second(r, "hidden", "Time that those had run by then"),
            refused: super::counters(
                r,
                "refused",
                "Work ahead of need that was not done, or not to its end, by stage and reason",
            ),
            still: {
                let still = Histogram::new(ACTIVITY_BUCKETS);
                let help = "From the end of a question without an answer until the last of its calls was gone";
                let unit = prometheus_client::registry::Unit::Seconds;
                r.register_with_unit("quiescence", help, unit, still.clone());
                still
            },
        };
        new.begin();
        new
    }

    /// What is counted for every question stands at zero until then.
    fn begin(&self) {
        for stage in STAGES.map(Stage::as_str) {
            for fate in FATES {
                let fate = Fate { stage, fate };
                let _ = self.calls.get_or_create(&fate);
                let _ = self.tokens.get_or_create(&fate);
                let _ = self.call_seconds.get_or_create(&fate);
                let _ = self.money.get_or_create(&fate);
            }
        }
    }

    /// A question was answered, at this k.
    pub(crate) fn answered(
        &self,
        speculator: SpeculatorKind,
        width: Width,
        report: &Report,
        mut occupancy: Occupancy,
    ) {
        self.ended(Outcome::Answered);
        if report.handed_over.is_some() {
            self.handed_over.inc();
        }
        let who = Who {
            speculator: Name(speculator),
        };
        let seconds = self.seconds.get_or_create(&who);
        seconds.observe(report.elapsed.as_secs_f64());
        drop(seconds);
        self.followed.inc_by(report.followed.as_secs_f64());
        occupancy.ended(report.elapsed);
        self.branches.observe(count(occupancy.most));
        self.branch_seconds.inc_by(occupancy.time.as_secs_f64());
        let k = width.get().map_or(f64::INFINITY, |k| count(k.get()));
        self.widths.observe(k);
        for hop in &report.hops {
            self.hop(speculator, hop);
        }
        self.took(Stage::Segment, report.final_segment);
        self.used(&report.usage);
    }

    fn hop(&self, speculator: SpeculatorKind, hop: &HopReport) {
        let kind = match hop.hop.kind {
            CommitKind::Observed => "observed",
            CommitKind::Accepted => "accepted",
            CommitKind::Rejected => "rejected",
        };
        self.hops.get_or_create(&HopKind { kind }).inc();
        self.took(Stage::Segment, hop.times.segment);
        self.took(Stage::Target, hop.times.target);
        if let Some(time) = hop.times.speculation {
            self.took(Stage::Speculation, time);
        }
        self.stalled.inc_by(hop.stall.as_secs_f64());
        let overlap = hop.times.target.saturating_sub(hop.stall);
        self.overlapped.inc_by(overlap.as_secs_f64());
        for (activity, time) in hop.activities.iter().filter(|(_, time)| !time.is_zero()) {
            let activity = activity.as_str();
            let seconds = self.hop_seconds.get_or_create(&Busy { activity });
            seconds.observe(time.as_secs_f64());
        }
        if let Some(verdict) = verdict(hop) {
            let judged = Judged {
                speculator: hop.best_by.unwrap_or(speculator.as_str()),
                verdict,
            };
            self.guesses.get_or_create(&judged).inc();
        }
        if let Some(verdict) = hop.verdict {
            let decided = Decided {
                speculator: hop.guess_by.unwrap_or(speculator.as_str()),
                verdict: if verdict.accepted {
                    "accepted"
                } else {
                    "rejected"
                },
                rule: verdict.rule.as_str(),
            };
            self.verdicts.get_or_create(&decided).inc();
        }
    }

    fn took(&self, stage: Stage, time: Duration) {
        let stage = stage.as_str();
        let seconds = self.stages.get_or_create(&OfStage { stage });
        seconds.observe(time.as_secs_f64());
    }

    /// A question has cost so much, whatever came of it.
    pub(crate) fn used(&self, usage: &Usage) {
        let calls = [
            &usage.segments,
            &usage.targets,
            &usage.speculations,
            &usage.drafts,
        ];
        for (stage, calls) in STAGES.into_iter().zip(calls) {
            self.spent(stage.as_str(), calls);
            self.refused(stage.as_str(), &calls.refused);
        }
        self.salvaged.inc_by(u64::from(usage.salvaged));
        self.drafted.inc_by(u64::from(usage.drafted));
        self.foreseen.inc_by(u64::from(usage.foreseen));
        self.hidden.inc_by(usage.hidden.as_secs_f64());
    }

    /// A question ended so.
    pub(crate) fn ended(&self, outcome: Outcome) {
        self.questions.get_or_create(&Ended { outcome }).inc();
    }

    /// A question stood in line for a place, for so long.
    pub(crate) fn waited(&self, end: WaitEnd, time: Duration) {
        let seconds = self.waits.get_or_create(&Waited { end });
        seconds.observe(time.as_secs_f64());
    }

    /// For the calls of a question to hold.
    pub(crate) fn stillness(&self) -> Stillness {
        Stillness {
            ended: Mutex::new(None),
            seconds: self.still.clone(),
        }
    }

    fn refused(&self, stage: &'static str, refusals: &Refusals) {
        for (why, times) in refusals.iter() {
            let reason = why.as_str();
            let counter = self.refused.get_or_create(&Refused { stage, reason });
            counter.inc_by(times);
        }
    }

    fn spent(&self, stage: &'static str, calls: &Calls) {
        let (all, wasted) = (calls.cost, calls.cost_wasted);
        let used = calls.started - calls.wasted;
        let rows = [
            (WASTED, calls.wasted, wasted),
            (USED, used, {
                let mut used = all;
                used.tokens.prompt -= wasted.tokens.prompt;
                used.tokens.completion -= wasted.tokens.completion;
                used.time -= wasted.time;
                used.activities = used.activities.minus(wasted.activities);
                used.money = used.money.minus(wasted.money);
                used
            }),
        ];
        for (fate, number, cost) in rows {
            // Looking a counter up costs more than counting, and most of them have nothing to count.
            if number == 0 && cost == Cost::default() {
                continue;
            }
            let fate = Fate { stage, fate };
            self.calls.get_or_create(&fate).inc_by(u64::from(number));
            if cost.tokens.total() > 0 {
                self.tokens.get_or_create(&fate).inc_by(cost.tokens.total());
            }
            if !cost.time.is_zero() {
                let seconds = self.call_seconds.get_or_create(&fate);
                seconds.inc_by(cost.time.as_secs_f64());
            }
            if cost.money.0 > 0 {
                self.money.get_or_create(&fate).inc_by(cost.money.0);
            }
            self.busy(&fate, &cost.activities);
        }
    }

    fn busy(&self, of: &Fate, activities: &Activities) {
        for (activity, time) in activities.iter().filter(|(_, time)| !time.is_zero()) {
            let at = BusyAt {
                stage: of.stage,
                activity: activity.as_str(),
                fate: of.fate,
            };
            let seconds = self.activity_seconds.get_or_create(&at);
            seconds.inc_by(time.as_secs_f64());
        }
    }
}

/// Held by every call of a question, wherever it runs. When the last of them is gone, it is noted how long
/// that took from the end of the question.
pub(crate) struct Stillness {
    ended: Mutex<Option<Instant>>,
    seconds: Histogram,
}

impl Stillness {
    /// The question has ended without an answer: whatever of it still runs is of no use.
    pub(crate) fn begin(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        *ended = Some(Instant::now());
    }
}

impl Drop for Stillness {
    fn drop(&mut self) {
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = ended {
            self.seconds.observe(ended.elapsed().as_secs_f64());
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far from 2^53")]
fn count(number: usize) -> f64 {
    number as f64
}

/// What became of a hop's best guess; `None` if nobody was asked, or nobody in time.
fn verdict(hop: &HopReport) -> Option<&'static str> {
    match hop.guess_held {
        Some(true) => Some("right"),
        Some(false) => Some("wrong"),
        None => hop.silent.then_some("none"),
    }
}
