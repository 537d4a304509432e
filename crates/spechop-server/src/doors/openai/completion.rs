//! An answer in OpenAI's form, whole or in chunks.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::request::Parts;
use axum::response::Response;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use spechop_proto::AskResponse;
use spechop_proto::ask_event::Event;
use spechop_types::one_line;
use tokio::sync::oneshot;

use super::asked::Asked;
use super::said::{Citing, hop_line, hop_lines, ours, usage};
use super::{error_body, json_body, open_webui, refused};
use crate::admission::{Admission, Admitted, Resolved};
use crate::caller::caller;
use crate::doors::{HANDED_OVER, named};
use crate::events::{self, Events};
use crate::links::Links;
use crate::reply;
use crate::sse;
use crate::status::AskError;

/// The end of a stream.
const DONE: &str = "data: [DONE]\n\n";

/// Answers chats.
pub(super) struct Chat {
    admission: Admission,
    links: Links,
}

impl Chat {
    pub(super) fn new(admission: Admission) -> Self {
        let links = Links::of(&admission.state().config().server);
        Self { admission, links }
    }

    pub(super) async fn complete(&self, head: &Parts, body: &[u8]) -> Response {
        let state = self.admission.state();
        let read = caller(&head.headers, &head.extensions).and_then(|caller| {
            let k_max = state.config().questions.k_max;
            Ok((caller, Asked::read(body, &head.headers, k_max)?))
        });
        let (caller, mut asked) = match read {
            Ok(read) => read,
            Err(error) => {
                self.admission.refused(&error);
                return refused(&error);
            }
        };
        let admitted = self.admission.admit(&asked.request, &caller, None);
        let mut admitted = match admitted.await {
            Ok(admitted) => admitted,
            Err(error) => return refused(&error),
        };
        let name = admitted.name().to_owned();
        let may_be_followed = asked.stream || admitted.may_be_followed;
        let resolved = match std::mem::take(&mut asked.turns) {
            turns if turns.is_empty() => None,
            turns => Some(admitted.converse(turns)),
        };
        let base = self.links.base(head);
        let completion = Completion {
            id: format!("chatcmpl-{name}"),
            created: now(),
            asked,
            citing: Citing {
                base: base.filter(|_| state.toolbox.passages.is_some()),
            },
        };
        let answered = match completion.asked.stream {
            true => completion.stream(admitted, resolved),
            false => completion.whole(admitted, resolved).await,
        };
        let answered = answered.unwrap_or_else(|error| refused(&error));
        named(answered, may_be_followed.then_some(name.as_str()))
    }
}

/// What became of a conversation, if there is one.
type WhatBecame = Option<oneshot::Receiver<Resolved>>;

/// What the client should know of its conversation; nothing before anything has become of it.
fn note(resolved: &mut WhatBecame) -> Option<String> {
    const ALONE: &str = "Only the last message was asked: ";
    match resolved.as_mut()?.try_recv().ok()? {
        Resolved::Rewritten(question) => Some(format!("Asked: {question}\n")),
        Resolved::Complete => None,
        Resolved::Unable => Some(format!(
            "{ALONE}earlier turns of the conversation are not read.\n"
        )),
        Resolved::Failed(reason) => Some(format!(
            "{ALONE}the earlier turns could not be put into it ({}).\n",
            one_line(&reply::words(&reason))
        )),
    }
}

/// Said before the hops of the first planner if the fallback came to nothing: for then they are the answer's
/// after all.
const TAKEN_BACK: &str = "The fallback has no answer: what was told before it counts.\n";

/// An answer on its way.
struct Completion {
    id: String,
    created: u64,
    asked: Asked,
    citing: Citing,
}

/// What a client has heard of a stream so far.
#[derive(Default)]
struct Heard {
    /// Of which it hears, too.
    resolved: WhatBecame,
    /// Hops that count, as far as it knows.
    hops: usize,
    /// That the fallback begins anew.
    handed_over: bool,
}

impl Completion {
    async fn whole(
        self,
        admitted: Admitted,
        mut resolved: WhatBecame,
    ) -> Result<Response, Arc<AskError>> {
        let answer = events::answer(admitted).await?;
        let mut reasoning = note(&mut resolved).unwrap_or_default();
        if answer.handed_over.is_some() {
            reasoning += HANDED_OVER;
            reasoning.push('\n');
        }
        reasoning += &hop_lines(&answer.hops);
        let said = self.citing.said(&answer);
        let message = json!({
            "role": "assistant",
            "content": said.text(self.asked.show.footer),
            "refusal": null,
            "reasoning_content": reasoning,
            "annotations": said.annotations(),
        });
        let choice = json!({
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": "stop",
        });
        Ok(json_body(&json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.asked.model,
            "choices": [choice],
            "usage": usage(&answer),
            "spechop": ours(&answer),
        })))
    }

    fn stream(self, admitted: Admitted, resolved: WhatBecame) -> Result<Response, Arc<AskError>> {
        let events = Events::of(admitted)?;
        let first = self.chunk(&json!({ "role": "assistant", "content": "" }), None);
        let mut heard = Heard {
            resolved,
            ..Heard::default()
        };
        let rest = events.flat_map(move |event| {
            // It is known before anything else happens to the question.
            let note = note(&mut heard.resolved).map(|note| self.reasoning(&note));
            let mut frames = Vec::from_iter(note);
            match event {
                Ok(event) => frames.extend(self.frames(event.event.as_ref(), &mut heard)),
                Err(error) => frames.push(data(&error_body(&error))),
            }
            stream::iter(frames)
        });
        Ok(sse::respond(stream::iter([first]).chain(rest)))
    }

    /// What a client hears of an event.
    fn frames(&self, event: Option<&Event>, heard: &mut Heard) -> Vec<String> {
        match event {
            Some(Event::Committed(committed)) => {
                let Some(hop) = &committed.hop else {
                    return Vec::new();
                };
                heard.hops += 1;
                let mut frames = vec![self.reasoning(&hop_line(heard.hops, hop))];
                frames.extend(self.told(|| vec![open_webui::found(heard.hops, hop)]));
                frames
            }
            // What has been told cannot be taken back here, but it can be said that it does not count.
            Some(Event::HandedOver(_)) => {
                (heard.hops, heard.handed_over) = (0, true);
                vec![self.reasoning(&format!("{HANDED_OVER}\n"))]
            }
            Some(Event::Planned(planned)) => {
                self.told(|| vec![open_webui::looking_up(&planned.sub_question)])
            }
            Some(Event::Answer(answer)) => self.answered(answer, heard),
            _ => Vec::new(),
        }
    }

    /// The end of a stream.
    fn answered(&self, answer: &AskResponse, heard: &mut Heard) -> Vec<String> {
        let mut frames = Vec::new();
        if heard.handed_over && answer.handed_over.is_none() {
            frames.push(self.reasoning(&format!("{TAKEN_BACK}{}", hop_lines(&answer.hops))));
            heard.hops = answer.hops.len();
        }
        let said = self.citing.said(answer);
        let mut delta = json!({ "content": said.text(self.asked.show.footer) });
        let annotations = said.annotations();
        // Open WebUI makes a citation of each annotation, too, and one without the text.
        if !annotations.is_empty() && !self.asked.show.events {
            delta["annotations"] = annotations.into();
        }
        frames.extend(self.told(|| open_webui::ended(heard.hops, &said.sources)));
        frames.push(self.chunk(&delta, None));
        let mut stop = self.choice(&json!({}), Some("stop"));
        stop["spechop"] = ours(answer);
        frames.push(data(&stop));
        if self.asked.include_usage {
            let mut last = self.outline();
            last["choices"] = json!([]);
            last["usage"] = usage(answer);
            frames.push(data(&last));
        }
        frames.push(DONE.to_owned());
        frames
    }

    /// Events for a client that shows some.
    fn told(&self, events: impl FnOnce() -> Vec<Value>) -> Vec<String> {
        if !self.asked.show.events {
            return Vec::new();
        }
        let chunk = |event: Value| {
            let mut chunk = self.outline();
            // Clients that know nothing of events see a chunk without content.
            chunk["choices"] = json!([]);
            chunk["event"] = event;
            data(&chunk)
        };
        events().into_iter().map(chunk).collect()
    }

    /// More of the reasoning.
    fn reasoning(&self, text: &str) -> String {
        self.chunk(&json!({ "reasoning_content": text }), None)
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> String {
        data(&self.choice(delta, finish_reason))
    }

    fn choice(&self, delta: &Value, finish_reason: Option<&str>) -> Value {
        let mut chunk = self.outline();
        chunk["choices"] = json!([{
            "index": 0,
            "delta": delta,
            "logprobs": null,
            "finish_reason": finish_reason,
        }]);
        if self.asked.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn outline(&self) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.asked.model,
        })
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_conversation_is_not_read_is_told_on_one_line_of_some_length() {
        let (told, resolved) = oneshot::channel();
        let reason = format!("the endpoint said:\n{}", "x".repeat(1 << 20));
        told.send(Resolved::Failed(reason)).unwrap();
        let mut resolved = Some(resolved);
        let said = note(&mut resolved).unwrap();
        assert!(said.contains("(the endpoint said: xxx"), "{said:.100}");
        assert!(said.ends_with("x…).\n"));
        assert!(said.len() < 5000, "{} bytes", said.len());
        assert_eq!(note(&mut resolved), None, "it is told once");
    }
}
