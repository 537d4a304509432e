//! What audits have found, for each tenant and in all, and what they have cost.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use spechop_agent::Usage;
use spechop_theory::{Interval, wilson};
use spechop_types::{Owned, OwnedCache, Stage, Tenant};

use super::compare::Found;

/// Tenants whose findings are kept. Those of the least recently audited one are forgotten for more.
const TENANTS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// What all audits of somebody's questions have found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Answers that were audited.
    pub(crate) audits: u64,
    /// Those of them that differ from the answer without speculation.
    pub(crate) differing: u64,
    /// Accepted guesses that were compared with what the audit observed.
    pub(crate) accepts: u64,
    /// Those of them that say something else.
    pub(crate) false_accepts: u64,
}

impl Findings {
    fn add(&mut self, found: Found) {
        self.audits += 1;
        self.differing += u64::from(found.differs);
        self.accepts += found.accepts;
        self.false_accepts += found.false_accepts;
    }

    /// The share of answers that differ; `None` before the first audit.
    pub(crate) fn divergence(&self) -> Option<Interval> {
        share(self.differing, self.audits)
    }

    /// The share of accepted guesses that were wrong; `None` before the first one.
    pub(crate) fn false_acceptance(&self) -> Option<Interval> {
        share(self.false_accepts, self.accepts)
    }
}

#[expect(clippy::cast_precision_loss, reason = "far from 2^53")]
fn share(some: u64, all: u64) -> Option<Interval> {
    (all > 0).then(|| wilson(some as f64 / all as f64, all as f64))
}

/// Why an audit came to no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotDone {
    /// There were too many already, of the hour or in line.
    TooMany,
    /// There was no slack, or it ended.
    Load,
    /// The question was cut short by its budget, so that it says nothing.
    CutShort,
    /// The tenant wants nothing to be looked up but what an answer needs.
    Quiet,
    /// It rests on what a client has left in place of a look-up.
    LeftByClient,
    /// The configuration or a policy wants nothing of the kind to be called but what an answer needs.
    Denied,
    /// A part failed.
    Failed,
}

impl NotDone {
    fn as_str(self) -> &'static str {
        match self {
            Self::TooMany => "too_many",
            Self::Load => "load",
            Self::CutShort => "cut_short",
            Self::Quiet => "quiet",
            Self::LeftByClient => "left_by_client",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Ended {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfStage {
    stage: &'static str,
}

/// Counters of audits.
pub(crate) struct AuditCounts {
    by_tenant: Mutex<OwnedCache<(), Findings>>,
    total: Mutex<Findings>,
    pub(crate) meters: Meters,
}

/// The counters that the metrics show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meters {
    pub(crate) audits: Family<Ended, Counter>,
    pub(crate) calls: Family<OfStage, Counter>,
    pub(crate) tokens: Family<OfStage, Counter>,
    pub(crate) seconds: Family<OfStage, Counter<f64, AtomicU64>>,
    pub(crate) money: Family<OfStage, Counter>,
}

impl AuditCounts {
    pub(super) fn new(meters: Meters) -> Self {
        Self {
            by_tenant: Mutex::new(OwnedCache::new(TENANTS_MAX)),
            total: Mutex::default(),
            meters,
        }
    }

    /// What the audits of a tenant's questions have found.
    pub(crate) fn of(&self, tenant: &Tenant) -> Findings {
        let known = self.by_tenant.lock();
        known
            .peek(&Owned::new(tenant, ()))
            .copied()
            .unwrap_or_default()
    }

    /// What those of all questions have found.
    pub(crate) fn total(&self) -> Findings {
        *self.total.lock()
    }

    pub(super) fn found(&self, tenant: &Tenant, found: Found) {
        let result = match found.differs {
            true => "differs",
            false => "same",
        };
        self.meters.audits.get_or_create(&Ended { result }).inc();
        self.total.lock().add(found);
        let mut known = self.by_tenant.lock();
        let key = Owned::new(tenant, ());
        let mut findings = known.remove(&key).unwrap_or_default();
        findings.add(found);
        known.insert(key, findings);
    }

    pub(super) fn not_done(&self, why: NotDone) {
        let result = why.as_str();
        self.meters.audits.get_or_create(&Ended { result }).inc();
    }

    /// An audit has cost so much.
    pub(super) fn cost(&self, mut usage: Usage) {
        for stage in [Stage::Segment, Stage::Target] {
            let calls = *usage.of(stage);
            let of = OfStage {
                stage: stage.as_str(),
            };
            let meters = &self.meters;
            meters
                .calls
                .get_or_create(&of)
                .inc_by(u64::from(calls.started));
            meters
                .tokens
                .get_or_create(&of)
                .inc_by(calls.cost.tokens.total());
            let seconds = meters.seconds.get_or_create(&of);
            seconds.inc_by(calls.cost.time.as_secs_f64());
            drop(seconds);
            meters.money.get_or_create(&of).inc_by(calls.cost.money.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agreeing_server_shows_zero_with_its_upper_bound() {
        let counts = AuditCounts::new(Meters::default());
        let (one, other) = (Tenant::new("one").unwrap(), Tenant::default());
        assert_eq!(counts.of(&one).divergence(), None);
        let found = Found {
            accepts: 1,
            ..Found::default()
        };
        (0..100).for_each(|_| counts.found(&one, found));
        let share = counts.of(&one).divergence().unwrap();
        assert!(share.value.abs() < 1e-12 && share.low.abs() < 1e-12);
        // Wilson's upper bound of 0 in 100 at 95 %.
        assert!((share.high - 0.036_994).abs() < 1e-4, "{share:?}");
        assert_eq!(
            counts.of(&other),
            Findings::default(),
            "nobody else's business"
        );
        assert_eq!(counts.total(), counts.of(&one));
        let false_acceptance = counts.of(&one).false_acceptance().unwrap();
        assert!((false_acceptance.high - share.high).abs() < 1e-12);
    }
}
