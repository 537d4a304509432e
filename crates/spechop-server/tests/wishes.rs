//! What a question wishes of its look-ups, and what it hears of their providers.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use crate::support::{Server, at, bare, config, of, options};
use parking_lot::Mutex;
use spechop_ports::{Call, Lane, PortError, Retriever};
use spechop_proto::ask_event::Event;
use spechop_proto::{AskRequest, AskResponse, ProviderChange};
use spechop_server::Toolbox;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::Passage;

/// Plays the scripted look-ups, and notes what each was told. The provider that comes first is always down.
struct Overheard {
    ports: ScriptedPorts,
    calls: Mutex<Vec<(Lane, bool)>>,
}

#[tonic::async_trait]
impl Retriever for Overheard {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        // At the beginning: a call may be promoted later.
        let heard = (call.lane(), call.is_fresh());
        self.calls.lock().push(heard);
        call.changed_provider(spechop_types::ProviderChange {
            from: "first".into(),
            to: "second".into(),
            why: "it is down".into(),
        });
        self.ports.retrieve(call, query, limit).await
    }
}

/// A server whose guesses come long before the look-ups end, and are right or not.
async fn overheard(right: &[bool], toml: &str) -> (Server, Arc<Overheard>) {
    let ports = ScriptedPorts::new(Script::steady(right, 2, 120, 4));
    let retriever = Arc::new(Overheard {
        ports: ports.clone(),
        calls: Mutex::default(),
    });
    let config = config(toml);
    let mut parts = bare(&ports);
    parts.retriever = retriever.clone();
    let toolbox = Toolbox::of(parts, &config);
    (Server::over(ports, toolbox, config).await, retriever)
}

impl Overheard {
    /// What was heard since it was asked last.
    fn take(&self) -> Vec<(Lane, bool)> {
        std::mem::take(&mut *self.calls.lock())
    }
}

fn wishing(quiet: bool, fresh: bool) -> AskRequest {
    at(4).with(|asked| {
        asked.quiet = quiet;
        asked.fresh = fresh;
    })
}

async fn ask_as(tenant: &str, server: &Server, request: AskRequest) -> AskResponse {
    let answer = server.client().await.ask(of(tenant, request)).await;
    answer.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_question_looks_nothing_up_ahead_of_need() {
    let (server, heard) = overheard(&[true; 3], "[tenant]\nquiet = [\"monks\"]").await;
    let loud = ask_as("others", &server, wishing(false, false)).await;
    let ahead = heard
        .take()
        .iter()
        .filter(|(lane, _)| *lane == Lane::Speculative)
        .count();
    assert!(ahead > 0, "otherwise there is nothing to forbid");
    assert!(!options(&loud).quiet);

    // By its own wish, or because the operator has said so of its tenant.
    for (tenant, quiet) in [("others", true), ("monks", false)] {
        let answer = ask_as(tenant, &server, wishing(quiet, false)).await;
        let lanes: Vec<Lane> = heard.take().into_iter().map(|(lane, _)| lane).collect();
        assert_eq!(lanes, [Lane::Authoritative; 3], "{tenant}");
        assert!(options(&answer).quiet, "{tenant}");
        assert_eq!(answer.answer, loud.answer, "{tenant}");
        assert!(
            !answer.refused.is_empty(),
            "{tenant}: it is told why nothing ran ahead"
        );
    }
}

/// The tenant without a name is called so in the configuration, as in the log.
#[tokio::test(flavor = "multi_thread")]
async fn the_tenant_without_a_name_can_be_quiet() {
    for (named, is_quiet) in [("default", true), ("*", true), ("monks", false)] {
        let toml = format!("[tenant]\nquiet = [\"{named}\"]");
        let (server, heard) = overheard(&[true; 3], &toml).await;
        let answer = server.ask(wishing(false, false)).await.unwrap();
        let calls = heard.take();
        let ahead = calls.iter().any(|(lane, _)| *lane == Lane::Speculative);
        assert_eq!(ahead, !is_quiet, "{named}: {calls:?}");
        assert_eq!(options(&answer).quiet, is_quiet, "{named}");
    }
}

/// Whoever is asked learns what a user may ask next, so that is counted apart.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_ahead_of_need_is_counted_apart() {
    // The second guess is wrong: what was looked up behind it is wasted.
    let (server, overheard) = overheard(&[true, false, true, true], "").await;
    let counted = async || {
        let metric = |name| server.metric(name);
        (
            metric("spechop_backend_started_total{backend=\"retriever\"}").await,
            metric("spechop_backend_started_speculative_total{backend=\"retriever\"}").await,
        )
    };
    let (mut all, mut ahead) = (0, 0);
    for k in [1, 4] {
        let answer = server.ask(at(k)).await.unwrap();
        assert_eq!((&*answer.answer, answer.hops.len()), ("so fact 3", 4));
        let wasted = answer.usage.unwrap().targets.unwrap().wasted;
        assert_eq!(wasted > 0, k > 1, "k = {k}: {wasted} wasted");
        server.is_idle().await;
        let heard = overheard.take();
        let ahead_now = heard.iter().filter(|call| call.0 == Lane::Speculative);
        let ahead_now = ahead_now.count() as u64;
        assert_eq!(ahead_now > 0, k > 1, "{heard:?}");
        assert!(ahead_now < heard.len() as u64, "{heard:?}");
        all += heard.len() as u64;
        ahead += ahead_now;
        assert_eq!(counted().await, (all, ahead), "k = {k}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wish_for_fresh_results_reaches_every_look_up() {
    let (server, heard) = overheard(&[true; 3], "").await;
    for fresh in [false, true] {
        let answer = server.ask(wishing(false, fresh)).await.unwrap();
        let calls = heard.take();
        assert!(calls.len() >= 3);
        assert!(calls.iter().all(|call| call.1 == fresh), "{calls:?}");
        assert_eq!(options(&answer).fresh, fresh);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_provider_is_told_in_the_stream_and_counted_in_the_answer() {
    let (server, heard) = overheard(&[true; 3], "").await;
    let (events, answer) = server.told(wishing(false, false)).await;
    let told = events.into_iter().filter_map(|event| match event.event {
        Some(Event::ProviderChanged(change)) => Some(change),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    let change = |times| ProviderChange {
        from: "first".to_owned(),
        to: "second".to_owned(),
        why: "it is down".to_owned(),
        times,
    };
    let calls = heard.take().len();
    assert_eq!(told, vec![change(0); calls]);
    assert_eq!(
        answer.provider_changes,
        [change(u32::try_from(calls).unwrap())]
    );
}
