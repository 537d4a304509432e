//! `POST /retrieve`: the passages that the target tool finds, for whoever has a reader of its own. The
//! form is that of Search-R1, which many trainers use:
//!
//! ```text
//! {"queries": ["…"], "topk": 5, "return_scores": true}
//! {"result": [[{"document": {"id", "title", "contents", "url"?}, "score"}]]}
//! ```
//!
//! `contents` is the title in quotation marks, and behind it, on lines of its own, the text. Without
//! scores a list holds the documents themselves. Errors are `{"error": "…"}`.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use spechop_ports::{Call, Lane, PortError};
use spechop_types::{Chance, Passage, QUESTION_BYTES_MAX, Tenant};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::metadata::MetadataMap;

use crate::accounts::Hold;
use crate::request;
use crate::service::{Phases, Shared};
use crate::sparingly::Sparingly;
use crate::status::{AskError, chain};

/// Where it is.
pub(crate) const PATH: &str = "/retrieve";

/// Most queries of a request, and how many of them are under way at once: others want a turn, too.
const QUERIES_MAX: usize = 64;
const QUERIES_AT_ONCE: usize = 8;

/// What answers.
pub(crate) struct Retrievals {
    shared: Arc<Shared>,
    phases: Phases,
    /// As many requests at once as questions.
    places: Semaphore,
    warnings: Sparingly,
}

/// What was sent. Other fields are left to those who know them.
#[derive(Deserialize)]
struct Request {
    queries: Vec<String>,
    /// By default as many as are read for a hop.
    topk: Option<usize>,
    #[serde(default)]
    return_scores: bool,
}

/// Why there are no passages.
#[derive(Debug, thiserror::Error)]
enum RetrieveError {
    #[error("{0}")]
    Invalid(String),
    #[error("{most} requests are being answered, which is the most; try again later")]
    Busy { most: usize },
    #[error("{0}")]
    Overdrawn(String),
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("nothing was found within {} s", limit.as_secs_f64())]
    Late { limit: Duration },
    #[error(transparent)]
    Port(#[from] PortError),
}

impl Retrievals {
    pub(crate) fn new(shared: Arc<Shared>, phases: Phases) -> Self {
        Self {
            places: Semaphore::new(shared.config.server.questions_max),
            shared,
            phases,
            warnings: Sparingly::default(),
        }
    }

    pub(crate) fn route(self) -> MethodRouter {
        let retrievals = Arc::new(self);
        post(async move |headers: HeaderMap, body: Bytes| retrievals.respond(headers, &body).await)
            // The transport has seen to it.
            .layer(DefaultBodyLimit::disable())
    }

    async fn respond(&self, headers: HeaderMap, body: &[u8]) -> Response {
        let found = self.answer(headers, body).await;
        let outcome = found
            .as_ref()
            .err()
            .map_or("answered", RetrieveError::outcome);
        self.shared.metrics.retrieved(outcome);
        match found {
            Ok(result) => json_response(StatusCode::OK, &json!({ "result": result })),
            Err(error) => {
                let reason = chain(&error);
                match self.warnings.turn(outcome) {
                    Some(left_out) if error.is_ours() => {
                        tracing::warn!(reason, left_out, "no passages");
                    }
                    _ => tracing::debug!(reason, "no passages"),
                }
                let mut response = json_response(error.status(), &json!({ "error": reason }));
                if error.is_pressure() {
                    response.headers_mut().insert(RETRY_AFTER, 1.into());
                }
                response
            }
        }
    }

    async fn answer(
        &self,
        headers: HeaderMap,
        body: &[u8],
    ) -> Result<Vec<Vec<Value>>, RetrieveError> {
        let questions = &self.shared.config.questions;
        if self.phases.closing.is_cancelled() {
            return Err(RetrieveError::ShuttingDown);
        }
        let tenant = tenant(headers)?;
        let request = Request::read(body, questions.passages_max)?;
        let topk = request.topk.unwrap_or(questions.passages.get());
        let _place = self.places.try_acquire().map_err(|_| RetrieveError::Busy {
            most: self.shared.config.server.questions_max,
        })?;
        let mut hold = self.hold(&tenant, request.queries.len())?;
        if let Some(hold) = &mut hold {
            // Charged from here on: whoever hangs up has had the work done.
            hold.looked_up(request.queries.len() as u64);
        }
        let retriever = &self.shared.toolbox.retriever;
        let with_scores = request.return_scores;
        let searches = request.queries.into_iter().map(|query| {
            let call = Call::of(tenant.clone(), Lane::Authoritative, Chance::CERTAIN);
            async move {
                let found = retriever.retrieve(&call, &query, topk).await?;
                Ok::<_, PortError>(listed(&found, with_scores))
            }
        });
        let limit = questions.limits.target;
        let all = stream::iter(searches)
            .buffered(QUERIES_AT_ONCE)
            .try_collect();
        tokio::select! {
            biased;
            () = self.phases.closed.cancelled() => Err(RetrieveError::ShuttingDown),
            found = timeout(limit, all) => Ok(found.map_err(|_| RetrieveError::Late { limit })??),
        }
    }

    /// Sets the look-ups aside in the tenant's account, all of them or none.
    fn hold(&self, tenant: &Tenant, queries: usize) -> Result<Option<Hold>, RetrieveError> {
        let look_ups = u32::try_from(queries).unwrap_or(u32::MAX);
        let overdrawn = |error: AskError| RetrieveError::Overdrawn(error.to_string());
        let held = self
            .shared
            .hold_look_ups(tenant, look_ups)
            .map_err(overdrawn)?;
        match held {
            Some((_, left)) if left < look_ups => Err(RetrieveError::Overdrawn(format!(
                "the budget of tenant {tenant} has {left} target calls left, and these are {look_ups}"
            ))),
            held => Ok(held.map(|(hold, _)| hold)),
        }
    }
}

impl Request {
    fn read(body: &[u8], topk_max: NonZeroUsize) -> Result<Self, RetrieveError> {
        let invalid = |what: String| Err(RetrieveError::Invalid(what));
        let request: Self = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(error) => {
                return invalid(format!(
                    "the body must be JSON such as {{\"queries\": [\"…\"], \"topk\": 5}}: {error}"
                ));
            }
        };
        let queries = &request.queries;
        if queries.is_empty() || queries.len() > QUERIES_MAX {
            let count = queries.len();
            return invalid(format!(
                "there are {count} queries; 1 to {QUERIES_MAX} are taken"
            ));
        }
        for (at, query) in queries.iter().enumerate() {
            if query.trim().is_empty() || query.len() > QUESTION_BYTES_MAX {
                return invalid(format!(
                    "query {} must have some text, and {QUESTION_BYTES_MAX} bytes at most",
                    at + 1
                ));
            }
        }
        match request.topk {
            Some(topk) if topk == 0 || topk > topk_max.get() => {
                invalid(format!("topk is {topk}; 1 to {topk_max} are found"))
            }
            _ => Ok(request),
        }
    }
}

impl RetrieveError {
    /// In a word, for the metrics.
    fn outcome(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::Busy { .. } => "busy",
            Self::Overdrawn(_) => "overdrawn",
            Self::ShuttingDown => "shutting_down",
            Self::Late { .. } => "late",
            Self::Port(_) => "failed",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Busy { .. } | Self::Overdrawn(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::Late { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Port(error) => match error {
                PortError::Unavailable { .. } | PortError::NotSpeculated { .. } => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
                PortError::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
                PortError::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                PortError::Malformed { .. } | PortError::Refused { .. } => {
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            },
        }
    }

    /// Whether the operator should know.
    fn is_ours(&self) -> bool {
        !matches!(self, Self::Invalid(_))
    }

    /// Whether it will soon be otherwise.
    fn is_pressure(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

fn tenant(headers: HeaderMap) -> Result<Tenant, RetrieveError> {
    request::caller(&MetadataMap::from_headers(headers)).map_err(|wrong| {
        let mut said = String::new();
        for violation in wrong {
            // Writing to a string cannot fail.
            let _ = write!(said, "{} {}; ", violation.field, violation.description);
        }
        RetrieveError::Invalid(said.trim_end_matches("; ").to_owned())
    })
}

fn listed(found: &[Passage], with_scores: bool) -> Vec<Value> {
    let document = |passage: &Passage| {
        // The first line is the title, whatever is in it.
        let title: Vec<_> = passage.title.lines().collect();
        let contents = format!("\"{}\"\n{}", title.join(" "), passage.text);
        let mut document = json!({
            "id": passage.id,
            "title": passage.title,
            "contents": contents,
        });
        if let Some(url) = &passage.url {
            document["url"] = json!(url);
        }
        document
    };
    let item = |passage: &Passage| match with_scores {
        true => json!({ "document": document(passage), "score": passage.score }),
        false => document(passage),
    };
    found.iter().map(item).collect()
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    let kind = [(CONTENT_TYPE, "application/json")];
    (status, kind, body.to_string()).into_response()
}
