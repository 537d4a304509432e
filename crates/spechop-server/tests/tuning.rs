//! k by choice, tenants, prices, and what operators see of it all: over the wire, as they would.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use spechop_proto::admin_client::AdminClient;
use spechop_proto::options::Width;
use spechop_proto::{
    Activity, AskRequest, Estimate, GetTuningRequest, GetTuningResponse, Options, Refusal, Stage,
    StopReason, WhatIfRequest, WhatIfResponse, ask_event::Event,
};
use spechop_testkit::Script;
use tonic::{Code, Response};
use tonic_types::StatusExt;

use crate::support::{
    Server, at, config, endless, eventually, finish, named, of, options, question,
};

fn auto() -> AskRequest {
    question().with(|asked| asked.width = Some(Width::AUTO))
}

/// Three hops, quick guesses, slow look-ups.
fn script(right: &[bool]) -> Script {
    Script::steady(right, 2, 40, 2)
}

#[tokio::test]
async fn k_is_chosen_by_what_was_seen_and_the_stream_says_why() {
    let server = Server::start(script(&[true, true, true])).await;
    for n in 0..6 {
        let answer = server.ask(auto()).await.unwrap();
        let applied = options(&answer);
        let tuned = answer.applied.unwrap().tuned.unwrap();
        assert_eq!(applied.width, Some(Width::K(tuned.k)));
        assert!(!tuned.reason.is_empty());
        // Nothing is known before the first question, and nothing is made up.
        let known = [tuned.p, tuned.alpha, tuned.beta].map(|of| of.is_some());
        assert_eq!(known, [n > 0; 3]);
    }
    let mut stream = server.stream(auto()).await;
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.sequence, 1);
    let Some(Event::Tuned(tuned)) = first.event else {
        panic!("not {first:?}");
    };
    assert!(tuned.k > 1, "every guess is right: {}", tuned.reason);
    assert!(tuned.reason.contains("saves"), "{}", tuned.reason);
    // And by which estimates: those that operators are told.
    let (p, alpha, beta) = (tuned.p, tuned.alpha, tuned.beta);
    let second = stream.message().await.unwrap().unwrap();
    assert_eq!(second.sequence, 2);
    drop(stream);

    let mut admin = AdminClient::new(server.channel().await);
    let tunings = admin.get_tuning(GetTuningRequest {}).await.unwrap();
    let [tuning] = tunings.into_inner().tunings.try_into().unwrap();
    assert_eq!((tuning.speculator.as_str(), tuning.hops), ("llm", 18));
    assert!(tuning.p.unwrap().value > 0.99);
    let value = |of: Option<Estimate>| of.map(|estimate| estimate.value);
    assert_eq!(
        (p, alpha, beta),
        (value(tuning.p), value(tuning.alpha), value(tuning.beta))
    );
    assert!(alpha.unwrap() < 1.0, "a guess is faster than a look-up");
    assert!(tuning.promises[1].rel_lat < tuning.promises[0].rel_lat);
}

#[tokio::test]
async fn speculation_that_never_pays_is_switched_off() {
    let server = Server::configured(script(&[false, false]), "[question]\nk = \"auto\"").await;
    let mut last = None;
    for _ in 0..40 {
        let applied = server.ask(question()).await.unwrap().applied.unwrap();
        last = applied.tuned.filter(|tuned| tuned.k == 1).or(last);
    }
    let reason = last.unwrap().reason;
    assert!(reason.contains("off"), "{reason}");
    // Whoever names a k gets it.
    let answer = server.ask(at(2)).await.unwrap();
    assert_eq!(options(&answer).width, Some(Width::K(2)));
    assert_eq!(answer.applied.unwrap().tuned, None);
}

#[tokio::test]
async fn what_if_answers_for_other_ks_from_the_last_questions() {
    // So slow that the machine's own time hardly counts beside them.
    let server = Server::start(Script::steady(&[true, true, true], 2, 200, 2)).await;
    for k in [1, 3, 3] {
        server.ask(at(k)).await.unwrap();
    }
    let mut admin = AdminClient::new(server.channel().await);
    let asked = WhatIfRequest {
        k: vec![1, 4],
        ..WhatIfRequest::default()
    };
    let found = admin.what_if(asked).await.unwrap().into_inner();
    assert_eq!(found.questions, 3);
    assert!((0.2..0.5).contains(&found.filled_in), "{}", found.filled_in);
    let [one, four] = found.outcomes.try_into().unwrap();
    assert!((one.rel_lat - 1.0).abs() < 1e-9);
    assert!(one.mean_ms > 600.0 && (one.targets - 3.0).abs() < 1e-9);
    assert!(four.rel_lat < 0.6, "{}", four.rel_lat);
    for (k, wrong) in [
        (vec![0], Code::InvalidArgument),
        (vec![1; 17], Code::InvalidArgument),
    ] {
        let asked = WhatIfRequest {
            k,
            ..WhatIfRequest::default()
        };
        assert_eq!(admin.what_if(asked).await.unwrap_err().code(), wrong);
    }
    let mut what_if = async |options| {
        let asked = WhatIfRequest {
            k: vec![4],
            options: Some(options),
        };
        admin.what_if(asked).await.map(Response::into_inner)
    };
    let nobody = Options {
        speculator: Some("oracle".into()),
        ..Options::default()
    };
    let refused = what_if(nobody).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("llm"), "{}", refused.message());
    let unused = Options {
        speculator: Some("none".into()),
        salvage: Some(false),
        chance_min: Some(1.0),
        ..Options::default()
    };
    assert_eq!(what_if(unused).await.unwrap().questions, 0);
    let unknown = Options {
        guesses: Some(2),
        chance_min: Some(2.0),
        ..Options::default()
    };
    let refused = what_if(unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let details = refused.get_details_bad_request().unwrap();
    let named = details.field_violations.iter().map(|wrong| &*wrong.field);
    let named: Vec<_> = named.collect();
    assert_eq!(named, ["options.chance_min", "options.guesses"]);
    // As a question that says so.
    let impossible = Options {
        salvage: Some(false),
        plan_ahead: Some(true),
        ..Options::default()
    };
    let refused = what_if(impossible).await.unwrap_err();
    let details = refused.get_details_bad_request().unwrap();
    assert_eq!(details.field_violations[0].field, "options.plan_ahead");
}

/// What operators are told: of the estimates, and of other ks.
async fn told(server: &Server) -> (GetTuningResponse, WhatIfResponse) {
    let mut admin = AdminClient::new(server.channel().await);
    let tuning = admin.get_tuning(GetTuningRequest {}).await.unwrap();
    let what_if = admin.what_if(WhatIfRequest::default()).await.unwrap();
    (tuning.into_inner(), what_if.into_inner())
}

#[tokio::test]
async fn what_was_learnt_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tuning.json");
    let config = config(&format!(
        "[tuning]\nstate = {:?}",
        file.display().to_string()
    ));
    let start = |right: &[bool]| Server::of(script(right), config.clone());
    let mut first = start(&[true, false, true]).await;
    for _ in 0..6 {
        first.ask(auto()).await.unwrap();
    }
    let before = told(&first).await;
    assert_eq!(before.0.tunings[0].hops, 18);
    assert_eq!(before.1.questions, 6);
    first.shut_down();
    first.ended().await.unwrap();
    let written = std::fs::read_to_string(&file).unwrap();
    let asked = question().question;
    assert!(!written.contains(&asked), "a question's words in {written}");

    let second = start(&[true, false, true]).await;
    assert_eq!(told(&second).await, before);
    drop(second);

    // A damaged file: said in the log, and begun anew.
    std::fs::write(&file, &written[..written.len() / 2]).unwrap();
    let third = start(&[true]).await;
    third.ask(auto()).await.unwrap();
    assert_eq!(told(&third).await.0.tunings[0].hops, 1);
}

#[tokio::test]
async fn a_tenant_spends_no_more_than_it_may() {
    let server = Server::configured(script(&[true, true]), "[tenant]\ntarget_calls = 5").await;
    let ask = |tenant: &'static str| {
        let request = AskRequest {
            budget: Some(spechop_proto::Budget {
                target_calls: Some(4),
                ..spechop_proto::Budget::default()
            }),
            ..at(1)
        };
        let client = server.client();
        async move { client.await.ask(of(tenant, request)).await }
    };
    assert_eq!(ask("a").await.unwrap().into_inner().hops.len(), 2);
    assert_eq!(ask("a").await.unwrap().into_inner().hops.len(), 2);
    // One call is left: one hop, then the answer from that.
    assert_eq!(ask("a").await.unwrap().into_inner().hops.len(), 1);
    let refused = ask("a").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(
        refused.message().contains("tenant a"),
        "{}",
        refused.message()
    );
    assert_eq!(ask("b").await.unwrap().into_inner().hops.len(), 2);
    assert_eq!(ask("a b").await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn metrics_count_what_was_used_and_what_was_wasted() {
    let toml = "[prices.target]\ncall_micros = 100";
    let server = Server::configured(script(&[true, false, true]), toml).await;
    let answer = server.ask(at(3)).await.unwrap();
    let usage = answer.usage.unwrap();
    let targets = usage.targets.unwrap();
    assert_eq!(targets.money_micros, u64::from(targets.started) * 100);
    assert!(targets.wasted_time_ms > 0.0 || targets.wasted == 0);
    let read = answer.activities.iter();
    let mut read = read.filter(|time| time.activity() == Activity::Read);
    let read_ms = read.next().unwrap().time_ms;
    assert!(read_ms > 0.0 && read_ms < targets.time_ms);

    let page = server.metrics().await;
    let used = targets.started - targets.wasted;
    for line in [
        "spechop_questions_total{outcome=\"answered\"} 1".to_owned(),
        format!("spechop_calls_total{{stage=\"target\",fate=\"used\"}} {used}"),
        format!(
            "spechop_money_micros_total{{stage=\"target\",fate=\"used\"}} {}",
            used * 100
        ),
        "spechop_backend_running_authoritative{backend=\"generator\"} 0".to_owned(),
        "spechop_hop_activity_seconds_count{activity=\"read\"} 3".to_owned(),
        "spechop_activity_seconds_total{stage=\"target\",activity=\"scan\",fate=\"used\"} "
            .to_owned(),
        "# EOF".to_owned(),
    ] {
        assert!(page.contains(&line), "no {line} in\n{page}");
    }

    let backends = server.backends().await;
    let retriever = backends.iter().find(|b| b.name == "retriever").unwrap();
    assert_eq!(retriever.started, u64::from(targets.started));
    assert_eq!(
        (
            retriever.running_authoritative,
            retriever.running_speculative
        ),
        (0, 0)
    );
}

#[tokio::test]
async fn metrics_count_what_a_question_has_cost_that_went_away() {
    let server = Server::start(endless()).await;
    let mut client = server.client().await;
    tokio::select! {
        _ = client.ask(question()) => panic!("there is no end to it"),
        // A segment, its look-up, a guess, and the segment that is built on it.
        () = eventually(|| server.ports.started() >= 4) => {}
    }
    server.is_idle().await;
    let page = server.metrics().await;
    let count = |line: &str| {
        let found = page.lines().find_map(|found| found.strip_prefix(line));
        found.map_or(0, |number| number.trim().parse::<u64>().unwrap())
    };
    assert_eq!(count("spechop_questions_total{outcome=\"cancelled\"}"), 1);
    let calls = |stage: &str, fate: &str| {
        count(&format!(
            "spechop_calls_total{{stage=\"{stage}\",fate=\"{fate}\"}}"
        ))
    };
    for stage in ["segment", "target", "speculation"] {
        assert!(calls(stage, "wasted") >= 1, "{stage} in\n{page}");
        assert_eq!(calls(stage, "used"), 0, "{stage}");
    }
    // Those that had ended by then: 12 tokens each.
    let tokens = count("spechop_tokens_total{stage=\"segment\",fate=\"wasted\"}");
    assert!(tokens >= 12 && tokens % 12 == 0, "{tokens}");
}

#[tokio::test]
async fn what_was_not_done_ahead_of_need_is_streamed_reported_and_measured() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.toml");
    let rules = [
        ("planner", "full"),
        ("retriever", "full"),
        ("reader", "never"),
    ];
    let rules = rules
        .map(|(tool, grade)| format!("{tool} = {{ grade = {grade:?}, idempotence = \"safe\" }}\n"));
    std::fs::write(&policy, rules.concat()).unwrap();
    let toml = format!("[scheduler]\npolicy = {policy:?}");
    let server = Server::configured(script(&[true, true, true]), &toml).await;
    let (events, answer) = server.told(at(3)).await;
    let mut told = BTreeMap::new();
    for event in events {
        match event.event {
            Some(Event::NotSpeculated(not)) => {
                *told.entry((not.stage(), not.reason())).or_insert(0) += 1;
            }
            Some(Event::Failed(failed)) => panic!("{failed:?} is no failure"),
            _ => {}
        }
    }
    let reported = answer
        .refused
        .iter()
        .map(|of| ((of.stage(), of.reason()), of.times));
    assert_eq!(reported.collect::<BTreeMap<_, _>>(), told);
    // No tool that the policy does not name may be called ahead: nobody guessed.
    let guesses = told[&(Stage::Speculation, Refusal::Denied)];
    assert_eq!((guesses, told.len()), (3, 1));

    let page = server.metrics().await;
    for line in [
        "spechop_refused_total{stage=\"speculation\",reason=\"denied\"} 3",
        "spechop_refused_total{stage=\"target\",reason=\"no_place\"} 0",
        "spechop_backend_refused_total{backend=\"speculator\",reason=\"denied\"} 3",
        "spechop_backend_refused_total{backend=\"retriever\",reason=\"preempted\"} 0",
    ] {
        assert!(page.contains(line), "no {line} in\n{page}");
    }
    let backends = server.backends().await;
    let speculator = backends.iter().find(|b| b.name == "speculator").unwrap();
    let refused = speculator.refused.iter().map(|of| (of.reason(), of.times));
    assert_eq!(refused.collect::<Vec<_>>(), [(Refusal::Denied, 3)]);
}

#[tokio::test]
async fn a_question_is_finished_early_by_its_name() {
    // Two hops are there soon, the third never.
    let mut script = script(&[true; 6]);
    script.hops[2].target = endless().hops[0].target;
    let server = Server::start(script).await;
    let asked = named("q-1").with(|asked| {
        asked.hop_budget = Some(6);
        asked.width = Some(Width::K(1));
    });
    let mut client = server.client().await;
    let mut stream = server.stream(asked.clone()).await;
    let twice = client.ask(asked).await.unwrap_err();
    assert_eq!(twice.code(), Code::InvalidArgument);
    for (id, code) in [
        ("q-2", Code::NotFound),
        ("", Code::InvalidArgument),
        ("a b", Code::InvalidArgument),
    ] {
        let refused = client.finish_now(finish(id)).await.unwrap_err();
        assert_eq!(refused.code(), code, "{id:?}");
    }
    let mut answer = None;
    while let Some(event) = stream.message().await.unwrap() {
        match event.event {
            Some(Event::Committed(_)) if event.hop == 2 => {
                client.finish_now(finish("q-1")).await.unwrap();
            }
            Some(Event::Answer(last)) => answer = Some(last),
            _ => {}
        }
    }
    let answer = answer.unwrap();
    assert_eq!(answer.hops.len(), 2);
    assert_eq!(answer.stop_reason(), StopReason::Budget);
    // The name is free again.
    let refused = client.finish_now(finish("q-1")).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}
