//! Search and pages, against local servers that say what they are told to.

mod http_encoder;
mod http_retriever;
mod look_up;
mod pages;
mod proxy;
mod robots;
mod search;
mod ssrf;
mod support;
