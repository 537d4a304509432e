//! A tool of an MCP server as the retriever of look-ups.

use async_trait::async_trait;
use rmcp::model::{CallToolRequestParams, CallToolResponse, RequestParamsMeta};
use spechop_ports::retry::{Again, FailedAttempt, retry};
use spechop_ports::{Call, PortError, Retriever};
use spechop_types::{Activity, Passage, with_causes};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::Blame;
use crate::line::{Line, OpenError};
use crate::options::{Ahead, McpOptions};

/// A tool that searches. Dropping it ends the connection, and the program behind it.
pub struct McpRetriever {
    line: Line,
    options: McpOptions,
    /// The tool's name in errors.
    what: String,
    /// Whether the tool may be called before an answer needs it. `None` if its server was not there
    /// to tell.
    reads: Option<bool>,
}

impl McpRetriever {
    /// Opens the connection and looks for the tool.
    ///
    /// A server at an address that does not answer is not an error: it may come back, and then the
    /// tool is called. The log says so.
    ///
    /// # Errors
    ///
    /// What no other attempt could change: a program that does not start or is no MCP server, a tool
    /// that is not there, arguments that it does not take, a refused key.
    pub async fn open(options: McpOptions) -> Result<Self, OpenError> {
        let (line, trouble) = Line::open(options.clone()).await?;
        let reads = match trouble {
            None => line.session().await.ok().map(|session| session.reads),
            Some(error) => {
                let reason = with_causes(&error);
                tracing::warn!(reason, "look-ups will fail until the MCP server answers");
                None
            }
        };
        Ok(Self {
            line,
            what: format!("the MCP tool {} of {}", options.tool, options.server),
            options,
            reads,
        })
    }

    /// Whether the tool may be called before an answer needs it: as the configuration says, or the
    /// tool's own annotation. Nobody but the operator can vouch for a server that was not there to ask.
    pub fn may_run_ahead(&self) -> bool {
        match self.options.ahead {
            Ahead::Always => true,
            Ahead::Never => false,
            Ahead::Annotated => self.reads == Some(true),
        }
    }

    async fn attempt(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, FailedAttempt> {
        let blame = Blame {
            what: &self.what,
            server: &self.options.server,
        };
        let session = self.line.session().await;
        let session = session.map_err(|error| match error.is_refusal() {
            true => blame.refused(&error.to_string()),
            false => blame.unavailable(error.to_string(), Again::Soon),
        })?;
        let arguments = self.options.arguments.fill(query, limit);
        let request = CallToolRequestParams::new(self.options.tool.clone());
        let mut request = request.with_arguments(arguments);
        for (name, value) in call.trace_headers() {
            request
                .meta_or_default()
                .insert(name.to_owned(), value.into());
        }
        // Whatever drops this future has the server told that nobody waits any more.
        let answer = session.peer.call_tool_once(request);
        let answered = match timeout(self.options.attempt, answer).await {
            Ok(Ok(CallToolResponse::Complete(result))) if result.is_error == Some(true) => {
                Err(blame.failed(&result))
            }
            Ok(Ok(CallToolResponse::Complete(result))) => Ok(result),
            Ok(Ok(_)) => {
                Err(blame.malformed("it wants to be told more, or to be asked again later"))
            }
            Ok(Err(error)) => Err(blame.broken(error, session.fate.as_deref())),
            // Another call would only add to what the server does not keep up with.
            Err(_) => Err(FailedAttempt {
                error: PortError::timed_out(&self.what, self.options.attempt),
                again: Again::Never,
            }),
        };
        let once = !(session.reads || session.idempotent || self.options.ahead == Ahead::Always);
        let result = answered.map_err(|failure| match failure.again {
            // The call may have done what it does.
            Again::Soon if once => FailedAttempt {
                again: Again::Never,
                ..failure
            },
            _ => failure,
        })?;
        let (shape, words) = (self.options.shape.clone(), query.to_owned());
        let made = spawn_blocking(move || shape.passages(&result, &words, limit));
        let made = made.await.map_err(|error| FailedAttempt {
            error: PortError::unavailable(&self.what, error),
            again: Again::Never,
        })?;
        // The detail may name fields of the result.
        made.map_err(|detail| blame.malformed(&blame.quoted(&detail)))
    }
}

#[async_trait]
impl Retriever for McpRetriever {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let _searching = call.doing(Activity::Scan);
        let deadline = Instant::now() + self.options.total;
        let attempts = retry(&self.options.retries, call, deadline, || {
            self.attempt(call, query, limit)
        });
        let late = |_| PortError::timed_out(&self.what, self.options.total);
        timeout_at(deadline, attempts).await.map_err(late)?
    }
}

impl std::fmt::Debug for McpRetriever {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpRetriever")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
