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
use crate::Chat;

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
            may_think: true,
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

/// The thoughts of an answer have begun. They may fill the context, but for the tokens of the text. If nothing else
/// comes, that is told: it is no text to be repaired.
#[test]
fn thoughts_end_where_the_context_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let (_, model, _) = load(&options).expect("a model");
    // A text has eight tokens, and the prompt leaves twelve others.
    for (may_think, tokens) in [(true, 12 + 8), (false, 8)] {
        let mut engine = engines(&model, 1, 1).remove(0);
        engine.parts.context_tokens = 40 + 12 + 8;
        let (mut job, mut answer) = waiting(40);
        job.job.may_think = may_think;
        job.job.generation.prompt = Prompt::Chat(Chat {
            messages: Vec::new(),
            fixed: 0,
        });
        engine.parts.queue.put_back(job);
        assert!(engine.turn());
        let opened = engine.running[0].progress.output.push(b"<think>");
        assert_eq!(opened, None);
        let said = loop {
            assert!(engine.turn());
            if let Ok(said) = answer.try_recv() {
                break said;
            }
        };
        match said {
            Ok(said) => {
                // The first of them was not the model's.
                let written = said.tokens.completion + 1;
                assert_eq!((said.end, written), (End::Length, tokens), "{said:?}");
                assert!(!may_think);
            }
            Err(PortError::Malformed { detail, .. }) => {
                let thought = format!("it thought for {tokens} tokens and wrote nothing");
                assert!(detail.starts_with(&thought), "{detail}");
                assert!(may_think && detail.contains("`context_tokens`"), "{detail}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Two workers that move a needed call each. The second one had begun a guess before its call came.
struct Interrupted<'model> {
    engines: Vec<Engine<'model>>,
    needed: Answer,
    guess: Answer,
    urgent: Answer,
    /// Tokens that the guess had by then.
    generated: u32,
}

fn interrupted(model: &LlamaModel, sequences: usize, moves_kv: bool) -> Interrupted<'_> {
    let mut engines = engines(model, 2, sequences);
    for engine in &mut engines {
        engine.parts.moves_kv = moves_kv;
    }
    let queue = Arc::clone(&engines[0].parts.queue);
    let (job, needed) = waiting_as(Call::authoritative(), 40, 1);
    queue.put_back(job);
    assert!(engines[0].turn());
    let (job, guess) = waiting_as(Call::new(Lane::Speculative, Chance::EVEN), 100, 2);
    queue.put_back(job);
    // The first one leaves it to the second, which has nothing to do.
    assert!(engines[0].turn());
    for _ in 0..6 {
        assert!(engines[1].turn());
    }
    let generated = engines[1].running[0].progress.generated;
    assert!(generated > 1, "in mid-sentence");
    let (job, urgent) = waiting_as(Call::authoritative(), 60, 3);
    queue.put_back(job);
    // The first one has a needed call itself.
    assert!(engines[0].turn());
    assert!(engines[1].turn());
    Interrupted {
        engines,
        needed,
        guess,
        urgent,
        generated,
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
        let Interrupted {
            mut engines,
            mut needed,
            mut guess,
            mut urgent,
            generated,
        } = interrupted(&model, sequences, true);
        let queue = Arc::clone(&engines[0].parts.queue);
        let counters = Arc::clone(&engines[0].parts.counters);
        assert_eq!(engines[1].running.len(), sequences);
        while needed.try_recv().is_err() {
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
            if let Ok(answer) = guess.try_recv() {
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
        while urgent.try_recv().is_err() {
            assert!(engines[1].turn());
        }
    }
}

/// What it has computed is of no use to the other worker, which has nothing to do.
#[test]
fn a_job_whose_kv_cannot_be_moved_goes_on_where_it_began() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LocalModelOptions::new(tiny::model(folder.path()));
    let (_, model, _) = load(&options).expect("a model");
    let expected = alone(&model, 100);
    let Interrupted {
        mut engines,
        mut needed,
        mut guess,
        mut urgent,
        ..
    } = interrupted(&model, 2, false);
    while needed.try_recv().is_err() {
        assert!(engines[0].turn());
    }
    engines[0].parts.queue.rests(0);
    let answer = loop {
        assert!(engines[1].turn());
        if let Ok(answer) = guess.try_recv() {
            break answer.expect("a text");
        }
    };
    assert_eq!(answer, expected);
    assert!(urgent.try_recv().is_ok(), "it went first");
    let counters = &engines[1].parts.counters;
    assert_eq!(counters.handed_over.load(Relaxed), 0);
    assert_eq!(counters.evicted.load(Relaxed), 0);
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
