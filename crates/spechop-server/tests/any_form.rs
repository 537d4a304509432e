//! Questions that the planner was not made for, over scripted ports: who answers them instead, and what is told.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use crate::over_http::{chat, client, data, url};
use crate::support::{Empty, Server, Sure, bare, config, question};
use async_trait::async_trait;
use serde_json::{Value, json};
use spechop_ports::{Call, PlanRequest, Planned, Planner, PortError};
use spechop_proto::admin_client::AdminClient;
use spechop_proto::ask_event::Event;
use spechop_proto::options::Width;
use spechop_proto::{AskEvent, AskRequest, Budget, GetTuningRequest};
use spechop_server::{Bare, Toolbox};
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Observation, Stage, Step};

/// Says one thing to every question, behind as many hops as the script has; or breaks.
struct Talks(ScriptedPorts, Option<&'static str>);

#[async_trait]
impl Planner for Talks {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let planned = self.0.plan(call, request).await?;
        let says = self
            .1
            .ok_or_else(|| PortError::unavailable("it", "it is broken"))?;
        let step = match planned.step {
            Step::Answer(_) => Step::Answer(says.into()),
            asks @ Step::Ask(_) => asks,
        };
        Ok(Planned { step, ..planned })
    }
}

/// A fallback that looks up once and says this, or breaks.
fn talks(says: Option<&'static str>) -> Talks {
    Talks(ScriptedPorts::new(Script::instant(1)), says)
}

/// A planner and a reader that are this sure, and a fallback that says this, or breaks.
async fn server(sure: f64, says: Option<&'static str>) -> Server {
    configured(sure, says, "").await
}

async fn configured(sure: f64, says: Option<&'static str>, toml: &str) -> Server {
    beside(talks(says), sure, toml).await
}

async fn beside(fallback: Talks, sure: f64, toml: &str) -> Server {
    let ports = ScriptedPorts::new(Script::instant(2));
    let parts = Bare {
        planner: Arc::new(Sure(ports.clone(), sure)),
        reader: Arc::new(Sure(ports.clone(), sure)),
        ..bare(&ports)
    };
    over(ports, parts, fallback, toml).await
}

async fn over(ports: ScriptedPorts, parts: Bare, fallback: Talks, toml: &str) -> Server {
    let config = config(&format!("[audit]\nshare = 1.0\n{toml}"));
    let reader = Arc::new(fallback.0.clone());
    let toolbox = Toolbox::of(parts, &config);
    let toolbox = toolbox.knowing_any_form(Arc::new(fallback), reader, &config);
    Server::over(ports, toolbox, config).await
}

fn is_handed_over(event: &AskEvent) -> bool {
    matches!(event.event, Some(Event::HandedOver(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_another_form_is_answered_by_the_fallback_and_everything_begins_again() {
    let server = server(0.001, Some("Hello!")).await;
    let (events, answer) = server.told(question()).await;
    assert_eq!((&*answer.answer, answer.hops.len()), ("Hello!", 1));
    let of_form = answer.handed_over.unwrap().of_form;
    let confidence = answer.confidence.unwrap();
    assert_eq!(confidence.of_form, Some(of_form));
    assert!(of_form < 0.35 && confidence.withheld.is_none());
    let at = events.iter().position(is_handed_over).unwrap();
    let (before, behind) = events.split_at(at);
    let committed = |of: &[AskEvent]| {
        let is = |event: &&AskEvent| matches!(event.event, Some(Event::Committed(_)));
        of.iter().filter(is).count()
    };
    assert_eq!((committed(before), committed(behind)), (2, 1));
    let last = before.iter().map(|event| event.branch).max();
    assert!(behind.iter().all(|event| Some(event.branch) > last));
    assert!(events.is_sorted_by_key(|event| event.at_ms));
    // Two hops, and then another one, are looked up; the first two in vain.
    let targets = answer.usage.unwrap().targets.unwrap();
    assert_eq!((targets.started, targets.wasted), (3, 2));
    assert_eq!(server.metric("spechop_handed_over_total").await, 1);
    server.is_idle().await;
}

/// In OpenAI's form nothing can be taken back, so what does not count is told apart.
#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_told_that_it_begins_anew() {
    let server = server(0.001, Some("Hello!")).await;
    let again = "hardly of a form that the planner was trained on: the fallback begins anew.\n1. ";
    for stream in [false, true] {
        let response = chat(&server, json!({ "stream": stream })).send().await;
        let text = response.unwrap().text().await.unwrap();
        let (chunks, part) = match stream {
            true => (data(&text), "delta"),
            false => (vec![serde_json::from_str(&text).unwrap()], "message"),
        };
        let said = chunks.iter().map(|chunk| &chunk["choices"][0][part]);
        let said: Vec<_> = said.collect();
        let joined =
            |field: &str| -> String { said.iter().filter_map(|one| one[field].as_str()).collect() };
        let reasoning = joined("reasoning_content");
        assert!(reasoning.contains(again), "{reasoning}");
        assert_eq!(reasoning.contains("2. "), stream, "{reasoning}");
        assert_eq!(joined("content"), "Hello!");
    }
}

/// So is a client of MCP, between the hops.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_mcp_is_told_that_it_begins_anew() {
    let server = server(0.001, Some("Hello!")).await;
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {
            "name": "ask", "arguments": { "question": "q" }, "_meta": { "progressToken": "p" },
        },
    });
    let request = client().post(url(&server, "/mcp"));
    let request = request.header("accept", "application/json, text/event-stream");
    let text = request.json(&call).send().await.unwrap().text().await;
    let messages = data(&text.unwrap());
    let said = messages.iter().map(|said| &said["params"]["message"]);
    let said: Vec<_> = said.filter_map(Value::as_str).collect();
    assert_eq!(said.len(), 4, "three hops and a remark: {said:?}");
    assert!(said[2].ends_with("the fallback begins anew."), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_the_planner_knows_is_not_handed_over() {
    let server = server(0.99, Some("Hello!")).await;
    let (events, answer) = server.told(question()).await;
    assert!(!events.iter().any(is_handed_over));
    assert_eq!((&*answer.answer, answer.handed_over), ("so fact 1", None));
}

/// An allowance is a limit that the client has not named, and enough is left of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_an_allowance_has_the_fallback_as_well() {
    let server = configured(0.001, Some("Hello!"), "[tenant]\ntarget_calls = 1000\n").await;
    let (events, answer) = server.told(question()).await;
    assert!(events.iter().any(is_handed_over));
    assert_eq!(answer.answer, "Hello!");
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_second_answer_the_first_is_withheld() {
    let limited = AskRequest {
        budget: Some(Budget {
            target_calls: Some(2),
            ..Budget::default()
        }),
        ..question()
    };
    for (says, request, is_tried) in [(None, question(), true), (Some("Hello!"), limited, false)] {
        let server = server(0.001, says).await;
        let (events, answer) = server.told(request).await;
        assert_eq!(events.iter().any(is_handed_over), is_tried);
        assert!(answer.handed_over.is_none());
        let withheld = answer.confidence.unwrap().withheld;
        assert_eq!(withheld.as_deref(), Some("so fact 1"));
        assert_eq!(answer.hops.len(), 2);
        server.is_idle().await;
    }
}

/// They are no calls of speculation, which would be switched off for them.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_fallback_that_fails_are_not_held_against_k() {
    let script = Script {
        // It fails when it is to answer.
        failures: [((1, Stage::Segment), u32::MAX)].into(),
        ..Script::instant(1)
    };
    let fallback = Talks(ScriptedPorts::new(script), Some("Hello!"));
    let server = beside(fallback, 0.001, "").await;
    let asked = question().with(|asked| asked.width = Some(Width::AUTO));
    let (events, answer) = server.told(asked).await;
    assert!(events.iter().any(is_handed_over));
    assert!(answer.handed_over.is_none());
    // Its look-up was made, in vain.
    let targets = answer.usage.unwrap().targets.unwrap();
    assert_eq!((targets.started, targets.wasted), (3, 1));
    let mut admin = AdminClient::new(server.channel().await);
    let tunings = admin.get_tuning(GetTuningRequest {}).await.unwrap();
    let [tuning] = tunings.into_inner().tunings.try_into().unwrap();
    // What the hops of the first answer tell is learnt.
    assert_eq!((tuning.hops, tuning.calls), (2, None));
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_may_say_that_it_does_not_know() {
    let server = server(0.001, Some("unknown")).await;
    let (_, answer) = server.told(question()).await;
    assert!(answer.handed_over.is_some());
    assert_eq!(answer.answer, "unknown");
    assert_eq!(answer.confidence.unwrap().withheld, None);
    server.is_idle().await;
}

/// Whoever plans says that it does not know, and does not say how sure that is.
#[tokio::test(flavor = "multi_thread")]
async fn that_it_does_not_know_is_no_answer() {
    for (toml, is_withheld) in [("", true), ("[question]\nconfidence_min = 0\n", false)] {
        let server = Server::with(Script::instant(1), config(toml), |ports| Bare {
            planner: Arc::new(Talks(ports.clone(), Some("unknown"))),
            ..bare(ports)
        })
        .await;
        let (_, answer) = server.told(question()).await;
        let withheld = answer.confidence.unwrap().withheld;
        assert_eq!(withheld.as_deref(), is_withheld.then_some("unknown"));
        assert_eq!(answer.answer == "unknown", !is_withheld);
        server.is_idle().await;
    }
}

/// The planner is sure of its words, and the reader is sure that there was nothing to read.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_behind_look_ups_in_vain_is_handed_over_or_withheld() {
    for says in [Some("Hello!"), None] {
        let ports = ScriptedPorts::new(Script::instant(2));
        let parts = Bare {
            planner: Arc::new(Sure(ports.clone(), 0.99)),
            reader: Arc::new(Sure(ports.clone(), 0.0)),
            retriever: Arc::new(Empty),
            ..bare(&ports)
        };
        let server = over(ports, parts, talks(says), "").await;
        let (events, answer) = server.told(question()).await;
        assert!(events.iter().any(is_handed_over));
        assert_eq!(answer.handed_over.is_some(), says.is_some());
        let withheld = answer.confidence.unwrap().withheld;
        let first = format!("so {}", Observation::NOTHING);
        assert_eq!(withheld, says.is_none().then_some(first));
        server.is_idle().await;
    }
}

/// A stream has said that its first hops do not count, and is told at its end that they do.
#[tokio::test(flavor = "multi_thread")]
async fn a_chat_whose_fallback_fails_is_told_that_its_first_hops_count() {
    let server = server(0.001, None).await;
    let request = chat(&server, json!({ "stream": true })).header("spechop-events", "true");
    let chunks = data(&request.send().await.unwrap().text().await.unwrap());
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let reasoning = deltas.filter_map(|delta| delta["reasoning_content"].as_str());
    let reasoning: String = reasoning.collect();
    let (before, behind) = reasoning.split_once("begins anew.\n").unwrap();
    let again = "The fallback has no answer: what was told before it counts.\n";
    let hops = behind.strip_prefix(again).unwrap();
    assert!(hops.starts_with("1. "), "{reasoning}");
    assert!(before.starts_with(hops), "{reasoning}");
    assert_eq!(hops.lines().count(), 2, "{reasoning}");
    assert!(hops.contains("\n2. "), "{reasoning}");
    let statuses = chunks.iter().map(|chunk| &chunk["event"]["data"]);
    let ended: Vec<_> = statuses.filter(|status| status["done"] == true).collect();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(ended[0]["description"], "Answered after 2 hops");
}
