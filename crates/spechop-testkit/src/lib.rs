//! For tests only: scripted ports with seeded delays and failures, the way to the real models, and
//! model files small enough to be made up.

pub mod assets;
pub mod gguf;
mod script;

pub use script::{Script, ScriptedHop, ScriptedPorts};
