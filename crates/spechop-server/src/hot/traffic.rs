//! Which passages verified answers came from.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use spechop_config::Questions;
use spechop_types::{Hop, Owned, OwnedCache, Passage, Tenant, canonical};

use super::kept::Counted;

/// Passages that are counted, those of all tenants together: some ten megabytes at most. The one that
/// an answer came from least recently is forgotten.
const COUNTED_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(65_535);
/// Passages with longer ids are not counted.
const ID_BYTES_MAX: usize = 256;

/// Counts, for tenants that the operator has named, which passages their verified answers came from.
/// Each tenant's counts are its own. Of other tenants nothing is counted.
pub struct Traffic {
    tenants: Vec<String>,
    /// By the id of the passage.
    counted: Mutex<OwnedCache<Arc<str>, u64>>,
    changes: AtomicU64,
}

impl Traffic {
    /// Counts for the tenants that this list of the configuration names. `None` if it is empty.
    pub fn of(tenants: &[String]) -> Option<Self> {
        (!tenants.is_empty()).then(|| Self {
            tenants: tenants.to_vec(),
            counted: Mutex::new(OwnedCache::new(COUNTED_MAX)),
            changes: AtomicU64::new(0),
        })
    }

    /// A hop of the tenant was committed.
    pub(crate) fn committed(&self, tenant: &Tenant, hop: &Hop) {
        if !self.counts_for(tenant) {
            return;
        }
        let Some(passage) = source(hop) else { return };
        if passage.id.len() > ID_BYTES_MAX {
            return;
        }
        let key = Owned::new(tenant, Arc::clone(&passage.id));
        let mut counted = self.counted.lock();
        match counted.get(&key) {
            Some(answers) => *answers = answers.saturating_add(1),
            None => drop(counted.insert(key, 1)),
        }
        drop(counted);
        self.changes.fetch_add(1, Relaxed);
    }

    /// Takes up what was counted before; it is the last one used. What this server does not count is
    /// passed over.
    pub(super) fn resume(&self, before: Counted) {
        if before.passage.len() <= ID_BYTES_MAX
            && before.answers > 0
            && self.counts_for(&before.tenant)
        {
            let key = Owned::new(&before.tenant, before.passage);
            self.counted.lock().insert(key, before.answers);
        }
    }

    /// All counts, the least recently used first.
    pub(super) fn entries(&self) -> Vec<Counted> {
        let counted = self.counted.lock();
        let entry = |(key, answers): (&Owned<Arc<str>>, &u64)| Counted {
            tenant: key.tenant.clone(),
            passage: Arc::clone(&key.item),
            answers: *answers,
        };
        counted.iter().map(entry).collect()
    }

    /// The counts of all tenants that are counted, by passage.
    pub(super) fn counts(&self) -> BTreeMap<Arc<str>, u64> {
        let mut counts = BTreeMap::new();
        for (key, answers) in self.counted.lock().iter() {
            let sum = counts.entry(Arc::clone(&key.item)).or_insert(0_u64);
            *sum = sum.saturating_add(*answers);
        }
        counts
    }

    /// How often anything has changed: a hint that it is time to write.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    fn counts_for(&self, tenant: &Tenant) -> bool {
        Questions::names(&self.tenants, tenant)
    }
}

/// The passage that an answer came from: the first of those read that holds its words. If none does, as
/// with a yes or a no, it is the best one.
fn source(hop: &Hop) -> Option<&Passage> {
    let observation = &hop.observation;
    if !observation.found {
        return None;
    }
    let answer = format!(" {} ", canonical(&observation.answer));
    let holds = |passage: &&Passage| format!(" {} ", canonical(&passage.text)).contains(&answer);
    let evidence = &observation.evidence;
    evidence.iter().find(holds).or_else(|| evidence.first())
}

#[cfg(test)]
mod tests {
    use spechop_testkit::passage;
    use spechop_types::{CommitKind, Observation, SubQuestion};

    use super::*;

    fn hop(answer: Option<&str>, evidence: &[(&str, &str)]) -> Hop {
        let passage = |(id, text): &(&str, &str)| passage(id, "T", *text);
        let evidence: Arc<[Passage]> = evidence.iter().map(passage).collect();
        Hop {
            sub_question: SubQuestion::new("Who directed Kanał?"),
            answer: "guessed words".into(),
            kind: CommitKind::Accepted,
            guess: None,
            observation: Arc::new(Observation::read(answer.map(Into::into), evidence)),
        }
    }

    fn traffic(tenants: &[&str]) -> Traffic {
        let tenants: Vec<String> = tenants.iter().map(|name| (*name).to_owned()).collect();
        Traffic::of(&tenants).unwrap()
    }

    #[test]
    fn the_passage_that_holds_the_answer_is_counted() {
        let evidence = [
            ("p1", "Wajdas."),
            ("p2", "By ANDRZEJ Wajda"),
            ("p3", "Wajda"),
        ];
        for (answer, passage) in [
            (Some("Wajda"), Some("p2")),
            (Some("Andrzej  Wajda"), Some("p2")),
            (Some("yes"), Some("p1")),
            (None, None),
        ] {
            let hop = hop(answer, &evidence);
            assert_eq!(source(&hop).map(|found| &*found.id), passage, "{answer:?}");
        }
        assert!(source(&hop(Some("Wajda"), &[])).is_none());
    }

    #[test]
    fn only_the_tenants_that_are_named_are_counted() {
        let tenants = ["", "a", "b"].map(|name| Tenant::try_from(name.to_owned()).unwrap());
        for (named, counted) in [
            (&["a"][..], &["a"][..]),
            (&["default", "b"], &["default", "b"]),
            (&["*"], &["default", "a", "b"]),
            (&["c"], &[]),
        ] {
            let traffic = traffic(named);
            for tenant in &tenants {
                traffic.committed(tenant, &hop(Some("x"), &[("p", "x")]));
            }
            let entries = traffic.entries();
            let names: Vec<_> = entries
                .iter()
                .map(|entry| entry.tenant.to_string())
                .collect();
            assert_eq!(names, counted, "{named:?}");
            assert_eq!(traffic.changes(), counted.len() as u64);
            let sum = traffic.counts().get("p").copied();
            assert_eq!(sum.unwrap_or(0), counted.len() as u64);
        }
        assert!(Traffic::of(&[]).is_none(), "by default nobody is counted");
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let traffic = traffic(&["*"]);
        let long = "x".repeat(ID_BYTES_MAX + 1);
        let tenant = Tenant::default();
        traffic.committed(&tenant, &hop(Some("x"), &[(&long, "x")]));
        for (passage, answers) in [(&*long, 1), ("p", 0), ("p", 7)] {
            traffic.resume(Counted {
                tenant: tenant.clone(),
                passage: passage.into(),
                answers,
            });
        }
        traffic.committed(&tenant, &hop(Some("x"), &[("p", "x")]));
        let counts: Vec<_> = traffic.counts().into_values().collect();
        assert_eq!(counts, [8]);
    }
}
