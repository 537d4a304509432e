//! The pages of the web, made of a corpus: one for each title.

use std::collections::{HashMap, HashSet};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};
use spechop_lexical::{Bm25, words};

use crate::dataset::CorpusPassage;

/// A word of the title counts as often as this many of the text.
const TITLE_WEIGHT: usize = 3;
/// A paragraph ends after the sentence that makes it this long, in bytes.
const PARAGRAPH_BYTES: usize = 320;
/// The longest snippet, in bytes.
const SNIPPET_BYTES_MAX: usize = 220;
/// What an address may hold as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'_')
    .remove(b'-')
    .remove(b'.')
    .remove(b'(')
    .remove(b')')
    .remove(b',');

/// What a page looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// An article with a table of facts.
    Encyclopedia,
    /// A lead story between teasers, under a cookie banner.
    News,
    /// A list of entries, of which the one that was looked for is the third.
    Blog,
    /// Tables in tables, in the Latin alphabet's old encoding where that is possible.
    Archive,
}

impl Look {
    const ALL: [Self; 4] = [Self::Encyclopedia, Self::News, Self::Blog, Self::Archive];

    /// The first part of the path.
    fn site(self) -> &'static str {
        match self {
            Self::Encyclopedia => "wiki",
            Self::News => "news",
            Self::Blog => "blog",
            Self::Archive => "archive",
        }
    }
}

/// A page, apart from what stands around its article.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) title: String,
    /// The article: every passage of this title.
    pub(super) paragraphs: Vec<String>,
    /// Where it is, percent-encoded.
    pub(super) path: String,
    pub(super) look: Look,
}

/// All pages, ranked.
#[derive(Debug)]
pub(super) struct Pages {
    pages: Vec<Page>,
    /// By path, decoded.
    places: HashMap<String, usize>,
    ranking: Bm25,
    /// The page of each text that is ranked.
    ranked: Vec<usize>,
}

impl Pages {
    /// Every passage gets onto a page. The seed decides what each looks like.
    pub(super) fn new(passages: Vec<CorpusPassage>, seed: u64) -> Self {
        let mut by_title: HashMap<String, usize> = HashMap::new();
        let mut articles: Vec<(String, Vec<String>)> = Vec::new();
        for CorpusPassage { title, text } in passages {
            let at = *by_title.entry(title.clone()).or_insert_with(|| {
                articles.push((title, Vec::new()));
                articles.len() - 1
            });
            // Two corpora may hold the same passage.
            if !articles[at].1.contains(&text) {
                articles[at].1.push(text);
            }
        }
        let (mut texts, mut ranked) = (Vec::new(), Vec::new());
        for (at, (title, passages)) in articles.iter().enumerate() {
            let title = [title.as_str(); TITLE_WEIGHT].join(" ");
            texts.extend(passages.iter().map(|text| format!("{title} {text}")));
            ranked.extend(passages.iter().map(|_| at));
        }
        let (mut pages, mut places) = (Vec::with_capacity(articles.len()), HashMap::new());
        for (at, (title, texts)) in articles.into_iter().enumerate() {
            let look = Look::ALL[at_random(seed, &title) as usize % Look::ALL.len()];
            let mut place = format!("/{}/{}", look.site(), title.replace(' ', "_"));
            if places.contains_key(&place) {
                place = format!("{place}_{at}");
            }
            let path = utf8_percent_encode(&place, PATH).to_string();
            places.insert(place, at);
            pages.push(Page {
                paragraphs: texts.iter().flat_map(|text| paragraphs(text)).collect(),
                title,
                path,
                look,
            });
        }
        Self {
            ranking: Bm25::new(texts),
            ranked,
            pages,
            places,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// By its number, which searches give.
    pub(super) fn get(&self, page: usize) -> Option<&Page> {
        self.pages.get(page)
    }

    pub(super) fn by_title(&self, title: &str) -> Option<(usize, &Page)> {
        let mut pages = self.pages.iter().enumerate();
        pages.find(|(_, page)| page.title == title)
    }

    /// By its path, percent-encoded or not.
    pub(super) fn by_path(&self, path: &str) -> Option<&Page> {
        let decoded = percent_decode_str(path).decode_utf8().ok()?;
        self.places.get(&*decoded).map(|at| &self.pages[*at])
    }

    /// Numbers, pages and scores, best first. A page is as good as the best passage of its article, as it is
    /// to the large engines: otherwise a long page is found by its title alone.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<(usize, &Page, f32)> {
        let mut seen = HashSet::new();
        let found = self.ranking.search(query, self.ranked.len());
        let first = found.into_iter().filter_map(|(text, score)| {
            let at = self.ranked[text];
            seen.insert(at).then(|| (at, &self.pages[at], score))
        });
        first.take(limit).collect()
    }

    /// What is about similar things, nearest first, without the page itself.
    pub(super) fn related(&self, page: &Page, limit: usize) -> Vec<&Page> {
        let first = page.paragraphs.first().map_or("", String::as_str);
        let found = self.search(&format!("{} {first}", page.title), limit + 1);
        let others = found.into_iter().map(|(_, other, _)| other);
        let others = others.filter(|other| other.path != page.path);
        others.take(limit).collect()
    }
}

impl Page {
    /// The sentence that shares most words with the query, cut at a word.
    pub(super) fn snippet(&self, query: &str) -> &str {
        let asked: HashSet<String> = words(query).into_iter().collect();
        let shared = |sentence: &&str| {
            let unique: HashSet<String> = words(sentence).into_iter().collect();
            unique.intersection(&asked).count()
        };
        let sentences = self.paragraphs.iter().flat_map(|text| sentences(text));
        // Of equals the first: `max_by_key` would take the last.
        let best = sentences
            .rev()
            .max_by_key(shared)
            .unwrap_or_default()
            .trim();
        if best.len() <= SNIPPET_BYTES_MAX {
            return best;
        }
        let cut = &best[..best.floor_char_boundary(SNIPPET_BYTES_MAX)];
        cut.rsplit_once(' ').map_or(cut, |(whole, _)| whole)
    }
}

/// A number that follows from seed and text.
pub(super) fn at_random(seed: u64, text: &str) -> u32 {
    let digest = Sha256::digest(format!("{seed}:{text}"));
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = Vec::new();
    for line in text.lines() {
        let mut paragraph = String::new();
        for sentence in sentences(line) {
            paragraph.push_str(sentence);
            if paragraph.len() >= PARAGRAPH_BYTES {
                paragraphs.push(std::mem::take(&mut paragraph));
            }
        }
        paragraphs.push(paragraph);
    }
    paragraphs
        .iter_mut()
        .for_each(|text| text.truncate(text.trim_end().len()));
    paragraphs.retain(|text| !text.is_empty());
    paragraphs
}

/// The sentences of a text, with the blank behind them. `St. Maurice` and `J. Smith` are not taken apart.
fn sentences(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let mut sentences = Vec::new();
    let mut begin = 0;
    for (at, _) in text.match_indices(". ") {
        let word = text[begin..at].rsplit(' ').next().unwrap_or_default();
        if word.chars().count() > 3 && !word.contains('.') {
            sentences.push(&text[begin..at + 2]);
            begin = at + 2;
        }
    }
    sentences.push(&text[begin..]);
    sentences.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(title: &str, text: &str) -> CorpusPassage {
        CorpusPassage {
            title: title.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn passages_of_one_title_share_a_page() {
        let passages = vec![
            passage("Warsaw Pact", "Eight members."),
            passage("Łódź / A?", "A city in Poland."),
            passage("Warsaw Pact", "Founded in 1955."),
            passage("Warsaw Pact", "Eight members."),
            passage("Warsaw_Pact", "A film."),
        ];
        let pages = Pages::new(passages, 1);
        assert_eq!(pages.len(), 3);
        let (at, pact) = pages.by_title("Warsaw Pact").unwrap();
        assert_eq!(
            (at, &*pact.paragraphs),
            (
                0,
                &["Eight members.".to_owned(), "Founded in 1955.".to_owned()][..]
            )
        );
        for at in 0..3 {
            let page = pages.get(at).unwrap();
            assert!(
                page.path.is_ascii() && !page.path.contains(['?', ' ']),
                "{}",
                page.path
            );
            assert_eq!(pages.by_path(&page.path).unwrap().title, page.title);
        }
        assert!(pages.by_path("/wiki/%ff").is_none());
        assert_eq!(pages.search("city of Poland", 5)[0].0, 1);
        let related = pages.related(pact, 5);
        assert_eq!(related.len(), 1, "{related:?}");
        assert_eq!(related[0].title, "Warsaw_Pact");
    }

    #[test]
    fn paragraphs_hold_whole_sentences() {
        let text = "She was the abbess of St. Maurice's Abbey. ".repeat(20);
        let split = paragraphs(&text);
        assert!(split.len() > 1);
        assert!(
            split.iter().all(|text| text.ends_with("Abbey.")),
            "{split:?}"
        );
        assert_eq!(split.join(" "), text.trim_end());
        assert_eq!(paragraphs("One.\n\nTwo."), ["One.", "Two."]);
    }

    #[test]
    fn a_snippet_is_about_the_query() {
        let page = Page {
            title: "Oder".into(),
            paragraphs: vec![
                "The Oder is a river. It rises in the Czech Republic.".into(),
                "x".repeat(150) + " " + &"ü".repeat(150) + " mouth",
            ],
            path: "/wiki/Oder".into(),
            look: Look::News,
        };
        assert_eq!(
            page.snippet("where does it rise, in which republic?"),
            "It rises in the Czech Republic."
        );
        assert_eq!(page.snippet("nothing"), "The Oder is a river.");
        assert_eq!(page.snippet("mouth"), "x".repeat(150));
    }
}
