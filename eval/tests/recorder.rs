//! Recording runs what is missing, once, and keeps what it has when it cannot go on.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Weak};

use crate::recording::{in_memory, info, on_disk, parts, question, record, recorder, variant};
use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_eval::{
    Bundle, Input, LeftOut, Parts, Question, RecordError, RecordEvent, Recorder, Row, Variant, play,
};
use spechop_ports::{
    Call, GuessRequest, Guessed, PlanRequest, Planned, Planner, PortError, Retriever, Speculator,
};
use spechop_sim::Clock;
use spechop_testkit::{Script, ScriptedPorts};
use spechop_types::{Passage, Stage};
use tempfile::tempdir;
use tokio::time::Instant;

/// Segments take 100 ms, look-ups 1,000 ms, guesses 50 ms.
fn script() -> Script {
    Script::steady(&[true, false, true], 100, 1000, 50)
}

fn scripted() -> ScriptedPorts {
    ScriptedPorts::new(script())
}

/// Records, and says what was run for it.
async fn running(recorder: &mut Recorder, bundle: &mut Bundle, way: &str) -> (Row, Vec<Input>) {
    let mut ran = Vec::new();
    let mut tell = |stage: &spechop_eval::Stage| ran.push(stage.input.clone());
    let way = variant(way);
    let row = recorder.record(bundle, 0, &way, None, &mut tell).await;
    (row.unwrap(), ran)
}

#[tokio::test(start_paused = true)]
async fn no_stage_is_run_twice() {
    let ports = scripted();
    let (mut recorder, mut bundle) = (recorder(&ports), in_memory(question(5)));
    let mut all = Vec::new();
    for (way, is_new) in [
        ("k=1", true),
        ("k=3", true),
        ("k=2", false),
        ("k=inf,guesses=2", true),
        ("k=1,verifier=none", false),
        ("k=3", false),
        ("k=1", false),
    ] {
        let (_, ran) = running(&mut recorder, &mut bundle, way).await;
        assert_eq!(!ran.is_empty(), is_new, "{way}: {ran:?}");
        all.extend(ran);
        assert_eq!((bundle.len(), ports.started()), (all.len(), all.len()));
    }
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
}

#[tokio::test(start_paused = true)]
async fn a_stage_takes_what_it_takes_with_nothing_beside_it() {
    let (mut recorder, mut bundle) = (recorder(&scripted()), in_memory(question(5)));
    let mut stages = Vec::new();
    let mut tell = |stage: &spechop_eval::Stage| stages.push((stage.input.name(), stage.ms));
    let usual = variant("k=3");
    let recording = recorder.record(&mut bundle, 0, &usual, None, &mut tell);
    recording.await.unwrap();
    for (name, ms) in stages {
        let takes = match name {
            "segment" => 100.0,
            "retrieval" => 750.0,
            "reading" => 250.0,
            _ => 50.0,
        };
        assert!((ms - takes).abs() <= 2.0, "{name} took {ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bundle_on_the_disk_goes_on_in_another_process() {
    let dir = tempdir().unwrap();
    let first = running(&mut recorder(&scripted()), &mut on_disk(dir.path()), "k=1").await;
    let (ports, mut bundle) = (scripted(), on_disk(dir.path()));
    let mut again = recorder(&ports);
    assert_eq!(
        running(&mut again, &mut bundle, "k=1").await,
        (first.0, vec![])
    );
    assert_eq!(ports.started(), 0);
    let (row, ran) = running(&mut again, &mut bundle, "k=3").await;
    assert_eq!(ports.started(), ran.len());
    let read = Bundle::read(dir.path()).unwrap();
    assert_eq!(read.len(), bundle.len());
    let (question, way) = (&read.questions()[0], variant("k=3"));
    let played = play(&mut Clock::new(), &read, question, &way, None);
    assert_eq!(played.unwrap(), row);
}

#[tokio::test(start_paused = true)]
async fn killed_anywhere_it_runs_only_what_is_missing() {
    let dir = tempdir().unwrap();
    let stages = dir.path().join("stages.jsonl");
    let whole = running(&mut recorder(&scripted()), &mut on_disk(dir.path()), "k=1").await;
    let (row, ran) = whole;
    let text = fs::read(&stages).unwrap();
    let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), ran.len());
    assert!(!lines[lines.len() - 1].is_ascii(), "a letter can be torn");
    let from = text.len() - lines[lines.len() - 2..].concat().len();
    for cut in from..=text.len() {
        fs::write(&stages, &text[..cut]).unwrap();
        let kept = text[..cut].iter().filter(|byte| **byte == b'\n').count();
        let read = Bundle::read(dir.path()).unwrap();
        assert_eq!(read.len(), kept, "cut at byte {cut}");
        let (question, way) = (&read.questions()[0], Variant::standard());
        let played = play(&mut Clock::new(), &read, question, &way, None);
        let missing = played.err().map(|missing| *missing.0);
        assert_eq!(missing.as_ref(), ran.get(kept));

        let (ports, mut bundle) = (scripted(), on_disk(dir.path()));
        let again = running(&mut recorder(&ports), &mut bundle, "k=1").await;
        assert_eq!(again, (row.clone(), ran[kept..].to_vec()));
        // Of what was looked up before, the texts are not kept: it is looked up again to be read.
        let texts = usize::from(ran.len() - kept == 2);
        assert_eq!(ports.started(), ran.len() - kept + texts);
        assert_eq!(Bundle::read(dir.path()).unwrap().len(), ran.len());
        assert!(
            fs::read(&stages)
                .unwrap()
                .starts_with(&lines[..kept].concat())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_named() {
    let mut whole = in_memory(question(5));
    let (_, ran) = running(&mut recorder(&scripted()), &mut whole, "k=3").await;
    let question = &whole.questions()[0];
    for (kept, words) in [
        (
            &[][..],
            "the segment after 0 hops of “Who is the mother of the director of Żółć?”",
        ),
        (
            &["segment"],
            "the look-up of “q0 after nothing?” (5 passages)",
        ),
        (
            &["segment", "retrieval"],
            "the reading for “q0 after nothing?”",
        ),
        (
            &["segment", "retrieval", "reading"],
            "1 guess(es) of `hot` for “q0 after nothing?”",
        ),
    ] {
        let mut bundle = in_memory(question.clone());
        for name in kept {
            let first = ran.iter().find(|input| input.name() == *name).unwrap();
            bundle.push(whole.get(first).unwrap().clone()).unwrap();
        }
        let played = play(&mut Clock::new(), &bundle, question, &variant("k=3"), None);
        let expected = format!(
            "{words} is not in the bundle: record it with `spechop eval record` and the same variant"
        );
        assert_eq!(played.unwrap_err().to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_after_a_pause() {
    let mut script = script();
    script.failures.insert((1, Stage::Target), 3);
    let mut bundle = in_memory(question(5));
    let mut recorder = recorder(&ScriptedPorts::new(script));
    let started = Instant::now();
    let row = record(&mut recorder, &mut bundle, &Variant::standard()).await;
    let took_ms = started.elapsed().as_secs_f64() * 1000.0;
    let row = row.unwrap();
    assert!((row.hops[1].target_ms - 1000.0).abs() <= 4.0, "{row:?}");
    // Three look-ups in vain; one, two and three seconds between them.
    let in_vain_ms = 3.0 * 750.0 + 6000.0;
    assert!(
        (took_ms - row.latency_ms - in_vain_ms).abs() <= 12.0,
        "{took_ms}"
    );
}

/// The words of why recording stopped, and of why that.
async fn stopped(parts: Parts, dir: &Path, way: &str) -> (String, String) {
    let mut bundle = on_disk(dir);
    let error = record(&mut Recorder::new(parts), &mut bundle, &variant(way)).await;
    let error = error.unwrap_err();
    let source = error.source().map(ToString::to_string);
    let kept = Bundle::read(dir).unwrap();
    assert_eq!(kept.len(), bundle.len(), "what was recorded stays");
    (error.to_string(), source.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn what_goes_on_failing_stops_it_and_is_named() {
    for (at, stage, kept, words) in [
        (
            0,
            Stage::Segment,
            0,
            "the segment after 0 hops of “Who is the mother of the director of Żółć?”",
        ),
        (
            1,
            Stage::Target,
            5,
            "the look-up of “q1 after fact 0?” (5 passages)",
        ),
        (
            0,
            Stage::Speculation,
            3,
            "1 guess(es) of `hot` for “q0 after nothing?”",
        ),
    ] {
        let dir = tempdir().unwrap();
        let mut script = script();
        script.failures.insert((at, stage), 4);
        let ports = ScriptedPorts::new(script);
        let (said, source) = stopped(parts(&ports), dir.path(), "k=2").await;
        assert_eq!(said, format!("question q0: {words} failed 4 times"));
        assert_eq!(
            source,
            format!("the scripted {stage} of hop {at} is unavailable")
        );
        assert_eq!(Bundle::read(dir.path()).unwrap().len(), kept);
        // Now that it works again, it goes on.
        let mut bundle = on_disk(dir.path());
        let row = record(&mut recorder(&ports), &mut bundle, &variant("k=2")).await;
        assert_eq!(row.unwrap().answer, "so fact 2");
    }
}

/// Babbles.
struct Babbler;

#[async_trait]
impl Speculator for Babbler {
    async fn guess(&self, _: &Call, _: GuessRequest) -> Result<Guessed, PortError> {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        Err(PortError::malformed(
            "the babbler",
            "an answer without an end",
        ))
    }
}

#[tokio::test(start_paused = true)]
async fn a_guess_that_cannot_be_used_is_none_and_took_its_time() {
    let mut parts = parts(&ScriptedPorts::new(script()));
    parts.speculators.insert("hot".into(), Arc::new(Babbler));
    let mut bundle = in_memory(question(5));
    let row = record(&mut Recorder::new(parts), &mut bundle, &variant("k=3")).await;
    let row = row.unwrap();
    assert!(row.hops.iter().all(|hop| hop.guess.is_none()), "{row:?}");
    let took = row.hops[0].speculation_ms.unwrap();
    assert!((took - 50.0).abs() <= 2.0, "{took}");
}

/// Never stops asking.
struct Stubborn(ScriptedPorts);

#[async_trait]
impl Planner for Stubborn {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let must_answer = false;
        let request = PlanRequest {
            must_answer,
            ..request
        };
        self.0.plan(call, request).await
    }
}

/// Finds other pages than the script's.
struct Elsewhere(ScriptedPorts);

#[async_trait]
impl Retriever for Elsewhere {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let found = self.0.retrieve(call, query, limit).await?;
        let other = |passage: Passage| Passage {
            id: format!("other {}", passage.id).into(),
            ..passage
        };
        Ok(found.into_iter().map(other).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_bundle_takes_is_not_kept() {
    let dir = tempdir().unwrap();
    // One hop more than the question may have.
    let ports = ScriptedPorts::new(Script::steady(&[true; 6], 100, 1000, 50));
    let parts = Parts {
        planner: Arc::new(Stubborn(ports.clone())),
        ..parts(&ports)
    };
    let (said, source) = stopped(parts, dir.path(), "k=1").await;
    assert!(said.ends_with(" failed 4 times"), "{said}");
    assert!(said.contains("the segment after 5 hops"), "{said}");
    let words = "the planner gave an unusable answer: it asked on although it had to answer";
    assert_eq!(source, words);
}

#[tokio::test(start_paused = true)]
async fn what_was_found_before_must_be_found_to_be_read() {
    let dir = tempdir().unwrap();
    let ports = scripted();
    let (_, ran) = running(&mut recorder(&ports), &mut on_disk(dir.path()), "k=1").await;
    // Killed after the first look-up, and gone on with over another index.
    assert_eq!(ran[1].name(), "retrieval");
    let stages = dir.path().join("stages.jsonl");
    let text = fs::read_to_string(&stages).unwrap();
    let kept: Vec<_> = text.split_inclusive('\n').take(2).collect();
    fs::write(&stages, kept.concat()).unwrap();
    let parts = Parts {
        retriever: Arc::new(Elsewhere(ports.clone())),
        ..parts(&ports)
    };
    let (said, source) = stopped(parts, dir.path(), "k=1").await;
    assert_eq!(
        said,
        "question q0: the reading for “q0 after nothing?” failed 4 times"
    );
    assert!(
        source.ends_with("it no longer finds what was recorded"),
        "{source}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_recorded_at_all_is_said_at_once() {
    let recorder_of_hot = recorder(&scripted());
    let llm = variant("k=3,speculator=llm");
    let checked = recorder_of_hot.check(&[Variant::standard(), llm.clone()]);
    let words = "there is no speculator `llm`; there are: hot";
    assert_eq!(checked.unwrap_err().to_string(), words);
    // The standard agent asks none.
    let standard = variant("k=1,speculator=llm");
    assert!(recorder_of_hot.check(&[standard, variant("k=3")]).is_ok());

    let mut bundle = in_memory(question(5));
    let error = record(&mut recorder(&scripted()), &mut bundle, &llm).await;
    assert_eq!(error.unwrap_err().to_string(), words);

    let mut asked = question(5);
    asked.text = "?!".into();
    let mut bundle = in_memory(asked);
    let error = record(
        &mut recorder(&scripted()),
        &mut bundle,
        &Variant::standard(),
    )
    .await;
    assert!(matches!(error, Err(RecordError::Question { id, .. }) if id == "q0"));
}

#[tokio::test(start_paused = true)]
async fn warming_up_records_nothing_and_never_fails() {
    let mut script = script();
    script.failures.insert((0, Stage::Segment), 1);
    let ports = ScriptedPorts::new(script);
    let bundle = in_memory(question(5));
    recorder(&ports).warm_up(&bundle).await;
    assert!(bundle.is_empty() && ports.started() > 0);
    assert_eq!(ports.live(), 0);
}

/// Five questions; their first segments differ.
fn five() -> Bundle {
    let asked = |i| Question {
        id: format!("q{i}"),
        text: format!("Who is the mother of director {i}?"),
        ..question(5)
    };
    Bundle::in_memory(info(), (0..5).map(asked).collect())
}

/// Records five questions, the first of which fail: what is told of them, and what comes of it.
async fn record_five(failing: u32) -> (String, Result<Vec<LeftOut>, RecordError>, Bundle) {
    let mut script = script();
    script.failures.insert((0, Stage::Segment), failing * 4);
    let (mut recorder, mut bundle) = (recorder(&ScriptedPorts::new(script)), five());
    let (mut told, mut ran) = (Vec::new(), 0);
    let mut tell = |event: RecordEvent<'_>| match event {
        RecordEvent::Ran(_) => ran += 1,
        RecordEvent::LeftOut(LeftOut { id, .. }) => told.push(format!("not {id}")),
        RecordEvent::Done(done) => told.push(done.to_string()),
    };
    let ways = ["k=1", "k=3"].map(variant);
    let recording = recorder.record_all(&mut bundle, &ways, &[None], &mut tell);
    let result = recording.await;
    assert_eq!(ran, bundle.len());
    (told.join(", "), result, bundle)
}

#[tokio::test(start_paused = true)]
async fn a_question_that_fails_is_left_out_and_the_others_can_be_played() {
    for (failing, words) in [
        (0, "1, 2, 3, 4, 5"),
        (1, "not q0, 1, 2, 3, 4, 5"),
        (3, "not q0, 1, not q1, 2, not q2, 3, 4, 5"),
    ] {
        let (told, left_out, bundle) = record_five(failing).await;
        assert_eq!(told, words);
        let left_out: Vec<_> = left_out.unwrap().into_iter().map(|left| left.id).collect();
        for question in bundle.questions() {
            let plays = |way| play(&mut Clock::new(), &bundle, question, &variant(way), None);
            let is_whole = ["k=1", "k=3"].map(|way| plays(way).is_ok());
            let expected = !left_out.contains(&question.id);
            assert_eq!(is_whole, [expected; 2], "{failing}: {}", question.id);
        }
    }
}

/// Knows which of the texts that it has found are still held.
struct Watched(ScriptedPorts, Mutex<Vec<Weak<str>>>);

#[async_trait]
impl Retriever for Watched {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        let found = self.0.retrieve(call, query, limit).await?;
        let texts = found.iter().map(|passage| Arc::downgrade(&passage.text));
        self.1.lock().extend(texts);
        Ok(found)
    }
}

#[tokio::test(start_paused = true)]
async fn texts_are_not_held_for_longer_than_a_question() {
    let ports = scripted();
    let retriever = Arc::new(Watched(ports.clone(), Mutex::default()));
    let mut recorder = Recorder::new(Parts {
        retriever: retriever.clone(),
        ..parts(&ports)
    });
    // The first question alone looks up: the others ask the same.
    let (mut bundle, ways) = (five(), [variant("k=1")]);
    let mut tell = |_: RecordEvent<'_>| {};
    let recording = recorder.record_all(&mut bundle, &ways, &[None], &mut tell);
    assert!(recording.await.unwrap().is_empty());
    let found = retriever.1.lock();
    assert!(!found.is_empty());
    let held = found.iter().filter(|text| text.strong_count() > 0).count();
    assert_eq!(held, 0, "of {}", found.len());
}

#[tokio::test(start_paused = true)]
async fn the_fourth_question_in_a_row_that_fails_stops_the_recording() {
    let (told, result, _) = record_five(4).await;
    assert_eq!(told, "not q0, 1, not q1, 2, not q2, 3");
    let error = result.unwrap_err();
    let words = "3 of 5 questions are done; run the same command again to resume";
    assert_eq!(error.to_string(), words);
    let source = error.source().unwrap().to_string();
    assert!(source.starts_with("question q3: the segment"), "{source}");
}
