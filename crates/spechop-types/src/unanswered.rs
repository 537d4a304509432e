//! Texts that answer nothing, and texts that do not stand by their answer: for who reads what a model says, and for
//! who compares it, by the same words.

use crate::canonical;

/// The whole text, folded.
const WHOLE: &[&str] = &[
    "unknown",
    "none",
    "null",
    "nil",
    "na",
    "n a",
    "nothing",
    "tbd",
    "unclear",
    "undetermined",
    "unspecified",
    "unanswerable",
    "idk",
    "sorry",
    "no idea",
    "no answer",
    "no result",
    "no results",
    "nobody knows",
    "not known",
    "not found",
    "unsure",
    "uncertain",
    "not applicable",
    "no one knows",
    "information unavailable",
    "unavailable",
    "unidentified",
    "undisclosed",
    "it depends",
];

/// Anywhere in the folded text, as whole words, unless it is a title.
const NOT_KNOWING: &[&str] = &[
    "do not know",
    "dont know",
    "does not know",
    "doesnt know",
    "do not have",
    "dont have",
    "hard to say",
    "difficult to say",
];

/// Anywhere in the folded text, as whole words.
const ANYWHERE: &[&str] = &[
    "not available",
    "not specified",
    "not mentioned",
    "not stated",
    "not provided",
    "not given",
    "not found in",
    "not listed",
    "not publicly known",
    "not clear",
    "not sure",
    "not certain",
    "not disclosed",
    "not indicated",
    "not explicitly",
    "no information",
    "no relevant",
    "no data",
    "no answer",
    "no mention",
    "no record of",
    "not enough information",
    "not enough context",
    "insufficient information",
    "insufficient data",
    "insufficient context",
    "cannot be determined",
    "can not be determined",
    "cant be determined",
    "cannot be found",
    "could not be found",
    "could not find",
    "couldnt find",
    "could not determine",
    "cannot determine",
    "cannot find",
    "cannot answer",
    "cant answer",
    "cannot provide",
    "cant provide",
    "cannot say",
    "unable to",
    "is unknown",
    "are unknown",
    "was unknown",
    "is not known",
    "are not known",
    "was not known",
    "remains unknown",
    "remain unknown",
    "is unclear",
    "remains unclear",
    "does not mention",
    "do not mention",
    "does not say",
    "does not state",
    "does not specify",
    "does not provide",
    "do not provide",
    "does not contain",
    "do not contain",
    "doesnt mention",
    "doesnt say",
    "doesnt specify",
    "doesnt contain",
    "did not find",
    "i have no idea",
    "as an ai",
    "not in the passage",
    "not in the passages",
    "not in the text",
    "not in the context",
    "need more information",
    "im sorry but",
    "i am sorry but",
];

/// At the start of the folded text, as whole words.
const LEADING: &[&str] = &[
    "unknown date",
    "unknown year",
    "unknown person",
    "unknown place",
    "unknown location",
    "unknown author",
    "unknown director",
    "unknown answer",
    "unknown at",
    "unknown to",
    "unknown but",
    "there is no information",
    "there is no record",
    "there is no evidence",
    "there is no mention",
    "there is no relevant",
    "there is no answer",
    "there is no data",
    "there is no direct",
    "there is no specific",
];

/// At the start of the folded text, as whole words, unless it is a title.
const LEADING_OF_ME: &[&str] = &["i cannot", "i cant", "i have no"];

/// At the start, or after a comma or a parenthesis.
const DOUBTS: &[&str] = &[
    "maybe",
    "perhaps",
    "possibly",
    "probably",
    "presumably",
    "likely",
    "most likely",
    "allegedly",
    "reportedly",
    "supposedly",
    "might be",
    "may be",
    "could be",
    "it might be",
    "it may be",
    "it could be",
];

/// Doubt in the first person, anywhere.
const DOUBTS_ANYWHERE: &[&str] = &[
    "i think",
    "i believe",
    "i guess",
    "i suppose",
    "i assume",
    "if i recall",
    "if i remember",
    "my guess",
    "best guess",
    "is probably",
    "was probably",
    "is possibly",
    "was possibly",
    "is likely",
    "was likely",
    "might have been",
    "may have been",
];

/// Does the text refuse to answer, or say that there is no answer?
pub fn is_refusal(text: &str) -> bool {
    let mut folded = canonical(text);
    // "You Don't Have to Say You Love Me" is a song: to lack a duty is not to lack an answer.
    if folded.contains(" have to ") {
        folded = folded.replace(" have to ", " must ");
    }
    // Written so, it is the symbol of sodium.
    let is_sodium = folded == "na" && text.contains("Na");
    WHOLE.contains(&folded.as_str()) && !is_sodium
        || holds_any(&folded, ANYWHERE)
        || holds_any(&folded, NOT_KNOWING) && !is_title(text, NOT_KNOWING)
        || starts_with_any(&folded, LEADING)
        || starts_with_any(&folded, LEADING_OF_ME) && !is_title(text, LEADING_OF_ME)
        || starts_before_mark(text, "unknown")
}

/// Does the text offer an answer without standing by it?
pub fn is_hedge(text: &str) -> bool {
    holds_any(&canonical(text), DOUBTS_ANYWHERE)
        || text
            .split([',', '(', ';', ':'])
            .any(|part| starts_with_any(&canonical(part), DOUBTS))
}

/// `Don't Know Why` is a song, written as titles are; `I don't know why` refuses, and so does `I Don't Know`. Whoever
/// refuses may name a title, so all phrases of this kind must belong to one.
fn is_title(text: &str, phrases: &[&str]) -> bool {
    // A title goes on behind it: no mark ends it there. In `Hard to Say I'm Sorry` the small word is part of it.
    fn is_of_title(word: &str) -> bool {
        let first = word.chars().find(|c| c.is_alphabetic());
        word == "to"
            || first.is_some_and(char::is_uppercase) && word.ends_with(char::is_alphanumeric)
    }
    let words = text.split_whitespace().map(|word| (word, canonical(word)));
    let words: Vec<_> = words.filter(|(_, folded)| !folded.is_empty()).collect();
    let rests = (0..words.len()).filter_map(|at| words.get(at..));
    let places = rests.flat_map(|rest| {
        phrases.iter().filter_map(move |phrase| {
            let (said, behind) = rest.split_at_checked(phrase.split(' ').count())?;
            let folded = said.iter().map(|(_, folded)| folded.as_str());
            let is_there = folded.eq(phrase.split(' '));
            let is_titled = said.iter().all(|(word, _)| is_of_title(word));
            is_there.then_some(is_titled && !behind.is_empty())
        })
    });
    // In capitals throughout, nothing tells a title.
    text.chars().any(char::is_lowercase) && places.min() == Some(true)
}

/// `Unknown (possibly 1990)` refuses, `Unknown Pleasures` is an album.
fn starts_before_mark(text: &str, word: &str) -> bool {
    text.split_once([',', '(', ';', ':', '.', '-', '–', '—'])
        .is_some_and(|(start, _)| canonical(start) == word)
}

fn holds_any(folded: &str, phrases: &[&str]) -> bool {
    // One look at each word costs a tenth of a search for each phrase.
    let after_a_space = folded
        .match_indices(' ')
        .map(|(at, space)| at + space.len());
    std::iter::once(0)
        .chain(after_a_space)
        .any(|word| starts_with_any(&folded[word..], phrases))
}

fn starts_with_any(folded: &str, phrases: &[&str]) -> bool {
    // Of a hundred phrases hardly one begins with the same letter.
    let first = folded.bytes().next();
    let phrases = phrases.iter().filter(|p| p.bytes().next() == first);
    phrases.into_iter().any(|phrase| {
        folded
            .strip_prefix(phrase)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    })
}

#[cfg(test)]
mod tests {
    use super::{is_hedge, is_refusal};

    #[test]
    fn refusals() {
        for text in [
            "I don't know.",
            "N/A",
            "NA",
            "n.a.",
            "Unknown",
            "Unknown (possibly 1990)",
            "The director is not mentioned in the passages.",
            "No relevant information found",
            "There is no information about this.",
            "It cannot be determined from the text",
            "none",
            "I Don't Know",
            "I don't know why",
            "I DON'T KNOW WHY",
            "I don't know who wrote Don't Know Why.",
            "I don't know who sang \"You Don't Know Me\".",
            "I Don't Know, sorry",
            "I Don't Know. It is not here.",
            "I don't have enough information",
            "The passages do not have it.",
            "hard to say",
            "Hard to Say",
            "It is hard to say",
            "Difficult to say, sorry",
            "I don't know who sang \"Hard to Say I'm Sorry\".",
            "I have to say that I don't have it.",
            "I can't stop here without the passages.",
            "I Cannot",
            "I Have No Idea",
            "Sorry, I have no idea",
            "I cannot say who sang \"I Can't Stop Loving You\".",
        ] {
            assert!(is_refusal(text), "{text:?}");
        }
        for text in [
            "Unknown Pleasures",
            "The Unknown",
            "The Unknown Soldier",
            "No",
            "No Country for Old Men",
            "Nonesuch Records",
            "Nanaimo",
            "Na.",
            "There Is No Evil",
            "I'm Sorry",
            "Don't Know Why",
            "I Don't Know How to Love Him",
            "You Do Not Know Me",
            "\"You Don't Know Me\"",
            "You Don't Have to Say You Love Me",
            "I Can't Stop Loving You",
            "(I Can't Get No) Satisfaction",
            "I Have No Mouth, and I Must Scream",
            "Hard to Say I'm Sorry",
            "Hard To Say I'm Sorry",
            "I Don't Have the Heart",
            "What We Do Not Have in Common",
            "You Have No Idea",
            "",
        ] {
            assert!(!is_refusal(text), "{text:?}");
        }
    }

    #[test]
    fn hedges() {
        for text in [
            "Maybe Paris",
            "Paris, probably",
            "Paris (possibly)",
            "I think it was Paris",
            "It was probably Paris",
        ] {
            assert!(is_hedge(text), "{text:?}");
        }
        for text in ["Paris", "Mayberry", "Maybelline"] {
            assert!(!is_hedge(text), "{text:?}");
        }
    }
}
