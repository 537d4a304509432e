//! Drives one question for real: carries out the effects of the window with models and a clock.
//!
//! `spechop-window` decides what to do, and its documentation explains the algorithm. This crate
//! does it. [`Agent::answer`] is the loop.
//!
//! ```text
//! agent     the loop: take an effect and carry it out; without effects, wait for news
//!  └ run        one question: its window, its notes about branches and look-ups, its trace
//!     ├ running     the stages under way, as futures, and every time limit
//!     ├ stages      a segment, a target call, a guess or a draft, as calls of ports
//!     └ ledger      what the calls have cost, used and wasted apart; the budget
//! ```
//!
//! # Why one future
//!
//! [`Agent::answer`] is a single future that owns every stage of its question. No stage is spawned.
//! If the future is dropped, every call is cancelled, and no stage can outlive its question (law 9).
//!
//! # What it costs
//!
//! One thread at a time polls all stages of a question. A port that blocked would stop all of its
//! branches, so every port promises not to block (`spechop_ports`, "four promises"). Whatever
//! computes has threads of its own.
//!
//! `spechop-agent` never sees tonic, prost, reqwest or ort: the world is `spechop-ports`.

mod agent;
mod confidence;
mod error;
mod few;
mod hand_over;
mod journal;
mod ledger;
mod notes;
mod report;
mod run;
mod running;
mod search;
mod settings;
mod stages;
mod trace;

pub use agent::{Agent, Ports};
pub use confidence::Confidence;
pub use error::AgentError;
pub use journal::{CallEnd, CallNote, CommittedLookup, Journal, Notes, Origin, TakenOver};
pub use report::{
    Calls, Cost, FirstAnswer, HopReport, ProviderChanges, Report, StageTimes, Stopped, Usage,
};
pub use settings::{
    Bill, Due, Finish, Hidden, Policy, Prices, ReliabilityCurve, Settings, StageLimits, Weighing,
    Width,
};
pub use trace::{TraceEvent, TraceKind};
