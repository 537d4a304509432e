//! How often an answer follows from the gold hops by itself, and how often that is the gold answer:
//! `cargo run -p spechop-llm --example concluded -- [--misses] < steps.jsonl`.
//!
//! `eval/train/gold_steps.py` writes the steps. A model is there, but says nothing, so whatever is answered follows from the
//! hops. With `--misses` every wrong answer is printed, and every one that comes before the last hop.
#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use spechop_llm::{Generated, Generation, StepPlanner, TextModel};
use spechop_ports::{Call, KnownHop, PlanRequest, Planner, PortError};
use spechop_types::{Question, Step, SubQuestion, canonical_name};

#[derive(Deserialize)]
struct GoldStep {
    kind: String,
    question: String,
    hops: Vec<(String, String)>,
    answer: Option<String>,
}

struct Silent;

#[async_trait]
impl TextModel for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    async fn generate(
        &self,
        _call: &Call,
        _generation: Generation,
    ) -> Result<Generated, PortError> {
        Err(PortError::Refused {
            what: "silent".into(),
            detail: "it says nothing".into(),
        })
    }
}

/// What became of the steps of one kind of question.
#[derive(Default)]
struct Counts {
    right: u32,
    wrong: u32,
    left_to_the_model: u32,
    too_early: u32,
    waited: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let shows_misses = std::env::args().any(|argument| argument == "--misses");
    let planner = StepPlanner::new(Arc::new(Silent)).as_last(false);
    let mut kinds: BTreeMap<String, Counts> = BTreeMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let step: GoldStep = serde_json::from_str(&line)?;
        let hops = step.hops.iter().map(|(asked, answer)| KnownHop {
            sub_question: SubQuestion::new(asked),
            answer: answer.as_str().into(),
        });
        let request = PlanRequest {
            question: Question::new(&step.question).map_err(|error| error.to_string())?,
            hops: hops.collect(),
            must_answer: false,
            drafts: Vec::new(),
        };
        let planned = planner.plan(&Call::authoritative(), request).await;
        let concluded = planned.ok().and_then(|planned| match planned.step {
            Step::Answer(answer) => Some(answer),
            Step::Ask(_) => None,
        });
        let counts = kinds.entry(step.kind).or_default();
        let count = match (&concluded, &step.answer) {
            (None, None) => &mut counts.waited,
            (None, Some(_)) => &mut counts.left_to_the_model,
            (Some(_), None) => &mut counts.too_early,
            (Some(said), Some(gold)) if canonical_name(said) == canonical_name(gold) => {
                &mut counts.right
            }
            (Some(_), Some(_)) => &mut counts.wrong,
        };
        *count += 1;
        let is_miss = concluded.as_deref().is_some_and(|said| {
            let gold = step.answer.as_deref().unwrap_or_default();
            canonical_name(said) != canonical_name(gold)
        });
        if shows_misses && is_miss {
            println!("{concluded:?}: {line}");
        }
    }
    println!("kind: right, wrong, left to the model; before the last hop: answered, not");
    for (kind, of) in kinds {
        let Counts {
            right,
            wrong,
            left_to_the_model,
            too_early,
            waited,
        } = of;
        println!("{kind}: {right}, {wrong}, {left_to_the_model}; {too_early}, {waited}");
    }
    Ok(())
}
