//! How much two texts have in common, in words (SpecHop, appendix D.4).
//!
//! The paper accepts on the scores alone. They cannot tell `New York` from `New York Times`, nor
//! the author of one novel from the author of another, so here they only decide between texts whose
//! difference is made of words that identify nothing.

use std::collections::HashSet;

use crate::dates::month_of;
use crate::frames::is_time;
use crate::tokens::{Kind, Token};

/// Share of the observation's content words that the guess must hold (appendix D.4).
pub(crate) const COVERAGE_MIN: f64 = 0.72;

/// Share of both texts' content words that must be common (appendix D.4).
pub(crate) const JACCARD_MIN: f64 = 0.55;

/// Texts shorter than this, in characters of their canonical form, must be equal (appendix D.4).
pub(crate) const LENGTH_MIN: usize = 5;

/// Words that do not count. Prepositions with an opposite (`to` and `from`, `with` and `without`)
/// and conjunctions are not among them.
const STOP: &[&str] = &["the", "of", "in", "on", "at", "an"];

/// Stop words that do count, save before a time: "In Real Life" and "Breaking In" are titles, and
/// "Man on the Moon" is not "The Man in the Moon".
const PREPOSITIONS: &[&str] = &["of", "in", "on", "at"];

/// Words that describe how something is said, not what.
const LIGHT: &[&str] = &[
    "formally",
    "officially",
    "commonly",
    "generally",
    "widely",
    "famously",
    "simply",
    "also",
    "itself",
    "namely",
    "specifically",
    "called",
    "named",
    "titled",
    "entitled",
    "situated",
    "located",
];

/// Fewest identifying words of a text whose light words may be left out: "Simply Red" is a band.
const HEAVY_MIN: usize = 2;

/// The two scores of a pair, each from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Scores {
    pub(crate) coverage: f64,
    pub(crate) jaccard: f64,
}

impl Scores {
    /// Of a text and itself, if it has words at all.
    pub(crate) fn of_whole(has_words: bool) -> Self {
        let score = f64::from(u8::from(has_words));
        Self {
            coverage: score,
            jaccard: score,
        }
    }

    /// Of the distinct words that count; none if a text has none.
    pub(crate) fn of(observed: &HashSet<&str>, guess: &HashSet<&str>) -> Self {
        if observed.is_empty() || guess.is_empty() {
            return Self::default();
        }
        let common = observed.intersection(guess).count();
        let ratio = |part: usize, whole: usize| part as f64 / whole as f64;
        Self {
            coverage: ratio(common, observed.len()),
            jaccard: ratio(common, observed.len() + guess.len() - common),
        }
    }
}

/// What the overlap of two texts says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// One lies within the other in one piece.
    Contained,
    /// The guess covers the observation.
    Covered,
    /// Both are about alike.
    Alike,
    /// Not enough in common, or something else differs.
    Apart,
}

/// Scores over distinct content words; over all words where a text has none but stop words.
pub(crate) fn scores(observed: &[Token], guess: &[Token]) -> Scores {
    Scores::of(&distinct(observed), &distinct(guess))
}

/// Compares two texts without marks.
pub(crate) fn overlap(observed: &[Token], guess: &[Token]) -> Overlap {
    let (a, b) = (heavy(observed), heavy(guess));
    let light_differ = light(observed) != light(guess);
    let needed = if light_differ { HEAVY_MIN } else { 1 };
    if a != b || a.len() < needed || leading(observed) != leading(guess) {
        return Overlap::Apart;
    }
    if prepositions(observed) != prepositions(guess) {
        return Overlap::Apart;
    }
    if contains(observed, guess) || contains(guess, observed) {
        return Overlap::Contained;
    }
    let scores = scores(observed, guess);
    if scores.coverage >= COVERAGE_MIN {
        Overlap::Covered
    } else if scores.jaccard >= JACCARD_MIN {
        Overlap::Alike
    } else {
        Overlap::Apart
    }
}

/// Is `part` a run of whole tokens of `whole`?
fn contains(whole: &[Token], part: &[Token]) -> bool {
    !part.is_empty() && whole.windows(part.len()).any(|window| window == part)
}

fn heavy(tokens: &[Token]) -> Vec<&Token> {
    tokens.iter().filter(|token| is_heavy(token)).collect()
}

fn is_heavy(token: &Token) -> bool {
    !token.is_any(STOP) && !token.is_any(LIGHT)
}

/// The last preposition before each word that identifies something, and the one behind all of them.
/// Before a month, a date or a number it says nothing, nor does "at" before a campus: "University
/// of Texas, Austin" is the one at Austin.
fn prepositions(tokens: &[Token]) -> Vec<Option<&Token>> {
    let of_university = tokens.iter().any(|token| token.is("university"));
    let (mut last, mut all) = (None, Vec::new());
    for token in tokens {
        if of_university && token.is("at") {
            continue;
        }
        if token.is_any(PREPOSITIONS) {
            last = Some(token);
        } else if is_heavy(token) {
            let says = !is_time(token) && month_of(token).is_none();
            all.push(last.take().filter(|_| says));
        }
    }
    all.push(last);
    all
}

/// The preposition that the text starts with.
fn leading(tokens: &[Token]) -> Option<&Token> {
    tokens.first().filter(|token| token.is_any(PREPOSITIONS))
}

fn light(tokens: &[Token]) -> usize {
    tokens.iter().filter(|token| token.is_any(LIGHT)).count()
}

fn distinct(tokens: &[Token]) -> HashSet<&str> {
    let words = || tokens.iter().filter(|token| token.kind != Kind::Mark);
    let all_stop = words().all(|token| token.is_any(STOP));
    words()
        .filter(|token| all_stop || !token.is_any(STOP))
        .map(|token| token.text.as_str())
        .collect()
}
