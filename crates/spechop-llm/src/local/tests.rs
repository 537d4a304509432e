//! What the in-process model owes its callers when its thread is gone. The rest needs a real model:
//! `tests/real`.

mod alone;
mod branches;
mod tenants;
mod tools;

use super::*;
use crate::Prompt;

/// A model whose workers are somewhere else.
fn without_threads(queue: &Arc<Queue>) -> LocalModel {
    LocalModel {
        name: "m".into(),
        counters: Arc::default(),
        queue: Arc::clone(queue),
        opened: Opened {
            is_batch_invariant: false,
            threads_alone: 1,
        },
        thread: None,
    }
}

/// Of two workers.
fn queue() -> Arc<Queue> {
    Arc::new(Queue::new(2, 8, 8, Arc::default()))
}

fn last_words<'a>(vitals: &'a Vitals, queue: &'a Queue, worker: usize) -> LastWords<'a> {
    LastWords {
        vitals,
        name: "m",
        queue,
        worker,
    }
}

async fn say(model: &LocalModel) -> Result<Generated, PortError> {
    let hello = Generation {
        prompt: Prompt::Text("Hello".into()),
        tokens_max: 1,
        stop: &[],
        drafts: Vec::new(),
        sample: 0,
    };
    model.generate(&Call::authoritative(), hello).await
}

#[tokio::test]
async fn dead_threads_are_an_error_and_no_hang() {
    let queue = queue();
    let vitals = Vitals::default();
    let model = without_threads(&queue);
    // It may still be asked while one worker is left; with the last one, those that wait hear of it.
    drop(last_words(&vitals, &queue, 0));
    let waits = say(&model);
    let dies = async {
        tokio::task::yield_now().await;
        drop(last_words(&vitals, &queue, 1));
    };
    let (waited, ()) = tokio::join!(waits, dies);
    for error in [waited, say(&model).await] {
        let error = error.expect_err("nobody is there");
        assert!(matches!(error, PortError::Unavailable { .. }), "{error}");
    }
}

#[test]
fn a_thread_that_panics_is_a_vital_sign() {
    let vitals = Vitals::default();
    let queue = queue();
    thread::scope(|scope| {
        let asked = scope.spawn(|| drop(last_words(&vitals, &queue, 0)));
        asked.join().expect("no panic");
        assert_eq!(vitals.failures(), []);
        let panicked = scope.spawn(|| {
            let _words = last_words(&vitals, &queue, 1);
            panic!("a model that panics");
        });
        assert!(panicked.join().is_err());
    });
    let failures = vitals.failures();
    assert_eq!(failures.len(), 1);
    assert_eq!((&*failures[0].part, &*failures[0].reason), ("m", ENDED));
}
