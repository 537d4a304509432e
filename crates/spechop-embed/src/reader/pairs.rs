//! A sub-question and a passage to tokens, and tokens back to the passage's text.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use spechop_types::Passage;
use tokenizers::Tokenizer;

use super::ReaderRecipe;
use crate::OpenError;
use crate::session::Row;
use crate::text::{head, largest_token, one_line, open_tokenizer, unusable_tokenizer};

/// What stands between a title and its text.
const JOINED: &str = ". ";

/// A mark that belongs to the letter before it, as an accent of its own does.
#[expect(
    clippy::expect_used,
    reason = "the pattern is a constant, and a test has marks in its text"
)]
static MARK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\p{M}$").expect("it is written above"));

/// The tokenizer with the recipe's prefix and limit around it.
pub(crate) struct PairCutter {
    tokenizer: Tokenizer,
    query_prefix: String,
    tokens_max: usize,
}

/// The tokens of a pair.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ids: Vec<u32>,
    pub(crate) type_ids: Vec<u32>,
}

impl Pair {
    pub(crate) fn row(&self) -> Row<'_> {
        Row {
            ids: &self.ids,
            type_ids: &self.type_ids,
        }
    }
}

/// What the passage of a pair looks like, and where its tokens came from.
#[derive(Debug)]
pub(crate) struct Shown {
    text: String,
    /// The passage's tokens among those of the pair: none where it is nothing but blanks.
    tokens: Range<usize>,
    /// Bytes of `text`, one pair for each of `tokens`.
    offsets: Vec<(usize, usize)>,
}

/// A pair, and what it shows of which passage of a request.
pub(crate) struct Part {
    pub(crate) pair: Pair,
    pub(crate) shown: Shown,
    pub(crate) passage: usize,
}

impl PairCutter {
    pub(crate) fn open(path: &Path, recipe: &ReaderRecipe) -> Result<Self, OpenError> {
        let cutter = Self {
            tokenizer: open_tokenizer(path)?,
            query_prefix: recipe.query_prefix.clone(),
            tokens_max: recipe.tokens_max,
        };
        let (pair, shown) = cutter
            .pair("a", "b", "c")
            .map_err(|detail| unusable_tokenizer(path, detail))?;
        // Without this the model cannot tell the question from the passage.
        let of_type = |kind| move |(at, &id): (usize, &u32)| (id == kind).then_some(at);
        let mut second = pair.type_ids.iter().enumerate().filter_map(of_type(1));
        let mut first = pair.type_ids.iter().enumerate().filter_map(of_type(0));
        if first.next().is_none() || second.next() != Some(shown.tokens.start) {
            let detail = "it does not give the second text of a pair type 1".to_owned();
            return Err(unusable_tokenizer(path, detail));
        }
        Ok(cutter)
    }

    /// The pair of a sub-question and a passage. An error where the sub-question leaves no room
    /// for the passage.
    pub(crate) fn pair(
        &self,
        question: &str,
        title: &str,
        text: &str,
    ) -> Result<(Pair, Shown), String> {
        let first = [&self.query_prefix, head(question, self.tokens_max)].concat();
        // As little as can be read: the rest of a long text is not copied for each of its parts.
        let mut second = [
            head(title, self.tokens_max),
            JOINED,
            head(text, self.tokens_max),
        ]
        .concat();
        second.truncate(head(&second, self.tokens_max).len());
        // Not `encode_fast`, which leaves the offsets out. They are bytes of the text as given,
        // whatever the normaliser has done to it.
        let encoding = self
            .tokenizer
            .encode((first, second.as_str()), true)
            .map_err(|error| one_line(&error))?;
        let of_passage = |sequence: &Option<usize>| *sequence == Some(1);
        let sequences = encoding.get_sequence_ids();
        // What is cut is the end, the closing special token included: so the model was trained.
        let count = encoding.len().min(self.tokens_max);
        let start = sequences.iter().position(of_passage).unwrap_or(count);
        let end = sequences
            .iter()
            .rposition(of_passage)
            .map_or(count, |last| count.min(last + 1));
        if start >= end && encoding.len() > count {
            return Err(format!(
                "the sub-question leaves no room for a passage within {} tokens",
                self.tokens_max
            ));
        }
        let pair = Pair {
            ids: encoding.get_ids()[..count].to_vec(),
            type_ids: encoding.get_type_ids()[..count].to_vec(),
        };
        let shown = Shown {
            tokens: start..end.max(start),
            offsets: encoding.get_offsets()[start..end.max(start)].to_vec(),
            text: second,
        };
        Ok((pair, shown))
    }

    /// The pairs of a sub-question and passages, and which passage each shows. First come the beginnings of all
    /// passages, in their order. What is longer than the model can read goes on behind them, in at most
    /// `further` parts, each under the passage's title.
    pub(crate) fn pairs(
        &self,
        question: &str,
        passages: &[Passage],
        further: usize,
    ) -> Result<Vec<Part>, String> {
        let mut parts: Vec<Part> = Vec::new();
        let mut unread: VecDeque<(usize, &str)> = VecDeque::new();
        let beginnings = passages.iter().enumerate();
        unread.extend(beginnings.map(|(at, passage)| (at, &*passage.text)));
        let most = passages.len() + further;
        while let Some((passage, text)) = unread.pop_front()
            && parts.len() < most
        {
            let title = &*passages[passage].title;
            let (pair, shown) = self.pair(question, title, text)?;
            if further > 0
                && let Some(rest) = shown.rest(title, text)
            {
                unread.push_back((passage, rest));
            }
            parts.push(Part {
                pair,
                shown,
                passage,
            });
        }
        Ok(parts)
    }

    /// The largest token id that can come out of here.
    pub(crate) fn largest_token(&self) -> u32 {
        largest_token(&self.tokenizer)
    }
}

impl Shown {
    /// A passage of which each word is a token, for tests of what comes after.
    #[cfg(test)]
    pub(crate) fn of_words(text: &str, first_token: usize) -> Self {
        let offset = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        let offsets: Vec<_> = text
            .split_whitespace()
            .map(|word| (offset(word), offset(word) + word.len()))
            .collect();
        Self {
            text: text.to_owned(),
            tokens: first_token..first_token + offsets.len(),
            offsets,
        }
    }

    /// What of a text is not shown behind its title, from the beginning of the sentence that is cut, or of the
    /// word if that is far; `None` if all of it is.
    fn rest<'t>(&self, title: &str, text: &'t str) -> Option<&'t str> {
        let (_, end) = *self.offsets.last()?;
        let seen =
            text.get(..text.floor_char_boundary(end.checked_sub(title.len() + JOINED.len())?))?;
        if !text[seen.len()..].contains(char::is_alphanumeric) {
            return None;
        }
        let half = seen.ceil_char_boundary(seen.len() / 2);
        let gaps = || seen[half..].char_indices().map(|(at, c)| (half + at, c));
        let is_gap = |&(_, c): &(usize, char)| c.is_whitespace();
        let ends = |&(at, _): &(usize, char)| seen[..at].ends_with(['.', '!', '?', '\n']);
        let sentence = gaps().rfind(|gap| is_gap(gap) && ends(gap));
        let gap = sentence.or_else(|| gaps().rfind(is_gap));
        let start = gap.map_or(seen.len(), |(at, _)| at);
        (start > 0).then(|| text[start..].trim_start())
    }

    /// The passage's tokens among those of the pair.
    pub(crate) fn tokens(&self) -> Range<usize> {
        self.tokens.clone()
    }

    /// The text from one token of the passage on, and how long it is to the end of another one, without blanks
    /// around that. A token may be a part of a word ("and", "rzej"): what is missing of the first and the last
    /// word is taken, too.
    pub(crate) fn from(&self, first: usize, last: usize) -> (&str, usize) {
        let offset = |token: usize| {
            let at = token.checked_sub(self.tokens.start)?;
            self.offsets.get(at).copied()
        };
        let (Some((start, _)), Some((_, end))) = (offset(first), offset(last)) else {
            return ("", 0);
        };
        // A tokenizer of bytes may cut within a character: take all of it.
        let (start, end) = (
            self.text.floor_char_boundary(start),
            self.text.ceil_char_boundary(end),
        );
        let (before, behind) = (self.text.get(..start), self.text.get(end..));
        let (Some(before), Some(span), Some(behind)) = (before, self.text.get(start..end), behind)
        else {
            return ("", 0);
        };
        let missing_before = if span.starts_with(in_word) {
            before.len() - before.trim_end_matches(in_word).len()
        } else {
            0
        };
        let missing_behind = if span.ends_with(in_word) {
            behind.len() - behind.trim_start_matches(in_word).len()
        } else {
            0
        };
        let start = start - missing_before;
        let span = &self.text[start..end + missing_behind];
        let leading = span.len() - span.trim_start().len();
        (&self.text[start + leading..], span.trim().len())
    }
}

/// Behind U+2E80 are the scripts that put no blanks between words. A soft hyphen is where a word may be broken,
/// so it is within one.
fn in_word(c: char) -> bool {
    let is_mark = || !c.is_ascii() && MARK.is_match(c.encode_utf8(&mut [0; 4]));
    c < '\u{2E80}' && (c.is_alphanumeric() || c == '\u{AD}' || is_mark())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(shown: &Shown, first: usize, last: usize) -> &str {
        let (text, len) = shown.from(first, last);
        &text[..len]
    }
    use spechop_testkit::assets::shipped_model;
    use spechop_testkit::passage;

    fn cutter(tokens_max: usize) -> PairCutter {
        PairCutter {
            tokenizer: open_tokenizer(&shipped_model("spechop-reader").join("tokenizer.json"))
                .expect("a tokenizer"),
            query_prefix: "query: ".to_owned(),
            tokens_max,
        }
    }

    #[test]
    fn a_pair_is_prefixed_joined_and_typed() {
        let (pair, shown) = cutter(256).pair("who", "Film", "who").expect("tokens");
        // [CLS] query : who [SEP] film . who [SEP]
        assert_eq!(
            pair.ids,
            [101, 23032, 1024, 2040, 102, 2143, 1012, 2040, 102]
        );
        assert_eq!(pair.type_ids, [0, 0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(shown.tokens(), 5..8);
        assert_eq!(slice(&shown, 5, 7), "Film. who");
    }

    #[test]
    fn the_end_of_the_passage_is_cut_and_nothing_else() {
        let (pair, shown) = cutter(16)
            .pair("who", "Film", &"word ".repeat(1000))
            .expect("tokens");
        assert_eq!(pair.ids.len(), 16);
        assert_eq!(shown.tokens(), 5..16);
        assert_ne!(pair.ids[15], 102);
        let error = cutter(16).pair(&"word ".repeat(100), "Film", "who");
        assert!(error.expect_err("no room").contains("no room"));
        // A question that leaves room for one token is read.
        let (_, shown) = cutter(16)
            .pair(&"word ".repeat(11), "Film", "x")
            .expect("tokens");
        assert_eq!(shown.tokens(), 15..16);
    }

    #[test]
    fn a_long_passage_goes_on_under_its_title_behind_the_beginnings_of_all() {
        let passage = |title: &str, text: String| passage(title, title, text);
        let sentence = "She went on to the next town. ";
        let long = format!("{}She died in Delft.", sentence.repeat(24));
        let passages = [passage("Ana", long), passage("Bea", "She is short.".into())];
        let parts = cutter(64)
            .pairs("where did she die", &passages, 9)
            .expect("tokens");
        let shown = |part: &Part| {
            let all = part.shown.tokens();
            slice(&part.shown, all.start, all.end - 1).to_owned()
        };
        let texts: Vec<_> = parts
            .iter()
            .map(|part| (part.passage, shown(part)))
            .collect();
        assert_eq!(texts[1], (1, "Bea. She is short.".to_owned()));
        assert!(texts[0].1.starts_with("Ana. She went") && !texts[0].1.contains("Delft"));
        // No sentence is cut in all of them.
        for (passage, text) in &texts[2..] {
            assert_eq!(*passage, 0);
            assert!(text.starts_with("Ana. She "), "{text}");
        }
        assert!(
            texts
                .last()
                .is_some_and(|(_, text)| text.contains("died in Delft."))
        );
        let count = |further| {
            let parts = cutter(64).pairs("where did she die", &passages, further);
            parts.expect("tokens").len()
        };
        assert_eq!((count(0), count(1), count(2)), (2, 3, 4));
        // Without a blank, and without an end.
        let endless = [
            passage("Ana", "x".repeat(1_000_000)),
            passage("é", "é".repeat(1_000_000)),
            passage("Ouse", "A river. ".repeat(100_000)),
        ];
        let parts = cutter(64).pairs("who", &endless, 8).expect("tokens");
        assert_eq!(parts.len(), 3 + 8);
        let kept: usize = parts.iter().map(|part| part.shown.text.capacity()).sum();
        assert!(kept <= parts.len() * 2 * 64 * 64, "{kept}");
    }

    #[test]
    fn a_megabyte_is_not_read_to_its_end() {
        let (pair, shown) = cutter(64)
            .pair("who", "é", &"é ".repeat(1_000_000))
            .expect("tokens");
        assert_eq!(pair.ids.len(), 64);
        assert!(shown.text.len() <= 64 * 64);
        let blank = " ".repeat(1_000_000);
        let (_, shown) = cutter(64).pair("who", &blank, "é").expect("tokens");
        assert!(shown.tokens().is_empty(), "nothing but blanks within reach");
    }

    #[test]
    fn tokens_lead_back_to_the_text_as_it_was_written() {
        let text = "Xawery Żuławski (born 22 Dec. 1971) — Łódź, 東京, e\u{301}t\u{e9}, 🦀, ﬁve, \
                    Jose\u{301} died, Donau\u{ad}dampf";
        let (_, shown) = cutter(256).pair("who", "Żuławski", text).expect("tokens");
        let slices: Vec<&str> = shown
            .tokens()
            .flat_map(|first| (first..shown.tokens().end).map(move |last| (first, last)))
            .map(|(first, last)| slice(&shown, first, last))
            .collect();
        for word in [
            "Xawery Żuławski",
            "22 Dec. 1971",
            "Łódź",
            "東京",
            "東",
            "🦀",
            "ﬁve",
            "e\u{301}t\u{e9}",
            "Jose\u{301}",
            "Donau\u{ad}dampf",
        ] {
            assert!(slices.contains(&word), "{word}");
        }
        for part in ["Jose", "Donau", "dampf"] {
            assert!(!slices.contains(&part), "{part}");
        }
        assert_eq!(slice(&shown, 0, 3), "", "what is no token of the passage");
    }

    #[test]
    fn no_word_is_cut_in_two() {
        let text = "by Andrzej Wajda, Łódź-born (1926)";
        let (_, shown) = cutter(256).pair("who", "", text).expect("tokens");
        let all = shown.tokens();
        // The tokenizer knows none of these words.
        assert!(all.len() > text.split_whitespace().count() + 6, "{all:?}");
        for first in all.clone() {
            for last in first..all.end {
                let span = slice(&shown, first, last);
                let at = shown.text.find(span).expect("a part of the text");
                let (before, behind) = (&shown.text[..at], &shown.text[at + span.len()..]);
                assert!(
                    !(span.starts_with(in_word) && before.ends_with(in_word)),
                    "{span}"
                );
                assert!(
                    !(span.ends_with(in_word) && behind.starts_with(in_word)),
                    "{span}"
                );
            }
        }
    }
}
