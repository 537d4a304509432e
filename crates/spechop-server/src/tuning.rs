//! What each speculator has been worth so far, and the k that follows from it.

mod identity;
mod keeper;
mod kept;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spechop_agent::{HopReport, Report, Width};
use spechop_sim::{History, Past, PastGuess, PastHop};
use spechop_theory::{Choice, Stages, Tuner, TunerOptions};
use spechop_types::Chance;

use crate::config::SpeculatorKind;
use identity::Identity;
pub(crate) use keeper::Keeper;
use kept::{KeptSpeculator, last_questions};

/// One for each speculator; the generator and the target tool are the server's only ones.
pub(crate) struct Tunings {
    options: TunerOptions,
    history: NonZeroUsize,
    seen: Mutex<BTreeMap<SpeculatorKind, Seen>>,
    /// Questions that were learnt from.
    records: AtomicU64,
}

/// What has been seen of a speculator.
struct Seen {
    tuner: Tuner,
    hops: u64,
    last: History,
    /// As the tuner said it last.
    guess_chance: Chance,
}

impl Seen {
    /// Notes what the tuner says of the guesses by now.
    fn weigh(&mut self) {
        if let Some(p) = self.tuner.p() {
            self.guess_chance = Chance::of(p.value);
        }
    }
}

/// A speculator and what is known of it.
pub(crate) struct Known {
    pub(crate) speculator: SpeculatorKind,
    pub(crate) choice: Choice,
    pub(crate) hops: u64,
}

impl Tunings {
    pub(crate) fn new(options: TunerOptions, history: NonZeroUsize) -> Self {
        Self {
            options,
            history,
            seen: Mutex::default(),
            records: AtomicU64::new(0),
        }
    }

    /// The k of a question, and why.
    pub(crate) fn choose(&self, speculator: SpeculatorKind) -> Choice {
        self.with(speculator, |seen| seen.tuner.choose())
    }

    /// How likely a guess is to be right; a half until anything is known.
    pub(crate) fn guess_chance(&self, speculator: SpeculatorKind) -> Chance {
        self.with(speculator, |seen| seen.guess_chance)
    }

    /// Learns from a question that was answered.
    pub(crate) fn record(&self, speculator: SpeculatorKind, width: Width, report: &Report) {
        let k = width.get().unwrap_or(NonZeroUsize::MAX);
        let stages: Vec<Stages> = report.hops.iter().map(stages).collect();
        self.learn(speculator, k, &stages, past(report, k));
    }

    fn learn(&self, speculator: SpeculatorKind, k: NonZeroUsize, stages: &[Stages], past: Past) {
        self.with(speculator, |seen| {
            seen.tuner.record(k, stages);
            seen.hops = seen.hops.saturating_add(stages.len() as u64);
            seen.last.push(past);
            seen.weigh();
        });
        self.records.fetch_add(1, Relaxed);
    }

    /// Takes up what an earlier server had learnt of a speculator. False if it contradicts itself.
    fn resume(&self, speculator: SpeculatorKind, kept: KeptSpeculator) -> bool {
        let Some(tuner) = Tuner::resume(self.options, kept.learnt) else {
            return false;
        };
        let mut last = History::new(self.history.get());
        kept.questions.into_iter().for_each(|past| last.push(past));
        let mut seen = Seen {
            tuner,
            hops: kept.hops,
            last,
            guess_chance: Chance::EVEN,
        };
        seen.weigh();
        self.lock().insert(speculator, seen);
        true
    }

    /// How many questions were learnt from, since this server began.
    fn records(&self) -> u64 {
        self.records.load(Relaxed)
    }

    /// What a later server is to take up, by the speculators' names.
    fn kept(
        &self,
        identities: &BTreeMap<SpeculatorKind, Identity>,
    ) -> BTreeMap<String, KeptSpeculator> {
        let seen = self.lock();
        let kept = seen.iter().filter_map(|(speculator, seen)| {
            let kept = KeptSpeculator {
                identity: identities.get(speculator)?.clone(),
                hops: seen.hops,
                learnt: seen.tuner.learnt(),
                questions: last_questions(&seen.last),
            };
            Some((speculator.as_str().to_owned(), kept))
        });
        kept.collect()
    }

    /// Everything that is known.
    pub(crate) fn known(&self) -> Vec<Known> {
        self.lock()
            .iter()
            .map(|(speculator, seen)| Known {
                speculator: *speculator,
                choice: seen.tuner.look(),
                hops: seen.hops,
            })
            .collect()
    }

    /// The last questions of a speculator.
    pub(crate) fn history(&self, speculator: SpeculatorKind) -> History {
        let seen = self.lock();
        let history = seen.get(&speculator).map(|seen| seen.last.clone());
        history.unwrap_or_else(|| History::new(self.history.get()))
    }

    fn with<T>(&self, speculator: SpeculatorKind, work: impl FnOnce(&mut Seen) -> T) -> T {
        let mut seen = self.lock();
        work(seen.entry(speculator).or_insert_with(|| Seen {
            tuner: Tuner::new(self.options),
            hops: 0,
            last: History::new(self.history.get()),
            guess_chance: Chance::EVEN,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SpeculatorKind, Seen>> {
        // Nothing panics while it is held.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guess that arrived and said nothing was as good as wrong.
fn accepted(hop: &HopReport) -> Option<bool> {
    hop.guess_held.or(hop.silent.then_some(false))
}

fn stages(hop: &HopReport) -> Stages {
    if hop.salvaged {
        // Its look-up and its guess were another branch's: their times began before the hop did.
        return Stages {
            segment: Some(hop.times.segment.as_secs_f64()),
            ..Stages::default()
        };
    }
    Stages {
        segment: Some(hop.times.segment.as_secs_f64()),
        target: Some(hop.times.target.as_secs_f64()),
        speculation: hop.times.speculation.map(|time| time.as_secs_f64()),
        accepted: accepted(hop),
    }
}

/// A question as the simulator knows it.
fn past(report: &Report, k: NonZeroUsize) -> Past {
    let answers: Vec<&str> = report.hops.iter().map(|hop| &*hop.hop.answer).collect();
    let hop = |(at, hop): (usize, &HopReport)| PastHop {
        segment_ms: ms(hop.times.segment),
        target_ms: ms(hop.times.target),
        guess: guess(hop, k),
        depends_on: Some(mentioned(hop.hop.sub_question.as_str(), &answers[..at])),
    };
    Past {
        hops: report.hops.iter().enumerate().map(hop).collect(),
        final_ms: ms(report.final_segment),
    }
}

fn guess(hop: &HopReport, k: NonZeroUsize) -> PastGuess {
    match (hop.times.speculation.map(ms), accepted(hop)) {
        _ if k == NonZeroUsize::MIN || hop.salvaged => PastGuess::Untried,
        (Some(ms), _) if hop.silent => PastGuess::NoIdea { ms },
        (Some(ms), Some(accepted)) => PastGuess::Compared {
            ms,
            accepted,
            confidence: hop.confidence.map(Chance::share),
        },
        (Some(_), None) => PastGuess::Untried,
        (None, _) => PastGuess::Late,
    }
}

/// Which earlier hops, counted from 1, a sub-question is made of: those whose answers it mentions.
fn mentioned(sub_question: &str, answers: &[&str]) -> std::sync::Arc<[u32]> {
    let mentions = |answer: &&str| !answer.is_empty() && sub_question.contains(*answer);
    (1..)
        .zip(answers)
        .filter(|(_, answer)| mentions(answer))
        .map(|(number, _)| number)
        .collect()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
