//! An answer in OpenAI's form, whole or in chunks.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::Response;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use spechop_proto::AskResponse;
use spechop_proto::ask_event::Event;

use super::asked::Asked;
use super::said::{Citing, hop_line, hop_lines, ours, usage};
use super::{error_body, json_body, open_webui, refused};
use crate::admission::{Admission, Admitted, Resolved};
use crate::caller::caller;
use crate::events::{self, Events};
use crate::links::Links;
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
        let note = match std::mem::take(&mut asked.turns) {
            turns if turns.is_empty() => None,
            turns => note(&admitted.resolve(turns).await),
        };
        let base = self.links.base(head);
        let completion = Completion {
            id: format!("chatcmpl-{name}"),
            created: now(),
            asked,
            citing: Citing {
                base: base.filter(|_| state.toolbox.passages.is_some()),
            },
            note,
        };
        let answered = match completion.asked.stream {
            true => completion.stream(admitted),
            false => completion.whole(admitted).await,
        };
        let mut response = answered.unwrap_or_else(|error| refused(&error));
        if let Ok(name) = HeaderValue::from_str(&name) {
            response.headers_mut().insert("spechop-question-id", name);
        }
        response
    }
}

/// What the client should know of its conversation.
fn note(resolved: &Resolved) -> Option<String> {
    const ALONE: &str = "Only the last message was asked: ";
    match resolved {
        Resolved::Rewritten(question) => Some(format!("Asked: {question}\n")),
        Resolved::Complete => None,
        Resolved::Unable => Some(format!(
            "{ALONE}earlier turns of the conversation are not read.\n"
        )),
        Resolved::Failed(reason) => Some(format!(
            "{ALONE}the earlier turns could not be put into it ({reason}).\n"
        )),
    }
}

/// Said before the hops of a fallback.
const HANDED_OVER: &str = "The question is hardly of a form that the planner was trained on: the \
                           fallback begins anew.\n";

/// Said before the hops of the first planner if the fallback came to nothing: for then they are the answer's
/// after all.
const TAKEN_BACK: &str = "The fallback has no answer: what was told before it counts.\n";

/// An answer on its way.
struct Completion {
    id: String,
    created: u64,
    asked: Asked,
    citing: Citing,
    /// What the client should know before the hops.
    note: Option<String>,
}

/// What a client has heard of a stream so far.
#[derive(Default)]
struct Heard {
    /// Hops that count, as far as it knows.
    hops: usize,
    /// That the fallback begins anew.
    handed_over: bool,
}

impl Completion {
    async fn whole(self, admitted: Admitted) -> Result<Response, Arc<AskError>> {
        let answer = events::answer(admitted).await?;
        let mut reasoning = self.note.unwrap_or_default();
        if answer.handed_over.is_some() {
            reasoning += HANDED_OVER;
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

    fn stream(self, admitted: Admitted) -> Result<Response, Arc<AskError>> {
        let events = Events::of(admitted)?;
        let mut first = vec![self.chunk(&json!({ "role": "assistant", "content": "" }), None)];
        if let Some(note) = &self.note {
            first.push(self.reasoning(note));
        }
        let mut heard = Heard::default();
        let rest = events.flat_map(move |event| {
            let frames = match event.map(Arc::unwrap_or_clone) {
                Ok(event) => self.frames(event.event.as_ref(), &mut heard),
                Err(error) => vec![data(&error_body(&error))],
            };
            stream::iter(frames)
        });
        Ok(sse::respond(stream::iter(first).chain(rest)))
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
                *heard = Heard {
                    hops: 0,
                    handed_over: true,
                };
                vec![self.reasoning(HANDED_OVER)]
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
