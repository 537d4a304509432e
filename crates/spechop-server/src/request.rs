//! From the wire to the agent: a request is checked whole, and every mistake reported at once.

use std::num::NonZeroUsize;
use std::time::Duration;

use spechop_agent::{Policy, Settings, Width};
use spechop_ports::Wishes;
use spechop_proto::{AskRequest, FinishNowRequest, VerifierMode};
use spechop_types::{Budget, Chance, Money, Owned, Question, Tenant};
use spechop_verifier::Mode;
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic_types::FieldViolation;

use crate::config::{DRAFTS_MAX, PlanAhead, Questions, SpeculatorKind};
use crate::status::AskError;

/// A request that can be answered.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) settings: Settings,
    pub(crate) speculator: SpeculatorKind,
    /// The client's name for it.
    pub(crate) id: Option<QuestionId>,
    /// k is to be chosen; until then the settings hold the default.
    pub(crate) auto: bool,
    /// Planning ahead is to be done if it pays.
    pub(crate) ahead_if_it_pays: bool,
}

/// What a request is checked against.
pub(crate) struct Rules<'a> {
    pub(crate) questions: &'a Questions,
    /// The speculators that there are, the default one first.
    pub(crate) speculators: &'a [SpeculatorKind],
}

impl Asked {
    /// Checks a request that arrived just now.
    pub(crate) fn read(
        request: &AskRequest,
        metadata: &MetadataMap,
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
        let salvages = policy.orphans_max > 0;
        let verifier = match VerifierMode::try_from(request.verifier) {
            Ok(VerifierMode::Unspecified) => server.verifier,
            Ok(VerifierMode::Exact) => Mode::Exact,
            Ok(VerifierMode::Rule) => Mode::Rule,
            Err(_) => {
                wrong.field("verifier", format!("there is no mode {}", request.verifier));
                server.verifier
            }
        };
        if request.deadline_ms == Some(0) {
            wrong.field("deadline_ms", "must be at least 1".to_owned());
        }
        let budget = budget(request, server.budget, &mut wrong);
        let tenant = tenant(metadata, &mut wrong);
        let id = id(&request.question_id, &tenant, &mut wrong);
        let speculator = speculator(request, rules.speculators, &mut wrong);
        let timeout = only("grpc-timeout", metadata, &mut wrong).and_then(client_timeout);
        let deadline = [
            Some(server.deadline_max),
            request.deadline_ms.map(Duration::from_millis),
            timeout,
        ];
        let quiet = request.quiet || server.is_quiet(&tenant);
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
            tenant,
            deadline: deadline
                .into_iter()
                .flatten()
                .min()
                .map(|limit| Instant::now() + limit),
            limits: server.limits,
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
                auto: request.auto || (server.auto && !named),
                ahead_if_it_pays: request.plan_ahead.is_none()
                    && server.plan_ahead == PlanAhead::Auto
                    && salvages,
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
            None => server.chance_min,
        },
        drafts_max: match request.drafts {
            // None is as good as any number.
            Some(0) => 0,
            drafts => {
                let usual = u32::try_from(server.drafts).unwrap_or(DRAFTS_MAX);
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

/// A client's name for a question, and whose client.
pub(crate) type QuestionId = Owned<Tenant>;

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

/// Which question is meant to be ended.
pub(crate) fn finish_now(
    request: &FinishNowRequest,
    metadata: &MetadataMap,
) -> Result<QuestionId, AskError> {
    let mut wrong = Wrong(Vec::new());
    let tenant = tenant(metadata, &mut wrong);
    let id = id(&request.question_id, &tenant, &mut wrong);
    if id.is_none() && wrong.0.is_empty() {
        wrong.field("question_id", "must name an open question".to_owned());
    }
    id.filter(|_| wrong.0.is_empty())
        .ok_or(AskError::Invalid(wrong.0))
}

/// The metadata key that names the tenant.
pub(crate) const TENANT: &str = "spechop-tenant";

/// On whose behalf a call is made that is no question.
pub(crate) fn caller(metadata: &MetadataMap) -> Result<Tenant, Vec<FieldViolation>> {
    let mut wrong = Wrong(Vec::new());
    let tenant = tenant(metadata, &mut wrong);
    if wrong.0.is_empty() {
        Ok(tenant)
    } else {
        Err(wrong.0)
    }
}

fn tenant(metadata: &MetadataMap, wrong: &mut Wrong) -> Tenant {
    let Some(value) = only(TENANT, metadata, wrong) else {
        return Tenant::default();
    };
    let name = value.to_str().unwrap_or_default();
    Tenant::new(name).unwrap_or_else(|error| {
        wrong.field(TENANT, error.to_string());
        Tenant::default()
    })
}

/// The value of a key that must not be there twice. Nobody can know which of two is meant: a client may
/// have sent one, and a proxy that knows the client the other.
fn only<'a>(
    key: &'static str,
    metadata: &'a MetadataMap,
    wrong: &mut Wrong,
) -> Option<&'a MetadataValue<Ascii>> {
    let mut values = metadata.get_all(key).into_iter();
    let value = values.next();
    if values.next().is_some() {
        wrong.field(key, "must be there once, not more often".to_owned());
    }
    value
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

/// How long before the client's own deadline ours ends, so that the client hears why.
const HEADSTART_MAX: Duration = Duration::from_millis(100);

/// The call's deadline: the `grpc-timeout` header, at most eight digits and a unit.
fn client_timeout(header: &MetadataValue<Ascii>) -> Option<Duration> {
    let header = header.to_str().ok()?;
    let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    let timeout = match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    };
    Some(timeout - HEADSTART_MAX.min(timeout / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_clients_deadline() {
        for (header, expected_ms) in [
            ("20S", Some(19_900)),
            ("100m", Some(90)),
            ("1H", Some(3_599_900)),
            ("2M", Some(119_900)),
            ("10000000u", Some(9_900)),
            ("5", None),
            ("S", None),
            ("", None),
            ("123456789S", None),
            ("-1S", None),
            ("1x", None),
        ] {
            let expected = expected_ms.map(Duration::from_millis);
            let timeout = client_timeout(&header.parse().unwrap());
            assert_eq!(timeout, expected, "{header:?}");
        }
    }
}
