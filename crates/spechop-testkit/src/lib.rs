//! For tests only: scripted ports with seeded delays and failures, encoders without a model, the way to
//! the real models, model files small enough to be made up, seeded damages of files, frames of HTTP/2, and
//! what tests and benchmarks of several packages would each write themselves.

pub mod assets;
mod bench;
mod cells;
pub mod damage;
mod entries;
pub mod frames;
pub mod gguf;
mod home;
pub mod llama_server;
mod passage;
mod port;
mod redis_server;
mod script;
mod text_vectors;
mod wait;

pub use bench::bench_arguments;
pub use cells::CellMap;
pub use entries::SharedMap;
pub use home::fill_home;
pub use passage::passage;
pub use port::OwnPort;
pub use redis_server::RedisServer;
pub use script::{Script, ScriptedHop, ScriptedPorts};
pub use text_vectors::TextVectors;
pub use wait::eventually;
