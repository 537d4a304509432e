//! The OpenAI-compatible client against servers that misbehave on purpose.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod counts;
mod drafts;
mod faults;
mod proxies;
mod request_forms;
mod streams;
mod whole;

use std::time::Duration;

use serde_json::json;
use spechop_llm::{Chat, ChatEndpoint, Generation, Message, OpenAiModel, Prompt, Role};
use spechop_ports::retry::Retries;

const KEY: &str = "sk-very-secret";

/// An endpoint with quick retries.
fn endpoint(base_url: &str) -> ChatEndpoint {
    let mut endpoint = ChatEndpoint::new(base_url, "tiny");
    endpoint.key = Some(KEY.into());
    endpoint.retries = Retries {
        max: 3,
        pause: Duration::from_millis(1),
        pause_max: Duration::from_millis(2),
    };
    endpoint
}

fn model(base_url: &str) -> OpenAiModel {
    OpenAiModel::new(&endpoint(base_url)).unwrap()
}

/// A conversation that ends with a closing `</answer>`.
fn generation() -> Generation {
    Generation {
        prompt: Prompt::Chat(Chat {
            messages: vec![Message {
                role: Role::User,
                text: "Who directed the film?".into(),
            }],
            fixed: 0,
        }),
        tokens_max: 8,
        stop: &["</answer>"],
        drafts: Vec::new(),
        sample: 0,
    }
}

/// One event of a stream that adds `text`.
fn delta(text: &str) -> String {
    event(&json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}))
}

/// The events that end a stream.
fn ending(reason: &str) -> String {
    let finish = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 3}});
    event(&finish) + &event(&usage) + "data: [DONE]\n\n"
}

fn event(data: &serde_json::Value) -> String {
    format!("data: {data}\n\n")
}
