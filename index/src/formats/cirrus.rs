//! `CirrusSearch` dumps of wikis: by turns a line with the id of a page, and a line with the page.
//!
//! A page is plain text, so no markup is read here. It brings along how many pages link to it.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use spechop_text::plain;

use super::objects::Objects;
use crate::corpus::{Entry, Reader, Record};
use crate::error::BuildError;
use crate::intake::Reason;

/// What cannot stand in the path of a URL.
const NOT_IN_A_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Reads such a dump.
pub(super) struct Cirrus {
    objects: Objects,
    /// The id of the page that comes next.
    announced: Option<String>,
}

/// Either of the two kinds of line.
#[derive(Deserialize)]
struct DumpLine {
    index: Option<Announced>,
    title: Option<String>,
    text: Option<String>,
    incoming_links: Option<u64>,
    /// `enwiki`
    wiki: Option<String>,
    /// `en`
    language: Option<String>,
}

#[derive(Deserialize)]
struct Announced {
    /// A number in some dumps, a string in others.
    _id: Value,
}

impl Cirrus {
    pub(super) fn new(objects: Objects) -> Self {
        Self {
            objects,
            announced: None,
        }
    }

    fn broken(&self, what: &str) -> Entry {
        Entry::LeftOut(Reason::Broken, format!("{}: {what}", self.place()))
    }

    fn page(&self, id: String, line: DumpLine) -> Entry {
        let url = line.url();
        let Some(title) = line.title else {
            return self.broken("a page without a title");
        };
        let head = Record {
            id,
            title,
            url,
            in_degree: line
                .incoming_links
                .map(|links| u32::try_from(links).unwrap_or(u32::MAX)),
            ..Record::default()
        };
        Entry::Page(head, plain::paragraphs(&line.text.unwrap_or_default()))
    }
}

impl Reader for Cirrus {
    fn next(&mut self) -> Result<Option<Entry>, BuildError> {
        loop {
            match self.objects.next::<DumpLine>()? {
                None => {
                    // The dump ends between the two lines of a page.
                    let announced = self.announced.take();
                    return Ok(announced.map(|_| Entry::LeftOut(Reason::Cut, self.place())));
                }
                Some(Err((reason, place))) => {
                    self.announced = None;
                    return Ok(Some(Entry::LeftOut(reason, place)));
                }
                Some(Ok(DumpLine {
                    index: Some(Announced { _id: id }),
                    ..
                })) => {
                    let id = match id {
                        Value::String(id) => id,
                        other => other.to_string(),
                    };
                    if let Some(missing) = self.announced.replace(id) {
                        let what = format!("page {missing:?} is missing before it");
                        return Ok(Some(self.broken(&what)));
                    }
                }
                Some(Ok(line)) => {
                    return Ok(Some(match self.announced.take() {
                        Some(id) => self.page(id, line),
                        None => self.broken("a page without the line with its id"),
                    }));
                }
            }
        }
    }

    fn place(&self) -> String {
        self.objects.place()
    }
}

impl DumpLine {
    /// The page's address, if the wiki is the Wikipedia of the page's language.
    fn url(&self) -> Option<String> {
        let (wiki, language) = (self.wiki.as_ref()?, self.language.as_ref()?);
        let plain = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        };
        let named = language.replace('-', "_") + "wiki";
        if *wiki != named || !plain(language) {
            return None;
        }
        let title = self.title.as_ref()?.replace(' ', "_");
        let title = utf8_percent_encode(&title, NOT_IN_A_PATH);
        Some(format!("https://{language}.wikipedia.org/wiki/{title}"))
    }
}
