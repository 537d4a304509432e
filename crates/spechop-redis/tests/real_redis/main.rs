//! A real Redis: asked, killed, stopped, behind a password and behind TLS.
//!
//! `deploy/test-tools.sh` fetches the server into the data folder. Without it, the tests are left out and say
//! so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "assertions of tests")]

mod redis;
