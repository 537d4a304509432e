//! The laws of the window, each one named function: asserted after every event in debug builds,
//! property-tested, and listed in ARCHITECTURE.md.

use crate::Width;
use crate::branch::{Branch, Guessing, Segment, Target};
use crate::window::Window;

/// SPEC-1: at most k branches are alive.
pub fn fits(alive: usize, width: Width) -> bool {
    width.get().is_none_or(|k| alive <= k.get())
}

/// SPEC-1, second half: k = 1 never asks the speculator.
pub fn standard_never_guesses(window: &Window) -> bool {
    window.limits().width != Width::STANDARD
        || window.branches.iter().all(|b| b.guessing == Guessing::Idle)
}

/// SPEC-2: only the head's observation is ever compared.
pub fn only_head_is_verified(window: &Window) -> bool {
    window.branches.iter().skip(1).all(|b| !b.verifying)
}

/// SPEC-3: a sub-question's target call was launched, its guess was asked for unless k = 1, and the
/// tail is extended where there is room and something to build on.
pub fn nothing_waits_without_need(window: &Window) -> bool {
    let launched = |b: &Branch| b.sub_question().is_none() || !matches!(b.target, Target::Idle);
    let tail_is_extended = window.branches.back().is_none_or(|tail| {
        // A verdict is due at once, and may take the tail with it.
        let verdict_is_due = window.branches.front().is_some_and(|head| head.verifying);
        let width = window.limits().width;
        let waits_in_vain = match (tail.observation(), &tail.guessing) {
            (Some(_), _) | (None, Guessing::Ready(_)) => width.has_room(window.branches.len()),
            (None, Guessing::Idle) => true,
            (None, Guessing::Running | Guessing::Over) => false,
        };
        tail.sub_question().is_none()
            || verdict_is_due
            || width == Width::STANDARD
            || !waits_in_vain
    });
    window.branches.iter().all(launched) && tail_is_extended
}

/// SPEC-4: the branches form one chain. Each but the tail holds what the next one stands on.
pub fn is_a_chain(window: &Window) -> bool {
    let tail = window.branches.len().wrapping_sub(1);
    let linked = |(at, b): (usize, &Branch)| b.granted.is_some() == (at != tail);
    window.branches.iter().enumerate().all(linked)
}

/// SPEC-5: no speculator is asked what the target tool has already answered.
pub fn no_guess_after_observation(window: &Window) -> bool {
    let idle = |b: &Branch| b.guessing != Guessing::Running || b.observation().is_none();
    window.branches.iter().all(idle)
}

/// SPEC-6: the head never rests on a failure: it was tried again, or the question has failed.
pub fn head_is_at_work(window: &Window) -> bool {
    window.branches.front().is_none_or(|head| {
        !matches!(head.segment, Segment::Failed) && !matches!(head.target, Target::Failed)
    })
}

/// SPEC-7: a final answer waits while its prefix is unverified, and leaves at once when it is not.
pub fn head_holds_no_answer(window: &Window) -> bool {
    let answered = |b: &Branch| matches!(b.segment, Segment::Answered(_));
    !window.branches.front().is_some_and(answered)
}

/// SPEC-9: when the question has ended, nothing is alive; until then, something is.
pub fn ends_with_nothing_alive(window: &Window) -> bool {
    window.is_over() == window.branches.is_empty()
}

/// A law: its name, and whether it holds.
pub type Law = (&'static str, fn(&Window) -> bool);

/// Every law that can be seen in a state. SPEC-8 (the committed trajectory does not depend on k or
/// on the interleaving) speaks of whole runs: see `tests/properties.rs`.
pub const LAWS: [Law; 9] = [
    ("SPEC-1: at most k branches are alive", |w| {
        fits(w.branches.len(), w.limits().width)
    }),
    ("SPEC-1: k = 1 never guesses", standard_never_guesses),
    ("SPEC-2: only the head is verified", only_head_is_verified),
    (
        "SPEC-3: launched at once, extended at once",
        nothing_waits_without_need,
    ),
    ("SPEC-4: one chain", is_a_chain),
    (
        "SPEC-5: no guess after the observation",
        no_guess_after_observation,
    ),
    ("SPEC-6: the head is at work", head_is_at_work),
    ("SPEC-7: a committed answer leaves", head_holds_no_answer),
    ("SPEC-9: nothing survives the end", ends_with_nothing_alive),
];

/// The first law that does not hold.
pub fn broken(window: &Window) -> Option<&'static str> {
    LAWS.iter()
        .find(|(_, holds)| !holds(window))
        .map(|(name, _)| *name)
}
