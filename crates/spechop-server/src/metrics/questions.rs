//! What is counted when a question ends.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use spechop_agent::{Report, Usage, Width};
use spechop_config::SpeculatorKind;
use spechop_types::Stage;
use strum::VariantArray;
use tokio::time::Instant;

use super::hops::{ACTIVITY_BUCKETS, HopMetrics};
use super::label::{Ended, Waited, Who};
use super::usage::UsageMetrics;
use super::{Histograms, Occupancy};
use crate::outcome::{Outcome, WaitEnd};

/// Seconds: from a hop on a fast index to the longest question.
const BUCKETS: [f64; 12] = [
    0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0,
];

/// Seconds in line for a place: from the end of another question to the longest line that makes sense.
const WAIT_BUCKETS: [f64; 12] = [
    0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 60.0,
];

/// Branches at once.
const WIDTHS: [f64; 10] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0];

/// Counters of questions.
pub(crate) struct Questions {
    questions: Family<Ended, Counter>,
    handed_over: Counter,
    waits: Histograms<Waited>,
    seconds: Histograms<Who>,
    followed: Counter<f64, AtomicU64>,
    widths: Histogram,
    branches: Histogram,
    branch_seconds: Counter<f64, AtomicU64>,
    still: Histogram,
    hops: HopMetrics,
    usage: UsageMetrics,
}

impl Questions {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let r = registry;
        Self {
            questions: super::outcomes(r, "questions", "Questions by how they ended"),
            handed_over: super::counter(
                r,
                "handed_over",
                "Questions of other forms than the planner knows, which the fallback has answered",
            ),
            waits: waits(r),
            seconds: super::histograms(r, "question", "Time of answered questions", || {
                Histogram::new(BUCKETS)
            }),
            followed: super::seconds(
                r,
                "followed",
                "Time that the plans took which answers are of, other plans and given up answers left out",
            ),
            widths: super::histogram(
                r,
                "question_k",
                "The k of answered questions; without a bound, the most branches at once",
                WIDTHS,
            ),
            branches: super::histogram(
                r,
                "question_branches",
                "The most branches that an answered question had alive at once",
                WIDTHS,
            ),
            branch_seconds: super::seconds(
                r,
                "branch",
                "How long the branches of answered questions were alive, one after the other",
            ),
            still: still(r),
            hops: HopMetrics::new(r),
            usage: UsageMetrics::new(r),
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
            speculator: speculator.as_str(),
        };
        let seconds = self.seconds.get_or_create(&who);
        seconds.observe(report.elapsed.as_secs_f64());
        drop(seconds);
        self.followed.inc_by(report.followed.as_secs_f64());
        occupancy.ended(report.elapsed);
        self.branches.observe(count(occupancy.most));
        self.branch_seconds.inc_by(occupancy.time.as_secs_f64());
        // Without a bound, the window was as wide as it became: a sum with infinity in it says nothing.
        let k = width.get().map_or(occupancy.most, NonZeroUsize::get);
        self.widths.observe(count(k));
        for hop in &report.hops {
            self.hops.committed(speculator, hop);
        }
        self.hops.took(Stage::Segment, report.final_segment);
        self.used(&report.usage);
    }

    /// A question has cost so much, whatever came of it.
    pub(crate) fn used(&self, usage: &Usage) {
        self.usage.used(usage);
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
        *self.ended.lock() = Some(Instant::now());
    }
}

impl Drop for Stillness {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.get_mut() {
            self.seconds.observe(ended.elapsed().as_secs_f64());
        }
    }
}

fn waits(registry: &mut Registry) -> Histograms<Waited> {
    let waits: Histograms<Waited> = super::histograms(
        registry,
        "question_wait",
        "Time that questions stood in line for a place, by how that ended",
        || Histogram::new(WAIT_BUCKETS),
    );
    // Nobody may ever wait, and whoever asks finds zeros then and not nothing.
    for &end in WaitEnd::VARIANTS {
        let _ = waits.get_or_create(&Waited { end });
    }
    waits
}

fn still(registry: &mut Registry) -> Histogram {
    let still = Histogram::new(ACTIVITY_BUCKETS);
    let help = "From the end of a question without an answer until the last of its calls was gone";
    registry.register_with_unit("quiescence", help, Unit::Seconds, still.clone());
    still
}

#[expect(clippy::cast_precision_loss, reason = "far from 2^53")]
fn count(number: usize) -> f64 {
    number as f64
}
