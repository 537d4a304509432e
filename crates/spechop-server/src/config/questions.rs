//! How questions are answered.

use std::num::NonZeroUsize;
use std::time::Duration;

use spechop_agent::{Policy, Prices, StageLimits, Width};
use spechop_types::{Budget, Chance, Money, Tenant};
use spechop_verifier::Mode;

use super::keys::Keys;
use super::{Drafting, schedule};
use crate::reply::EVIDENCE_MAX;
use crate::tuning::Free;

/// How questions are answered.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Default k. With `auto`, the k used until enough has been observed.
    pub width: Width,
    /// Whether the server chooses k for questions that name none.
    pub auto: bool,
    /// Largest k that may be asked for.
    pub k_max: NonZeroUsize,
    /// The most hops of questions that name no hop budget.
    pub hops: u32,
    /// Largest hop budget that may be asked for.
    pub hops_max: u32,
    /// Passages read for each hop, if the question says nothing.
    pub passages: NonZeroUsize,
    /// Most passages that may be asked for.
    pub passages_max: NonZeroUsize,
    /// When a guess counts as right, if the question says nothing.
    pub verifier: Mode,
    /// Look-ups that may find nothing before the answer is written.
    pub not_found_max: u32,
    /// Whether look-ups of rolled-back branches are kept, if the question says nothing.
    pub salvage: bool,
    /// The most look-ups that are kept for one question.
    pub salvage_max: NonZeroUsize,
    /// How long a look-up that nobody needs is kept.
    pub salvage_time: Duration,
    /// Whether planning continues without a guess, if the question says nothing.
    pub plan_ahead: PlanAhead,
    /// Tenants of whom no provider may learn ahead of need what may be asked; `*` for all of them.
    pub quiet: Vec<String>,
    /// Guesses of one hop that branches are built upon, if the question says nothing.
    pub guesses: NonZeroUsize,
    /// Most guesses of a hop that may be asked for.
    pub guesses_max: NonZeroUsize,
    /// Branches less likely than this to become head are not built, if the question says nothing. `None`:
    /// each guess is weighed.
    pub chance_min: Option<Chance>,
    /// An answer less likely than this to be right is withheld.
    pub confidence_min: Chance,
    /// Most look-ups that are drafted for a hop, if the question says nothing. `None`: one, if that pays.
    pub drafts: Option<usize>,
    /// Whether the answers of drafted look-ups are guessed before they are asked for.
    pub draft_guesses: bool,
    /// How many drafts a language model writes of a sub-question, if one does.
    pub draft_samples: u32,
    /// The longest that any question may take.
    pub deadline_max: Duration,
    /// Soft limits of every question.
    pub budget: Budget,
    /// What calls cost.
    pub prices: Prices,
    /// Limits of single stages.
    pub limits: StageLimits,
}

impl Questions {
    /// Whether nothing may be looked up elsewhere ahead of need on behalf of this tenant.
    pub(crate) fn is_quiet(&self, tenant: &Tenant) -> bool {
        let mut quiet = self.quiet.iter();
        quiet.any(|name| name == "*" || name == tenant.as_str())
    }

    /// What of a question is left to the server, if the question says nothing.
    pub(crate) fn free(&self) -> Free {
        Free {
            k: self.auto,
            plan_ahead: self.plan_ahead == PlanAhead::Auto,
            gate: self.chance_min.is_none(),
            drafts: self.drafts.is_none(),
        }
    }

    /// The window's policy as the simulator plays it, with nothing chosen.
    pub(crate) fn policy(&self, salvage: bool) -> Policy {
        Policy {
            orphans_max: if salvage { self.salvage_max.get() } else { 0 },
            // What else a speculator would have guessed is not recorded.
            guesses_max: NonZeroUsize::MIN,
            chance_min: self.chance_min.unwrap_or(Chance::NONE),
            plan_ahead: self.plan_ahead == PlanAhead::On,
            drafts_max: self.drafts.unwrap_or(0),
            draft_guesses: self.draft_guesses,
            ..Policy::PAPER
        }
    }
}

/// Whether planning continues without a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAhead {
    /// Always.
    On,
    /// Never.
    Off,
    /// If it would have paid for the last questions.
    Auto,
}

pub(super) fn questions(keys: &mut Keys<'_>, drafter: &Drafting) -> Questions {
    let auto = keys.is("question.k", "auto");
    let k = if auto {
        3
    } else {
        keys.count("question.k").get()
    };
    let questions = Questions {
        width: Width::bounded(NonZeroUsize::new(k).unwrap_or(NonZeroUsize::MIN)),
        auto,
        k_max: keys.count("question.k_max"),
        hops: keys.small("question.hop_budget"),
        hops_max: keys.small("question.hop_budget_max"),
        passages: keys.count("question.passages"),
        passages_max: keys.count("question.passages_max"),
        verifier: keys
            .one_of(
                "question.verifier",
                &[
                    ("rule", Mode::Rule),
                    ("exact", Mode::Exact),
                    ("paper", Mode::Paper),
                ],
            )
            .unwrap_or(Mode::Rule),
        not_found_max: keys.small("question.not_found_max"),
        salvage: keys.switch("question.salvage"),
        salvage_max: keys.count("question.salvage_max"),
        salvage_time: keys.millis("question.salvage_ms"),
        plan_ahead: match keys.is("question.plan_ahead", "auto") {
            true => PlanAhead::Auto,
            false => match keys.flag("question.plan_ahead") {
                Some(true) => PlanAhead::On,
                Some(false) => PlanAhead::Off,
                None => PlanAhead::Auto,
            },
        },
        quiet: keys.list("tenant.quiet").unwrap_or_default(),
        guesses: keys.count("question.guesses"),
        guesses_max: keys.count("question.guesses_max"),
        chance_min: match keys.is("question.chance_min", "auto") {
            true => None,
            false => keys.number("question.chance_min").map(Chance::of),
        },
        confidence_min: keys
            .number("question.confidence_min")
            .map_or(Chance::NONE, Chance::of),
        drafts: match keys.is("question.drafts", "auto") {
            true => None,
            false => Some(keys.size("question.drafts")),
        },
        draft_guesses: keys.switch("question.draft_guesses"),
        draft_samples: drafter.samples,
        deadline_max: keys.millis("question.deadline_ms"),
        budget: Budget {
            time: keys
                .integer("question.budget_time_ms")
                .map(Duration::from_millis),
            target_calls: keys
                .integer("question.budget_target_calls")
                .and_then(|calls| u32::try_from(calls).ok()),
            tokens: keys.integer("question.budget_tokens"),
            money: keys.integer("question.budget_money_micros").map(Money),
        },
        prices: schedule::prices(keys),
        limits: StageLimits {
            segment: keys.millis("question.segment_ms_max"),
            target: keys.millis("question.target_ms_max"),
            speculation: keys.millis("question.speculation_ms_max"),
            draft: keys.millis("question.draft_ms_max"),
        },
    };
    for (key, value, key_max, max) in [
        (
            "question.k",
            questions.width.get().map_or(0, NonZeroUsize::get),
            "question.k_max",
            questions.k_max.get(),
        ),
        (
            "question.hop_budget",
            questions.hops as usize,
            "question.hop_budget_max",
            questions.hops_max as usize,
        ),
        (
            "question.guesses",
            questions.guesses.get(),
            "question.guesses_max",
            questions.guesses_max.get(),
        ),
        (
            "question.passages",
            questions.passages.get(),
            "question.passages_max",
            questions.passages_max.get(),
        ),
    ] {
        if value > max {
            keys.mistake(key, format!("{value} is more than {key_max} = {max}"));
        }
    }
    let (passages, hops) = (questions.passages_max.get(), questions.hops_max);
    if passages * hops as usize > EVIDENCE_MAX {
        let problem = format!(
            "{passages} for each of question.hop_budget_max = {hops} hops are more than the \
             {EVIDENCE_MAX} passages that an answer may hold"
        );
        keys.mistake("question.passages_max", problem);
    }
    questions
}
