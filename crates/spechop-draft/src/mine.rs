//! Patterns from trajectories: counts, and a check of each form on questions that were left out.
//!
//! As in PASTE (algorithm 1): contexts that are frequent enough, a mapping of each gap, and the share of
//! cases that it was right in. Here the context is not a subsequence but the whole way so far, since a
//! planner's chain depends on all of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use spechop_types::Observation;

use crate::after::Followers;
use crate::check::Score;
use crate::outline::{Outline, outline};
use crate::patterns::{Known, Patterns, QuestionPattern};
use crate::step::{Asked, Step};
use crate::{Form, Trajectory};

/// What a pattern must have shown.
#[derive(Clone, Copy, Debug)]
pub struct MineOptions {
    /// In how many different questions its form must stand.
    pub support: usize,
    /// In which share of the places where it drafted, on questions left out of the mining, one of its
    /// drafts must have been right.
    pub precision_min: f64,
    /// Most drafts at a place.
    pub limit: usize,
}

impl Default for MineOptions {
    fn default() -> Self {
        Self {
            support: 2,
            precision_min: 0.4,
            limit: 2,
        }
    }
}

/// Why nothing was mined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MineError {
    /// No trajectory has a hop.
    #[error("no trajectory has a hop: there is nothing to mine")]
    NoHops,
    /// No form is frequent and right enough.
    #[error(
        "no form of {0} trajectories was frequent and right enough: give more of them, or lower \
         --support or --precision"
    )]
    NoPatterns(usize),
}

/// How a mining went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// How many trajectories were read.
    pub trajectories: usize,
    /// Of how many different questions.
    pub questions: usize,
    /// How many could not be used: no hops, too many, or names that overlap.
    pub left_out: usize,
    /// Forms of questions that stood in enough of them.
    pub frequent: usize,
    /// Forms among these that were refuted, or never tried, on the questions left out.
    pub refuted: usize,
    /// Forms of questions that were kept.
    pub kept: usize,
    /// Forms of last sub-questions that were kept.
    pub kept_after: usize,
    /// What patterns of nine tenths drafted on the last tenth, each tenth being the last one once.
    pub held_out: Score,
}

/// Patterns, and where they come from.
#[derive(Clone, Debug)]
pub struct Mined {
    /// The patterns.
    pub patterns: Patterns,
    /// How it went.
    pub report: Report,
}

/// Questions are left out in so many parts, one part at a time.
const PARTS: u32 = 10;
/// What is rarer at a place is counted, and not kept: it would be too unlikely to be drafted.
const SHARE_MIN: f64 = 0.15;
/// The last sub-question says less than the question: it needs more questions, and a clear follower.
const AFTER_SUPPORT: usize = 5;
const AFTER_SHARE_MIN: f64 = 0.3;

/// A trajectory that can be used.
struct Usable<'a> {
    trajectory: &'a Trajectory,
    outline: Outline,
    part: u32,
}

/// What a form drafted on questions that it was not mined from.
#[derive(Clone, Copy, Default)]
struct Trial {
    drafted: u32,
    right: u32,
}

/// Mines patterns from trajectories. The same ones give the same patterns, in whatever order.
///
/// # Errors
///
/// [`MineError`]: nothing that could be mined.
pub fn mine(trajectories: &[Trajectory], options: &MineOptions) -> Result<Mined, MineError> {
    if trajectories
        .iter()
        .all(|trajectory| trajectory.hops.is_empty())
    {
        return Err(MineError::NoHops);
    }
    let usable: Vec<_> = trajectories.iter().filter_map(usable).collect();
    let mut report = Report {
        trajectories: trajectories.len(),
        questions: trajectories
            .iter()
            .map(|trajectory| &trajectory.question)
            .collect::<BTreeSet<_>>()
            .len(),
        left_out: trajectories.len() - usable.len(),
        ..Report::default()
    };
    let mut trials: HashMap<Form, Trial> = HashMap::new();
    for part in 0..PARTS {
        let mined = patterns_of(usable.iter().filter(|one| one.part != part), 1);
        for one in usable.iter().filter(|one| one.part == part) {
            tried(
                &mined,
                one.trajectory,
                options.limit,
                &mut report.held_out,
                &mut trials,
            );
        }
    }
    let stands = |form: &Form| {
        trials.get(form).is_some_and(|trial| {
            trial.drafted > 0
                && f64::from(trial.right) >= options.precision_min * f64::from(trial.drafted)
        })
    };
    let all = patterns_of(usable.iter(), options.support);
    report.frequent = all.questions.items.len();
    let mut questions = all.questions.items;
    questions.retain(|pattern| stands(&pattern.form));
    let mut after = all.after.items;
    after.retain(|pattern| stands(&pattern.form));
    (report.kept, report.kept_after) = (questions.len(), after.len());
    report.refuted = report.frequent - report.kept;
    if questions.is_empty() && after.is_empty() {
        return Err(MineError::NoPatterns(trajectories.len()));
    }
    Ok(Mined {
        patterns: Patterns::new(questions, after),
        report,
    })
}

fn usable(trajectory: &Trajectory) -> Option<Usable<'_>> {
    if trajectory.hops.is_empty() {
        return None;
    }
    Some(Usable {
        trajectory,
        outline: outline(trajectory)?,
        part: crc32fast::hash(trajectory.question.as_bytes()) % PARTS,
    })
}

fn patterns_of<'a>(usable: impl Iterator<Item = &'a Usable<'a>>, support: usize) -> Patterns {
    let mut by_form: BTreeMap<&Form, (BTreeSet<&str>, Step)> = BTreeMap::new();
    let mut followers = Followers::default();
    for one in usable {
        let question = one.trajectory.question.as_str();
        let (questions, steps) = by_form.entry(&one.outline.question).or_default();
        questions.insert(question);
        steps.note(&one.outline.hops, true, usize::MAX);
        followers.note(question, &one.outline);
    }
    let frequent = by_form.into_iter();
    let frequent = frequent.filter(|(_, (questions, _))| questions.len() >= support);
    let questions = frequent.map(|(form, (questions, mut steps))| {
        steps.prune(SHARE_MIN);
        QuestionPattern {
            form: form.clone(),
            questions: u32::try_from(questions.len()).unwrap_or(u32::MAX),
            steps,
        }
    });
    let after = followers.patterns(support.max(AFTER_SUPPORT), AFTER_SHARE_MIN);
    Patterns::new(questions.collect(), after)
}

/// Drafts every segment of a trajectory, its end included, and counts what was right.
fn tried(
    patterns: &Patterns,
    trajectory: &Trajectory,
    limit: usize,
    score: &mut Score,
    trials: &mut HashMap<Form, Trial>,
) {
    let asked = trajectory.hops.iter().map(|hop| Asked {
        text: &hop.sub_question,
        found: hop.found,
    });
    let asked: Vec<_> = asked.collect();
    let answers = trajectory.hops.iter();
    let answers = answers.map(|hop| match hop.found {
        true => &*hop.answer,
        false => Observation::NOTHING,
    });
    let answers: Vec<_> = answers.collect();
    for at in 0..=asked.len() {
        let known = Known {
            question: &trajectory.question,
            hops: &asked[..at],
            answers: &answers[..at],
        };
        // Both are tried everywhere: on questions of new forms the last sub-question alone decides.
        let places = [patterns.by_question(&known), patterns.by_last(&known)];
        let next = asked.get(at).map(|asked| asked.text);
        let mut counted = false;
        for place in places.iter().flatten() {
            let drafts = place.drafts(&known, limit);
            let texts = drafts.iter().map(|(text, _)| text.as_str());
            let mut own = Score::default();
            let right = own.count(next, texts);
            if !std::mem::replace(&mut counted, true) {
                *score = score.and(own);
            }
            if !drafts.is_empty() {
                let trial = trials.entry(place.form.clone()).or_default();
                trial.drafted += 1;
                trial.right += u32::from(right);
            }
        }
        if !counted {
            score.count(next, std::iter::empty());
        }
    }
}
