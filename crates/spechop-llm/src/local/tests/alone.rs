//! A text that is alone has the threads of all workers, as the model is opened.

use futures::future::join_all;

use super::super::tiny;
use super::*;
use crate::{Prompt, Text};

async fn say(model: &LocalModel, text: &str) -> Generated {
    let generation = Generation {
        prompt: Prompt::Text(Text::from(text)),
        tokens_max: 12,
        stop: &[],
        drafts: Vec::new(),
        sample: 0,
    };
    let call = Call::authoritative();
    model.generate(&call, generation).await.expect("a text")
}

#[tokio::test]
async fn a_text_that_is_alone_has_more_threads() {
    let folder = tempfile::tempdir().unwrap();
    // More than there are slots.
    let asked = [
        "Who is it about? Who is it about? Who is it about?",
        "Where does it rise? Where does it rise? Where",
        "When was that? When was that? When was that?",
        "abababababababababababababababababab",
        "Which film came out first, A or A or A or A or A?",
        "xyz xyz xyz xyz xyz xyz xyz xyz xyz xyz",
    ];
    let mut texts = Vec::new();
    for threads in [NonZeroU32::new(1), None] {
        let options = LocalModelOptions {
            workers: NonZeroU32::new(2).expect("not zero"),
            threads,
            context_tokens_per_sequence: 256,
            ..LocalModelOptions::new(tiny::model(folder.path()))
        };
        // Of one core nobody has more.
        let more = options.threads_alone() > options.threads_each();
        assert!(threads.is_none() || !more, "a person has named them");
        let model = LocalModel::open(options).expect("the tiny model");
        for asked in asked {
            texts.push(say(&model, asked).await.text);
        }
        // It is the first worker that has more, and it may not have been awake yet.
        for _ in 0..1000 {
            if !more || model.stats().widened > 0 {
                break;
            }
            say(&model, asked[0]).await;
        }
        assert_eq!(model.stats().widened > 0, more, "{:?}", model.stats());
        let together = join_all(asked.map(|asked| say(&model, asked))).await;
        texts.extend(together.into_iter().map(|said| said.text));
    }
    assert!(
        texts
            .chunks(asked.len())
            .all(|again| *again == texts[..asked.len()])
    );
}

/// A copy of its KV would lack what lies before the window.
#[tokio::test]
async fn nothing_is_moved_of_a_model_that_looks_back_at_a_part() {
    let folder = tempfile::tempdir().unwrap();
    for (window, moves) in [(64, false), (256, true)] {
        let options = LocalModelOptions {
            workers: NonZeroU32::new(2).expect("not zero"),
            context_tokens_per_sequence: 256,
            ..LocalModelOptions::new(tiny::windowed(folder.path(), window))
        };
        let (each, alone) = (options.threads_each(), options.threads_alone());
        let more = alone > each;
        let model = LocalModel::open(options).expect("the tiny model");
        assert_eq!(model.threads_alone(), if moves { alone } else { each });
        for _ in 0..1000 {
            if model.stats().widened > 0 || !(moves && more) && model.stats().finished > 8 {
                break;
            }
            say(&model, "Who is it about?").await;
        }
        let stats = model.stats();
        assert_eq!(stats.widened > 0, moves && more, "{window}: {stats:?}");
    }
}
