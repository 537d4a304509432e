//! A server that answers a JSON request with JSON: asked again if a failure may pass, and its failures
//! told apart by status.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use spechop_ports::retry::{Again, FailedAttempt, Retries, retry};
use spechop_ports::{Call, PortError, named, reason};
use tokio::time::{Instant, timeout_at};

use crate::http::{Answer, Broken, Http, HttpEndpoint, InvalidHttpEndpoint, key};

/// How to ask such a server.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Its whole address; a key is sent as a bearer token.
    pub endpoint: HttpEndpoint,
    /// For the whole call: waiting, retries and their pauses included.
    pub total: Duration,
    /// What to do about failures that may pass.
    pub retries: Retries,
}

impl ServiceOptions {
    /// An attempt may take so long. So the whole call may, too.
    pub fn set_time_limit(&mut self, time_limit: Duration) {
        self.endpoint.time_limit = time_limit;
        self.total = self.total.max(time_limit);
    }

    /// Without a key: 10 s an attempt, 30 s in all, 4 MiB an answer.
    pub(crate) fn new(name: &str, url: impl Into<String>) -> Self {
        let mut endpoint = HttpEndpoint::new(name, url);
        endpoint.body_bytes_max = 4 * 1024 * 1024;
        Self {
            endpoint,
            total: Duration::from_secs(30),
            retries: Retries::default(),
        }
    }
}

/// The server.
#[derive(Debug)]
pub(crate) struct Service {
    http: Http,
    /// The header, and the key itself, to be cut from what the server says.
    key: Option<(HeaderValue, SecretString)>,
    total: Duration,
    retries: Retries,
}

impl Service {
    /// Checks the options; connects to nothing yet.
    pub(crate) fn new(options: &ServiceOptions) -> Result<Self, InvalidHttpEndpoint> {
        let secret = options.endpoint.key.clone();
        let key = secret.map(|secret| Ok((key(&options.endpoint, "Bearer ")?, secret)));
        Ok(Self {
            http: Http::new(&options.endpoint)?,
            key: key.transpose()?,
            total: options.total,
            retries: options.retries,
        })
    }

    /// Posts `body`, with these headers, and reads the answer.
    pub(crate) async fn post<T>(
        &self,
        call: &Call,
        headers: &[(&'static str, &str)],
        body: &Value,
        parse: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<T, PortError> {
        let body = body.to_string();
        let deadline = Instant::now() + self.total;
        let attempts = retry(&self.retries, call, deadline, || async {
            let answer = self.attempt(call, headers, &body).await?;
            parse(&answer).map_err(|detail| FailedAttempt {
                error: PortError::malformed(self.what(), detail),
                again: Again::Never,
            })
        });
        let late = |_| PortError::timed_out(self.what(), self.total);
        timeout_at(deadline, attempts).await.map_err(late)?
    }

    /// Opens a connection. Nothing of interest is sent.
    pub(crate) async fn warm(&self) {
        self.http.warm().await;
    }

    async fn attempt(
        &self,
        call: &Call,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> Result<Vec<u8>, FailedAttempt> {
        let mut request = self
            .http
            .post(self.http.base().clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_owned());
        if let Some((authorization, _)) = &self.key {
            request = request.header(AUTHORIZATION, authorization);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.http.send(call, request).await;
        let answer = answer.map_err(|broken| self.broken(broken))?;
        if answer.status != StatusCode::OK {
            return Err(self.refused(&answer));
        }
        Ok(answer.body)
    }

    fn broken(&self, broken: Broken) -> FailedAttempt {
        let what = self.what();
        let (error, again) = match broken {
            Broken::Line(detail) => (PortError::unavailable(what, detail), Again::Soon),
            // Another request would only add to what the server does not keep up with.
            Broken::Late { limit } => (PortError::timed_out(what, limit), Again::Never),
            Broken::ProxyLogin => (PortError::refused(what, broken.to_string()), Again::Never),
            Broken::TooLong { .. } => {
                let detail = broken.to_string();
                (PortError::Malformed { what, detail }, Again::Never)
            }
        };
        FailedAttempt { error, again }
    }

    /// Sorts an answer that is none by its status.
    fn refused(&self, answer: &Answer) -> FailedAttempt {
        let status = answer.status;
        let secret = self.key.as_ref().map(|(_, secret)| secret.expose_secret());
        let detail = format!("{status}: {}", reason(&answer.body, secret.map(str::trim)));
        let after = answer.headers.get(RETRY_AFTER).map(HeaderValue::as_bytes);
        FailedAttempt::of_status(self.what(), status.as_u16(), after, detail)
    }

    /// Its name and address, for messages.
    pub(crate) fn what(&self) -> String {
        named(self.http.name(), self.http.base())
    }
}
