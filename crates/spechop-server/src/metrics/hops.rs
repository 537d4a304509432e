//! What is counted of every committed hop of an answer.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use spechop_agent::HopReport;
use spechop_config::SpeculatorKind;
use spechop_types::{CommitKind, Stage};
use strum::{IntoStaticStr, VariantArray};

use super::Histograms;
use super::label::{Busy, Decided, HopKind, Judged, OfStage};

/// Seconds of one activity of a hop: from a scan of a small index to a slow page.
pub(super) const ACTIVITY_BUCKETS: [f64; 12] = [
    0.0001, 0.0005, 0.002, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 4.0, 15.0,
];

/// Seconds of a stage: from a guess out of a memory to a look-up on a slow web.
const STAGE_BUCKETS: [f64; 14] = [
    0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// What becomes of the guesses of a hop.
#[derive(Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
enum Guesses {
    Right,
    Wrong,
    /// Whoever was asked had none.
    None,
}

pub(super) struct HopMetrics {
    stages: Histograms<OfStage>,
    stalled: Counter<f64, AtomicU64>,
    overlapped: Counter<f64, AtomicU64>,
    hops: Family<HopKind, Counter>,
    guesses: Family<Judged, Counter>,
    verdicts: Family<Decided, Counter>,
    activity_seconds: Histograms<Busy>,
}

impl HopMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let r = registry;
        Self {
            stages: super::histograms(
                r,
                "stage",
                "Time of the stages of committed hops and of final segments, from launch to result",
                || Histogram::new(STAGE_BUCKETS),
            ),
            stalled: super::seconds(
                r,
                "stall",
                "Time in which answered questions waited for an observation with their next sub-question \
                 written and the hop before committed",
            ),
            overlapped: super::seconds(
                r,
                "overlap",
                "Time of the target calls of committed hops that passed beside other work",
            ),
            hops: super::counter(r, "hops", "Committed hops by how they came about"),
            guesses: super::counter(
                r,
                "guesses",
                "Committed hops by who guessed them best, and whether that was right",
            ),
            verdicts: super::counter(
                r,
                "verdicts",
                "Verdicts on guesses that were built upon, by whose guess it was and the rule that decided",
            ),
            activity_seconds: super::histograms(
                r,
                "hop_activity",
                "Time that the calls of a committed hop spent on an activity, if they spent any",
                || Histogram::new(ACTIVITY_BUCKETS),
            ),
        }
    }

    /// A hop of an answer.
    pub(super) fn committed(&self, speculator: SpeculatorKind, hop: &HopReport) {
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
            let seconds = self.activity_seconds.get_or_create(&Busy { activity });
            seconds.observe(time.as_secs_f64());
        }
        if let Some(verdict) = verdict(hop) {
            let speculator = hop.best_by.unwrap_or(speculator.as_str());
            // All of them from the first on: a share of right guesses divides by what may never have happened.
            for each in Guesses::VARIANTS {
                let judged = Judged {
                    speculator,
                    verdict: each.into_str(),
                };
                let guesses = self.guesses.get_or_create(&judged);
                guesses.inc_by(u64::from(*each == verdict));
            }
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

    /// A stage of a hop, or the final segment, took so long.
    pub(super) fn took(&self, stage: Stage, time: Duration) {
        let stage = stage.as_str();
        let seconds = self.stages.get_or_create(&OfStage { stage });
        seconds.observe(time.as_secs_f64());
    }
}

/// What became of a hop's best guess; `None` if nobody was asked, or nobody in time.
fn verdict(hop: &HopReport) -> Option<Guesses> {
    match hop.guess_held {
        Some(true) => Some(Guesses::Right),
        Some(false) => Some(Guesses::Wrong),
        None => hop.silent.then_some(Guesses::None),
    }
}
