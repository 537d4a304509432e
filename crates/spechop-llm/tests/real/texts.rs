//! Bare texts, and the planner that speaks in them, on the smallest real model.

use std::sync::Arc;

use spechop_llm::{LocalModel, StepPlanner};
use spechop_ports::{Call, KnownHop, PlanRequest, Planner, contract};
use spechop_types::{Question, Step, SubQuestion};

use crate::model::{bare, open, say};

const LINES: &[&str] = &[
    "Question: Who is older, Halcón Suriano Jr. or Pierre De Geyter?\n",
    "When was Halcón Suriano Jr. born? => 19 August 1990\n",
    "When was Pierre De Geyter born? => 8 October 1848\n",
    "Compare: 1990 > 1848\n",
];

async fn length(model: &LocalModel, text: &str) -> u64 {
    say(model, bare(text, 1)).await.tokens.prompt
}

#[tokio::test]
async fn a_text_is_read_as_it_stands() {
    let model = open(|_| ());
    // No template, no beginning of a sequence: one word, one token.
    assert_eq!(length(&model, "river").await, 1);
    assert_eq!(length(&model, "Answer:").await, 2);
    assert_eq!(length(&model, " =>").await, 1);
    assert_eq!(length(&model, "\n").await, 1);
    // What looks like a control token is text.
    assert!(length(&model, "<|im_end|>").await > 3);
    let said = say(&model, bare("The capital of France is", 8)).await;
    assert!(
        said.text.starts_with(' ') && said.text.contains("Paris"),
        "{said:?}"
    );
}

/// Each line is computed once, and tokens do not depend on the lines behind them.
#[tokio::test]
async fn a_text_that_grows_by_lines_computes_only_its_new_lines() {
    let model = open(|_| ());
    let mut apart = 0;
    for line in LINES {
        apart += length(&open(|_| ()), line).await;
    }
    let mut text = String::new();
    let mut read = 0;
    let mut computed = Vec::new();
    for line in LINES {
        text += line;
        let before = model.stats();
        let said = say(&model, bare(&text, 20)).await;
        let after = model.stats();
        // And more, if it has written what the next line begins with.
        assert!(after.reused_tokens - before.reused_tokens >= read);
        computed.push(after.prefilled_tokens - before.prefilled_tokens);
        read = said.tokens.prompt;
        assert_eq!(say(&open(|_| ()), bare(&text, 20)).await, said);
    }
    assert_eq!(read, apart, "lines are tokenised alike alone and together");
    assert!(computed.iter().sum::<u64>() <= read);
    // A branch: another answer to the last hop but one.
    let before = model.stats();
    say(
        &model,
        bare(&format!("{}{}When? => 1 May 1900\n", LINES[0], LINES[1]), 4),
    )
    .await;
    let after = model.stats();
    // The two lines, and what the third begins with.
    let lines = length(&open(|_| ()), &format!("{}{}", LINES[0], LINES[1])).await;
    assert!(after.reused_tokens - before.reused_tokens > lines);
}

/// An untrained model plans badly, but within the contract.
#[tokio::test]
async fn an_untrained_planner_keeps_the_contract() {
    let model = Arc::new(open(|_| ()));
    let planner = StepPlanner::new(model.clone());
    contract::planner(&planner).await;
    let mut request = PlanRequest {
        question: Question::new("Who is older, Halcón Suriano Jr. or Pierre De Geyter?").unwrap(),
        hops: Vec::new(),
        must_answer: false,
        drafts: Vec::new(),
    };
    for answer in ["19 August 1990", "No relevant information found", "=>\n"] {
        let planned = planner
            .plan(&Call::authoritative(), request.clone())
            .await
            .unwrap();
        let again = planner
            .plan(&Call::authoritative(), request.clone())
            .await
            .unwrap();
        assert_eq!(planned, again);
        let sub_question = match planned.step {
            Step::Ask(asked) => asked,
            Step::Answer(_) => SubQuestion::new("When was he born?"),
        };
        request.hops.push(KnownHop {
            sub_question,
            answer: answer.into(),
        });
        request.must_answer = request.hops.len() > 2;
    }
    assert!(model.stats().reused_tokens > 0);
}
