//! Wiring and the doors: everything that answers questions over the wire. What an operator may set is in
//! [`spechop_config`].
//!
//! ```text
//! toolbox, questions ─▶ server_state ─▶ admission ─▶ events ─▶ doors ─▶ app
//!                                           │
//!                          request ─▶ Agent ┴▶ reply, status
//! ```
//!
//! Each of these uses what stands to its left, and none what stands to its right.
//!
//! Three things happen in one file each:
//!
//! * Errors of a question become statuses, of gRPC and of HTTP, in `status` only. A door that serves files
//!   says by itself that one is not found.
//! * Protobuf messages of a question are read in `request` and written in `reply`; the doors of `Admin` and
//!   of `WhatIf` translate their own. Beside these, only `questions`, `admission`, `events`, `app`, which
//!   asks the server itself, the JSON form of errors and the doors name protobuf types: no model and no
//!   account sees one.
//! * Who asks is read in `caller` only.

mod accounts;
mod admission;
mod app;
mod audit;
mod backends;
mod caller;
mod chaos;
mod cores;
mod doors;
mod drafts;
mod embedder;
pub mod encoders;
mod events;
mod finder;
mod gcra;
mod hot;
mod html;
mod inject;
mod intact;
mod json_object;
mod jwt;
mod keys;
mod links;
mod mcp;
mod memory;
mod metrics;
pub mod model_note;
mod outage;
mod outcome;
mod places;
mod qdrant;
mod questions;
mod readiness;
mod reload;
mod reply;
mod request;
mod server_state;
mod shares;
mod simulations;
mod spans;
mod sse;
mod state;
mod status;
mod tool_cache;
mod toolbox;
mod transport;
mod tuning;
mod vitals;
mod web;

pub use app::{App, Gauges, ServeError};
pub use drafts::Guarded;
pub use hot::{Counted, HotSubset, NoTraffic, Traffic, read_traffic};
#[doc(hidden)]
pub use metrics::Counting;
pub use reload::Reloading;
pub use toolbox::{Bare, OpenError, Toolbox, Verified};
pub use transport::{TransportFailure, raise_open_files};
