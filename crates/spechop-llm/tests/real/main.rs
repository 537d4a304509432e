//! Language models that are real: SmolLM2-135M in this process, and behind llama.cpp's own server.
//! `make test` fetches both and then runs this target; plain `cargo test` leaves it out.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests"
)]

mod adapter;
mod drafts;
mod local;
mod merged;
mod metered;
mod model;
mod rewriting;
mod server;
mod texts;
mod tool_outputs;
mod twice;
mod workers;
