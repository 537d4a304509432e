//! Reports of runs whose truth is known.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

mod decisions;
mod kinds;
mod numbers;
mod page;
mod paper;
mod whole;

use std::collections::BTreeMap;

use spechop_eval::{
    Calls, Cell, Confidence, Dataset, Drafted, GoldHop, HopKind, Injected, Machine, Question,
    Report, ReportError, Row, RowHop, Run, RunInfo, Source, Table, Variant, report,
};

/// Every third guess is wrong.
const SHARE: f64 = 2.0 / 3.0;
const SEGMENT_MS: f64 = 400.0;
const TARGET_MS: f64 = 4000.0;
const SPECULATION_MS: f64 = 800.0;
const FINAL_MS: f64 = 300.0;

fn questions(count: usize) -> Vec<Question> {
    let kinds = ["bridge", "comparison", "inference"];
    let question = |i: usize| Question {
        id: format!("q{i:03}"),
        dataset: Dataset::Wiki,
        kind: kinds[i % 3].into(),
        text: format!("Question {i}?"),
        answers: vec![format!("answer {i}")],
        titles: vec![format!("page {i} 0"), format!("page {i} 1")],
        hops: (0..3)
            .map(|hop| GoldHop {
                asks: format!("hop {hop}"),
                answer: format!("gold {i} {hop}"),
            })
            .collect(),
        hop_budget: 6,
    };
    (0..count).map(question).collect()
}

/// Three hops each; the third guess of each question is rejected. RelLat is what it is told.
fn row(i: usize, variant: &str, rel_lat: f64) -> Row {
    let variant: Variant = variant.parse().unwrap();
    let standard = variant.is_standard();
    // Longer and shorter questions.
    let stretch = 1.0 + (i * 7 % 10) as f64 / 10.0;
    let hop = |hop: usize| {
        let kind = match (standard, hop) {
            (true, _) => HopKind::Observed,
            (false, 2) => HopKind::Rejected,
            (false, _) => HopKind::Accepted,
        };
        let observed = format!("gold {i} {hop}");
        let guess = if kind == HopKind::Rejected {
            "wrong".to_owned()
        } else {
            observed.clone()
        };
        RowHop {
            sub_question: format!("hop {hop} of {i}?"),
            answer: observed.clone(),
            kind,
            guess: (!standard).then_some(guess),
            right_guess: None,
            observed,
            found: true,
            titles: vec![format!("page {i} {hop}")],
            segment_ms: SEGMENT_MS * stretch,
            target_ms: TARGET_MS * stretch,
            speculation_ms: (!standard).then_some(SPECULATION_MS * stretch),
        }
    };
    let calls = |started, wasted| Calls {
        started,
        wasted,
        tokens: 100,
        ..Calls::default()
    };
    Row {
        id: format!("q{i:03}"),
        concurrency: 1,
        // Every tenth question is answered wrongly.
        answer: if i % 10 == 9 {
            "no idea".into()
        } else {
            format!("The answer {i}.")
        },
        confidence: None,
        first_answer_ms: None,
        first_answer_chance: None,
        stall_ms: None,
        latency_ms: rel_lat * stretch * (3.0 * (SEGMENT_MS + TARGET_MS) + FINAL_MS),
        hops: (0..3).map(hop).collect(),
        final_ms: FINAL_MS * stretch,
        segments: if standard { calls(4, 0) } else { calls(6, 2) },
        targets: if standard { calls(3, 0) } else { calls(6, 3) },
        speculations: if standard {
            Calls::default()
        } else {
            calls(4, 1)
        },
        drafts: Calls::default(),
        salvaged: 0,
        drafted: Drafted::default(),
        unrecorded: 0,
        variant,
    }
}

fn run(source: Source, count: usize, variants: &[(&str, f64)]) -> Run {
    let rows = variants
        .iter()
        .flat_map(|(variant, rel_lat)| (0..count).map(move |i| row(i, variant, *rel_lat)));
    Run {
        info: RunInfo {
            source,
            system: "gold planner".into(),
            dataset: Dataset::Wiki,
            questions: count,
            seed: 7,
            injected: Some(Injected {
                mean_ms: 4150.0,
                sigma_ms: 1680.0,
                seed: 7,
            }),
            speed: 1.0,
            parts: BTreeMap::from([("reader".into(), "small 0123abcd".into())]),
            commit: "0123456".into(),
            machine: Machine {
                cores: 2,
                cpu: "a processor".into(),
            },
            command: "spechop eval live --k 1,3,inf".into(),
            wanted: Vec::new(),
        },
        questions: questions(count),
        rows: rows.collect(),
    }
}

fn both() -> [Run; 2] {
    let variants = |inf| {
        [
            ("k=1", 1.0),
            ("k=3", 0.75),
            ("k=inf", inf),
            ("k=inf,salvage=off", 0.66),
        ]
    };
    [
        run(Source::Live, 30, &variants(0.63)),
        run(Source::Simulated, 30, &variants(0.60)),
    ]
}

fn table<'a>(report: &'a Report, name: &str) -> &'a Table {
    let mut tables = report
        .data
        .sections
        .iter()
        .flat_map(|section| &section.tables);
    tables.find(|table| table.name == name).unwrap()
}

/// The cell of the only row that begins like this.
fn cell<'a>(table: &'a Table, begins: &[&str], column: &str) -> &'a Cell {
    let column = table
        .columns
        .iter()
        .position(|head| head == column)
        .unwrap();
    let like = |row: &&Vec<Cell>| {
        begins
            .iter()
            .zip(*row)
            .all(|(text, cell)| cell.text == *text)
    };
    let rows: Vec<_> = table.rows.iter().filter(like).collect();
    assert_eq!(rows.len(), 1, "{begins:?}");
    &rows[0][column]
}

#[track_caller]
fn is(cell: &Cell, expected: f64) {
    let value = cell.value.unwrap();
    assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
}
