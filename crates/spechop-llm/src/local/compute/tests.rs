//! What changes no bit: forks, cuts, company, other contexts, and, of a batch-invariant model, calls of any
//! width.

use super::super::slots::{Cuts, PromptTokens};
use super::super::{LocalModelOptions, load, tiny};
use super::*;

impl Compute<'_> {
    /// Processes what is missing of a prompt and then some tokens one by one; the bits of the
    /// logits after each.
    fn continued(&mut self, slot: usize, keep: usize, prompt: &PromptTokens) -> Vec<Vec<u32>> {
        let mut at = keep;
        let mut next = None;
        while at < prompt.tokens.len() {
            let end = prompt.chunk_end(at);
            let last = end == prompt.tokens.len();
            next = self
                .step(slot, at, &prompt.tokens[at..end], last, 0)
                .unwrap();
            at = end;
        }
        let mut all = vec![self.logits()];
        for at in at..at + 3 {
            let token = next.unwrap().token;
            next = self.step(slot, at, &[token], true, 0).unwrap();
            all.push(self.logits());
        }
        all
    }

    /// The bits of the latest ones.
    fn logits(&self) -> Vec<u32> {
        let row = self.batch.n_tokens() - 1;
        let logits = self.context.get_logits_ith(row);
        logits.iter().map(|logit| logit.to_bits()).collect()
    }
}

/// To the last bit, not only to the same text.
#[test]
fn a_fork_a_cut_and_company_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let plain = same_bits(&options);
    let adapted = same_bits(&LocalModelOptions {
        adapter: Some(tiny::adapter(folder.path())),
        ..options
    });
    assert!(adapted != plain, "the adapter changes nothing");
}

fn same_bits(options: &LocalModelOptions) -> Vec<Vec<u32>> {
    let (backend, model, adapter) = load(options).unwrap();
    let tokens = |count: i32, step: i32| (0..count).map(move |n| LlamaToken::new(100 + n * step));
    let prompt = |tokens: Vec<LlamaToken>| PromptTokens {
        tokens,
        fixed: 40,
        cuts: Cuts::At(vec![40]),
    };
    let first = prompt(tokens(150, 3).collect());
    // Shares 110 tokens with the first: chunks end at 32, 40, 72, 104.
    let second = prompt(tokens(110, 3).chain(tokens(27, 5)).collect());
    let other = prompt(tokens(400, 7).collect());
    assert!(
        other
            .tokens
            .iter()
            .all(|token| (token.0 as usize) < tiny::TOKENS)
    );
    let adapter = std::cell::RefCell::new(adapter);
    let open = || {
        let mut compute = Compute::new(backend, &model, 4, 512, 1).unwrap();
        if let Some(adapter) = &mut *adapter.borrow_mut() {
            compute.adapt(adapter).unwrap();
        }
        compute
    };
    let fresh = open().continued(0, 0, &second);

    let mut compute = open();
    compute.continued(0, 0, &first);
    compute.continued(1, 0, &other);
    let fork = Placement {
        slot: 2,
        from: 0,
        keep: 104,
    };
    compute.place(fork).unwrap();
    assert!(
        compute.continued(2, 104, &second) == fresh,
        "a fork, in company"
    );
    // Over what the other left behind.
    compute.place(Placement { slot: 1, ..fork }).unwrap();
    assert!(
        compute.continued(1, 104, &second) == fresh,
        "over another's remains"
    );
    compute.cut(0, 104).unwrap();
    assert!(compute.continued(0, 104, &second) == fresh, "a cut");
    compute.cut(0, 0).unwrap();
    assert!(
        compute.continued(0, 0, &second) == fresh,
        "from the start again"
    );
    // While another generates in between.
    compute.cut(3, 0).unwrap();
    let mut at = 0;
    while at < 72 {
        let end = second.chunk_end(at);
        compute
            .step(3, at, &second.tokens[at..end], false, 0)
            .unwrap();
        compute.cut(1, 0).unwrap();
        compute.continued(1, 0, &first);
        at = end;
    }
    assert!(compute.continued(3, 72, &second) == fresh, "interrupted");
    // In another context, over what is there, which is in use.
    let mut elsewhere = open();
    elsewhere.continued(0, 0, &other);
    elsewhere.continued(2, 0, &first);
    compute.cut(0, 0).unwrap();
    compute.continued(0, 0, &first);
    let state = compute.save(0).unwrap();
    for slot in [1, 0, 0] {
        elsewhere.restore(slot, &state, 104).unwrap();
        assert!(
            elsewhere.continued(slot, 104, &second) == fresh,
            "in another context"
        );
    }
    // And in mid-sentence.
    compute.cut(0, 0).unwrap();
    let at = second.tokens.len() + compute.continued(0, 0, &second).len() - 1;
    let state = compute.save(0).unwrap();
    let next = LlamaToken::new(7);
    compute.step(0, at, &[next], true, 0).unwrap();
    elsewhere.restore(3, &state, at).unwrap();
    elsewhere.step(3, at, &[next], true, 0).unwrap();
    assert!(
        elsewhere.logits() == compute.logits(),
        "handed over in mid-sentence"
    );
    // Written token by token, and then part of a prompt that says so.
    let mut longer = PromptTokens {
        cuts: Cuts::At(vec![40, second.tokens.len()]),
        ..second
    };
    let written = [7, 11, 13].map(LlamaToken::new);
    compute.cut(0, 0).unwrap();
    compute.continued(0, 0, &longer);
    compute.cut(0, longer.tokens.len()).unwrap();
    for (at, token) in (longer.tokens.len()..).zip(written) {
        compute.step(0, at, &[token], true, 0).unwrap();
    }
    longer.wrote(&written);
    let kept = longer.tokens.len();
    longer.tokens.extend(tokens(25, 5));
    assert!(
        compute.continued(0, kept, &longer) == open().continued(0, 0, &longer),
        "behind what it has written"
    );
    fresh
}

/// Whatever is reused, and wherever it ends, the rest says the same to the last bit.
#[test]
fn of_a_batch_invariant_model_every_token_may_be_reused() {
    let folder = tempfile::tempdir().unwrap();
    let plain = LocalModelOptions::new(tiny::model(folder.path()));
    let adapted = LocalModelOptions {
        adapter: Some(tiny::adapter(folder.path())),
        ..plain.clone()
    };
    for options in [plain, adapted] {
        let (backend, model, mut adapter) = load(&options).unwrap();
        let mut compute = Compute::new(backend, &model, 2, 512, 1).unwrap();
        if let Some(adapter) = &mut adapter {
            compute.adapt(adapter).unwrap();
        }
        assert!(compute.is_batch_invariant(&model).unwrap());
        let prompt = PromptTokens {
            tokens: (0..150).map(|n| LlamaToken::new(100 + n * 3)).collect(),
            fixed: 0,
            cuts: Cuts::Anywhere,
        };
        let fresh = compute.continued(0, 0, &prompt);
        for keep in [1, 31, 33, 76, 149] {
            compute.cut(0, keep).unwrap();
            assert!(
                compute.continued(0, keep, &prompt) == fresh,
                "behind {keep} tokens"
            );
        }
    }
}

/// What is said behind a prompt, of which `keep` tokens are in the slot; whether it is alone may change at each step.
/// And how often it went to more threads.
fn said(
    contexts: &mut Contexts<'_>,
    (slot, keep): (usize, usize),
    prompt: &PromptTokens,
    is_alone: impl Fn(usize) -> bool,
) -> (Vec<(i32, u32)>, usize) {
    const WRITTEN: usize = 6;
    let (mut at, mut said, mut widened) = (keep, Vec::new(), 0);
    let mut next = None;
    for step in 0.. {
        if said.len() == WRITTEN {
            break;
        }
        widened += usize::from(contexts.widen(slot, at, is_alone(step)) == Moved::Widened);
        let (tokens, wanted) = match next {
            Some(token) => (vec![token], true),
            None => {
                let end = prompt.chunk_end(at);
                (prompt.tokens[at..end].to_vec(), end == prompt.tokens.len())
            }
        };
        let (compute, own) = contexts.of(slot);
        let likeliest = compute.step(own, at, &tokens, wanted, 0).unwrap();
        at += tokens.len();
        if let Some(likeliest) = likeliest {
            said.push((likeliest.token.0, likeliest.lead.to_bits()));
            next = Some(likeliest.token);
        }
    }
    (said, widened)
}

/// Threads compute rows of their own: however many there are, and whenever their number changes, the bits are the
/// same, and so is what a slot holds.
#[test]
fn more_threads_for_a_text_that_is_alone_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let (backend, model, _) = load(&options).unwrap();
    let open = |slots, threads| Compute::new(backend, &model, slots, 512, threads).unwrap();
    let prompt = PromptTokens {
        tokens: (0..150).map(|n| LlamaToken::new(100 + n * 3)).collect(),
        fixed: 0,
        cuts: Cuts::At(Vec::new()),
    };
    let whole = prompt.tokens.len();
    let mut narrow = Contexts::new(open(3, 1), None);
    let (expected, widened) = said(&mut narrow, (0, 0), &prompt, |_| true);
    assert_eq!((narrow.can_widen(), widened), (false, 0));
    for (name, is_alone, times) in [
        ("never", (|_| false) as fn(usize) -> bool, 0),
        ("always", |_| true, 1),
        ("by turns", |step| step % 2 == 0, 5),
        ("at last", |step| step > 6, 1),
    ] {
        let mut contexts = Contexts::new(open(3, 1), Some(open(3, 2)));
        assert!(contexts.try_alike(&model) && contexts.can_widen());
        let (fresh, widened) = said(&mut contexts, (0, 0), &prompt, is_alone);
        assert_eq!((fresh, widened), (expected.clone(), times), "{name}");
        // A fork of it, while it stands still, and then it goes on itself: where it was, or elsewhere.
        let fork = Placement {
            slot: 1,
            from: 0,
            keep: 128,
        };
        contexts.place(fork).unwrap();
        let (forked, _) = said(&mut contexts, (1, 128), &prompt, is_alone);
        assert_eq!(forked, expected, "{name}: a fork");
        contexts.place(Placement { slot: 0, ..fork }).unwrap();
        let (again, _) = said(&mut contexts, (0, 128), &prompt, is_alone);
        assert_eq!(again, expected, "{name}: in place");
        // A copy goes on in a slot that is in use.
        contexts.cut(0, whole).unwrap();
        let state = contexts.save(0).unwrap();
        contexts.restore(1, &state, 128).unwrap();
        let (copied, _) = said(&mut contexts, (1, 128), &prompt, is_alone);
        assert_eq!(copied, expected, "{name}: a copy");
        // Emptied where it is, and moved with nothing in it.
        contexts.cut(1, 0).unwrap();
        contexts.widen(1, 0, false);
        let (emptied, _) = said(&mut contexts, (1, 0), &prompt, is_alone);
        assert_eq!(emptied, expected, "{name}: emptied");
        // After a failure nothing is trusted, and all works.
        contexts.leave_wide();
        contexts
            .place(Placement {
                slot: 1,
                from: 1,
                keep: 0,
            })
            .unwrap();
        let (anew, _) = said(&mut contexts, (1, 0), &prompt, is_alone);
        assert_eq!(anew, expected, "{name}: anew");
    }
}

#[test]
fn what_has_no_room_to_be_tried_is_not_called_batch_invariant() {
    let folder = tempfile::tempdir().unwrap();
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let (backend, model, _) = load(&options).unwrap();
    let mut compute = Compute::new(backend, &model, 1, 35, 1).unwrap();
    assert!(!compute.is_batch_invariant(&model).unwrap());
}

#[test]
fn a_damaged_weight_writes_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let options = LocalModelOptions::new(tiny::damaged(folder.path()));
    let (backend, model, _) = load(&options).unwrap();
    let mut compute = Compute::new(backend, &model, 1, 64, 1).unwrap();
    let token = [LlamaToken::new(100)];
    for sample in [0, 1] {
        compute.cut(0, 0).unwrap();
        let said = compute.step(0, 0, &token, true, sample);
        assert!(matches!(said, Err(ComputeError::NoNumbers)), "{said:?}");
    }
    compute.cut(0, 0).unwrap();
    let judged = compute.judge(0, 0, &token, 0..1);
    assert!(matches!(judged, Err(ComputeError::NoNumbers)), "{judged:?}");
}

#[test]
fn the_lead_is_over_the_second_best() {
    for (logits, id, lead) in [
        (vec![1.0, 3.0, 2.5], 1, 0.5),
        (vec![3.0, 1.0, 3.0], 0, 0.0),
        (vec![1.0, 2.0, 4.0], 2, 2.0),
    ] {
        let token = LlamaToken::new(id);
        assert_eq!(likeliest(&logits), Likeliest { token, lead });
    }
    assert!(likeliest(&[f32::NAN; 2]).lead.is_nan(), "nothing leads");
    let chance = |lead| {
        let token = LlamaToken::new(0);
        Likeliest { token, lead }.ln_chance().exp()
    };
    assert!((chance(0.0) - 0.5).abs() < 1e-9);
    assert!((chance(2.0) - 0.880_797).abs() < 1e-6);
    assert!(chance(1e9) <= 1.0);
}

#[test]
fn the_lowest_of_the_likeliest_wins() {
    for (logits, id) in [
        (vec![1.0, 3.0, 2.0, 3.0], 1),
        (vec![f32::NAN, -1.0, -1.0], 1),
        (vec![f32::NEG_INFINITY; 3], 0),
    ] {
        assert_eq!(likeliest(&logits).token, LlamaToken::new(id));
    }
}

#[test]
fn tokens_are_drawn_by_their_chances() {
    // At this temperature three to one, but for one that is out of reach.
    let logits = [0.0, 3.0_f32.ln() * TEMPERATURE as f32, -20.0];
    let mut counts = [0_usize; 3];
    for position in 0..4_000 {
        let token = drawn(&logits, 1, position).token;
        assert_eq!(drawn(&logits, 1, position).token, token);
        counts[usize::try_from(token.0).unwrap()] += 1;
    }
    assert!((2_850..3_150).contains(&counts[1]), "{counts:?}");
    assert_eq!((counts[0] + counts[1], counts[2]), (4_000, 0));
    let differ = (0..1_000).filter(|at| drawn(&logits, 1, *at) != drawn(&logits, 2, *at));
    assert!((300..450).contains(&differ.count()));
    // What is not likeliest is behind by as much.
    let behind = drawn(
        &logits,
        1,
        (0..)
            .find(|at| drawn(&logits, 1, *at).token.0 == 0)
            .unwrap(),
    );
    assert!((behind.lead + logits[1]).abs() < 1e-6);
    for odd in [vec![f32::NAN; 3], vec![f32::NEG_INFINITY; 3]] {
        assert_eq!(drawn(&odd, 1, 7).token, LlamaToken::new(0));
    }
}
