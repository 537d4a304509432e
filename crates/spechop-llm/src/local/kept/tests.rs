//! What is kept, for whom, and for how long. Whether it may be reused is told in `slots`.

use llama_cpp_2::token::LlamaToken;
use spechop_ports::{BranchFate, Life};
use spechop_types::Tenant;

use super::super::slots::Cuts;
use super::*;

fn prompt(name: &str, ids: impl IntoIterator<Item = i32>, fixed: usize) -> Owned<PromptTokens> {
    let prompt = PromptTokens {
        tokens: ids.into_iter().map(LlamaToken::new).collect(),
        fixed,
        cuts: Cuts::At(vec![fixed]),
    };
    Owned::new(&Tenant::new(name).unwrap(), prompt)
}

fn keep(kept: &Kept<&'static str>, prompt: &Owned<PromptTokens>, name: &'static str) {
    let whole = prompt.item.whole_until(prompt.item.tokens.len());
    kept.keep(prompt, whole, name, &Stakes::default());
}

fn find(kept: &Kept<&'static str>, prompt: &Owned<PromptTokens>) -> Option<(&'static str, usize)> {
    let found = kept.find(prompt, 0, None)?;
    Some((*found.state, found.keep))
}

#[test]
fn the_longest_prefix_is_found_if_it_is_longer_than_what_is_there() {
    let kept = Kept::new(1000);
    keep(&kept, &prompt("a", 0..100, 0), "short");
    keep(&kept, &prompt("a", (0..100).chain(500..600), 0), "long");
    let wanted = prompt("a", 0..300, 0);
    assert_eq!(find(&kept, &wanted), Some(("long", 96)));
    assert!(kept.find(&wanted, 96, None).is_none());
    assert!(kept.find(&wanted, 95, None).is_some());
    assert_eq!(find(&kept, &prompt("a", 7..300, 0)), None);
}

#[test]
fn what_is_extended_leaves_and_what_is_covered_is_not_lacking() {
    let kept = Kept::new(1000);
    let [short, long] = [64, 150].map(|length| prompt("a", 0..length, 0));
    assert!(kept.lacks(&short, 64, &Stakes::default()));
    keep(&kept, &short, "short");
    assert!(
        !kept.lacks(&short, 64, &Stakes::default()) && kept.lacks(&long, 128, &Stakes::default())
    );
    keep(&kept, &long, "long");
    assert_eq!(kept.entries.lock().all.len(), 1);
    assert!(!kept.lacks(&short, 64, &Stakes::default()));
    assert_eq!(find(&kept, &prompt("a", 0..70, 0)), Some(("long", 64)));
    // Another's, or cut otherwise, it is no cover; nor if it shows less of itself to others.
    assert!(kept.lacks(&prompt("b", 0..64, 0), 64, &Stakes::default()));
    assert!(kept.lacks(&prompt("a", 0..64, 40), 40, &Stakes::default()));
    keep(&kept, &prompt("a", 0..200, 32), "fixed");
    assert_eq!(kept.entries.lock().all.len(), 1, "it shows more");
    keep(&kept, &prompt("a", 0..232, 0), "bare");
    assert_eq!(kept.entries.lock().all.len(), 2, "it shows less");
}

#[test]
fn of_another_tenant_the_fixed_part_is_found_and_no_more() {
    let kept = Kept::new(1000);
    keep(&kept, &prompt("a", 0..130, 64), "a");
    assert_eq!(find(&kept, &prompt("b", 0..130, 64)), Some(("a", 64)));
    assert_eq!(find(&kept, &prompt("a", 0..130, 64)), Some(("a", 128)));
    assert_eq!(find(&kept, &prompt("b", 0..130, 0)), None);
    keep(&kept, &prompt("a", 300..430, 0), "bare");
    assert_eq!(find(&kept, &prompt("b", 300..430, 0)), None);
}

#[test]
fn what_is_kept_is_bounded_and_the_longest_unused_leaves_first() {
    let kept = Kept::new(300);
    // The only copy of its instructions.
    keep(&kept, &prompt("a", (0..64).chain([900]), 64), "fixed");
    for (at, name) in ["first", "second", "third"].into_iter().enumerate() {
        let start = 1000 * (at as i32 + 1);
        let bare = prompt("a", start..start + 100, 0);
        keep(&kept, &bare, name);
        if at == 1 {
            assert!(find(&kept, &prompt("a", 1000..1100, 0)).is_some(), "used");
        }
        assert!(kept.entries.lock().size() <= 300);
    }
    let mut left: Vec<_> = kept
        .entries
        .lock()
        .all
        .iter()
        .map(|entry| *entry.state)
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["first", "fixed", "third"]);
    let large = prompt("a", 0..301, 0);
    assert!(!kept.lacks(&large, 288, &Stakes::default()));
    keep(&kept, &large, "large");
    assert_eq!(kept.entries.lock().all.len(), 3);
    let nothing = Kept::new(0);
    keep(&nothing, &prompt("a", 0..64, 0), "none");
    assert!(nothing.entries.lock().all.is_empty());
}

#[test]
fn what_is_reserved_leaves_last_until_it_is_used_or_its_question_is_over() {
    let asked = prompt("a", 0..96, 0);
    let is_there = |kept: &Kept<&'static str>| !kept.lacks(&asked, 96, &Stakes::default());
    let strangers = |kept: &Kept<&'static str>, numbers: std::ops::Range<i32>| {
        for number in numbers {
            let start = 1000 * number;
            keep(kept, &prompt("b", start..start + 96, 0), "stranger");
        }
    };
    // Room for three.
    let reserved = |life: &Life| {
        let kept = Kept::new(300);
        keep(&kept, &asked, "asked");
        // Of nothing, nothing is reserved, and of others neither.
        kept.reserve(&prompt("a", [], 0), &life.downgrade());
        kept.reserve(&prompt("b", 0..96, 0), &life.downgrade());
        assert!(kept.entries.lock().all[0].reserved_for.is_none());
        kept.reserve(&asked, &life.downgrade());
        strangers(&kept, 1..6);
        assert!(is_there(&kept) && kept.entries.lock().size() <= 300);
        kept
    };
    let life = Life::of(Arc::new(()));
    // Part of it is of use to others, too.
    let kept = reserved(&life);
    assert_eq!(find(&kept, &prompt("a", 0..70, 0)), Some(("asked", 64)));
    strangers(&kept, 6..10);
    assert!(is_there(&kept));
    assert_eq!(find(&kept, &prompt("a", 0..200, 0)), Some(("asked", 96)));
    strangers(&kept, 10..14);
    assert!(!is_there(&kept));

    let kept = reserved(&life);
    drop(life);
    strangers(&kept, 6..10);
    assert!(!is_there(&kept));
}

#[test]
fn what_a_rolled_back_branch_has_read_is_found_no_more() {
    let kept = Kept::new(1000);
    let [head, guessed, found, probe] = [(); 4].map(|()| BranchFate::default());
    let find = |prompt: &Owned<PromptTokens>, fate: &BranchFate| {
        let found = kept.find(prompt, 0, Some(fate))?;
        Some((*found.state, found.keep))
    };
    let of_head = Stakes::default().grown(0, Some(&head));
    let prompts = [prompt("a", 0..64, 0), prompt("a", 0..160, 0)];
    kept.keep(&prompts[0], 64, "head", &of_head);
    // What it extends leaves.
    kept.keep(
        &prompts[1],
        160,
        "guessed",
        &of_head.grown(64, Some(&guessed)),
    );
    let instructions = prompt("b", 2000..2064, 32);
    kept.keep(&instructions, 64, "fixed", &of_head);
    guessed.roll_back();
    let sibling = prompt("a", (0..64).chain(900..1000), 0);
    assert_eq!(find(&sibling, &found), Some(("guessed", 64)));
    assert!(!kept.lacks(&prompts[0], 64, &of_head) && kept.lacks(&prompts[1], 160, &of_head));
    // The sibling stands on what its head has read, whatever becomes of that.
    let (longer, other) = (prompt("a", 0..200, 0), prompt("a", 3000..3100, 0));
    head.roll_back();
    assert_eq!(find(&other, &probe), None);
    assert_eq!(kept.entries.lock().all.len(), 2);
    // Nothing is left of a question whose branches are all rolled back, but what serves all.
    found.roll_back();
    assert_eq!(find(&other, &probe), None);
    assert_eq!(find(&longer, &probe), None);
    assert_eq!(find(&instructions, &probe), Some(("fixed", 32)));
    assert_eq!(kept.entries.lock().all.len(), 1);
}

#[test]
fn what_others_have_found_or_read_themselves_stays() {
    let (short, long) = (prompt("a", 0..64, 0), prompt("a", 0..160, 0));
    for (used, expected) in [
        ("found", 64),
        ("read", 64),
        ("extended", 64),
        ("by nobody", 0),
    ] {
        let (kept, branch) = (Kept::new(1000), BranchFate::default());
        if used == "extended" {
            // Somebody of no branch had read the beginning.
            kept.keep(&short, 64, "short", &Stakes::default());
        }
        let of_branch = Stakes::default().grown(0, Some(&branch));
        kept.keep(&long, 160, "long", &of_branch);
        match used {
            "found" => assert!(kept.find(&prompt("a", 0..70, 0), 0, None).is_some()),
            "read" => assert!(!kept.lacks(&short, 64, &Stakes::default())),
            _ => {}
        }
        branch.roll_back();
        let other = prompt("a", 3000..3100, 0);
        assert!(kept.find(&other, 0, None).is_none());
        let left = kept
            .entries
            .lock()
            .all
            .first()
            .map_or(0, |entry| entry.held.item.tokens.len());
        assert_eq!(left, expected, "{used}");
    }
}
