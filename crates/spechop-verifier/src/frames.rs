//! The sentence around an answer: "The answer is X.", "It was X", "directed by X", "in X".

use crate::places;
use crate::tokens::{Kind, Token};

const COPULAS: &[&str] = &["is", "was", "are", "were"];

const PRONOUNS: &[&str] = &["it", "he", "she", "they"];

/// What a question can ask for, so that "the … is X" announces X. "The sky is pink" does not.
const ASKED: &[&str] = &[
    "answer",
    "director",
    "author",
    "writer",
    "capital",
    "mother",
    "father",
    "spouse",
    "wife",
    "husband",
    "performer",
    "singer",
    "artist",
    "country",
    "city",
    "place",
    "birthplace",
    "date",
    "birthday",
    "year",
    "name",
    "title",
    "producer",
    "composer",
    "founder",
    "president",
    "king",
    "queen",
    "child",
    "son",
    "daughter",
    "brother",
    "sister",
    "sibling",
    "nationality",
    "occupation",
    "location",
    "headquarters",
    "publisher",
    "developer",
    "manufacturer",
    "owner",
    "creator",
    "birth",
    "death",
    "population",
    "language",
    "currency",
    "county",
    "state",
    "label",
    "screenwriter",
    "actor",
    "actress",
    "university",
    "citizenship",
];

const OPENERS: &[&str] = &["the", "his", "her", "its", "their", "this", "answer"];

/// Participles that say which relation is asked. Two that differ contradict each other.
const PARTICIPLES: &[&str] = &[
    "directed",
    "written",
    "composed",
    "produced",
    "born",
    "founded",
    "released",
    "located",
    "situated",
    "died",
    "published",
    "created",
    "performed",
    "played",
    "built",
    "painted",
    "established",
    "married",
    "buried",
    "educated",
    "based",
];

/// Prepositions that say nothing before a place or a time. Before anything else they may start a
/// title: "In Real Life".
const PREPOSITIONS: &[&str] = &["in", "on", "at"];

/// Prepositions after a participle.
const AFTER_PARTICIPLES: &[&str] = &["by", "in", "on", "at", "from"];

const APPROXIMATIONS: &[&str] = &[
    "about",
    "around",
    "approximately",
    "roughly",
    "circa",
    "ca",
    "approx",
];

/// Longest subject that is read as "the … of …", in tokens.
const SUBJECT_TOKENS_MAX: usize = 14;

/// The sentence around an answer.
struct Frame {
    /// Its length.
    tokens: usize,
    /// What it says about the answer: "born", "the capital of france".
    relation: Option<String>,
    /// Whether a predicate may follow: "he was", "her father was".
    is_subject: bool,
}

impl Frame {
    fn plain(tokens: usize) -> Self {
        Self {
            tokens,
            relation: None,
            is_subject: false,
        }
    }
}

/// Takes the sentence around an answer off. Gives what is left (never nothing, unless there was
/// nothing) and what the sentence said about it, the outermost first.
pub(crate) fn strip(mut tokens: &[Token]) -> (&[Token], Vec<String>) {
    let mut relations = Vec::new();
    let mut has_subject = false;
    // Each round takes at least one token away.
    while let Some(frame) = frame(tokens, has_subject) {
        let rest = &tokens[frame.tokens..];
        if rest.iter().all(|token| token.kind == Kind::Mark) {
            break;
        }
        tokens = rest;
        relations.extend(frame.relation);
        has_subject = frame.is_subject;
    }
    (tokens, relations)
}

/// One layer at the start. `has_subject`: the subject of a sentence has just gone.
fn frame(tokens: &[Token], has_subject: bool) -> Option<Frame> {
    let (first, rest) = tokens.split_first()?;
    if first.kind == Kind::Mark {
        return (!first.is_mark("(")).then_some(Frame::plain(1));
    }
    announcement(tokens)
        .or_else(|| source(tokens))
        .or_else(|| participle(tokens, has_subject))
        .or_else(|| {
            let second = rest.first()?;
            let is_copula = second.is_any(COPULAS);
            if first.is_any(PRONOUNS) && (is_copula || second.is_any(PARTICIPLES)) {
                return Some(Frame {
                    is_subject: true,
                    ..Frame::plain(1 + usize::from(is_copula))
                });
            }
            let goes = first.is_any(PREPOSITIONS)
                && (starts_with_time(rest) || places::is_known(rest))
                || (first.is_any(&["the", "year"]) || is_approximation(first)) && is_time(second)
                || first.is("the") && second.is("year") && rest.get(1).is_some_and(is_time);
            goes.then_some(Frame::plain(1))
        })
}

/// "The capital of France is", "Answer:", "Final answer -".
fn announcement(tokens: &[Token]) -> Option<Frame> {
    let end = tokens
        .iter()
        .take(SUBJECT_TOKENS_MAX + 1)
        .position(|token| token.is_any(COPULAS) || token.is_mark(":"))?;
    let subject = &tokens[..end];
    let (first, last) = (subject.first()?, subject.last()?);
    let plain = subject
        .iter()
        .all(|token| token.kind != Kind::Mark && !token.is_any(&["or", "not", "who", "which"]));
    let asks = if tokens[end].kind == Kind::Mark {
        last.is("answer")
    } else {
        // "My name is Nobody" is a film; "his name is", "the film's director is" announce.
        last.is_any(ASKED) && !last.is_any(&["name", "title"])
            || first.is_any(OPENERS) && subject.iter().any(|token| token.is_any(ASKED))
    };
    let words: Vec<&str> = subject.iter().map(|token| token.text.as_str()).collect();
    let holds = |any: &[&str]| subject.iter().any(|token| token.is_any(any));
    (plain && asks).then(|| Frame {
        tokens: end + 1,
        relation: (!holds(&["answer"])).then(|| words.join(" ")),
        // Behind these stands what was asked for, which may be a title.
        is_subject: !holds(&["answer", "name", "title"]),
    })
}

/// "Based on the passages,", "According to the text,".
fn source(tokens: &[Token]) -> Option<Frame> {
    let [first, second, ..] = tokens else {
        return None;
    };
    let cites = first.is("based") && second.is("on") || first.is("according") && second.is("to");
    let comma = tokens
        .iter()
        .take(SUBJECT_TOKENS_MAX + 1)
        .position(|token| token.is_mark(","))?;
    cites.then(|| Frame::plain(comma + 1))
}

/// "was directed by", "was born in", "died" before a date. "Written on the Wind" is a film: without a
/// subject only "by" and a time tell that no title starts so.
fn participle(tokens: &[Token], has_subject: bool) -> Option<Frame> {
    let at = usize::from(tokens.first()?.is_any(COPULAS));
    let token = tokens.get(at).filter(|token| token.is_any(PARTICIPLES))?;
    let after = tokens.get(at + 1)?;
    let preposition = usize::from(after.is_any(AFTER_PARTICIPLES));
    let in_sentence = has_subject || at == 1;
    let goes = after.is("by")
        || preposition == 1 && in_sentence
        || starts_with_time(&tokens[at + 1 + preposition..]);
    goes.then(|| Frame {
        tokens: at + 1 + preposition,
        relation: Some(said_by(token, after).to_owned()),
        is_subject: false,
    })
}

/// A participle, or the usual one of those that say the same. A film is based on a book, and does not lie there.
fn said_by<'a>(participle: &'a Token, after: &Token) -> &'a str {
    match participle.text.as_str() {
        "situated" => "located",
        "based" if !after.is("on") => "located",
        "established" => "founded",
        said => said,
    }
}

/// "1994", "about 1994", "the year 1994". "In the Year of the Pig" is a film.
fn starts_with_time(tokens: &[Token]) -> bool {
    match tokens {
        [about, rest @ ..] if is_approximation(about) => starts_with_time(rest),
        [the, year, time, ..] if the.is("the") && year.is("year") => is_time(time),
        [year, time, ..] if year.is("year") => is_time(time),
        [time, ..] => is_time(time),
        [] => false,
    }
}

pub(crate) fn is_approximation(token: &Token) -> bool {
    token.is_any(APPROXIMATIONS) || token.kind == Kind::Initials && token.text == "c"
}

pub(crate) fn is_time(token: &Token) -> bool {
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
        check("It was in Paris", "paris");
        check("He was buried in Malko Tarnovo", "malko tarnovo");
        check("founded in the year 1994", "1994");
        check("in Teaneck, New Jersey", "teaneck , new jersey");
        check("He died around 1950.", "1950");
        check("Based on the text, the answer is Paris", "paris");
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
        check("In Real Life", "in real life");
        check("It is In Real Life", "in real life");
        check("Written on the Wind", "written on the wind");
        check("Born in the U.S.A.", "born in the usa");
        check("The answer is Born in the U.S.A.", "born in the usa");
        check("Its title is Written on the Wind", "written on the wind");
        check("In the Year of the Pig", "in the year of the pig");
        check("My Name Is Nobody", "my name is nobody");
        check("It Is", "it is");
        check("born", "born");
    }
}
