//! Which texts share rare words with a query: Okapi BM25, in memory.
//!
//! The passage index (`spechop-store`) and the passages of web pages (`spechop-web`) mix its scores with
//! those of vectors, and the local web of the harness ranks its pages with it.
//!
//! Our own, because no kept crate is both small and enough. `tantivy` would be a second storage engine
//! beside ours and about a hundred crates. `bm25` walks over all words of every text that holds a word
//! of the query, gives equal scores in another order each time, and brings `fxhash`, which nobody
//! maintains. `bm25x` brings `bincode` 1, which nobody maintains, and words of its own. `rank-bm25` is
//! in its first release and takes 12 bytes of memory a posting. None of them gives the scores of all
//! texts for a mixture *and* folds words as the rest of this program does
//! ([`spechop_types::canonical`]).
//!
//! Scripts without blanks between words are compared by pairs of neighbouring characters, as search engines
//! usually do: a whole sentence would be one word otherwise, which no other text holds.
//!
//! A posting takes two bytes if its word is frequent: the distance to the text before it, and how
//! often the word occurs. Everything is built from the texts and never stored: an index over other
//! texts cannot be met by mistake.

use std::collections::HashMap;

use spechop_types::{canonical, is_unspaced};

/// How soon another occurrence of a word stops to count, and how much long texts are held back: the
/// usual values.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Ranks texts, which are numbers from 0.
#[derive(Debug, Default)]
pub struct Bm25 {
    /// The number of each word.
    words: HashMap<Box<str>, u32>,
    /// For each word, how many texts hold it, and where its postings end.
    holders: Vec<Holders>,
    /// The postings of each word one after the other; see [`Growing`].
    postings: Vec<u8>,
    /// What the length of each text adds below the fraction bar.
    held_back: Vec<f32>,
}

#[derive(Clone, Copy, Debug)]
struct Holders {
    texts: u32,
    end: usize,
}

impl Bm25 {
    /// Of texts in the order of their numbers.
    pub fn new<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut builder = Builder::default();
        for text in texts {
            builder.push(text.as_ref());
        }
        builder.finish()
    }

    /// How many texts there are.
    pub fn texts(&self) -> usize {
        self.held_back.len()
    }

    /// Bytes that the postings and the lengths of texts take in memory; the words come on top.
    pub fn bytes(&self) -> usize {
        self.postings.len() + size_of_val(&*self.held_back) + size_of_val(&*self.holders)
    }

    /// The score of every text, in the order of their numbers: 0 for one that holds no word of the
    /// query.
    pub fn scores(&self, query: &str) -> Vec<f32> {
        let mut scores = vec![0.0_f32; self.texts()];
        for (word, times) in self.known(query) {
            let weight = times * self.rarity(word);
            for (text, count) in self.postings(word) {
                let score = weight * count * (K1 + 1.0) / (count + self.held_back[text]);
                scores[text] += score;
            }
        }
        scores
    }

    /// What the scores of a query stay below: that of a text which consists of the query's words
    /// without end. A word that no text holds counts for nothing.
    pub fn bound(&self, query: &str) -> f32 {
        let words = self.known(query).into_iter();
        let bounds = words.map(|(word, times)| times * self.rarity(word) * (K1 + 1.0));
        bounds.sum()
    }

    /// The words of a query that some text holds, in order, and how often the query has them. So a word that is
    /// repeated costs no more than another one.
    fn known(&self, query: &str) -> Vec<(u32, f32)> {
        let (mut words, mut places) = (Vec::new(), HashMap::new());
        each_word(query, |word| {
            if let Some(word) = self.words.get(word) {
                let place = *places.entry(*word).or_insert(words.len());
                match words.get_mut(place) {
                    Some((_, times)) => *times += 1.0,
                    None => words.push((*word, 1.0)),
                }
            }
        });
        words
    }

    /// The scores as shares of the bound: from 0 to 1 whatever the length of the query and the number
    /// of texts.
    pub fn shares(&self, query: &str) -> Vec<f32> {
        let mut shares = self.scores(query);
        let bound = self.bound(query);
        if bound > 0.0 {
            shares.iter_mut().for_each(|score| *score /= bound);
        }
        shares
    }

    /// The best texts for a query and their scores, best first; of equals the earlier text. A text
    /// that holds none of its words is not among them.
    pub fn search(&self, query: &str, limit: usize) -> Vec<(usize, f32)> {
        let scored = self.scores(query).into_iter().enumerate();
        let mut best: Vec<(usize, f32)> = scored.filter(|(_, score)| *score > 0.0).collect();
        let better = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if limit < best.len() {
            best.select_nth_unstable_by(limit, better);
            best.truncate(limit);
        }
        best.sort_unstable_by(better);
        best
    }

    /// Never below 0, however many texts hold the word.
    #[expect(clippy::cast_precision_loss, reason = "a logarithm is taken of it")]
    fn rarity(&self, word: u32) -> f32 {
        let (all, holding) = (
            self.texts() as f32,
            self.holders[word as usize].texts as f32,
        );
        (1.0 + (all - holding + 0.5) / (holding + 0.5)).ln()
    }

    /// The texts that hold a word, in their order, and how often.
    #[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
    fn postings(&self, word: u32) -> impl Iterator<Item = (usize, f32)> + '_ {
        let word = word as usize;
        let start = word.checked_sub(1).map_or(0, |last| self.holders[last].end);
        let mut bytes = self.postings[start..self.holders[word].end].iter();
        let mut next = 0;
        std::iter::from_fn(move || {
            let text = next + number(&mut bytes)? as usize;
            let count = number(&mut bytes)?;
            next = text + 1;
            Some((text, count as f32))
        })
    }
}

/// Collects texts.
#[derive(Debug, Default)]
pub struct Builder {
    words: HashMap<Box<str>, u32>,
    postings: Vec<Growing>,
    lengths: Vec<u32>,
    /// Words of the text at hand, each as often as it occurs.
    met: Vec<u32>,
}

/// The postings of a word while texts are added: for each text that holds it the number of texts since
/// the last one, and how often it occurs, as numbers of seven bits a byte.
#[derive(Debug, Default)]
struct Growing {
    bytes: Vec<u8>,
    texts: u32,
    /// The number behind that of the last text.
    next: u32,
}

impl Builder {
    /// Adds a text; its number is how many were added before.
    pub fn push(&mut self, text: &str) {
        self.met.clear();
        each_word(text, |word| {
            let known = self.words.get(word).copied();
            let number = known.unwrap_or_else(|| {
                let number = self.postings.len() as u32;
                self.words.insert(word.into(), number);
                self.postings.push(Growing::default());
                number
            });
            self.met.push(number);
        });
        // An index holds far fewer passages than 2³².
        let text = self.lengths.len() as u32;
        self.lengths.push(self.met.len() as u32);
        self.met.sort_unstable();
        for same in self.met.chunk_by(|a, b| a == b) {
            let word = &mut self.postings[same[0] as usize];
            put_number(&mut word.bytes, text - word.next);
            put_number(&mut word.bytes, same.len() as u32);
            word.texts += 1;
            word.next = text + 1;
        }
    }

    /// Ranks what was added.
    #[expect(clippy::cast_precision_loss, reason = "a mean is taken of it")]
    pub fn finish(self) -> Bm25 {
        let all: u64 = self.lengths.iter().map(|length| u64::from(*length)).sum();
        let usual = (all as f32 / self.lengths.len().max(1) as f32).max(1.0);
        let held_back = |length: u32| K1 * (1.0 - B + B * length as f32 / usual);
        let mut postings = Vec::with_capacity(self.postings.iter().map(|w| w.bytes.len()).sum());
        let mut holders = Vec::with_capacity(self.postings.len());
        for word in self.postings {
            postings.extend_from_slice(&word.bytes);
            holders.push(Holders {
                texts: word.texts,
                end: postings.len(),
            });
        }
        Bm25 {
            words: self.words,
            holders,
            postings,
            held_back: self.lengths.into_iter().map(held_back).collect(),
        }
    }
}

/// Words as they are compared: folded, and without the s of a plural. A script that puts no blanks between its words
/// shows none, so each two neighbours of its characters count as one.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(text, |word| words.push(word.to_owned()));
    words
}

fn each_word(text: &str, mut take: impl FnMut(&str)) {
    for word in canonical(text).split_whitespace() {
        // Most words are, and need no second look.
        if word.is_ascii() {
            take(without_plural(word));
            continue;
        }
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let unspaced = is_unspaced(first);
            // A mark belongs to the character before it.
            let other = |c: char| c.is_alphanumeric() && is_unspaced(c) != unspaced;
            let (run, behind) = rest.split_at(rest.find(other).unwrap_or(rest.len()));
            match unspaced {
                true => each_pair(run, &mut take),
                false => take(without_plural(run)),
            }
            rest = behind;
        }
    }
}

fn without_plural(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem,
        _ => word,
    }
}

/// Each two neighbours, with the marks on them; a character by itself, if it stands alone.
fn each_pair(run: &str, mut take: impl FnMut(&str)) {
    let starts = || {
        let characters = run.char_indices();
        let starts = characters.filter(|(at, c)| *at == 0 || c.is_alphanumeric());
        starts.map(|(at, _)| at)
    };
    let ends = starts().skip(2).chain([run.len()]);
    for (start, end) in starts().zip(ends) {
        take(&run[start..end]);
    }
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
fn put_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The next number; `None` at the end.
fn number<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u32> {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = *bytes.next()?;
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn best(texts: &[&str], query: &str, limit: usize) -> Vec<usize> {
        let found = Bm25::new(texts).search(query, limit);
        assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "{found:?}");
        found.into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn rare_words_and_short_texts_come_first() {
        let texts = [
            "the river of the north",
            "the Oder, a river",
            "a river, a river of many names and of a very long way to the sea",
            "mountains",
        ];
        assert_eq!(best(&texts, "river Oder", 9), [1, 0, 2]);
        assert_eq!(best(&texts, "rivers", 1), [1]);
        assert_eq!(best(&texts, "mountain", 9), [3]);
        assert!(best(&texts, "volcano", 9).is_empty());
        assert!(best(&texts, "", 9).is_empty());
        assert!(best(&[], "river", 9).is_empty());
        let ranking = Bm25::new(texts);
        assert_eq!(ranking.known("the river, the volcano").len(), 2);
        assert_eq!(ranking.shares("river river"), ranking.shares("river"));
    }

    #[test]
    fn a_script_without_blanks_is_compared_by_pairs_of_characters() {
        for (text, pairs) in [
            ("東京", &["東京"][..]),
            ("大阪府の人口", &["大阪", "阪府", "府の", "の人", "人口"]),
            // Digits and other scripts are words of their own.
            ("2020年東京Towers。", &["2020", "年東", "東京", "tower"]),
            ("", &[]),
        ] {
            assert_eq!(words(text), pairs, "{text}");
        }
        // A mark of voice makes another character, and is no character itself.
        assert_eq!(words("ガ").len(), 1);
        assert_eq!(words("ガガ").len(), 1);
        assert_ne!(words("ガガ"), words("カカ"));
        assert_eq!(words("Улицы Łódź"), ["улицы", "lodz"]);
        let texts = [
            "京都は古い都である。",
            "大阪府の面積は小さい。",
            "大阪府の人口は多い。",
        ];
        assert_eq!(best(&texts, "大阪府の人口はいくらか", 9), [2, 1]);
    }

    #[test]
    fn equal_texts_keep_their_order() {
        assert_eq!(best(&["same"; 40], "same", 5), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_number_of_any_size_comes_back() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, u32::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|n| put_number(&mut bytes, *n));
        let mut bytes = bytes.iter();
        let read: Vec<u32> = std::iter::from_fn(|| number(&mut bytes)).collect();
        assert_eq!(read, numbers);
    }

    /// The formula, without postings.
    fn slow(texts: &[String], query: &str) -> Vec<f32> {
        let texts: Vec<Vec<String>> = texts.iter().map(|text| words(text)).collect();
        let lengths: usize = texts.iter().map(Vec::len).sum();
        let usual = (lengths as f32 / texts.len().max(1) as f32).max(1.0);
        let score = |text: &Vec<String>| -> f32 {
            let of_word = |word: &String| {
                let holding = texts.iter().filter(|text| text.contains(word)).count() as f32;
                let rarity = (1.0 + (texts.len() as f32 - holding + 0.5) / (holding + 0.5)).ln();
                let count = text.iter().filter(|other| *other == word).count() as f32;
                let held_back = K1 * (1.0 - B + B * text.len() as f32 / usual);
                rarity * count * (K1 + 1.0) / (count + held_back)
            };
            words(query).iter().map(of_word).sum()
        };
        texts.iter().map(score).collect()
    }

    proptest! {
        /// Few words, so that texts share some; many texts, so that distances take several bytes.
        #[test]
        fn scores_are_those_of_the_formula(
            texts in prop::collection::vec("[a-f]( [a-f]){0,6}", 0..300), query in "[a-h]( [a-h]){0,4}",
        ) {
            let ranking = Bm25::new(&texts);
            let (scores, bound) = (ranking.scores(&query), ranking.bound(&query));
            let expected = slow(&texts, &query);
            prop_assert_eq!(scores.len(), texts.len());
            for (score, expected) in scores.iter().zip(&expected) {
                prop_assert!((score - expected).abs() < 1e-4, "{} {}", score, expected);
                prop_assert!(*score <= bound, "{} {}", score, bound);
            }
            let shares = ranking.shares(&query);
            prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{:?}", shares);
        }
    }
}
