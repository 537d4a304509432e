//! Passages: the unit of retrieval and of citation.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// A passage that a retriever returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The corpus's own identifier, e.g. `2w-00017`; stable across index builds.
    pub id: Arc<str>,
    /// Title of the page it comes from.
    pub title: Arc<str>,
    /// The text itself: data from outside, never an instruction.
    pub text: Arc<str>,
    /// Where it comes from, if that is known.
    pub url: Option<Arc<str>>,
    /// Similarity to the query; higher is nearer. Comparable only within one answer of one
    /// retriever.
    pub score: f32,
}

impl Passage {
    /// The longest URL that stands beside a passage, in bytes. Each passage of a page has it, so that long ones
    /// would take the memory.
    pub const URL_BYTES_MAX: usize = 4096;

    /// An identifier for a text that came without one. The same text has the same one, also after a
    /// restart.
    pub fn id_of_text(title: &str, text: &str) -> Arc<str> {
        let mut hasher = DefaultHasher::new();
        (title, text).hash(&mut hasher);
        format!("text-{:016x}", hasher.finish()).into()
    }

    /// Passages of one answer in their order, no id twice.
    ///
    /// A page may have several. If they are known by its address alone, each is known by what it says, whichever came
    /// first.
    pub fn distinct(passages: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut passages: Vec<Self> = passages.into_iter().collect();
        let mut texts: HashMap<Arc<str>, Arc<str>> = HashMap::new();
        let mut pages = HashSet::new();
        for passage in passages
            .iter()
            .filter(|passage| passage.is_named_by_address())
        {
            let id = Arc::clone(&passage.id);
            let first = texts.entry(id).or_insert_with(|| Arc::clone(&passage.text));
            if *first != passage.text {
                pages.insert(Arc::clone(&passage.id));
            }
        }
        for passage in &mut passages {
            if passage.is_named_by_address() && pages.contains(&passage.id) {
                passage.id = Self::id_of_text(&passage.title, &passage.text);
            }
        }
        let mut ids = HashSet::new();
        passages.retain(|passage| ids.insert(Arc::clone(&passage.id)));
        passages
    }

    fn is_named_by_address(&self) -> bool {
        let url = self.url.as_deref();
        url.is_some_and(|url| self.id.starts_with(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_several_passages_and_an_id_one() {
        let passage = |id: &str, url: Option<&str>, text: &str| Passage {
            id: id.into(),
            title: "T".into(),
            text: text.into(),
            url: url.map(Arc::from),
            score: 1.0,
        };
        let of_page = |text| passage("https://h/", Some("https://h/"), text);
        let found = Passage::distinct([
            of_page("a"),
            of_page("b"),
            of_page("a"),
            of_page("b"),
            passage("7", Some("https://h/"), "c"),
            passage("7", Some("https://h/"), "d"),
            passage("8", None, "c"),
        ]);
        let told: Vec<_> = found.iter().map(|p| (&*p.id, &*p.text)).collect();
        let [a, b] = ["a", "b"].map(|text| Passage::id_of_text("T", text));
        assert_eq!(told, [(&*a, "a"), (&*b, "b"), ("7", "c"), ("8", "c")]);
        let alone = Passage::distinct([of_page("a"), of_page("a")]);
        assert_eq!((alone.len(), &*alone[0].id), (1, "https://h/"));
    }
}
