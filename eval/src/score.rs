//! How good an answer is.

use std::collections::BTreeSet;

/// Whether the answer is one of the gold answers, but for case, articles and punctuation.
pub fn exact_match(answer: &str, golds: &[String]) -> bool {
    golds.iter().any(|gold| words(answer) == words(gold))
}

/// The best F1 of the answer's words against a gold answer's.
pub fn f1(answer: &str, golds: &[String]) -> f64 {
    let one = |gold: &String| {
        let (answer, mut gold) = (words(answer), words(gold));
        let sizes = answer.len() + gold.len();
        let mut common = 0;
        for word in &answer {
            if let Some(at) = gold.iter().position(|other| other == word) {
                gold.swap_remove(at);
                common += 1;
            }
        }
        2.0 * f64::from(common) / (sizes as f64).max(1.0)
    };
    golds.iter().map(one).fold(0.0, f64::max)
}

/// Share of the gold pages that were read; `None` where none are known.
pub fn recall<'a>(read: impl IntoIterator<Item = &'a str>, gold: &[String]) -> Option<f64> {
    let read: BTreeSet<&str> = read.into_iter().collect();
    let found = gold.iter().filter(|page| read.contains(page.as_str()));
    (!gold.is_empty()).then(|| found.count() as f64 / gold.len() as f64)
}

/// Whether the guess holds the gold answer, word for word.
pub fn holds(guess: &str, gold: &str) -> bool {
    let (guess, gold) = (words(guess), words(gold));
    !gold.is_empty() && guess.windows(gold.len()).any(|part| part == gold)
}

fn words(text: &str) -> Vec<String> {
    let plain = text.to_lowercase();
    let split = plain.split(|c: char| !c.is_alphanumeric());
    let words = split.filter(|word| !matches!(*word, "" | "a" | "an" | "the"));
    words.map(str::to_owned).collect()
}
