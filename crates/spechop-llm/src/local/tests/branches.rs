//! What a branch has read is dropped when the branch is rolled back: its sibling goes on in its place, and takes
//! no place of anybody else.

use spechop_ports::{BranchFate, Lane};
use spechop_types::{Chance, Tenant};

use super::super::tiny;
use super::*;
use crate::{Prompt, Text};

const QUESTION: &str = "Who is the mother of the director of the film Blue Kite?\n";
const STRANGE: &str = "0: where does the river rise, and into which sea does it flow?\n";

/// What the model says, and how many tokens of the prompt it has computed.
async fn say(
    model: &LocalModel,
    tenant: &str,
    fate: Option<&BranchFate>,
    text: Text,
) -> (Generated, u64) {
    let tenant = Tenant::new(tenant).expect("a name");
    let call = Call::of(tenant, Lane::Authoritative, Chance::CERTAIN);
    let call = match fate {
        Some(fate) => call.for_branch(fate.clone()),
        None => call,
    };
    let before = model.stats().prefilled_tokens;
    let generation = Generation {
        prompt: Prompt::Text(text),
        tokens_max: 4,
        stop: &[],
        drafts: Vec::new(),
        sample: 0,
    };
    let said = model.generate(&call, generation).await.expect("a text");
    (said, model.stats().prefilled_tokens - before)
}

#[tokio::test]
async fn a_sibling_goes_on_in_the_place_of_the_branch_that_is_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = Vec::new();
    for is_rolled_back in [false, true] {
        // With room for two prompts.
        let model = LocalModel::open(LocalModelOptions {
            threads: Some(NonZeroU32::MIN),
            context_tokens_per_sequence: 512,
            sequences: 1,
            kept_prompts: 1,
            ..LocalModelOptions::new(tiny::model(folder.path()))
        })
        .expect("the tiny model");
        let [head, guessed, found] = [(); 3].map(|()| BranchFate::default());
        let (asked, _) = say(&model, "a", Some(&head), QUESTION.into()).await;
        say(&model, "x", None, STRANGE.into()).await;
        let known = |answer: &str| {
            let written = QUESTION.len()..QUESTION.len() + asked.text.len();
            let text = format!("{QUESTION}{} => {answer}\n", asked.text);
            Text::new(text, [written])
        };
        say(&model, "a", Some(&guessed), known("Amy Dunne")).await;
        if is_rolled_back {
            guessed.roll_back();
        }
        let (sibling, computed) = say(&model, "a", Some(&found), known("Mary Blue")).await;
        let read = asked.tokens.prompt + asked.tokens.completion;
        let new = sibling.tokens.prompt - read;
        // The last token was chosen, and perhaps not read.
        assert!(computed <= new + 1, "{computed} of {new} new ones");
        let (strange, computed) = say(
            &model,
            "x",
            None,
            format!("{STRANGE}and why?").as_str().into(),
        )
        .await;
        let is_still_there = computed < strange.tokens.prompt;
        assert_eq!(is_still_there, is_rolled_back, "{computed}");
        texts.push((sibling.text, strange.text));
    }
    assert_eq!(texts[0], texts[1]);
}
