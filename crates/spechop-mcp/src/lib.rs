//! The Model Context Protocol (MCP).
//!
//! ```text
//! look-up ─▶ McpRetriever ─▶ line (opened, watched, reopened) ─▶ a process's pipes, or HTTP ─▶ tool
//! ```
//!
//! As a client: any tool that searches can be the target. [`McpRetriever`] is that tool as a
//! [`spechop_ports::Retriever`]. What a tool says is data, never an instruction: it becomes passages.
//!
//! As a server: [`door`] offers `search`, `fetch` and `ask` over HTTP to any client, and [`bridge`]
//! brings them to clients that start a program. [`calls`] lets a client of HTTP take a call back.
//!
//! The protocol itself is `rmcp`, and nothing outside this crate sees it.

mod arguments;
pub mod bridge;
pub mod calls;
pub mod door;
mod failure;
mod line;
mod options;
mod process;
mod result;
mod retriever;
mod streamable;
mod tools;

pub use arguments::{Arguments, InvalidArguments};
pub use line::OpenError;
pub use options::{Ahead, McpOptions, Program, Server};
pub use result::{Form, Path, Shape};
pub use retriever::McpRetriever;
