//! If the output of a sub-question is at hand when the sub-question ends, its question's sequence stays where it
//! is: of the next prompt, only what is new is computed, whoever else has asked something in between.

use spechop_ports::{Lane, Life, Wishes};
use spechop_types::{Chance, Tenant};

use super::super::tiny;
use super::*;
use crate::{End, Prompt, Text};

/// A tenant has left the output of whatever it asks for.
#[derive(Debug)]
struct Left {
    by: Tenant,
    asked: Sender<String>,
}

impl ToolOutputs for Left {
    fn has(&self, call: &Call, query: &str) -> bool {
        let _ = self.asked.send(query.to_owned());
        !call.is_fresh() && *call.tenant() == self.by
    }
}

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).expect("a name")
}

fn call(name: &str) -> Call {
    Call::of(tenant(name), Lane::Authoritative, Chance::CERTAIN)
}

/// With room for two prompts.
fn model(folder: &Path, tools: Option<Tools>) -> LocalModel {
    let model = LocalModel::open(LocalModelOptions {
        threads: Some(NonZeroU32::MIN),
        context_tokens_per_sequence: 512,
        sequences: 1,
        kept_prompts: 1,
        tools,
        ..LocalModelOptions::new(tiny::model(folder))
    });
    model.expect("the tiny model")
}

async fn say(
    model: &LocalModel,
    call: &Call,
    text: Text,
    tokens_max: u32,
    stop: &'static [&'static str],
) -> Generated {
    let generation = Generation {
        prompt: Prompt::Text(text),
        tokens_max,
        stop,
        drafts: Vec::new(),
        sample: 0,
    };
    model.generate(call, generation).await.expect("a text")
}

const QUESTION: &str = "Who is the mother of the director of the film Blue Kite?\n";

/// What the model writes behind the question, as the text at which it is to stop.
async fn sub_question(folder: &Path) -> &'static [&'static str] {
    let model = model(folder, None);
    let said = say(&model, &call("a"), QUESTION.into(), 4, &[]).await;
    let text: &'static str = said.text.leak();
    assert!(!text.is_empty());
    vec![text].leak()
}

#[tokio::test]
async fn the_sequence_stays_if_the_output_is_at_hand() {
    let folder = tempfile::tempdir().unwrap();
    let stop = sub_question(folder.path()).await;
    let usual = Wishes::default();
    let fresh = Wishes {
        fresh: true,
        ..usual
    };
    let mut texts = Vec::new();
    // Who has left it, what the question wishes, whether it ends before the next prompt: is it reserved, and does
    // it stay?
    for (left_by, wishes, ends, reserved, stays) in [
        (Some("a"), usual, false, 1, true),
        (Some("a"), usual, true, 1, false),
        (Some("a"), fresh, false, 0, false),
        (Some("b"), usual, false, 0, false),
        (None, usual, false, 0, false),
    ] {
        let (told, asked) = mpsc::channel();
        let tools = left_by.map(|name| Tools {
            outputs: Arc::new(Left {
                by: tenant(name),
                asked: told,
            }),
            asked: |text| Some(SubQuestion::new(text)),
        });
        let model = model(folder.path(), tools);
        let life = Life::of(Arc::new(()));
        let first = call("a").with(wishes).within(life.clone());
        let said = say(&model, &first, QUESTION.into(), 8, stop).await;
        assert_eq!((said.end, &*said.text), (End::Stop, stop[0]));
        assert_eq!(model.stats().reserved, reserved, "{left_by:?} {wishes:?}");
        drop(first);
        let life = (!ends).then_some(life);
        for number in 0..3 {
            let text = format!("{number}: where does the river rise?\n");
            say(&model, &call("x"), text.as_str().into(), 1, &[]).await;
        }
        let written = QUESTION.len()..QUESTION.len() + said.text.len();
        let text = format!("{QUESTION}{} => Amy Dunne\n", said.text);
        let before = model.stats().prefilled_tokens;
        let next = say(&model, &call("a"), Text::new(text, [written]), 4, &[]).await;
        let computed = model.stats().prefilled_tokens - before;
        let whole = next.tokens.prompt;
        let new = whole - said.tokens.prompt - said.tokens.completion;
        // The last token was chosen, and perhaps not read.
        let expected = if stays { new..=new + 1 } else { whole..=whole };
        let case = format!("{left_by:?} {wishes:?} {ends}");
        assert!(
            expected.contains(&computed),
            "{case}: {computed} of {whole}"
        );
        drop(life);
        // It is asked once, of the very words.
        let asked: Vec<String> = asked.try_iter().collect();
        assert_eq!(asked.len(), usize::from(left_by.is_some()), "{case}");
        assert!(asked.iter().all(|asked| asked == stop[0]), "{case}");
        texts.push(next);
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
}
