//! A question that is asked with high effort, over scripted ports whose reader is never sure.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use crate::support::{Server, Sure, bare, config, question};
use async_trait::async_trait;
use spechop_ports::{Call, PlanRequest, Planned, Planner, PortError};
use spechop_proto::ask_event::Event;
use spechop_proto::{AskRequest, Effort};
use spechop_server::Bare;
use spechop_testkit::{Script, ScriptedPorts};
use tonic::Code;

/// Breaks behind so many hops.
struct Breaks(ScriptedPorts, usize);

#[async_trait]
impl Planner for Breaks {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        if request.hops.len() >= self.1 {
            return Err(PortError::unavailable("the planner", "it is broken"));
        }
        self.0.plan(call, request).await
    }
}

/// A defect of ours.
struct Panics;

#[async_trait]
impl Planner for Panics {
    #[allow(clippy::panic, reason = "it is what is tested")]
    async fn plan(&self, _: &Call, _: PlanRequest) -> Result<Planned, PortError> {
        panic!("scripted")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_defect_is_told_as_one_and_not_as_a_cancellation() {
    let server = server(|_| Arc::new(Panics)).await;
    let mut stream = server.stream(asked(Effort::Normal)).await;
    let status = loop {
        match stream.message().await {
            Ok(event) => assert!(event.is_some(), "it ends with a status"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Internal, "{status}");
    let page = server.metrics().await;
    for line in [
        "spechop_questions_total{outcome=\"failed\"} 1",
        "spechop_questions_total{outcome=\"cancelled\"} 0",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

fn asked(effort: Effort) -> AskRequest {
    question().with(|options| options.effort = effort.into())
}

async fn server(first: impl FnOnce(&ScriptedPorts) -> Arc<dyn Planner>) -> Server {
    let config = config("[audit]\nshare = 1.0\n");
    Server::with(Script::instant(2), config, |ports| Bare {
        planner: first(ports),
        drawing: vec![Arc::new(ports.clone()), Arc::new(ports.clone())],
        reader: Arc::new(Sure(ports.clone(), 0.1)),
        ..bare(ports)
    })
    .await
}

async fn events(server: &Server, effort: Effort) -> Vec<Event> {
    let mut stream = server.stream(asked(effort)).await;
    let mut events = Vec::new();
    while let Ok(Some(event)) = stream.message().await {
        events.extend(event.event);
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_the_plan_that_was_chosen_and_no_other() {
    let server = server(|ports| Arc::new(ports.clone())).await;
    for (effort, plans) in [(Effort::Normal, 0), (Effort::High, 3)] {
        let events = events(&server, effort).await;
        let committed = events.iter().filter(|e| matches!(e, Event::Committed(_)));
        assert_eq!(committed.count(), 2);
        let Some(Event::Answer(answer)) = events.last() else {
            panic!("no answer: {events:?}");
        };
        assert_eq!((answer.plans, answer.hops.len()), (plans, 2));
    }
    server.is_idle().await;
}

/// Audits that were done, or for which there was no room.
async fn audits(server: &Server) -> u64 {
    let mut sum = 0;
    for result in ["same", "differs", "load", "failed", "too_many"] {
        let name = format!("spechop_audits_total{{result=\"{result}\"}}");
        sum += server.metric(&name).await;
    }
    sum
}

/// The standard agent would have followed the first plan: a searched answer is not held against it.
#[tokio::test(flavor = "multi_thread")]
async fn a_searched_answer_is_not_audited() {
    let server = server(|ports| Arc::new(ports.clone())).await;
    for effort in [Effort::High, Effort::High, Effort::Normal] {
        server.ask(asked(effort)).await.unwrap();
    }
    // They are audited in order.
    while audits(&server).await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(audits(&server).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_plan_that_fails_is_told_as_far_as_it_came() {
    let server = server(|ports| Arc::new(Breaks(ports.clone(), 1))).await;
    let [normal, high] = [
        events(&server, Effort::Normal).await,
        events(&server, Effort::High).await,
    ];
    let kinds = |events: &[Event]| {
        events
            .iter()
            .map(std::mem::discriminant)
            .collect::<Vec<_>>()
    };
    assert!(normal.len() > 3);
    assert_eq!(kinds(&high), kinds(&normal));
}
