//! The door for MCP: `search`, `fetch` and `ask` for any client of it ([`spechop_mcp::door`]).

mod patience;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures::StreamExt;
use futures::stream::BoxStream;
use spechop_mcp::calls::{CLIENT, CallId, Calls, Said};
use spechop_mcp::door::{Desk, DoorService, Hop, News, Question, Refused, service, unread};
use spechop_proto::ask_event::Event;
use spechop_proto::options::Width;
use spechop_proto::{self as wire, AskEvent, AskRequest, Budget};
use spechop_types::{Passage, whole_ms, with_causes};

use self::patience::patiently;
use crate::admission::Admission;
use crate::caller::{Caller, caller};
use crate::doors::{HANDED_OVER, worth};
use crate::events::Events;
use crate::finder::{Finder, Told};
use crate::links::Links;

/// Where it is.
pub(super) const PATH: &str = "/mcp";

/// As many random bytes are in a client's name.
const CLIENT_BYTES: usize = 16;

/// What answers.
struct Tools {
    admission: Admission,
    finder: Arc<Finder>,
    /// When an answer is written from what is known, unless the client names another time.
    time: Duration,
    links: Links,
    /// Whether this server has pages of passages (`/p/`).
    shows_passages: bool,
}

/// Takes POST requests. Whether they are too long has been seen before.
pub(super) fn route(admission: &Admission, finder: &Arc<Finder>) -> MethodRouter {
    let entrance = Entrance {
        service: service(Arc::new(Tools::of(admission, finder)), usize::MAX),
        calls: Calls::default(),
    };
    post(async move |request: Request| entrance.answer(request).await)
}

impl Tools {
    fn of(admission: &Admission, finder: &Arc<Finder>) -> Self {
        let state = admission.state();
        let config = state.config();
        let server = &config.server;
        Self {
            admission: admission.clone(),
            finder: Arc::clone(finder),
            time: server.mcp_time,
            links: Links::of(server),
            shows_passages: state.toolbox.passages.is_some(),
        }
    }
}

/// Answers requests, and ends the calls that are taken back.
#[derive(Clone)]
struct Entrance {
    service: DoorService<Tools>,
    calls: Calls,
}

impl Entrance {
    async fn answer(&self, request: Request) -> Response {
        let (mut head, body) = request.into_parts();
        name_types(&mut head.headers);
        // The transport has received the whole of it.
        let Ok(body) = to_bytes(body, usize::MAX).await else {
            return StatusCode::BAD_REQUEST.into_response();
        };
        let said = Said::of(&body);
        let under_way = match &said {
            Some(Said::Call(number)) => call_id(&head, number).and_then(|id| self.calls.begin(id)),
            _ => None,
        };
        if let Some(Said::Cancelled(number)) = &said
            && let Some(id) = call_id(&head, number)
        {
            self.calls.cancel(&id);
        }
        let request = Request::from_parts(head, Body::from(body.clone()));
        let service = self.service.clone();
        let answer = Box::pin(async move { service.handle(request).await.map(Body::new) });
        let mut response = patiently(answer).await;
        // The service says so of a body that it cannot read, too.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE
            && let Some(error) = unread(&body)
        {
            // As other errors of a request are, one with its number is an answer.
            let status = match error["id"].is_null() {
                true => StatusCode::BAD_REQUEST,
                false => StatusCode::OK,
            };
            let kind = [(CONTENT_TYPE, "application/json")];
            return (status, kind, error.to_string()).into_response();
        }
        if said == Some(Said::Hello) && response.status().is_success() {
            // Nobody may guess it: whoever knows it can take the client's calls back.
            let name = BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; CLIENT_BYTES]>());
            if let Ok(name) = HeaderValue::try_from(name) {
                response.headers_mut().insert(CLIENT, name);
            }
        }
        match under_way {
            // Ending the response ends the question, as if the client had hung up. It wants no answer.
            Some(call) => response.map(|body| {
                Body::from_stream(body.into_data_stream().take_until(call.cancelled()))
            }),
            None => response,
        }
    }
}

/// The service knows no wildcards: whoever takes everything takes the two types of its answers.
fn name_types(headers: &mut HeaderMap) {
    let takes_all = |wish: &str| {
        let (kind, weight) = wish.split_once(';').unwrap_or((wish, ""));
        kind.trim() == "*/*" && weight.trim() != "q=0"
    };
    let wishes = headers.get_all(ACCEPT).iter();
    let mut wishes = wishes.filter_map(|value| value.to_str().ok());
    if wishes.any(|wishes| wishes.split(',').any(takes_all)) {
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
    }
}

/// Which call a client means. `None` if it has no name, or is nobody.
fn call_id(head: &Parts, number: &str) -> Option<CallId> {
    Some(CallId {
        tenant: who(head).ok()?.tenant,
        client: head.headers.get(CLIENT)?.to_str().ok()?.to_owned(),
        number: number.to_owned(),
    })
}

#[async_trait]
impl Desk for Tools {
    async fn search(&self, request: &Parts, query: &str) -> Result<Vec<Passage>, Refused> {
        let caller = who(request)?;
        let found = self.finder.find(&caller, vec![query.to_owned()], None);
        let mut found = found.await.map_err(|error| Refused(with_causes(&error)))?;
        let found = found.pop().unwrap_or_default();
        self.finder.keep(&caller, found.iter().map(Told::whole));
        Ok(found)
    }

    async fn fetch(&self, request: &Parts, id: &str) -> Result<Option<Passage>, Refused> {
        let found = self.finder.passage(&who(request)?, id).await;
        found.map_err(|error| Refused(with_causes(&error)))
    }

    async fn ask(
        &self,
        request: &Parts,
        question: Question,
    ) -> Result<BoxStream<'static, Result<News, Refused>>, Refused> {
        let caller = who(request)?;
        // The deadline would end it without an answer. The rest of that time is for the last segment.
        let deadline = self.admission.state().config().questions.deadline_max;
        let time = question.budget.unwrap_or(self.time).min(deadline * 9 / 10);
        let asked = AskRequest {
            question: question.text,
            options: question.k.map(|k| wire::Options {
                width: Some(Width::K(k)),
                ..wire::Options::default()
            }),
            budget: Some(Budget {
                time_ms: Some(whole_ms(time).max(1)),
                ..Budget::default()
            }),
            ..AskRequest::default()
        };
        let admitted = self.admission.admit(&asked, &caller, None).await;
        let admitted = admitted.map_err(|error| Refused(with_causes(&error)))?;
        let finder = Arc::clone(&self.finder);
        let events = Events::of(admitted).map_err(|error| Refused(with_causes(&*error)))?;
        let events = events.filter_map(move |event| {
            ready(match event {
                Ok(event) => news(Arc::unwrap_or_clone(event), &caller, &finder).map(Ok),
                Err(error) => Some(Err(Refused(with_causes(&*error)))),
            })
        });
        Ok(events.boxed())
    }

    fn address(&self, request: &Parts, id: &str) -> String {
        // A page that does not exist would be worse than none.
        if !self.shows_passages {
            return String::new();
        }
        let base = self.links.base(request).unwrap_or_default();
        base.passage(id).unwrap_or_default()
    }
}

fn who(request: &Parts) -> Result<Caller, Refused> {
    let caller = caller(&request.headers, &request.extensions);
    caller.map_err(|error| Refused(with_causes(&error)))
}

/// What a client of MCP hears of an event. What it is told of it can fetch.
fn news(event: AskEvent, caller: &Caller, finder: &Finder) -> Option<News> {
    let tell = |done: wire::Hop| {
        let (hop, cited) = hop(done);
        finder.keep(caller, cited);
        hop
    };
    Some(match event.event? {
        Event::Committed(committed) => News::Committed(tell(committed.hop?)),
        Event::HandedOver(_) => News::Remark(HANDED_OVER.to_owned()),
        Event::Answer(answer) => News::Answer {
            stop_reason: stop_reason(answer.stop_reason()).to_owned(),
            confidence: answer.confidence.as_ref().map(worth),
            text: answer.answer,
            hops: answer.hops.into_iter().map(tell).collect(),
        },
        _ => return None,
    })
}

/// A hop as a client hears it, and what it cites. An event holds no more than the beginning of a long text.
fn hop(hop: wire::Hop) -> (Hop, Vec<Told>) {
    let told = |cited: &wire::Passage| Told {
        passage: Passage {
            id: cited.passage_id.as_str().into(),
            title: cited.title.as_str().into(),
            text: cited.text.as_str().into(),
            url: cited.url.as_deref().map(Arc::from),
            score: cited.score,
        },
        is_cut: cited.cut,
    };
    let cited: Vec<Told> = hop.cited().into_iter().map(told).collect();
    let evidence = cited.iter().map(|told| told.passage.clone()).collect();
    let hop = Hop {
        sub_question: hop.sub_question,
        sub_answer: hop.sub_answer,
        evidence,
    };
    (hop, cited)
}

fn stop_reason(reason: wire::StopReason) -> &'static str {
    match reason {
        wire::StopReason::Unspecified => "",
        wire::StopReason::Answered => "answered",
        wire::StopReason::HopBudget => "hop_budget",
        wire::StopReason::Repeated => "repeated",
        wire::StopReason::NotFound => "not_found",
        wire::StopReason::Budget => "budget",
    }
}

#[cfg(test)]
mod tests {
    use spechop_testkit::Script;

    use super::*;
    use crate::server_state::scripted;

    /// The server's own limit would end it without an answer.
    #[tokio::test(start_paused = true)]
    async fn no_budget_outlasts_the_time_of_a_question() {
        // A look-up takes an hour.
        let script = Script::steady(&[true, true], 5, 3_600_000, 5);
        let (state, _) = scripted::state(script, "[question]\ndeadline_ms = 10000\n");
        let admission = Admission::new(Arc::clone(&state));
        let tools = Tools::of(&admission, &Arc::new(Finder::new(state)));
        let (request, _) = Request::new(Body::empty()).into_parts();
        for budget in [None, Some(Duration::from_secs(600))] {
            let question = Question {
                text: "Who is it?".to_owned(),
                k: None,
                budget,
            };
            let news = tools.ask(&request, question).await.unwrap();
            let last = news.collect::<Vec<_>>().await.pop();
            let Some(Ok(News::Answer { stop_reason, .. })) = last else {
                panic!("{last:?}");
            };
            assert_eq!(stop_reason, "budget", "{budget:?}");
        }
    }
}
