//! SmolLM2-135M, the smallest real model, and what it is asked.

use std::future::Future;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use futures::future::{join_all, poll_immediate};
use spechop_llm::{
    Chat, Generated, Generation, LocalModel, LocalModelOptions, LocalStats, Message, Prompt, Role,
    TextModel,
};
use spechop_ports::{Call, Lane, PortError};
use spechop_types::Chance;

const STOP: &[&str] = &["</answer>"];

/// The smallest real model.
pub(crate) fn model_path() -> PathBuf {
    spechop_testkit::assets::model_dir("smollm2-135m-instruct").join("model.gguf")
}

/// The planner that is shipped.
pub(crate) fn planner_path() -> PathBuf {
    spechop_testkit::assets::model_dir("spechop-planner-merged").join("model.gguf")
}

pub(crate) fn options() -> LocalModelOptions {
    LocalModelOptions {
        threads: NonZeroU32::new(1),
        context_tokens_per_sequence: 512,
        sequences: 3,
        kept_prompts: 2,
        ..LocalModelOptions::new(model_path())
    }
}

pub(crate) fn open(change: impl FnOnce(&mut LocalModelOptions)) -> LocalModel {
    let mut options = options();
    change(&mut options);
    LocalModel::open(options).expect("a model")
}

pub(crate) fn message(role: Role, text: &str) -> Message {
    Message {
        role,
        text: text.into(),
    }
}

/// Instructions that are the same every time, and a question.
pub(crate) fn ask(question: &str, tokens_max: u32) -> Generation {
    Generation {
        prompt: Prompt::Chat(Chat {
            messages: vec![
                message(
                    Role::System,
                    "You are a careful librarian who answers questions about films, rivers and \
                     people. Answer in one sentence, name your reasons, and never invent a title or \
                     a date.",
                ),
                message(Role::User, question),
            ],
            fixed: 1,
        }),
        tokens_max,
        stop: STOP,
        drafts: Vec::new(),
        sample: 0,
    }
}

/// A text to go on from.
pub(crate) fn bare(text: &str, tokens_max: u32) -> Generation {
    Generation {
        prompt: Prompt::Text(text.into()),
        tokens_max,
        stop: STOP,
        drafts: Vec::new(),
        sample: 0,
    }
}

/// A prompt that takes several chunks.
pub(crate) fn long(topic: &str, tokens_max: u32) -> Generation {
    let words = "the river runs past the old mill and the town where the director was born, ";
    ask(
        &format!("{} What about {topic}?", words.repeat(12)),
        tokens_max,
    )
}

pub(crate) async fn say(model: &LocalModel, generation: Generation) -> Generated {
    let call = Call::authoritative();
    model.generate(&call, generation).await.expect("a text")
}

/// Waits until the model says so of itself.
pub(crate) async fn until(model: &LocalModel, reached: impl Fn(LocalStats) -> bool) -> LocalStats {
    for _ in 0..60_000 {
        let stats = model.stats();
        if reached(stats) {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never reached: {:?}", model.stats());
}

/// Starts a call without waiting for it.
pub(crate) async fn launch<'a>(
    model: &'a LocalModel,
    call: &'a Call,
    generation: Generation,
) -> Pin<Box<dyn Future<Output = Result<Generated, PortError>> + Send + 'a>> {
    let mut future = model.generate(call, generation);
    assert!(poll_immediate(&mut future).await.is_none(), "not so fast");
    future
}

/// A text, and to the last bit how sure the model was, depend on the prompt alone, from a cold cache or a warm
/// one, alone or in company. `open` opens the model with its own changes and those given.
pub(crate) async fn same_text(open: impl Fn(fn(&mut LocalModelOptions)) -> LocalModel) {
    let text = "Question: Where does the river rise?\nWhich river? => The Orne\nWho is old";
    let generations: Vec<Generation> = vec![
        ask("Who wrote The Old Man and the Sea?", 24),
        long("the mill", 24),
        ask("Name a river in France, and a town at its mouth.", 24),
        long("the town", 24),
        long("the mill", 40),
        ask("Who?", 24),
        bare(text, 24),
        bare(&format!("{text}er? => Ann\nQ"), 24),
    ];
    let mut fresh = Vec::new();
    for generation in &generations {
        let model = open(|_| ());
        fresh.push(say(&model, generation.clone()).await);
    }

    let model = open(|_| ());
    // Cached, in two orders.
    for (generation, fresh) in generations.iter().zip(&fresh) {
        assert_eq!(&say(&model, generation.clone()).await, fresh);
    }
    for (generation, fresh) in generations.iter().zip(&fresh).rev() {
        assert_eq!(&say(&model, generation.clone()).await, fresh);
    }
    let stats = model.stats();
    assert!(stats.reused_tokens > stats.prefilled_tokens, "{stats:?}");

    // In company, twice: from a warm cache and from a cold one.
    for model in [&model, &open(|_| ())] {
        let calls = generations
            .iter()
            .map(|generation| say(model, generation.clone()));
        assert_eq!(join_all(calls).await, fresh);
    }

    // Interrupted in mid-sentence.
    let model = open(|_| ());
    let guess = Call::new(Lane::Speculative, Chance::EVEN);
    let paused = launch(&model, &guess, generations[4].clone()).await;
    until(&model, |stats| stats.generated_tokens > 4).await;
    assert_eq!(say(&model, generations[0].clone()).await, fresh[0]);
    assert_eq!(paused.await.expect("a text"), fresh[4]);
    assert_eq!(model.stats().evicted, 0);

    // After an eviction.
    let model = open(|options| options.sequences = 1);
    let guess = Call::new(Lane::Speculative, Chance::EVEN);
    let evicted = launch(&model, &guess, generations[4].clone()).await;
    until(&model, |stats| stats.generated_tokens > 4).await;
    assert_eq!(say(&model, generations[0].clone()).await, fresh[0]);
    assert_eq!(evicted.await.expect("a text"), fresh[4]);
    assert_eq!(model.stats().evicted, 1);
}
