//! Every call's turn: who may call a backend now, who waits, and who makes room.
//!
//! * [`Lanes`] decides, and is pure: no clock, no tasks, no randomness. [`laws`] names what holds
//!   after each of its steps.
//! * [`Group`] joins the lanes of backends that compute on the same cores, and is pure, too:
//!   speculation starts on idle cores alone. [`Cores`] is the handle to such a group.
//! * [`Pressure`] takes the speculative lane from a backend that asks for less.
//! * [`Backend`] carries the decisions out: a call takes its turn, runs, and is dropped if it has to
//!   make room.
//! * [`Kind`] says what a call ahead of need is worth, by the measured times of calls of its kind.
//! * [`Flights`] lets identical calls of one tenant share one run.
//! * [`Eligibility`] says which tools may be called ahead of need. Unknown tools may not.
//! * The decorators ([`Scheduled`] and [`ScheduledRetriever`]) put all of it in front of a port.

mod backend;
mod bucket;
mod counts;
mod eligibility;
mod flight;
mod group;
mod lanes;
pub mod laws;
mod load;
mod pressure;
mod scheduled;
mod search;
mod slot;
mod ticket;
mod turn;
mod worth;

pub use backend::{Backend, Cores};
pub use bucket::{InvalidRate, Rate};
pub use counts::{Counts, Gauges};
pub use eligibility::{Eligibility, Grade, Idempotence, Mistake, Mistakes, Rule};
pub use flight::Flights;
pub use group::{CROWDED, CoreUse, Demand, Group, Millicores};
pub use lanes::Lanes;
pub use pressure::Pressure;
pub use scheduled::{Scheduled, ScheduledRetriever};
pub use ticket::{Decision, Decisions, Limits, Outcome, Phase, Rank, Ticket};
pub use worth::Kind;
