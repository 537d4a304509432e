//! A search that goes to another provider is never silent: an event, and a line of the report.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use async_trait::async_trait;
use spechop_agent::{Agent, Ports, TraceKind};
use spechop_ports::{Call, PortError, Retriever};
use spechop_testkit::ScriptedPorts;
use spechop_types::{Passage, ProviderChange};

use crate::asking::{question, settings, steady};

/// Finds what the script says, each time with its second provider.
struct Second(ScriptedPorts);

fn change() -> ProviderChange {
    ProviderChange {
        from: "first".into(),
        to: "second".into(),
        why: "a challenge page".into(),
    }
}

#[async_trait]
impl Retriever for Second {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        call.changed_provider(change());
        self.0.retrieve(call, query, limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_provider_is_told_once_for_each_call_that_made_it() {
    // The second guess is wrong: the look-up behind it is dropped, and its change counts, too.
    let script = steady(&[true, false, true]);
    let port = Arc::new(script.clone());
    let agent = Agent::new(Ports {
        planner: port.clone(),
        reader: port.clone(),
        retriever: Arc::new(Second(script)),
        speculator: Some(port),
        drafter: None,
        draft_writer: None,
    });
    let mut told = 0;
    let report = agent
        .answer(&question(), &settings(3), &mut |event| {
            if let TraceKind::ProviderChanged { change: told_of } = event.kind {
                assert_eq!(told_of, change());
                told += 1;
            }
        })
        .await
        .unwrap();
    assert!(report.usage.targets.wasted > 0);
    assert_eq!(told, report.usage.targets.started);
    assert!(report.provider_changes.iter().eq(&[(change(), told)]));
}
