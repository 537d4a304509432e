//! Metrics in the text format of OpenMetrics: `GET /metrics` on the server's own port.

use std::fmt::{self, Write};
use std::sync::atomic::AtomicU64;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder,
};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use spechop_agent::{Calls, HopReport, Report, Usage};
use spechop_sched::{Backend, Cores};
use spechop_types::{Activities, Refusals, Stage};

use crate::config::SpeculatorKind;
use crate::outcome::Outcome;
use crate::transport::Counts;

/// Seconds: from a hop on a fast index to the longest question.
const BUCKETS: [f64; 12] = [
    0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0,
];

/// Seconds of one activity of a hop: from a scan of a small index to a slow page.
const ACTIVITY_BUCKETS: [f64; 12] = [
    0.0001, 0.0005, 0.002, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 4.0, 15.0,
];

/// The metrics of a server.
pub(crate) struct Metrics {
    /// Others may register what they count.
    pub(crate) registry: Registry,
    questions: Family<Ended, Counter>,
    retrievals: Family<Ended, Counter>,
    seconds: Family<Who, Histogram, fn() -> Histogram>,
    hops: Family<HopKind, Counter>,
    guesses: Family<Judged, Counter>,
    calls: Family<Fate, Counter>,
    tokens: Family<Fate, Counter>,
    call_seconds: Family<Fate, Counter<f64, AtomicU64>>,
    hop_seconds: Family<Busy, Histogram, fn() -> Histogram>,
    activity_seconds: Family<BusyAt, Counter<f64, AtomicU64>>,
    money: Family<Fate, Counter>,
    salvaged: Counter,
    drafted: Counter,
    foreseen: Counter,
    /// In seconds.
    hidden: Counter<f64, AtomicU64>,
    refused: Family<Refused, Counter>,
    /// Counted by the transport.
    pub(crate) transport: Counts,
}

/// How a question or a retrieval ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    outcome: Outcome,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Who {
    speculator: Name,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HopKind {
    kind: &'static str,
}

/// Whose guess, by its name in the configuration, and what became of it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Judged {
    speculator: &'static str,
    verdict: &'static str,
}

/// Whether the answer's trajectory holds the results of these calls.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Fate {
    stage: &'static str,
    fate: &'static str,
}

/// What the calls of a hop spent time on.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Busy {
    activity: &'static str,
}

/// What calls spent time on, and whether the answer's trajectory holds their results.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BusyAt {
    stage: &'static str,
    activity: &'static str,
    fate: &'static str,
}

/// Which work ahead of need was not done, or not to its end, and why.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Refused {
    stage: &'static str,
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Name(SpeculatorKind);

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.as_str())
    }
}

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0.as_str())
    }
}

impl Metrics {
    /// With the state of these backends and cores, asked for whenever somebody looks.
    pub(crate) fn new(backends: Vec<Backend>, cores: Option<Cores>) -> Self {
        let mut registry = Registry::with_prefix("spechop");
        let questions = Family::default();
        registry.register(
            "questions",
            "Questions by how they ended",
            questions.clone(),
        );
        let retrievals = Family::default();
        registry.register(
            "retrievals",
            "Requests for passages by how they ended",
            retrievals.clone(),
        );
        let seconds: Family<Who, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register_with_unit(
            "question",
            "Time of answered questions",
            Unit::Seconds,
            seconds.clone(),
        );
        let hops = Family::default();
        registry.register(
            "hops",
            "Committed hops by how they came about",
            hops.clone(),
        );
        let guesses = Family::default();
        registry.register(
            "guesses",
            "Committed hops by who guessed them best, and whether that was right",
            guesses.clone(),
        );
        let calls = Family::default();
        registry.register("calls", "Calls by stage, used or wasted", calls.clone());
        let tokens = Family::default();
        registry.register("tokens", "Tokens by stage, used or wasted", tokens.clone());
        let call_seconds = Family::default();
        registry.register_with_unit(
            "call",
            "Time of calls by stage, used or wasted",
            Unit::Seconds,
            call_seconds.clone(),
        );
        let hop_seconds: Family<Busy, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(ACTIVITY_BUCKETS));
        registry.register_with_unit(
            "hop_activity",
            "Time that the calls of a committed hop spent on an activity, if they spent any",
            Unit::Seconds,
            hop_seconds.clone(),
        );
        let activity_seconds = Family::default();
        registry.register_with_unit(
            "activity",
            "Time of calls by stage and by what it was spent on, used or wasted",
            Unit::Seconds,
            activity_seconds.clone(),
        );
        let money = Family::default();
        registry.register(
            "money_micros",
            "Money by stage, used or wasted, in millionths of the currency of the prices",
            money.clone(),
        );
        let salvaged = Counter::default();
        registry.register(
            "salvaged",
            "Look-ups of rolled-back branches that were taken over",
            salvaged.clone(),
        );
        let drafted = Counter::default();
        registry.register(
            "drafted",
            "Look-ups that were begun while their sub-question was still being written",
            drafted.clone(),
        );
        let foreseen = Counter::default();
        registry.register(
            "foreseen",
            "Look-ups of these that the planner then asked for",
            foreseen.clone(),
        );
        let hidden = Counter::default();
        registry.register_with_unit(
            "hidden",
            "Time that those had run by then",
            Unit::Seconds,
            hidden.clone(),
        );
        let refused = Family::default();
        registry.register(
            "refused",
            "Work ahead of need that was not done, or not to its end, by stage and reason",
            refused.clone(),
        );
        registry.register_collector(Box::new(Backends(backends)));
        if let Some(cores) = cores {
            registry.register_collector(Box::new(Machine(cores)));
        }
        let transport = Counts::new(&mut registry);
        Self {
            registry,
            questions,
            retrievals,
            seconds,
            hops,
            guesses,
            calls,
            tokens,
            call_seconds,
            hop_seconds,
            activity_seconds,
            money,
            salvaged,
            drafted,
            foreseen,
            hidden,
            refused,
            transport,
        }
    }

    /// A question was answered.
    pub(crate) fn answered(&self, speculator: SpeculatorKind, report: &Report) {
        self.ended(Outcome::Answered);
        let who = Who {
            speculator: Name(speculator),
        };
        let seconds = self.seconds.get_or_create(&who);
        seconds.observe(report.elapsed.as_secs_f64());
        drop(seconds);
        for hop in &report.hops {
            let kind = match hop.hop.kind {
                spechop_types::CommitKind::Observed => "observed",
                spechop_types::CommitKind::Accepted => "accepted",
                spechop_types::CommitKind::Rejected => "rejected",
            };
            self.hops.get_or_create(&HopKind { kind }).inc();
            for (activity, time) in hop.activities.iter().filter(|(_, time)| !time.is_zero()) {
                let activity = activity.as_str();
                let seconds = self.hop_seconds.get_or_create(&Busy { activity });
                seconds.observe(time.as_secs_f64());
            }
            if let Some(verdict) = verdict(hop) {
                let speculator = hop.guess_by.unwrap_or(speculator.as_str());
                let judged = Judged {
                    speculator,
                    verdict,
                };
                self.guesses.get_or_create(&judged).inc();
            }
        }
        self.used(&report.usage);
    }

    /// A question has cost so much, whatever came of it.
    pub(crate) fn used(&self, usage: &Usage) {
        for (stage, calls) in [
            (Stage::Segment, &usage.segments),
            (Stage::Target, &usage.targets),
            (Stage::Speculation, &usage.speculations),
            (Stage::Draft, &usage.drafts),
        ] {
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

    /// A request for passages ended so.
    pub(crate) fn retrieved(&self, outcome: Outcome) {
        self.retrievals.get_or_create(&Ended { outcome }).inc();
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
            ("wasted", calls.wasted, wasted),
            ("used", used, {
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
            let fate = Fate { stage, fate };
            self.calls.get_or_create(&fate).inc_by(u64::from(number));
            self.tokens.get_or_create(&fate).inc_by(cost.tokens.total());
            let seconds = self.call_seconds.get_or_create(&fate);
            seconds.inc_by(cost.time.as_secs_f64());
            drop(seconds);
            self.money.get_or_create(&fate).inc_by(cost.money.0);
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

    /// Everything, as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

/// What became of a hop's best guess; `None` if nobody was asked, or nobody in time.
fn verdict(hop: &HopReport) -> Option<&'static str> {
    match hop.guess_held {
        Some(true) => Some("right"),
        Some(false) => Some("wrong"),
        None => hop.silent.then_some("none"),
    }
}

/// The scheduler's state, read when it is asked for.
#[derive(Debug)]
struct Backends(Vec<Backend>);

impl Collector for Backends {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        type Read = fn(&spechop_sched::Gauges) -> u64;
        let gauges: [(&str, &str, Read); 5] = [
            (
                "backend_running_authoritative",
                "Needed calls that run",
                |g| g.running_authoritative as u64,
            ),
            (
                "backend_running_speculative",
                "Calls that run and may be wasted",
                |g| g.running_speculative as u64,
            ),
            (
                "backend_waiting_authoritative",
                "Needed calls that wait",
                |g| g.waiting_authoritative as u64,
            ),
            (
                "backend_waiting_speculative",
                "Calls that wait and may be wasted",
                |g| g.waiting_speculative as u64,
            ),
            (
                "backend_speculative_places",
                "Places open to speculation",
                |g| g.speculative_places as u64,
            ),
        ];
        for (name, help, read) in gauges {
            let gauge = ConstGauge::<u64>::new(0);
            let mut family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            for backend in &self.0 {
                let labels = [("backend", backend.name())];
                let value = ConstGauge::new(read(&backend.gauges()));
                value.encode(family.encode_family(&labels)?)?;
            }
        }
        let counters: [(&str, &str, Read); 5] = [
            ("backend_started", "Calls started", |g| g.started),
            (
                "backend_preempted",
                "Speculative calls that had their turn and lost it",
                |g| g.preempted,
            ),
            (
                "backend_promoted",
                "Speculative calls that became needed",
                |g| g.promoted,
            ),
            (
                "backend_joined",
                "Calls that took an equal one's result",
                |g| g.joined,
            ),
            (
                "backend_pushed_back",
                "Times that the backend asked for less",
                |g| g.pushed_back,
            ),
        ];
        for (name, help, read) in counters {
            let counter = ConstCounter::<u64>::new(0);
            let mut family = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            for backend in &self.0 {
                let labels = [("backend", backend.name())];
                let value = ConstCounter::new(read(&backend.gauges()));
                value.encode(family.encode_family(&labels)?)?;
            }
        }
        self.encode_refused(encoder)
    }
}

/// The cores of this machine, read when somebody asks.
#[derive(Debug)]
struct Machine(Cores);

impl Collector for Machine {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let taken = self.0.taken();
        let rows = [
            ("cores", "Cores that models and index share", self.0.count()),
            (
                "cores_authoritative",
                "Cores taken by needed calls; it may be more than there are",
                taken.needed,
            ),
            (
                "cores_speculative",
                "Cores taken by calls that may be wasted",
                taken.may_be_wasted(),
            ),
        ];
        for (name, help, cores) in rows {
            let gauge = ConstGauge::new(cores.as_cores());
            let family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(family)?;
        }
        Ok(())
    }
}

impl Backends {
    fn encode_refused(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counter = ConstCounter::<u64>::new(0);
        let mut family = encoder.encode_descriptor(
            "backend_refused",
            "Speculative calls that did not run, or not to their end, by reason",
            None,
            counter.metric_type(),
        )?;
        for backend in &self.0 {
            for (why, times) in backend.gauges().refused.iter() {
                let labels = [("backend", backend.name()), ("reason", why.as_str())];
                let value = ConstCounter::new(times);
                value.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
