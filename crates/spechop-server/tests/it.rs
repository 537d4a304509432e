//! The server over real sockets, with scripted ports behind it.

mod access;
mod accounts;
mod any_form;
mod ask;
mod bad_input;
mod begun_anew;
mod cancel;
mod chaos;
mod chat;
mod conversation;
mod damage;
mod effort;
mod embeddings;
#[path = "support/endpoints.rs"]
mod endpoints;
mod error_forms;
#[path = "support/followed.rs"]
mod followed;
mod heads;
mod http;
#[path = "support/keys.rs"]
mod keys;
#[path = "support/lines.rs"]
mod lines;
mod mcp;
mod memory;
mod missing_index;
mod mutated;
mod one_door;
mod orders;
#[path = "support/over_http.rs"]
mod over_http;
mod page;
#[path = "support/pki.rs"]
mod pki;
#[path = "support/receiver.rs"]
mod receiver;
mod reflection;
mod reload;
mod reload_callers;
mod resume;
mod retrieve;
mod secrets;
mod shared_look_ups;
mod shutdown;
#[path = "support/sites.rs"]
mod sites;
mod stream;
mod support;
mod tenants;
mod tls;
mod tokens;
mod tool_cache;
mod trace_log;
mod traces;
mod transport;
mod tuning;
mod unread;
mod waiting;
mod warnings;
mod web;
mod wishes;
