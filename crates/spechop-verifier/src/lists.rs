//! Answers of several items: "A and B", "A, B and C", "A or B".

use crate::tokens::{Kind, Token};
use crate::{frames, numbers};

/// Words of titles. "Night and Day" and "Day & Night" are two films, while names, languages and
/// colours come in any order.
const COMMON: &[&str] = &[
    "angels",
    "beast",
    "beauty",
    "blood",
    "body",
    "crime",
    "darkness",
    "day",
    "days",
    "death",
    "demons",
    "dreams",
    "earth",
    "evil",
    "fathers",
    "fear",
    "fire",
    "fury",
    "glory",
    "gods",
    "good",
    "hate",
    "heart",
    "heaven",
    "hell",
    "ice",
    "lies",
    "life",
    "light",
    "love",
    "lovers",
    "men",
    "mind",
    "monsters",
    "moon",
    "night",
    "nights",
    "pain",
    "peace",
    "prejudice",
    "pride",
    "punishment",
    "sense",
    "sensibility",
    "shadow",
    "sin",
    "sons",
    "soul",
    "sound",
    "stars",
    "sun",
    "tears",
    "truth",
    "war",
    "women",
];

/// Does the text leave a choice open?
pub(crate) fn has_choice(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| {
        token.is_any(&["or", "either", "/"]) || token.is_mark("/") || token.is_mark(";")
    })
}

/// How many items the text names, roughly: only for saying why two texts differ.
pub(crate) fn joins(tokens: &[Token]) -> usize {
    tokens.iter().filter(|token| token.is("and")).count()
}

/// The items of "A and B" or "A, B and C", each without its article; nothing where the text is no
/// plain list.
fn items(tokens: &[Token]) -> Option<Vec<Vec<&Token>>> {
    let tokens = match tokens {
        [first, rest @ ..] if first.is("both") => rest,
        all => all,
    };
    let and = tokens.iter().position(|token| token.is("and"))?;
    let (before, last) = (&tokens[..and], &tokens[and + 1..]);
    let plain = last
        .iter()
        .all(|token| token.kind != Kind::Mark && !token.is("and"));
    if !plain || has_choice(before) || before.iter().any(|token| token.is_mark("(")) {
        return None;
    }
    let items: Vec<Vec<&Token>> = before
        .split(|token| token.is_mark(","))
        .chain([last])
        .map(|item| item.iter().filter(|token| !token.is("the")).collect())
        .filter(|item: &Vec<&Token>| !item.is_empty())
        .collect();
    (items.len() >= 2).then_some(items)
}

/// Do both texts name the same items, in any order unless it says something?
pub(crate) fn same_items(a: &[Token], b: &[Token]) -> bool {
    let (Some(a), Some(mut b)) = (items(a), items(b)) else {
        return false;
    };
    if has_order(&a) {
        return a == b;
    }
    a.len() == b.len()
        && a.iter().all(|item| {
            let at = b.iter().position(|other| other == item);
            at.map(|at| b.swap_remove(at)).is_some()
        })
}

/// Does the order of these items say something? That of numbers and dates does, and that of two
/// common words.
fn has_order(items: &[Vec<&Token>]) -> bool {
    let common = |item: &Vec<&Token>| matches!(item[..], [word] if word.is_any(COMMON));
    items.iter().any(|item| is_figure(item)) || items.len() == 2 && items.iter().all(common)
}

/// Is this a number or a date, with its unit or era: "1954", "5 km", "44 BC", "10:30"? "2 sons" is none.
fn is_figure(item: &[&Token]) -> bool {
    let goes_on = |token: &&Token| {
        let measures = numbers::is_unit(&token.text) || numbers::is_measure(&token.text);
        measures || frames::is_time(token) || token.is_any(&["to", "/", ":"])
    };
    matches!(item, [first, rest @ ..] if frames::is_time(first) && rest.iter().all(goes_on))
}
