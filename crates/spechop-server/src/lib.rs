//! Configuration, wiring and gRPC: everything that answers questions over the wire.
//!
//! ```text
//! env, config ─▶ toolbox (models, indexes) ─▶ app ─▶ service ─▶ request ─▶ Agent ─▶ reply, status
//! ```
//!
//! Protobuf types come no further than `request` and `reply`; errors become statuses in `status`
//! only; the environment is read in `env` only.

mod accounts;
mod admin;
mod app;
mod backends;
pub mod config;
mod env;
mod inject;
mod metrics;
mod reply;
mod request;
mod service;
mod status;
mod toolbox;
mod tuning;

pub use app::{App, Gauges, ServeError};
pub use env::Env;
pub use toolbox::{Bare, OpenError, Toolbox};
