//! Every law of the paper's algorithm as a short story: what happens, and what the window then asks for.
//! `story/mod.rs` says how to read them.

use std::num::NonZeroUsize;

use crate::story::{check, limits, with};
use spechop_types::BranchId;
use spechop_window::{Limits, Policy, Stop};

#[test]
fn standard_agent_never_speculates() {
    check(limits(1), "w0 A", "call 0");
    check(limits(1), "w0 A; o0 x", "commit 0; write 1");
    check(limits(1), "w0 A; o0 x; w1 B; o1 y", "commit 1; write 2");
    let window = check(limits(1), "w0 A; o0 x; a1 done", "answer 1 done");
    assert!(window.is_over());
    assert_eq!(window.stopped(), None);
    assert_eq!(window.committed().len(), 1);
}

#[test]
fn tail_is_extended_where_there_is_room() {
    check(limits(2), "w0 A", "call 0; guess 0");
    check(limits(2), "w0 A; g0 x", "write 1");
    check(limits(3), "w0 A; g0 x; w1 B; g1 y", "write 2");
    // In a full window a guess is asked for when there is room for a branch upon it.
    check(limits(2), "w0 A; g0 x; w1 B", "call 1");
    check(
        limits(2),
        "w0 A; g0 x; w1 B; o0 x; v1 +",
        "commit 0; promote 1; guess 1",
    );
    check(
        limits(2),
        "w0 A; g0 x; w1 B; o0 z; v1 -",
        "abort 1; drop 1; commit 0; write 2",
    );
    check(limits(0), "w0 A; g0 x; w1 B; g1 y; w2 C", "call 2; guess 2");
}

#[test]
fn acceptance_promotes_slides_and_extends() {
    check(limits(3), "w0 A; g0 x; w1 B; o0 x", "verify 1");
    check(
        limits(3),
        "w0 A; g0 x; w1 B; o0 x; v1 +",
        "commit 0; promote 1",
    );
}

#[test]
fn acceptance_while_the_next_segment_is_written_lets_it_go_on() {
    check(limits(3), "w0 A; g0 x; o0 x; v1 +", "commit 0; promote 1");
    check(limits(3), "w0 A; g0 x; o0 x; v1 +; w1 B", "call 1; guess 1");
}

#[test]
fn rejection_aborts_every_descendant() {
    let window = check(
        limits(3),
        "w0 A; g0 x; w1 B; g1 y; w2 C; o0 z; v1 -",
        "abort 1; abort 2; drop 1; drop 2; commit 0; write 3",
    );
    let known: Vec<_> = window
        .trajectory(BranchId(3))
        .map(|(q, a)| (q.as_str(), &**a))
        .collect();
    assert_eq!(known, [("A", "z")]);
}

#[test]
fn later_observations_wait_for_their_turn() {
    check(limits(3), "w0 A; g0 x; w1 B; g1 y; o1 y", "");
    check(
        limits(3),
        "w0 A; g0 x; w1 B; g1 y; o1 y; o0 x; v1 +",
        "commit 0; promote 1; verify 2",
    );
    check(
        limits(3),
        "w0 A; g0 x; w1 B; g1 y; w2 C; o1 y; o0 x; v1 +; v2 +",
        "commit 1; promote 2; guess 2",
    );
}

#[test]
fn observation_before_guess_drops_the_guess() {
    check(limits(3), "w0 A; o0 x", "drop-guess 0; commit 0; write 1");
    check(limits(3), "w0 A; o0 x; g0 y", "");
}

#[test]
fn branches_are_built_on_guesses_only() {
    // One branch later, the observation waits for its turn, and the guess goes on.
    check(limits(3), "w0 A; g0 x; w1 B; o1 y", "");
    check(limits(3), "w0 A; g0 x; w1 B; o1 y; g1 y", "write 2");
    check(
        limits(3),
        "w0 A; g0 x; w1 B; o1 y; g1 y; w2 C; o0 x; v1 +",
        "commit 0; promote 1; verify 2",
    );
    // Its turn comes first.
    check(
        limits(3),
        "w0 A; g0 x; w1 B; o1 y; o0 x; v1 +",
        "commit 0; promote 1; drop-guess 1; commit 1; write 2",
    );
    // It is guessed even if it is known by the time that there is room.
    check(limits(2), "w0 A; g0 x; w1 B; o1 y", "");
    let three = "w0 A; g0 x; w1 B; g1 y; w2 C; o2 z";
    check(limits(3), three, "");
    check(
        limits(3),
        &format!("{three}; o0 x; v1 +"),
        "commit 0; promote 1; guess 2",
    );
}

#[test]
fn failed_or_missing_guess_is_no_guess() {
    check(limits(3), "w0 A; g0 -", "");
    check(limits(3), "w0 A; g0 -", "");
    check(limits(3), "w0 A; g0 -; o0 x", "commit 0; write 1");
}

#[test]
fn speculative_failure_is_tried_again_once_head() {
    check(limits(3), "w0 A; g0 x; f1 seg", "");
    check(
        limits(3),
        "w0 A; g0 x; f1 seg; o0 x; v1 +",
        "commit 0; promote 1; write 1",
    );
    check(limits(3), "w0 A; g0 x; w1 B; f1 tgt", "");
    check(
        limits(3),
        "w0 A; g0 x; w1 B; f1 tgt; o0 x; v1 +",
        "commit 0; promote 1; call 1",
    );
    // Launched while speculative, failed after its promotion: one authoritative try.
    check(limits(3), "w0 A; g0 x; w1 B; o0 x; v1 +; f1 tgt", "call 1");
    check(
        limits(3),
        "w0 A; g0 x; w1 B; o0 x; v1 +; f1 tgt; f1 tgt",
        "abort 1; drop 1; fail 1 target",
    );
    // A failed branch that is rolled back is never tried again.
    check(
        limits(3),
        "w0 A; g0 x; f1 seg; o0 z; v1 -",
        "abort 1; commit 0; write 2",
    );
}

#[test]
fn authoritative_failure_ends_the_question() {
    let window = check(limits(3), "f0 seg", "abort 0; fail 0 segment");
    assert!(window.is_over());
    check(
        limits(3),
        "w0 A; g0 x; f0 tgt",
        "abort 0; abort 1; drop 0; fail 0 target",
    );
}

#[test]
fn speculative_answer_leaves_only_when_its_prefix_is_committed() {
    check(limits(3), "w0 A; g0 x; a1 done", "");
    check(
        limits(3),
        "w0 A; g0 x; a1 done; o0 x; v1 +",
        "commit 0; promote 1; answer 1 done",
    );
    check(
        limits(3),
        "w0 A; g0 x; a1 wrong; o0 z; v1 -",
        "abort 1; commit 0; write 2",
    );
}

#[test]
fn late_news_about_dead_branches_is_ignored() {
    for late in [
        "w1 B", "a1 late", "o1 y", "g1 y", "v2 +", "f1 seg", "f1 tgt", "o0 x", "v1 +",
    ] {
        check(
            limits(3),
            &format!("w0 A; g0 x; w1 B; o0 z; v1 -; {late}"),
            "",
        );
    }
    for late in ["a0 again", "w0 B", "o0 x", "finish"] {
        check(limits(3), &format!("a0 done; {late}"), "");
    }
}

#[test]
fn hop_budget_makes_the_planner_answer() {
    let two = Limits {
        hops_max: 2,
        ..limits(3)
    };
    check(two, "w0 A; g0 x; w1 B; g1 y", "answer-now 2");
    let window = check(
        two,
        "w0 A; g0 x; w1 B; g1 y; a2 done; o0 x; v1 +; o1 y; v2 +",
        "commit 1; promote 2; answer 2 done",
    );
    assert_eq!(window.stopped(), Some(Stop::HopBudget));
    let none = Limits {
        hops_max: 0,
        ..limits(3)
    };
    check(none, "a0 done", "answer 0 done");
}

#[test]
fn planner_that_asks_when_it_must_answer_fails() {
    let one = Limits {
        hops_max: 1,
        ..limits(1)
    };
    check(one, "w0 A; o0 x; w1 B", "abort 1; fail 1 segment");
}

#[test]
fn asking_the_same_twice_makes_the_planner_answer() {
    check(
        limits(1),
        "w0 Who was  Ann?; o0 x; w1 who was ANN",
        "answer-now 1",
    );
    // A sign makes another name.
    check(
        limits(1),
        "w0 When did C++ appear?; o0 x; w1 When did C# appear?",
        "call 1",
    );
    let window = check(limits(1), "w0 A; o0 x; w1 A; a1 done", "answer 1 done");
    assert_eq!(window.stopped(), Some(Stop::Repeated));
    check(limits(3), "w0 A; g0 x; w1 A", "answer-now 1");
}

#[test]
fn too_many_misses_make_the_planner_answer() {
    check(limits(1), "w0 A; o0 -", "commit 0; write 1");
    let window = check(
        limits(1),
        "w0 A; o0 -; w1 B; o1 -; a2 done",
        "answer 2 done",
    );
    assert_eq!(window.stopped(), Some(Stop::NotFound));
    // A speculative trajectory counts its own misses.
    check(
        with(4, Policy::EAGER),
        "w0 A; g0 x; w1 B; o1 -; w2 C; o2 -",
        "drop-guess 2; answer-now 3",
    );
}

#[test]
fn guess_against_nothing_found_is_rejected_without_asking() {
    check(
        limits(3),
        "w0 A; g0 x; w1 B; o0 -",
        "abort 1; drop 1; commit 0; write 2",
    );
}

#[test]
fn guess_that_nothing_will_be_found_holds_if_nothing_is() {
    check(limits(3), "w0 A; g0 none; w1 B; o0 -", "verify 1");
    check(
        limits(3),
        "w0 A; g0 none; w1 B; o0 -; v1 +",
        "commit 0; promote 1",
    );
    check(
        limits(3),
        "w0 A; g0 none; w1 B; o0 x",
        "abort 1; drop 1; commit 0; write 2",
    );
    // It counts as a miss for the branches behind it, as the observation will.
    check(limits(3), "w0 A; g0 none; w1 B; g1 none", "answer-now 2");
}

#[test]
fn finishing_now_answers_from_what_is_committed() {
    check(
        limits(3),
        "w0 A; g0 x; w1 B; finish",
        "abort 0; abort 1; drop 0; drop 1; answer-now 2",
    );
    let window = check(
        limits(3),
        "w0 A; o0 x; w1 B; finish; a2 done",
        "answer 2 done",
    );
    assert_eq!(window.stopped(), Some(Stop::Budget));
    assert_eq!(window.committed().len(), 1);
    // It is answering already.
    check(limits(3), "finish; finish", "");
}

#[test]
fn news_out_of_turn_changes_nothing() {
    for story in [
        "o0 x",
        "g0 x",
        "v1 +",
        "f0 tgt",
        "w0 A; w0 B",
        "w0 A; v1 +",
        "w7 A",
    ] {
        check(limits(3), story, "");
    }
}

/// A speculator may begin with a guess and go on looking for a better one.
#[test]
fn a_guess_that_comes_early_is_built_upon_at_once() {
    let two = |k| {
        with(
            k,
            Policy {
                guesses_max: NonZeroUsize::new(2).unwrap(),
                ..Policy::EAGER
            },
        )
    };
    check(two(3), "w0 A; h0 x", "write 1");
    // The better one becomes a sibling while there is room, and is told once.
    check(two(3), "w0 A; h0 x; g0 x|y", "write 2");
    check(two(3), "w0 A; h0 x; h0 y; g0 -", "");
    check(two(2), "w0 A; h0 x; g0 x|y", "");
    // Not more than the policy builds upon.
    check(two(4), "w0 A; h0 x; h0 y; g0 z", "");
    check(limits(3), "w0 A; h0 x; g0 y", "");
    // Nothing is known yet, so nothing is left open, either.
    let ahead = with(
        3,
        Policy {
            orphans_max: 4,
            plan_ahead: true,
            ..Policy::EAGER
        },
    );
    check(ahead, "w0 A; h0 -", "");
    check(ahead, "w0 A; h0 -; g0 -", "write 1");
    check(ahead, "w0 A; h0 x; g0 -", "");
    // The observation ends the search, and what was built stands or falls by it.
    check(two(3), "w0 A; h0 x; w1 B; o0 x", "drop-guess 0; verify 1");
    check(
        two(3),
        "w0 A; h0 x; w1 B; o0 x; v1 +",
        "commit 0; promote 1",
    );
    check(two(3), "w0 A; h0 x; w1 B; o0 y; g0 y", "");
    // A sibling that asks the same finds what has been told.
    check(two(5), "w0 A; g0 x|y; w1 B; h1 z; w2 B", "write 4");
}
