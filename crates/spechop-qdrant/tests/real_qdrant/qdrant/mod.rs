//! In a module of this name, so that all of them can be left out by it.

mod cluster;
mod faults;
mod labels;
mod memory;
mod server;
mod stores;
mod tls;
mod world;
