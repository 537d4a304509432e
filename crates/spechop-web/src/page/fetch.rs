//! From an address to the bytes behind it.
//!
//! Every request of this crate to an address that a stranger named goes through [`Web::send`]: it
//! checks the address, and its clients connect to checked addresses alone. Redirects are followed by
//! hand, since each of them is such an address, too.
//!
//! Through a proxy, the address is checked as it is written, and no further: the proxy looks names up.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{self, HeaderMap, HeaderValue};
use spechop_ports::Call;
use spechop_types::innermost;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

use super::clients::{Clients, Recipe};
use super::extract::Kind;
use super::options::{PageOptions, PageSetupError};
use super::robots::Robots;
use super::{Page, PageFailure, Version, shown};
use crate::address::{Gate, Policy};
use crate::resolve::{Names, forbidden};

/// What a body may be packed with, by IANA's list. Some sites write something else there, such as the name of its
/// characters: then it is not packed.
const PACKINGS: [&str; 12] = [
    "aes128gcm",
    "br",
    "compress",
    "dcb",
    "dcz",
    "deflate",
    "exi",
    "gzip",
    "pack200-gzip",
    "x-compress",
    "x-gzip",
    "zstd",
];
/// A longer mark of a version is not kept.
const MARK_BYTES_MAX: usize = 256;

/// The web, as far as it may be fetched.
pub(super) struct Web {
    policy: Policy,
    /// What decides on names.
    names: Policy,
    clients: Clients,
    limit: Duration,
    redirects_max: usize,
}

/// What was fetched.
pub(super) struct Fetched {
    /// Where, after redirects.
    pub(super) url: Url,
    pub(super) kind: Kind,
    /// What the header says of its characters.
    pub(super) charset: Option<String>,
    pub(super) body: Vec<u8>,
    pub(super) version: Version,
    /// Why the body ended early, if it did. What came may be enough.
    pub(super) cut: Option<PageFailure>,
}

impl Web {
    pub(super) fn new(options: &PageOptions, names: Names) -> Result<Self, PageSetupError> {
        let policy = options.policy();
        let recipe = Recipe {
            names,
            agent: options.agent(),
            proxy: options.proxy.clone(),
        };
        let mut of_names = policy.clone();
        if options.proxy.is_some() {
            // Whether a name stands for an address that is open is not seen from here.
            of_names.allow.clear();
        }
        let clients = Clients::new(recipe, policy.gates()).map_err(PageSetupError::Client)?;
        Ok(Self {
            policy,
            names: of_names,
            clients,
            limit: options.limit,
            redirects_max: options.redirects_max,
        })
    }

    /// The page behind the address, as much of it as comes until then; `None` if it is still as it is known.
    pub(super) async fn fetch(
        &self,
        call: &Call,
        url: &Url,
        known: Option<&Page>,
        robots: Option<&Robots>,
        body_bytes_max: usize,
        until: Instant,
    ) -> Result<Option<Fetched>, PageFailure> {
        let late = |url| PageFailure::Timeout {
            url: shown(url),
            limit: self.limit,
        };
        let followed = timeout_at(until, self.follow(call, url, known, robots)).await;
        let (url, mut response) = followed.map_err(|_| late(url))??;
        let unreadable = |detail| PageFailure::Unreadable {
            url: shown(&url),
            detail,
        };
        if response.status() == 304 && version_of(known, &url).is_some() {
            return Ok(None);
        }
        if response.status() != 200 {
            return Err(unreachable(
                &url,
                format!("status {}", response.status().as_u16()),
            ));
        }
        let version = version(response.headers());
        let (kind, charset) = kind(response.headers()).map_err(unreadable)?;
        if let Some(encoding) = packed(&response) {
            return Err(unreadable(format!("packed as {encoding:?}")));
        }
        let too_large = || unreadable(format!("larger than {body_bytes_max} bytes"));
        if response
            .content_length()
            .is_some_and(|length| length > body_bytes_max as u64)
        {
            return Err(too_large());
        }
        let mut body = Vec::new();
        let cut = loop {
            match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(chunk))) if body.len() + chunk.len() > body_bytes_max => {
                    return Err(too_large());
                }
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None)) => break None,
                Ok(Err(error)) => break Some(unreachable(&url, said(&error))),
                Err(_) => break Some(late(&url)),
            }
        };
        Ok(Some(Fetched {
            kind: kind.unwrap_or_else(|| sniff(&body)),
            charset,
            body,
            cut,
            version,
            url,
        }))
    }

    /// Goes where the redirects lead. `robots` is asked before every request.
    pub(super) async fn follow(
        &self,
        call: &Call,
        url: &Url,
        known: Option<&Page>,
        robots: Option<&Robots>,
    ) -> Result<(Url, Response), PageFailure> {
        let mut url = url.clone();
        url.set_fragment(None);
        let mut passed = Vec::new();
        loop {
            if let Some(robots) = robots {
                // An address that may not be fetched has no `robots.txt` to ask for.
                self.gate(&url)?;
                robots.ask(self, call, &url).await?;
            }
            let response = self.send(call, &url, version_of(known, &url)).await?;
            let Some(next) = target(&url, &response)? else {
                return Ok((url, response));
            };
            if passed.len() == self.redirects_max {
                let detail = format!("more than {} redirects", self.redirects_max);
                return Err(unreachable(&url, detail));
            }
            passed.push(std::mem::replace(&mut url, next));
            if passed.contains(&url) {
                return Err(unreachable(&url, "its redirects go in a circle".to_owned()));
            }
        }
    }

    /// One request, its address checked.
    async fn send(
        &self,
        call: &Call,
        url: &Url,
        known: Option<&Version>,
    ) -> Result<Response, PageFailure> {
        let gate = self.gate(url)?;
        let client = self.clients.of(call, gate).await;
        let client = client.map_err(|detail| unreachable(url, detail))?;
        let mut request = client.get(url.clone());
        for (name, mark) in [
            (header::IF_NONE_MATCH, known.map(|known| &known.etag)),
            (
                header::IF_MODIFIED_SINCE,
                known.map(|known| &known.modified),
            ),
        ] {
            if let Some(Some(mark)) = mark {
                request = request.header(name, &**mark);
            }
        }
        let sent = request.send().await;
        sent.map_err(|error| match forbidden(&error) {
            Some(why) => PageFailure::Forbidden {
                url: shown(url),
                why: why.0,
            },
            None => unreachable(url, said(&error)),
        })
    }

    fn gate(&self, url: &Url) -> Result<Gate, PageFailure> {
        let policy = match url.host() {
            Some(Host::Domain(_)) => &self.names,
            _ => &self.policy,
        };
        policy.gate(url).map_err(|why| PageFailure::Forbidden {
            url: shown(url),
            why: why.0,
        })
    }
}

/// How a body is packed, if that is none of the ways that we asked for: those are unpacked by now.
pub(super) fn packed(response: &Response) -> Option<&HeaderValue> {
    let encoding = response.headers().get(header::CONTENT_ENCODING)?;
    let mut names = encoding.as_bytes().split(|byte| *byte == b',');
    let is_packing = |name: &[u8]| {
        let name = name.trim_ascii();
        PACKINGS
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    names.any(is_packing).then_some(encoding)
}

/// Where a response sends us, if it does.
fn target(url: &Url, response: &Response) -> Result<Option<Url>, PageFailure> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(header::LOCATION);
    let location = location.and_then(|location| std::str::from_utf8(location.as_bytes()).ok());
    match location.and_then(|location| url.join(location).ok()) {
        Some(mut next) => {
            next.set_fragment(None);
            Ok(Some(next))
        }
        None => Err(unreachable(url, "a redirect to nowhere".to_owned())),
    }
}

/// The version of a known page, if it is the one at this address: a redirect may lead elsewhere than it did, and
/// what is there may be as old as its site says, and another page.
fn version_of<'a>(known: Option<&'a Page>, url: &Url) -> Option<&'a Version> {
    let there = known.filter(|page| page.url == *url);
    there.map(|page| &page.version)
}

/// The marks of the version that was sent.
fn version(headers: &HeaderMap) -> Version {
    let mark = |name| {
        let value = headers.get(name)?.to_str().ok()?;
        (value.len() <= MARK_BYTES_MAX).then(|| value.into())
    };
    Version {
        etag: mark(header::ETAG),
        modified: mark(header::LAST_MODIFIED),
    }
}

/// What the headers say of kind and characters; no kind if they are silent.
fn kind(headers: &HeaderMap) -> Result<(Option<Kind>, Option<String>), String> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Ok((None, None));
    };
    let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    let (essence, parameters) = value.split_once(';').unwrap_or((&value, ""));
    let kind = match essence.trim() {
        "" => None,
        "text/html" | "application/xhtml+xml" => Some(Kind::Html),
        "text/plain" => Some(Kind::Text),
        other => {
            let other: String = other.chars().take(60).collect();
            return Err(format!("{other:?} is neither HTML nor plain text"));
        }
    };
    let mut parameters = parameters
        .split(';')
        .filter_map(|parameter| parameter.split_once('='));
    let charset = parameters.find(|(name, _)| name.trim() == "charset");
    let charset = charset.map(|(_, value)| value.trim().trim_matches(['"', '\'']).to_owned());
    Ok((kind, charset))
}

/// The kind of a body that came without one.
fn sniff(body: &[u8]) -> Kind {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    match body.trim_ascii_start().first() {
        Some(b'<') => Kind::Html,
        _ => Kind::Text,
    }
}

fn unreachable(url: &Url, detail: String) -> PageFailure {
    PageFailure::Unreachable {
        url: shown(url),
        detail,
    }
}

/// Its innermost cause: the outer ones say no more than that a request failed.
fn said(error: &reqwest::Error) -> String {
    innermost(error).to_string()
}
