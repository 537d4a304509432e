//! Answers of several items: "A and B", "A, B and C", "A or B".

use crate::tokens::{Kind, Token};

/// Does the text leave a choice open?
pub(crate) fn has_choice(tokens: &[Token]) -> bool {
    tokens
        .iter()
        .any(|token| token.is_any(&["or", "either"]) || token.is_mark("/") || token.is_mark(";"))
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

/// Do both texts name the same items, in any order?
pub(crate) fn same_items(a: &[Token], b: &[Token]) -> bool {
    let (Some(a), Some(mut b)) = (items(a), items(b)) else {
        return false;
    };
    a.len() == b.len()
        && a.iter().all(|item| {
            let at = b.iter().position(|other| other == item);
            at.map(|at| b.swap_remove(at)).is_some()
        })
}
