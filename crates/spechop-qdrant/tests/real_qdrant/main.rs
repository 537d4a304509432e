//! A real Qdrant server: searched, filled, killed, stopped, and three of them together.
//!
//! `deploy/test-tools.sh` fetches the server into the data folder. Without it, the tests are left out
//! and say so. If `QDRANT_URL` names a server, the tests that need not harm one ask that one.

mod cluster;
mod faults;
mod labels;
mod server;
mod stores;
mod tls;
mod world;
