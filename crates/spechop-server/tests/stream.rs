//! `AskStream`: everything that happens, in order, and the answer last.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;

use crate::support::{Server, at, eventually, failure, options, question};
use spechop_proto::ask_event::Event;
use spechop_testkit::Script;
use tonic::Code;

/// The third hop needs neither before it; the first guess is wrong.
fn independent() -> Script {
    let mut script = Script::steady(&[false, true, true], 2, 80, 4);
    script.hops[2].depends_on = Some(Vec::new());
    script
}

#[tokio::test(flavor = "multi_thread")]
async fn salvage_is_told_counted_and_can_be_switched_off() {
    let server = Server::start(independent()).await;
    for (salvage, taken) in [(None, 1), (Some(true), 1), (Some(false), 0)] {
        let request = at(4).with(|asked| asked.salvage = salvage);
        let (events, answer) = server.told(request).await;
        let salvaged: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.event {
                Some(Event::Salvaged(salvaged)) => Some((event.hop, salvaged.saved_ms)),
                _ => None,
            })
            .collect();
        assert_eq!(salvaged.len(), taken, "{salvaged:?}");
        assert!(
            salvaged
                .iter()
                .all(|(hop, saved_ms)| *hop == 3 && *saved_ms > 0.0)
        );
        let hops: Vec<_> = answer.hops.iter().map(|hop| hop.salvaged).collect();
        assert_eq!(hops, [false, false, taken == 1]);
        assert_eq!(answer.usage.as_ref().unwrap().salvaged as usize, taken);
        assert_eq!(options(&answer).salvage, Some(taken == 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_numbered_ordered_and_end_with_the_answer() {
    let server = Server::start(Script::steady(&[true, false, true], 2, 40, 4)).await;
    let mut stream = server.stream(question()).await;
    let mut events = Vec::new();
    while let Some(event) = stream.message().await.unwrap() {
        events.push(event);
    }

    let numbers: Vec<_> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert!(events.is_sorted_by(|a, b| a.at_ms <= b.at_ms));

    let (last, before) = events.split_last().unwrap();
    let Some(Event::Answer(answer)) = &last.event else {
        panic!("{last:?} is no answer")
    };
    assert_eq!(answer.answer, "so fact 2");
    assert!(
        before
            .iter()
            .all(|event| !matches!(event.event, Some(Event::Answer(_)) | None))
    );

    // A draft says how likely it is to become the answer, and the answer how likely it was then.
    let mut drafts = Vec::new();
    for event in before {
        if let Some(Event::Drafted(drafted)) = &event.event {
            let is_certain = drafted.chance == 1.0;
            assert!(drafted.chance > 0.0 && is_certain != event.provisional);
            drafts.push((&drafted.answer, drafted.chance));
        }
    }
    let first = answer.first_answer.unwrap();
    assert!(first.chance < 1.0 && drafts.contains(&(&answer.answer, first.chance)));

    // Every branch begins with its first segment.
    let mut begun = BTreeSet::new();
    for event in before {
        let launched = matches!(event.event, Some(Event::Launched(_)));
        assert!(launched || begun.contains(&event.branch), "{event:?}");
        begun.insert(event.branch);
    }
    // Committed hops are final, in order, and those of the answer.
    let committed: Vec<_> = before
        .iter()
        .filter_map(|event| match &event.event {
            Some(Event::Committed(committed)) => {
                assert!(!event.provisional);
                let so_far = committed.usage.and_then(|usage| usage.targets);
                let all = answer.usage.and_then(|usage| usage.targets);
                assert!(so_far.unwrap().started <= all.unwrap().started);
                committed.hop.as_ref()
            }
            _ => None,
        })
        .collect();
    assert_eq!(committed.len(), answer.hops.len());
    for (early, late) in committed.iter().zip(&answer.hops) {
        assert_eq!(early.sub_question, late.sub_question);
        assert_eq!(early.observation, late.observation);
    }
    // The wrong guess was acted upon, provisionally, and taken back.
    let rolled_back: BTreeSet<_> = before
        .iter()
        .filter(|event| matches!(event.event, Some(Event::RolledBack(_))))
        .map(|event| event.branch)
        .collect();
    assert!(!rolled_back.is_empty());
    for event in before
        .iter()
        .filter(|event| rolled_back.contains(&event.branch))
    {
        assert!(
            !matches!(event.event, Some(Event::Committed(_))),
            "{event:?}"
        );
    }
    assert!(before.iter().any(|event| event.provisional));
    server.is_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_slows_nothing() {
    let server = Server::start(Script::steady(&[true; 6], 1, 5, 1)).await;
    let mut stream = server.stream(question()).await;
    eventually(|| server.gauges.questions_open() == 0).await;
    let mut last = None;
    while let Some(event) = stream.message().await.unwrap() {
        last = event.event;
    }
    assert!(matches!(last, Some(Event::Answer(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_an_answer_ends_with_the_reason() {
    let mut script = Script::instant(1);
    script
        .failures
        .insert((0, spechop_types::Stage::Target), u32::MAX);
    let server = Server::start(script).await;
    let status = failure(server.stream(question()).await).await;
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("target stage"), "{status}");
    server.is_idle().await;
}
