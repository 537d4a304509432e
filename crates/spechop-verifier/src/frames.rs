//! The sentence around an answer: "The answer is X.", "It was X", "directed by X", "in X".

use crate::tokens::{Kind, Token};

const COPULAS: &[&str] = &["is", "was", "are", "were"];

const PRONOUNS: &[&str] = &["it", "he", "she", "they"];

/// What a question can ask for, so that "the … is X" announces X. "The sky is pink" does not.
const ASKED: &[&str] = &[
    "answer", "director", "author", "writer", "capital", "mother", "father", "spouse", "wife",
    "husband", "performer", "singer", "artist", "country", "city", "place", "birthplace", "date",
    "birthday", "year", "name", "title", "producer", "composer", "founder", "president", "king",
    "queen", "child", "son", "daughter", "brother", "sister", "sibling", "nationality",
    "occupation", "location", "headquarters", "publisher", "developer", "manufacturer", "owner",
    "creator", "birth", "death", "population", "language", "currency", "county", "state", "label",
    "screenwriter", "actor", "actress", "university", "citizenship",
];

const OPENERS: &[&str] = &["the", "his", "her", "its", "their", "this", "answer"];

/// Participles that say which relation is asked. Two that differ contradict each other.
const PARTICIPLES: &[&str] = &[
    "directed", "written", "composed", "produced", "born", "founded", "released", "located",
    "situated", "died", "published", "created", "performed", "played", "built", "painted",
    "established", "married", "buried", "educated", "based",
];

/// Prepositions that may stand before any answer; `by` and `from` bound a time, so not before one.
const PREPOSITIONS: &[&str] = &["in", "on", "at"];
const PREPOSITIONS_NOT_OF_TIME: &[&str] = &["by", "from"];

const APPROXIMATIONS: &[&str] = &[
    "about", "around", "approximately", "roughly", "circa", "ca", "approx",
];

/// Longest subject that is read as "the … of …", in tokens.
const SUBJECT_TOKENS_MAX: usize = 14;

/// Takes the sentence around an answer off. Gives what is left (never nothing, unless there was
/// nothing) and the participle that stood there.
pub(crate) fn strip(mut tokens: &[Token]) -> (&[Token], Option<&str>) {
    let mut participle = None;
    // Each round takes at least one token away.
    while let Some((used, found)) = frame(tokens) {
        if tokens[used..].iter().all(|token| token.kind == Kind::Mark) {
            break;
        }
        tokens = &tokens[used..];
        participle = participle.or(found);
    }
    (tokens, participle)
}

/// One layer at the start: its length, and its participle.
fn frame(tokens: &[Token]) -> Option<(usize, Option<&str>)> {
    let first = tokens.first()?;
    let second = tokens.get(1);
    let is_copula = |token: &Token| token.is_any(COPULAS);
    if first.kind == Kind::Mark {
        return (!first.is_mark("(")).then_some((1, None));
    }
    if first.is_any(PRONOUNS) && second.is_some_and(is_copula) {
        return Some((2, None));
    }
    if let Some(used) = announcement(tokens) {
        return Some((used, None));
    }
    let past_copula = usize::from(is_copula(first));
    if let Some(token) = tokens
        .get(past_copula)
        .filter(|token| token.is_any(PARTICIPLES))
    {
        let after = tokens.get(past_copula + 1)?;
        if after.is_any(PREPOSITIONS) || after.is_any(PREPOSITIONS_NOT_OF_TIME) {
            return Some((past_copula + 2, Some(&token.text)));
        }
        if is_time(after) {
            return Some((past_copula + 1, Some(&token.text)));
        }
        return None;
    }
    let second = second?;
    if first.is_any(PREPOSITIONS) || first.is_any(PREPOSITIONS_NOT_OF_TIME) && !is_time(second) {
        return Some((1, None));
    }
    if first.is("the") && (second.kind == Kind::Date || second.is("year")) {
        return Some((1, None));
    }
    let estimate = first.is_any(APPROXIMATIONS)
        || first.is("year")
        || first.kind == Kind::Initials && first.text == "c";
    (estimate && is_time(second)).then_some((1, None))
}

/// "The capital of France is", "Answer:", "Final answer -".
fn announcement(tokens: &[Token]) -> Option<usize> {
    let end = tokens
        .iter()
        .take(SUBJECT_TOKENS_MAX + 1)
        .position(|token| token.is_any(COPULAS) || token.is_mark(":"))?;
    let subject = &tokens[..end];
    let last = subject.last()?;
    let plain = subject
        .iter()
        .all(|token| token.kind != Kind::Mark && !token.is_any(&["or", "not", "who", "which"]));
    let asks = if tokens[end].kind == Kind::Mark {
        last.is("answer")
    } else {
        last.is_any(ASKED)
            || subject.first()?.is_any(OPENERS) && subject.iter().any(|token| token.is_any(ASKED))
    };
    (plain && asks).then_some(end + 1)
}

fn is_time(token: &Token) -> bool {
    matches!(token.kind, Kind::Number | Kind::Date)
}

#[cfg(test)]
mod tests {
    use super::strip;
    use crate::{dates, tokens::tokens};

    fn check(text: &str, left: &str) {
        let tokens = dates::fold(&tokens(text));
        let (rest, _) = strip(&tokens);
        let words: Vec<_> = rest.iter().map(|t| t.text.as_str()).collect();
        assert_eq!(words.join(" "), left, "{text:?}");
    }

    #[test]
    fn takes_the_sentence_off() {
        check("The answer is Paris.", "paris");
        check("Answer: Paris", "paris");
        check("It was Paris", "paris");
        check("The capital of France is Paris.", "paris");
        check("He was born on May 8, 1994", "1994-05-08");
        check("directed by John Ford", "john ford");
        check("in the year 1994", "1994");
        check("around 1994", "1994");
    }

    #[test]
    fn leaves_titles_alone() {
        check("The Sky Is Pink", "the sky is pink");
        check("A Star Is Born", "a star is born");
        check("This Is England", "this is england");
        check("Life Is Beautiful", "life is beautiful");
        check("by 1994", "by 1994");
        check("It Is", "it is");
        check("born", "born");
    }
}
