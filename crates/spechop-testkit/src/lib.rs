//! For tests only: scripted ports with seeded delays and failures, and the way to the real models.

pub mod assets;
mod script;

pub use script::{Script, ScriptedHop, ScriptedPorts};
