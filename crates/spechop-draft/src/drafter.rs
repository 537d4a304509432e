//! The drafter: shipped patterns, and what each tenant's own questions have taught.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::{Mutex, MutexGuard};
use spechop_ports::{DraftRequest, Drafter};
use spechop_types::{
    Chance, Draft, Hop, Observation, Owned, OwnedCache, Question, SubQuestion, Tenant,
};

use crate::outline::outline;
use crate::own::{LearntBy, LearntPatterns, Lesson, Own};
use crate::patterns::{Known, Patterns, best, chance};
use crate::step::Asked;
use crate::{HOPS_MAX, Lookup, PatternError, Trajectory};

/// Most tenants whose own patterns are kept. The one that has not asked for longest leaves.
const TENANTS_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// So many cases of a tenant's own count as much as the shipped patterns' chance.
const SHIPPED_CASES: f64 = 4.0;

/// Drafts sub-questions by patterns.
///
/// The shipped patterns are common to all tenants; they hold no names. What a question teaches stays
/// with its tenant. If a tenant's own cases say something else than the shipped patterns, they count
/// more with each case, so another planner's wording is learnt.
#[derive(Debug)]
pub struct PatternDrafter {
    shipped: Patterns,
    own: Mutex<OwnedCache<(), Own>>,
    /// Of that, what was learnt here and others may not know; `None` if nobody else teaches anything.
    here: Option<Mutex<Here>>,
    changes: AtomicU64,
}

/// What this server alone has learnt, while others teach it, too.
#[derive(Debug)]
struct Here {
    terms: OwnedCache<(), Term>,
    /// How many terms have begun.
    begun: u64,
    /// Who has asked since others were last heard of.
    asked: BTreeSet<Tenant>,
}

impl Here {
    fn note_asked(&mut self, tenant: &Tenant) {
        if !self.asked.contains(tenant) && self.asked.len() < TENANTS_MAX.get() {
            self.asked.insert(tenant.clone());
        }
    }
}

/// What one tenant has taught since it came. It ends when the tenant leaves for others, or when its lesson is
/// kept by others; what the tenant teaches then is another term's.
#[derive(Debug, Default)]
struct Term {
    number: u64,
    own: Own,
    is_told: bool,
}

/// What a tenant has taught a server in one term, for the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Taught {
    /// Which of the server's terms it is. No two have the same number.
    pub term: u64,
    /// Whether others were told of this term before ([`PatternDrafter::note_told`]).
    pub is_told: bool,
    /// All that was learnt in it.
    pub lesson: Lesson,
}

impl PatternDrafter {
    /// A drafter that has learnt nothing yet.
    pub fn new(shipped: Patterns) -> Self {
        Self {
            shipped,
            own: Mutex::new(OwnedCache::new(TENANTS_MAX)),
            here: None,
            changes: AtomicU64::new(0),
        }
    }

    /// The same, of a server that shares with others what its tenants teach it.
    #[must_use]
    pub fn shared(self) -> Self {
        Self {
            here: Some(Mutex::new(Here {
                terms: OwnedCache::new(TENANTS_MAX),
                begun: 0,
                asked: BTreeSet::new(),
            })),
            ..self
        }
    }

    /// Who has asked since this was last called: others may have learnt something of them.
    pub fn asked(&self) -> BTreeSet<Tenant> {
        let here = self.here();
        here.map_or_else(BTreeSet::new, |mut here| std::mem::take(&mut here.asked))
    }

    /// What a tenant has taught this server in its term, for the others; `None` if nothing.
    pub fn lesson(&self, tenant: &Tenant) -> Option<Taught> {
        let here = self.here()?;
        let term = here.terms.peek(&Owned::new(tenant, ()))?;
        Some(Taught {
            term: term.number,
            is_told: term.is_told,
            lesson: Lesson::of(&term.own),
        })
    }

    /// Whether a tenant has taught this server anything in its term.
    pub fn has_taught(&self, tenant: &Tenant) -> bool {
        let (key, here) = (Owned::new(tenant, ()), self.here());
        here.is_some_and(|here| here.terms.peek(&key).is_some())
    }

    /// Takes note that others were told what a tenant has taught here in this term.
    pub fn note_told(&self, tenant: &Tenant, term: u64) {
        let Some(mut here) = self.here() else { return };
        if let Some(of) = here.terms.get(&Owned::new(tenant, ()))
            && of.number == term
        {
            of.is_told = true;
        }
    }

    /// From now on, what a tenant has taught is what it has taught here and this. What it teaches in this very
    /// moment is drafted from after the next call, which comes when it has asked again.
    pub fn hears(&self, tenant: &Tenant, others: &Lesson) {
        let key = Owned::new(tenant, ());
        let Some(here) = self.here() else { return };
        let mut all = here
            .terms
            .peek(&key)
            .map_or_else(Own::default, |term| term.own.clone());
        // Whoever drafts does not wait for the merge.
        drop(here);
        all.merge(&others.0);
        self.own.lock().insert(key, all);
    }

    /// Ends the term of a tenant, whose lesson others keep from now on: it is told of no more.
    pub fn end_term(&self, tenant: &Tenant) {
        if let Some(mut here) = self.here() {
            here.terms.remove(&Owned::new(tenant, ()));
        }
    }

    /// Taken after `own`, if both are.
    fn here(&self) -> Option<MutexGuard<'_, Here>> {
        self.here.as_ref().map(Mutex::lock)
    }

    /// How many questions it has learnt from since it was made.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// All that has been learnt, to be kept over a restart.
    pub fn learnt(&self) -> LearntPatterns {
        let own = self.own.lock();
        let tenants = own.iter().map(|(key, own)| LearntBy {
            tenant: key.tenant.clone(),
            own: own.clone(),
        });
        LearntPatterns {
            tenants: tenants.collect(),
        }
    }

    /// Takes over what was learnt before a restart. Beyond the bounds the oldest is left out.
    ///
    /// # Errors
    ///
    /// Patterns whose slots nothing fills: then nothing is taken over.
    pub fn restore(&self, learnt: LearntPatterns) -> Result<(), PatternError> {
        let checked = learnt.tenants.into_iter().map(|by| {
            let own = by.own.checked()?;
            Ok((Owned::new(&by.tenant, ()), own))
        });
        let checked: Vec<_> = checked.collect::<Result<_, PatternError>>()?;
        let mut own = self.own.lock();
        for (key, learnt) in checked {
            own.insert(key, learnt);
        }
        Ok(())
    }

    /// The drafts with their chances. `own` is the tenant's.
    fn drafts(&self, known: &Known<'_>, own: Option<&Own>, limit: usize) -> Vec<(String, f64)> {
        let shipped = self.shipped.place(known);
        let trust = own.map_or(1.0, Own::trust);
        let mut drafts: Vec<(String, f64)> = shipped
            .iter()
            .flat_map(|place| {
                let asks = place.asks(known);
                asks.map(move |(text, times)| (text, trust * chance(times, place.step)))
            })
            .collect();
        let Some(place) = own.and_then(|own| own.place(known)) else {
            return best(drafts, limit);
        };
        let cases = place.step.times() as f64;
        let (weight, start) = match shipped {
            Some(_) => (SHIPPED_CASES, 0.0),
            None => (1.0, 0.5),
        };
        for (_, chance) in &mut drafts {
            *chance *= weight / (cases + weight);
        }
        for (text, times) in place.asks(known) {
            let seen = (f64::from(times) + start) / (cases + weight);
            match drafts.iter_mut().find(|(other, _)| *other == text) {
                Some((_, chance)) => *chance += seen,
                None => drafts.push((text, seen)),
            }
        }
        best(drafts, limit)
    }
}

impl Drafter for PatternDrafter {
    /// It looks at the bytes of one question and of at most eight hops, once for each pattern of a step.
    fn ends_at_once(&self) -> bool {
        true
    }

    fn draft(&self, request: &DraftRequest<'_>) -> Vec<Draft> {
        if request.limit == 0 || request.hops.len() >= HOPS_MAX {
            return Vec::new();
        }
        let asked = request.hops.iter().map(|hop| Asked {
            text: hop.sub_question.as_str(),
            found: !Observation::is_nothing(&hop.answer),
        });
        let asked: Vec<_> = asked.collect();
        let answers: Vec<_> = request.hops.iter().map(|hop| &*hop.answer).collect();
        let known = Known {
            question: request.question.as_str(),
            hops: &asked,
            answers: &answers,
        };
        let key = Owned::new(request.tenant, ());
        let mut own = self.own.lock();
        if let Some(mut here) = self.here() {
            here.note_asked(request.tenant);
        }
        let drafts = self.drafts(&known, own.get(&key).map(|own| &*own), request.limit);
        drop(own);
        let drafts = drafts.into_iter().map(|(text, chance)| Draft {
            sub_question: SubQuestion::new(&text),
            chance: Chance::of(chance),
        });
        drafts.collect()
    }

    fn learn(&self, tenant: &Tenant, question: &Question, hops: &[Hop], ended: bool) {
        if hops.is_empty() || hops.len() > HOPS_MAX {
            return;
        }
        let lookups = hops.iter().map(|hop| Lookup {
            sub_question: hop.sub_question.as_str().to_owned(),
            answer: hop.answer.as_ref().to_owned(),
            found: !Observation::is_nothing(&hop.answer),
        });
        let trajectory = Trajectory {
            question: question.as_str().to_owned(),
            hops: lookups.collect(),
        };
        let asked = trajectory.hops.iter().map(|hop| Asked {
            text: &hop.sub_question,
            found: hop.found,
        });
        let asked: Vec<_> = asked.collect();
        let answers: Vec<_> = trajectory
            .hops
            .iter()
            .map(|hop| hop.answer.as_str())
            .collect();
        let judged = (0..asked.len()).filter_map(|at| {
            let known = Known {
                question: &trajectory.question,
                hops: &asked[..at],
                answers: &answers[..at],
            };
            let place = self.shipped.place(&known)?;
            let (draft, _) = place.drafts(&known, 1).pop()?;
            Some(
                draft
                    .split_whitespace()
                    .eq(asked[at].text.split_whitespace()),
            )
        });
        let judged: Vec<_> = judged.collect();
        let outline = outline(&trajectory);
        let key = Owned::new(tenant, ());
        let mut all = self.own.lock();
        if all.get(&key).is_none() {
            all.insert(key.clone(), Own::default());
        }
        let Some(own) = all.get(&key) else { return };
        let learn = |own: &mut Own| {
            judged.iter().for_each(|right| own.judge(*right));
            if let Some(outline) = &outline {
                own.note(outline, ended);
            }
        };
        learn(own);
        if let Some(mut here) = self.here() {
            // Others may have looked since it asked for drafts, and did not see this.
            here.note_asked(tenant);
            if here.terms.peek(&key).is_none() {
                here.begun += 1;
                let term = Term {
                    number: here.begun,
                    ..Term::default()
                };
                here.terms.insert(key.clone(), term);
            }
            if let Some(term) = here.terms.get(&key) {
                learn(&mut term.own);
            }
        }
        self.changes.fetch_add(1, Relaxed);
    }
}
