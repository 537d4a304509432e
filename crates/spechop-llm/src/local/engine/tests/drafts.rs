//! Whatever is drafted, the text is what it would have been, and so is how sure the model was of it.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use crate::local::ahead::{Ahead, Drafted};

/// A draft: how much of what will be written it begins with, what follows, and how likely it is said to be.
type Guess = (usize, Vec<i32>, Option<f64>);

/// Lets the model write behind a prompt that is longer than a chunk. The text, and its tokens but the last.
fn write(
    engine: &mut Engine<'_>,
    prompt: &[LlamaToken],
    tokens_max: u32,
    drafts: Vec<Drafted>,
) -> (Generated, Vec<LlamaToken>) {
    let (mut waiting, mut answer) = waiting(0);
    waiting.prompt.item.tokens = prompt.to_vec();
    waiting.prompt.item.cuts = Cuts::Anywhere;
    waiting.job.generation.tokens_max = tokens_max;
    // As if nothing had been read, and nobody knew whether drafts pay.
    engine.slots = Slots::new(engine.parts.slots);
    engine.pays = Pays::default();
    engine.parts.queue.put_back(waiting);
    assert!(engine.turn());
    // As tokens: this vocabulary sets a blank before every text.
    engine.running[0].progress.ahead = Ahead::new(drafts);
    let mut written = Vec::new();
    loop {
        assert!(engine.turn());
        if let Ok(answer) = answer.try_recv() {
            return (answer.expect("a text"), written);
        }
        let progress = &engine.running[0].progress;
        written.clone_from(progress.written.as_ref().expect("it may be kept"));
    }
}

#[test]
fn no_draft_changes_a_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let (_, model, _) = load(&options).expect("a model");
    let open = |drafts| {
        let mut engine = engines(&model, 1, 1).remove(0);
        let tried = engine.parts.compute.own().is_batch_invariant(&model);
        assert!(tried.expect("logits"), "it is so of this model");
        engine.parts.is_batch_invariant = true;
        engine.parts.drafts = drafts;
        RefCell::new(engine)
    };
    let (plain, drafting) = (open(false), open(true));
    // What comes without drafts and with them.
    let both = |prompt: &[LlamaToken], tokens_max: u32, guesses: &[Guess]| {
        let (expected, written) = write(&mut plain.borrow_mut(), prompt, tokens_max, Vec::new());
        let drafted = guesses.iter().map(|(right, others, chance)| {
            let right = written.iter().take(*right).copied();
            let others = others.iter().map(|id| LlamaToken::new(*id));
            Drafted {
                tokens: right.chain(others).collect(),
                chance: chance.map(Chance::of),
            }
        });
        let drafted = drafted.collect();
        let (said, _) = write(&mut drafting.borrow_mut(), prompt, tokens_max, drafted);
        (expected, said)
    };

    // A right one is read with the end of the prompt.
    let prompt: Vec<_> = (0..40).map(|n| LlamaToken::new(100 + 7 * n)).collect();
    let (expected, said) = both(&prompt, 24, &[(24, Vec::new(), Some(0.9))]);
    assert_eq!(said, expected);
    let held = drafting.borrow().parts.counters.held_tokens.load(Relaxed);
    assert!(held > 0);

    // A few tokens come again and again, so that they are also looked for in the prompt.
    let id = prop_oneof![3..3000_i32, 100..104_i32];
    let ids = prop::collection::vec(id, 33..90);
    let others = prop::collection::vec(3..3000_i32, 0..6);
    let guess = (0..32_usize, others, prop::option::of(0.0..=1.0_f64));
    let guesses = prop::collection::vec(guess, 0..4);
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let ran =
        TestRunner::new(config).run(&(ids, 1..32_u32, guesses), |(ids, tokens_max, guesses)| {
            let prompt: Vec<_> = ids.into_iter().map(LlamaToken::new).collect();
            let (expected, said) = both(&prompt, tokens_max, &guesses);
            prop_assert_eq!(said, expected);
            Ok(())
        });
    ran.expect("the same text");
}
