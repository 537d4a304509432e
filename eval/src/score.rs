//! How good an answer is, by the rules of the data sets' own scorers: SQuAD's normalisation, exact match and F1
//! over words with HotpotQA's and 2WikiMultihopQA's rule for yes and no, and recall of gold pages.
//! 2WikiMultihopQA's later scorer (v1.1) also takes aliases and demonyms of an answer, from a file of its own that
//! is not read here.

use std::collections::{HashMap, HashSet};

pub use spechop_types::normalise;

/// Answers that are right or wrong as a whole: sharing the word `no` with one is no merit.
const WHOLE: [&str; 3] = ["yes", "no", "noanswer"];

/// Whether the answer is one of the golds, but for case, punctuation, articles and blanks.
///
/// A blank answer never is: the scorers would take it for any gold that is nothing but an article or a mark.
pub fn exact_match(answer: &str, golds: &[String]) -> bool {
    let said = normalise(answer);
    !answer.trim().is_empty() && golds.iter().any(|gold| normalise(gold) == said)
}

/// The harmonic mean of precision and recall over normalised words, with the gold where it is highest.
pub fn f1(answer: &str, golds: &[String]) -> f64 {
    if answer.trim().is_empty() {
        return 0.0;
    }
    let said = normalise(answer);
    golds
        .iter()
        .map(|gold| f1_of(&said, &normalise(gold)))
        .fold(0.0, f64::max)
}

/// The share of the gold titles that were read; `None` where the data set names none.
pub fn recall<'a>(read: impl IntoIterator<Item = &'a str>, gold: &[String]) -> Option<f64> {
    let wanted: HashSet<&str> = gold.iter().map(String::as_str).collect();
    let found: HashSet<&str> = read
        .into_iter()
        .filter(|title| wanted.contains(title))
        .collect();
    (!wanted.is_empty()).then(|| share(found.len(), wanted.len()))
}

/// Whether a guess says all that a gold hop's answer says: every word of the gold occurs in it. A gold without
/// any word is held by nothing.
pub fn holds(guess: &str, gold: &str) -> bool {
    let (guess, gold) = (normalise(guess), normalise(gold));
    let said: HashSet<&str> = guess.split(' ').collect();
    !gold.is_empty() && gold.split(' ').all(|word| said.contains(word))
}

fn f1_of(said: &str, gold: &str) -> f64 {
    // Also where neither has a word left, as SQuAD 2 has it: an exact match is never worth less than 1.
    if said == gold {
        return 1.0;
    }
    if WHOLE.contains(&said) || WHOLE.contains(&gold) {
        return 0.0;
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in gold.split_terminator(' ') {
        *left.entry(word).or_default() += 1;
    }
    let mut shared = 0;
    for word in said.split_terminator(' ') {
        if let Some(count) = left.get_mut(word).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    let words = |text: &str| text.split_terminator(' ').count();
    if shared == 0 {
        return 0.0;
    }
    share(2 * shared, words(said) + words(gold))
}

#[expect(clippy::cast_precision_loss, reason = "counts of words and pages")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}
