//! What the choice of each hop gains beside every fixed setting, on recorded questions.
//!
//! The choice is fitted on one half of the questions and played on the other one, both ways. The fixed
//! settings have it easier: the best of them is found on the very questions that it is played on.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;

use spechop_sim::{
    Choices, Clock, Fixed, History, Outcome, Past, PastGuess, Played, Rules, Simulator, Wanted,
};
use spechop_theory::{CallRate, TunerOptions};
use spechop_types::Chance;
use spechop_window::{Policy, Width};

use crate::{Bundle, Injected, MissingStage, past};

/// Gates of the fixed settings.
const GATES: [f64; 7] = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7];

/// A setting that is the same for every hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The width.
    pub k: NonZeroUsize,
    /// The gate.
    pub chance_min: f64,
    /// Whether planning goes ahead without a guess.
    pub plan_ahead: bool,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k={}", self.k)?;
        if self.chance_min > 0.0 {
            write!(f, ",chance-min={}", self.chance_min)?;
        }
        if self.plan_ahead {
            f.write_str(",plan-ahead=on")?;
        }
        Ok(())
    }
}

/// What questions came to on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Latency as a share of that at k = 1.
    pub rel_lat: f64,
    /// Target calls of a question.
    pub targets: f64,
    /// Segments of a question.
    pub segments: f64,
}

/// Some questions by each setting and by choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Their kind; `None` for all of them.
    pub kind: Option<String>,
    /// How many.
    pub questions: usize,
    /// Target calls of a question at k = 1.
    pub standard_targets: f64,
    /// Each fixed setting.
    pub fixed: Vec<(Setting, Cost)>,
    /// The choice of each hop.
    pub chosen: Cost,
}

impl Compared {
    /// The fixed setting with the lowest latency, and of those alike the one with the fewest calls.
    pub fn best(&self) -> Option<&(Setting, Cost)> {
        let cost = |cost: &Cost| (cost.rel_lat, cost.targets);
        self.fixed.iter().min_by(|(_, a), (_, b)| {
            let (a, b) = (cost(a), cost(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    }
}

/// All questions first, then each kind; and what was chosen for the 1st, 3rd, … question and for the others, if
/// anything was.
pub type Comparison = (Vec<Compared>, [Option<Played>; 2]);

/// Recorded questions, and what they are played with.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'a> {
    /// Their stages.
    pub bundle: &'a Bundle,
    /// Whose guesses.
    pub speculator: &'a str,
    /// Added to every look-up.
    pub injected: Option<Injected>,
    /// The widest window.
    pub k_max: NonZeroUsize,
}

impl Recording<'_> {
    /// All hops, and those that the speculator was not asked about: these are played with the guesses of
    /// others.
    ///
    /// # Errors
    ///
    /// The first stage of the sequential agent that is missing.
    pub fn hops(&self) -> Result<[usize; 2], MissingStage> {
        let pasts = self.pasts()?;
        let hops = || pasts.iter().flat_map(|past| &past.hops);
        let untried = hops().filter(|hop| !hop.knows_guess());
        Ok([hops().count(), untried.count()])
    }

    fn pasts(&self) -> Result<Vec<Past>, MissingStage> {
        let mut clock = Clock::new();
        let questions = self.bundle.questions().iter();
        let pasts = questions.map(|question| {
            past(
                &mut clock,
                self.bundle,
                question,
                self.speculator,
                self.injected,
            )
        });
        pasts.collect()
    }
}

impl Setting {
    fn policy(self) -> Policy {
        Policy {
            chance_min: Chance::of(self.chance_min),
            plan_ahead: self.plan_ahead,
            ..Policy::default()
        }
    }
}

/// Plays the questions by every fixed setting and by choice.
///
/// # Errors
///
/// The first stage of the sequential agent that is missing.
pub fn compare(played: &Recording<'_>, wanted: Wanted) -> Result<Comparison, MissingStage> {
    let questions = played.bundle.questions();
    let pasts = played.pasts()?;
    let halves = [0, 1].map(|half| history(&pasts, |at| at % 2 != half));
    // What was learnt of the other half.
    let usual = [0, 1].map(|half| share(pasts.iter().skip(1 - half).step_by(2)));
    let whole = history(&pasts, |_| true).recorded().traces;
    let mut simulator = Simulator::new();
    let mut run = |rules: &dyn Fn(usize) -> Rules| -> Vec<Outcome> {
        let traces = whole.iter().enumerate();
        let outcomes = traces.map(|(at, trace)| simulator.run(trace, rules(at)));
        outcomes.collect()
    };
    let standard = run(&|_| Rules::paper(Width::STANDARD));
    let mut settings = Vec::new();
    for k in (2..=played.k_max.get()).filter_map(NonZeroUsize::new) {
        for plan_ahead in [false, true] {
            settings.extend(GATES.map(|chance_min| Setting {
                k,
                chance_min,
                plan_ahead,
            }));
        }
    }
    let fixed = settings.into_iter().map(|setting| {
        let of = |at: usize| rules(setting.k.get(), setting.policy(), usual[at % 2]);
        (setting, run(&of))
    });
    let fixed: Vec<(Setting, Vec<Outcome>)> = fixed.collect();
    let chosen = [0, 1].map(|half: usize| {
        let rules = rules(1, Policy::default(), usual[half]);
        let choices = Choices::of(&halves[half], rules, played.k_max, FREE);
        choices.best(FREE, wanted).cloned()
    });
    let by_choice = run(&|at| match &chosen[at % 2] {
        Some(chosen) => by_choice(chosen, usual[at % 2]),
        None => Rules::paper(Width::STANDARD),
    });
    let mut kinds: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (at, question) in questions.iter().enumerate() {
        kinds.entry(None).or_default().push(at);
        kinds.entry(Some(&question.kind)).or_default().push(at);
    }
    let compared = kinds.into_iter().map(|(kind, members)| Compared {
        kind: kind.map(str::to_owned),
        questions: members.len(),
        standard_targets: cost(&standard, &standard, &members).targets,
        fixed: fixed
            .iter()
            .map(|(setting, outcomes)| (*setting, cost(outcomes, &standard, &members)))
            .collect(),
        chosen: cost(&by_choice, &standard, &members),
    });
    Ok((compared.collect(), chosen))
}

/// The questions in their order, each by what was learnt of those before it and of what was chosen for them, as a
/// server would: by k = 3 until enough is known, and by k = 1 while the calls are spent. Beside it one fixed
/// setting. So many of the first questions are played, and not counted.
///
/// # Errors
///
/// The first stage of the sequential agent that is missing.
pub fn learning(
    played: &Recording<'_>,
    wanted: Wanted,
    beside: Setting,
    skipped: [usize; 2],
) -> Result<[[Cost; 2]; 2], MissingStage> {
    let pasts = played.pasts()?;
    let traces = history(&pasts, |_| true).recorded().traces;
    let mut simulator = Simulator::new();
    let TunerOptions {
        half_life,
        min_gain,
        ..
    } = TunerOptions::default();
    let (mut hops, mut last, mut choices) = (0, 0, Choices::default());
    let mut calls = CallRate::default();
    let mut outcomes = [Vec::new(), Vec::new(), Vec::new()];
    for (at, trace) in traces.iter().enumerate() {
        let usual = share(pasts[..at].iter());
        if Choices::are_due(hops, last) {
            let before = history(&pasts, |past| past < at);
            let rules = rules(1, Policy::default(), usual);
            choices = Choices::of(&before, rules, played.k_max, FREE);
            last = hops;
        }
        let is_held_back = calls.holds_back(wanted.calls_max);
        let wanted = Wanted {
            calls_max: calls.expectable(wanted.calls_max),
            ..wanted
        };
        let is_worth_it =
            |at: &Played| choices.fits(at, wanted) && choices.is_worth_it(at, wanted, min_gain);
        let learnt = match choices.best(FREE, wanted) {
            Some(chosen) if is_held_back && !is_worth_it(chosen) => Rules::paper(Width::STANDARD),
            Some(chosen) => by_choice(chosen, usual),
            None => rules(3, Policy::default(), usual),
        };
        let fixed = rules(beside.k.get(), beside.policy(), usual);
        let all = [Rules::paper(Width::STANDARD), learnt, fixed];
        let [standard, learnt, fixed] = all.map(|rules| simulator.run(trace, rules));
        let asked = trace.hops.len() as u64;
        calls.record(asked, learnt.calls.targets, half_life);
        hops += asked;
        for (outcomes, outcome) in outcomes.iter_mut().zip([standard, learnt, fixed]) {
            outcomes.push(outcome);
        }
    }
    let [standard, learnt, fixed] = outcomes;
    Ok(skipped.map(|from| {
        let members: Vec<usize> = (from..traces.len()).collect();
        [&learnt, &fixed].map(|outcomes| cost(outcomes, &standard, &members))
    }))
}

const FREE: Fixed = Fixed {
    k: None,
    k_max: None,
    plan_ahead: None,
    gate: false,
};

fn rules(k: usize, policy: Policy, guess_chance: Chance) -> Rules {
    let width = NonZeroUsize::new(k).map_or(Width::STANDARD, Width::bounded);
    Rules {
        guess_chance,
        ..Rules::new(width, policy)
    }
}

fn by_choice(chosen: &Played, usual: Chance) -> Rules {
    let policy = Policy {
        plan_ahead: chosen.plan_ahead,
        weighing: chosen.weighing,
        ..Policy::default()
    };
    rules(chosen.k.get(), policy, usual)
}

fn history(pasts: &[Past], holds: impl Fn(usize) -> bool) -> History {
    let mut history = History::new(pasts.len());
    let taken = pasts.iter().enumerate().filter(|(at, _)| holds(*at));
    taken.for_each(|(_, past)| history.push(past.clone()));
    history
}

/// The share of right guesses.
fn share<'a>(pasts: impl Iterator<Item = &'a Past>) -> Chance {
    let compared = pasts
        .flat_map(|past| &past.hops)
        .filter_map(|hop| match hop.guess {
            PastGuess::Compared { accepted, .. } => Some(accepted),
            PastGuess::Untried | PastGuess::Late | PastGuess::NoIdea { .. } => None,
        });
    let (right, all) = compared.fold((0_u32, 0_u32), |(right, all), accepted| {
        (right + u32::from(accepted), all + 1)
    });
    match all {
        0 => Chance::EVEN,
        all => Chance::of(f64::from(right) / f64::from(all)),
    }
}

fn cost(outcomes: &[Outcome], standard: &[Outcome], members: &[usize]) -> Cost {
    let n = members.len() as f64;
    let sum = |outcomes: &[Outcome], of: &dyn Fn(&Outcome) -> f64| -> f64 {
        members.iter().map(|at| of(&outcomes[*at])).sum()
    };
    let latency = |outcome: &Outcome| outcome.latency_ms;
    Cost {
        rel_lat: sum(outcomes, &latency) / sum(standard, &latency),
        targets: sum(outcomes, &|outcome| outcome.calls.targets as f64) / n,
        segments: sum(outcomes, &|outcome| outcome.calls.segments as f64) / n,
    }
}
