//! What each speculator has been worth to each tenant so far, and the k that follows from it.
//!
//! Tenants ask different questions, so a guess is worth something else to each of them; and what one
//! has taught the server must not show in the answers to another. A tenant that is not known yet
//! finds what it would find at a new server.

mod choose;
mod identity;
mod keeper;
mod kept;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use spechop_agent::{HopReport, Report, Width};
use spechop_config::SpeculatorKind;
use spechop_sim::{Choices, Fixed, History, Past, PastGuess, PastHop, mentioned};
use spechop_theory::{CallRate, Choice, Stages, Tuner, TunerOptions};
use spechop_types::{Chance, Owned, OwnedCache, Tenant, ms};

pub(crate) use choose::{Ahead, Drafted, Drafts};
pub(crate) use keeper::Keeper;
use kept::{HOPS_KEPT, KeptSpeculator, last_questions};

/// The most tunings: pairs of a tenant and a speculator. The least recently used one is forgotten.
const TUNINGS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// The most questions in all histories, as many as the longest history of one tenant may have. The
/// least recently used tunings are forgotten for more.
const QUESTIONS_MAX: usize = 100_000;

/// Most questions that are played, and that say how likely a guess is to be right.
const PLAYED_MAX: usize = 200;

/// Whose tuning, and of which speculator; the generator and the target tool are the server's only ones.
pub(crate) type TuningOf = Owned<SpeculatorKind>;

/// All tunings. Only answered questions teach, so nobody pushes others out by names alone.
pub(crate) struct Tunings {
    options: TunerOptions,
    history: NonZeroUsize,
    tunings: Mutex<Bounded>,
    /// Questions that were learnt from.
    records: AtomicU64,
}

/// Tunings within their bounds.
struct Bounded {
    seen: OwnedCache<SpeculatorKind, Seen>,
    /// In all their histories.
    questions: usize,
}

/// What has been seen of a speculator.
struct Seen {
    tuner: Tuner,
    hops: u64,
    /// Of the questions that left k to the server.
    calls: CallRate,
    last: History,
    /// As the tuner said it last.
    guess_chance: Chance,
    /// The last questions by every setting, with drafts and without, and after how many hops they were
    /// played.
    choices: Choices,
    drafts: Drafts,
    weighed_at: u64,
    /// Whether they were played with salvage.
    salvages: bool,
    /// How often the speculator was seen to change, and after how many hops that was the last time.
    changes: u64,
    changed_at: u64,
    members: Members,
}

/// Of the speculators that another one asks, by their names in the configuration: how many guesses of
/// committed hops were theirs, and how many of these were right.
pub(crate) type Members = BTreeMap<String, (u64, u64)>;

impl Seen {
    /// Nothing but what this tuner knows, and room for so many questions.
    fn new(tuner: Tuner, history: NonZeroUsize) -> Self {
        Self {
            tuner,
            hops: 0,
            calls: CallRate::default(),
            last: History::new(history.get()),
            guess_chance: Chance::EVEN,
            choices: Choices::default(),
            drafts: Drafts::default(),
            weighed_at: 0,
            salvages: true,
            changes: 0,
            changed_at: 0,
            members: Members::new(),
        }
    }

    /// Notes how many of the guesses were right. The tuner's estimate counts hops without a guess, too, which says
    /// nothing of a guess that is there.
    fn weigh(&mut self) {
        let questions = self.last.questions().rev().take(PLAYED_MAX);
        let hops = questions.flat_map(|past| &past.hops);
        let compared = hops.filter_map(|hop| match hop.guess {
            PastGuess::Compared { accepted, .. } => Some(accepted),
            _ => None,
        });
        // As if one had been right and one wrong before (Laplace).
        let (mut right, mut all) = (1.0, 2.0);
        for accepted in compared {
            right += f64::from(u8::from(accepted));
            all += 1.0;
        }
        self.guess_chance = Chance::of(right / all);
    }
}

impl Bounded {
    fn take(&mut self, of: &TuningOf) -> Option<Seen> {
        let seen = self.seen.remove(of)?;
        self.questions -= seen.last.len();
        Some(seen)
    }

    fn keep(&mut self, of: TuningOf, seen: Seen) {
        self.questions += seen.last.len();
        let mut left = self.seen.insert(of, seen);
        loop {
            if let Some((_, seen)) = left {
                self.questions -= seen.last.len();
            }
            if self.questions <= QUESTIONS_MAX || self.seen.len() == 1 {
                return;
            }
            left = self.seen.pop_oldest();
        }
    }
}

/// A speculator and what is known of it.
pub(crate) struct Known {
    pub(crate) speculator: SpeculatorKind,
    pub(crate) choice: Choice,
    pub(crate) ahead: Ahead,
    pub(crate) drafts: Drafted,
    pub(crate) hops: u64,
    /// Target calls for each one at k = 1, of the questions that left k to the server.
    pub(crate) calls: Option<f64>,
    pub(crate) members: Members,
}

impl Tunings {
    pub(crate) fn new(options: TunerOptions, history: NonZeroUsize) -> Self {
        Self {
            options,
            history,
            tunings: Mutex::new(Bounded {
                seen: OwnedCache::new(TUNINGS_MAX),
                questions: 0,
            }),
            records: AtomicU64::new(0),
        }
    }

    /// The k of a question under this load ([`Tuner::choose_under`]) as far as the tuner knows, and why.
    pub(crate) fn choose(&self, of: &TuningOf, load: f64) -> Choice {
        let choose = |seen: &mut Seen| seen.tuner.choose_under(load);
        let known = self.tunings.lock().seen.get(of).map(choose);
        known.unwrap_or_else(|| Tuner::new(self.options).choose_under(load))
    }

    /// How likely a guess is to be right; a half until anything is known.
    pub(crate) fn guess_chance(&self, of: &TuningOf) -> Chance {
        let known = self
            .tunings
            .lock()
            .seen
            .peek(of)
            .map(|seen| seen.guess_chance);
        known.unwrap_or(Chance::EVEN)
    }

    /// Learns from a question that was answered. Its calls count if k was `chosen` for it and all of them
    /// were made for its hops.
    pub(crate) fn record(&self, of: TuningOf, width: Width, chosen: bool, report: &Report) {
        let k = width.get().unwrap_or(NonZeroUsize::MAX);
        let stages: Vec<Stages> = report.hops.iter().map(|hop| stages(hop, of.item)).collect();
        let judged = report
            .hops
            .iter()
            .filter_map(|hop| Some((hop.best_by?, hop.guess_held?)));
        let calls = chosen.then(|| report.usage.targets.started.into());
        let past = past(report, width, of.item);
        self.learn(of, k, &stages, past, calls, judged);
    }

    fn learn(
        &self,
        of: TuningOf,
        k: NonZeroUsize,
        stages: &[Stages],
        past: Past,
        calls: Option<u64>,
        judged: impl IntoIterator<Item = (&'static str, bool)>,
    ) {
        let mut tunings = self.tunings.lock();
        let nothing = || Seen::new(Tuner::new(self.options), self.history);
        let mut seen = tunings.take(&of).unwrap_or_else(nothing);
        for (member, is_right) in judged {
            let (guesses, right) = seen.members.entry(member.to_owned()).or_default();
            *guesses += 1;
            *right += u64::from(is_right);
        }
        let hops = stages.len() as u64;
        seen.hops = seen.hops.saturating_add(hops);
        if let Some(calls) = calls {
            seen.calls.record(hops, calls, self.options.half_life);
        }
        seen.last.push(past);
        if let Some(judged) = seen.tuner.record(k, stages) {
            // What older guesses came to says nothing of the next ones, nor does what was chosen by them. The few
            // newer ones are not enough to choose by.
            seen.last.forget_guesses_before(judged);
            (seen.choices, seen.drafts) = Default::default();
            (seen.weighed_at, seen.changed_at) = (seen.hops, seen.hops);
            seen.changes += 1;
        }
        seen.weigh();
        tunings.keep(of, seen);
        drop(tunings);
        self.records.fetch_add(1, Relaxed);
    }

    /// Takes up what an earlier server had learnt. False if it contradicts itself.
    fn resume(&self, of: TuningOf, kept: KeptSpeculator) -> bool {
        let Some(tuner) = Tuner::resume(self.options, kept.learnt) else {
            return false;
        };
        let mut seen = Seen {
            hops: kept.hops,
            calls: kept.calls,
            members: kept.members,
            ..Seen::new(tuner, self.history)
        };
        for past in kept.questions {
            seen.last.push(past);
        }
        seen.weigh();
        self.tunings.lock().keep(of, seen);
        true
    }

    /// How many questions were learnt from, since this server began.
    fn records(&self) -> u64 {
        self.records.load(Relaxed)
    }

    /// What a later server is to take up, the least recently used first. If there is no room for all
    /// questions, those of the last ones used are kept.
    fn kept(&self) -> Vec<KeptSpeculator> {
        let tunings = self.tunings.lock();
        let mut room = HOPS_KEPT;
        let kept = tunings.seen.iter().rev().map(|(of, seen)| KeptSpeculator {
            tenant: of.tenant.clone(),
            speculator: of.item.as_str().to_owned(),
            hops: seen.hops,
            calls: seen.calls,
            learnt: seen.tuner.learnt(),
            members: seen.members.clone(),
            questions: last_questions(&seen.last, &mut room),
        });
        let mut kept: Vec<_> = kept.collect();
        drop(tunings);
        kept.reverse();
        kept
    }

    /// Everything that is known to a tenant.
    pub(crate) fn known(&self, tenant: &Tenant, load: f64, is_quiet: bool) -> Vec<Known> {
        let tunings = self.tunings.lock();
        let nothing = Fixed::default();
        let known = SpeculatorKind::ALL.into_iter().filter_map(|speculator| {
            let seen = tunings.seen.peek(&Owned::new(tenant, speculator))?;
            let mut choice = seen.tuner.look_under(load);
            if !is_quiet {
                choice = seen.refine(choice, nothing, Chance::NONE, &self.options, load);
                seen.drafts
                    .open(&mut choice, &seen.calls, &self.options, load);
            }
            let most = seen.calls.expectable(self.options.calls_max);
            Some(Known {
                speculator,
                ahead: match is_quiet {
                    true => Ahead::default(),
                    false => Ahead::of(seen, &self.options),
                },
                drafts: match is_quiet {
                    true => Drafted::default(),
                    false => seen.drafts.at(Width::bounded(choice.k), most),
                },
                hops: seen.hops,
                calls: seen.calls.value(),
                choice,
                members: seen.members.clone(),
            })
        });
        known.collect()
    }

    /// The last questions.
    pub(crate) fn history(&self, of: &TuningOf) -> History {
        let known = self
            .tunings
            .lock()
            .seen
            .peek(of)
            .map(|seen| seen.last.clone());
        known.unwrap_or_else(|| History::new(self.history.get()))
    }
}

/// A guess that arrived and said nothing was as good as wrong.
fn accepted(hop: &HopReport) -> Option<bool> {
    hop.guess_held.or(hop.silent.then_some(false))
}

/// Whether a hop tells nothing of its speculator. Its look-up and its guess were another branch's: their times
/// began before the hop did. Or its look-up was drafted, and had a start over a guess that was not there in time.
/// Or its guess had no turn, or the budget had none to spare: that tells of the load, and of the budget.
fn is_untried(hop: &HopReport) -> bool {
    let was_outrun = !hop.foreseen.is_zero() && hop.times.speculation.is_none();
    hop.salvaged || hop.guess_refused || was_outrun
}

fn stages(hop: &HopReport, speculator: SpeculatorKind) -> Stages {
    // If nobody guesses, no guess was outrun.
    if is_untried(hop) && (speculator != SpeculatorKind::None || hop.salvaged) {
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
pub(crate) fn past(report: &Report, width: Width, speculator: SpeculatorKind) -> Past {
    let k = width.get().unwrap_or(NonZeroUsize::MAX);
    let answers: Vec<&str> = report.hops.iter().map(|hop| &*hop.hop.answer).collect();
    let hop = |(at, hop): (usize, &HopReport)| PastHop {
        segment_ms: ms(hop.times.segment),
        target_ms: ms(hop.times.target),
        guess: match speculator {
            // Nobody is asked, so that what is left open need not wait for anybody.
            SpeculatorKind::None => PastGuess::NoIdea { ms: 0.0 },
            _ => guess(hop, k),
        },
        draft_held: hop.draft_right,
        depends_on: Some(mentioned(hop.hop.sub_question.as_str(), &answers[..at])),
    };
    Past {
        hops: report.hops.iter().enumerate().map(hop).collect(),
        final_ms: ms(report.final_segment),
    }
}

fn guess(hop: &HopReport, k: NonZeroUsize) -> PastGuess {
    match (hop.times.speculation.map(ms), accepted(hop)) {
        _ if k == NonZeroUsize::MIN || is_untried(hop) => PastGuess::Untried,
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
