//! What the engine reads from one hop of a question to the next: nothing that it has read or written before.

use std::sync::Arc;

use spechop_llm::{LocalModel, StepPlanner};
use spechop_ports::{Call, KnownHop, PlanRequest, Planner};
use spechop_types::Step;

use crate::model::{open, planner_path};
use crate::workers::requests;

/// Whatever is found.
const ANSWERS: [&str; 4] = ["Jan van Riebeeck", "8 October 1848", "Culemborg", "France"];

/// Tokens over all hops but the first of all questions.
#[derive(Debug, Default)]
struct Counts {
    hops: u64,
    prompt: u64,
    prefilled: u64,
    /// Of the last hop's answer, and a line's end: no model has seen them.
    new: u64,
}

/// Questions whose steps are also asked of a model that has nothing in memory.
const ASKED_ANEW: usize = 4;

fn planner_model(drafts: bool) -> Arc<LocalModel> {
    Arc::new(open(|options| {
        options.model_path = planner_path();
        options.sequences = 4;
        options.kept_prompts = 8;
        options.drafts = Some(drafts);
    }))
}

/// Of a prompt only what is new is computed: the end of the line that the model has just written, which it
/// has chosen and not read, and the answer behind it. What comes of it is what a model says that computes all.
#[tokio::test]
async fn from_hop_to_hop_nothing_is_read_again() {
    nothing_is_read_again(false).await;
}

/// Nor if several tokens are read in one call: the bits are the same.
#[tokio::test]
async fn with_draft_tokens_nothing_is_read_again_either() {
    nothing_is_read_again(true).await;
}

async fn nothing_is_read_again(drafts: bool) {
    let model = planner_model(drafts);
    let planner = StepPlanner::new(model.clone());
    let call = Call::authoritative();
    let mut counts = Counts::default();
    for (number, first) in requests().into_iter().take(16).enumerate() {
        let mut request = PlanRequest {
            hops: Vec::new(),
            ..first
        };
        // Prompt and text of the hop before.
        let mut before = None;
        for answer in ANSWERS {
            let started = model.stats();
            let planned = planner.plan(&call, request.clone()).await.expect("a step");
            let ended = model.stats();
            if number < ASKED_ANEW {
                let anew = StepPlanner::new(planner_model(false));
                let anew = anew.plan(&call, request.clone()).await.expect("a step");
                assert_eq!(anew, planned);
            }
            let Step::Ask(sub_question) = planned.step else {
                break;
            };
            let prefilled = ended.prefilled_tokens - started.prefilled_tokens;
            let (prompt, written) = (planned.tokens.prompt, planned.tokens.completion);
            if let Some((prompt_before, written_before)) = before {
                let new = prompt.saturating_sub(prompt_before + written_before);
                // The end of the line may have been a guess, too, and read.
                let least = if drafts { new } else { new + 1 };
                assert!(
                    (least..=new + 1).contains(&prefilled),
                    "of {prompt} tokens, {prompt_before} and {written_before} were held"
                );
                counts.hops += 1;
                counts.prompt += prompt;
                counts.prefilled += prefilled;
                counts.new += new;
            }
            before = Some((prompt, written));
            request.hops.push(KnownHop {
                sub_question,
                answer: answer.into(),
            });
        }
    }
    eprintln!("{counts:?}");
    assert!(counts.hops >= 16, "{counts:?}");
    assert!(counts.prefilled < counts.prompt / 4, "{counts:?}");
}
