//! What the in-process model owes its callers when its thread is gone. The rest needs a real model:
//! `tests/real`.

mod tenants;

use super::*;
use crate::Prompt;

/// A model whose thread is somewhere else.
fn without_thread(jobs: Sender<Job>) -> LocalModel {
    LocalModel {
        name: "m".into(),
        counters: Arc::default(),
        jobs: Some(jobs),
        thread: None,
    }
}

async fn say(model: &LocalModel) -> Result<Generated, PortError> {
    let hello = Generation {
        prompt: Prompt::Text("Hello".into()),
        tokens_max: 1,
        stop: &[],
    };
    model.generate(&Call::authoritative(), hello).await
}

#[tokio::test]
async fn a_dead_thread_is_an_error_and_no_hang() {
    let (jobs, received) = mpsc::channel();
    drop(received);
    let error = say(&without_thread(jobs)).await;
    let error = error.expect_err("nobody is there");
    assert!(matches!(error, PortError::Unavailable { .. }));
    // A thread that dies while it holds the job.
    let (jobs, received) = mpsc::channel::<Job>();
    let model = without_thread(jobs);
    let dying = thread::spawn(move || drop(received.recv()));
    let error = say(&model).await.expect_err("it died");
    assert!(matches!(error, PortError::Unavailable { .. }));
    dying.join().expect("no panic");
}

#[test]
fn a_thread_that_panics_is_a_vital_sign() {
    let vitals = Vitals::default();
    let words = || LastWords {
        vitals: &vitals,
        name: "m",
    };
    thread::scope(|scope| {
        let asked = scope.spawn(|| drop(words()));
        asked.join().expect("no panic");
        assert_eq!(vitals.failures(), []);
        let panicked = scope.spawn(|| {
            let _words = words();
            panic!("a model that panics");
        });
        assert!(panicked.join().is_err());
    });
    let failures = vitals.failures();
    assert_eq!(failures.len(), 1);
    assert_eq!((&*failures[0].part, &*failures[0].reason), ("m", ENDED));
}
