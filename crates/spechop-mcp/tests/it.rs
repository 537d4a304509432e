//! The client of MCP servers, against servers that are scripted.

mod bridge;
mod over_http;
mod scripted;
