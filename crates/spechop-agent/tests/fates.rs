//! Whoever writes for a branch knows what becomes of it.

#![expect(clippy::expect_used, reason = "a test's own helpers")]

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_agent::{Agent, Ports};
use spechop_ports::{BranchFate, Call, PlanRequest, Planned, Planner, PortError};
use spechop_testkit::ScriptedPorts;

use crate::asking::{question, settings, steady};

/// Remembers what each call knows of its branch, and the last answer that the branch stands on.
struct Noting {
    planner: ScriptedPorts,
    fates: Mutex<Vec<(Option<Arc<str>>, BranchFate)>>,
}

#[async_trait]
impl Planner for Noting {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let stands_on = request.hops.last().map(|hop| hop.answer.clone());
        let fate = call.fate().expect("a branch").clone();
        self.fates.lock().push((stands_on, fate));
        self.planner.plan(call, request).await
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_branch_that_is_rolled_back_it_is_known_and_of_no_other() {
    for (right, k) in [([false, true], 3), ([true, true], 3), ([false, false], 1)] {
        let ports = Arc::new(steady(&right));
        let planner = Arc::new(Noting {
            planner: (*ports).clone(),
            fates: Mutex::default(),
        });
        let agent = Agent::new(Ports {
            planner: planner.clone(),
            reader: ports.clone(),
            retriever: ports.clone(),
            speculator: Some(ports),
            drafter: None,
            draft_writer: None,
        });
        let report = agent
            .answer(&question(), &settings(k), &mut |_| {})
            .await
            .expect("an answer");
        let found: Vec<&str> = report.hops.iter().map(|hop| &*hop.hop.answer).collect();
        let fates = planner.fates.lock();
        let lost: Vec<_> = fates
            .iter()
            .filter(|(_, fate)| fate.is_rolled_back())
            .map(|(stands_on, _)| stands_on.as_deref().expect("a guess"))
            .collect();
        // What was written behind a wrong guess, and nothing else.
        let is_wrong = |on: &&str| !found.contains(on);
        let wrong: Vec<&str> = fates
            .iter()
            .filter_map(|(stands_on, _)| stands_on.as_deref())
            .filter(is_wrong)
            .collect();
        assert_eq!(lost, wrong, "k = {k}, {right:?}");
        assert_eq!(lost.is_empty(), k == 1 || right[0], "k = {k}, {right:?}");
        // Each branch has its own.
        let all = || fates.iter().map(|(_, fate)| fate);
        let same = all().map(|fate| all().filter(|other| *other == fate).count());
        assert!(same.into_iter().all(|same| same == 1));
    }
}
