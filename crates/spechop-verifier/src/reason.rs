//! Why two texts were not accepted as the same. Decides nothing: only names the first difference
//! that a reader of the verdict would name.

use crate::compare::{self, Reading};
use crate::tokens::{Kind, Token};
use crate::{Rule, lists, numbers, polarity};

/// Words that come in opposites.
const DIRECTIONS: &[&str] = &[
    "north",
    "south",
    "east",
    "west",
    "northern",
    "southern",
    "eastern",
    "western",
    "northeast",
    "northwest",
    "southeast",
    "southwest",
    "upper",
    "lower",
    "left",
    "right",
    "older",
    "younger",
    "elder",
    "former",
    "latter",
    "earlier",
    "later",
    "maternal",
    "paternal",
    "male",
    "female",
    "man",
    "woman",
    "men",
    "women",
    "mother",
    "father",
    "son",
    "daughter",
    "brother",
    "sister",
    "husband",
    "wife",
    "uncle",
    "aunt",
    "grandfather",
    "grandmother",
    "stepfather",
    "stepmother",
    "nephew",
    "niece",
    "before",
    "after",
    "over",
    "under",
    "above",
    "below",
    "more",
    "less",
    "greater",
    "lesser",
    "major",
    "minor",
    "inner",
    "outer",
    "old",
    "new",
    "high",
    "low",
    "to",
    "from",
    "with",
    "increase",
    "decrease",
    "won",
    "lost",
    "nominated",
    "vice",
    "deputy",
    "acting",
    "assistant",
    "supporting",
];

const GENERATIONS: &[&str] = &["junior", "senior"];

/// Is this word one of a pair of opposites?
pub(crate) fn is_direction(token: &Token) -> bool {
    token.is_any(DIRECTIONS)
}

/// Does this word tell a parent from a child of the same name?
pub(crate) fn is_generation(token: &Token) -> bool {
    token.is_any(GENERATIONS)
}

/// The difference between two texts that were not accepted.
pub(crate) fn difference(o: &Reading, g: &Reading) -> Rule {
    let differing: Vec<&Token> = missing(&o.tokens, &g.tokens)
        .chain(missing(&g.tokens, &o.tokens))
        .collect();
    let differs = |test: &dyn Fn(&Token) -> bool| differing.iter().any(|token| test(token));
    let number = |token: &Token| token.kind == Kind::Number || token.is_any(&["percent", "/", ":"]);
    let ordinal = |token: &Token| numbers::ordinal_number(token).is_some() || is_generation(token);
    let in_time = |token: &Token| token.kind == Kind::Date || token.is_any(&["bc", "century"]);
    let century = o.tokens.iter().any(|token| token.is("century"));
    if polarity::negations(&o.tokens) != polarity::negations(&g.tokens) {
        Rule::Negation
    } else if differs(&in_time) || century && differs(&ordinal) {
        Rule::Date
    } else if differs(&number) {
        Rule::Number
    } else if differs(&ordinal) {
        Rule::Ordinal
    } else if lists::has_choice(&o.tokens) != lists::has_choice(&g.tokens)
        || lists::joins(&o.tokens) != lists::joins(&g.tokens)
    {
        Rule::Alternatives
    } else if differs(&is_direction) {
        Rule::Direction
    } else if compare::same_name(o, g) {
        Rule::Qualifier
    } else if compare::too_short(o, g) {
        Rule::Short
    } else {
        Rule::Different
    }
}

fn missing<'a>(from: &'a [Token], other: &'a [Token]) -> impl Iterator<Item = &'a Token> {
    from.iter()
        .filter(|token| token.kind != Kind::Mark && !other.contains(token))
}
