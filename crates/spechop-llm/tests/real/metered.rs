//! What a call has spent, known while it runs.

use spechop_llm::TextModel;
use spechop_ports::{Call, Lane};
use spechop_types::{Chance, Tokens};

use crate::model::{ask, launch, long, open, say, until};

#[tokio::test]
async fn a_dropped_call_has_spent_what_was_computed_for_it() {
    let model = open(|_| ());
    let whole = say(&model, long("the mill", 1)).await.tokens.prompt;
    let counting = ask("Count from one to one hundred.", 300);
    let prompt = say(&model, ask("Count from one to one hundred.", 1))
        .await
        .tokens
        .prompt;

    // While the prompt is read: nothing of it is cached under these words.
    let model = open(|_| ());
    let call = Call::new(Lane::Speculative, Chance::EVEN);
    let reading = launch(&model, &call, long("the mill", 8)).await;
    until(&model, |stats| stats.prefilled_tokens > 32).await;
    drop(reading);
    let gone = until(&model, |stats| stats.dropped == 1).await;
    let spent = call.spent();
    assert_eq!((spent.prompt, spent.completion), (gone.prefilled_tokens, 0));
    assert!((33..whole).contains(&spent.prompt), "{spent:?} of {whole}");

    // While it writes.
    let call = Call::authoritative();
    let before = model.stats().generated_tokens;
    let talking = launch(&model, &call, counting).await;
    until(&model, |_| call.spent().completion > 2).await;
    drop(talking);
    let gone = until(&model, |stats| stats.dropped == 2 && stats.running == 0).await;
    let completion = gone.generated_tokens - before;
    assert_eq!(call.spent(), Tokens { prompt, completion });
}

#[tokio::test]
async fn a_call_that_ends_has_spent_what_its_result_says() {
    let model = open(|options| options.sequences = 1);
    let guess = Call::new(Lane::Speculative, Chance::EVEN);
    let (said, ()) = tokio::join!(
        async { model.generate(&guess, long("the mill", 30)).await.unwrap() },
        async {
            // Takes its slot away; what it had written is written again.
            until(&model, |stats| stats.generated_tokens > 2).await;
            let needed = Call::authoritative();
            let generation = ask("Where is Rome?", 8);
            let said = model.generate(&needed, generation).await.unwrap();
            assert_eq!(needed.spent(), said.tokens);
        },
    );
    assert!(model.stats().evicted > 0);
    assert_eq!(guess.spent(), said.tokens);
    // Two generations of one call, the second from the cache.
    let again = model.generate(&guess, long("the mill", 30)).await.unwrap();
    assert_eq!(guess.spent(), said.tokens + again.tokens);
}
