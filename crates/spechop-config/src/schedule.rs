//! How calls get their turns, what they cost, and what tenants may spend.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use spechop_agent::Prices;
use spechop_sched::{Eligibility, Limits, Millicores, Rate};
use spechop_theory::TunerOptions;
use spechop_types::{Money, Price};

use super::keys::Keys;
use super::qdrant::Qdrant;
use super::{Engine, Model, Scheduler};

/// What a tenant may spend. `None` is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// After this everything is as new.
    pub period: Duration,
    /// Time of questions, one after the other.
    pub time: Option<Duration>,
    /// Target calls.
    pub target_calls: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Money.
    pub money: Option<Money>,
}

/// A call that computes on this machine keeps its worker busy; a second one waits ready behind it.
const OWN_READER: usize = 2;
/// The encoder takes many queries in one run, and the scan is short.
const INDEX: usize = 16;
/// Many servers of MCP answer one call after the other.
const MCP: usize = 8;
/// A look-up that only waits needs nothing but memory.
const SLOW_INDEX: usize = 256;

pub(super) fn scheduler(
    keys: &mut Keys<'_>,
    generator: &Model,
    reader: Option<&Model>,
    guesser: Option<&Model>,
    look_ups_wait: bool,
    state_dir: &Path,
) -> Scheduler {
    let index = if look_ups_wait { SLOW_INDEX } else { INDEX };
    Scheduler {
        generator: model_lanes(keys, "generator", Some(generator)),
        reader: model_lanes(keys, "reader", reader),
        retriever: lanes(keys, "retriever", index),
        web: lanes(keys, "web", SLOW_INDEX),
        http: lanes(keys, "http", INDEX),
        qdrant: lanes(keys, "qdrant", Qdrant::AT_ONCE.get()),
        mcp: lanes(keys, "mcp", MCP),
        speculator: model_lanes(keys, "speculator", guesser),
        cores: cores(keys),
        eligibility: eligibility(keys),
        tuner: tuner(keys),
        history: keys.count("tuning.history"),
        state: state(keys, state_dir),
    }
}

/// How many cores the engines in this process share. A machine may have half a one, but not none.
fn cores(keys: &mut Keys<'_>) -> Option<Millicores> {
    if keys.is("scheduler.cores", "auto") {
        return None;
    }
    let cores = keys.number("scheduler.cores")?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the range above"
    )]
    let millis = (cores * 1000.0).round() as u32;
    Some(Millicores(millis))
}

/// Where what was learnt is kept.
fn state(keys: &mut Keys<'_>, state_dir: &Path) -> Option<PathBuf> {
    if keys.is("tuning.state", "none") {
        return None;
    }
    let named = keys.path("tuning.state");
    Some(named.unwrap_or_else(|| state_dir.join("tuning.json")))
}

/// What the model's engine takes at once.
fn at_once(model: &Model) -> usize {
    match &model.engine {
        Engine::Local(options) => options.sequences as usize,
        Engine::OpenAi(endpoint) => endpoint.requests_max.get(),
    }
}

/// Lanes for a model without keys of its own.
pub fn lanes_of(model: &Model) -> Limits {
    let capacity = NonZeroUsize::new(at_once(model)).unwrap_or(NonZeroUsize::MIN);
    Limits {
        capacity,
        rate: None,
        speculative_max: capacity.get(),
    }
}

/// Lanes for a model, or for our own reader if there is none.
fn model_lanes(keys: &mut Keys<'_>, name: &str, model: Option<&Model>) -> Limits {
    let lanes = lanes(keys, name, model.map_or(OWN_READER, at_once));
    if let Some(Engine::OpenAi(endpoint)) = model.map(|model| &model.engine)
        && lanes.capacity > endpoint.requests_max
    {
        // The calls beyond it would wait for the endpoint, where nobody lets the needed ones pass.
        let most = endpoint.requests_max;
        let problem =
            format!("the endpoint takes {most} requests at once: lower it, or raise requests_max");
        keys.mistake(&format!("scheduler.{name}.capacity"), problem);
    }
    lanes
}

pub(super) fn lanes(keys: &mut Keys<'_>, name: &str, at_once: usize) -> Limits {
    lanes_at(keys, name, at_once, None)
}

/// Lanes for something that wants to be asked slowly.
pub(super) fn lanes_at(
    keys: &mut Keys<'_>,
    name: &str,
    at_once: usize,
    usual: Option<Rate>,
) -> Limits {
    let key = |what: &str| format!("scheduler.{name}.{what}");
    let capacity = keys.count_or(&key("capacity"), at_once);
    let per_second = keys.number(&key("per_second"));
    let burst = keys.small_if(&key("burst"));
    if burst.is_some() && per_second.is_none() {
        keys.mistake(&key("per_second"), "a burst needs a rate");
    }
    let speculative = keys.integer(&key("speculative_max"));
    Limits {
        capacity,
        rate: match per_second {
            Some(per_second) => {
                let burst = burst.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
                Rate::per_second(per_second, burst).ok()
            }
            None => usual,
        },
        speculative_max: speculative
            .and_then(|most| usize::try_from(most).ok())
            .unwrap_or(capacity.get()),
    }
}

/// Which tools may be called ahead of need: the shipped policy, or a file in its place.
fn eligibility(keys: &mut Keys<'_>) -> Eligibility {
    let Some(path) = keys.path("scheduler.policy") else {
        return Eligibility::shipped();
    };
    let read = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    let parsed = read.and_then(|text| Eligibility::parse(&text).map_err(|e| e.to_string()));
    parsed.unwrap_or_else(|problem| {
        keys.mistake("scheduler.policy", format!("{}: {problem}", path.display()));
        Eligibility::shipped()
    })
}

fn tuner(keys: &mut Keys<'_>) -> TunerOptions {
    TunerOptions {
        k_max: keys.count("tuning.k_max"),
        epsilon: keys.number("tuning.epsilon").unwrap_or_default(),
        min_gain: keys.number("tuning.gain_min").unwrap_or_default(),
        worth: keys.number("tuning.call_worth").unwrap_or_default(),
        calls_max: keys.number("tuning.calls_max").unwrap_or(f64::INFINITY),
        half_life: keys.number("tuning.half_life").unwrap_or_default(),
        probe_every: keys.small("tuning.probe_every"),
        ..TunerOptions::default()
    }
}

pub(super) fn prices(keys: &mut Keys<'_>) -> Prices {
    let mut of = |stage: &str| {
        let mut amount = |what: &str| {
            let key = format!("prices.{stage}.{what}_micros");
            Money(keys.integer(&key).unwrap_or_default())
        };
        Price {
            call: amount("call"),
            prompt_million: amount("prompt_million"),
            completion_million: amount("completion_million"),
        }
    };
    Prices {
        segment: of("segment"),
        target: of("target"),
        speculation: of("speculation"),
        draft: of("draft"),
    }
}

/// What each tenant may spend in a period; `None` where nothing is limited.
pub(super) fn allowance(keys: &mut Keys<'_>) -> Option<Allowance> {
    let period = keys.integer("tenant.period_s");
    let mut limit = |name: &str| keys.integer(&format!("tenant.{name}"));
    let allowance = Allowance {
        period: Duration::from_secs(period.unwrap_or_default()),
        time: limit("time_ms").map(Duration::from_millis),
        target_calls: limit("target_calls"),
        tokens: limit("tokens"),
        money: limit("money_micros").map(Money),
    };
    let limits = [
        allowance.time.map(|time| time.as_secs()),
        allowance.target_calls,
        allowance.tokens,
        allowance.money.map(|money| money.0),
    ];
    limits.iter().any(Option::is_some).then_some(allowance)
}
