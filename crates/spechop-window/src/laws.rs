//! The laws of the window, each one named function: asserted after every event in debug builds,
//! property-tested, and listed in `docs/LAWS.md`.

use crate::Width;
use crate::branch::{Branch, Granted, Segment};
use crate::lookup::{Guessing, Lookup, Target};
use crate::window::Window;
use spechop_types::Chance;

/// SPEC-1: at most k branches are alive.
pub(crate) fn fits(alive: usize, width: Width) -> bool {
    width.get().is_none_or(|k| alive <= k.get())
}

/// SPEC-1, second half: k = 1 never asks the speculator, nor the drafter.
pub(crate) fn standard_never_guesses(window: &Window) -> bool {
    let idle = |l: &Lookup| l.guessing == Guessing::Idle && l.draft.is_none();
    !window.is_standard() || window.lookups.iter().all(idle)
}

/// SPEC-2: only the head's observation is ever compared, with a guess that a branch stands on.
pub(crate) fn only_head_is_verified(window: &Window) -> bool {
    let head = window.branches.front();
    let stands_on_head = |id| {
        let branch = window.branch(id);
        head.zip(branch)
            .is_some_and(|(head, b)| b.is_child_of(head.id))
    };
    window
        .verifying
        .is_none_or(|id| stands_on_head(id) && window.comparison(id).is_some())
}

/// SPEC-3: a sub-question has its look-up at once, and, unless guesses wait for room, a speculator is asked
/// at once. Nothing that can be built upon, is likely enough and belongs to the round waits while there is
/// room, or while what it takes the place of is alive; and neither does a guess that waits for room.
pub(crate) fn nothing_waits_without_need(window: &Window) -> bool {
    let has_offer = |b: &Branch| window.offers.iter().any(|o| o.base.parent == b.id);
    let is_built_upon = |b: &Branch| window.children(b.id).next().is_some() || has_offer(b);
    let is_served = |b: &Branch| match b.lookup().and_then(|id| window.find(id)) {
        // The head's observation is committed, or a verdict is due.
        Some(lookup) if window.is_beyond_guesses(lookup) => b.base.is_none() || is_built_upon(b),
        Some(lookup) if lookup.guessing == Guessing::Idle => !window.guesses_at_once(),
        Some(lookup) => {
            let guesses = lookup.guessing.known();
            guesses.is_none_or(|known| known.is_empty()) || is_built_upon(b)
        }
        None => !matches!(b.segment, Segment::Asked { .. }) || stands_open(window, b),
    };
    // A verdict comes at once, and may abort the very branch that would be built upon.
    let waits = || window.offers.iter().any(|offer| window.has_place(offer));
    let waits_in_vain = window.verifying.is_none() && (waits() || window.lacks_guess().is_some());
    !waits_in_vain && window.branches.iter().all(is_served)
}

/// SPEC-3, second half: no branch is alive that is too unlikely to become head, by the gate or for what
/// the guess was weighed by that it stands on.
pub(crate) fn what_is_unlikely_waits(window: &Window) -> bool {
    let least = window.limits().policy.chance_min;
    let weighed = |b: &Branch| match b.base.as_ref().map(|base| &base.granted) {
        Some(Granted::Guess(guess)) => window.least(guess),
        Some(Granted::Observation(_) | Granted::Open(_)) | None => least,
    };
    let enough = |b: &Branch| {
        let least = weighed(b);
        least == Chance::NONE || window.chance(b.id) >= least
    };
    window.branches.iter().all(enough)
}

/// SPEC-3, where the window goes in rounds: no branch is alive beyond the round.
pub(crate) fn rounds_are_settled(window: &Window) -> bool {
    let within = |b: &Branch| match &b.base {
        Some(base) => window.is_in_round(base.parent),
        None => true,
    };
    window.branches.iter().all(within)
}

/// SPEC-4: the branches form one tree, rooted in the head. Siblings stand on different answers.
pub(crate) fn is_a_tree(window: &Window) -> bool {
    let is_linked = |(at, b): (usize, &Branch)| match &b.base {
        None => at == 0 && b.hop == window.committed.len(),
        Some(base) => window.branch(base.parent).is_some_and(|parent| {
            let same = |s: &&Branch| {
                let text = s.base.as_ref().map(|base| base.granted.text());
                text == Some(base.granted.text())
            };
            parent.id < b.id
                && parent.sub_question().is_some()
                && parent.hop + 1 == b.hop
                && window.children(parent.id).filter(same).count() == 1
        }),
    };
    window.branches.iter().enumerate().all(is_linked)
}

/// SPEC-5: no answer is left open whose look-up has answered, and no speculator is asked about it. If
/// branches are built on guesses only, the latter holds of the head's look-up alone.
pub(crate) fn no_guess_after_observation(window: &Window) -> bool {
    let idle = |l: &Lookup| !l.guessing.is_running() || !window.is_beyond_guesses(l);
    let open_in_vain = |b: &Branch| {
        b.base.as_ref().is_some_and(|base| {
            let lookup = window.lookup(base.parent);
            base.granted.is_open() && lookup.is_some_and(|id| window.observation(id).is_some())
        })
    };
    window.lookups.iter().all(idle) && !window.branches.iter().any(open_in_vain)
}

/// SPEC-6: the head never rests on a failure: it was tried again, or the question has failed.
pub(crate) fn head_is_at_work(window: &Window) -> bool {
    window.branches.front().is_none_or(|head| {
        let lookup = head.lookup().and_then(|id| window.find(id));
        !matches!(head.segment, Segment::Failed)
            && !lookup.is_some_and(|lookup| matches!(lookup.target, Target::Failed))
    })
}

/// SPEC-7: a final answer waits while its prefix is unverified, and leaves at once when it is not.
pub(crate) fn head_holds_no_answer(window: &Window) -> bool {
    let answered = |b: &Branch| matches!(b.segment, Segment::Answered(_));
    !window.branches.front().is_some_and(answered)
}

/// SPEC-9: when the question has ended, nothing is alive and nothing runs.
pub(crate) fn ends_with_nothing_alive(window: &Window) -> bool {
    !window.is_over() || (window.lookups.is_empty() && window.offers.is_empty())
}

/// SPEC-10: every look-up belongs to the living branches that ask it, or is one of a bounded number
/// of orphans, or one of a bounded number that were drafted for a branch which is still writing; nothing
/// is looked up twice at the same time.
pub(crate) fn lookups_are_shared(window: &Window) -> bool {
    let belongs = |l: &Lookup| {
        let asks = |b: &Branch| b.lookup() == Some(l.id);
        let asked_alike = |b: &Branch| b.sub_question().is_some_and(|q| q.has_words_of(&l.asked));
        let users = window.branches.iter().filter(|b| asks(b));
        users.clone().count() == l.users.len()
            && users
                .clone()
                .all(|b| l.users.contains(&b.id) && asked_alike(b))
    };
    let same = |a: &Lookup| {
        let asks_a = |b: &&Lookup| b.asked.has_words_of(&a.asked);
        window.lookups.iter().filter(asks_a).count()
    };
    let most = window.limits().policy.drafts_max;
    let is_bounded = |l: &Lookup| match l.draft {
        None => true,
        Some((writer, _)) => {
            let writes = |b: &Branch| matches!(b.segment, Segment::Writing(_)) && b.stop.is_none();
            let drafts = window.lookups.iter().filter(|l| l.is_drafted_for(writer));
            l.users.is_empty()
                && window.branch(writer).is_some_and(writes)
                && drafts.count() <= most
        }
    };
    let orphans = window.lookups.iter().filter(|l| l.is_orphan());
    window.lookups.iter().all(is_bounded)
        && orphans
            .clone()
            .all(|l| !l.guessing.is_running() && !matches!(l.target, Target::Failed))
        && orphans.count() <= window.limits().policy.orphans_max
        && window.lookups.iter().all(|l| belongs(l) && same(l) == 1)
}

/// SPEC-11: what is left open is never looked up, and never committed.
pub(crate) fn open_answers_stay_open(window: &Window) -> bool {
    let head_is_firm = window
        .branches
        .front()
        .is_none_or(|head| head.base.is_none());
    let kept = |b: &Branch| {
        b.lookup().is_none() == b.sub_question().is_none()
            || (b.lookup().is_none() && stands_open(window, b))
    };
    head_is_firm && window.branches.iter().all(kept)
}

/// Every offer is one to build on a living branch.
pub(crate) fn offers_are_alive(window: &Window) -> bool {
    let alive = |parent| window.branch(parent).is_some();
    window.offers.iter().all(|offer| alive(offer.base.parent))
}

fn stands_open(window: &Window, branch: &Branch) -> bool {
    let open = |(_, granted): (&Branch, &Granted)| granted.is_open();
    window.ancestry(Some(branch)).any(open)
}

/// A law: its name, and whether it holds.
pub type Law = (&'static str, fn(&Window) -> bool);

/// Every law that can be seen in a state. SPEC-8 (the committed trajectory does not depend on k, on
/// the policy or on the interleaving) speaks of whole runs: see `tests/properties.rs`.
pub const LAWS: [Law; 13] = [
    ("SPEC-1: at most k branches are alive", |w| {
        fits(w.branches.len(), w.limits().width)
    }),
    ("SPEC-1: k = 1 never guesses", standard_never_guesses),
    ("SPEC-2: only the head is verified", only_head_is_verified),
    (
        "SPEC-3: launched at once, extended at once",
        nothing_waits_without_need,
    ),
    ("SPEC-3: what is unlikely waits", what_is_unlikely_waits),
    ("SPEC-3: rounds are settled", rounds_are_settled),
    ("SPEC-4: one tree", is_a_tree),
    (
        "SPEC-5: no guess after the observation",
        no_guess_after_observation,
    ),
    ("SPEC-6: the head is at work", head_is_at_work),
    ("SPEC-7: a committed answer leaves", head_holds_no_answer),
    ("SPEC-9: nothing survives the end", ends_with_nothing_alive),
    ("SPEC-10: look-ups are shared", lookups_are_shared),
    ("SPEC-11: what is open stays open", open_answers_stay_open),
];

/// The first law that does not hold.
pub fn broken(window: &Window) -> Option<&'static str> {
    LAWS.iter()
        .find(|(_, holds)| !holds(window))
        .map(|(name, _)| *name)
}

#[cfg(test)]
mod tests;
