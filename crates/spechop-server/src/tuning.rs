//! What each speculator has been worth so far, and the k that follows from it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spechop_agent::{HopReport, Report, Width};
use spechop_sim::{History, Past, PastGuess, PastHop};
use spechop_theory::{Choice, Stages, Tuner, TunerOptions};
use spechop_types::Chance;

use crate::config::SpeculatorKind;

/// One for each speculator; the generator and the target tool are the server's only ones.
pub(crate) struct Tunings {
    options: TunerOptions,
    history: NonZeroUsize,
    seen: Mutex<BTreeMap<SpeculatorKind, Seen>>,
}

/// What has been seen of a speculator.
struct Seen {
    tuner: Tuner,
    hops: u64,
    last: History,
    /// As the tuner said it last.
    guess_chance: Chance,
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
        self.with(speculator, |seen| {
            seen.tuner.record(k, &stages);
            seen.hops = seen.hops.saturating_add(stages.len() as u64);
            seen.last.push(past(report, k));
            if let Some(p) = seen.tuner.p() {
                seen.guess_chance = Chance::of(p.value);
            }
        });
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
