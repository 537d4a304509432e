//! Configuration, wiring and gRPC: everything that answers questions over the wire.
//!
//! ```text
//! env, config ─▶ toolbox (models, indexes) ─▶ app ─▶ service ─▶ request ─▶ Agent ─▶ reply, status
//! ```
//!
//! Three doors, each in one file:
//!
//! * The environment is read in `env` only.
//! * Errors become gRPC statuses in `status` only.
//! * Protobuf messages are read in `request` and written in `reply`. Beside these two, only the two
//!   services (`service`, `admin`) and `app`, which registers them, name protobuf types: no model,
//!   no configuration and no account sees one.

mod accounts;
mod admin;
mod app;
mod backends;
pub mod config;
mod cores;
mod drafts;
pub mod encoders;
mod env;
mod hot;
mod inject;
mod intact;
mod memory;
mod metrics;
pub mod model_note;
mod qdrant;
mod reply;
mod request;
mod retrieve;
mod service;
mod simulations;
mod sparingly;
mod state;
mod status;
mod toolbox;
mod transport;
mod tuning;
mod unread;
mod vitals;
mod web;

pub use app::{App, Gauges, ServeError};
pub use drafts::Guarded;
pub use env::Env;
pub use hot::{Counted, HotSubset, NoTraffic, Traffic, read_traffic};
pub use toolbox::{Bare, OpenError, Toolbox, Verified};
