//! The CoRAG style (arXiv 2501.14342): for models trained on chains of retrieval.
//!
//! Such a model expects one user message: a task, the chain of intermediate queries and answers,
//! the documents if any, the main query, and the demand for the bare text. It never decides to
//! answer: it asks until the hop budget, or asking the same twice, makes the agent demand an
//! answer. The form is the training's, the wording ours.

use spechop_ports::{KnownHop, PlanRequest, ReadRequest};

use super::{
    ANSWER_TOKENS_MAX, NOT_THERE, ReadLimits, SUB_QUESTION_TOKENS_MAX, clean, evidence, generation,
};
use crate::Generation;

/// A query is one line; models end their turn behind it, or talk on in the next line.
const LINE_END: &[&str] = &["?\n"];

pub(super) fn plan(request: &PlanRequest) -> Generation {
    let (task, demand, tokens_max, stop): (_, _, _, &'static [&'static str]) =
        if request.must_answer {
            (
                "You are given intermediate queries and their answers. Combine what is relevant \
                 in them into the final answer to the main query. An intermediate answer may be \
                 wrong, since a language model wrote it.",
                "Respond with a short, fitting answer only; explain nothing and add nothing.",
                ANSWER_TOKENS_MAX,
                &[],
            )
        } else {
            (
                "You use a search engine, step by step, to answer the main query. Given the \
                 intermediate queries and answers so far, write one new, simple follow-up question \
                 that helps to answer the main query. Rephrase or split the main query where the \
                 answers so far did not help. Keep it simple: the search engine may not understand \
                 a complex question.",
                "Respond with one simple follow-up question only; explain nothing and add nothing.",
                SUB_QUESTION_TOKENS_MAX,
                LINE_END,
            )
        };
    let text = format!(
        "{task}\n\n## Previous intermediate queries and answers\n{}\n\n## Main query to \
         answer\n{}\n\n{demand}",
        chain(&request.hops),
        clean(request.question.as_str()),
    );
    generation(&[], text, tokens_max, stop)
}

pub(super) fn read(request: &ReadRequest, limits: ReadLimits) -> Generation {
    let text = format!(
        "Write a fitting answer to the query, from the documents below and nothing else. Make \
         nothing up. If the documents hold nothing useful, respond \"{NOT_THERE}\".\n\n\
         ## Documents\n{}\n## Query\n{}\n\nRespond with a short answer only; explain nothing and \
         add nothing.",
        evidence(&request.passages, limits),
        clean(request.sub_question.as_str()),
    );
    generation(&[], text, limits.answer_tokens, &[])
}

fn chain(hops: &[KnownHop]) -> String {
    if hops.is_empty() {
        return "Nothing yet".to_owned();
    }
    let lines: Vec<_> = hops
        .iter()
        .zip(1..)
        .map(|(hop, n)| {
            format!(
                "Intermediate query {n}: {}\nIntermediate answer {n}: {}",
                clean(hop.sub_question.as_str()),
                clean(&hop.answer),
            )
        })
        .collect();
    lines.join("\n")
}
