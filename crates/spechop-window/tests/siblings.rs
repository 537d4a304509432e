//! Several guesses of a hop, as short stories: which of the branches upon them stands, and what of the others is
//! of use.

use crate::story::{check, known, two_guesses};
use spechop_types::BranchId;

#[test]
fn siblings_stand_on_ranked_guesses() {
    check(two_guesses(4), "w0 A; g0 x|y|z", "write 1; write 2");
    check(two_guesses(4), "w0 A; g0 x|x| ", "write 1");
    let window = check(
        two_guesses(4),
        "w0 A; g0 x|y; w1 B; w2 C",
        "call 2; guess 2",
    );
    assert_eq!(known(&window, 1), [("A".into(), "x".into())]);
    assert_eq!(known(&window, 2), [("A".into(), "y".into())]);
    assert_eq!(window.depth(BranchId(2)), Some(1));
    // They share the window's room: nearest first, a lower rank counting as a hop further out.
    check(two_guesses(2), "w0 A; g0 x|y", "write 1");
    check(
        two_guesses(3),
        "w0 A; g0 x|y; w1 B; g1 p|q; w2 C; g2 r; o0 x; v1 +",
        "abort 2; orphan 2; commit 0; promote 1; write 3; write 4",
    );
}

#[test]
fn at_most_one_sibling_survives() {
    let before = "w0 A; g0 x|y; w1 B; w2 C; o0 y";
    check(two_guesses(4), before, "verify 1");
    check(
        two_guesses(4),
        &format!("{before}; v1 -"),
        "abort 1; drop-guess 1; orphan 1; verify 2",
    );
    let window = check(
        two_guesses(4),
        &format!("{before}; v1 -; v2 +"),
        "commit 0; promote 2",
    );
    assert_eq!(window.committed()[0].guess.as_deref(), Some("y"));
    let window = check(
        two_guesses(4),
        &format!("{before}; v1 -; v2 -"),
        "abort 2; drop-guess 2; orphan 2; commit 0; write 3",
    );
    assert_eq!(window.committed()[0].guess.as_deref(), Some("x"));
    check(
        two_guesses(4),
        "w0 A; g0 x|y; w1 B; w2 C; o0 -",
        "abort 1; abort 2; drop-guess 1; orphan 1; drop-guess 2; orphan 2; commit 0; write 3",
    );
    // A guess that found no room is not compared.
    check(
        two_guesses(2),
        "w0 A; g0 x|y; o0 y; v1 -",
        "abort 1; commit 0; write 2",
    );
}

#[test]
fn of_siblings_only_those_fall_that_can_never_hold() {
    let before = "w0 A; g0 none|x; w1 B; w2 C; o0 x";
    check(
        two_guesses(4),
        before,
        "abort 1; drop-guess 1; orphan 1; verify 2",
    );
    check(
        two_guesses(4),
        &format!("{before}; v2 +"),
        "commit 0; promote 2",
    );
    check(
        two_guesses(4),
        "w0 A; g0 x|none; w1 B; w2 C; o0 -",
        "abort 1; drop-guess 1; orphan 1; verify 2",
    );
    // The best guess is the one that is remembered.
    let window = check(
        two_guesses(4),
        "w0 A; g0 x|none; w1 B; w2 C; o0 y; v1 -",
        "abort 1; drop-guess 1; orphan 1; abort 2; drop-guess 2; orphan 2; commit 0; write 3",
    );
    assert_eq!(window.committed()[0].guess.as_deref(), Some("x"));
}

#[test]
fn a_guess_that_was_told_stays_with_its_look_up() {
    let before = "w0 A; g0 x; w1 B; h1 p; w2 C; o0 y; v1 -";
    check(
        two_guesses(4),
        &format!("{before}; w3 B"),
        "salvage 3 from 1; write 4",
    );
    // Nothing was told: it is asked anew.
    let before = "w0 A; g0 x; w1 B; o0 y; v1 -";
    check(
        two_guesses(4),
        &format!("{before}; w2 B"),
        "salvage 2 from 1; guess 1",
    );
}

#[test]
fn siblings_that_ask_the_same_share_one_look_up() {
    let before = "w0 A; g0 x|y; w1 B; w2 B";
    check(two_guesses(5), before, "");
    check(
        two_guesses(5),
        &format!("{before}; g1 p"),
        "write 3; write 4",
    );
    check(
        two_guesses(5),
        &format!("{before}; o1 b"),
        "drop-guess 1; write 3; write 4",
    );
    // The survivor keeps it.
    check(
        two_guesses(5),
        &format!("{before}; o0 y; v1 -; v2 +"),
        "commit 0; promote 2",
    );
    check(
        two_guesses(5),
        &format!("{before}; o0 y; v1 -; v2 +; o1 b"),
        "drop-guess 1; commit 2; write 3",
    );
}
