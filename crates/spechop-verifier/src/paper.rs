//! The paper's verifier to the letter (SpecHop, appendix D.4), for comparison with ours.
//!
//! It accepts on shared words alone. So it takes `New York` for `New York Times`, and the author of one
//! novel for the author of another. Three things are not printed in the paper and are filled in here: its
//! words of refusal and doubt (ours), its stop words (below), and that the shorter text may lie in the
//! longer one whichever it is.

use std::collections::HashSet;

use spechop_types::{canonical, is_hedge, is_refusal};

use crate::Rule;
use crate::overlap::{COVERAGE_MIN, JACCARD_MIN, LENGTH_MIN, Scores};

/// English function words.
const STOP: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "been", "by", "for", "from", "had", "has", "have",
    "he", "her", "his", "in", "is", "it", "its", "of", "on", "or", "she", "that", "the", "their",
    "they", "this", "to", "was", "were", "which", "who", "with",
];

/// The rule that decides, and the scores.
pub(crate) fn judge(observed: &str, guess: &str) -> (Rule, Scores) {
    let (o, g) = (canonical(observed), canonical(guess));
    let scores = Scores::of(&content(&o), &content(&g));
    (rule(guess, &o, &g, scores), scores)
}

fn rule(guess: &str, o: &str, g: &str, scores: Scores) -> Rule {
    if o.is_empty() || g.is_empty() {
        return Rule::Empty;
    }
    if is_refusal(guess) {
        return Rule::Refusal;
    }
    if is_hedge(guess) {
        return Rule::Hedge;
    }
    let known: HashSet<&str> = numbers(g).collect();
    if !numbers(o).all(|number| known.contains(number)) {
        return Rule::Number;
    }
    if o == g {
        return Rule::Equal;
    }
    if o.chars().count().min(g.chars().count()) < LENGTH_MIN {
        return Rule::Short;
    }
    if o.contains(g) || g.contains(o) {
        return Rule::Containment;
    }
    if scores.coverage >= COVERAGE_MIN {
        return Rule::Coverage;
    }
    if scores.jaccard >= JACCARD_MIN {
        return Rule::Jaccard;
    }
    Rule::Different
}

/// Runs of two digits or more.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter(|run| run.len() > 1)
}

/// The distinct words; stop words count only in a text that has no others.
fn content(text: &str) -> HashSet<&str> {
    let is_stop = |word: &&str| STOP.contains(word);
    let all_stop = text.split(' ').all(|word| is_stop(&word));
    text.split(' ')
        .filter(|word| !word.is_empty() && (all_stop || !is_stop(word)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decides_as_the_appendix_says() {
        for (observed, guess, expected) in [
            ("Paris", "paris.", Rule::Equal),
            ("Łódź", "Lodz", Rule::Equal),
            ("", "Paris", Rule::Empty),
            ("Paris", "—", Rule::Empty),
            ("Paris", "I don't know", Rule::Refusal),
            // Only the guess is looked at.
            ("I don't know", "Paris", Rule::Different),
            ("Paris", "probably Paris", Rule::Hedge),
            ("12 May 1907", "May 1907", Rule::Number),
            ("May 1907", "12 May 1907", Rule::Containment),
            // A single digit is no number of several.
            ("3 May 1907", "May 1907", Rule::Containment),
            ("1907", "1908", Rule::Number),
            ("Rome", "Romeo", Rule::Short),
            ("US", "us", Rule::Equal),
            // A substring, not a run of whole words.
            ("Jean", "Jeanne d'Arc", Rule::Short),
            ("New York", "New York Times", Rule::Containment),
            ("Marie", "Mariella", Rule::Containment),
            (
                "the director of the film Casablanca",
                "Casablanca director",
                Rule::Jaccard,
            ),
            (
                "Duke Albrecht of Bavaria",
                "Albrecht, Duke of Bavaria",
                Rule::Coverage,
            ),
            ("Michael Curtiz", "Victor Fleming", Rule::Different),
            ("To Be or To Have", "to be and to have", Rule::Coverage),
        ] {
            let (rule, _) = judge(observed, guess);
            assert_eq!(rule, expected, "{observed:?} / {guess:?}");
        }
    }

    #[test]
    fn the_limits_are_those_of_the_appendix() {
        // 3 of 4 words are 0.75; 5 of 7 are 0.714, and 5 of 9 together 0.5556; 4 of 6 and 4 of 8.
        assert_eq!(
            judge("aaaa bbbb cccc dddd", "aaaa cccc dddd xxxx yyyy zzzz").0,
            Rule::Coverage
        );
        let seven = "aaaa bbbb cccc dddd eeee ffff gggg";
        assert_eq!(
            judge(seven, "aaaa cccc dddd eeee gggg xxxx yyyy").0,
            Rule::Jaccard
        );
        assert_eq!(
            judge(
                "aaaa bbbb cccc dddd eeee ffff",
                "aaaa cccc dddd ffff xxxx yyyy"
            )
            .0,
            Rule::Different
        );
    }
}
