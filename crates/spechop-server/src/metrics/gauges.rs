//! What is read when somebody asks: the scheduler, the cores, the places, and what the tuners think.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use spechop_sched::{Backend, Cores};
use spechop_types::{Refusal, Tenant};

use crate::audit::Audits;
use crate::cores::Load;
use crate::places::Places;
use crate::tuning::{Known, Tunings};

/// Of a backend.
type Read = fn(&Backend) -> u64;

const GAUGES: [(&str, &str, Read); 6] = [
    ("backend_capacity", "Calls that may run at once", |b| {
        b.capacity() as u64
    }),
    (
        "backend_running_authoritative",
        "Needed calls that run",
        |b| b.gauges().running_authoritative as u64,
    ),
    (
        "backend_running_speculative",
        "Calls that run and may be wasted",
        |b| b.gauges().running_speculative as u64,
    ),
    (
        "backend_waiting_authoritative",
        "Needed calls that wait",
        |b| b.gauges().waiting_authoritative as u64,
    ),
    (
        "backend_waiting_speculative",
        "Calls that wait and may be wasted",
        |b| b.gauges().waiting_speculative as u64,
    ),
    (
        "backend_speculative_places",
        "Places open to speculation",
        |b| b.gauges().speculative_places as u64,
    ),
];

const COUNTERS: [(&str, &str, Read); 6] = [
    ("backend_started", "Calls started", |b| b.gauges().started),
    (
        "backend_started_speculative",
        "Calls started ahead of need, wasted or not",
        |b| b.gauges().started_speculative,
    ),
    (
        "backend_preempted",
        "Speculative calls that had their turn and lost it",
        |b| b.gauges().preempted,
    ),
    (
        "backend_promoted",
        "Speculative calls that became needed",
        |b| b.gauges().promoted,
    ),
    (
        "backend_joined",
        "Calls that took an equal one's result",
        |b| b.gauges().joined,
    ),
    (
        "backend_pushed_back",
        "Times that the backend asked for less",
        |b| b.gauges().pushed_back,
    ),
];

/// The scheduler's state, read when it is asked for.
#[derive(Debug)]
pub(super) struct Backends(pub(super) Vec<Backend>);

impl Collector for Backends {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, read) in GAUGES {
            let samples = self.each(|backend| ConstGauge::new(read(backend)));
            family(&mut encoder, name, help, samples)?;
        }
        for (name, help, read) in COUNTERS {
            let samples = self.each(|backend| ConstCounter::new(read(backend)));
            family(&mut encoder, name, help, samples)?;
        }
        let refused = self.0.iter().flat_map(|backend| {
            let refused = backend.gauges().refused;
            Refusal::ALL.map(|why| {
                let labels = [("backend", backend.name()), ("reason", why.as_str())];
                (labels, ConstCounter::new(refused[why]))
            })
        });
        family(
            &mut encoder,
            "backend_refused",
            "Speculative calls that did not run, or not to their end, by reason",
            refused,
        )
    }
}

impl Backends {
    fn each<M>(
        &self,
        sample: impl Fn(&Backend) -> M,
    ) -> impl Iterator<Item = ([(&str, &str); 1], M)> {
        let backends = self.0.iter();
        backends.map(move |backend| ([("backend", backend.name())], sample(backend)))
    }
}

/// The cores of this machine, read when somebody asks.
#[derive(Debug)]
pub(super) struct Machine(pub(super) Cores);

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
            let cores = ConstGauge::new(cores.as_cores());
            single(&mut encoder, name, help, &cores)?;
        }
        Ok(())
    }
}

/// Room for questions, read when somebody asks.
#[derive(Debug)]
pub(super) struct Room(pub(super) Places);

impl Collector for Room {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, number) in [
            (
                "questions_open",
                "Questions that are being answered, or whose answers are being read",
                self.0.taken(),
            ),
            (
                "questions_room",
                "Questions that there is room for at once",
                self.0.most(),
            ),
            (
                "questions_waiting",
                "Questions that wait in line for a place",
                self.0.waiting(),
            ),
        ] {
            let number = ConstGauge::new(number as u64);
            single(&mut encoder, name, help, &number)?;
        }
        Ok(())
    }
}

/// What the tuners of the tenant without a name think. Names of tenants are no labels: there may be any
/// number of them, and they are nobody else's business. `GetTuning` tells each its own.
pub(super) struct Estimates {
    pub(super) tunings: Arc<Tunings>,
    /// Of the moment.
    pub(super) load: Load,
}

impl fmt::Debug for Estimates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Estimates").finish_non_exhaustive()
    }
}

impl Collector for Estimates {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let known = self
            .tunings
            .known(&Tenant::default(), self.load.now(), false);
        let samples = known.iter().flat_map(|known| {
            quantities(known).map(|(quantity, value)| {
                let speculator = known.speculator.as_str();
                let labels = [("speculator", speculator), ("quantity", quantity)];
                (labels, ConstGauge::new(value))
            })
        });
        family(
            &mut encoder,
            "estimate",
            "What the tuner has measured for the tenant without a name, by speculator and quantity",
            samples,
        )
    }
}

/// Those that are known.
fn quantities(known: &Known) -> impl Iterator<Item = (&'static str, f64)> {
    let choice = &known.choice;
    let p = choice.p.as_ref().map(|p| p.value);
    let alpha = choice.alpha.as_ref().map(|alpha| alpha.value);
    let beta = choice.beta.as_ref().map(|beta| beta.value);
    let nu = choice.setting.as_ref().map(|setting| setting.nu());
    #[expect(clippy::cast_precision_loss, reason = "k is far from 2^53")]
    let k = choice.k.get() as f64;
    let all = [
        ("p", p),
        ("alpha", alpha),
        ("beta", beta),
        ("nu", nu),
        ("k", Some(k)),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
}

/// What audits have found, read when somebody asks.
pub(super) struct Audited(pub(super) Arc<Audits>);

impl fmt::Debug for Audited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audited").finish_non_exhaustive()
    }
}

impl Collector for Audited {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let found = self.0.counts.total();
        for (name, help, share) in [
            (
                "audit_divergence",
                "Share of audited answers that differ from the answer without speculation, with its 95 % bounds",
                found.divergence(),
            ),
            (
                "audit_false_acceptance",
                "Share of audited guesses that were accepted and differ from the observation, with its 95 % bounds",
                found.false_acceptance(),
            ),
        ] {
            let bounds = share.into_iter().flat_map(|share| {
                [
                    ("value", share.value),
                    ("low", share.low),
                    ("high", share.high),
                ]
            });
            let samples = bounds.map(|(bound, value)| ([("bound", bound)], ConstGauge::new(value)));
            family(&mut encoder, name, help, samples)?;
        }
        for (name, help, number) in [
            (
                "audit_accepts",
                "Accepted guesses that audits compared with an observation",
                found.accepts,
            ),
            (
                "audit_false_accepts",
                "Accepted guesses that say something else than what an audit observed",
                found.false_accepts,
            ),
        ] {
            single(&mut encoder, name, help, &ConstCounter::new(number))?;
        }
        Ok(())
    }
}

/// A metric without labels.
pub(crate) fn single(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    sample: &impl EncodeMetric,
) -> fmt::Result {
    sample.encode(encoder.encode_descriptor(name, help, None, sample.metric_type())?)
}

/// A metric with a sample for each set of labels; without samples it is named nevertheless.
fn family<L: EncodeLabelSet, M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (labels, sample) in samples {
        sample.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
