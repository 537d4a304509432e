//! What is reused, and of whom.

use std::sync::Arc;

use super::*;
use proptest::prelude::*;
use spechop_ports::Life;
use spechop_types::Tenant;

/// A prompt of the default tenant.
fn own(item: &PromptTokens) -> Owned<PromptTokens> {
    Owned::new(&Tenant::default(), item.clone())
}

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

fn prompt(ids: impl IntoIterator<Item = i32>, fixed: usize) -> PromptTokens {
    PromptTokens {
        tokens: ids.into_iter().map(LlamaToken::new).collect(),
        fixed,
        cuts: Cuts::At(vec![fixed]),
    }
}

fn run(slots: &mut Slots, prompt: &PromptTokens) -> Placement {
    run_of(&Tenant::default(), slots, prompt)
}

fn run_of(tenant: &Tenant, slots: &mut Slots, prompt: &PromptTokens) -> Placement {
    run_for(&Owned::new(tenant, prompt.clone()), slots, None)
}

fn run_for(owned: &Owned<PromptTokens>, slots: &mut Slots, fate: Option<&BranchFate>) -> Placement {
    let prompt = &owned.item;
    let placement = slots.take(owned, fate).expect("an idle slot");
    let mut at = placement.keep;
    while at < prompt.tokens.len() {
        at = prompt.chunk_end(at);
        slots.processed(placement.slot, prompt, at);
    }
    placement
}

#[test]
fn a_fixed_part_outlives_a_flood_of_others() {
    let mut slots = Slots::new(3);
    let planner = prompt((0..50).chain([900]), 50);
    let placed = run(&mut slots, &planner);
    slots.release(placed.slot);
    for n in 0..9 {
        let reader = prompt((100..140).chain([1000 + n]), 40);
        let placed = run(&mut slots, &reader);
        assert_eq!(placed.keep, if n == 0 { 0 } else { 40 });
        slots.release(placed.slot);
    }
    assert_eq!(run(&mut slots, &prompt((0..50).chain([901]), 50)).keep, 50);
}

/// A prompt that begins like no other one of these.
fn stranger(number: i32) -> PromptTokens {
    prompt(1000 * number..1000 * number + 40, 0)
}

/// Runs such a prompt to its end. The slot that it took.
fn pass(slots: &mut Slots, prompt: &PromptTokens) -> usize {
    let placed = run(slots, prompt);
    slots.release(placed.slot);
    placed.slot
}

/// A prompt with which nothing is shared spares no slot.
#[test]
fn the_longest_unused_leaves_first() {
    let mut slots = Slots::new(2);
    for number in 1..5 {
        pass(&mut slots, &stranger(number));
    }
    let found = [2, 3, 4].map(|number| {
        let longer = own(&prompt(1000 * number..1000 * number + 100, 0));
        let keeps = slots.slots.iter().map(|slot| reusable(&slot.held, &longer));
        keeps.max()
    });
    assert_eq!(found, [Some(0), Some(32), Some(32)]);
}

#[test]
fn what_is_reserved_leaves_last_until_it_is_used() {
    let life = Life::of(Arc::new(()));
    let mut slots = Slots::new(2);
    let asked = pass(&mut slots, &prompt(0..64, 0));
    slots.reserve(asked, life.downgrade());
    for number in 1..6 {
        assert_ne!(pass(&mut slots, &stranger(number)), asked);
    }
    let longer = run(&mut slots, &prompt(0..100, 0));
    assert_eq!((longer.slot, longer.keep), (asked, 64));
    slots.release(longer.slot);
    let taken = [6, 7].map(|number| pass(&mut slots, &stranger(number)));
    assert!(taken.contains(&asked), "{taken:?}");
    // The only copy of instructions is of use to all.
    let mut slots = Slots::new(3);
    pass(&mut slots, &prompt(0..64, 64));
    let asked = pass(&mut slots, &prompt(100..164, 0));
    slots.reserve(asked, life.downgrade());
    run(&mut slots, &stranger(1));
    assert_eq!(pass(&mut slots, &stranger(2)), asked);
}

#[test]
fn nothing_is_reserved_for_a_question_that_is_over() {
    let life = Life::of(Arc::new(()));
    let mut slots = Slots::new(2);
    let asked = pass(&mut slots, &prompt(0..64, 0));
    slots.reserve(asked, life.downgrade());
    drop(life);
    let taken = [1, 2].map(|number| pass(&mut slots, &stranger(number)));
    assert!(taken.contains(&asked), "{taken:?}");
}

#[test]
fn a_reserved_slot_is_taken_if_there_is_no_other() {
    let life = Life::of(Arc::new(()));
    let mut slots = Slots::new(2);
    let reserved = [1, 2].map(|number| {
        let slot = pass(&mut slots, &stranger(number));
        slots.reserve(slot, life.downgrade());
        slot
    });
    // Of several, the longest unused. Then the other one, while that one runs.
    for slot in reserved {
        assert_eq!(run(&mut slots, &stranger(10 + slot as i32)).slot, slot);
    }
    assert_eq!(
        slots.take(&own(&stranger(3)), None),
        None,
        "all are running"
    );
}

/// The sibling that stands on the answer that was found goes on in the same slot: what all its line has read is
/// there, and nothing of the guess.
#[test]
fn what_a_rolled_back_branch_has_read_is_dropped() {
    let of_head = own(&prompt(0..64, 0));
    let of_guessed = own(&prompt((0..96).chain(500..564), 0));
    // The first words of the answer are those of the guess.
    let of_found = own(&prompt((0..96).chain(700..732), 0));
    for (is_rolled_back, slot, held) in [(false, 1, 160), (true, 0, 128)] {
        let [head, guessed, found] = [(); 3].map(|()| BranchFate::default());
        let mut slots = Slots::new(3);
        for (prompt, fate) in [(&of_head, &head), (&of_guessed, &guessed)] {
            let placed = run_for(prompt, &mut slots, Some(fate));
            assert_eq!(placed.slot, 0, "it goes on in place");
            slots.release(0);
        }
        if is_rolled_back {
            guessed.roll_back();
        }
        let placed = run_for(&of_found, &mut slots, Some(&found));
        assert_eq!((placed.slot, placed.from, placed.keep), (slot, 0, 96));
        assert_eq!(slots.held(0).item.tokens.len(), held);
    }
}

#[test]
fn nothing_is_dropped_of_what_runs_or_what_others_need() {
    let [branch, used] = [(); 2].map(|()| BranchFate::default());
    let mut slots = Slots::new(4);
    // Whole chunks end at 40, 72 and 104.
    let of_branch = own(&prompt(0..104, 40));
    let placed = run_for(&of_branch, &mut slots, Some(&branch));
    let held = |slots: &Slots, slot: usize| slots.held(slot).item.tokens.len();
    branch.roll_back();
    pass(&mut slots, &stranger(1));
    assert_eq!(held(&slots, placed.slot), 104, "it runs");
    slots.release(placed.slot);
    pass(&mut slots, &stranger(2));
    assert_eq!(held(&slots, placed.slot), 40, "its instructions serve all");
    // Somebody of no branch goes on behind what a branch has read.
    let shared = run_for(&own(&prompt(5000..5064, 0)), &mut slots, Some(&used)).slot;
    slots.release(shared);
    assert_eq!(pass(&mut slots, &prompt(5000..5096, 0)), shared);
    used.roll_back();
    pass(&mut slots, &stranger(3));
    assert_eq!(held(&slots, shared), 96);
}

#[test]
fn an_extension_continues_in_place_and_a_fork_copies() {
    let mut slots = Slots::new(2);
    let first = run(&mut slots, &prompt(0..100, 10));
    slots.release(first.slot);
    // Whole chunks end at 10, 42, 74.
    let longer = run(&mut slots, &prompt(0..130, 10));
    assert_eq!(
        longer,
        Placement {
            slot: first.slot,
            from: first.slot,
            keep: 74
        }
    );
    let beside = run(&mut slots, &prompt(0..130, 10));
    assert_eq!((beside.from, beside.keep), (longer.slot, 106));
    assert_ne!(beside.slot, longer.slot);
    assert_eq!(
        slots.take(&own(&prompt(0..130, 10)), None),
        None,
        "all are running"
    );
}

#[test]
fn a_text_that_grows_by_lines_is_reused_to_its_last_line() {
    let lines = |count: usize| PromptTokens {
        cuts: Cuts::At((1..=count).map(|line| 20 * line).collect()),
        ..prompt(0..20 * count as i32, 0)
    };
    let mut slots = Slots::new(2);
    for count in 1..6 {
        let placed = run(&mut slots, &lines(count));
        assert_eq!(placed.keep, 20 * (count - 1));
        assert_eq!(placed.from, placed.slot, "in place");
        slots.release(placed.slot);
    }
    // Of itself, all but the last chunk: the next token is predicted from that.
    assert_eq!(run(&mut slots, &lines(5)).keep, 80);
}

/// A text of ten tokens, and then lines: six tokens that the model has written, and five of what was found.
fn asked(lines: i32) -> PromptTokens {
    let mut cuts = vec![10];
    for line in 0..lines as usize {
        let from = 10 + 11 * line;
        cuts.extend(from + 1..=from + 6);
        cuts.push(from + 11);
    }
    PromptTokens {
        cuts: Cuts::At(cuts),
        ..prompt(0..10 + 11 * lines, 0)
    }
}

#[test]
fn what_was_written_is_not_read_again() {
    let mut slots = Slots::new(2);
    let first = run(&mut slots, &asked(0));
    // It writes a seventh token, which ends its line and has not been read.
    let written: Vec<_> = (10..16).map(LlamaToken::new).collect();
    slots.wrote(first.slot, &asked(0), &written);
    assert_eq!(slots.release(first.slot), 16);
    let second = run(&mut slots, &asked(1));
    assert_eq!((second.from, second.keep), (first.slot, 16));
    // As it would be read by whoever has not written it.
    let mut fresh = Slots::new(1);
    let placed = run(&mut fresh, &asked(1));
    let held = |slots: &Slots, slot: usize| {
        let held = &slots.slots[slot].held.item;
        let end = held.tokens.len();
        (held.tokens.clone(), held.cuts.clone(), end)
    };
    assert_eq!(held(&slots, second.slot), held(&fresh, placed.slot));
    // Behind half of a chunk nothing can be kept.
    let ragged = PromptTokens {
        cuts: Cuts::default(),
        ..prompt(0..10, 0)
    };
    let mut slots = Slots::new(1);
    let placed = run(&mut slots, &ragged);
    slots.wrote(placed.slot, &ragged, &written);
    assert_eq!(slots.release(placed.slot), 0);
}

/// Of a model for which it does not matter where a prompt is cut, everything that is the same is reused.
#[test]
fn what_may_be_cut_anywhere_is_reused_to_the_last_token() {
    let anywhere = |ids: std::ops::Range<i32>| PromptTokens {
        cuts: Cuts::Anywhere,
        ..prompt(ids, 10)
    };
    let mut slots = Slots::new(2);
    let first = run(&mut slots, &anywhere(0..77));
    let written: Vec<_> = (77..90).map(LlamaToken::new).collect();
    slots.wrote(first.slot, &anywhere(0..77), &written);
    assert_eq!(slots.release(first.slot), 90);
    let longer = run(&mut slots, &anywhere(0..103));
    assert_eq!((longer.from, longer.keep), (first.slot, 90));
    assert_eq!(slots.release(longer.slot), 103);
    // The next token is predicted from the last one.
    assert_eq!(run(&mut slots, &anywhere(0..50)).keep, 49);
    let stranger = tenant("b");
    assert_eq!(run_of(&stranger, &mut slots, &anywhere(0..50)).keep, 10);
}

#[test]
fn of_another_tenant_the_fixed_part_is_reused_and_no_more() {
    let [a, b] = ["a", "b"].map(tenant);
    let mut slots = Slots::new(3);
    let asked = prompt(0..130, 64);
    // What some have asked is fixed for others: that makes it no more known.
    let longer = prompt(0..130, 96);
    for (tenant, prompt, keep) in [
        (&a, &asked, 0),
        (&b, &asked, 64),
        (&tenant("c"), &longer, 64),
        (&a, &asked, 128),
        (&tenant("d"), &longer, 96),
        (&tenant("e"), &prompt(0..130, 0), 0),
    ] {
        let placed = run_of(tenant, &mut slots, prompt);
        assert_eq!(placed.keep, keep, "{tenant}");
        slots.release(placed.slot);
    }
}

proptest! {
    /// What is reused was processed in the very chunks that a fresh run would cut. And it is the
    /// tenant's own, or was fixed for whoever left it.
    #[test]
    fn reuse_never_moves_a_chunk_nor_tells_of_another_tenant(
        runs in prop::collection::vec(
            (
                prop::collection::vec(0..2i32, 1..4),
                prop::collection::btree_set(0..140usize, 0..4),
                1..140usize,
                prop::sample::select(vec!["a", "b"]),
            ),
            1..24,
        )
    ) {
        let mut slots = Slots::new(3);
        let mut chunks: Vec<Vec<(usize, usize)>> = vec![Vec::new(); 3];
        // Whose each token of a slot is; nobody's if it is fixed.
        let mut owners: Vec<Vec<Option<Tenant>>> = vec![Vec::new(); 3];
        for (seed, cuts, len, name) in runs {
            let tenant = tenant(name);
            // Long equal stretches, so that prefixes are shared often.
            let ids = (0..len).map(|at| seed[(at / 64).min(seed.len() - 1)]);
            let fixed = cuts.first().map_or(0, |cut| *cut.min(&len));
            let cuts = cuts.into_iter().filter(|cut| *cut <= len).collect();
            let prompt = PromptTokens { cuts: Cuts::At(cuts), ..prompt(ids, fixed) };
            let owned = Owned::new(&tenant, prompt.clone());
            let Placement { slot, from, keep } = slots.take(&owned, None).unwrap();
            prop_assert!(keep < prompt.tokens.len());
            let mut by = owners[from].clone();
            by.truncate(keep);
            prop_assert_eq!(by.len(), keep);
            prop_assert!(by.iter().flatten().all(|owner| *owner == tenant));
            by.resize(len, Some(tenant));
            by[..fixed].fill(None);
            let mut cut: Vec<_> = chunks[from].clone();
            cut.retain(|(_, end)| *end <= keep);
            let mut fresh = Vec::new();
            let mut at = 0;
            while at < prompt.tokens.len() {
                let end = prompt.chunk_end(at);
                prop_assert!(end > at && end - at <= CHUNK_TOKENS);
                fresh.push((at, end));
                if at >= keep {
                    cut.push((at, end));
                    slots.processed(slot, &prompt, end);
                }
                at = end;
            }
            prop_assert_eq!(&cut, &fresh);
            let kept = slots.release(slot);
            cut.retain(|(_, end)| *end <= kept);
            chunks[slot] = cut;
            by.truncate(kept);
            owners[slot] = by;
        }
    }
}
