//! Tokens that are guessed without the model, with the planner that is shipped: the same texts, and fewer
//! calls of the model.

use std::sync::Arc;

use spechop_llm::{LocalModel, StepPlanner};
use spechop_ports::{Call, KnownHop, PlanRequest, Planned, Planner};
use spechop_types::{Chance, Draft, Question, Step, SubQuestion};

use crate::model::{open, planner_path};
use crate::workers::requests;

fn planner(drafts: bool) -> (Arc<LocalModel>, StepPlanner) {
    let model = Arc::new(open(|options| {
        options.drafts = Some(drafts);
        options.model_path = planner_path();
        options.kept_prompts = 8;
    }));
    (Arc::clone(&model), StepPlanner::new(model))
}

async fn plan(
    planner: &StepPlanner,
    request: &PlanRequest,
    drafts: &[&str],
    chance: Chance,
) -> Planned {
    let drafts = drafts.iter().map(|draft| Draft {
        sub_question: SubQuestion::new(draft),
        chance,
    });
    let request = PlanRequest {
        drafts: drafts.collect(),
        ..request.clone()
    };
    let planned = planner.plan(&Call::authoritative(), request).await;
    planned.expect("a step")
}

/// How a question ends is foreseen, too: its answer, and what is compared before that.
#[tokio::test]
async fn no_foreseen_ending_changes_an_answer() {
    let (_, plain) = planner(false);
    let (model, drafting) = planner(true);
    for (question, hops, answer) in [
        (
            "When was the director of film Blue Kite born?",
            &[
                ("Who is the director of film Blue Kite?", "Amy Dunne"),
                ("When was Amy Dunne born?", "19 August 1990"),
            ][..],
            "19 August 1990",
        ),
        // Countries that no table knows: else the planner would not be asked.
        (
            "Are the films Blue Kite and Kangaroo from the same country?",
            &[
                ("Which country is the film Blue Kite from?", "Zaire"),
                ("Which country is the film Kangaroo from?", "Burma"),
            ],
            "no",
        ),
        (
            "Do the directors of films Blue Kite and Kangaroo share the same nationality?",
            &[
                ("Who is the director of the film Blue Kite?", "Amy Dunne"),
                ("Who is the director of the film Kangaroo?", "Ben Birk"),
                ("What is the nationality of Amy Dunne?", "Burmese"),
                ("What is the nationality of Ben Birk?", "Burmese"),
            ],
            "yes",
        ),
    ] {
        let hops = hops.iter().map(|(asked, answer)| KnownHop {
            sub_question: SubQuestion::new(asked),
            answer: (*answer).into(),
        });
        let request = PlanRequest {
            question: Question::new(question).expect("a question"),
            hops: hops.collect(),
            must_answer: false,
            drafts: Vec::new(),
        };
        let planned = plan(&drafting, &request, &[], Chance::EVEN).await;
        assert_eq!(
            planned,
            plan(&plain, &request, &[], Chance::EVEN).await,
            "{question}"
        );
        assert_eq!(planned.step, Step::Answer(answer.into()), "{question}");
    }
    let stats = model.stats();
    // How often hangs on this machine: at first, and then as long as it pays.
    assert!(stats.held_tokens > 0, "{stats:?}");
}

/// Nor how sure the model was, to the last bit.
#[tokio::test]
async fn no_draft_changes_a_text() {
    let (_, plain) = planner(false);
    let (model, drafting) = planner(true);
    assert!(model.is_batch_invariant());
    let mut expected = Vec::new();
    for request in requests() {
        let planned = plan(&plain, &request, &[], Chance::EVEN).await;
        let Step::Ask(asked) = &planned.step else {
            continue;
        };
        expected.push((request, asked.as_str().to_owned(), planned.clone()));
    }
    assert!(expected.len() > 20, "{}", expected.len());
    let (mut calls, mut tokens) = ([0; 3], 0);
    for (at, (request, right, planned)) in expected.iter().enumerate() {
        let words: Vec<&str> = right.split(' ').collect();
        let half = words[..words.len() / 2].join(" ");
        let astray = format!("{half} Grace Kelly's second cousin, perhaps, in 1956?");
        let other = expected[(at + 1) % expected.len()].1.as_str();
        tokens += planned.tokens.completion;
        for (kind, drafts) in [
            (0, &[][..]),
            (1, &[right.as_str(), other]),
            (2, &[&astray]),
            (2, &[&half]),
            (2, &[other]),
            (2, &["", right]),
            (2, &["\u{0}\u{feff} => \n\n Answer: 42"]),
        ] {
            let before = model.stats();
            // Read by a few tokens, and at once.
            for chance in [Chance::EVEN, Chance::CERTAIN] {
                let drafted = plan(&drafting, request, drafts, chance).await;
                assert_eq!(drafted, *planned, "{drafts:?} {chance:?}");
            }
            let after = model.stats();
            calls[kind] += after.held_tokens - before.held_tokens;
        }
    }
    let stats = model.stats();
    // Whether it is done hangs on this machine: at first, and then as long as it pays.
    assert!(calls[1] > 0, "{calls:?} of {tokens}");
    assert!(stats.held_tokens < stats.guessed_tokens, "{stats:?}");
}

/// A draft that is longer than anything that may be written.
#[tokio::test]
async fn an_endless_draft_is_left_out() {
    let (model, drafting) = planner(true);
    let request = requests().remove(0);
    let expected = plan(&drafting, &request, &[], Chance::EVEN).await;
    let before = model.stats().guessed_tokens;
    let endless = "who ".repeat(100_000);
    assert_eq!(
        plan(&drafting, &request, &[&endless], Chance::CERTAIN).await,
        expected
    );
    assert!(model.stats().guessed_tokens - before < 40);
}
