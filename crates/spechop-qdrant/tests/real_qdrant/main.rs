//! A real Qdrant server: searched, filled, killed, stopped, and three of them together.
//!
//! `deploy/test-tools.sh` fetches the server into the data folder. Without it, the tests are left out
//! and say so. If `QDRANT_URL` names a server, the tests that do it no harm ask that one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "assertions of tests")]

mod qdrant;
