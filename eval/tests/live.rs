//! Live runs against a real server: what is asked, what is kept, and what goes on after a failure.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support::{Server, info, options, questions};
use spechop_eval::{
    HopKind, Injected, LiveError, LiveOptions, Progress, Question, Run, RunWriter, Source, Summary,
    live, probe,
};
use spechop_testkit::{OwnPort, Script, eventually};
use spechop_types::K;
use tempfile::tempdir;
use tokio::sync::oneshot;

fn script() -> Script {
    Script::steady(&[true, false, true], 1, 20, 2)
}

/// Begins or goes on with a run in this folder; `progress` sees every step.
async fn ask(
    dir: &Path,
    options: &LiveOptions,
    questions: &[Question],
    mut progress: impl FnMut(Progress) + Send,
) -> Result<Summary, LiveError> {
    let info = info(questions.len(), None);
    let (mut run, there) = RunWriter::open(dir, &info, questions).unwrap();
    live(options, questions, &mut run, &there, &mut progress).await
}

/// Every row that there is, by id, k and concurrency; each once, or reading would fail.
fn rows(dir: &Path) -> BTreeSet<(String, K, u32)> {
    let rows = Run::read(dir).unwrap().rows.into_iter();
    rows.map(|row| (row.id, row.variant.k(), row.concurrency))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_run_has_every_row_once() {
    let server = Server::start(script(), "");
    let dir = tempdir().unwrap();
    let (options, questions) = (options(server.address, &[1, 4]), questions(4));
    let mut seen = Vec::new();
    let summary = ask(dir.path(), &options, &questions, |progress| {
        seen.push(progress);
    });
    let summary = summary.await.unwrap();
    assert_eq!((summary.there, summary.added, summary.fewer), (0, 16, 0));
    assert_eq!(summary.failures, []);
    let done: Vec<_> = seen.iter().map(|progress| progress.done).collect();
    assert_eq!(done, (0..=16).collect::<Vec<_>>());
    assert!(seen.iter().all(|progress| progress.of == 16));

    let run = Run::read(dir.path()).unwrap();
    assert_eq!(rows(dir.path()).len(), 16);
    assert!(run.missing().iter().all(|missing| missing.ids.is_empty()));
    // One at a time, the order is the schedule's: the variants take turns.
    let asked = run
        .rows
        .iter()
        .take(8)
        .map(|row| (&*row.id, row.variant.k()));
    let k = |k| move |id: &'static str| (id, K::of(k).unwrap());
    let expected = [
        k(1)("q0"),
        k(3)("q1"),
        k(1)("q2"),
        k(3)("q3"),
        k(3)("q0"),
        k(1)("q1"),
        k(3)("q2"),
        k(1)("q3"),
    ];
    assert!(asked.eq(expected), "{:?}", run.rows);

    // What is whole is not asked again, and needs no server.
    drop(server);
    let summary = ask(dir.path(), &options, &questions, |_| {}).await.unwrap();
    assert_eq!((summary.there, summary.added), (16, 0));
}

/// A memory would know what it was asked before its turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_warmed_up_with_a_question_of_no_run() {
    let server = Server::start(script(), "");
    let dir = tempdir().unwrap();
    let mut options = options(server.address, &[1]);
    options.variants.truncate(1);
    let questions = questions(3);
    let before = Question::before_a_run(Source::Live, &questions).unwrap();
    probe(&options.address, &before).await.unwrap();
    ask(dir.path(), &options, &questions, |_| {}).await.unwrap();
    let asked = server.asked.lock().clone();
    let times = |text: &str| asked.iter().filter(|other| *other == text).count();
    // A segment for each hop and the last one; the probe and the warm-up, and each question once.
    assert_eq!(times(&before.text), 2 * 4, "{asked:?}");
    for question in &questions {
        assert_eq!(times(&question.text), 4, "{asked:?}");
    }
    // A replay knows no others.
    let replayed = Question::before_a_run(Source::Replayed, &questions);
    assert_eq!(replayed.as_ref(), questions.last());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_choose_k() {
    let server = Server::start(script(), "");
    let dir = tempdir().unwrap();
    let mut options = options(server.address, &[1]);
    options.variants[1].options.k = Some(K::Auto);
    let summary = ask(dir.path(), &options, &questions(3), |_| {})
        .await
        .unwrap();
    assert_eq!((summary.added, summary.failures), (6, Vec::new()));
    let run = Run::read(dir.path()).unwrap();
    let chosen = run.rows.iter().filter(|row| row.variant.k() == K::Auto);
    assert_eq!(chosen.count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_says_what_the_answer_said() {
    let server = Server::start(script(), "");
    let dir = tempdir().unwrap();
    let options = options(server.address, &[1]);
    ask(dir.path(), &options, &questions(1), |_| {})
        .await
        .unwrap();
    let run = Run::read(dir.path()).unwrap();
    let [standard, ahead] = &run.rows[..] else {
        panic!("{:?}", run.rows);
    };
    for row in &run.rows {
        assert_eq!((&*row.answer, row.concurrency), ("so fact 2", 1));
        assert!(row.latency_ms >= row.final_ms && row.final_ms > 0.0);
        for (i, hop) in row.hops.iter().enumerate() {
            assert_eq!(hop.answer, format!("fact {i}"));
            assert!(hop.found && hop.segment_ms > 0.0 && hop.target_ms > 0.0);
            assert_eq!(hop.titles, ["Title 0", "Title 1", "Title 2"]);
        }
        assert_eq!(row.hops[1].sub_question, "q1 after fact 0?");
        assert_eq!(row.hops[1].observed, "fact 1");
        // Scripted ports do not say how sure they are.
        let said = row.confidence.unwrap();
        assert_eq!((said.chance, said.withheld), (None, false));
    }
    assert!(
        standard
            .hops
            .iter()
            .all(|hop| hop.kind == HopKind::Observed)
    );
    assert!(standard.hops.iter().all(|hop| hop.guess.is_none()));
    assert_eq!(standard.speculations.started, 0);
    assert_eq!((standard.targets.started, standard.targets.wasted), (3, 0));
    // Twelve tokens a call: ten read, two written.
    assert_eq!(
        (standard.segments.started, standard.segments.tokens),
        (4, 48)
    );
    assert_eq!((standard.segments.wasted_tokens, standard.salvaged), (0, 0));

    let kinds: Vec<_> = ahead.hops.iter().map(|hop| hop.kind).collect();
    use HopKind::{Accepted, Rejected};
    assert_eq!(kinds, [Accepted, Rejected, Accepted]);
    assert_eq!(ahead.hops[1].guess.as_deref(), Some("fiction 1"));
    assert!(ahead.hops[0].speculation_ms.unwrap() > 0.0);
    assert!(ahead.targets.started > 3 && ahead.targets.wasted > 0);
    assert!(ahead.segments.wasted_tokens > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn added_latency_is_the_one_that_the_run_was_begun_with() {
    let toml = "[target.injected_latency]\nmean_ms = 2.0\nseed = 9";
    let server = Server::start(Script::instant(2), toml);
    let questions = questions(2);
    let found = probe(&server.address.to_string(), &questions[0]).await;
    let injected = Injected {
        mean_ms: 2.0,
        sigma_ms: 0.0,
        seed: 9,
    };
    assert_eq!(found.unwrap(), Some(injected));

    let dir = tempdir().unwrap();
    let options = options(server.address, &[1]);
    let error = ask(dir.path(), &options, &questions, |_| {}).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "the server adds 2 ms (sigma 0 ms, seed 9), the run was begun with no latency: \
         start it as it was, or take another folder"
    );
    assert_eq!(rows(dir.path()).len(), 0);

    let dir = tempdir().unwrap();
    let info = info(2, Some(injected));
    let (mut run, there) = RunWriter::open(dir.path(), &info, &questions).unwrap();
    let summary = live(&options, &questions, &mut run, &there, &mut |_| {}).await;
    assert_eq!(summary.unwrap().added, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_speculation_is_asked_of_a_server_that_looks_guesses_up() {
    let toml = "[target.injected_latency]\nmean_ms = 2.0\nseed = 9";
    let usual = Server::start(script(), toml);
    // One hop fewer, to be told from the other.
    let off = Server::start(Script::steady(&[true, false], 1, 20, 2), "");
    let full = "k=1,verifier=none,target=off";
    let mut options = LiveOptions {
        target_off: Some(off.address.to_string()),
        ..options(usual.address, &[1])
    };
    options.variants.push(full.parse().unwrap());
    let injected = Injected {
        mean_ms: 2.0,
        sigma_ms: 0.0,
        seed: 9,
    };
    let (dir, questions) = (tempdir().unwrap(), questions(2));
    let info = info(2, Some(injected));
    let (mut run, there) = RunWriter::open(dir.path(), &info, &questions).unwrap();
    let summary = live(&options, &questions, &mut run, &there, &mut |_| {}).await;
    assert_eq!(summary.unwrap().added, 6);
    for row in Run::read(dir.path()).unwrap().rows {
        let is_full = row.variant.to_string() == full;
        let (targets, guesses) = (row.targets.started, row.speculations.started);
        assert_eq!(row.hops.len(), if is_full { 2 } else { 3 });
        assert_eq!(targets == 0, is_full, "{row:?}");
        if is_full {
            assert_eq!((&*row.answer, guesses), ("so fact 1", 2));
            assert!(row.hops.iter().all(|hop| hop.titles.is_empty()));
        }
    }

    // What is there is not asked again, by either server.
    drop((run, usual, off));
    let (mut run, there) = RunWriter::open(dir.path(), &info, &questions).unwrap();
    let summary = live(&options, &questions, &mut run, &there, &mut |_| {}).await;
    let summary = summary.unwrap();
    assert_eq!((summary.there, summary.added), (6, 0));

    // A latency of its target is one that full speculation must not have.
    let usual = Server::start(script(), toml);
    options.address = usual.address.to_string();
    options.target_off = Some(usual.address.to_string());
    let dir = tempdir().unwrap();
    let (mut run, there) = RunWriter::open(dir.path(), &info, &questions).unwrap();
    let error = live(&options, &questions, &mut run, &there, &mut |_| {}).await;
    let error = error.unwrap_err();
    assert!(matches!(error, LiveError::AddsToGuesses), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_where_a_dead_server_left_it() {
    // Nobody else gets it while the server is away.
    let port = OwnPort::reserve();
    let address = port.address();
    let server = Server::start_at(address, script(), "");
    let dir = tempdir().unwrap();
    let questions = questions(5);
    let options = LiveOptions {
        retry_for: Duration::from_millis(300),
        ..options(address, &[1, 2])
    };
    let mut server = Some(server);
    let killed = ask(dir.path(), &options, &questions, |progress| {
        if progress.done == 7 {
            server = None;
        }
    });
    let error = killed.await.unwrap_err();
    assert!(matches!(error, LiveError::Away { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("7 of 20 rows are there; run the same command again to resume"),
        "{said}"
    );
    assert_eq!(rows(dir.path()).len(), 7);

    let _server = Server::start_at(address, script(), "");
    let summary = ask(dir.path(), &options, &questions, |_| {}).await.unwrap();
    assert_eq!((summary.there, summary.added), (7, 13));
    assert_eq!(rows(dir.path()).len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_in_time_is_waited_for() {
    let port = OwnPort::reserve();
    let address = port.address();
    let server = Server::start_at(address, script(), "");
    let dir = tempdir().unwrap();
    let (options, questions) = (options(address, &[3]), questions(4));
    let (gone, is_gone) = oneshot::channel();
    let mut server = Some((server, gone));
    let asking = ask(dir.path(), &options, &questions, |progress| {
        if progress.done == 3
            && let Some((server, gone)) = server.take()
        {
            drop(server);
            gone.send(()).unwrap();
        }
    });
    let back = async {
        is_gone.await.unwrap();
        Server::start_at(address, script(), "")
    };
    let (summary, _server) = tokio::join!(asking, back);
    assert_eq!(summary.unwrap().added, 8);
    assert_eq!(rows(dir.path()).len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_asked_again() {
    let server = Server::start(script(), "[server]\nquestions_max = 1\nqueue_ms = 0");
    let dir = tempdir().unwrap();
    let options = options(server.address, &[4]);
    let summary = ask(dir.path(), &options, &questions(4), |_| {})
        .await
        .unwrap();
    assert!(summary.added == 8 && summary.busy > 0, "{summary:?}");
    assert_eq!(rows(dir.path()).len(), 8);
}

/// A wait for a place is not in the server's own time of a question.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_stands_in_line_is_counted() {
    let slow = Script::steady(&[true], 1, 200, 2);
    let server = Server::start(slow, "[server]\nquestions_max = 1\nqueue_ms = 10000");
    let dir = tempdir().unwrap();
    // The last of so many waits long enough, even if a loaded machine sends it late.
    let mut options = options(server.address, &[4]);
    options.variants.truncate(1);
    let summary = ask(dir.path(), &options, &questions(4), |_| {})
        .await
        .unwrap();
    assert!(summary.added == 4 && summary.busy > 0, "{summary:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_later_with_fewer_under_way_is_counted() {
    let server = Server::start(script(), "");
    let dir = tempdir().unwrap();
    let (options, questions) = (options(server.address, &[2]), questions(2));
    let summary = ask(dir.path(), &options, &questions, |_| {}).await.unwrap();
    assert_eq!((summary.added, summary.fewer), (4, 0));
    let file = dir.path().join("rows.jsonl");
    let rows = fs::read_to_string(&file).unwrap();
    let kept: String = rows.split_inclusive('\n').take(3).collect();
    fs::write(&file, kept).unwrap();
    let summary = ask(dir.path(), &options, &questions, |_| {}).await.unwrap();
    assert_eq!((summary.added, summary.fewer), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_auto_is_asked_on_top_of_earlier_rows_is_counted() {
    let server = Server::start(script(), "");
    let dir = tempdir().unwrap();
    let (mut options, questions) = (options(server.address, &[1]), questions(2));
    options.variants[1] = "k=auto,speculator=llm".parse().unwrap();
    let summary = ask(dir.path(), &options, &questions, |_| {}).await.unwrap();
    assert_eq!((summary.added, summary.anew), (4, 0));
    let file = dir.path().join("rows.jsonl");
    let rows = fs::read_to_string(&file).unwrap();
    // The first row of each: the second question is asked again both ways.
    let second = |line: &&str| !line.contains(r#""id":"q1""#);
    let kept: String = rows.split_inclusive('\n').filter(second).collect();
    fs::write(&file, kept).unwrap();
    let summary = ask(dir.path(), &options, &questions, |_| {}).await.unwrap();
    assert_eq!((summary.added, summary.anew), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_without_an_answer_is_named_and_the_run_goes_on() {
    let server = Server::start(script(), "");
    let dir = tempdir().unwrap();
    let options = options(server.address, &[1, 2]);
    let mut questions = questions(3);
    questions[1].text = "What is broken?".into();
    for added in [8, 0] {
        let summary = ask(dir.path(), &options, &questions, |_| {}).await.unwrap();
        assert_eq!(summary.added, added);
        let failures: Vec<_> = summary
            .failures
            .iter()
            .map(|failure| (&*failure.id, failure.variant.k(), failure.concurrency))
            .collect();
        for concurrency in [1, 2] {
            for k in [K::ONE, K::of(3).unwrap()] {
                assert!(failures.contains(&("q1", k, concurrency)), "{failures:?}");
            }
        }
        assert_eq!(failures.len(), 4);
        let failure = &summary.failures[0];
        assert_eq!(failure.code, "FAILED_PRECONDITION");
        assert!(
            failure.message.contains("it is broken"),
            "{}",
            failure.message
        );
    }
    let missing = Run::read(dir.path()).unwrap().missing();
    assert_eq!(missing.len(), 4);
    assert!(missing.iter().all(|missing| missing.ids == ["q1"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_failures_in_a_row_are_enough() {
    let server = Server::start(script(), "");
    let dir = tempdir().unwrap();
    let options = options(server.address, &[1]);
    let mut questions = questions(30);
    for question in &mut questions[4..] {
        question.text = "What is broken?".into();
    }
    let error = ask(dir.path(), &options, &questions, |_| {})
        .await
        .unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("10 questions in a row failed"), "{said}");
    assert!(said.contains("4 of 60 rows are there"), "{said}");
    assert_eq!(rows(dir.path()).len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_asking_stops_the_server_too() {
    let server = Server::start(script(), "");
    let dir = tempdir().unwrap();
    let options = options(server.address, &[2]);
    let mut questions = questions(2);
    questions[0].text = "What is endless?".into();
    let done = AtomicUsize::new(0);
    {
        let asking = ask(dir.path(), &options, &questions, |progress| {
            done.store(progress.done, SeqCst);
        });
        tokio::select! {
            _ = asking => panic!("there is no end to it"),
            () = eventually(|| done.load(SeqCst) == 1 && server.gauges.questions_open() == 1) => {}
        }
    }
    eventually(|| server.ports.live() == 0 && server.gauges.questions_open() == 0).await;
    // The folder is free for the next.
    assert!(RunWriter::open(dir.path(), &info(2, None), &questions).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_asked_is_told_at_once() {
    let server = Server::start(script(), "[question]\nk_max = 12");
    let port = OwnPort::reserve();
    let closed = port.address();
    let open = server.address.to_string();
    for (address, variant, words) in [
        (&*closed.to_string(), "k=1", "start it with `spechop serve`"),
        ("https://h:1", "k=1", "`https` is not spoken"),
        ("no address", "k=1", "is no HOST:PORT"),
        (&*open, "k=1,verifier=none", "`spechop eval simulate` can"),
        (&*open, "k=3,rounds=on", "`spechop eval simulate` can"),
        (
            &*open,
            "k=3,speculator=hot-0.05",
            "hot-0.05 (INVALID_ARGUMENT: options.speculator: ",
        ),
        (
            &*open,
            "k=64,speculator=llm",
            "(INVALID_ARGUMENT: options.k: ",
        ),
    ] {
        let dir = tempdir().unwrap();
        let options = LiveOptions {
            address: address.to_owned(),
            variants: vec![variant.parse().unwrap()],
            ..options(server.address, &[1])
        };
        let error = ask(dir.path(), &options, &questions(2), |_| {}).await;
        let said = error.unwrap_err().to_string();
        assert!(said.contains(words) && !said.contains('\n'), "{said}");
    }
    let error = probe(&closed.to_string(), &questions(1)[0])
        .await
        .unwrap_err();
    assert!(matches!(error, LiveError::Nobody { .. }), "{error}");
}
