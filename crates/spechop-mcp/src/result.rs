//! How the result of a tool becomes passages.
//!
//! ```text
//! structured content, or JSON in text items ─▶ items ─┐
//! text items and embedded texts ─────────────▶ items ─┴▶ cut if long ─▶ passages, best first
//! ```

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use spechop_lexical::Bm25;
use spechop_text::{passages, plain};
use spechop_types::{Passage, cut_at_word};

/// A text of more words is cut into passages.
const WORDS_MAX: usize = 2 * passages::WORDS_MAX;
/// Passages that are made of one result; the rest is not looked at. Ordinary text of 4 MiB makes
/// fewer.
const PASSAGES_MAX: usize = 10_000;
/// Each passage of an item has its title, its id and its URL, so that long ones would take the
/// memory. A corpus has the same limits (`index/src/corpus.rs`).
const TITLE_CHARS_MAX: usize = 300;
const ID_BYTES_MAX: usize = 4096;
/// Where the list of items usually is, in this order.
const LISTS: [&str; 10] = [
    "results",
    "result",
    "items",
    "passages",
    "documents",
    "docs",
    "hits",
    "pages",
    "data",
    "organic",
];
/// What the parts of an item are usually called, in this order.
const IDS: [&str; 3] = ["id", "_id", "pageid"];
const TITLES: [&str; 3] = ["title", "name", "heading"];
const TEXTS: [&str; 10] = [
    "text",
    "content",
    "contents",
    "passage",
    "body",
    "snippet",
    "description",
    "summary",
    "extract",
    "excerpt",
];
const URLS: [&str; 4] = ["url", "link", "uri", "href"];
/// What holds an address, or the name of a collection.
const SOURCE: &str = "source";

/// What a result looks like. By default all of it is found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Texts, or JSON.
    pub form: Form,
    /// Where the list of items is in the JSON.
    pub items: Option<Path>,
    /// Where the identifier is in an item.
    pub id: Option<Path>,
    /// Where the title is in an item.
    pub title: Option<Path>,
    /// Where the text is in an item.
    pub text: Option<Path>,
    /// Where the address is in an item.
    pub url: Option<Path>,
}

/// Whether texts of a result are JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// JSON if items with texts are found in it, else texts.
    #[default]
    Auto,
    /// Every text is a passage, whatever is in it.
    Text,
    /// The structured content, or texts that are JSON. Anything else is an unusable answer.
    Json,
}

/// Names from the outside to the inside, with dots between them: `metadata.source`. A number counts
/// the items of a list from 0. An empty path is the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<String>);

impl From<&str> for Path {
    fn from(text: &str) -> Self {
        let names = text.split('.').filter(|name| !name.is_empty());
        Self(names.map(str::to_owned).collect())
    }
}

impl Path {
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |value, name| match value {
            Value::Object(fields) => fields.get(name),
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

/// What a tool says about one find.
#[derive(Debug, Default)]
struct Item {
    id: Option<String>,
    title: String,
    text: String,
    url: Option<String>,
}

impl Shape {
    /// At most `limit` passages, no id twice, in the order of the tool. If long texts had to be cut
    /// and there are more pieces than that, the ones that share most rare words with `query` come
    /// first. Megabytes of text take too long for a thread of the runtime.
    ///
    /// # Errors
    ///
    /// What is unusable about the result, in a few words.
    pub(crate) fn passages(
        &self,
        result: &CallToolResult,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, String> {
        let items = self.items_of(result)?;
        let (mut pieces, mut was_cut) = (Vec::new(), false);
        for item in &items {
            if pieces.len() >= PASSAGES_MAX {
                break;
            }
            let of_item = cut(item, PASSAGES_MAX - pieces.len());
            was_cut |= of_item.len() > 1;
            pieces.extend(of_item);
        }
        let mut found = Passage::distinct(pieces);
        if was_cut && found.len() > limit {
            found = nearest(found, query);
        }
        found.truncate(limit);
        let mut rank = 0.0;
        for passage in &mut found {
            rank += 1.0;
            passage.score = 1.0 / rank;
        }
        Ok(found)
    }

    fn items_of(&self, result: &CallToolResult) -> Result<Vec<Item>, String> {
        let texts = texts(result);
        if self.form == Form::Text {
            return Ok(texts);
        }
        let structured = result.structured_content.as_ref();
        let structured = structured.filter(|value| !value.is_null());
        let found = structured.map(|value| self.items_in(value));
        if let Some(Ok(items)) = found {
            return Ok(items);
        }
        let in_texts = || {
            let mut items = Vec::new();
            for text in &texts {
                let value: Value = serde_json::from_str(text.text.trim())
                    .map_err(|error| format!("a text of it is no JSON: {error}"))?;
                items.extend(self.items_in(&value)?);
            }
            Ok(items)
        };
        match (in_texts(), self.form) {
            (Ok(items), _) if !texts.is_empty() || structured.is_none() => Ok(items),
            (_, Form::Auto | Form::Text) if !texts.is_empty() => Ok(texts),
            (in_texts, _) => Err(match (found, in_texts) {
                (Some(Err(problem)), _) | (_, Err(problem)) => problem,
                (_, Ok(_)) => "there is nothing in it".to_owned(),
            }),
        }
    }

    /// The items of a JSON value. An empty list is a result, too.
    fn items_in(&self, value: &Value) -> Result<Vec<Item>, String> {
        let list = match &self.items {
            Some(path) => path
                .of(value)
                .ok_or_else(|| format!("nothing is at {:?} in it", path.0.join(".")))?,
            None => LISTS
                .iter()
                .filter_map(|name| value.get(name))
                .find(|value| value.is_array())
                .unwrap_or(value),
        };
        let one = std::slice::from_ref(list);
        let listed = list.as_array().map_or(one, Vec::as_slice);
        let items: Vec<Item> = listed.iter().filter_map(|item| self.item(item)).collect();
        if items.is_empty() && !listed.is_empty() {
            let fields = listed[0].as_object().map(|fields| {
                let names: Vec<_> = fields.keys().take(12).map(String::as_str).collect();
                names.join(", ")
            });
            let fields = fields.unwrap_or_else(|| "none".to_owned());
            return Err(format!(
                "no item has a text; the first one's fields are: {fields}"
            ));
        }
        Ok(items)
    }

    fn item(&self, value: &Value) -> Option<Item> {
        if let Some(text) = value.as_str() {
            return Some(Item {
                text: text.to_owned(),
                ..Item::default()
            });
        }
        value.as_object()?;
        let part = |path: &Option<Path>, usual: &[&str]| match path {
            Some(path) => path.of(value).and_then(said),
            None => usual.iter().find_map(|name| value.get(name).and_then(said)),
        };
        let source = || part(&None, &[SOURCE]).filter(|source| source.contains("://"));
        Some(Item {
            id: part(&self.id, &IDS),
            title: part(&self.title, &TITLES).unwrap_or_default(),
            text: part(&self.text, &TEXTS)?,
            url: match &self.url {
                Some(_) => part(&self.url, &[]),
                None => part(&None, &URLS).or_else(source),
            },
        })
    }
}

/// A text that is not blank, a number, or a list of them.
fn said(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(parts) => {
            let parts: Option<Vec<_>> = parts.iter().map(said).collect();
            parts
                .map(|parts| parts.join("\n"))
                .filter(|text| !text.is_empty())
        }
        Value::Object(_) | Value::Bool(_) | Value::Null => None,
    }
}

/// Text items, and texts that are embedded as resources. Pictures and sounds are no passages.
fn texts(result: &CallToolResult) -> Vec<Item> {
    let item = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => Some(Item {
            text: text.text.clone(),
            ..Item::default()
        }),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => Some(Item {
                text: text.clone(),
                url: Some(uri.clone()),
                ..Item::default()
            }),
            _ => None,
        },
        _ => None,
    };
    let items = result.content.iter().filter_map(item);
    items.filter(|item| !item.text.trim().is_empty()).collect()
}

/// The item as a passage, or as several if it is long, but no more than `most`. They share their
/// title and their URL.
fn cut(item: &Item, most: usize) -> Vec<Passage> {
    let url = item
        .url
        .as_deref()
        .filter(|url| url.len() <= Passage::URL_BYTES_MAX);
    let id = item.id.as_deref().filter(|id| id.len() <= ID_BYTES_MAX);
    let name = id.or(url);
    let url: Option<Arc<str>> = url.map(Arc::from);
    let short = |title: &str| -> Arc<str> { cut_at_word(title, TITLE_CHARS_MAX).into() };
    let passage = |title: &Arc<str>, text: &str, id: Arc<str>| Passage {
        id,
        title: Arc::clone(title),
        text: text.into(),
        url: url.clone(),
        score: 0.0,
    };
    let text = item.text.trim();
    if passages::weight(text) <= WORDS_MAX {
        let title = short(&item.title);
        let id = name.map_or_else(|| Passage::id_of_text(&title, text), Arc::from);
        return vec![passage(&title, text, id)];
    }
    let document = plain::parse(text);
    let title = match &document.title {
        Some(title) if item.title.is_empty() => title,
        _ => &item.title,
    };
    let title = short(title);
    let pieces = passages::cut(&document.blocks).into_iter().take(most);
    pieces
        .enumerate()
        .map(|(at, text)| {
            let id = match name {
                Some(name) => format!("{name}#{}", at + 1).into(),
                None => Passage::id_of_text(&title, &text),
            };
            passage(&title, &text, id)
        })
        .collect()
}

/// Those that share rare words with the query first, then the others, each in their order.
fn nearest(found: Vec<Passage>, query: &str) -> Vec<Passage> {
    let texts = found.iter().map(|p| format!("{} {}", p.title, p.text));
    let scores = Bm25::new(texts).scores(query);
    let mut ranked: Vec<_> = scores.into_iter().zip(found).collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    ranked.into_iter().map(|(_, passage)| passage).collect()
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
