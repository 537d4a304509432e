//! Guesses and verdicts that somebody brings, over a bundle that has none of its own.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use crate::recording::{in_memory, paused, question, record, recorded, recorder, variant};
use proptest::prelude::*;
use spechop_eval::{
    Brought, Bundle, Control, HopCounts, HopKind, Row, Variant, asked, play, play_brought,
};
use spechop_sim::Clock;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::K;

/// Times are so long and so many that no two sums of them are the same.
const STEP_MS: u64 = 40_000_000;

fn counts(hops: u32) -> HopCounts {
    HashMap::from([("q0".to_owned(), Some(hops))])
}

/// The best guesses of a script, as somebody else would bring them.
fn guesses(script: &Script) -> String {
    let mut lines = String::new();
    for (at, hop) in (1..).zip(&script.hops) {
        if let Some(guess) = hop.guesses.first() {
            let ms = hop.speculation.as_millis();
            writeln!(
                lines,
                r#"{{"question":"q0","hop":{at},"guess":"{guess}","ms":{ms}}}"#
            )
            .unwrap();
        }
    }
    lines
}

fn brought(guesses: &str, verdicts: Option<&str>, hops: usize) -> Brought {
    let mut brought = Brought::default();
    let counts = counts(u32::try_from(hops).unwrap());
    let read = brought.read_guesses("mine", "a file", guesses.as_bytes(), &counts);
    read.unwrap();
    if let Some(verdicts) = verdicts {
        let read = brought.read_verdicts("judge", "a file", verdicts.as_bytes(), &counts);
        read.unwrap();
    }
    brought
}

fn played(bundle: &Bundle, way: &Variant, brought: &Brought) -> Row {
    let question = &bundle.questions()[0];
    play_brought(&mut Clock::new(), bundle, question, way, None, brought).unwrap()
}

fn mine(way: &Variant) -> Variant {
    way.clone().with_speculator("mine")
}

fn time(steps: u64) -> impl Strategy<Value = u64> {
    (0..steps, 0..STEP_MS / 4).prop_map(|(steps, rest)| steps * STEP_MS + rest * 4)
}

/// Times of a hop's three stages, whether its guess is right (or there is none), and what it is made of.
fn scripts() -> impl Strategy<Value = Script> {
    let hop = (
        [time(10), time(20), time(20)],
        proptest::option::weighted(0.85, any::<bool>()),
        prop_oneof![0..4_u8, any::<u8>()],
    );
    proptest::collection::vec(hop, 1..6).prop_map(|hops| {
        let mut script = Script::steady(&vec![true; hops.len()], 0, 0, 0);
        for (at, (scripted, (times, right, needs))) in script.hops.iter_mut().zip(hops).enumerate()
        {
            let times = times.map(Duration::from_millis);
            [scripted.segment, scripted.target, scripted.speculation] = times;
            let earlier = (0..at).filter(|earlier| needs >> earlier & 1 == 1);
            scripted.depends_on = Some(earlier.collect());
            scripted.guesses = match right {
                Some(true) => vec![format!("fact {at}")],
                Some(false) => vec![format!("fiction {at}")],
                None => Vec::new(),
            };
        }
        script.final_segment = Duration::from_millis(52);
        script
    })
}

fn ways() -> impl Strategy<Value = Variant> {
    let k = proptest::option::weighted(0.7, 2..6_usize);
    (k, any::<[bool; 2]>()).prop_map(|(k, [salvage, rounds])| {
        let mut way = Variant::at(k.and_then(K::of).unwrap_or(K::Unbounded));
        way.options.salvage = Some(salvage);
        Variant { rounds, ..way }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Guesses that are brought to a bundle of the sequential agent alone do what they would have done,
    /// had they been recorded: stand-ins change neither times nor calls.
    #[test]
    fn brought_is_recorded(script in scripts(), way in ways()) {
        let hops = script.hops.len();
        let (alone, whole) = paused().block_on(async {
            let mut recorder = recorder(&ScriptedPorts::new(script.clone()));
            let mut alone = in_memory(question(8));
            record(&mut recorder, &mut alone, &Variant::standard()).await.unwrap();
            let mut whole = in_memory(question(8));
            (alone, record(&mut recorder, &mut whole, &way).await.unwrap())
        });
        let row = played(&alone, &mine(&way), &brought(&guesses(&script), None, hops));
        prop_assert_eq!(&row.answer, &whole.answer);
        prop_assert_eq!(row.unrecorded, 0, "guesses are right to the word, or rejected");
        let kinds = |row: &Row| row.hops.iter().map(|hop| hop.kind).collect::<Vec<_>>();
        prop_assert_eq!(kinds(&row), kinds(&whole));
        prop_assert_eq!(row.segments.started, whole.segments.started);
        prop_assert_eq!(row.targets.started, whole.targets.started);
        prop_assert_eq!(row.salvaged, whole.salvaged);
        // tokio's timers are exact to a millisecond each.
        let slack_ms = 4.0 * (hops as f64 + 1.0);
        prop_assert!((row.latency_ms - whole.latency_ms).abs() <= slack_ms, "{row:?}\n{whole:?}");
    }
}

/// Behind a wrong guess the look-up of the second hop ends before that of the first one, and a branch is built
/// on what it finds; or the second hop is guessed as wrongly as it will be on the right way. Nobody knows what
/// is found or guessed there, so the third hop's look-up is not the sequential agent's.
#[tokio::test(start_paused = true)]
async fn what_a_wrong_branch_finds_leads_nowhere_else() {
    let mut script = steady(&[false, true, true]);
    script.hops[0].target = Duration::from_secs(5);
    script.hops[1].guesses.clear();
    script.hops[2].guesses.clear();
    let alone = recorded(&script, question(5), &["k=1"]).await;
    let whole = recorded(&script, question(5), &["k=1", "k=inf"]).await;
    let known = played(&whole, &variant("k=inf"), &Brought::default());
    let row = played(
        &alone,
        &mine(&variant("k=inf")),
        &brought(&guesses(&script), None, 3),
    );
    for row in [&known, &row] {
        assert_eq!((row.targets.started, row.salvaged), (5, 0), "{row:?}");
    }

    script.hops[1].guesses = vec!["fiction 1".into()];
    let alone = recorded(&script, question(5), &["k=1"]).await;
    let whole = recorded(&script, question(5), &["k=1", "k=inf"]).await;
    let known = played(&whole, &variant("k=inf"), &Brought::default());
    let brought = brought(&guesses(&script), None, 3);
    let row = played(&alone, &mine(&variant("k=inf")), &brought);
    for row in [&known, &row] {
        assert_eq!((row.targets.started, row.salvaged), (6, 0), "{row:?}");
    }
}

/// Segments take 100 ms, look-ups 1,000 ms, guesses 50 ms.
fn steady(right: &[bool]) -> Script {
    Script::steady(right, 100, 1000, 50)
}

#[tokio::test(start_paused = true)]
async fn an_accepted_guess_in_other_words_hides_the_answer_unless_it_was_recorded() {
    // The rules accept other letters: once nothing was recorded behind them, once all.
    let mut script = steady(&[true, true, true]);
    script.hops[0].guesses = vec!["FACT 0".into()];
    let (standard, way) = (Variant::standard(), variant("k=inf"));
    let alone = recorded(&script, question(5), &["k=1"]).await;
    let whole = recorded(&script, question(5), &["k=1", "k=inf"]).await;
    let brought = brought(&guesses(&script), None, 3);
    let known = played(&whole, &mine(&way), &brought);
    assert_eq!(
        (known.unrecorded, &*known.hops[1].sub_question),
        (0, "q1 after FACT 0?")
    );
    assert!(
        !known.answer.is_empty(),
        "the recording is followed to its end"
    );
    let row = played(&alone, &mine(&way), &brought);
    assert_eq!((row.unrecorded, &*row.answer), (1, ""));
    assert_eq!(row.hops[0].kind, HopKind::Accepted);
    assert_eq!(
        (&*row.hops[0].answer, &*row.hops[0].observed),
        ("FACT 0", "fact 0")
    );
    // What follows is what follows from the observation.
    assert_eq!(row.hops[1].sub_question, "q1 after fact 0?");
    let first = played(&alone, &standard, &brought);
    assert!(first.is_answer_known() && row.latency_ms < first.latency_ms / 2.0);
}

#[tokio::test(start_paused = true)]
async fn verdicts_take_the_place_of_rules_and_take_their_time() {
    let script = steady(&[true, true, false]);
    let bundle = recorded(&script, question(5), &["k=1"]).await;
    // A right guess that is rejected would else be salvaged.
    let way = variant("k=inf,salvage=off");
    let judged = |verdicts: &str| {
        let brought = brought(&guesses(&script), Some(verdicts), 3);
        let ways = brought.beside(&[Variant::standard(), way.clone()]);
        let ways = ways.unwrap();
        let names: Vec<_> = ways.iter().map(ToString::to_string).collect();
        let expected = [
            "k=1",
            "k=inf,salvage=off",
            "k=inf,speculator=mine,salvage=off",
            "k=inf,speculator=mine,salvage=off,verdicts=judge",
        ];
        // Guesses are brought, so verdicts are of them; ours are not recorded here.
        assert_eq!(names, expected);
        played(&bundle, &ways[3], &brought)
    };
    let line = |hop: u32, accept: bool, ms: u32| {
        format!("{{\"question\":\"q0\",\"hop\":{hop},\"accept\":{accept},\"ms\":{ms}}}\n")
    };
    let kinds = |row: &Row| row.hops.iter().map(|hop| hop.kind).collect::<Vec<_>>();
    let rules = played(&bundle, &mine(&way), &brought(&guesses(&script), None, 3));
    // The same verdicts at once are the rules.
    let same = judged(&(line(1, true, 0) + &line(2, true, 0) + &line(3, false, 0)));
    assert_eq!(
        same,
        Row {
            variant: same.variant.clone(),
            ..rules.clone()
        }
    );
    // Each of them is waited for; the last one is a rejection, after which the answer is written again.
    let slow = judged(&(line(1, true, 0) + &line(2, true, 0) + &line(3, false, 300)));
    assert!(
        (slow.latency_ms - rules.latency_ms - 300.0).abs() < 1e-6,
        "{slow:?}"
    );
    // No verdict, no acceptance.
    let silent = judged("");
    assert_eq!(kinds(&silent), [HopKind::Rejected; 3]);
    let standard = played(&bundle, &Variant::standard(), &Brought::default());
    assert!((silent.latency_ms - standard.latency_ms).abs() < 1e-6);
    assert_eq!(silent.answer, standard.answer);
    // Whoever accepts what is wrong gets an answer that nobody knows.
    let fooled = judged(&(line(1, true, 0) + &line(2, true, 0) + &line(3, true, 0)));
    assert_eq!(kinds(&fooled), [HopKind::Accepted; 3]);
    assert_eq!((fooled.unrecorded, &*fooled.answer), (1, ""));
    assert!(fooled.latency_ms < rules.latency_ms);
}

#[tokio::test(start_paused = true)]
async fn controls_gain_nothing_where_every_hop_needs_the_one_before() {
    let script = steady(&[true, true, true]);
    let bundle = recorded(&script, question(5), &["k=1", "k=inf"]).await;
    let of = |which: &[Control]| {
        let mut controls = Brought::default();
        for control in which {
            controls.add_control(*control, &bundle, None);
        }
        controls
    };
    let (blind, controls) = (of(&[Control::Blind]), of(&Control::ALL));
    assert_eq!(
        beside(&blind, &["k=1", "k=inf", "k=2,salvage=off"]),
        "k=1 k=inf k=inf,speculator=blind k=2,salvage=off k=2,speculator=blind,salvage=off"
    );
    assert_eq!(
        beside(&controls, &["k=3,plan-ahead=on"]),
        "k=3,plan-ahead=on k=3,speculator=blind,plan-ahead=on k=3,speculator=silent,plan-ahead=on"
    );
    // Whoever names one wants to see it.
    for (ways, refused) in [
        (&["k=3"][..], "`silent`: say --variant k=3,plan-ahead=on"),
        (&["k=1"], "`blind`: say --k 3"),
        (&["k=3,verifier=exact"], "`blind`: say --k 3"),
    ] {
        let told = beside(&controls, ways);
        assert_eq!(told, format!("no variant plays the control {refused}"));
    }
    // Verdicts are of our guesses still, and of no control's, even if a variant names it.
    let mut judged = blind;
    let verdicts = "{\"question\":\"q0\",\"hop\":1,\"accept\":true}";
    judged
        .read_verdicts("judge", "verdicts", verdicts.as_bytes(), &counts(3))
        .unwrap();
    assert_eq!(
        beside(&judged, &["k=inf", "k=3,speculator=blind"]),
        "k=inf k=inf,speculator=blind k=inf,verdicts=judge k=3,speculator=blind"
    );
    let play = |way: &str| played(&bundle, &variant(way), &controls);
    let (standard, ours) = (play("k=1"), play("k=inf"));
    assert!(ours.latency_ms < standard.latency_ms);
    for control in Control::ALL {
        let row = play(&format!("k=inf,speculator={control}"));
        // There is no other question to draw from, so the blind one is silent, too.
        assert_eq!(row.latency_ms, standard.latency_ms, "{control}");
        assert_eq!(row.answer, standard.answer);
    }
}

#[tokio::test(start_paused = true)]
async fn full_speculation_is_not_known_behind_a_question_that_nobody_guessed() {
    let script = steady(&[true, false, true]);
    let way = "k=1,verifier=none";
    let bundle = recorded(&script, question(5), &["k=1", way]).await;
    let brought = brought(&guesses(&script), None, 3);
    let row = played(&bundle, &mine(&variant(way)), &brought);
    // Behind the wrong guess another sub-question was recorded, and the file's guess is not of that one.
    assert_eq!(row.hops[2].sub_question, "q2 after fiction 1?");
    assert_eq!(
        (row.unrecorded, &*row.answer, row.targets.started),
        (1, "", 0)
    );
    let right = Brought::default();
    let ours = played(&bundle, &variant(way), &right);
    assert!(ours.is_answer_known() && (ours.latency_ms - row.latency_ms).abs() < 4.0);
}

#[tokio::test(start_paused = true)]
async fn without_a_target_nothing_is_looked_up() {
    let mut script = steady(&[true, false, true, true]);
    script.hops[2].guesses.clear();
    let way = variant("k=1,verifier=none,target=off");
    let bundle = recorded(&script, question(5), &["k=1", &way.to_string()]).await;
    let nobody = Brought::default();
    let row = played(&bundle, &way, &nobody);
    let question = &bundle.questions()[0];
    let strict = play(&mut Clock::new(), &bundle, question, &way, None);
    assert_eq!(strict.unwrap(), row, "all of it was recorded");
    let hops: Vec<_> = row
        .hops
        .iter()
        .map(|hop| (&*hop.answer, hop.found))
        .collect();
    let nothing = ("No relevant information found", false);
    assert_eq!(hops[..3], [("fact 0", true), ("fiction 1", true), nothing]);
    assert_eq!(
        (
            row.targets.started,
            row.speculations.started,
            row.unrecorded
        ),
        (0, 4, 0)
    );
    let expected = 5.0 * 100.0 + 4.0 * 50.0;
    assert!((row.latency_ms - expected).abs() <= 18.0, "{row:?}");

    // A recording that has looked the third hop up does not know what follows if nobody does.
    let looked_up = recorded(&script, question.clone(), &["k=1", "k=1,verifier=none"]).await;
    let missing = play(&mut Clock::new(), &looked_up, question, &way, None);
    assert!(missing.is_err(), "a recorder must record it");
    let stood_in = played(&looked_up, &way, &nobody);
    assert_eq!((&*stood_in.answer, stood_in.targets.started), ("", 0));
    // Behind it our speculator says what it said behind the observation.
    assert_eq!(
        (&*stood_in.hops[2].answer, stood_in.hops[3].found),
        (nothing.0, true)
    );
    assert!(stood_in.unrecorded > 0 && (stood_in.latency_ms - expected).abs() <= 60.0);
    // What other speculators would have said is not known either.
    let other = way.with_speculator("llm");
    assert!(!played(&bundle, &other, &nobody).is_answer_known());
}

#[tokio::test(start_paused = true)]
async fn hops_are_listed_as_the_sequential_agent_came_through_them() {
    let mut script = steady(&[true, false, true]);
    script.hops[2].guesses.clear();
    let bundle = recorded(&script, question(5), &["k=1", "k=inf,verifier=exact"]).await;
    let question = &bundle.questions()[0];
    let hops = asked(&mut Clock::new(), &bundle, question, "hot", None).unwrap();
    let told: Vec<_> = hops
        .iter()
        .map(|hop| {
            let ours = hop.ours.as_ref().map(|ours| &*ours.guess);
            (hop.hop, &*hop.sub_question, &*hop.observed, ours)
        })
        .collect();
    assert_eq!(
        told,
        [
            (1, "q0 after nothing?", "fact 0", Some("fact 0")),
            (2, "q1 after fact 0?", "fact 1", Some("fiction 1")),
            (3, "q2 after fact 1?", "fact 2", None),
        ]
    );
    assert!(hops.iter().all(|hop| (hop.target_ms - 1000.0).abs() <= 4.0));
    // Of another speculator nothing was recorded.
    let others = asked(&mut Clock::new(), &bundle, question, "llm", None).unwrap();
    assert!(others.iter().all(|hop| hop.ours.is_none()));
}

#[tokio::test(start_paused = true)]
async fn what_names_nothing_that_was_brought_is_played_as_ever() {
    let bundle = recorded(&steady(&[true, false]), question(5), &["k=3"]).await;
    let question = &bundle.questions()[0];
    let brought = brought("", None, 2);
    let way = variant("k=3");
    let ours = play(&mut Clock::new(), &bundle, question, &way, None).unwrap();
    assert_eq!(played(&bundle, &way, &brought), ours);
    // Nobody guessed: it takes what it takes without speculation.
    let none = played(&bundle, &mine(&way), &brought);
    let standard = played(&bundle, &Variant::standard(), &brought);
    assert!((none.latency_ms - standard.latency_ms).abs() < 1e-6);
    assert_eq!(
        (none.speculations.started, none.hops[0].speculation_ms),
        (0, None)
    );
}

/// The variants with what was brought beside them, or why they are refused.
fn beside(brought: &Brought, ways: &[&str]) -> String {
    let ways: Vec<Variant> = ways.iter().map(|way| variant(way)).collect();
    match brought.beside(&ways) {
        Ok(all) => {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            all.join(" ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_brought_is_played_or_refused() {
    let guesses = brought("", None, 1);
    // A file has one guess of a hop.
    assert_eq!(
        beside(&guesses, &["k=3,guesses=3", "k=3"]),
        "k=3,guesses=3 k=3 k=3,speculator=mine"
    );
    // They can stand alone: our speculator need not be recorded.
    let alone = "k=3,speculator=mine";
    assert_eq!(beside(&guesses, &["k=1", alone]), "k=1 k=3,speculator=mine");
    for way in ["k=1,speculator=mine", "k=3,guesses=3", "k=3,speculator=llm"] {
        let told = beside(&guesses, &["k=1", way]);
        let words = "no variant plays the guesses of `mine`: say --variant k=…,speculator=mine";
        assert_eq!(told, words, "{way}");
    }
    let both = brought("", Some(""), 1);
    assert_eq!(
        beside(&both, &["k=3,speculator=llm", alone]),
        "k=3,speculator=llm k=3,speculator=mine k=3,speculator=mine,verdicts=judge"
    );
}

#[test]
fn verdicts_are_of_one_speculators_guesses() {
    let mut judge = Brought::default();
    let read = judge.read_verdicts("judge", "a file", "".as_bytes(), &counts(1));
    read.unwrap();
    assert_eq!(
        beside(&judge, &["k=3,speculator=llm", "k=2,verifier=exact"]),
        "k=3,speculator=llm k=3,speculator=llm,verdicts=judge k=2,verifier=exact"
    );
    assert_eq!(
        beside(&judge, &["k=2", "k=inf", "k=3,speculator=llm"]),
        "verdicts are of one speculator's guesses: name one of hot, llm in every --variant \
         (speculator=NAME)"
    );
    for way in ["k=1", "k=3,verifier=exact", "k=3,guesses=3"] {
        let told = beside(&judge, &[way]);
        let words = "no variant plays the verdicts of `judge`";
        assert!(told.starts_with(words), "{way}: {told}");
    }
}
