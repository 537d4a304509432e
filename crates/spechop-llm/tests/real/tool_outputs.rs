//! The output of a sub-question is at hand when its last word is written (arXiv 2512.15834, algorithm 5): the
//! question's sequence stays where it is, whatever else is asked before the next step.

use std::collections::BTreeSet;
use std::sync::Arc;

use spechop_llm::{LocalModel, StepPlanner, Tools};
use spechop_ports::{Call, KnownHop, Lane, Life, PlanRequest, Planned, Planner, ToolOutputs};
use spechop_types::{Chance, Step, SubQuestion, Tenant};

use crate::model::{open, planner_path};
use crate::workers::requests;

/// Of these sub-questions, word for word.
#[derive(Debug)]
struct Outputs(BTreeSet<String>);

impl ToolOutputs for Outputs {
    fn has(&self, _: &Call, query: &str) -> bool {
        self.0.contains(query)
    }
}

/// Questions that are followed from the first step to the second, and those that are asked in between: more than
/// there is room for.
const FOLLOWED: usize = 4;
const BETWEEN: usize = 6;
const KEPT: u32 = 3;

fn planner(outputs: &BTreeSet<String>) -> (Arc<LocalModel>, StepPlanner) {
    let model = Arc::new(open(|options| {
        options.model_path = planner_path();
        options.sequences = 1;
        options.kept_prompts = KEPT;
        options.drafts = Some(false);
        options.tools = Some(Tools {
            outputs: Arc::new(Outputs(outputs.clone())),
            asked: StepPlanner::asked,
        });
    }));
    (Arc::clone(&model), StepPlanner::new(model))
}

/// A call of a tenant who has asked nothing before: what its question begins with is not found with another one.
fn call_of(name: &str) -> Call {
    let tenant = Tenant::new(name).expect("a name");
    Call::of(tenant, Lane::Authoritative, Chance::CERTAIN)
}

/// A question's first two steps, and how many tokens were computed for the second.
struct Followed {
    asked: SubQuestion,
    first: Planned,
    second: Planned,
    computed: u64,
}

async fn follow(outputs: &BTreeSet<String>) -> (Vec<Followed>, u64) {
    let (model, planner) = planner(outputs);
    let mut followed = Vec::new();
    for (number, question) in requests().into_iter().take(FOLLOWED).enumerate() {
        let name = format!("t{number}");
        let call = call_of(&name).within(Life::of(Arc::new(())));
        let first = planner.plan(&call, question.clone()).await.expect("a step");
        let Step::Ask(asked) = first.step.clone() else {
            panic!("{first:?}");
        };
        for (at, other) in requests()
            .into_iter()
            .skip(FOLLOWED)
            .take(BETWEEN)
            .enumerate()
        {
            let stranger = call_of(&format!("t{number}-{at}"));
            planner.plan(&stranger, other).await.expect("a step");
        }
        let known = KnownHop {
            sub_question: asked.clone(),
            answer: "Jan van Riebeeck".into(),
        };
        let question = PlanRequest {
            hops: vec![known],
            ..question
        };
        let before = model.stats().prefilled_tokens;
        let second = planner.plan(&call, question).await.expect("a step");
        followed.push(Followed {
            asked,
            first,
            second,
            computed: model.stats().prefilled_tokens - before,
        });
    }
    (followed, model.stats().reserved)
}

#[tokio::test]
async fn a_question_whose_output_is_at_hand_goes_on_where_it_was() {
    assert!(BETWEEN > KEPT as usize + 1);
    let (searched, reserved) = follow(&BTreeSet::new()).await;
    assert_eq!(reserved, 0);
    let asked = searched.iter().map(|one| one.asked.as_str().to_owned());
    let asked: BTreeSet<String> = asked.collect();
    let (told, reserved) = follow(&asked).await;
    assert!(reserved >= FOLLOWED as u64, "{reserved}");
    let mut compared = 0;
    for (searched, told) in searched.iter().zip(&told) {
        assert_eq!(
            (&told.first, &told.second),
            (&searched.first, &searched.second)
        );
        let (before, after) = (told.first.tokens, told.second.tokens);
        assert!(
            searched.computed > before.prompt,
            "{} of {}",
            searched.computed,
            after.prompt
        );
        // Of several lines, the tokens are counted together.
        if let Step::Ask(_) = told.second.step {
            assert_eq!(searched.computed, after.prompt, "{:?}", told.asked);
            // And the end of the line, which the model has chosen and not read.
            let new = after.prompt - before.prompt - before.completion;
            assert_eq!(told.computed, new + 1, "{:?}", told.asked);
            compared += 1;
        }
    }
    assert!(compared > 1, "{compared}");
}
