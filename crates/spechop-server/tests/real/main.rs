//! The server with nothing scripted but what a test says: real models, real indexes, real clients.
//! `make test` pulls and installs them and then runs this target; plain `cargo test` leaves it out.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod answers;
mod broken_parts;
mod documented;
mod doors;
mod effort;
mod mcp_host;
mod off_form;
mod openai_client;
#[path = "../support/over_http.rs"]
mod over_http;
mod page;
mod python_client;
mod replicas;
mod shared_look_ups;
#[path = "../support/mod.rs"]
mod support;
mod tool_cache;
mod two_servers;
mod unmodified_client;
