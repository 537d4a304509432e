//! What the separation of tenants costs: `cargo test --workspace --bench tenants -- --bench`.
//!
//! The prompts are those of a run on 2WikiMultihopQA (`eval/runs/2wiki-own`): the segments of its first 20
//! questions at k = 1. Tokens are counted, not time, so that the figures do not depend on the build or on
//! what else the machine does. Two kinds of prompts: our planner's lines, of which nothing is fixed, and
//! the tagged ones of other models, with instructions and examples that are the same for all.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends at the first mistake"
)]

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use spechop_llm::{LlmPlanner, LocalModel, LocalModelOptions, PromptStyle, StepPlanner};
use spechop_ports::{Call, KnownHop, Lane, PlanRequest, Planner};
use spechop_types::{Chance, Question, SubQuestion, Tenant};

const STAGES: &str = "../../eval/runs/2wiki-own/bundle/stages.jsonl";
const QUESTIONS: usize = 20;

/// A recorded stage; of segments alone there is a question.
#[derive(Deserialize)]
struct Stage {
    input: Input,
    output: Output,
}

#[derive(Deserialize)]
struct Input {
    question: Option<String>,
    #[serde(default)]
    hops: Vec<(String, String)>,
    #[serde(default)]
    must_answer: bool,
}

/// A segment that answers is its question's last.
#[derive(Deserialize)]
struct Output {
    answer: Option<String>,
}

impl Input {
    fn request(&self, question: &str) -> PlanRequest {
        let hop = |(asked, answer): &(String, String)| KnownHop {
            sub_question: SubQuestion::new(asked),
            answer: answer.as_str().into(),
        };
        PlanRequest {
            question: Question::new(question).unwrap(),
            hops: self.hops.iter().map(hop).collect(),
            must_answer: self.must_answer,
            drafts: Vec::new(),
        }
    }
}

/// The segments of each of the first questions, up to its first answer: k = 1 was recorded first.
fn segments() -> Vec<Vec<PlanRequest>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(STAGES);
    let mut questions: Vec<(String, Vec<PlanRequest>)> = Vec::new();
    let mut answered = HashSet::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let stage: Stage = serde_json::from_str(line).unwrap();
        let Some(asked) = &stage.input.question else {
            continue;
        };
        if answered.contains(asked) {
            continue;
        }
        if stage.output.answer.is_some() {
            answered.insert(asked.clone());
        }
        let request = stage.input.request(asked);
        match questions.iter().position(|(known, _)| known == asked) {
            Some(at) => questions[at].1.push(request),
            None if questions.len() < QUESTIONS => questions.push((asked.clone(), vec![request])),
            None => {}
        }
    }
    questions
        .into_iter()
        .map(|(_, segments)| segments)
        .collect()
}

/// The kinds of prompts.
#[derive(Clone, Copy)]
enum Style {
    Lines,
    Tagged,
}

/// Prompt tokens computed and reused by a fresh model that is asked these questions, each on behalf
/// of the tenant that is named with it.
async fn play(style: Style, asked: &[(&str, &[PlanRequest])]) -> (u64, u64) {
    let model = spechop_testkit::assets::model_dir(match style {
        Style::Lines => "spechop-planner-merged",
        Style::Tagged => "smollm2-135m-instruct",
    });
    let options = LocalModelOptions {
        // More wait for each other, which takes long on a busy machine.
        threads: Some(NonZeroU32::MIN),
        context_tokens_per_sequence: 2048,
        ..LocalModelOptions::new(model.join("model.gguf"))
    };
    let model = Arc::new(LocalModel::open(options).unwrap());
    let planner: Box<dyn Planner> = match style {
        Style::Lines => Box::new(StepPlanner::new(model.clone())),
        Style::Tagged => Box::new(LlmPlanner::new(model.clone(), PromptStyle::Tagged)),
    };
    for (tenant, segments) in asked {
        for segment in *segments {
            let tenant = Tenant::new(tenant).unwrap();
            let call = Call::of(tenant, Lane::Authoritative, Chance::CERTAIN);
            // The prompt is processed, which is what counts, and nothing is written.
            planner.warm(&call, segment.clone()).await.unwrap();
        }
    }
    let stats = model.stats();
    (stats.prefilled_tokens, stats.reused_tokens)
}

fn main() {
    if spechop_testkit::bench_arguments().is_none() {
        return;
    }
    let questions = segments();
    let count: usize = questions.iter().map(Vec::len).sum();
    println!(
        "{} questions, {count} segments; prompt tokens:",
        questions.len()
    );
    let by = |tenants: [&'static str; 2], both: bool| {
        let mut asked: Vec<(&str, &[PlanRequest])> = Vec::new();
        for (at, question) in questions.iter().enumerate() {
            let first = if both { 0 } else { at % 2 };
            asked.push((tenants[first], question));
            if both {
                asked.push((tenants[1], question));
            }
        }
        asked
    };
    // Without separation, both tenants are one to the model.
    let scenarios = [
        ("one tenant asks them", by(["a", "a"], false)),
        (
            "two tenants, every other question each",
            by(["a", "b"], false),
        ),
        (
            "two tenants, every question each, not separated",
            by(["a", "a"], true),
        ),
        ("two tenants, every question each", by(["a", "b"], true)),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for (name, style) in [("lines", Style::Lines), ("tagged", Style::Tagged)] {
        for (what, asked) in &scenarios {
            let (computed, reused) = runtime.block_on(play(style, asked));
            println!("{name:6}  {what:48} {computed:7} computed {reused:7} reused");
        }
    }
}
