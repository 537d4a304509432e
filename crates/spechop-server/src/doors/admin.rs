//! The admin service: what the server has learnt of a tenant's questions, what another k would have
//! cost, and which calls are running and waiting.

use std::num::NonZeroUsize;
use std::sync::Arc;

use spechop_agent::Width;
use spechop_config::{DRAFTS_MAX, Free, SpeculatorKind};
use spechop_proto as wire;
use spechop_proto::json::WrongField;
use spechop_sim::{Rules, WhatIf, what_if_while};
use spechop_theory::Interval;
use spechop_types::{AnswerOptions, Owned, ms};
use tonic::{Request, Response, Status};
use tonic_types::FieldViolation;

use crate::audit::Findings;
use crate::caller::caller;
use crate::reload::unix_seconds;
use crate::reply;
use crate::request::{NEEDS_SALVAGE, others};
use crate::server_state::ServerState;
use crate::status::AdminError;
use crate::tuning::{Known, Members};

/// The values of k that `WhatIf` tries if the request names none.
const KS: [u32; 6] = [1, 2, 3, 4, 6, 8];
/// The most values of k that one request may try.
const KS_MAX: usize = 16;
/// The largest k that a request may try.
const K_MAX: u32 = 1024;

/// The service behind `spechop.v1.Admin`.
pub(crate) struct Admin {
    state: Arc<ServerState>,
}

impl Admin {
    pub(crate) fn new(state: Arc<ServerState>) -> Self {
        Self { state }
    }

    /// The speculator of this name, the default one for no name.
    fn speculator(&self, name: Option<&str>) -> Result<SpeculatorKind, AdminError> {
        let offered = &self.state.speculators;
        let found = match name {
            None => offered.first(),
            Some(name) => offered.iter().find(|kind| kind.as_str() == name),
        };
        found.copied().ok_or_else(|| {
            let names: Vec<_> = offered.iter().map(|kind| kind.as_str()).collect();
            let offered = names.join(", ");
            AdminError::NoSpeculator { offered }
        })
    }
}

#[tonic::async_trait]
impl wire::admin_server::Admin for Admin {
    async fn get_tuning(
        &self,
        request: Request<wire::GetTuningRequest>,
    ) -> Result<Response<wire::GetTuningResponse>, Status> {
        let tenant = caller(request.metadata().as_ref(), request.extensions())?.tenant;
        let config = self.state.config();
        let is_quiet = config.questions.usual.quiet || config.questions.is_quiet(&tenant);
        let load = self.state.toolbox.load();
        let known = self.state.tunings.known(&tenant, load, is_quiet);
        let tunings = known.iter().map(tuning).collect();
        let found = self.state.audits.counts.of(&tenant);
        let audit = (found.audits > 0).then(|| audit(&found));
        Ok(Response::new(wire::GetTuningResponse { tunings, audit }))
    }

    async fn what_if(
        &self,
        request: Request<wire::WhatIfRequest>,
    ) -> Result<Response<wire::WhatIfResponse>, Status> {
        let tenant = caller(request.metadata().as_ref(), request.extensions())?.tenant;
        let asked = request.into_inner();
        let said = simulated(&asked.options.unwrap_or_default())?;
        let speculator = self.speculator(said.speculator.as_deref())?;
        let tuning = Owned::new(&tenant, speculator);
        let ks = ks(&asked.k)?;
        let config = self.state.config();
        let questions = &config.questions;
        let tunings = Arc::clone(&self.state.tunings);
        let options = questions.options(&said, &tenant);
        let mut policy = questions.simulated(&options);
        if said.plan_ahead == Some(true) && !policy.salvages() {
            let violation = FieldViolation::new("options.plan_ahead", NEEDS_SALVAGE);
            return Err(AdminError::Invalid(vec![violation]).into());
        }
        policy.plan_ahead &= policy.salvages();
        let free = Free::of(&options);
        let orphan_ms = ms(questions.salvage_time);
        // Thousands of simulated questions: not on a thread that others wait for.
        let played = self.state.simulations.run(move |wanted| {
            let guess_chance = tunings.guess_chance(&tuning);
            let history = tunings.history(&tuning);
            let (recorded, draft_chance) = (history.recorded(), history.draft_chance());
            let rules = ks.iter().map(|k| {
                let width = Width::bounded(*k);
                Rules {
                    orphan_ms,
                    guess_chance,
                    draft_chance,
                    ..Rules::new(width, tunings.settled(&tuning, free, width, policy))
                }
            });
            let outcomes = what_if_while(&recorded.traces, rules, wanted)?;
            Some((history.len(), recorded.made_up, outcomes))
        });
        let (questions, filled_in, outcomes) = played.await?;
        Ok(Response::new(wire::WhatIfResponse {
            questions: u32::try_from(questions).unwrap_or(u32::MAX),
            filled_in,
            outcomes: outcomes.iter().map(outcome).collect(),
        }))
    }

    async fn get_backends(
        &self,
        _request: Request<wire::GetBackendsRequest>,
    ) -> Result<Response<wire::GetBackendsResponse>, Status> {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let of = |backend: &spechop_sched::Backend| {
            let gauges = backend.gauges();
            wire::Backend {
                name: backend.name().to_owned(),
                capacity: count(backend.capacity()),
                speculative_places: count(gauges.speculative_places),
                running_authoritative: count(gauges.running_authoritative),
                running_speculative: count(gauges.running_speculative),
                waiting_authoritative: count(gauges.waiting_authoritative),
                waiting_speculative: count(gauges.waiting_speculative),
                started: gauges.started,
                preempted: gauges.preempted,
                promoted: gauges.promoted,
                pushed_back: gauges.pushed_back,
                joined: gauges.joined,
                refused: reply::refusals(&gauges.refused, wire::Stage::Unspecified),
            }
        };
        let backends = self.state.toolbox.backends.iter().map(of).collect();
        let cores = self.state.toolbox.cores.as_ref().map(|cores| {
            let taken = cores.taken();
            wire::Cores {
                count: cores.count().as_cores(),
                authoritative: taken.needed.as_cores(),
                speculative: taken.may_be_wasted().as_cores(),
            }
        });
        Ok(Response::new(wire::GetBackendsResponse { backends, cores }))
    }

    async fn get_configuration(
        &self,
        _request: Request<wire::GetConfigurationRequest>,
    ) -> Result<Response<wire::GetConfigurationResponse>, Status> {
        let reloads = &self.state.reloads;
        let last = reloads.last();
        let (refused, refusal) = last.refused.unzip();
        Ok(Response::new(wire::GetConfigurationResponse {
            generation: reloads.generation(),
            taken_up_at_s: unix_seconds(last.taken),
            refusals: last.refusals,
            refused_at_s: refused.map(unix_seconds),
            refusal: refusal.filter(|_| !last.is_fine).unwrap_or_default(),
            waiting_keys: last.waiting,
        }))
    }
}

/// What the simulator is told of how to play. It knows no other options.
fn simulated(asked: &wire::Options) -> Result<AnswerOptions, AdminError> {
    const KNOWN: [&str; 5] = [
        "speculator",
        "salvage",
        "plan_ahead",
        "chance_min",
        "drafts",
    ];
    let (mut said, mut wrong) = asked.read();
    wrong.extend(others(&said, &KNOWN));
    // Of a hop one draft is recorded at most.
    said.drafts = said.drafts.map(|drafts| drafts.min(DRAFTS_MAX));
    let violation =
        |wrong: WrongField| FieldViolation::new(format!("options.{}", wrong.field), wrong.problem);
    match wrong.is_empty() {
        true => Ok(said),
        false => Err(AdminError::Invalid(
            wrong.into_iter().map(violation).collect(),
        )),
    }
}

fn ks(asked: &[u32]) -> Result<Vec<NonZeroUsize>, AdminError> {
    let asked = if asked.is_empty() { &KS } else { asked };
    let sensible = asked.len() <= KS_MAX && asked.iter().all(|k| (1..=K_MAX).contains(k));
    if !sensible {
        let problem = format!("at most {KS_MAX} numbers from 1 to {K_MAX}");
        let violation = FieldViolation::new("k", problem);
        return Err(AdminError::Invalid(vec![violation]));
    }
    let ks = asked.iter().filter_map(|k| NonZeroUsize::new(*k as usize));
    Ok(ks.collect())
}

fn tuning(known: &Known) -> wire::Tuning {
    let choice = &known.choice;
    wire::Tuning {
        speculator: known.speculator.as_str().to_owned(),
        choice: Some(reply::tuned(choice)),
        p: choice.p.map(estimate),
        alpha: choice.alpha.map(estimate),
        beta: choice.beta.map(estimate),
        nu: choice.setting.map_or(0.0, |setting| setting.nu()),
        hops: known.hops,
        plan_ahead: Some(wire::PlanAhead {
            pays: known.ahead.pays,
            rel_lat_without: known.ahead.without,
            rel_lat_with: known.ahead.with,
        })
        // If the configuration decides, only one of the two was played.
        .filter(|ahead| ahead.rel_lat_without > 0.0 && ahead.rel_lat_with > 0.0),
        drafts: Some(wire::Drafts {
            pay: known.drafts.pay,
            rel_lat_without: known.drafts.without,
            rel_lat_with: known.drafts.with,
        })
        .filter(|drafts| drafts.rel_lat_without > 0.0),
        promises: choice
            .marginal
            .iter()
            .map(|point| wire::Promise {
                k: u32::try_from(point.k.get()).unwrap_or(u32::MAX),
                rel_lat: point.rel_lat,
                extra_targets: point.extra_targets,
            })
            .collect(),
        members: members(&known.members),
        calls: known.calls,
    }
}

fn audit(found: &Findings) -> wire::AuditFindings {
    wire::AuditFindings {
        audits: found.audits,
        differing: found.differing,
        divergence: found.divergence().map(estimate),
        accepts: found.accepts,
        false_accepts: found.false_accepts,
        false_acceptance: found.false_acceptance().map(estimate),
    }
}

fn estimate(estimate: Interval) -> wire::Estimate {
    wire::Estimate {
        value: estimate.value,
        low: estimate.low,
        high: estimate.high,
    }
}

fn members(of: &Members) -> Vec<wire::Member> {
    let member = |(speculator, (guesses, accepted)): (&String, &(u64, u64))| wire::Member {
        speculator: speculator.clone(),
        guesses: *guesses,
        accepted: *accepted,
    };
    of.iter().map(member).collect()
}

fn outcome(what_if: &WhatIf) -> wire::Outcome {
    let k = what_if.width.get().map_or(usize::MAX, NonZeroUsize::get);
    wire::Outcome {
        k: u32::try_from(k).unwrap_or(u32::MAX),
        mean_ms: what_if.latency_ms,
        rel_lat: what_if.rel_lat,
        segments: what_if.segments,
        targets: what_if.targets,
        speculations: what_if.speculations,
        salvaged: what_if.salvaged,
        foreseen: what_if.foreseen,
    }
}
