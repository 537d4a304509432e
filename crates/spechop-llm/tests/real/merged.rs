//! The planner that is shipped beside what it is made of.

use std::sync::Arc;

use spechop_llm::StepPlanner;
use spechop_ports::{Call, Planner};
use spechop_testkit::assets::model_dir;

use crate::model::{open, planner_path};
use crate::workers::requests;

/// Weights are rounded otherwise, so two likely words may change places. A wrong scale, or a pair on the wrong
/// matrix, would change nearly every text.
#[tokio::test]
async fn the_merged_planner_writes_what_its_base_with_the_adapter_writes() {
    let merged = open(|options| options.model_path = planner_path());
    let adapted = open(|options| {
        options.adapter = Some(model_dir("spechop-planner").join("adapter.gguf"));
    });
    let [merged, adapted] = [merged, adapted].map(|model| StepPlanner::new(Arc::new(model)));
    let call = Call::authoritative();
    let (mut all, mut otherwise) = (0, Vec::new());
    for request in requests() {
        let [is, was] = [
            merged.plan(&call, request.clone()).await.expect("a step"),
            adapted.plan(&call, request).await.expect("a step"),
        ];
        all += 1;
        if is.step != was.step {
            otherwise.push((is.step, was.step));
        }
    }
    assert!(
        otherwise.len() * 5 <= all,
        "{} of {all}: {otherwise:?}",
        otherwise.len()
    );
}
