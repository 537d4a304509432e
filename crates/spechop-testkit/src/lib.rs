//! For tests only: scripted ports with seeded delays and failures, the way to the real models, model
//! files small enough to be made up, seeded damages of files, and frames of HTTP/2.

mod alike;
pub mod assets;
mod cells;
pub mod damage;
mod entries;
pub mod frames;
pub mod gguf;
mod home;
pub mod llama_server;
mod redis_server;
mod script;

pub use alike::Alike;
pub use cells::CellMap;
pub use entries::SharedMap;
pub use home::fill_home;
pub use redis_server::RedisServer;
pub use script::{Script, ScriptedHop, ScriptedPorts};
