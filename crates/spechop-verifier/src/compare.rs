//! The order of the rules.

use spechop_types::{Observation, is_hedge, is_refusal};

use crate::overlap::{LENGTH_MIN, Overlap, Scores};
use crate::tokens::{Kind, Token};
use crate::{
    Mode, Rule, dates, frames, lists, names, numbers, overlap, paper, places, polarity, reason,
    spelling, tokens,
};

/// One text, read once.
pub(crate) struct Reading {
    /// Everything, dates and numbers folded.
    pub(crate) tokens: Vec<Token>,
    /// The answer itself: without the sentence around it and without parentheses.
    answer: Vec<Token>,
    /// What stood in parentheses.
    asides: Vec<Token>,
    /// What the sentence said about it: "born"; "her father" and "born".
    relations: Vec<String>,
}

impl Reading {
    fn new(text: &str) -> Self {
        let tokens = dates::fold(&tokens::tokens(text));
        let (rest, relations) = frames::strip(&tokens);
        let (mut answer, mut asides) = (Vec::new(), Vec::new());
        let mut depth = 0_usize;
        for token in rest {
            if token.is_mark("(") {
                depth += 1;
            } else if token.is_mark(")") {
                depth = depth.saturating_sub(1);
            } else if depth > 0 {
                asides.push(token.clone());
            } else {
                answer.push(token.clone());
            }
        }
        if words(&answer).is_empty() {
            answer = std::mem::take(&mut asides);
        }
        // "A Bug's Life" loses its article, "Vitamin A" does not.
        let article = |token: &Token| token.is_any(&["a", "an", "the"]);
        if answer.len() > 1 && article(&answer[0]) {
            answer.remove(0);
        }
        Self {
            answer,
            asides,
            relations,
            tokens,
        }
    }
}

/// Longest text that is read, in bytes; an answer has at most 128 tokens. Longer texts are only
/// compared byte for byte, since reading takes time that grows faster than they do.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// The rule that decides, and the scores.
pub(crate) fn judge(mode: Mode, observed: &str, guess: &str) -> (Rule, Scores) {
    if observed.len().max(guess.len()) > TEXT_BYTES_MAX {
        return judge_bytes(observed.trim(), guess.trim());
    }
    if mode == Mode::Paper {
        return paper::judge(observed, guess);
    }
    if observed == guess {
        return judge_same(observed);
    }
    let (o, g) = (Reading::new(observed), Reading::new(guess));
    let scores = overlap::scores(&o.tokens, &g.tokens);
    let empty = words(&o.tokens).is_empty() || words(&g.tokens).is_empty();
    if empty || is_blank(observed) || is_blank(guess) {
        return (Rule::Empty, scores);
    }
    if is_refusal(observed) || is_refusal(guess) {
        return (Rule::Refusal, scores);
    }
    if mode == Mode::Exact {
        return (byte_for_byte(observed.trim(), guess.trim()), scores);
    }
    if observed.trim() == guess.trim() || words(&o.tokens) == words(&g.tokens) {
        return (Rule::Equal, scores);
    }
    if is_hedge(observed) || is_hedge(guess) {
        return (Rule::Hedge, scores);
    }
    if let Some(rule) = decided_by_polarity(&o, &g) {
        return (rule, scores);
    }
    if let Some(rule) = accept(&o, &g).or_else(|| accept_respelled(observed, guess, &o, &g)) {
        return (rule, scores);
    }
    (reason::difference(&o, &g), scores)
}

/// The verdict on a text and itself: most guesses that are right are so to the byte, and need no reading.
fn judge_same(text: &str) -> (Rule, Scores) {
    let is_blank = is_blank(text);
    // A letter or digit of ASCII is always read as a word. Others may fold to nothing.
    let has_words = text.is_ascii() && !is_blank || !words(&tokens::tokens(text)).is_empty();
    let rule = if is_blank || !has_words {
        Rule::Empty
    } else if !Observation::is_nothing(text) && is_refusal(text) {
        Rule::Refusal
    } else {
        // It may be that nothing would be found, and nothing was.
        Rule::Equal
    };
    (rule, Scores::of_whole(has_words))
}

/// The verdict on texts that are too long to be read.
fn judge_bytes(observed: &str, guess: &str) -> (Rule, Scores) {
    if is_blank(observed) || is_blank(guess) {
        return (Rule::Empty, Scores::default());
    }
    let rule = byte_for_byte(observed, guess);
    (rule, Scores::of_whole(rule.accepts()))
}

fn byte_for_byte(observed: &str, guess: &str) -> Rule {
    if observed == guess {
        Rule::Equal
    } else {
        Rule::Different
    }
}

/// "&" folds to a word, but says nothing.
fn is_blank(text: &str) -> bool {
    !text.chars().any(char::is_alphanumeric)
}

/// Yes and no decide before anything else; a text that is neither is no answer to the other's
/// question.
fn decided_by_polarity(o: &Reading, g: &Reading) -> Option<Rule> {
    match (polarity::of(&o.tokens), polarity::of(&g.tokens)) {
        (None, None) => None,
        (Some(o), Some(g)) if o.yes == g.yes && o.clear && g.clear && (o.bare || g.bare) => {
            Some(Rule::Containment)
        }
        _ => Some(Rule::Polarity),
    }
}

/// "Müller" folds to "muller", and "Mueller" is the same name. One side at a time is respelled,
/// since the other may be written either way.
fn accept_respelled(observed: &str, guess: &str, o: &Reading, g: &Reading) -> Option<Rule> {
    let respelled = |text| spelling::without_umlauts(text).map(|text| Reading::new(&text));
    respelled(observed)
        .and_then(|o| accept(&o, g))
        .or_else(|| respelled(guess).and_then(|g| accept(o, &g)))
}

/// The rule that accepts, if one does. Every way through here names what may differ.
fn accept(o: &Reading, g: &Reading) -> Option<Rule> {
    if !asides_agree(o, g) || !relations_agree(o, g) {
        return None;
    }
    if lists::same_items(&o.answer, &g.answer) {
        return Some(Rule::List);
    }
    let surname_first = |a: &Reading, b: &Reading| {
        names::uninverted(&a.answer).is_some_and(|name| words(&name) == words(&b.answer))
    };
    if surname_first(o, g) || surname_first(g, o) {
        return Some(Rule::Name);
    }
    let (o, g) = (places::locate(&o.answer), places::locate(&g.answer));
    if !places::compatible(&o, &g) {
        return None;
    }
    let (o, g) = (without_marks(o.name), without_marks(g.name));
    let (o, g) = (names::untitle(&o), names::untitle(&g));
    if !ranks_agree(&o, &g) {
        return None;
    }
    let (o, g) = (o.name, g.name);
    if o == g {
        return Some(Rule::Containment);
    }
    if joined_alike(o, g) {
        return Some(Rule::Equal);
    }
    if names::initials_agree(o, g) {
        return Some(Rule::Name);
    }
    if places::same_region(o, g) {
        return Some(Rule::Place);
    }
    if length(o).min(length(g)) < LENGTH_MIN {
        return None;
    }
    match overlap::overlap(o, g) {
        Overlap::Contained => Some(Rule::Containment),
        Overlap::Covered => Some(Rule::Coverage),
        Overlap::Alike => Some(Rule::Jaccard),
        Overlap::Apart => None,
    }
}

/// A remark in parentheses may be missing, but not contradict the other.
fn asides_agree(o: &Reading, g: &Reading) -> bool {
    let (a, b) = (words(&o.asides), words(&g.asides));
    match (a.is_empty(), b.is_empty()) {
        (true, true) => true,
        (true, false) => remark_may_go(g, o),
        (false, true) => remark_may_go(o, g),
        (false, false) => a == b,
    }
}

/// May the remark be missing from the other text? Not if it negates, adds another answer, or gives a
/// number, its scale or a direction: `King Kong (1933 film)` says its year because there are two. So
/// does `Georgia (country)` its kind. A remark that names somebody's relation (`daughter of
/// Justin II`) or a place only tells which one is meant. `Paris (Texas)` lies where `Paris, Texas`
/// does. Behind a mere number it says what is counted, since when, or how exactly.
fn remark_may_go(remarked: &Reading, other: &Reading) -> bool {
    let remark = &remarked.asides[..];
    let comma = [Token::new(",", Kind::Mark)];
    let placed = [&remarked.answer[..], &comma[..], remark].concat();
    let (placed, other_placed) = (places::cut_regions(&placed), places::locate(&other.answer));
    if !places::compatible(&placed, &other_placed) {
        return false;
    }
    let relates = remark.iter().any(|token| token.is("of"));
    let place = places::is_known(remark);
    let is_shared = places::is_shared(&remarked.answer);
    let in_figure = |token: &Token| frames::is_time(token) || token.is_any(&["/", ":"]);
    let is_figure = words(&remarked.answer).into_iter().all(in_figure);
    let adds = remark
        .first()
        .is_some_and(|first| first.is_any(&["and", "or", "also"]));
    !adds
        && remark.iter().all(|token| {
            let numeral = token.kind == Kind::Number && token.text.len() <= 2;
            let says = match token.kind {
                Kind::Mark => false,
                _ if is_figure => true,
                Kind::Number | Kind::Date => !(numeral && relates),
                _ if reason::is_direction(token) => !(relates || place || remark.len() > 2),
                _ => {
                    polarity::negates(token)
                        || reason::is_generation(token)
                        || numbers::is_scale(token)
                        || is_shared && token.is_any(places::KINDS)
                }
            };
            !says || other.tokens.contains(token)
        })
}

/// "He was born in Paris" may be "Paris", never "He died in Paris". "Her father was born in Paris" is not "Her father
/// was buried in Paris", but "Its capital is located in Austria" may be "Its capital is in Austria".
fn relations_agree(o: &Reading, g: &Reading) -> bool {
    let mut pairs = o.relations.iter().zip(&g.relations);
    pairs.all(|(o, g)| o == g)
}

fn ranks_agree(o: &names::Untitled<'_>, g: &names::Untitled<'_>) -> bool {
    o.rank.is_none() || g.rank.is_none() || o.rank == g.rank
}

/// `Wal-Mart` and `Walmart`: the same letters, cut otherwise. Numbers must be cut alike.
fn joined_alike(a: &[Token], b: &[Token]) -> bool {
    let words_only = a
        .iter()
        .chain(b)
        .all(|token| matches!(token.kind, Kind::Word | Kind::Initials));
    let joined =
        |tokens: &[Token]| -> String { tokens.iter().map(|token| token.text.as_str()).collect() };
    words_only && length(a).min(length(b)) >= LENGTH_MIN && joined(a) == joined(b)
}

/// Do both answers have the same name, so that only what stands around it differs?
pub(crate) fn same_name(o: &Reading, g: &Reading) -> bool {
    let name = |reading: &Reading| {
        let words = without_marks(places::locate(&reading.answer).name);
        names::untitle(&words).name.to_vec()
    };
    name(o) == name(g)
}

/// Is one of the answers too short for anything but equality?
pub(crate) fn too_short(o: &Reading, g: &Reading) -> bool {
    length(&o.answer).min(length(&g.answer)) < LENGTH_MIN
}

/// Characters of the text, spaces between words included.
fn length(tokens: &[Token]) -> usize {
    let words = words(tokens);
    let letters: usize = words.iter().map(|t| t.text.chars().count()).sum();
    letters + words.len().saturating_sub(1)
}

fn without_marks(tokens: &[Token]) -> Vec<Token> {
    words(tokens).into_iter().cloned().collect()
}

/// Words without marks.
fn words(tokens: &[Token]) -> Vec<&Token> {
    tokens.iter().filter(|t| t.kind != Kind::Mark).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What [`judge_same`] takes for granted.
        #[test]
        fn a_letter_or_digit_of_ascii_is_always_read_as_a_word(text in "[ -~\\t\\n]{0,24}") {
            let tokens = Reading::new(&text).tokens;
            prop_assert!(is_blank(&text) || !words(&tokens).is_empty(), "{tokens:?}");
        }

        /// The scores that two readings would have, of any text.
        #[test]
        fn a_text_and_itself_score_as_two_readings_do(text in "\\PC{0,16}") {
            let (rule, scores) = judge_same(&text);
            let reading = Reading::new(&text);
            prop_assert_eq!(scores, overlap::scores(&reading.tokens, &reading.tokens));
            let is_empty = is_blank(&text) || words(&reading.tokens).is_empty();
            prop_assert_eq!(rule == Rule::Empty, is_empty);
        }
    }
}
