//! From the wire to the agent: a request is checked whole, and every mistake reported at once.

use std::num::NonZeroUsize;
use std::time::Duration;

use spechop_agent::{Policy, Settings, Width};
use spechop_ports::Wishes;
use spechop_proto::{AskRequest, VerifierMode};
use spechop_types::{Budget, Chance, Money, Owned, Question, Tenant};
use spechop_verifier::Mode;
use tokio::time::Instant;
use tonic_types::FieldViolation;

use crate::config::{DRAFTS_MAX, PlanAhead, Questions, SpeculatorKind};
use crate::questions::QuestionId;
use crate::status::AskError;
use crate::tuning::Free;

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
        let hops_max = wrong.within(
            "hop_budget",
            request.hop_budget,
            server.hops,
            server.hops_max,
        );
        let passages = wrong.count(
            "top_passages",
            request.top_passages,
            server.passages,
            server.passages_max,
        );
        let width = width(request, hops_max, server, &mut wrong);
        let policy = policy(request, server, &mut wrong);
        let verifier = match VerifierMode::try_from(request.verifier) {
            Ok(VerifierMode::Unspecified) => server.verifier,
            Ok(VerifierMode::Exact) => Mode::Exact,
            Ok(VerifierMode::Rule) => Mode::Rule,
            Ok(VerifierMode::Paper) => Mode::Paper,
            Err(_) => {
                wrong.field("verifier", format!("there is no mode {}", request.verifier));
                server.verifier
            }
        };
        if request.deadline_ms == Some(0) {
            wrong.field("deadline_ms", "must be at least 1".to_owned());
        }
        let budget = budget(request, server.budget, &mut wrong);
        let id = id(&request.question_id, tenant, &mut wrong);
        let speculator = speculator(request, rules.speculators, &mut wrong);
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
        let quiet = request.quiet || server.is_quiet(tenant);
        let settings = Settings {
            width,
            policy,
            orphan_time: server.salvage_time,
            hops_max,
            not_found_max: request.not_found_max.unwrap_or(server.not_found_max),
            passages,
            verifier,
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
            wishes: Wishes {
                fresh: request.fresh,
                quiet,
            },
            ..Settings::default()
        };
        let named = request.k.is_some() || request.unbounded;
        match question {
            Ok(question) if wrong.0.is_empty() => Ok(Self {
                question,
                settings,
                speculator,
                id,
                linger,
                free: Free {
                    k: request.auto || (server.auto && !named),
                    plan_ahead: request.plan_ahead.is_none()
                        && server.plan_ahead == PlanAhead::Auto,
                    gate: request.chance_min.is_none() && server.chance_min.is_none(),
                    drafts: request.drafts.is_none() && server.drafts.is_none(),
                },
            }),
            _ => Err(AskError::Invalid(wrong.0)),
        }
    }
}

fn width(request: &AskRequest, hops_max: u32, server: &Questions, wrong: &mut Wrong) -> Width {
    if request.auto && (request.k.is_some() || request.unbounded) {
        wrong.field("auto", "excludes k and unbounded".to_owned());
    }
    match (request.k, request.unbounded) {
        (Some(_), true) => {
            wrong.field("unbounded", "excludes k".to_owned());
            server.width
        }
        (None, true) => {
            // More branches than hops and an answer cannot be: unbounded is no more than that.
            if server.k_max.get() <= hops_max as usize {
                let max = server.k_max;
                wrong.field("unbounded", format!("this server takes k up to {max}"));
            }
            Width::UNBOUNDED
        }
        (None, false) => server.width,
        (Some(_), false) => {
            Width::bounded(wrong.count("k", request.k, NonZeroUsize::MIN, server.k_max))
        }
    }
}

fn policy(request: &AskRequest, server: &Questions, wrong: &mut Wrong) -> Policy {
    let salvage = request.salvage.unwrap_or(server.salvage);
    if request.plan_ahead == Some(true) && !salvage {
        let problem = "needs salvage, by which the look-ups made ahead are taken up";
        wrong.field("plan_ahead", problem.to_owned());
    }
    Policy {
        orphans_max: if salvage { server.salvage_max.get() } else { 0 },
        plan_ahead: request
            .plan_ahead
            .unwrap_or(server.plan_ahead == PlanAhead::On),
        guesses_max: wrong.count(
            "guesses",
            request.guesses,
            server.guesses,
            server.guesses_max,
        ),
        chance_min: match request.chance_min {
            Some(share) => wrong.chance("chance_min", share),
            None => server.chance_min.unwrap_or(Chance::NONE),
        },
        drafts_max: match request.drafts {
            // None is as good as any number.
            Some(0) => 0,
            drafts => {
                let usual = server.drafts.unwrap_or(0);
                let usual = u32::try_from(usual).unwrap_or(DRAFTS_MAX);
                wrong.within("drafts", drafts, usual, DRAFTS_MAX) as usize
            }
        },
        draft_guesses: server.draft_guesses,
        ..Policy::PAPER
    }
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
    request: &AskRequest,
    offered: &[SpeculatorKind],
    wrong: &mut Wrong,
) -> SpeculatorKind {
    let default = offered.first().copied().unwrap_or(SpeculatorKind::None);
    let Some(name) = request
        .speculator
        .as_deref()
        .filter(|name| !name.is_empty())
    else {
        return default;
    };
    let found = offered.iter().find(|kind| kind.as_str() == name);
    found.copied().unwrap_or_else(|| {
        let names: Vec<_> = offered.iter().map(|kind| kind.as_str()).collect();
        wrong.field(
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

    /// A field from 1 to `max`, or its default.
    fn within(&mut self, field: &str, value: Option<u32>, default: u32, max: u32) -> u32 {
        match value {
            None => default,
            Some(value) if (1..=max).contains(&value) => value,
            Some(value) => {
                self.field(field, format!("must be from 1 to {max}, not {value}"));
                default
            }
        }
    }

    /// A share from 0 to 1.
    fn chance(&mut self, field: &str, share: f64) -> Chance {
        if !(0.0..=1.0).contains(&share) {
            self.field(field, format!("must be from 0 to 1, not {share}"));
        }
        Chance::of(share)
    }

    /// [`Wrong::within`] for what counts things in memory.
    fn count(
        &mut self,
        field: &str,
        value: Option<u32>,
        default: NonZeroUsize,
        max: NonZeroUsize,
    ) -> NonZeroUsize {
        let limit = u32::try_from(max.get()).unwrap_or(u32::MAX);
        let chosen = value.map(|_| self.within(field, value, 1, limit));
        chosen
            .and_then(|chosen| NonZeroUsize::new(chosen as usize))
            .unwrap_or(default)
    }
}
