//! What a panic costs: the generations that had begun, and no other. And what several workers do with
//! the same jobs, turn by turn.

mod drafts;

use std::path::Path;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use spechop_ports::{Call, Lane};
use spechop_types::{Chance, Owned};
use tokio::sync::oneshot;

use super::super::compute::Compute;
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
    waiting_as(Call::authoritative(), tokens, 0)
}

fn waiting_as(call: Call, tokens: i32, arrival: u64) -> (Waiting, Answer) {
    let (reply, answer) = oneshot::channel();
    let generation = Generation {
        prompt: Prompt::Text("".into()),
        tokens_max: 8,
        stop: &[],
        drafts: Vec::new(),
        sample: 0,
    };
    let prompt = PromptTokens {
        tokens: (100..100 + tokens).map(LlamaToken::new).collect(),
        fixed: 0,
        cuts: Cuts::default(),
    };
    let waiting = Waiting {
        prompt: Owned::new(call.tenant(), prompt),
        metered: Metered::new(&call),
        job: Job {
            call,
            generation,
            reply,
        },
        arrival,
        begun: None,
    };
    (waiting, answer)
}

const SLOTS: u32 = 3;

/// As many workers as the queue is for, on no threads yet.
fn engines<'model>(
    model: &'model LlamaModel,
    count: usize,
    sequences: usize,
) -> Vec<Engine<'model>> {
    let backend = super::super::BACKEND.as_ref().expect("llama.cpp");
    let counters: Arc<Counters> = Arc::default();
    let queue = Arc::new(Queue::new(count, 8, 8, Arc::clone(&counters)));
    let template = Arc::new(ChatTemplate::of(model, Path::new("tiny")).expect("a template"));
    let kept = Arc::new(Kept::new(if count > 1 { 1024 } else { 0 }));
    let engine = |worker| {
        let own = Compute::new(backend, model, SLOTS, 256, 1).expect("a context");
        Engine::new(Parts {
            name: "tiny".into(),
            worker,
            model,
            compute: Contexts::new(own, None),
            template: Arc::clone(&template),
            context_tokens: 256,
            sequences,
            slots: SLOTS as usize,
            moves_kv: true,
            drafts: true,
            is_batch_invariant: false,
            queue: Arc::clone(&queue),
            kept: Arc::clone(&kept),
            tools: None,
            counters: Arc::clone(&counters),
            warnings: Arc::default(),
        })
    };
    (0..count).map(engine).collect()
}

#[test]
fn those_that_had_begun_are_told_and_the_next_begins_afresh() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let (_, model, _) = load(&options).expect("a model");
    let mut engine = engines(&model, 1, 2).remove(0);
    // A chunk of its prompt, so that there is something in the cache.
    let move_on = |engine: &mut Engine<'_>| {
        assert!(engine.turn());
        let running = engine.running.first().expect("it has begun");
        running.progress.at
    };
    let (first, mut first_answer) = waiting(200);
    engine.parts.queue.put_back(first);
    let at = move_on(&mut engine);
    let (second, mut second_answer) = waiting(200);
    engine.parts.queue.put_back(second);

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

/// The text that comes of a job if it is alone.
fn alone(model: &LlamaModel, tokens: i32) -> Generated {
    let (job, mut answer) = waiting(tokens);
    let mut engine = engines(model, 1, 1).remove(0);
    engine.parts.queue.put_back(job);
    loop {
        assert!(engine.turn());
        if let Ok(answer) = answer.try_recv() {
            return answer.expect("a text");
        }
    }
}

/// A guess begins at the second worker while the first is busy. Then a likelier one takes its place. As
/// soon as the first worker has nothing to do, it resumes the guess where the second left it.
#[test]
fn a_job_goes_on_at_another_worker_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let (_, model, _) = load(&options).expect("a model");
    let expected = alone(&model, 100);
    // With room to stand still, and without: then it goes back into the queue at once.
    for sequences in [2, 1] {
        let mut engines = engines(&model, 2, sequences);
        let queue = Arc::clone(&engines[0].parts.queue);
        let counters = Arc::clone(&engines[0].parts.counters);
        let (needed, mut needed_answer) = waiting_as(Call::authoritative(), 40, 1);
        queue.put_back(needed);
        assert!(engines[0].turn());
        let guess = Call::new(Lane::Speculative, Chance::EVEN);
        let (guess, mut guess_answer) = waiting_as(guess, 100, 2);
        queue.put_back(guess);
        // The first one leaves it to the second, which has nothing to do.
        assert!(engines[0].turn());
        for _ in 0..6 {
            assert!(engines[1].turn());
        }
        let generated = engines[1].running[0].progress.generated;
        assert!(generated > 1, "in mid-sentence");
        let (urgent, mut urgent_answer) = waiting_as(Call::authoritative(), 60, 3);
        queue.put_back(urgent);
        // The first one has a needed call itself.
        assert!(engines[0].turn());
        assert!(engines[1].turn());
        assert_eq!(engines[1].running.len(), sequences);
        while needed_answer.try_recv().is_err() {
            assert!(engines[0].turn());
        }
        // It looks for work, and would sleep if nobody else were there.
        if sequences == 2 {
            queue.rests(0);
            assert!(engines[1].turn());
        }
        assert!(engines[0].turn());
        assert_eq!(engines[0].running[0].waiting.arrival, 2);
        assert!(engines[0].running[0].progress.generated > generated);
        let read = counters.prefilled_tokens.load(Relaxed);
        let answer = loop {
            if let Ok(answer) = guess_answer.try_recv() {
                break answer.expect("a text");
            }
            assert!(engines[0].turn());
        };
        assert_eq!(answer, expected);
        assert_eq!(
            counters.prefilled_tokens.load(Relaxed),
            read,
            "nothing is read again"
        );
        assert_eq!(counters.handed_over.load(Relaxed), 1);
        assert_eq!(counters.evicted.load(Relaxed), 0);
        while urgent_answer.try_recv().is_err() {
            assert!(engines[1].turn());
        }
    }
}

/// What one worker has read, the other does not read again.
#[test]
fn a_prompt_is_read_by_one_worker_and_found_by_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let (_, model, _) = load(&options).expect("a model");
    let expected = alone(&model, 150);
    let mut engines = engines(&model, 2, 1);
    let counters = Arc::clone(&engines[0].parts.counters);
    let mut read = Vec::new();
    for engine in &mut engines {
        let (job, mut answer) = waiting(150);
        engine.parts.queue.put_back(job);
        let before = counters.prefilled_tokens.load(Relaxed);
        let said = loop {
            assert!(engine.turn());
            if let Ok(answer) = answer.try_recv() {
                break answer.expect("a text");
            }
        };
        assert_eq!(said, expected);
        read.push(counters.prefilled_tokens.load(Relaxed) - before);
    }
    // The last chunk is read anew, since the next token is predicted from it.
    assert_eq!(read, [150, 150 - 128]);
}
