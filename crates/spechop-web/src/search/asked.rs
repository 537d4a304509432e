//! How every engine is asked, and what the status of an answer means.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;
use reqwest::header::{LOCATION, RETRY_AFTER};
use reqwest::{RequestBuilder, StatusCode};
use spechop_ports::retry::retry_after;
use spechop_ports::{Call, SearchFailure, SearchProvider, SearchResult, SearchTrouble};
use spechop_types::Activity;
use url::Url;

use super::listing::{challenge, in_mere_words, malformed};
use crate::http::{Answer, Broken, Http};

/// What differs between engines: the request, and how its answer is read.
pub(super) trait EngineAdapter: Send + Sync + 'static {
    /// What is sent of a query. If nothing is left of it, nothing is found.
    fn words(&self, query: &str) -> String {
        in_mere_words(query, &[])
    }

    /// A search for these words.
    fn request(&self, http: &Http, words: &str, limit: usize) -> RequestBuilder;

    /// The results of an answer, or what is the matter with it.
    fn read(&self, answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble>;

    /// The results in a body that is still coming; `None` if it is read at its end alone.
    fn so_far(&self, _body: &[u8]) -> Option<Vec<SearchResult>> {
        None
    }
}

/// An engine as a provider. The call hears of it if the engine asks for less.
pub(super) struct Provider<A> {
    http: Http,
    adapter: A,
    forbidden: Mutex<ForbiddenQueries>,
}

impl<A: EngineAdapter> Provider<A> {
    pub(super) fn new(http: Http, adapter: A) -> Self {
        Self {
            http,
            adapter,
            forbidden: Mutex::default(),
        }
    }

    /// What the answer to a search for these words lists, or what is the matter with the engine or with the words.
    fn read(&self, words: &str, answer: &Answer) -> Result<Vec<SearchResult>, SearchTrouble> {
        let found = self.adapter.read(answer);
        let mut forbidden = self.forbidden.lock();
        match &found {
            Ok(_) => forbidden.answered(),
            // If it is a block, that is what it is.
            Err(trouble)
                if answer.status == StatusCode::FORBIDDEN
                    && trouble.lasts()
                    && forbidden.is_fault_of(words) =>
            {
                return Err(of_this_search(malformed("status 403"), "this query"));
            }
            Err(_) => {}
        }
        found
    }
}

#[async_trait]
impl<A: EngineAdapter> SearchProvider for Provider<A> {
    fn name(&self) -> &str {
        self.http.name()
    }

    async fn search_streaming(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
        on_result: &mut (dyn FnMut(SearchResult) + Send),
    ) -> Result<Vec<SearchResult>, SearchFailure> {
        let words = self.adapter.words(query);
        if limit == 0 || words.is_empty() {
            return Ok(Vec::new());
        }
        let request = self.adapter.request(&self.http, &words, limit);
        let mut listed = Listed::default();
        let so_far = &mut |status: StatusCode, body: &[u8]| {
            if status == StatusCode::OK {
                listed.tell(body, limit, |body| self.adapter.so_far(body), on_result);
            }
        };
        let _searching = call.doing(Activity::Search);
        let answer = self.http.send_and_watch(call, request, so_far).await;
        let answer = answer.map_err(SearchTrouble::from);
        match answer.and_then(|answer| self.read(&words, &answer)) {
            Ok(mut results) => {
                results.truncate(limit);
                Ok(results)
            }
            Err(trouble) => {
                if trouble.pushes_back() {
                    call.push_back();
                }
                Err(trouble.of(self.http.name()))
            }
        }
    }

    async fn warm(&self, _call: &Call) {
        self.http.warm().await;
    }
}

/// So many queries in a row that are forbidden are not each its own fault.
const FORBIDDEN_MAX: usize = 3;

/// The different queries that an engine has forbidden (status 403) since it last answered; `None` if it has not answered
/// yet, or has forbidden too many.
///
/// It says so to who has the wrong key, or is not set up for it. But it has accepted those if it has just answered. Then
/// something before it, such as a firewall, may have disliked a word.
#[derive(Default)]
struct ForbiddenQueries(Option<Vec<String>>);

impl ForbiddenQueries {
    fn answered(&mut self) {
        self.0 = Some(Vec::new());
    }

    /// Whether it was the fault of this query that it was forbidden just now.
    fn is_fault_of(&mut self, words: &str) -> bool {
        let Some(queries) = &mut self.0 else {
            return false;
        };
        if !queries.iter().any(|known| known == words) {
            queries.push(words.to_owned());
        }
        let is_fault = queries.len() < FORBIDDEN_MAX;
        if !is_fault {
            self.0 = None;
        }
        is_fault
    }
}

/// A body that comes slowly is looked at again whenever so many more bytes of it are there, and a quarter
/// more than before. A result on a page of DuckDuckGo has about 2,000.
pub(super) const LOOK_BYTES: usize = 500;

/// What has been told of a body that is still coming.
#[derive(Default)]
pub(super) struct Listed {
    results: usize,
    /// It is looked at again when it has so many bytes.
    pub(super) next: usize,
}

impl Listed {
    /// Tells the results that the body has so far, but for the last: it may be half a one.
    pub(super) fn tell(
        &mut self,
        body: &[u8],
        limit: usize,
        so_far: impl Fn(&[u8]) -> Option<Vec<SearchResult>>,
        on_result: &mut (dyn FnMut(SearchResult) + Send),
    ) {
        if self.results >= limit || body.len() < self.next {
            return;
        }
        // Each look reads all anew: of a long body there are few.
        self.next = body.len() + LOOK_BYTES.max(body.len() / 4);
        let Some(mut known) = so_far(body) else {
            // Longer it is not going to fit, either.
            self.next = usize::MAX;
            return;
        };
        known.pop();
        for result in known.into_iter().take(limit).skip(self.results) {
            on_result(result);
            self.results += 1;
        }
    }
}

impl Answer {
    /// The body of an answer with status 200; all others are trouble, whatever the provider.
    pub(crate) fn body(&self) -> Result<&[u8], SearchTrouble> {
        let status = self.status;
        let said = format!("status {}", status.as_u16());
        if status == StatusCode::OK {
            return Ok(&self.body);
        }
        if let Some(word) = self.challenge() {
            let how = format!("{said} and a {word}");
            return Err(SearchTrouble::Blocked { how });
        }
        Err(match status.as_u16() {
            301..=308 => SearchTrouble::Misconfigured {
                remedy: format!(
                    "{said}: it has moved{}; set its base URL to where it is now",
                    self.moved_to()
                ),
            },
            401..=403 => SearchTrouble::BadKey { detail: said },
            407 => Broken::ProxyLogin.into(),
            404 | 405 | 410 => SearchTrouble::Misconfigured {
                remedy: format!("{said}: no search is there; check its base URL"),
            },
            429 => self.rate_limited(),
            503 if self.headers.contains_key(RETRY_AFTER) => self.rate_limited(),
            408 | 500.. => SearchTrouble::Unreachable { detail: said },
            // A bad request, of which the query is all that differs from one time to the next.
            400 | 413 | 414 | 422 | 431 => of_this_search(malformed(said), "this query"),
            _ => malformed(said),
        })
    }

    /// Too many requests, until the time that the headers say.
    pub(crate) fn rate_limited(&self) -> SearchTrouble {
        let header = |name| self.headers.get(name)?.to_str().ok();
        let retry_after =
            header(RETRY_AFTER.as_str()).and_then(|value| retry_after(value, SystemTime::now()));
        let reset = || {
            let resets = header("x-ratelimit-reset")?;
            reset(resets, header("x-ratelimit-remaining").unwrap_or_default())
        };
        SearchTrouble::RateLimited {
            retry_after: retry_after.or_else(reset),
        }
    }

    /// Two well-known services say so in a header, others in the page.
    fn challenge(&self) -> Option<&'static str> {
        let is_told = |name| self.headers.get(name).is_some_and(|v| v == "challenge");
        if ["cf-mitigated", "x-amzn-waf-action"]
            .into_iter()
            .any(is_told)
        {
            return Some("challenge");
        }
        challenge(&self.body)
    }

    /// Only the host: the rest may be anything.
    fn moved_to(&self) -> String {
        let location = self.headers.get(LOCATION).and_then(|v| v.to_str().ok());
        let url = location.and_then(|location| Url::parse(location).ok());
        match url.as_ref().and_then(Url::host_str) {
            Some(host) => format!(" to {host}"),
            None => String::new(),
        }
    }
}

/// The trouble of a `part` of one search. That search fails, as if it had been made of several, but the next may well
/// find something: no breaker counts it.
pub(super) fn of_this_search(trouble: SearchTrouble, part: &str) -> SearchTrouble {
    SearchTrouble::All(vec![trouble.of(&part.into())])
}

impl From<Broken> for SearchTrouble {
    fn from(broken: Broken) -> Self {
        let detail = broken.to_string();
        match broken {
            Broken::Line(_) | Broken::Late { .. } => Self::Unreachable { detail },
            Broken::ProxyLogin => Self::Misconfigured {
                remedy: format!("{detail}; set web.proxy_login_env"),
            },
            Broken::TooLong { .. } => Self::Malformed { detail },
        }
    }
}

/// When a window of several is open again whose requests are used up, in seconds (`1, 1419704`).
fn reset(resets: &str, remaining: &str) -> Option<Duration> {
    let numbers = |list: &str| -> Vec<Option<u64>> {
        list.split(',').map(|n| n.trim().parse().ok()).collect()
    };
    let (resets, remaining) = (numbers(resets), numbers(remaining));
    let used_up = resets
        .iter()
        .zip(&remaining)
        .filter(|(_, n)| **n == Some(0));
    let seconds = used_up.filter_map(|(reset, _)| *reset).max();
    let seconds = seconds.or_else(|| resets.iter().flatten().min().copied())?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_window_that_is_used_up_is_taken() {
        for (resets, remaining, seconds) in [
            ("1, 1419704", "0, 1000", Some(1)),
            ("1, 1419704", "1, 0", Some(1_419_704)),
            ("1, 1419704", "0, 0", Some(1_419_704)),
            ("1, 1419704", "", Some(1)),
            ("30", "0", Some(30)),
            ("soon", "0", None),
            ("", "", None),
        ] {
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(reset(resets, remaining), expected, "{resets} {remaining}");
        }
    }
}
