//! How questions are answered.

use std::num::NonZeroUsize;
use std::time::Duration;

use spechop_agent::{Policy, Prices, Settings, StageLimits};
use spechop_types::{AnswerOptions, Budget, Chance, Effort, K, Money, Tenant, VerifierMode};
use toml::Value;

use super::keys::Keys;
use super::{Drafting, EVIDENCE_MAX, schedule};

/// In a list of tenants: all of them.
const EVERYBODY: &str = "*";

/// How questions are answered.
#[derive(Clone, Debug)]
pub struct Questions {
    /// What counts if a question says nothing. What is not said here either, and a k that is `auto`, is
    /// chosen by what has been seen of the tenant's questions.
    pub usual: AnswerOptions,
    /// Largest k that may be asked for.
    pub k_max: NonZeroUsize,
    /// Largest hop budget that may be asked for.
    pub hops_max: u32,
    /// Most passages that may be asked for.
    pub passages_max: NonZeroUsize,
    /// The most look-ups that are kept for one question.
    pub salvage_max: NonZeroUsize,
    /// How long a look-up that nobody needs is kept.
    pub salvage_time: Duration,
    /// Tenants of whom no provider may learn ahead of need what may be asked, named as the log
    /// names them; `*` for all of them.
    pub quiet: Vec<String>,
    /// Most guesses of a hop that may be asked for.
    pub guesses_max: NonZeroUsize,
    /// An answer less likely than this to be right is withheld.
    pub confidence_min: Chance,
    /// A question less likely than this to be of a form that the planner was trained on is declined.
    pub form_min: Chance,
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
    /// Whether this tenant is one of a list of the configuration. `*` is everybody; else tenants are named
    /// as the log names them, so that `default` is the one without a name. A tenant may have that very name:
    /// it is meant, too, for nobody can see in a log which of them is.
    pub fn names(list: &[String], tenant: &Tenant) -> bool {
        let logged = tenant.to_string();
        list.iter().any(|name| name == EVERYBODY || *name == logged)
    }

    /// Whether nothing may be looked up elsewhere ahead of need on behalf of this tenant.
    pub fn is_quiet(&self, tenant: &Tenant) -> bool {
        Self::names(&self.quiet, tenant)
    }

    /// What holds for a tenant's question of which this is said.
    pub fn options(&self, said: &AnswerOptions, tenant: &Tenant) -> AnswerOptions {
        let options = said.clone().or(&self.usual);
        AnswerOptions {
            quiet: options.quiet || self.is_quiet(tenant),
            ..options
        }
    }

    /// What of a question is left to the server, if the question says nothing.
    pub fn free(&self) -> Free {
        Free::of(&self.usual)
    }

    /// Passages read for each hop, if the question says nothing.
    pub fn passages(&self) -> NonZeroUsize {
        let usual = self.usual.top_passages;
        usual.unwrap_or_else(|| Settings::default().passages)
    }

    /// The window's policy, if this is said.
    pub fn policy(&self, said: &AnswerOptions) -> Policy {
        let salvaging = Policy {
            orphans_max: self.salvage_max.get(),
            draft_guesses: self.draft_guesses,
            ..Policy::EAGER
        };
        salvaging.with(said)
    }

    /// [`Self::policy`] as the simulator plays it.
    pub fn simulated(&self, said: &AnswerOptions) -> Policy {
        Policy {
            // What else a speculator would have guessed is not recorded.
            guesses_max: NonZeroUsize::MIN,
            ..self.policy(said)
        }
    }
}

/// What of a question is left to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// Its k.
    pub k: bool,
    /// Whether planning goes ahead without a guess.
    pub plan_ahead: bool,
    /// How likely a branch must be to be built.
    pub gate: bool,
    /// Whether look-ups are drafted.
    pub drafts: bool,
}

impl Free {
    /// What is not said, and a k that is `auto`.
    pub fn of(said: &AnswerOptions) -> Self {
        Self {
            k: said.k == Some(K::Auto),
            plan_ahead: said.plan_ahead.is_none(),
            gate: said.chance_min.is_none(),
            // They would be refused if nothing may be learnt ahead of need.
            drafts: said.drafts.is_none() && !said.quiet,
        }
    }
}

pub(super) fn questions(keys: &mut Keys<'_>, drafter: &Drafting) -> Questions {
    let usual = usual(keys);
    let k = match usual.k {
        Some(K::Bounded(k)) => k.get(),
        // What the server chooses is never more than k_max.
        _ => 0,
    };
    let questions = Questions {
        usual,
        k_max: keys.count("question.k_max"),
        hops_max: keys.small("question.hop_budget_max"),
        passages_max: keys.count("question.passages_max"),
        salvage_max: keys.count("question.salvage_max"),
        salvage_time: keys.millis("question.salvage_ms"),
        quiet: tenants(keys, "tenant.quiet"),
        guesses_max: keys.count("question.guesses_max"),
        confidence_min: keys
            .number("question.confidence_min")
            .map_or(Chance::NONE, Chance::of),
        form_min: keys
            .number("question.form_min")
            .map_or(Chance::NONE, Chance::of),
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
        ("question.k", k, "question.k_max", questions.k_max.get()),
        (
            "question.hop_budget",
            questions.usual.hop_budget.unwrap_or(0) as usize,
            "question.hop_budget_max",
            questions.hops_max as usize,
        ),
        (
            "question.guesses",
            questions.usual.guesses.map_or(0, NonZeroUsize::get),
            "question.guesses_max",
            questions.guesses_max.get(),
        ),
        (
            "question.passages",
            questions.passages().get(),
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

/// The tenants that a list names. A name that is nobody's is a mistake: else it would mean nobody without a word.
pub(super) fn tenants(keys: &mut Keys<'_>, key: &str) -> Vec<String> {
    let tenants = keys.list(key).unwrap_or_default();
    for name in tenants.iter().filter(|name| *name != EVERYBODY) {
        if let Err(error) = Tenant::new(name) {
            keys.mistake(key, format!("\"{name}\" is no tenant: {error}"));
        }
    }
    // A list leaves blank texts out.
    let written = keys.find(key).map(|(value, _)| value);
    let items = written.as_ref().and_then(Value::as_array);
    let blank = |item: &Value| item.as_str().is_some_and(|name| name.trim().is_empty());
    if items.is_some_and(|items| items.iter().any(blank)) {
        let problem = "\"\" is no tenant: the one without a name is called \"default\" here";
        keys.mistake(key, problem);
    }
    tenants
}

/// What counts if a question says nothing.
fn usual(keys: &mut Keys<'_>) -> AnswerOptions {
    let verifiers = VerifierMode::ALL.map(|mode| (mode.as_str(), mode));
    let efforts = Effort::ALL.map(|effort| (effort.as_str(), effort));
    AnswerOptions {
        k: Some(match keys.is("question.k", "auto") {
            true => K::Auto,
            false => K::Bounded(keys.count("question.k")),
        }),
        hop_budget: Some(keys.small("question.hop_budget")),
        top_passages: Some(keys.count("question.passages")),
        verifier: keys.one_of("question.verifier", &verifiers),
        // Which there are, and which of them is the default, is no matter of single questions.
        speculator: None,
        salvage: Some(keys.switch("question.salvage")),
        plan_ahead: match keys.is("question.plan_ahead", "auto") {
            true => None,
            false => keys.flag("question.plan_ahead"),
        },
        guesses: Some(keys.count("question.guesses")),
        chance_min: match keys.is("question.chance_min", "auto") {
            true => None,
            false => keys.number("question.chance_min").map(Chance::of),
        },
        not_found_max: Some(keys.small("question.not_found_max")),
        drafts: match keys.is("question.drafts", "auto") {
            true => None,
            false => Some(keys.small("question.drafts")),
        },
        effort: keys.one_of("question.effort", &efforts),
        fresh: false,
        quiet: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_tenants_as_the_log_does() {
        let tenants = ["", "a", "default"].map(|name| Tenant::try_from(name.to_owned()).unwrap());
        for (list, named) in [
            (&["*"][..], [true, true, true]),
            (&[], [false, false, false]),
            (&["b", "a"], [false, true, false]),
            (&["default"], [true, false, true]),
            (&["a", "default"], [true, true, true]),
        ] {
            let list: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
            let found = tenants
                .each_ref()
                .map(|tenant| Questions::names(&list, tenant));
            assert_eq!(found, named, "{list:?}");
        }
    }

    #[test]
    fn a_quiet_tenant_that_nobody_is_is_a_mistake() {
        for (written, names, said) in [
            (r#"["clinic", "default"]"#, &["clinic", "default"][..], None),
            (r#""*""#, &["*"], None),
            (r#""""#, &[], None),
            ("[]", &[], None),
            (r#"[""]"#, &[], Some("called \"default\" here")),
            (
                r#"["our clinic"]"#,
                &["our clinic"],
                Some("\"our clinic\" is no tenant: a tenant's name has"),
            ),
        ] {
            let file = format!("[tenant]\nquiet = {written}");
            let read = Keys::meaning(&file, &[], |keys, _| {
                assert_eq!(tenants(keys, "tenant.quiet"), names, "{written}");
            });
            match (said, read) {
                (None, read) => read.unwrap(),
                (Some(said), read) => {
                    let mistakes = read.unwrap_err();
                    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
                    assert!(mistakes[0].contains(said), "{mistakes:?}");
                }
            }
        }
    }
}
