//! What the last questions would have taken.

use std::num::NonZeroUsize;

use spechop_sim::{History, Past, PastGuess, PastHop, Rules, draft_chance, mentioned, what_if};
use spechop_types::{Chance, Observation};
use spechop_window::{Policy, Width};

fn width(k: usize) -> Width {
    NonZeroUsize::new(k).map_or(Width::UNBOUNDED, Width::bounded)
}

/// Segment 100 ms, target 1,000 ms, final segment 100 ms.
fn past(guesses: &[PastGuess]) -> Past {
    let hop = |guess: &PastGuess| PastHop {
        draft_held: None,
        segment_ms: 100.0,
        target_ms: 1_000.0,
        guess: *guess,
        depends_on: None,
    };
    Past {
        hops: guesses.iter().map(hop).collect(),
        final_ms: 100.0,
    }
}

fn guess(accepted: bool) -> PastGuess {
    said(accepted, None)
}

fn said(accepted: bool, confidence: Option<f64>) -> PastGuess {
    PastGuess::Compared {
        ms: 50.0,
        accepted,
        confidence,
    }
}

#[test]
fn any_k_is_answered_for() {
    let mut history = History::default();
    assert!(what_if(&history.recorded().traces, [Rules::paper(width(2))]).is_empty());
    history.push(past(&[guess(true); 3]));
    let recorded = history.recorded();
    assert_eq!(recorded.made_up, 0.0);
    let answers = what_if(
        &recorded.traces,
        [1, 2, 4, 0].map(|k| Rules::new(width(k), Policy::EAGER)),
    );
    let latencies: Vec<f64> = answers.iter().map(|answer| answer.latency_ms).collect();
    // The timelines of `simulate.rs`.
    assert_eq!(latencies, [3_400.0, 2_200.0, 1_400.0, 1_400.0]);
    assert_eq!(answers[0].rel_lat, 1.0);
    assert_eq!(answers[2].rel_lat, 1_400.0 / 3_400.0);
    assert_eq!(
        (
            answers[2].segments,
            answers[2].targets,
            answers[2].speculations
        ),
        (4.0, 3.0, 3.0)
    );
    assert_eq!(answers[3].width, Width::UNBOUNDED);
}

#[test]
fn unknown_guesses_take_turns_among_the_known() {
    let mut history = History::new(10);
    history.push(past(&[PastGuess::Untried; 4]));
    // Nothing is known of guesses: nothing is gained by them.
    let recorded = history.recorded();
    assert_eq!(recorded.made_up, 1.0);
    assert_eq!(
        what_if(&recorded.traces, [Rules::paper(width(4))])[0].rel_lat,
        1.0
    );
    history.push(past(&[guess(true), guess(false), guess(true), guess(true)]));
    let recorded = history.recorded();
    assert_eq!(recorded.made_up, 0.5);
    let right = |at: usize| -> Vec<bool> {
        recorded.traces[at]
            .hops
            .iter()
            .map(|hop| hop.accepted)
            .collect()
    };
    assert_eq!(right(0), [true, false, true, true]);
    assert_eq!(right(0), right(1));
    assert_eq!(history.recorded(), recorded);
}

#[test]
fn late_guesses_and_no_ideas_gain_nothing() {
    for guess in [PastGuess::Late, PastGuess::NoIdea { ms: 50.0 }] {
        let mut history = History::default();
        history.push(past(&[guess; 3]));
        let recorded = history.recorded();
        assert_eq!(recorded.made_up, 0.0);
        let answer = what_if(&recorded.traces, [Rules::paper(width(4))])[0];
        assert_eq!((answer.rel_lat, answer.targets), (1.0, 3.0), "{guess:?}");
    }
}

#[test]
fn it_keeps_the_last_and_passes_over_nonsense() {
    let mut history = History::new(2);
    assert!(history.is_empty());
    for hops in 1..=3 {
        history.push(past(&vec![guess(true); hops]));
    }
    let mut nonsense = past(&[guess(true)]);
    nonsense.final_ms = f64::NAN;
    history.push(nonsense);
    history.push(past(&[said(true, Some(1.5))]));
    history.push(past(&[said(true, Some(f64::NAN))]));
    let mut nonsense = past(&[guess(true)]);
    nonsense.hops[0].depends_on = Some([1].into());
    history.push(nonsense);
    let lengths: Vec<usize> = history
        .recorded()
        .traces
        .iter()
        .map(|trace| trace.hops.len())
        .collect();
    assert_eq!((history.len(), lengths), (2, vec![2, 3]));
}

#[test]
fn any_gate_is_answered_for() {
    let mut history = History::default();
    let unsure = said(false, Some(0.2));
    history.push(past(&[guess(true), unsure, guess(true)]));
    let recorded = history.recorded();
    let said: Vec<_> = recorded.traces[0]
        .hops
        .iter()
        .map(|hop| hop.confidence)
        .collect();
    assert_eq!(said, [None, Some(0.2), None]);
    let rules = [0.0, 0.3].map(|share| {
        let policy = Policy {
            chance_min: Chance::of(share),
            ..Policy::EAGER
        };
        Rules::new(width(0), policy)
    });
    let [open, gate] = what_if(&recorded.traces, rules)[..] else {
        panic!("two rules, two answers");
    };
    // What stood on the wrong guess is not begun: its look-up, its guess, two segments.
    assert_eq!(gate.latency_ms, open.latency_ms);
    assert_eq!((open.targets, gate.targets), (4.0, 3.0));
    assert!(gate.segments < open.segments);
}

#[test]
fn drafts_are_taken_for_what_they_were_worth() {
    let mut history = History::default();
    assert_eq!(history.draft_chance(), Chance::EVEN);
    // Of a hop without a draft nothing is learnt.
    let mut drafted = past(&[guess(false); 5]);
    let held = [Some(true), Some(false), None, Some(true), Some(true)];
    for (hop, held) in drafted.hops.iter_mut().zip(held) {
        hop.draft_held = held;
    }
    history.push(past(&[guess(true); 3]));
    assert_eq!(history.draft_chance(), Chance::EVEN);
    history.push(drafted);
    assert_eq!(history.draft_chance(), Chance::of(0.75));
    let traces = history.recorded().traces;
    let hops = traces.iter().flat_map(|trace| &trace.hops);
    let played = draft_chance(hops.map(|hop| hop.draft_held));
    assert_eq!(played, Chance::of(0.75));
}

#[test]
fn a_sub_question_is_made_of_what_it_mentions_or_asks_in_place_of() {
    const NOTHING: &str = Observation::NOTHING;
    for (asked, answers, made_of) in [
        (
            "Who is the mother of Ann Lee?",
            &["Ann Lee", "Bo"][..],
            &[1][..],
        ),
        // In other letters, and with an ending.
        ("Who played queen victoria?", &["Queen Victoria"], &[1]),
        (
            "What is Sweden's largest lake?",
            &["Sweden", "Lake Vänern"],
            &[1],
        ),
        ("Where is Łódź?", &["Lodz"], &[1]),
        // A word is no part of another one.
        ("Who is north of it?", &["no", "!"], &[]),
        // Where nothing was found something else is asked, but only at once.
        ("Who sang it?", &["Bo", NOTHING], &[2]),
        ("Who sang it?", &[NOTHING, "Bo"], &[]),
    ] {
        assert_eq!(*mentioned(asked, answers), *made_of, "{asked}");
    }
}
