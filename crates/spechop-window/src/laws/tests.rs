//! Each law sees the state that it forbids. A window never comes into such a state by events, so each row
//! brings one close to it and then breaks a field. A law that always held would pass everywhere else.

use std::sync::Arc;

use smallvec::SmallVec;
use spechop_types::{BranchId, Chance, Draft, LookupId, Observation, Step, SubQuestion};

use super::{LAWS, broken, offers_are_alive};
use crate::branch::{Base, Branch, Granted, Launched, Segment};
use crate::lookup::{Guessing, Lookup, Target};
use crate::{Event, Limits, Policy, WeighedGuess, Width, Window};

/// An aborted look-up is kept.
const SALVAGE: Policy = Policy {
    orphans_max: 1,
    ..Policy::EAGER
};
const AHEAD: Policy = Policy {
    plan_ahead: true,
    ..SALVAGE
};
const ROUNDS: Policy = Policy {
    continuous: false,
    ..Policy::EAGER
};
const GATED: Policy = Policy {
    chance_min: Chance::EVEN,
    ..Policy::EAGER
};
const DRAFTS: Policy = Policy {
    drafts_max: 1,
    ..Policy::EAGER
};

/// Branch 1 stands on the guess of branch 0, and is being written.
const GUESSED: &str = "w0 A; g0 x";
/// Branch 2 stands on the guess of branch 1, which stands on the guess of branch 0.
const DEEP: &str = "w0 A; g0 x; w1 B; g1 y";
/// Branch 2 stands on the observation of branch 1, which stands on the guess of branch 0.
const OBSERVED: &str = "w0 A; g0 x; w1 B; o1 y";
/// Branch 2 writes behind a committed hop. Look-up 1 is an orphan.
const ORPHANED: &str = "w0 A; g0 x; w1 B; o0 z; v1 -";
/// Branch 3 stands on the guess of branch 2, with which the second round of two hops began.
const SECOND_ROUND: &str = "w0 A; g0 x; w1 B; o0 x; v1 +; o1 y; w2 C; g2 z";

/// A way to break a law.
struct Row {
    law: &'static str,
    /// The first law that does not hold then.
    told: &'static str,
    width: usize,
    policy: Policy,
    story: &'static str,
    breaks: fn(&mut Window),
}

fn row(
    law: &'static str,
    (width, policy): (usize, Policy),
    story: &'static str,
    breaks: fn(&mut Window),
) -> Row {
    Row {
        law,
        told: law,
        width,
        policy,
        story,
        breaks,
    }
}

/// Every law, clause by clause, as far as an earlier law does not tell it first: of a branch whose parent has
/// gone, SPEC-3 says that nothing is built on some other branch.
fn rows() -> Vec<Row> {
    let eager = |k| (k, Policy::EAGER);
    let mut rows = vec![row(
        "SPEC-1: at most k branches are alive",
        eager(2),
        GUESSED,
        |w| push_twin(w, 1),
    )];

    let law = "SPEC-1: k = 1 never guesses";
    rows.extend([
        row(law, eager(1), "w0 A", |w| w.lookups[0].guessing = running()),
        row(law, eager(1), "w0 A", |w| {
            w.lookups[0].draft = Some((BranchId(0), Chance::EVEN));
        }),
    ]);

    let law = "SPEC-2: only the head is verified";
    rows.extend([
        // It stands on another branch than the head.
        row(law, eager(3), DEEP, |w| w.verifying = Some(BranchId(2))),
        // The head's look-up has not answered.
        row(law, eager(3), DEEP, |w| w.verifying = Some(BranchId(1))),
        row(law, eager(3), DEEP, |w| w.verifying = Some(BranchId(9))),
    ]);

    let law = "SPEC-3: launched at once, extended at once";
    rows.extend([
        row(law, eager(3), "w0 A", |w| {
            w.branches[0].segment = unlaunched();
        }),
        // Nobody was asked for a guess: at once, and as soon as there is room.
        row(law, eager(3), "w0 A", |w| {
            w.lookups[0].guessing = Guessing::Idle;
        }),
        row(law, (3, Policy::PAPER), "w0 A", |w| {
            w.lookups[0].guessing = Guessing::Idle;
        }),
        // Nothing is built on a guess, or on an observation, for which there is room.
        row(law, eager(3), GUESSED, |w| w.branches.truncate(1)),
        row(law, eager(3), OBSERVED, |w| w.branches.truncate(2)),
        row(law, eager(3), GUESSED, |w| {
            w.offer(0, Granted::Guess(guess("y")), 1);
        }),
    ]);

    let law = "SPEC-3: what is unlikely waits";
    rows.extend([
        row(law, (3, GATED), GUESSED, |w| {
            granted(w).chance = Chance::NONE;
        }),
        row(law, eager(3), GUESSED, |w| {
            granted(w).chance = Chance::EVEN;
            granted(w).least = Chance::CERTAIN;
        }),
    ]);

    rows.push(row(
        "SPEC-3: rounds are settled",
        (2, ROUNDS),
        SECOND_ROUND,
        |w| w.round_from = 0,
    ));

    let law = "SPEC-4: one tree";
    rows.extend([
        row(law, eager(3), GUESSED, |w| w.branches[1].hop = 7),
        row(law, eager(3), "", |w| w.branches[0].hop = 1),
        // A second root.
        row(law, eager(3), "w0 A", |w| push_twin(w, 0)),
        // A sibling on the same answer.
        row(law, eager(3), GUESSED, |w| push_twin(w, 1)),
        // The parent has asked nothing.
        row(law, eager(3), GUESSED, |w| {
            w.branches[0].segment = Segment::Writing(Launched::Authoritative);
        }),
    ]);

    let law = "SPEC-5: no guess after the observation";
    rows.extend([
        row(law, eager(3), OBSERVED, |w| {
            w.lookups[1].guessing = running();
        }),
        // Branch 1 stands on the open answer of branch 0.
        row(law, (3, AHEAD), "w0 A; g0 -", |w| {
            w.lookups[0].target = Target::Observed(observation("x"));
        }),
    ]);

    let law = "SPEC-6: the head is at work";
    rows.extend([
        row(law, eager(3), "", |w| {
            w.branches[0].segment = Segment::Failed;
        }),
        row(law, eager(3), "w0 A", |w| {
            w.lookups[0].target = Target::Failed;
        }),
    ]);

    rows.push(row(
        "SPEC-7: a committed answer leaves",
        eager(3),
        "",
        |w| w.branches[0].segment = Segment::Answered("x".into()),
    ));

    let law = "SPEC-9: nothing survives the end";
    rows.extend([
        row(law, eager(3), "w0 A", |w| w.branches.clear()),
        // The offer is beyond the round: it would wait for long.
        row(law, (2, ROUNDS), DEEP, |w| {
            w.branches.clear();
            w.lookups.clear();
        }),
    ]);

    let law = "SPEC-10: look-ups are shared";
    rows.extend([
        row(law, eager(3), "w0 A", |w| w.lookups[0].users.clear()),
        row(law, eager(3), "w0 A", |w| {
            w.lookups[0].users.push(BranchId(9));
        }),
        row(law, eager(3), "w0 A", |w| {
            w.lookups[0].asked = SubQuestion::new("B");
        }),
        // Twice the same at once; neither is wrong by itself.
        row(law, (3, SALVAGE), "w0 A", |w| {
            push_lookup(w, "A");
            let twin = &mut w.lookups[1];
            (twin.guessing, twin.users) = (Guessing::Idle, SmallVec::new());
        }),
        // Orphans: too many, guessed at, failed.
        row(law, (3, SALVAGE), ORPHANED, |w| push_lookup(w, "C")),
        row(law, (3, SALVAGE), ORPHANED, |w| {
            w.lookups[0].guessing = running();
        }),
        row(law, (3, SALVAGE), ORPHANED, |w| {
            w.lookups[0].target = Target::Failed;
        }),
        // Drafts: of nobody who writes, too many, asked by somebody.
        row(law, (3, DRAFTS), "d0 A", |w| {
            w.lookups[0].draft = Some((BranchId(9), Chance::EVEN));
        }),
        row(law, (3, DRAFTS), "d0 A", |w| push_lookup(w, "B")),
        row(law, (3, DRAFTS), "d0 A", |w| {
            w.lookups[0].users.push(BranchId(0));
        }),
    ]);

    // What breaks this law breaks an earlier one, too, so that it is never the one that is told: a head that
    // stands on something has no parent, and what is asked without a look-up, and is not open, waits in vain.
    let law = "SPEC-11: what is open stays open";
    rows.extend([
        Row {
            told: "SPEC-4: one tree",
            ..row(law, eager(3), GUESSED, |w| {
                w.branches.pop_front();
            })
        },
        Row {
            told: "SPEC-3: launched at once, extended at once",
            ..row(law, eager(3), "w0 A", |w| {
                w.branches[0].segment = unlaunched();
            })
        },
    ]);
    rows
}

#[test]
fn every_law_sees_what_it_forbids() {
    let rows = rows();
    for (at, row) in rows.iter().enumerate() {
        let mut window = told(row.width, row.policy, row.story);
        let law = LAWS.iter().find(|(name, _)| *name == row.law);
        let (_, holds) = law.expect("a law of this name");
        assert!(holds(&window), "row {at} of {}", row.law);
        assert_eq!(broken(&window), None, "row {at} of {}", row.law);
        (row.breaks)(&mut window);
        assert!(!holds(&window), "row {at} of {}", row.law);
        assert_eq!(broken(&window), Some(row.told), "row {at} of {}", row.law);
    }
    for (law, _) in LAWS {
        assert!(rows.iter().any(|row| row.law == law), "no row of {law}");
    }
}

#[test]
fn an_offer_to_build_on_a_dead_branch_is_seen() {
    let mut window = told(2, Policy::EAGER, DEEP);
    assert!(offers_are_alive(&window) && !window.offers.is_empty());
    window.branches.truncate(1);
    assert!(!offers_are_alive(&window));
}

/// Another branch like the one at this place.
fn push_twin(window: &mut Window, at: usize) {
    let twin = Branch {
        id: BranchId(7),
        ..window.branches[at].clone()
    };
    window.branches.push_back(twin);
}

/// Another look-up like the first one, of other words.
fn push_lookup(window: &mut Window, asked: &str) {
    let twin = Lookup {
        id: LookupId(7),
        asked: SubQuestion::new(asked),
        ..window.lookups[0].clone()
    };
    window.lookups.push_back(twin);
}

/// The guess that branch 1 stands on.
fn granted(window: &mut Window) -> &mut WeighedGuess {
    match &mut window.branches[1].base {
        Some(Base {
            granted: Granted::Guess(guess),
            ..
        }) => guess,
        _ => panic!("it stands on no guess"),
    }
}

fn running() -> Guessing {
    Guessing::Running(SmallVec::new())
}

/// Asked, and not looked up.
fn unlaunched() -> Segment {
    Segment::Asked {
        sub_question: SubQuestion::new("A"),
        lookup: None,
    }
}

fn guess(text: &str) -> WeighedGuess {
    WeighedGuess {
        text: text.into(),
        chance: Chance::CERTAIN,
        least: Chance::NONE,
    }
}

fn observation(text: &str) -> Arc<Observation> {
    Arc::new(Observation::read(Some(text.into()), Vec::new()))
}

/// A window to which this has happened.
fn told(width: usize, policy: Policy, story: &str) -> Window {
    let (mut window, _) = Window::open(Limits {
        width: width.try_into().map_or(Width::UNBOUNDED, Width::bounded),
        hops_max: 5,
        not_found_max: 1,
        policy,
    });
    for text in story.split("; ").filter(|text| !text.is_empty()) {
        window.apply(event(text));
    }
    window
}

/// A part of the notation of `tests/story/mod.rs`: `w0 Q` wrote, `g0 X` guessed (`-`: nothing), `o0 X` observed,
/// `v1 +` verified, `d0 Q` drafted.
fn event(text: &str) -> Event {
    let (head, rest) = text.split_once(' ').expect("two words");
    let (kind, id) = head.split_at(1);
    let id = id.parse().expect("a number");
    let (branch, lookup) = (BranchId(id), LookupId(id));
    match kind {
        "w" => Event::Wrote {
            branch,
            step: Step::Ask(SubQuestion::new(rest)),
        },
        "g" => Event::Guessed {
            lookup,
            guesses: Some(rest)
                .filter(|rest| *rest != "-")
                .map(guess)
                .into_iter()
                .collect(),
            more: false,
        },
        "o" => Event::Observed {
            lookup,
            observation: observation(rest),
        },
        "v" => Event::Verified {
            branch,
            accepted: rest == "+",
        },
        "d" => Event::Drafted {
            branch,
            drafts: vec![Draft {
                sub_question: SubQuestion::new(rest),
                chance: Chance::EVEN,
            }],
        },
        other => panic!("no such event: {other}"),
    }
}
