//! What a panic costs: the generations that had begun, and no other.

use super::super::{LocalModelOptions, load, tiny};
use super::*;

#[test]
fn turns_go_on_behind_a_panic_until_the_last() {
    // Turns yet to make, and what has happened.
    let mut state = (vec!["last", "fine", "panic", "panic", "fine"], Vec::new());
    let turn = |(left, seen): &mut (Vec<&str>, Vec<String>)| {
        let turn = left.pop().expect("no turn behind the last");
        assert!(turn != "panic", "it panics");
        seen.push(turn.to_owned());
        turn != "last"
    };
    keep_on(&mut state, turn, |state, said| {
        state.1.push(said.to_owned());
    });
    let expected = ["fine", "it panics", "it panics", "fine", "last"];
    assert_eq!(state.1, expected);
}

type Answer = oneshot::Receiver<Result<Generated, PortError>>;

/// A job whose prompt is so many tokens of a model that has no words for them.
fn waiting(tokens: i32) -> (Waiting, Answer) {
    let (reply, answer) = oneshot::channel();
    let call = Call::authoritative();
    let generation = Generation {
        prompt: Prompt::Text("".into()),
        tokens_max: 8,
        stop: &[],
    };
    let prompt = PromptTokens {
        tokens: (100..100 + tokens).map(LlamaToken::new).collect(),
        fixed: 0,
        cuts: Vec::new(),
    };
    let waiting = Waiting {
        prompt: Owned::new(call.tenant(), prompt),
        metered: Metered::new(&call),
        job: Job {
            call,
            generation,
            reply,
        },
        arrival: 0,
    };
    (waiting, answer)
}

#[test]
fn those_that_had_begun_are_told_and_the_next_begins_afresh() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let (backend, model, _) = load(&options).expect("a model");
    let slots = 3;
    let compute = Compute::new(backend, &model, slots, 256, 1).expect("a context");
    let mut engine = Engine::new(Parts {
        name: "tiny".into(),
        model: &model,
        compute,
        template: ChatTemplate::of(&model).expect("a template"),
        context_tokens: 256,
        sequences: 2,
        slots: slots as usize,
        waiting_max: 4,
        counters: Arc::default(),
    });
    // A chunk of its prompt, so that there is something in the cache.
    let move_on = |engine: &mut Engine<'_>| {
        engine.start_best();
        engine.step_best();
        let running = engine.running.first().expect("it has begun");
        running.at
    };
    let (first, mut first_answer) = waiting(200);
    engine.waiting.push(first);
    let at = move_on(&mut engine);
    let (second, mut second_answer) = waiting(200);
    engine.waiting.push(second);

    engine.start_over("it panics");
    let told = first_answer.try_recv().expect("told").expect_err("failed");
    let why = std::error::Error::source(&told).map(ToString::to_string);
    assert_eq!(why.expect("a reason"), "a generation panicked: it panics");
    assert!(second_answer.try_recv().is_err(), "it waits");
    // As far as the first came, and nothing was taken from the cache.
    assert_eq!(move_on(&mut engine), at);
    let reused = &engine.parts.counters.reused_tokens;
    assert_eq!(reused.load(Relaxed), 0);
    assert!(second_answer.try_recv().is_err(), "it moves");
}
