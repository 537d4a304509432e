//! From the wire to the agent: a request is checked whole, and every mistake reported at once.

use std::num::NonZeroUsize;
use std::time::Duration;

use spechop_agent::Settings;
use spechop_config::{DRAFTS_MAX, Free, Questions, SpeculatorKind};
use spechop_proto::AskRequest;
use spechop_proto::json::WrongField;
use spechop_types::{AnswerOptions, Budget, K, Money, Owned, Question, Tenant};
use tokio::time::Instant;
use tonic_types::FieldViolation;

use crate::questions::QuestionId;
use crate::status::AskError;

/// A request that can be answered.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) settings: Settings,
    pub(crate) speculator: SpeculatorKind,
    /// The client's name for it.
    pub(crate) id: Option<QuestionId>,
    /// What the server is to choose; until then the settings hold the defaults.
    pub(crate) free: Free,
    /// How long it continues if nobody follows it.
    pub(crate) linger: Duration,
}

/// What a request is checked against.
pub(crate) struct Rules<'a> {
    pub(crate) questions: &'a Questions,
    /// The speculators that there are, the default one first.
    pub(crate) speculators: &'a [SpeculatorKind],
    /// How long a question may continue if nobody follows it.
    pub(crate) linger_max: Duration,
}

impl Asked {
    /// Checks a request of this tenant that arrived just now. `patience` is how long its client waits.
    pub(crate) fn read(
        request: &AskRequest,
        tenant: &Tenant,
        patience: Option<Duration>,
        rules: &Rules<'_>,
    ) -> Result<Self, AskError> {
        let server = rules.questions;
        let mut wrong = Wrong(Vec::new());

        let question = Question::new(&request.question);
        if let Err(error) = &question {
            wrong.field("question", error.to_string());
        }
        let (asked, refused) = request.options.clone().unwrap_or_default().read();
        for WrongField { field, problem } in refused {
            wrong.option(&field, problem);
        }
        let options = server.options(&asked, tenant);
        check(&asked, &options, server, &mut wrong);
        if request.deadline_ms == Some(0) {
            wrong.field("deadline_ms", "must be at least 1".to_owned());
        }
        let budget = budget(request, server.budget, &mut wrong);
        let id = id(&request.question_id, tenant, &mut wrong);
        let speculator = speculator(asked.speculator.as_deref(), rules.speculators, &mut wrong);
        let deadline = [
            Some(server.deadline_max),
            request.deadline_ms.map(Duration::from_millis),
            patience,
        ];
        let linger = Duration::from_millis(request.linger_ms);
        if linger > rules.linger_max {
            let most = rules.linger_max.as_millis();
            wrong.field(
                "linger_ms",
                format!("must be at most {most} on this server"),
            );
        }
        let free = Free::of(&options);
        let settings = Settings {
            policy: server.policy(&options),
            orphan_time: server.salvage_time,
            budget,
            prices: server.prices,
            tenant: tenant.clone(),
            deadline: deadline
                .into_iter()
                .flatten()
                .min()
                .map(|limit| Instant::now() + limit),
            limits: server.limits,
            draft_samples: server.draft_samples,
            ..Settings::default().with(&options)
        };
        match question {
            Ok(question) if wrong.0.is_empty() => Ok(Self {
                question,
                settings,
                speculator,
                id,
                linger,
                free,
            }),
            _ => Err(AskError::Invalid(wrong.0)),
        }
    }
}

/// What this server takes of what is asked, and whether it fits together with the rest of `options`.
fn check(asked: &AnswerOptions, options: &AnswerOptions, server: &Questions, wrong: &mut Wrong) {
    let hops_max = server.hops_max;
    match asked.k {
        None | Some(K::Auto) => {}
        Some(K::Bounded(k)) => wrong.at_most("k", k.get(), server.k_max.get()),
        // With one guess a hop, branches are a chain: no more than hops and an answer. Several make a tree, as
        // wide as guesses to the power of hops.
        Some(K::Unbounded) => {
            let hops = options.hop_budget.unwrap_or(hops_max).min(hops_max);
            let is_tree = options.guesses.is_some_and(|most| most.get() > 1);
            if is_tree {
                let problem = "does not go with several guesses of a hop: branches would be a tree";
                wrong.option("unbounded", problem.to_owned());
            } else if server.k_max.get() <= hops as usize {
                let max = server.k_max;
                wrong.option("unbounded", format!("this server takes k up to {max}"));
            }
        }
    }
    for (option, asked, most) in [
        (
            "hop_budget",
            asked.hop_budget.map(|hops| hops as usize),
            hops_max as usize,
        ),
        (
            "top_passages",
            asked.top_passages.map(NonZeroUsize::get),
            server.passages_max.get(),
        ),
        (
            "guesses",
            asked.guesses.map(NonZeroUsize::get),
            server.guesses_max.get(),
        ),
        (
            "drafts",
            asked.drafts.map(|drafts| drafts as usize),
            DRAFTS_MAX as usize,
        ),
    ] {
        if let Some(asked) = asked {
            wrong.at_most(option, asked, most);
        }
    }
    if asked.plan_ahead == Some(true) && options.salvage == Some(false) {
        wrong.option("plan_ahead", NEEDS_SALVAGE.to_owned());
    }
}

/// What is wrong with planning ahead without salvage.
pub(crate) const NEEDS_SALVAGE: &str =
    "needs salvage, by which the look-ups made ahead are taken up";

/// Options that are said to a simulation which knows only `known`.
pub(crate) fn others<'a>(
    said: &AnswerOptions,
    known: &'a [&str],
) -> impl Iterator<Item = WrongField> + 'a {
    let others = said.said().into_iter();
    let others = others.filter(|(name, _)| !known.contains(name));
    others.map(|(name, _)| WrongField {
        field: name.to_owned(),
        problem: "is nothing that a simulation knows".to_owned(),
    })
}

/// The request's limits and the server's: the stricter one counts.
fn budget(request: &AskRequest, server: Budget, wrong: &mut Wrong) -> Budget {
    let asked = request.budget.unwrap_or_default();
    for (field, zero) in [
        ("budget.time_ms", asked.time_ms == Some(0)),
        ("budget.target_calls", asked.target_calls == Some(0)),
        ("budget.tokens", asked.tokens == Some(0)),
        ("budget.money_micros", asked.money_micros == Some(0)),
    ] {
        if zero {
            wrong.field(
                field,
                "must be at least 1; leave it out for no limit".to_owned(),
            );
        }
    }
    Budget {
        time: stricter(asked.time_ms.map(Duration::from_millis), server.time),
        target_calls: stricter(asked.target_calls, server.target_calls),
        tokens: stricter(asked.tokens, server.tokens),
        money: stricter(asked.money_micros.map(Money), server.money),
    }
}

/// Names of questions are as those of tenants.
fn id(name: &str, tenant: &Tenant, wrong: &mut Wrong) -> Option<QuestionId> {
    if name.is_empty() {
        return None;
    }
    let Ok(name) = Tenant::new(name) else {
        let problem = "has at most 64 letters, digits, full stops, hyphens and underscores";
        wrong.field("question_id", problem.to_owned());
        return None;
    };
    Some(Owned::new(tenant, name))
}

/// Which question of a tenant is meant.
pub(crate) fn question_of(name: &str, tenant: &Tenant) -> Result<QuestionId, AskError> {
    let mut wrong = Wrong(Vec::new());
    let id = id(name, tenant, &mut wrong);
    if id.is_none() && wrong.0.is_empty() {
        wrong.field("question_id", "must name a question".to_owned());
    }
    id.ok_or(AskError::Invalid(wrong.0))
}

fn stricter<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    a.into_iter().chain(b).min()
}

fn speculator(
    asked: Option<&str>,
    offered: &[SpeculatorKind],
    wrong: &mut Wrong,
) -> SpeculatorKind {
    let default = offered.first().copied().unwrap_or(SpeculatorKind::None);
    let Some(name) = asked else {
        return default;
    };
    let found = offered.iter().find(|kind| kind.as_str() == name);
    found.copied().unwrap_or_else(|| {
        let names: Vec<_> = offered.iter().map(|kind| kind.as_str()).collect();
        wrong.option(
            "speculator",
            format!(
                "there is none of this name; this server has {}",
                names.join(", ")
            ),
        );
        default
    })
}

/// Every wrong field so far.
struct Wrong(Vec<FieldViolation>);

impl Wrong {
    fn field(&mut self, field: &str, problem: String) {
        self.0.push(FieldViolation::new(field, problem));
    }

    fn option(&mut self, name: &str, problem: String) {
        self.field(&format!("options.{name}"), problem);
    }

    fn at_most(&mut self, option: &str, number: usize, most: usize) {
        if number > most {
            self.option(option, format!("must be at most {most}, not {number}"));
        }
    }
}
