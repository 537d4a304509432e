//! Okapi BM25 over pages.
//!
//! Our own: the crate `bm25` scores every page that holds any word of the query by a walk over the page's words, gives
//! equal scores in another order each time, and brings a hash crate that nobody maintains. Here a query walks postings
//! whose weights are known beforehand, and the same query gives the same pages in the same order.

use std::collections::HashMap;

use spechop_types::canonical;

/// How soon another occurrence of a word stops to count, and how much long pages are held back: the usual values.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Ranks pages, which are numbers from 0.
#[derive(Debug)]
pub(super) struct Ranking {
    /// For each word the pages that hold it, and what the word adds to their score.
    postings: HashMap<String, Vec<(u32, f32)>>,
    pages: usize,
}

impl Ranking {
    /// Of texts in the order of their pages.
    #[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
    pub(super) fn new(texts: impl Iterator<Item = String>) -> Self {
        let mut counts: HashMap<String, Vec<(u32, f32)>> = HashMap::new();
        let mut lengths: Vec<f32> = Vec::new();
        for (page, text) in (0_u32..).zip(texts) {
            let words = words(&text);
            lengths.push(words.len() as f32);
            for word in words {
                let seen = counts.entry(word).or_default();
                match seen.last_mut() {
                    Some((last, count)) if *last == page => *count += 1.0,
                    _ => seen.push((page, 1.0)),
                }
            }
        }
        let pages = lengths.len();
        let usual = (lengths.iter().sum::<f32>() / pages.max(1) as f32).max(1.0);
        let mut postings = counts;
        for holders in postings.values_mut() {
            let (all, holding) = (pages as f32, holders.len() as f32);
            let rarity = (1.0 + (all - holding + 0.5) / (holding + 0.5)).ln();
            for (page, count) in holders {
                let held_back = K1 * (1.0 - B + B * lengths[*page as usize] / usual);
                *count = rarity * *count * (K1 + 1.0) / (*count + held_back);
            }
        }
        Self { postings, pages }
    }

    /// The best pages for a query and their scores, best first; of equals the earlier page. A page that holds none of
    /// its words is not among them.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<(usize, f32)> {
        let mut scores = vec![0.0_f32; self.pages];
        for word in words(query) {
            for (page, weight) in self.postings.get(&word).into_iter().flatten() {
                scores[*page as usize] += weight;
            }
        }
        let scored = scores.into_iter().enumerate();
        let mut best: Vec<(usize, f32)> = scored.filter(|(_, score)| *score > 0.0).collect();
        let better = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if limit < best.len() {
            best.select_nth_unstable_by(limit, better);
            best.truncate(limit);
        }
        best.sort_unstable_by(better);
        best
    }
}

/// Words as they are compared: folded, and without the s of a plural.
pub(super) fn words(text: &str) -> Vec<String> {
    let folded = canonical(text);
    let stem = |word: &str| match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
        _ => word.to_owned(),
    };
    folded.split_whitespace().map(stem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(texts: &[&str], query: &str, limit: usize) -> Vec<usize> {
        let ranking = Ranking::new(texts.iter().map(|text| (*text).to_owned()));
        let found = ranking.search(query, limit);
        assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "{found:?}");
        found.into_iter().map(|(page, _)| page).collect()
    }

    #[test]
    fn rare_words_and_short_pages_come_first() {
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
    }

    #[test]
    fn equal_pages_keep_their_order() {
        assert_eq!(best(&["same"; 40], "same", 5), [0, 1, 2, 3, 4]);
    }
}
