use std::fs;
use std::path::Path;

use proptest::prelude::*;
use spechop_types::K;
use tempfile::tempdir;

use super::*;
use crate::{
    Calls, Confidence, Dataset, Drafted, HopKind, Injected, Machine, RowHop, Source, Variant,
};

fn info(questions: usize) -> RunInfo {
    RunInfo {
        source: Source::Live,
        system: "gold planner".into(),
        dataset: Dataset::Wiki,
        questions,
        seed: 1,
        injected: Some(Injected {
            mean_ms: 4150.1,
            sigma_ms: 1680.0,
            seed: 7,
        }),
        speed: 1.0,
        parts: [("reader".to_owned(), "v2".to_owned())].into(),
        commit: "abc".into(),
        machine: Machine {
            cores: 2,
            cpu: "Fast".into(),
        },
        command: "spechop eval live".into(),
        wanted: Vec::new(),
    }
}

fn questions(count: usize) -> Vec<Question> {
    let question = |n| Question {
        id: format!("q{n}"),
        dataset: Dataset::Wiki,
        kind: "bridge".into(),
        text: "Who?\nWho – exactly?".into(),
        answers: vec!["Ana Ruiz".into()],
        titles: Vec::new(),
        hops: Vec::new(),
        hop_budget: 5,
    };
    (0..count).map(question).collect()
}

fn row(id: &str, variant: &str, concurrency: u32, answer: &str) -> Row {
    Row {
        id: id.into(),
        variant: variant.parse().unwrap(),
        concurrency,
        answer: answer.into(),
        // Rows of earlier versions have none.
        confidence: (concurrency == 1).then_some(Confidence {
            chance: Some(0.5),
            of_form: None,
            supported: true,
            withheld: false,
        }),
        latency_ms: 12.345_678_901_234_5,
        first_answer_ms: (concurrency == 1).then_some(1.1),
        first_answer_chance: None,
        stall_ms: None,
        hops: vec![RowHop {
            sub_question: "Who?".into(),
            answer: "Ana".into(),
            kind: HopKind::Rejected,
            guess: Some("Eva".into()),
            right_guess: None,
            observed: "Ana".into(),
            found: true,
            titles: vec!["Ana".into()],
            segment_ms: 0.1,
            target_ms: 0.2,
            speculation_ms: None,
        }],
        final_ms: 1.0 / 3.0,
        segments: Calls::default(),
        targets: Calls::default(),
        speculations: Calls::default(),
        drafts: Calls::default(),
        salvaged: 0,
        drafted: Drafted::default(),
        unrecorded: 0,
    }
}

fn rows() -> Vec<Row> {
    vec![
        row("q0", "k=1", 1, "Ana"),
        row("q1", "k=3", 1, "line\nbreak"),
        row("q1", "k=1", 1, "Cádiz – \u{1f30d}"),
        row("q0", "k=3", 4, ""),
    ]
}

fn write(dir: &Path, rows: &[Row]) -> String {
    let (mut run, there) = RunWriter::open(dir, &info(2), &questions(2)).unwrap();
    for row in rows.iter().filter(|row| !there.contains(row)) {
        run.append(row).unwrap();
    }
    fs::read_to_string(dir.join(ROWS)).unwrap()
}

fn refused(dir: &Path) -> String {
    let read = Run::read(dir).unwrap_err().to_string();
    let opened = RunWriter::open(dir, &info(2), &questions(2)).unwrap_err();
    assert_eq!(read, opened.to_string());
    read
}

#[test]
fn what_is_written_is_read() {
    let dir = tempdir().unwrap();
    let dir = dir.path().join("runs/new");
    write(&dir, &rows());
    let run = Run::read(&dir).unwrap();
    assert_eq!(run.questions, questions(2));
    assert_eq!(run.info.command, "spechop eval live");
    assert_eq!(run.rows.len(), 4);
    for (read, written) in run.rows.iter().zip(rows()) {
        assert_eq!((&read.answer, key(read)), (&written.answer, key(&written)));
        assert!((read.latency_ms - written.latency_ms).abs() < 1e-12);
        assert_eq!(read.hops[0].titles, written.hops[0].titles);
        assert_eq!(read.confidence, written.confidence);
    }
    let missing: Vec<_> = run
        .missing()
        .into_iter()
        .map(|missing| {
            (
                missing.way.variant.to_string(),
                missing.way.concurrency,
                missing.ids,
            )
        })
        .collect();
    assert_eq!(
        missing,
        [
            ("k=1".to_owned(), 1, vec![]),
            ("k=3".to_owned(), 1, vec!["q0".to_owned()]),
            ("k=3".to_owned(), 4, vec!["q1".to_owned()]),
        ]
    );
}

#[test]
fn killed_at_any_byte_it_goes_on_to_the_same_run() {
    let dir = tempdir().unwrap();
    let whole = write(dir.path(), &rows());
    let before_two: usize = whole.split_inclusive('\n').take(2).map(str::len).sum();
    for length in before_two..=whole.len() {
        fs::write(dir.path().join(ROWS), &whole.as_bytes()[..length]).unwrap();
        let read = Run::read(dir.path()).unwrap();
        let ends = whole.as_bytes()[..length].iter().filter(|b| **b == b'\n');
        assert_eq!(read.rows.len(), ends.count(), "at byte {length}");
        let (mut run, there) = RunWriter::open(dir.path(), &info(2), &questions(2)).unwrap();
        assert_eq!(there, read.rows);
        for row in &rows()[there.len()..] {
            run.append(row).unwrap();
        }
        let again = fs::read_to_string(dir.path().join(ROWS)).unwrap();
        assert_eq!(again, whole, "at byte {length}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// However often a run is killed, and wherever, it ends with every row once, as written.
    #[test]
    fn kills_leave_nothing_behind(answers: [String; 4], kills in prop::collection::vec(0.0..1.0f64, 0..5)) {
        let mut rows = rows();
        for (row, answer) in rows.iter_mut().zip(answers) {
            row.answer = answer;
        }
        let dir = tempdir().unwrap();
        let whole = write(dir.path(), &rows);
        for kill in kills {
            let length = (whole.len() as f64 * kill) as usize;
            fs::write(dir.path().join(ROWS), &whole.as_bytes()[..length]).unwrap();
            let (mut run, there) = RunWriter::open(dir.path(), &info(2), &questions(2)).unwrap();
            for row in &rows[there.len()..] {
                run.append(row).unwrap();
            }
            prop_assert_eq!(&fs::read_to_string(dir.path().join(ROWS)).unwrap(), &whole);
        }
    }
}

#[test]
fn a_run_that_was_killed_while_it_began_begins_again() {
    let dir = tempdir().unwrap();
    write(dir.path(), &[]);
    fs::remove_file(dir.path().join(INFO)).unwrap();
    fs::write(dir.path().join(QUESTIONS), "{\"id\":").unwrap();
    fs::write(dir.path().join("run.json.new"), "{").unwrap();
    write(dir.path(), &rows());
    assert_eq!(Run::read(dir.path()).unwrap().rows.len(), 4);
    // Begun, and killed before there was a file for rows.
    fs::remove_file(dir.path().join(ROWS)).unwrap();
    assert_eq!(Run::read(dir.path()).unwrap().rows, []);
}

#[test]
fn other_circumstances_are_named() {
    let dir = tempdir().unwrap();
    write(dir.path(), &rows());
    let open = |info: &RunInfo, questions: &[Question]| {
        let result = RunWriter::open(dir.path(), info, questions);
        result.map_or_else(|error| error.to_string(), |_| "taken".to_owned())
    };
    let mut other = info(2);
    other.command = "spechop eval live --again".into();
    assert_eq!(open(&other, &questions(2)), "taken");

    other.seed = 2;
    other.injected = None;
    other.parts.insert("reader".into(), "v3".into());
    other.parts.insert("index".into(), "wiki".into());
    other.machine.cores = 8;
    let said = open(&other, &questions(2));
    for words in [
        "seed was 1 and is 2",
        "injected was {",
        "and is not there",
        "parts.reader was \"v2\" and is \"v3\"",
        "parts.index was not there and is \"wiki\"",
        "machine.cores was 2 and is 8",
        "take another folder",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert!(
        !said.contains("command") && !said.contains("commit"),
        "{said}"
    );

    let mut renamed = questions(2);
    renamed[1].id = "q7".into();
    let said = open(&info(2), &renamed);
    assert!(said.contains("question 2 was q1 and is q7"), "{said}");
    let mut reworded = questions(2);
    reworded[0].text.push('?');
    let said = open(&info(2), &reworded);
    assert!(
        said.contains("question q0 is not the one of that id then"),
        "{said}"
    );
    let said = open(&info(3), &questions(3));
    assert!(said.contains("questions was 2 and is 3"), "{said}");
    // Nothing of this has touched the run.
    assert_eq!(Run::read(dir.path()).unwrap().rows.len(), 4);
}

#[test]
fn damage_is_named_with_its_line() {
    let dir = tempdir().unwrap();
    let whole = write(dir.path(), &rows());
    let lines: Vec<_> = whole.lines().collect();
    for (text, words) in [
        (
            format!("{}\nnot JSON\n{}\n", lines[0], lines[1]),
            "rows.jsonl:2 cannot be read: ",
        ),
        (
            format!("{}\n\n{}\n", lines[0], lines[1]),
            "rows.jsonl:2 cannot be read: ",
        ),
        (
            format!("{}\n{}\n{}\n", lines[0], lines[1], lines[0]),
            "line 3: question q0 with k=1 at concurrency 1 is in line 1 already",
        ),
        (
            format!("{}\n{}\n", lines[0], lines[1].replace("q1", "q9")),
            "line 2: questions.jsonl has no question q9",
        ),
    ] {
        fs::write(dir.path().join(ROWS), text).unwrap();
        let said = refused(dir.path());
        assert!(said.contains(words), "{said}");
    }
    fs::write(dir.path().join(ROWS), whole).unwrap();
    let one = fs::read_to_string(dir.path().join(QUESTIONS)).unwrap();
    let first = one.lines().next().unwrap();
    for (text, words) in [
        (
            format!("{first}\n{first}\n"),
            "line 2: question q0 is in line 1 already",
        ),
        (format!("{first}\n"), "has 1 questions, and run.json says 2"),
        (
            format!("{first}\n{{}}\n"),
            "questions.jsonl:2 cannot be read: ",
        ),
    ] {
        fs::write(dir.path().join(QUESTIONS), text).unwrap();
        let said = refused(dir.path());
        assert!(said.contains(words), "{said}");
    }
    fs::write(dir.path().join(INFO), "{}").unwrap();
    assert!(refused(dir.path()).contains("run.json:1 cannot be read: "));
}

#[test]
fn a_folder_holds_a_run_or_a_bundle() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(bundle::INFO), "{}").unwrap();
    let error = RunWriter::open(dir.path(), &info(2), &questions(2)).unwrap_err();
    assert!(matches!(error, RunError::Bundle(_)), "{error}");
    let run = Run {
        info: info(2),
        questions: questions(2),
        rows: rows(),
    };
    let error = run.write(dir.path()).unwrap_err();
    assert!(matches!(error, RunError::Bundle(_)), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_has_one_run_and_one_writer() {
    let dir = tempdir().unwrap();
    assert!(
        Run::read(dir.path())
            .unwrap_err()
            .to_string()
            .contains("there is no run.json")
    );
    fs::write(dir.path().join(ROWS), "{}\n").unwrap();
    let error = RunWriter::open(dir.path(), &info(2), &questions(2)).unwrap_err();
    assert!(matches!(error, RunError::RowsAlone(_)), "{error}");
    fs::remove_file(dir.path().join(ROWS)).unwrap();

    let (mut run, there) = RunWriter::open(dir.path(), &info(2), &questions(2)).unwrap();
    assert_eq!(there, []);
    let error = RunWriter::open(dir.path(), &info(2), &questions(2)).unwrap_err();
    assert!(
        matches!(error, RunError::File(FileError::Locked(_))),
        "{error}"
    );
    run.append(&row("q0", "k=1", 1, "Ana")).unwrap();
    let again = run.append(&row("q0", "k=1", 1, "Eva")).unwrap_err();
    assert!(matches!(again, RunError::Again(_)), "{again}");
    let stray = run.append(&row("q2", "k=1", 1, "Ana")).unwrap_err();
    assert!(matches!(stray, RunError::Stray(_)), "{stray}");
    drop(run);
    assert_eq!(Run::read(dir.path()).unwrap().rows.len(), 1);
}

#[test]
fn more_may_be_wanted_later_and_is_missing_until_it_is_there() {
    let dir = tempdir().unwrap();
    let want = |ks: &[usize]| {
        let variants = ks.iter().filter_map(|k| K::of(*k)).map(Variant::at);
        let variants: Vec<_> = variants.collect();
        let wanted = Wanted::all(&variants, &[1]);
        let command = format!("ask {ks:?}");
        let info = RunInfo {
            wanted,
            command,
            ..info(2)
        };
        RunWriter::open(dir.path(), &info, &questions(2)).unwrap().0
    };
    want(&[1]).append(&row("q0", "k=1", 1, "Ana")).unwrap();
    drop(want(&[1, 3]));
    // Less is wanted now; what was wanted before is so still.
    drop(want(&[1]));
    let run = Run::read(dir.path()).unwrap();
    assert_eq!(run.info.command, "ask [1] && ask [1, 3]");
    let missing: Vec<_> = run
        .missing()
        .into_iter()
        .map(|m| (m.way.variant.k(), m.ids.len()))
        .collect();
    assert_eq!(missing, [(K::ONE, 1), (K::of(3).unwrap(), 2)]);
}
