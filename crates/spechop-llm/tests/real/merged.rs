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
    let (mut same, mut all) = (0, 0);
    for request in requests() {
        let [is, was] = [
            merged.plan(&call, request.clone()).await.expect("a step"),
            adapted.plan(&call, request).await.expect("a step"),
        ];
        let equal = is.step == was.step;
        if !equal {
            println!("{:?} for {:?}", is.step, was.step);
        }
        same += usize::from(equal);
        all += 1;
    }
    println!("{same} of {all} are the same");
    assert!(same * 10 >= all * 8, "{same} of {all}");
}
