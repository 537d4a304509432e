//! `Ask`: a question in, a cited answer out.

use std::time::Duration;

use crate::over_http::get;
use crate::support::{Server, at, options, question};
use spechop_proto::options::Width;
use spechop_proto::{AskRequest, CommitKind, Effort, Options, StopReason, VerifierMode};
use spechop_testkit::Script;

#[tokio::test(flavor = "multi_thread")]
async fn a_question_says_how_many_look_ups_may_find_nothing() {
    let mut script = Script::steady(&[true, true, true, true], 1, 2, 1);
    for hop in &mut script.hops {
        hop.answer = String::new();
    }
    let server = Server::start(script).await;
    // The server's own limit is the paper's.
    for (most, applied) in [(None, 1), (Some(0), 0), (Some(2), 2)] {
        let request = at(1).with(|asked| asked.not_found_max = most);
        let answer = server.ask(request).await.unwrap();
        assert_eq!(answer.stop_reason(), StopReason::NotFound);
        assert_eq!(answer.hops.len(), applied as usize + 1);
        assert_eq!(options(&answer).not_found_max, Some(applied));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_passage_is_cut_in_the_reply_and_marked() {
    for (passage_bytes, is_cut) in [(8192, false), (300_000, true)] {
        let script = Script {
            passage_bytes,
            ..Script::instant(2)
        };
        let server = Server::start(script).await;
        let answer = server.ask(question()).await.unwrap();
        assert_eq!(answer.hops.len(), 2);
        for hop in answer.hops {
            let evidence = hop.observation.unwrap().evidence;
            assert!(!evidence.is_empty());
            for passage in evidence {
                assert!(passage.text.len() <= 8192, "{}", passage.text.len());
                assert!(passage.text.starts_with("Text "));
                assert_eq!(passage.cut, is_cut);
                assert_eq!(passage.text.ends_with('…'), is_cut);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_with_hops_citations_and_cost() {
    let script = Script::steady(&[true, false, true], 2, 40, 4);
    let expected = script.answer();
    let server = Server::start(script).await;
    let answer = server.ask(question()).await.unwrap();

    assert_eq!(answer.answer, expected);
    assert_eq!(answer.stop_reason(), StopReason::Answered);
    let kinds: Vec<_> = answer.hops.iter().map(|hop| hop.kind()).collect();
    assert_eq!(
        kinds,
        [
            CommitKind::Accepted,
            CommitKind::Rejected,
            CommitKind::Accepted
        ]
    );
    for (i, hop) in answer.hops.iter().enumerate() {
        let observation = hop.observation.as_ref().unwrap();
        assert_eq!(hop.sub_answer, format!("fact {i}"));
        assert_eq!(observation.answer, hop.sub_answer);
        assert!(observation.found);
        assert_eq!(
            observation.evidence[0].passage_id,
            format!("p0-{}", hop.sub_question)
        );
        assert!(
            !observation.evidence[0].title.is_empty() && !observation.evidence[0].text.is_empty()
        );
        let verdict = hop.verdict.as_ref().unwrap();
        assert_eq!(verdict.accepted, hop.kind() == CommitKind::Accepted);
        assert!(!verdict.rule.is_empty());
        let times = hop.times.as_ref().unwrap();
        assert!(
            times.target_ms >= 40.0 && times.speculation_ms.unwrap() >= 4.0,
            "{times:?}"
        );
        assert!(
            times.read_ms < times.target_ms && times.segment_ms >= 2.0,
            "{times:?}"
        );
    }
    assert_eq!(answer.hops[1].guess.as_deref(), Some("fiction 1"));
    assert!(answer.elapsed_ms >= 80.0 && answer.final_segment_ms >= 2.0);
    let usage = answer.usage.unwrap();
    // What was built on the wrong guess is wasted, and counted.
    assert!(
        usage.targets.unwrap().started > 3 && usage.targets.unwrap().wasted > 0,
        "{usage:?}"
    );
    assert!(usage.segments.unwrap().prompt_tokens > 0);
    // Everything is said, be it asked for or not.
    let applied = options(&answer);
    let expected = Options {
        width: Some(Width::K(3)),
        hop_budget: Some(6),
        top_passages: Some(5),
        verifier: VerifierMode::Rule.into(),
        speculator: Some("llm".to_owned()),
        salvage: Some(true),
        plan_ahead: Some(false),
        guesses: Some(1),
        chance_min: Some(0.0),
        not_found_max: Some(1),
        drafts: Some(0),
        effort: Effort::Normal.into(),
        fresh: false,
        quiet: false,
    };
    assert_eq!(applied, expected);
    assert_eq!(answer.injected_latency, None);
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_decides_how() {
    let server = Server::start(Script::steady(&[true, true, true], 1, 10, 2)).await;

    let standard = server.ask(at(1)).await.unwrap();
    assert_eq!(standard.usage.unwrap().speculations.unwrap().started, 0);
    assert!(
        standard
            .hops
            .iter()
            .all(|hop| hop.kind() == CommitKind::Observed)
    );

    // Guesses that say nothing are certain to nobody: they are made, and nothing is built upon them.
    let shut = question().with(|asked| asked.chance_min = Some(1.0));
    let shut = server.ask(shut).await.unwrap();
    assert!(
        shut.hops
            .iter()
            .all(|hop| hop.kind() == CommitKind::Observed)
    );
    assert_eq!(shut.usage.unwrap().targets.unwrap().wasted, 0);
    assert_eq!(options(&shut).chance_min, Some(1.0));

    let silent = question().with(|asked| asked.speculator = Some("none".into()));
    let silent = server.ask(silent).await.unwrap();
    assert_eq!(silent.usage.unwrap().speculations.unwrap().started, 0);
    assert_eq!(options(&silent).speculator.as_deref(), Some("none"));

    let request = question().with(|asked| {
        asked.width = Some(Width::UNBOUNDED);
        asked.top_passages = Some(1);
        asked.verifier = VerifierMode::Exact.into();
    });
    let unbounded = server.ask(request).await.unwrap();
    let applied = options(&unbounded);
    assert_eq!(applied.width, Some(Width::UNBOUNDED));
    assert_eq!(applied.verifier(), VerifierMode::Exact);
    assert!(
        unbounded
            .hops
            .iter()
            .all(|hop| hop.observation.as_ref().unwrap().evidence.len() == 1)
    );
    assert_eq!(unbounded.answer, standard.answer);

    let short = server
        .ask(question().with(|asked| asked.hop_budget = Some(1)))
        .await
        .unwrap();
    assert_eq!(
        (short.hops.len(), short.stop_reason()),
        (1, StopReason::HopBudget)
    );

    let budget = spechop_proto::Budget {
        target_calls: Some(1),
        ..Default::default()
    };
    let request = AskRequest {
        budget: Some(budget),
        ..at(1)
    };
    let poor = server.ask(request).await.unwrap();
    assert_eq!(
        (poor.hops.len(), poor.stop_reason()),
        (1, StopReason::Budget)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_latency_is_there_and_is_labelled() {
    let toml = "[target.injected_latency]\nmean_ms = 60.0\nseed = 9";
    let server = Server::configured(Script::instant(2), toml).await;
    let answer = server.ask(at(1)).await.unwrap();
    let label = answer.injected_latency.unwrap();
    assert_eq!((label.mean_ms, label.sigma_ms, label.seed), (60.0, 0.0, 9));
    assert!(
        answer
            .hops
            .iter()
            .all(|hop| hop.times.as_ref().unwrap().target_ms >= 60.0)
    );
    assert!(Duration::from_secs_f64(answer.elapsed_ms / 1000.0) >= Duration::from_millis(120));
}

/// An infinite k would leave the sum of all of them infinite.
#[tokio::test(flavor = "multi_thread")]
async fn the_k_of_an_unbounded_question_is_how_wide_it_became() {
    let server = Server::start(Script::steady(&[true, true], 5, 20, 1)).await;
    let unbounded = question().with(|asked| asked.width = Some(Width::UNBOUNDED));
    server.ask(unbounded).await.unwrap();
    let page = get(&server, "/metrics").await.text().await.unwrap();
    let sum = |name: &str| {
        let name = format!("spechop_{name}_sum ");
        let sum = page.lines().find_map(|line| line.strip_prefix(&*name));
        sum.unwrap().to_owned()
    };
    assert_eq!(sum("question_k"), sum("question_branches"));
}
