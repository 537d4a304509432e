//! Yes, no, and not.

use crate::tokens::{Kind, Token};

/// Words with which a sentence goes on after its "yes" or "no". "No Country for Old Men" has none.
const CLAUSE_STARTS: &[&str] = &[
    "it", "he", "she", "they", "both", "neither", "this", "that", "these", "those", "there", "we",
    "because", "the",
];

const NEGATIONS: &[&str] = &[
    "not", "no", "never", "neither", "nor", "without", "non", "except", "cannot", "isnt", "wasnt",
    "arent", "werent", "doesnt", "didnt", "dont", "wont", "cant", "couldnt", "hasnt", "havent",
    "hadnt",
];

const RESERVATIONS: &[&str] = &[
    "but",
    "however",
    "although",
    "except",
    "partly",
    "partially",
];

/// A yes or a no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Polarity {
    pub(crate) yes: bool,
    /// Nothing follows.
    pub(crate) bare: bool,
    /// What follows takes nothing back.
    pub(crate) clear: bool,
}

/// The polarity of a text that starts with a yes or a no of its own.
pub(crate) fn of(tokens: &[Token]) -> Option<Polarity> {
    let (first, rest) = tokens.split_first()?;
    let yes = first.is("yes");
    if !yes && !first.is("no") {
        return None;
    }
    let rest: Vec<&Token> = rest.iter().filter(|t| t.kind != Kind::Mark).collect();
    if rest.first().is_some_and(|next| !next.is_any(CLAUSE_STARTS)) {
        return None;
    }
    let reserved = rest
        .iter()
        .any(|token| token.is_any(RESERVATIONS) || yes && token.is_any(NEGATIONS));
    Some(Polarity {
        yes,
        bare: rest.is_empty(),
        clear: !reserved,
    })
}

/// Negating words.
pub(crate) fn negations(tokens: &[Token]) -> usize {
    tokens.iter().filter(|t| t.is_any(NEGATIONS)).count()
}

/// Is this a negating word?
pub(crate) fn negates(token: &Token) -> bool {
    token.is_any(NEGATIONS)
}
