//! Metrics in the text format of OpenMetrics: `GET /metrics` on the server's own port.
//!
//! ```text
//! label      the labels: closed sets, all of them
//! questions  what is counted when a question ends
//! hops       the same of each hop of its answer
//! usage      the same of what it cost
//! occupancy  how full the window of a question was
//! gauges     what is read when somebody asks
//! counting   the counters alone, for a benchmark
//! ```
//!
//! The transport and whoever sends spans off count for themselves. `docs/METRICS.md` lists every metric,
//! and a test compares.

mod counting;
mod gauges;
mod hops;
mod label;
mod occupancy;
mod questions;
#[cfg(test)]
mod tests;
mod usage;

use std::hash::Hash;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use spechop_sched::{Backend, Cores};
use strum::VariantArray;

use crate::accounts::SharedCounts;
use crate::audit::{Audits, Meters};
use crate::cores::Load;
use crate::outcome::Outcome;
use crate::places::Places;
use crate::spans::SpanCounts;
use crate::state::Writing;
use crate::transport::Counts;
use crate::tuning::Tunings;
pub use counting::Counting;
pub(crate) use gauges::single;
use gauges::{Audited, Backends, Estimates, Machine, Room};
use label::Ended;
pub(crate) use occupancy::Occupancy;
pub(crate) use questions::{Questions, Stillness};

/// The metrics of a server.
pub(crate) struct Metrics {
    /// Others may register what they count.
    pub(crate) registry: Registry,
    retrievals: Family<Ended, Counter>,
    /// Counted when questions end.
    pub(crate) questions: Questions,
    /// Counted by the transport.
    pub(crate) transport: Counts,
    /// Told by what keeps files.
    pub(crate) writing: Writing,
    /// Counted by those who send spans off.
    pub(crate) spans: SpanCounts,
    /// Counted by audits.
    pub(crate) audits: Meters,
    /// Counted by those who share accounts with other servers.
    pub(crate) shared_accounts: SharedCounts,
}

impl Metrics {
    /// With the state of these backends and cores, asked for whenever somebody looks.
    pub(crate) fn new(backends: Vec<Backend>, cores: Option<Cores>) -> Self {
        let mut registry = Registry::with_prefix("spechop");
        let questions = Questions::new(&mut registry);
        let retrievals = outcomes(
            &mut registry,
            "retrievals",
            "Requests for passages by how they ended",
        );
        registry.register_collector(Box::new(Backends(backends)));
        if let Some(cores) = cores {
            registry.register_collector(Box::new(Machine(cores)));
        }
        let transport = Counts::new(&mut registry);
        let writing = Writing::new(&mut registry);
        let spans = SpanCounts::new(&mut registry);
        let audits = audits(&mut registry);
        let shared_accounts = counter(
            &mut registry,
            "shared_account_changes",
            "Changes of accounts that servers share by how they ended",
        );
        Self {
            registry,
            retrievals,
            questions,
            transport,
            writing,
            spans,
            audits,
            shared_accounts,
        }
    }

    /// The same, with the room for questions and what the tuners think under the load of the moment.
    pub(crate) fn watching(mut self, places: Places, tunings: Arc<Tunings>, load: Load) -> Self {
        let registry = &mut self.registry;
        registry.register_collector(Box::new(Room(places)));
        registry.register_collector(Box::new(Estimates { tunings, load }));
        self
    }

    /// The same, with what audits have found.
    pub(crate) fn auditing(mut self, audits: Arc<Audits>) -> Self {
        self.registry.register_collector(Box::new(Audited(audits)));
        self
    }

    /// A request for passages ended so.
    pub(crate) fn retrieved(&self, outcome: Outcome) {
        self.retrievals.get_or_create(&Ended { outcome }).inc();
    }

    /// Everything, as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

/// Counters by outcome, each of them there from the start: whoever sees the first failure as a new counter
/// that stands at 1 sees no increase, and is not told.
fn outcomes(registry: &mut Registry, name: &str, help: &str) -> Family<Ended, Counter> {
    let family: Family<Ended, Counter> = counter(registry, name, help);
    for &outcome in Outcome::VARIANTS {
        let _ = family.get_or_create(&Ended { outcome });
    }
    family
}

fn audits(registry: &mut Registry) -> Meters {
    Meters {
        audits: counter(registry, "audits", "Audits of answers by what came of them"),
        calls: counter(registry, "audit_calls", "Calls of audits by stage"),
        tokens: counter(registry, "audit_tokens", "Tokens of audits by stage"),
        seconds: seconds(
            registry,
            "audit_call",
            "Time of the calls of audits by stage",
        ),
        money: counter(
            registry,
            "audit_money_micros",
            "Money of audits by stage, in millionths of the currency of the prices; no tenant pays it",
        ),
    }
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// A counter, or one for each set of labels.
fn counter<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let counter = M::default();
    registry.register(name, help, counter.clone());
    counter
}

/// The same of seconds.
fn seconds<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let seconds = M::default();
    registry.register_with_unit(name, help, Unit::Seconds, seconds.clone());
    seconds
}

/// Histograms of seconds.
fn histograms<L: Clone + Hash + Eq>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    make: fn() -> Histogram,
) -> Histograms<L>
where
    Histograms<L>: Metric,
{
    let histograms = Family::new_with_constructor(make);
    registry.register_with_unit(name, help, Unit::Seconds, histograms.clone());
    histograms
}

/// A histogram of numbers.
fn histogram<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    bounds: [f64; N],
) -> Histogram {
    let histogram = Histogram::new(bounds);
    registry.register(name, help, histogram.clone());
    histogram
}
