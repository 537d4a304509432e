//! The page at `/`: what a browser shows of a question while it is answered. It is plain files, embedded
//! as they lie in the repository, and it asks over the doors that any client uses.
//!
//! The files hold no secret and name no other origin, and the policy forbids what they do not need.
//! Questions and passages may hold markup: the page only ever writes them as text, and no script that
//! they hold would run.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::House;
use crate::html::{Page, Sentence};
use crate::shares::Shares;
use crate::transport::Door;

/// Scripts, styles and connections come from here and go here. Nobody may frame the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A file of the page.
struct File {
    name: &'static str,
    kind: &'static str,
    text: Cow<'static, str>,
    /// The text in a third of the bytes, made when it is first asked for. Empty if that failed.
    packed: OnceLock<Bytes>,
}

macro_rules! files {
    ($($name:literal: $kind:expr,)*) => {
        [$(File {
            name: $name,
            kind: $kind,
            text: Cow::Borrowed(include_str!(concat!("../page/", $name))),
            packed: OnceLock::new(),
        }),*]
    };
}

const INDEX: &str = include_str!("../page/index.html");

static ALL: [File; 12] = files! {
    "index.html": HTML,
    "page.css": CSS,
    "app.js": SCRIPT,
    "dom.js": SCRIPT,
    "draw.js": SCRIPT,
    "look.js": SCRIPT,
    "panels.js": SCRIPT,
    "read.js": SCRIPT,
    "reduce.js": SCRIPT,
    "run.js": SCRIPT,
    "stream.js": SCRIPT,
    "trace.js": SCRIPT,
};

/// Builds the door.
pub(super) fn add_to(house: &mut House, shares: Option<&Arc<Shares>>) {
    let index = File::html(match shares {
        Some(_) => INDEX.replace("id=\"share\" hidden", "id=\"share\""),
        None => INDEX.to_owned(),
    });
    let index = get(async move |headers: HeaderMap| index.respond(&headers));
    house.add(Door::get("/").for_anybody(), index);
    let files = get(async |Path(name): Path<Arc<str>>, headers: HeaderMap| found(&name, &headers));
    house.add(Door::get("/page/{file}").for_anybody(), files);
    let Some(shares) = shares.cloned() else {
        return;
    };
    // The page for one run, a step further down. What it shows it fetches itself.
    let shared = INDEX.replace("\"page/", "\"../page/");
    let shared = File::html(shared.replace("<body>", "<body class=\"shared\">"));
    let shared =
        get(
            async move |Path(token): Path<String>, headers: HeaderMap| match shares.run(&token) {
                Some(_) => shared.respond(&headers),
                None => {
                    let page = Page {
                        status: StatusCode::NOT_FOUND,
                        policy: POLICY,
                        up: "../",
                    };
                    let why = Sentence {
                        text: "It has expired, was ended, or never led anywhere.",
                    };
                    page.of("This link leads nowhere", &why)
                }
            },
        );
    house.add(Door::get("/s/{token}").for_anybody(), shared);
}

fn found(name: &str, headers: &HeaderMap) -> Response {
    match ALL.iter().find(|file| file.name == name) {
        Some(file) => file.respond(headers),
        None => (StatusCode::NOT_FOUND, "the page has no such file\n").into_response(),
    }
}

impl File {
    fn html(text: String) -> Arc<Self> {
        Arc::new(Self {
            name: "index.html",
            kind: HTML,
            text: Cow::Owned(text),
            packed: OnceLock::new(),
        })
    }

    /// The file, unless the browser has it already.
    fn respond(&self, headers: &HeaderMap) -> Response {
        let tag = self.tag();
        let known = headers.get_all(IF_NONE_MATCH).into_iter();
        let mut known = known.filter_map(|tags| tags.to_str().ok());
        let same = known.any(|tags| tags.split(',').any(|known| known.trim() == tag));
        let common = [
            (ETAG, &*tag),
            // Asked for again each time, so that the page fits the server behind it.
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // Other servers learn nothing of the address. This one is told where a form comes from.
            (REFERRER_POLICY, "same-origin"),
            (VARY, "accept-encoding"),
        ];
        if same {
            return (StatusCode::NOT_MODIFIED, common).into_response();
        }
        let kind = [(CONTENT_TYPE, self.kind)];
        let packed = self.packed();
        match takes_gzip(headers) && !packed.is_empty() {
            true => (common, kind, [(CONTENT_ENCODING, "gzip")], packed).into_response(),
            false => (common, kind, self.text.clone()).into_response(),
        }
    }

    fn packed(&self) -> Bytes {
        self.packed
            .get_or_init(|| packed(&self.text).into())
            .clone()
    }

    /// Another one for every other content. Weak, since packed or not it is the same.
    fn tag(&self) -> String {
        format!(
            "W/\"{:x}-{:08x}\"",
            self.text.len(),
            crc32fast::hash(self.text.as_bytes())
        )
    }
}

/// Nothing that says gzip, and does not refuse it, means anything else.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let all = headers.get_all(ACCEPT_ENCODING).into_iter();
    let mut all = all.filter_map(|codings| codings.to_str().ok());
    all.any(|codings| {
        codings.split(',').any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let refused = weight
                .trim()
                .strip_prefix("q=0")
                .is_some_and(|more| more.trim_matches(['0', '.']).is_empty());
            name.trim().eq_ignore_ascii_case("gzip") && !refused
        })
    })
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail; if it could, the text would be sent as it is.
    let written = packer.write_all(text.as_bytes());
    written.and_then(|()| packer.finish()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit of the page counts what is sent: packed, as every browser takes it.
    const SENT_MAX: usize = 60_000;
    /// What is sent to a client that cannot unpack. No limit, but nothing should grow unseen. It last grew so that
    /// passages are cited by the same rule as at the other doors.
    const BYTES_MAX: usize = 99_400;

    #[test]
    fn the_page_is_small() {
        let sent: usize = ALL.iter().map(|file| file.packed().len()).sum();
        let bytes: usize = ALL.iter().map(|file| file.text.len()).sum();
        assert!(
            sent > 0 && sent <= SENT_MAX,
            "the page is {sent} bytes with gzip, and may be {SENT_MAX} (docs/PAGE.md)"
        );
        assert!(
            bytes <= BYTES_MAX,
            "the source of the page is {bytes} bytes, and was {BYTES_MAX} at most: can it be simpler?"
        );
    }

    #[test]
    fn it_is_packed_for_whoever_can_unpack_it() {
        for (codings, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("identity", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, codings.parse().unwrap())]);
            let response = found("app.js", &headers);
            let packed = response.headers().contains_key(CONTENT_ENCODING);
            assert_eq!(packed, expected, "{codings}");
            assert_eq!(response.headers()[VARY], "accept-encoding");
        }
    }

    /// Every file that another one names, and no other origin.
    #[test]
    fn the_files_name_each_other_and_nobody_else() {
        for file in &ALL {
            let name = file.name;
            for part in file.text.split(['"', '\'']) {
                let local = part.strip_prefix("./").or(part.strip_prefix("page/"));
                if let Some(other) = local.filter(|other| other.contains('.')) {
                    assert!(
                        ALL.iter().any(|file| file.name == other),
                        "{name} names {other}, which is not served"
                    );
                }
            }
            // A name of XML, not an address.
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for foreign in [
                "http://",
                "https://",
                "//cdn",
                "eval(",
                "innerHTML",
                "style=",
            ] {
                assert!(!text.contains(foreign), "{name} holds {foreign}");
            }
        }
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again() {
        let ask = |tag: &str| {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, tag.parse().unwrap())]);
            found("app.js", &headers)
        };
        let first = ask("\"other\"");
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers()[ETAG].to_str().unwrap();
        for known in [tag.to_owned(), format!("\"other\", {tag}")] {
            let again = ask(&known);
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
            assert_eq!(again.headers()[CONTENT_SECURITY_POLICY], POLICY);
        }
        assert_eq!(
            found("../Cargo.toml", &HeaderMap::new()).status(),
            StatusCode::NOT_FOUND
        );
    }
}
