//! Events that Open WebUI shows while an answer is on its way: what is looked up, and which passages the answer
//! rests on. They are sent to clients that ask for them.
//!
//! A chunk carries one as `event`, and Open WebUI passes it on to its page as it is
//! (`open_webui/utils/middleware.py`, `process_chat_response`).

use serde_json::{Value, json};
use spechop_proto::Hop;
use spechop_types::one_line;

use super::said::Source;

/// A planner has written this sub-question. It may yet be thrown away.
pub(super) fn looking_up(sub_question: &str) -> Value {
    status(&format!("Looking up: {}", one_line(sub_question)), false)
}

/// A hop is committed.
pub(super) fn found(number: usize, hop: &Hop) -> Value {
    let (asked, found) = (one_line(&hop.sub_question), one_line(&hop.sub_answer));
    status(&format!("{number}. {asked} → {found}"), false)
}

/// The answer is there, and rests on these passages, in the order of its markers.
pub(super) fn ended(hops: usize, sources: &[Source<'_>]) -> Vec<Value> {
    let hops = match hops {
        1 => "1 hop".to_owned(),
        hops => format!("{hops} hops"),
    };
    let status = status(&format!("Answered after {hops}"), true);
    let citations =
        (sources.iter().enumerate()).map(|(at, source)| citation(source, &sources[..at]));
    std::iter::once(status).chain(citations).collect()
}

fn status(description: &str, done: bool) -> Value {
    json!({ "type": "status", "data": { "description": description, "done": done } })
}

/// It takes citations of one address for one, and so it does labels of one name. But there is a marker for each.
fn citation(source: &Source<'_>, before: &[Source<'_>]) -> Value {
    let passage = source.passage;
    let same_url = before.iter().filter(|other| other.url == source.url);
    let url = match same_url.count() {
        0 => source.url.clone(),
        others => format!("{}#{}", source.url, others + 1),
    };
    let same_title = before.iter().map(|other| &other.passage.title);
    let name = match same_title.filter(|other| **other == passage.title).count() {
        0 => passage.title.clone(),
        others => format!("{} ({})", passage.title, others + 1),
    };
    json!({
        "type": "citation",
        "data": {
            "source": { "name": passage.title, "url": source.url },
            "document": [passage.text],
            "metadata": [{ "source": url, "name": name }],
        },
    })
}
