//! Drives one question for real: carries the window's effects out with tokio.
//!
//! [`Agent::answer`] is a single future that owns every stage of its question. Nothing is spawned:
//! dropping it cancels every call, and no task can outlive its question (law 9).
//!
//! `spechop-agent` never sees tonic, prost, reqwest or ort: the world is `spechop-ports`.

mod agent;
mod error;
mod few;
mod ledger;
mod notes;
mod report;
mod run;
mod running;
mod settings;
mod stages;
mod trace;

pub use agent::{Agent, Ports};
pub use error::AgentError;
pub use report::{Calls, Cost, HopReport, Report, StageTimes, Stopped, Usage};
pub use settings::{Bill, Finish, Policy, Prices, Settings, StageLimits, Width};
pub use spechop_types::Stage;
pub use trace::{TraceEvent, TraceKind};
