//! For tests only: scripted ports with seeded delays and failures, the way to the real models, model
//! files small enough to be made up, and seeded damages of files.

pub mod assets;
pub mod damage;
pub mod gguf;
mod script;

pub use script::{Script, ScriptedHop, ScriptedPorts};
