//! What the window does beyond the paper, as short stories: guesses that wait for no room, branches on
//! observations, salvage, plan-ahead, the gate. And what it does not do: go in rounds.

use crate::story::{SALVAGE, check, known, two_guesses, with};
use spechop_types::{BranchId, Chance};
use spechop_window::{Limits, Policy, Window};

const PLAN_AHEAD: Policy = Policy {
    plan_ahead: true,
    ..SALVAGE
};

/// Builds nothing that is needed in less than one case of four.
fn gate(k: usize) -> Limits {
    let policy = Policy {
        chance_min: Chance::of(0.25),
        ..SALVAGE
    };
    with(k, policy)
}

#[track_caller]
fn salvage(story: &str, expected: &str) -> Window {
    check(with(3, SALVAGE), story, expected)
}

#[track_caller]
fn plan_ahead(story: &str, expected: &str) -> Window {
    check(with(4, PLAN_AHEAD), story, expected)
}

#[test]
fn a_full_window_has_its_next_guess_ready() {
    let two = with(2, Policy::EAGER);
    check(two, "w0 A; g0 x; w1 B", "call 1; guess 1");
    check(two, "w0 A; g0 x; w1 B; g1 y", "");
    check(
        two,
        "w0 A; g0 x; w1 B; g1 y; o0 x; v1 +",
        "commit 0; promote 1; write 2",
    );
}

#[test]
fn an_observation_that_comes_before_its_guess_is_built_upon() {
    let three = with(3, Policy::EAGER);
    // Its hop needs no guess any more, and no verdict either.
    check(three, "w0 A; g0 x; w1 B; o1 y", "drop-guess 1; write 2");
    check(
        three,
        "w0 A; g0 x; w1 B; o1 y; w2 C; o0 x; v1 +",
        "commit 0; promote 1; commit 1; promote 2",
    );
    // In a full window when there is room.
    let two = with(2, Policy::EAGER);
    check(two, "w0 A; g0 x; w1 B; o1 y", "drop-guess 1");
    check(two, "w0 A; g0 x; w1 B; g1 z; o1 y", "");
    check(
        two,
        "w0 A; g0 x; w1 B; o1 y; o0 x; v1 +",
        "commit 0; promote 1; commit 1; write 2",
    );
}

#[test]
fn each_of_both_goes_without_the_other() {
    let at_once = Policy {
        guess_at_once: true,
        ..Policy::PAPER
    };
    check(with(2, at_once), "w0 A; g0 x; w1 B", "call 1; guess 1");
    check(with(2, at_once), "w0 A; g0 x; w1 B; o1 y", "");
    let on_observations = Policy {
        build_on_observations: true,
        ..Policy::PAPER
    };
    let two = with(2, on_observations);
    check(two, "w0 A; g0 x; w1 B", "call 1");
    let observed = "w0 A; g0 x; w1 B; o1 y; o0 x; v1 +";
    check(two, observed, "commit 0; promote 1; commit 1; write 2");
}

#[test]
fn look_ups_of_aborted_branches_live_on() {
    salvage(
        "w0 A; g0 x; w1 B; o0 z; v1 -",
        "abort 1; drop-guess 1; orphan 1; commit 0; write 2",
    );
    // A finished one needs no more time; a failed one is of no use.
    salvage(
        "w0 A; g0 x; w1 B; g1 -; o1 y; o0 z; v1 -",
        "abort 1; abort 2; commit 0; write 3",
    );
    salvage(
        "w0 A; g0 x; w1 B; g1 -; f1 tgt; o0 z; v1 -",
        "abort 1; drop 1; commit 0; write 2",
    );
}

#[test]
fn the_verified_path_takes_what_it_asks_again() {
    // Still running: no second call. The guess is asked for again.
    let before = "w0 A; g0 x; w1 B; o0 z; v1 -";
    salvage(&format!("{before}; w2 B"), "salvage 2 from 1; guess 1");
    salvage(
        &format!("{before}; w2 B; o1 y"),
        "drop-guess 1; commit 2; write 3",
    );
    // White space is no difference; a letter is, since retrieval sees it.
    salvage(&format!("{before}; w2  B "), "salvage 2 from 1; guess 1");
    salvage(&format!("{before}; w2 b"), "call 2; guess 2");
    // Finished in the meantime, or before: committed at once.
    salvage(&format!("{before}; o1 y"), "");
    salvage(
        &format!("{before}; o1 y; w2 B"),
        "salvage 2 from 1; commit 2; write 3",
    );
    // Failed in the meantime: forgotten.
    salvage(&format!("{before}; f1 tgt"), "drop 1");
    salvage(&format!("{before}; f1 tgt; w2 B"), "call 2; guess 2");
    // A guess that was had already is not asked for again.
    salvage(
        "w0 A; g0 x; w1 B; g1 y; o0 z; v1 -; w3 B",
        "salvage 3 from 1; write 4",
    );
    // Failing after it was taken, it is tried again as authoritative, once.
    salvage(&format!("{before}; w2 B; f1 tgt"), "call 1");
    salvage(
        &format!("{before}; w2 B; f1 tgt; f1 tgt"),
        "abort 2; drop 1; fail 2 target",
    );
}

#[test]
fn a_speculative_branch_salvages_too() {
    let before = "w0 A; g0 x; w1 B; g1 y; w2 C; g2 -; o0 z; v1 -; w3 D; g3 v; w4 C";
    salvage(before, "salvage 4 from 2");
    salvage(&format!("{before}; o2 c"), "write 5");
}

#[test]
fn orphans_are_bounded_in_number_and_time() {
    // The oldest goes first.
    let two = "w0 A; g0 x; w1 B; g1 y; w2 C; g2 -; o0 z; v1 -";
    salvage(
        two,
        "abort 1; abort 2; orphan 1; orphan 2; commit 0; write 3",
    );
    salvage(
        &format!("{two}; w3 D; g3 v; w4 E; g4 -; o3 d; v4 -"),
        "abort 4; orphan 4; drop 1; commit 3; write 5",
    );
    salvage(&format!("{two}; x1"), "drop 1");
    salvage(&format!("{two}; x1; w3 B"), "call 3; guess 3");
    // Its time being over is no news once it is taken, finished or gone.
    salvage(&format!("{two}; w3 B; x1"), "");
    salvage(&format!("{two}; o1 b; x1"), "");
    salvage(&format!("{two}; x0; x9"), "");
    salvage(&format!("{two}; a3 done"), "drop 1; drop 2; answer 3 done");
    salvage(
        &format!("{two}; finish"),
        "abort 3; drop 1; drop 2; answer-now 4",
    );
}

#[test]
fn without_a_guess_the_answer_is_left_open() {
    check(with(4, SALVAGE), "w0 A; g0 -", "");
    let window = plan_ahead("w0 A; g0 -", "write 1");
    assert_eq!(
        known(&window, 1),
        [("A".into(), "the answer of sub-question 1".into())]
    );
    // It goes on from what does not name the open answer, and looks it up.
    plan_ahead("w0 A; g0 -; w1 B", "call 1; guess 1");
    // What does name it cannot be looked up; planning goes on.
    let before = "w0 A; g0 -; w1 Where was the answer of sub-question 1 born?";
    let window = plan_ahead(before, "write 2");
    assert_eq!(window.lookup(BranchId(1)), None);
    plan_ahead(&format!("{before}; w2 C"), "call 1; guess 1");
    plan_ahead(&format!("{before}; w2 Why sub-question 2?"), "write 3");
    plan_ahead(
        &format!("{before}; w2 Who is sub-question 12?"),
        "call 1; guess 1",
    );
    // An answer that stands on nothing never leaves.
    plan_ahead("w0 A; g0 -; a1 done", "");
    plan_ahead("w0 A; g0 -; w1 a!", "");
}

#[test]
fn what_was_planned_ahead_is_salvaged() {
    let before = "w0 A; g0 -; w1 Where is the answer of sub-question 1?; w2 C; g1 -; o0 x";
    plan_ahead(
        before,
        "abort 1; abort 2; abort 3; orphan 1; commit 0; write 4",
    );
    plan_ahead(
        &format!("{before}; w4 Where is x?; g2 p; w5 C"),
        "salvage 5 from 1; write 6",
    );
    // Behind a guess, an observation takes the place of what was left open.
    plan_ahead(
        "w0 A; g0 x; w1 B; g1 -; w2 C; g2 -; o1 y",
        "abort 2; abort 3; orphan 2; write 4",
    );
}

#[test]
fn no_room_and_no_hop_is_left_for_planning_ahead() {
    check(with(1, PLAN_AHEAD), "w0 A", "call 0");
    check(with(2, PLAN_AHEAD), "w0 A; g0 x; w1 B; g1 -", "");
    let last = Limits {
        hops_max: 1,
        ..with(4, PLAN_AHEAD)
    };
    check(last, "w0 A; g0 -", "");
    let useless = Policy {
        orphans_max: 0,
        ..PLAN_AHEAD
    };
    check(with(4, useless), "w0 A; g0 -", "");
}

#[test]
fn what_is_unlikely_is_not_built_upon() {
    check(gate(0), "w0 A; g0 x 24%", "");
    check(gate(0), "w0 A; g0 x 25%", "write 1");
    // All guesses on the way must hold.
    let before = "w0 A; g0 x 50%; w1 B";
    check(gate(0), &format!("{before}; g1 y 49%"), "");
    let window = check(gate(0), &format!("{before}; g1 y 50%"), "write 2");
    let chances = [0, 1, 2, 3].map(|branch| window.chance(BranchId(branch)).share());
    assert_eq!(chances, [1.0, 0.5, 0.25, 0.0]);
    // The paper's window has no gate, and neither has the usual one.
    check(with(0, Policy::EAGER), "w0 A; g0 x 0%", "write 1");
    check(with(0, Policy::default()), "w0 A; g0 x 0%", "write 1");
}

#[test]
fn what_was_unlikely_comes_up_when_a_guess_before_it_holds() {
    let before = "w0 A; g0 x 50%; w1 B; g1 y 49%; o0 x";
    check(
        gate(0),
        &format!("{before}; v1 +"),
        "commit 0; promote 1; write 2",
    );
    // Refuted, it falls with what it stood on.
    check(
        gate(0),
        &format!("{before}; v1 -"),
        "abort 1; orphan 1; commit 0; write 2",
    );
    // It takes its turn when there is room, behind what is nearer.
    check(
        gate(2),
        &format!("{before}; v1 +"),
        "commit 0; promote 1; write 2",
    );
    let one = "w0 A; g0 x 50%; w1 B; g1 y 50%; w2 C; g2 z 60%; o0 x; v1 +";
    check(gate(3), one, "commit 0; promote 1; write 3");
    check(gate(2), &format!("{one}; o1 y; v3 +"), "");
}

#[test]
fn the_gate_holds_nothing_up() {
    // A guess that nothing was built upon is not compared, and the question goes on.
    let before = "w0 A; g0 x 10%; o0 x";
    let window = check(gate(0), before, "commit 0; write 1");
    assert_eq!(window.committed()[0].guess, None);
    check(gate(0), &format!("{before}; a1 done"), "answer 1 done");
    check(gate(0), "w0 A; g0 x 10%; o0 -", "commit 0; write 1");
    check(
        gate(0),
        "w0 A; g0 x 10%; f0 tgt",
        "abort 0; drop 0; fail 0 target",
    );
    check(
        gate(0),
        "w0 A; g0 x 10%; finish",
        "abort 0; drop 0; answer-now 1",
    );
    // Further out, an observation is certain whatever was guessed.
    check(gate(0), "w0 A; g0 x 50%; w1 B; g1 y 10%; o1 y", "write 2");
    // Any likelier guess has its turn, and so has the second one.
    let policy = Policy {
        chance_min: Chance::of(0.25),
        ..two_guesses(0).policy
    };
    check(with(0, policy), "w0 A; g0 x 20%|y 30%", "write 1");
    // Nothing is claimed of what is left open.
    let policy = Policy {
        chance_min: Chance::CERTAIN,
        ..PLAN_AHEAD
    };
    check(with(0, policy), "w0 A; g0 -", "write 1");
    check(with(0, policy), "w0 A; g0 x 99%", "write 1");
}

#[test]
fn a_guess_that_is_not_worth_it_waits_or_is_planned_without() {
    // A wrong branch would cost more than a right one is expected to hide.
    salvage("w0 A; g0 x 20%>25%", "");
    salvage("w0 A; g0 x 25%>25%", "write 1");
    salvage("w0 A; g0 x 20%>25%|y", "");
    // Further out it must be likelier: every guess before it may be wrong, too.
    salvage("w0 A; g0 x 50%; w1 B; g1 y 40%>25%", "");
    salvage(
        "w0 A; g0 x 50%; w1 B; g1 y 40%>25%; o0 x; v1 +",
        "commit 0; promote 1; write 2",
    );
    // What waits for a better guess is not left open; what waits for none is.
    plan_ahead("w0 A; h0 x 20%>25%", "");
    plan_ahead("w0 A; h0 x 20%>25%; g0 -", "write 1");
    plan_ahead("w0 A; g0 x 20%>25%", "write 1");
    let window = plan_ahead("w0 A; g0 x 20%>25%; w1 B", "call 1; guess 1");
    let open = "the answer of sub-question 1".to_owned();
    assert_eq!(known(&window, 1), [("A".to_owned(), open)]);
    // The look-up behind it is there when the observation is.
    plan_ahead(
        "w0 A; g0 x 20%>25%; w1 B; o0 z",
        "abort 1; drop-guess 1; orphan 1; commit 0; write 2",
    );
}

#[test]
fn a_guess_that_becomes_worth_it_takes_the_place_of_the_open_answer() {
    let before = "w0 A; g0 x 50%; w1 B; g1 y 40%>25%; w2 C";
    let (seen, accepted) = (format!("{before}; o0 x"), format!("{before}; o0 x; v1 +"));
    plan_ahead(before, "call 2; guess 2");
    plan_ahead(&seen, "verify 1");
    let taken = "commit 0; promote 1; abort 2; drop-guess 2; orphan 2; write 3";
    plan_ahead(&accepted, taken);
    // Without room for a branch more, too.
    check(with(3, PLAN_AHEAD), &accepted, taken);
    check(
        with(2, PLAN_AHEAD),
        "w0 A; g0 x 50%; w1 B; g1 y 40%>25%; o0 x; v1 +",
        "commit 0; promote 1; write 2",
    );
    // What was planned without it is salvaged.
    plan_ahead(&format!("{accepted}; w3 C"), "salvage 3 from 2; guess 2");
}

#[test]
fn in_rounds_nothing_is_built_before_all_is_settled() {
    let continuous = with(2, Policy::EAGER);
    let rounds = |k| {
        let policy = Policy {
            continuous: false,
            ..Policy::EAGER
        };
        with(k, policy)
    };
    let before = "w0 A; g0 x; w1 B; g1 y; o0 x; v1 +";
    check(continuous, before, "commit 0; promote 1; write 2");
    check(rounds(2), before, "commit 0; promote 1");
    check(rounds(2), &format!("{before}; o1 y"), "commit 1; write 2");
    // A new round is as deep as the first one.
    let again = format!("{before}; o1 y; w2 C; g2 z");
    check(rounds(2), &again, "write 3");
    check(rounds(2), &format!("{again}; w3 D; g3 u"), "");
    // What is rolled back ends the round: all of it is settled.
    check(
        rounds(2),
        "w0 A; g0 x; w1 B; g1 y; o0 z; v1 -; w2 C; g2 u",
        "write 3",
    );
    check(rounds(0), before, "commit 0; promote 1");
}
