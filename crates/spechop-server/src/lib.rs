//! Configuration, wiring and gRPC: everything that answers questions over the wire.
//!
//! ```text
//! env, config ─▶ toolbox (models, indexes) ─▶ app ─▶ service ─▶ request ─▶ Agent ─▶ reply, status
//! ```
//!
//! Protobuf types come no further than `request` and `reply`; errors become statuses in `status`
//! only; the environment is read in `env` only.

mod app;
pub mod config;
mod env;
mod inject;
mod reply;
mod request;
mod service;
mod status;
mod toolbox;

pub use app::{App, Gauges, ServeError};
pub use env::Env;
pub use toolbox::{OpenError, Toolbox};
