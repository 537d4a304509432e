//! Drafted look-ups as short stories: launched while the planner writes, taken over if it writes just that.

use crate::story::{check, with};
use spechop_types::{BranchId, Chance, LookupId};
use spechop_window::{Policy, Window};

const DRAFTS: Policy = Policy {
    drafts_max: 2,
    orphans_max: 2,
    ..Policy::EAGER
};

#[track_caller]
fn drafts(story: &str, expected: &str) -> Window {
    check(with(3, DRAFTS), story, expected)
}

#[test]
fn a_draft_is_looked_up_while_its_planner_writes() {
    drafts("", "write 0; draft 0");
    let window = drafts("d0 A 50%|B", "call 0; call 1");
    let writer = |lookup| window.drafted_for(LookupId(lookup));
    assert_eq!(writer(0), Some((BranchId(0), Chance::of(0.5))));
    assert_eq!(window.asker(LookupId(0)), None);
    // The planner writes one of them: the other one goes, and it has that look-up now.
    drafts("d0 A|B; w0 A", "drop 1; confirm 0 from 0; guess 0");
    drafts("d0 A|B; w0 B", "drop 0; confirm 0 from 1; guess 1");
    drafts("d0 A; o0 x", "");
    drafts(
        "d0 A; o0 x; w0 A",
        "confirm 0 from 0; commit 0; write 1; draft 1",
    );
    // Other words, or an answer. What is dropped ends before anything begins.
    drafts("d0 A; w0 a", "drop 0; call 1; guess 1");
    drafts("d0 A; o0 x; w0 B", "drop 0; call 1; guess 1");
    drafts("d0 A; a0 done", "drop 0; answer 0 done");
    // Its failure is nobody's, until somebody has asked.
    drafts("d0 A|B; f0 tgt", "drop 0");
    drafts("d0 A; w0 A; f0 tgt", "call 0");
    drafts("d0 A; f0 tgt; w0 A", "call 1; guess 1");
}

#[test]
fn drafts_that_take_their_time_come_one_after_the_other() {
    drafts("d0 A; d0 B", "call 1");
    // The same again, and one more than may be.
    drafts("d0 A; d0 A", "");
    drafts("d0 A; d0 B; d0 C", "");
    drafts("d0 A; d0 B; w0 B", "drop 0; confirm 0 from 1; guess 1");
}

#[test]
fn drafts_come_and_go_with_the_branch_that_writes() {
    drafts("w0 A; g0 x", "write 1; draft 1");
    let window = drafts("w0 A; g0 x 40%; d1 B 50%", "call 1");
    let chance = Chance::of(0.4).and(Chance::of(0.5));
    assert_eq!(window.drafted_for(LookupId(1)), Some((BranchId(1), chance)));
    drafts(
        "w0 A; g0 x; d1 B; o0 z; v1 -",
        "abort 1; drop 1; commit 0; write 2; draft 2",
    );
    drafts("w0 A; g0 x; d1 B; f1 seg", "drop 1");
    drafts("w0 A; g0 x; d1 B; w1 B", "confirm 1 from 1; guess 1");
    // Too late, or for nobody.
    drafts("w0 A; d0 B", "");
    drafts("w0 A; g0 x; o0 z; v1 -; d1 B", "");
    drafts("d0 A; finish", "abort 0; drop 0; answer-now 1");
    // A window in which every answer must be written asks for none.
    check(with(1, DRAFTS), "w0 A; o0 x", "commit 0; write 1");
    check(with(3, DRAFTS), "d0 -", "");
}

#[test]
fn what_nobody_would_take_over_is_not_drafted() {
    // No more than the policy says, none twice, none empty.
    drafts("d0 A|A|B|C", "call 0; call 1");
    drafts("d0 A; d0 B|C", "call 1");
    drafts("d0 ?|A", "call 0");
    // Asked before, in whatever words; looked up for somebody else.
    drafts("w0 A; g0 x; d1 a?|A|B", "call 1");
    drafts("w0 A; g0 x; w1 B; g1 y; d2 B|C", "call 2");
    // An orphan may be just that.
    drafts("w0 A; g0 x; w1 B; o0 z; v1 -; d2 B|C", "call 2");
    drafts(
        "w0 A; g0 x; w1 B; o0 z; v1 -; d2 C; w2 B",
        "drop 2; salvage 2 from 1; guess 1",
    );
    let gated = Policy {
        chance_min: Chance::of(0.25),
        ..DRAFTS
    };
    check(with(3, gated), "d0 A 30%|B 20%", "call 0");
    check(with(3, gated), "w0 A; g0 x 50%; d1 B 40%|C 60%", "call 1");
}

#[test]
fn the_answer_of_a_draft_is_guessed_if_the_policy_says_so() {
    let policy = Policy {
        draft_guesses: true,
        ..DRAFTS
    };
    let guessing = |story, expected| check(with(3, policy), story, expected);
    guessing("d0 A", "call 0; guess 0");
    guessing("d0 A; g0 x", "");
    guessing("d0 A; g0 x; w0 A", "confirm 0 from 0; write 1; draft 1");
    guessing("d0 A; w0 A", "confirm 0 from 0");
    guessing("d0 A; o0 x", "drop-guess 0");
    guessing("d0 A; g0 x; w0 B", "drop 0; call 1; guess 1");
}
