//! `robots.txt`: what a site wants robots to leave alone (RFC 9309).

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::Response;
use spechop_ports::Call;
use spechop_types::OwnedCache;
use texting_robots::Robot;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use url::{Position, Url};

use super::fetch::{Web, packed};
use super::{PageFailure, shown};

/// Files of all tenants together.
const FILES_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// What stands behind is not read.
const FILE_BYTES_MAX: usize = 500 << 10;
/// Each line that is no comment may become a rule, which takes a hundred bytes at least. Real files have hundreds of
/// them, and some thousands.
const LINES_MAX: usize = 10_000;
/// What a line with the name of a robot begins with, as its reader takes it.
const AGENTS: [&[u8]; 3] = [b"user-agent", b"user agent", b"useragent"];
/// Stands for the end of an address, at the end of a rule and behind the address itself. The reader of the file makes a
/// regular expression of each rule with a `$`, and comparing that may take as long as the site likes; any other rule
/// takes about as long as the address. Nothing that is evenly encoded holds this sign.
const END: u8 = b'|';
/// How long a file holds, and how long it counts that there was none to be had.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);
const RETRY: Duration = Duration::from_secs(10 * 60);
/// If no answer came, that may be our own line's fault. Then it is asked again after so many times as long as one may
/// take.
const WITHOUT_ANSWER: u32 = 10;

/// What sites want, as far as somebody has asked.
pub(super) struct Robots {
    /// The name by which sites know us.
    token: String,
    /// For one file: a part of the page's own time.
    limit: Duration,
    /// By scheme, host and port.
    sites: Mutex<OwnedCache<String, Site>>,
}

/// One site. Whoever comes first asks; the others wait for it.
type Site = Arc<OnceCell<Wish>>;

struct Wish {
    rule: Rule,
    until: Instant,
}

enum Rule {
    /// It has no file.
    Anything,
    /// Its text, read anew for each address. Its rules would take several times as much to keep, and evenly encoded it
    /// may be three times as long.
    File(Arc<[u8]>),
    /// It may have one, which cannot be had.
    Nothing(&'static str),
}

impl Robots {
    pub(super) fn new(token: &str, limit: Duration) -> Self {
        Self {
            token: token.to_owned(),
            limit,
            sites: Mutex::new(OwnedCache::new(FILES_MAX)),
        }
    }

    /// Whether the site wants the address to be fetched. Boxed, since the file comes over the web.
    pub(super) fn ask<'a>(
        &'a self,
        web: &'a Web,
        call: &'a Call,
        url: &'a Url,
    ) -> BoxFuture<'a, Result<(), PageFailure>> {
        Box::pin(async move {
            let site = self.site(call, url);
            let wish = site.get_or_init(|| self.wish(web, call, url)).await;
            let forbidden = |why: &str| {
                let (url, why) = (shown(url), why.to_owned());
                Err(PageFailure::Forbidden { url, why })
            };
            match &wish.rule {
                Rule::Anything => Ok(()),
                Rule::File(text) => match self.allows(text, url).await {
                    Some(true) => Ok(()),
                    Some(false) => forbidden("the site's robots.txt excludes it"),
                    None => forbidden("the site's robots.txt cannot be read"),
                },
                Rule::Nothing(why) => forbidden(why),
            }
        })
    }

    fn site(&self, call: &Call, url: &Url) -> Site {
        let key = call.owned(url[..Position::BeforePath].to_owned());
        let mut sites = self.sites.lock();
        if let Some(site) = sites.get(&key)
            && site.get().is_none_or(|wish| Instant::now() < wish.until)
        {
            return Arc::clone(site);
        }
        let site = Site::default();
        sites.insert(key, Arc::clone(&site));
        site
    }

    async fn wish(&self, web: &Web, call: &Call, url: &Url) -> Wish {
        let (rule, lasts) = match timeout(self.limit, self.fetch(web, call, url)).await {
            Ok(found) => found,
            Err(_) => {
                let slow = Rule::Nothing("the site's robots.txt took too long");
                (slow, self.limit * WITHOUT_ANSWER)
            }
        };
        Wish {
            rule,
            until: Instant::now() + lasts,
        }
    }

    async fn fetch(&self, web: &Web, call: &Call, url: &Url) -> (Rule, Duration) {
        let unknown = |why| (Rule::Nothing(why), RETRY);
        let Ok(url) = url.join("/robots.txt") else {
            return (Rule::Anything, FRESH);
        };
        let Ok((_, response)) = web.follow(call, &url, None, None).await else {
            let why = "the site's robots.txt cannot be fetched";
            return (Rule::Nothing(why), self.limit * WITHOUT_ANSWER);
        };
        match response.status().as_u16() {
            200..=299 => {}
            429 => return unknown("the site asks for patience"),
            400..=499 => return (Rule::Anything, FRESH),
            _ => return unknown("the site's robots.txt cannot be fetched"),
        }
        if packed(&response).is_some() {
            return unknown("the site's robots.txt cannot be read");
        }
        let Ok(text) = read(response).await else {
            return unknown("the site's robots.txt cannot be fetched");
        };
        let text = without_versions(&text);
        if is_too_long(&text) {
            return unknown("the site's robots.txt is too long");
        }
        let text: Arc<[u8]> = text.into();
        match self.allows(&text, &url).await {
            Some(_) => (Rule::File(text), FRESH),
            None => unknown("the site's robots.txt cannot be read"),
        }
    }

    /// Whether the file lets us have the address; `None` if it cannot be read. Every rule of it is compared, and there
    /// may be thousands.
    async fn allows(&self, text: &Arc<[u8]>, url: &Url) -> Option<bool> {
        let (token, text, url) = (self.token.clone(), Arc::clone(text), url.clone());
        let compare = move || {
            let robot = Robot::new(&token, &with_even_values(&text)).ok()?;
            let mut path = evenly_encoded(url[Position::BeforePath..].as_bytes());
            // No file excludes itself.
            let is_itself = path == b"/robots.txt";
            path.push(END);
            Some(is_itself || robot.allowed(&String::from_utf8_lossy(&path)))
        };
        spawn_blocking(compare).await.ok().flatten()
    }
}

/// The file without the versions of robots: they are no part of a name, but whoever copies it from a log writes
/// `User-agent: SpecHop/0.1.0`.
fn without_versions(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    for line in text.split_inclusive(ends_line) {
        let version = line.iter().position(|byte| *byte == b'/');
        match version.filter(|_| names_robot(line)) {
            Some(version) => {
                plain.extend_from_slice(&line[..version]);
                plain.push(b'\n');
            }
            None => plain.extend_from_slice(line),
        }
    }
    plain
}

/// The file with what stands behind the key of each line [as a pattern](push_pattern). The key stays: it is no path.
fn with_even_values(text: &[u8]) -> Vec<u8> {
    let mut even = Vec::with_capacity(text.len());
    for line in text.split_inclusive(ends_line) {
        // A reader takes lines without a colon, too: there the path begins with one of the other signs.
        let begin = line.iter().position(|byte| b":/*$".contains(byte));
        let (key, value) = line.split_at(begin.unwrap_or(line.len()));
        let comment = value.iter().position(|byte| *byte == b'#');
        let rule = &value[..comment.unwrap_or(value.len())];
        let is_part = |byte: &u8| !byte.is_ascii_whitespace() && !ends_line(byte);
        let end = rule.iter().rposition(is_part).map_or(0, |last| last + 1);
        even.extend_from_slice(key);
        push_pattern(&mut even, &rule[..end]);
        // Its reader leaves out the comment, and needs the end of the line.
        even.extend_from_slice(&value[end..]);
    }
    even
}

/// The rule [evenly encoded](evenly_encoded), but for the signs that mean something in it: `*` anywhere, and `$` at its
/// end (RFC 9309, 2.2.3).
fn push_pattern(even: &mut Vec<u8>, rule: &[u8]) {
    let ended = rule.strip_suffix(b"$");
    let parts = ended.unwrap_or(rule).split(|byte| *byte == b'*');
    let parts: Vec<_> = parts.map(evenly_encoded).collect();
    even.extend(parts.join(&b'*'));
    even.extend(ended.map(|_| END));
}

/// A path, or a part of one, with one spelling of every character: there are many, all of which a site takes for the
/// same, and the reader of the file compares letter by letter (RFC 9309, 2.2.2).
fn evenly_encoded(text: &[u8]) -> Vec<u8> {
    let mut even = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| *first == b'%');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (byte, digits) {
            (Some(byte), _) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                even.push(byte);
            }
            (Some(_), Some(digits)) => {
                even.push(b'%');
                even.extend_from_slice(&digits.to_ascii_uppercase());
            }
            _ => {
                // An address has these encoded, some of them in its path or in its query only.
                let encoded: &[u8] = match *first {
                    b'{' => b"%7B",
                    b'}' => b"%7D",
                    b'\'' => b"%27",
                    b'`' => b"%60",
                    // Of a path these may be parts like any other.
                    END => b"%7C",
                    b'$' => b"%24",
                    b'*' => b"%2A",
                    _ => std::slice::from_ref(first),
                };
                even.extend_from_slice(encoded);
                rest = behind;
                continue;
            }
        }
        rest = &behind[2..];
    }
    even
}

fn names_robot(line: &[u8]) -> bool {
    // Some editors put a mark in front of the file, which its reader passes over.
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let line = line.trim_ascii_start();
    AGENTS.iter().any(|key| {
        let begin = line.get(..key.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(key))
    })
}

/// Whether reading the file would take much time or memory.
fn is_too_long(text: &[u8]) -> bool {
    let lines = text.split(ends_line);
    let lines = lines.map(<[u8]>::trim_ascii_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    lines.count() > LINES_MAX
}

/// As the reader of the file has it.
fn ends_line(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0)
}

/// The body, or its beginning.
async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut text = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        text.extend_from_slice(&chunk);
        if text.len() > FILE_BYTES_MAX {
            // Half a line is no rule.
            text.truncate(FILE_BYTES_MAX);
            let end = text.iter().rposition(ends_line).unwrap_or(0);
            text.truncate(end);
            break;
        }
    }
    Ok(text)
}
