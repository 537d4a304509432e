//! An OpenAI-compatible chat endpoint as a [`TextModel`].
//!
//! Responses are streamed, unless an endpoint refuses that, and stop texts are looked for here: the moment one
//! is complete the connection is closed, which ends the generation on the server (llama.cpp, vLLM and the hosted
//! ones notice), and the same happens when the future is dropped.
//!
//! Token counts are the server's if it sends them. It sends them last, so that a generation that
//! we end early is estimated: one token per event of the stream, and the prompt by its length. Some
//! servers send zeros until then, so that a count of 0 is none. A call that is dropped or fails has
//! spent what its streams have told until then: nothing before the first piece of text or thought,
//! and nothing at all if the server does not stream. A result counts the attempt that brought it;
//! [`Call::spent`] counts all of them. Of an endpoint that does not send the thoughts that it counts,
//! the count is waited for, though not for long.

mod config;
mod failures;
mod request_form;
mod said;
mod sse;
mod wire;

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use secrecy::SecretString;
use spechop_ports::retry::{Again, FailedAttempt, Retries, retry};
use spechop_ports::{Call, Metered, PortError, is_loopback, named};
use spechop_types::Activity;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use crate::thoughts::THOUGHT_TOKENS_MAX;
use crate::{Chat, Generated, Generation, Prompt, TextModel};
use request_form::{RequestForm, Spoken};
use said::{Heard, Said};
use sse::Events;
use wire::{Chunk, Request};

pub use config::{ChatEndpoint, InvalidChatEndpoint, TimeLimits};

/// Most bytes of an error body, or of an answer that is not streamed.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// Most bytes of a stream per token asked for, all decoration included; and for the rest of it.
const STREAM_BYTES_PER_TOKEN_MAX: usize = 4 * 1024;
const STREAM_BYTES_BASE: usize = 64 * 1024;

/// The kind of an answer that comes piece by piece.
const EVENT_STREAM: &str = "text/event-stream";

/// How long the text of an error is waited for, from its status on.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(1);

/// How long the count of a text that is there is waited for. Behind a closing tag a model has nothing to add.
const COUNT_WAIT: Duration = Duration::from_millis(250);

/// A model behind an OpenAI-compatible endpoint.
#[derive(Debug)]
pub struct OpenAiModel {
    client: Client,
    url: Url,
    model: String,
    /// For messages: the model and the host.
    name: String,
    /// To be cut from what the server says.
    key: Option<SecretString>,
    /// One for each request that the endpoint takes at once, given away in the order in which they
    /// are asked for. Urgency is the scheduler's business, which lets no more calls through.
    permits: Semaphore,
    limits: TimeLimits,
    retries: Retries,
    reasoning_effort: Option<String>,
    predicted_output: bool,
    spoken: Spoken,
}

impl OpenAiModel {
    /// Checks the endpoint's description; connects to nothing yet.
    pub fn new(endpoint: &ChatEndpoint) -> Result<Self, InvalidChatEndpoint> {
        let url = endpoint.chat_url()?;
        if endpoint.model.trim().is_empty() {
            return Err(InvalidChatEndpoint::NoModel);
        }
        let mut headers = HeaderMap::new();
        if let Some(authorization) = endpoint.authorization()? {
            headers.insert(AUTHORIZATION, authorization);
        }
        // The program's one source of cryptography. Whoever was first has chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .default_headers(headers)
            .user_agent(concat!("spechop/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(endpoint.limits.connect)
            // A redirect could carry a prompt to a host that nobody chose.
            .redirect(redirect::Policy::none())
            // A packer could hold tokens back that were written one by one.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .tcp_nodelay(true);
        let host = url.host_str().unwrap_or_default();
        if is_loopback(host) {
            // What a proxy took for this machine would be the proxy's own.
            client = client.no_proxy();
        }
        if url.scheme() == "http" {
            // No root certificates need be there where none is used.
            client = client.tls_certs_only([]);
            if endpoint.key.is_some() && !is_loopback(host) {
                tracing::warn!(host, "the key of this endpoint travels unencrypted");
            }
        }
        let client = client.build().map_err(InvalidChatEndpoint::Client)?;
        Ok(Self {
            client,
            name: named(&endpoint.model, &url),
            url,
            model: endpoint.model.clone(),
            key: endpoint.key.clone(),
            permits: Semaphore::new(endpoint.requests_max.get().min(Semaphore::MAX_PERMITS)),
            limits: endpoint.limits,
            retries: endpoint.retries,
            reasoning_effort: endpoint.reasoning_effort.clone(),
            predicted_output: endpoint.predicted_output,
            spoken: Spoken::new(endpoint.opens_thoughts),
        })
    }

    /// The right to one request, given back when it is dropped.
    async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        // Nobody closes the semaphore, so there is always one in the end.
        self.permits.acquire().await.ok()
    }

    /// What goes with the request as expected, if anything does.
    fn predicted<'a>(&self, generation: &'a Generation, form: RequestForm) -> Option<&'a str> {
        let sends = self.predicted_output && form.takes_prediction();
        generation
            .drafts
            .first()
            .filter(|_| sends)
            .map(|draft| &*draft.text)
    }

    /// Asks in the form that is known, and in another one if what comes of it says so. Half a text that another form
    /// may bring whole is left in `half`.
    async fn ask_in_its_form(
        &self,
        call: &Call,
        chat: &Chat,
        generation: &Generation,
        deadline: Instant,
        half: &mut Option<Generated>,
    ) -> Result<Generated, PortError> {
        let mut form = self.spoken.get();
        loop {
            let asked = self.ask(call, chat, generation, form, deadline).await;
            let next = match &asked {
                Ok(heard) => {
                    if heard.opens_thoughts == Some(true) {
                        form = form.with_opened_thoughts();
                    }
                    form.with_thoughts().filter(|_| heard.lacks_room)
                }
                Err(PortError::Refused { detail, .. }) => {
                    let predicted = self.predicted(generation, form).is_some();
                    form.after(detail, predicted)
                }
                Err(_) => None,
            };
            let Some(next) = next else {
                let heard = asked?;
                if heard.opens_thoughts == Some(false) {
                    self.spoken.forget_opened_thoughts(&self.name);
                    // Room for thoughts that it seemed to need rests on the same mistake.
                    form = form.without_thoughts();
                }
                self.spoken.learn(form, &self.name);
                let is_lost = heard.lacks_room && heard.shows_thoughts;
                return match is_blank(&heard) {
                    true if heard.is_filtered => Err(self.filtered()),
                    true if is_lost => Err(self.lost_in_thought()),
                    _ => Ok(heard.generated),
                };
            };
            form = next;
            if let Ok(heard) = asked
                && !is_blank(&heard)
            {
                *half = Some(heard.generated);
            }
        }
    }

    /// Sends the request in this form, again if it may help.
    async fn ask(
        &self,
        call: &Call,
        chat: &Chat,
        generation: &Generation,
        form: RequestForm,
        deadline: Instant,
    ) -> Result<Heard, PortError> {
        let request = Request::new(&self.model, chat, generation, form)
            .thinking(self.reasoning_effort.as_deref())
            .predicting(self.predicted(generation, form));
        let body = serde_json::to_vec(&request)
            .map_err(|error| PortError::unavailable(&self.name, error))?;
        // Nothing of a broken attempt has reached the caller, so that a retry cannot be seen; and
        // greedy decoding would say the same again.
        retry(&self.retries, call, deadline, || {
            self.attempt(call, generation, form, body.clone())
        })
        .await
    }

    /// Sends the request once and follows the answer to its end.
    async fn attempt(
        &self,
        call: &Call,
        generation: &Generation,
        form: RequestForm,
        body: Vec<u8>,
    ) -> Result<Heard, FailedAttempt> {
        const JSON: &str = "application/json";
        let _permit = self.permit().await;
        let accepted = match form.streams() {
            true => EVENT_STREAM,
            false => JSON,
        };
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, accepted)
            .body(body);
        for (name, value) in call.trace_headers() {
            request = request.header(name, value);
        }
        let silence = self.silence(form, false);
        let response = timeout(silence, request.send())
            .await
            .map_err(|_| self.silent(silence))?
            .map_err(|error| self.broken(error))?;
        if response.status() != StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        let streams = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|kind| kind.to_ascii_lowercase().starts_with(EVENT_STREAM));
        let metered = Metered::new(call);
        if streams {
            self.follow(generation, form, metered, response).await
        } else {
            self.take_whole(generation, form, metered, response).await
        }
    }

    /// How long the server may be silent now. A model that thinks may do so before it `has_begun` to send
    /// anything, for as long as the call may last. So may one whose answer comes whole.
    fn silence(&self, form: RequestForm, has_begun: bool) -> Duration {
        match (form.thinks() || !form.streams()) && !has_begun {
            true => self.limits.total,
            false => self.limits.silence,
        }
    }

    /// Reads a stream until a stop text, the server's end, or a limit.
    async fn follow(
        &self,
        generation: &Generation,
        form: RequestForm,
        mut metered: Metered,
        mut response: Response,
    ) -> Result<Heard, FailedAttempt> {
        let thoughts = match form.thinks() {
            true => THOUGHT_TOKENS_MAX,
            false => 0,
        };
        let tokens_max = generation.tokens_max.saturating_add(thoughts) as usize;
        let bytes_max = STREAM_BYTES_BASE + tokens_max.saturating_mul(STREAM_BYTES_PER_TOKEN_MAX);
        let mut bytes = 0;
        let mut events = Events::default();
        let mut said = Said::new(form);
        loop {
            let silence = self.silence(form, said.has_begun());
            let piece = match self.next_piece(&mut response, silence).await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                // The answer is whole, whatever becomes of the rest. That is waited for all the same: some gateways
                // say of every piece that it is the last.
                Err(_) if said.end.is_some() => break,
                Err(error) => return Err(error),
            };
            bytes += piece.len();
            if bytes > bytes_max {
                if said.end.is_some() {
                    break;
                }
                return Err(self.malformed(format!("more than {bytes_max} bytes")));
            }
            events.push(&piece);
            loop {
                let next = events.next();
                let next = next.map_err(|garbled| self.malformed(garbled.to_string()));
                let chunk = match next {
                    Ok(None) => break,
                    Ok(Some(data)) if data.trim() == "[DONE]" => {
                        return self.finish(generation, said);
                    }
                    // An event without a word says that the server is there.
                    Ok(Some(data)) if data.trim().is_empty() => continue,
                    Ok(Some(data)) => self.parse(data.as_bytes()),
                    Err(garbled) => Err(garbled),
                };
                let chunk = match chunk {
                    Ok(chunk) => chunk,
                    Err(_) if said.end.is_some() => return self.finish(generation, said),
                    Err(error) => return Err(error),
                };
                let is_over = said.add(&chunk, generation);
                metered.tell(said.known(generation));
                if is_over {
                    // Thoughts that are not sent may be most of what it costs.
                    let hides_thoughts = form.thinks() && !said.shows_thoughts;
                    if form.limits_completion() || hides_thoughts {
                        let counted = self.count(&mut response, &mut events, &mut said);
                        let _ = timeout(COUNT_WAIT, counted).await;
                        metered.tell(said.known(generation));
                    }
                    // Returning drops the response, and with it the connection.
                    return Ok(said.heard(generation));
                }
            }
        }
        // Some servers leave out the [DONE]; but the end of the body alone is no end.
        self.finish(generation, said)
    }

    /// Reads on until the server's count, which comes last, and takes nothing else in.
    async fn count(&self, response: &mut Response, events: &mut Events, said: &mut Said) {
        loop {
            match events.next() {
                Ok(Some(data)) => {
                    let chunk = self.parse(data.as_bytes());
                    if data.trim() == "[DONE]" || chunk.is_ok_and(|chunk| said.count(&chunk)) {
                        return;
                    }
                }
                Ok(None) => match response.chunk().await {
                    Ok(Some(piece)) => events.push(&piece),
                    Ok(None) | Err(_) => return,
                },
                // More of an event without an end would only be kept.
                Err(_) => return,
            }
        }
    }

    /// Reads the answer of a server that does not stream, whether it was asked to or not.
    async fn take_whole(
        &self,
        generation: &Generation,
        form: RequestForm,
        mut metered: Metered,
        mut response: Response,
    ) -> Result<Heard, FailedAttempt> {
        let mut body = Vec::new();
        let silence = self.silence(form, false);
        while let Some(piece) = self.next_piece(&mut response, silence).await? {
            body.extend_from_slice(&piece);
            if body.len() > BODY_BYTES_MAX {
                return Err(self.malformed(format!("more than {BODY_BYTES_MAX} bytes")));
            }
        }
        let chunk = self.parse(&body)?;
        let mut said = Said::new(form);
        let is_over = said.add(&chunk, generation);
        metered.tell(said.known(generation));
        if is_over {
            return Ok(said.heard(generation));
        }
        if !chunk.has_choice() {
            // So some tell of a failure, in a form of their own.
            let detail = format!("an answer without a choice: {}", self.reason(&body));
            return Err(FailedAttempt {
                error: PortError::unavailable(&self.name, detail),
                again: Again::Soon,
            });
        }
        self.finish(generation, said)
    }

    /// The next bytes of the body, or `None` at its end.
    async fn next_piece(
        &self,
        response: &mut Response,
        silence: Duration,
    ) -> Result<Option<impl AsRef<[u8]> + std::ops::Deref<Target = [u8]> + use<>>, FailedAttempt>
    {
        timeout(silence, response.chunk())
            .await
            .map_err(|_| self.silent(silence))?
            .map_err(|error| self.broken(error))
    }

    fn parse(&self, data: &[u8]) -> Result<Chunk, FailedAttempt> {
        let chunk: Chunk = serde_json::from_slice(data).map_err(|error| {
            // It quotes what stands in a wrong place, however long.
            let why = self.reason(error.to_string().as_bytes());
            self.malformed(format!("an event that does not parse: {why}"))
        })?;
        match &chunk.error {
            None => Ok(chunk),
            Some(error) => {
                // Without a status it may pass.
                let status = wire::status_of(error).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Err(self.failure(status, None, data, self.reason(data)))
            }
        }
    }

    fn finish(&self, generation: &Generation, said: Said) -> Result<Heard, FailedAttempt> {
        if said.end.is_none() {
            return Err(FailedAttempt {
                error: PortError::unavailable(
                    &self.name,
                    io::Error::new(io::ErrorKind::UnexpectedEof, "the answer broke off"),
                ),
                again: Again::Soon,
            });
        }
        Ok(said.heard(generation))
    }
}

#[async_trait]
impl TextModel for OpenAiModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn draws_samples(&self) -> bool {
        true
    }

    async fn generate(&self, call: &Call, generation: Generation) -> Result<Generated, PortError> {
        // A server decides by itself what it puts before a text.
        let Prompt::Chat(chat) = &generation.prompt else {
            let detail = "a chat endpoint cannot continue a bare text";
            return Err(PortError::refused(&self.name, detail));
        };
        let _generating = call.doing(Activity::Generate);
        let deadline = Instant::now() + self.limits.total;
        let mut half = None;
        let asked = self.ask_in_its_form(call, chat, &generation, deadline, &mut half);
        let asked = timeout_at(deadline, asked)
            .await
            .unwrap_or_else(|_| Err(self.timeout(self.limits.total)));
        match (asked, half) {
            // Half a text is better than none.
            (Err(error), Some(half)) if error.allows_substitute(call.lane()) => Ok(half),
            (asked, _) => asked,
        }
    }

    /// The name is resolved and the connection open. No prompt is sent.
    async fn warm(&self, _call: &Call, _generation: Generation) -> Result<(), PortError> {
        let _permit = self.permit().await;
        let asked = self.client.head(self.url.clone()).send();
        // Whatever it says to that: it is there.
        match timeout(self.limits.silence, asked).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(PortError::unavailable(&self.name, error.without_url())),
            Err(_) => Err(self.timeout(self.limits.silence)),
        }
    }
}

fn is_blank(heard: &Heard) -> bool {
    heard.generated.text.trim().is_empty()
}
