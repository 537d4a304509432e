//! What is read when somebody asks: the scheduler, the cores, the places, and what the tuners think.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use spechop_sched::{Backend, Cores};
use spechop_types::Tenant;

use crate::audit::Audits;
use crate::cores::Load;
use crate::places::Places;
use crate::tuning::{Known, Tunings};

/// The scheduler's state, read when it is asked for.
#[derive(Debug)]
pub(super) struct Backends(pub(super) Vec<Backend>);

impl Collector for Backends {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        type Read = fn(&spechop_sched::Gauges) -> u64;
        let capacity = ConstGauge::<u64>::new(0);
        let mut family = encoder.encode_descriptor(
            "backend_capacity",
            "Calls that may run at once",
            None,
            capacity.metric_type(),
        )?;
        for backend in &self.0 {
            let labels = [("backend", backend.name())];
            let value = ConstGauge::new(backend.capacity() as u64);
            value.encode(family.encode_family(&labels)?)?;
        }
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
        let counters: [(&str, &str, Read); 6] = [
            ("backend_started", "Calls started", |g| g.started),
            (
                "backend_started_speculative",
                "Calls started ahead of need, wasted or not",
                |g| g.started_speculative,
            ),
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
            let gauge = ConstGauge::new(number as u64);
            let family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(family)?;
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
        let gauge = ConstGauge::<f64>::new(0.0);
        let mut family = encoder.encode_descriptor(
            "estimate",
            "What the tuner has measured for the tenant without a name, by speculator and quantity",
            None,
            gauge.metric_type(),
        )?;
        for known in &known {
            for (quantity, value) in quantities(known) {
                let labels = [
                    ("speculator", known.speculator.as_str()),
                    ("quantity", quantity),
                ];
                let value = ConstGauge::new(value);
                value.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
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
            let gauge = ConstGauge::<f64>::new(0.0);
            let mut family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            let Some(share) = share else { continue };
            for (bound, value) in [
                ("value", share.value),
                ("low", share.low),
                ("high", share.high),
            ] {
                let value = ConstGauge::new(value);
                value.encode(family.encode_family(&[("bound", bound)])?)?;
            }
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
            let counter = ConstCounter::new(number);
            let family = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(family)?;
        }
        Ok(())
    }
}
