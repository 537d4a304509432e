//! Reports of runs whose truth is known.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::collections::BTreeMap;

use spechop_eval::{
    Calls, Cell, Dataset, GoldHop, HopKind, Injected, Machine, Question, Report, ReportError, Row,
    RowHop, Run, RunInfo, Source, Table, Variant, report,
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
        salvaged: 0,
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

#[test]
fn speculation_is_what_was_put_in() {
    let report = report(&both()).unwrap();
    let table = table(&report, "speculation");
    let of = |column| cell(table, &["simulated", "hot"], column);
    is(of("p"), SHARE);
    is(of("Effective p"), SHARE);
    is(of("Compared"), 1.0);
    is(of("α"), 0.2);
    is(of("β"), 0.1);
    is(of("RelLat*"), 1.0 - SHARE * 0.8 / 1.1);
    // Two guesses of three hops; the final segment is 0.075 target calls.
    is(of("RelLat* at this length"), 1.0 - 2.0 * 0.8 / 3.375);
    assert_eq!(of("Best k").text, "k=inf");
    // The same in every question, so certain.
    assert_eq!(of("RelLat").text, "0.600 [0.600, 0.600]");
    is(
        cell(table, &["live", "hot"], "RelLat ÷ simulated"),
        0.63 / 0.60,
    );
    is(cell(table, &["the paper, web", "GPT-4o"], "RelLat*"), 0.5);
    is(cell(table, &["the paper, web", "Llama-8B"], "RelLat"), 0.78);
}

#[test]
fn a_hop_without_a_guess_counts_against_the_effective_p() {
    let mut run = run(Source::Simulated, 10, &[("k=1", 1.0), ("k=inf", 0.6)]);
    for row in run.rows.iter_mut().filter(|row| !row.variant.is_standard()) {
        row.hops[0].kind = HopKind::Observed;
    }
    let report = report(&[run]).unwrap();
    let of = |column| cell(table(&report, "speculation"), &["simulated"], column);
    is(of("Compared"), 2.0 / 3.0);
    is(of("p"), 0.5);
    is(of("Effective p"), 1.0 / 3.0);
    is(of("RelLat*"), 1.0 - 0.8 / 1.1 / 3.0);
}

#[test]
fn guesses_of_last_hops_hide_the_final_segment() {
    let bounds = |stretch_final: f64| {
        let mut run = run(Source::Simulated, 10, &[("k=1", 1.0), ("k=inf", 0.6)]);
        for row in run.rows.iter_mut().filter(|row| !row.variant.is_standard()) {
            row.hops[0].kind = HopKind::Rejected;
            row.hops[2].kind = HopKind::Accepted;
            row.final_ms *= stretch_final;
        }
        let report = report(&[run]).unwrap();
        let of = |column| cell(table(&report, "speculation"), &["simulated"], column).clone();
        [of("RelLat*"), of("RelLat* at this length")]
    };
    // A final segment of 0.075 target calls is hidden whole.
    let [endless, here] = bounds(1.0);
    is(&endless, 1.0 - 2.0 / 3.0 * 0.8 / 1.1);
    is(&here, 1.0 - (0.8 + 0.075) / (3.0 * 1.1 + 0.075));
    // One of 1.5, only while its look-up is still under way.
    let [endless, here] = bounds(20.0);
    is(&endless, 1.0 - 2.0 / 3.0 * 0.8 / 1.1);
    is(&here, 1.0 - (0.8 + 0.8) / (3.0 * 1.1 + 1.5));
}

#[test]
fn the_bound_at_a_length_is_that_of_these_questions() {
    // A single hop, never guessed right: nothing can be saved.
    let mut run = run(Source::Simulated, 10, &[("k=1", 1.0), ("k=inf", 1.0)]);
    for row in run.rows.iter_mut().filter(|row| !row.variant.is_standard()) {
        row.hops.remove(0);
        row.hops.remove(0);
    }
    let report = report(&[run]).unwrap();
    is(
        cell(
            table(&report, "speculation"),
            &["simulated"],
            "RelLat* at this length",
        ),
        1.0,
    );
}

#[test]
fn every_k_stands_beside_the_theory_and_the_other_run() {
    let report = report(&both()).unwrap();
    let table = table(&report, "by_k");
    is(cell(table, &["1"], "RelLat, live"), 1.0);
    is(cell(table, &["1"], "RelLat of theory"), 1.0);
    is(cell(table, &["1"], "Latency, live ÷ simulated"), 1.0);
    is(cell(table, &["3"], "RelLat, live"), 0.75);
    is(cell(table, &["inf"], "RelLat, live"), 0.63);
    is(cell(table, &["inf"], "RelLat where right, live"), 0.63);
    is(
        cell(table, &["inf"], "RelLat of theory"),
        1.0 - SHARE * 0.8 / 1.1,
    );
    is(cell(table, &["3"], "RelLat, live ÷ simulated"), 1.0);
    is(cell(table, &["inf"], "Latency, live ÷ simulated"), 1.05);
}

#[test]
fn answers_are_scored_and_held_against_the_standard_agent() {
    let mut runs = both();
    // One right answer is lost, and one trajectory differs.
    let mut lossy = runs[0]
        .rows
        .iter_mut()
        .filter(|row| row.variant.to_string() == "k=3");
    let changed = lossy.next().unwrap();
    changed.answer = "lost".into();
    changed.hops[1].answer = "something else".into();
    let report = report(&runs).unwrap();
    let table = table(&report, "quality");
    is(cell(table, &["live", "k=1"], "EM"), 0.9);
    is(cell(table, &["live", "k=1"], "Recall of pages"), 1.0);
    is(cell(table, &["live", "k=1"], "Hops"), 3.0);
    let of = |column| cell(table, &["live", "k=3"], column);
    assert_eq!(of("EM − k=1").text, "−0.033 (p = 1.000)");
    is(of("Same sub-questions"), 1.0);
    is(of("Same sub-answers"), 29.0 / 30.0);
    is(of("Same answer"), 29.0 / 30.0);
}

#[test]
fn cost_ablations_and_verifier_count_what_was_done() {
    let report = report(&both()).unwrap();
    let cost = table(&report, "cost");
    is(cell(cost, &["live", "k=inf"], "T ÷ k=1"), 2.0);
    is(cell(cost, &["live", "k=inf"], "T wasted"), 3.0);
    is(cell(cost, &["live", "k=inf"], "RelLat"), 0.63);
    is(cell(cost, &["live", "k=inf"], "M ÷ k=1"), 1.5);
    is(cell(cost, &["live", "k=1"], "Tokens"), 200.0);
    let ablation = table(&report, "ablation");
    let of = |column| cell(ablation, &["live", "salvage off"], column);
    assert_eq!(of("Against").text, "k=inf");
    is(of("Latency ratio"), 0.66 / 0.63);
    is(of("p of latency"), 1.0 / 10_001.0);
    assert_eq!(of("p of latency").text, "< 0.001");
    let verifier = table(&report, "verifier");
    let of = |column| cell(verifier, &["live", "k=inf"], column);
    is(of("Accepted"), SHARE);
    is(of("Precision"), 1.0);
    is(of("False rejects"), 0.0);
    is(of("Rejected, checkable"), 30.0);
}

#[test]
fn types_have_a_bound_of_their_own() {
    let mut runs = both();
    // Of one type no guess is right.
    for row in &mut runs[0].rows {
        if row.id.trim_start_matches('q').parse::<usize>().unwrap() % 3 == 0 {
            row.hops
                .iter_mut()
                .filter(|hop| hop.kind == HopKind::Accepted)
                .for_each(|hop| {
                    hop.kind = HopKind::Rejected;
                });
        }
    }
    let report = report(&runs).unwrap();
    let table = table(&report, "by_type");
    is(cell(table, &["live", "bridge"], "RelLat*"), 1.0);
    is(
        cell(table, &["live", "comparison"], "RelLat*"),
        1.0 - SHARE * 0.8 / 1.1,
    );
    is(
        cell(table, &["live", "comparison"], "RelLat, salvage off"),
        0.66,
    );
    assert_eq!(
        cell(table, &["live", "bridge"], "Questions").text,
        "10 of 10"
    );
}

#[test]
fn what_is_not_whole_says_so() {
    let mut runs = both();
    let lost = |row: &Row| row.variant.to_string() == "k=inf" && row.id.as_str() < "q005";
    runs[0].rows.retain(|row| !lost(row));
    let report = report(&runs).unwrap();
    let warning = "live: k=inf is NOT WHOLE: 25 of 30 questions.";
    assert!(
        report.data.warnings.iter().any(|w| w.ends_with(warning)),
        "{:?}",
        report.data.warnings
    );
    assert!(report.html.contains(warning) && report.markdown.contains(warning));
    let questions = cell(table(&report, "by_k"), &["inf"], "Questions, live");
    assert_eq!(questions.text, "25 of 30, NOT WHOLE");
    is(cell(table(&report, "by_k"), &["inf"], "RelLat, live"), 0.63);
}

#[test]
fn a_variant_without_a_common_question_is_left_out() {
    let mut run = run(
        Source::Live,
        6,
        &[("k=1", 1.0), ("k=3", 0.7), ("k=inf", 0.6)],
    );
    run.rows
        .retain(|row| match row.variant.to_string().as_str() {
            "k=1" => row.id != "q005",
            "k=3" => row.id == "q005",
            _ => true,
        });
    // At four at once there is no k=1.
    run.rows.push(Row {
        concurrency: 4,
        ..row(0, "k=2", 0.8)
    });
    let report = report(&[run]).unwrap();
    let left_out = |name: &str| {
        let text = format!("{name} is left out, as no question was answered both by it and by k=1");
        report
            .data
            .warnings
            .iter()
            .any(|warning| warning.contains(&text))
    };
    assert!(
        left_out("k=3") && left_out("k=2 (4 at once)"),
        "{:?}",
        report.data.warnings
    );
    assert_eq!(table(&report, "by_k").rows.len(), 2);
}

#[test]
fn there_is_no_report_without_something_to_compare_with() {
    assert!(matches!(report(&[]), Err(ReportError::Empty)));
    let run = run(Source::Live, 3, &[("k=3", 0.7)]);
    assert!(matches!(report(&[run]), Err(ReportError::NoBaseline)));
}

#[test]
fn rows_of_strangers_and_repeated_rows_are_left_out() {
    let mut run = run(Source::Live, 3, &[("k=1", 1.0), ("k=3", 0.7)]);
    run.rows.push(row(1, "k=3", 50.0));
    run.rows.push(row(77, "k=3", 50.0));
    let report = report(&[run]).unwrap();
    assert_eq!(report.data.warnings.len(), 2, "{:?}", report.data.warnings);
    is(cell(table(&report, "by_k"), &["3"], "RelLat, live"), 0.7);
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "<script>alert('1')</script> | \"&\" `x` [a](b)\n# no";
    let mut runs = both();
    for run in &mut runs {
        run.info.system = hostile.into();
        run.info.command = hostile.into();
        run.info.parts.insert(hostile.into(), hostile.into());
        run.questions
            .iter_mut()
            .for_each(|question| question.kind = hostile.into());
        run.rows.pop();
        run.rows.pop();
    }
    let report = report(&runs).unwrap();
    assert!(!report.html.contains("<script"));
    well_formed(&report.html);
    assert!(!report.markdown.contains("<script"));
    assert!(!report.markdown.contains("[a](b)") && !report.markdown.contains("\n# no"));
    // A table's lines have as many bars as its head.
    let bars = |line: &str| line.replace(r"\|", "").matches('|').count();
    let mut head = 0;
    for line in report.markdown.lines() {
        match line.starts_with('|') {
            true if head == 0 => head = bars(line),
            true => assert_eq!(bars(line), head, "{line}"),
            false => head = 0,
        }
    }
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let report = report(&both()).unwrap();
    well_formed(&report.html);
    for outside in [
        "<script", "http:", "https:", "url(", "@import", "<link", "<img",
    ] {
        assert!(!report.html.contains(outside), "{outside}");
    }
    assert_eq!(report.html.matches("<figure>").count(), 4);
    assert!(report.html.contains("INJECTED") && report.markdown.contains("INJECTED"));
}

#[test]
fn same_runs_same_bytes() {
    let [live, simulated] = both();
    let one = report(&[live.clone(), simulated.clone()]).unwrap();
    assert_eq!(one, report(&[simulated, live]).unwrap());
}

#[test]
fn the_markdown_is_as_it_was() {
    let [live, _] = both();
    insta::assert_snapshot!(report(&[live]).unwrap().markdown);
}

#[test]
fn the_standard_agent_alone_has_an_overview() {
    let report = report(&[run(Source::Live, 3, &[("k=1", 1.0)])]).unwrap();
    well_formed(&report.html);
    assert_eq!(report.data.overview.rows.len(), 1);
}

/// Every tag that is opened is closed, in its order; every id stands once, and every link within the page
/// leads somewhere.
#[track_caller]
fn well_formed(html: &str) {
    let mut open = Vec::new();
    let style = html.find("</style>").unwrap();
    let mut rest = &html[style..];
    open.extend(["html", "head", "style"]);
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap();
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let values = |before: &str| -> Vec<String> {
        let parts = html.split(before).skip(1);
        parts
            .map(|part| part.split('"').next().unwrap().to_owned())
            .collect()
    };
    let mut ids = values(" id=\"");
    for link in values("href=\"#") {
        assert!(ids.contains(&link), "{link}");
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn a_run_without_the_standard_agent_does_not_end_the_report() {
    let without = run(Source::Live, 3, &[("k=3", 0.7)]);
    let [live, simulated] = both();
    let report = report(&[without, live, simulated]).unwrap();
    let left_out = report.data.warnings.iter();
    let left_out: Vec<_> = left_out.filter(|w| w.contains("LEFT OUT")).collect();
    assert_eq!(left_out.len(), 1, "{:?}", report.data.warnings);
    assert!(left_out[0].contains("seed 7, live: THE WHOLE RUN"));
    // The other keeps its number.
    assert_eq!(report.data.overview.rows.len(), 2);
    is(
        cell(table(&report, "speculation"), &["live 2", "hot"], "RelLat"),
        0.63,
    );
}

#[test]
fn runs_that_only_share_a_name_are_told_apart() {
    let mut runs = both();
    let quiet = report(&runs).unwrap();
    assert!(quiet.data.warnings.is_empty(), "{:?}", quiet.data.warnings);
    runs[0].info.parts.insert("reader".into(), "large".into());
    // Only one of them names it.
    runs[0].info.parts.insert("planner".into(), "any".into());
    runs[0].info.commit = "7654321+".into();
    runs[1].info.machine.cores = 4;
    let title = "2WikiMultihopQA, gold planner, latency INJECTED: 4150 ± 1680 ms, seed 7";
    let warnings: Vec<String> = [
        ": the runs differ in part `reader`: live large; simulated small 0123abcd.",
        ": the runs differ in commit: simulated 0123456; live 7654321+.",
        ": the runs differ in machine: live a processor, 2 cores; simulated a processor, 4 cores.",
        ", live: commit 7654321+ had changes that were not committed.",
    ]
    .map(|warning| format!("{title}{warning}"))
    .into();
    assert_eq!(report(&runs).unwrap().data.warnings, warnings);
}

#[test]
fn figures_that_compare_variants_show_the_run_that_has_most() {
    let [mut live, simulated] = both();
    live.rows.retain(|row| row.variant.k.is_some());
    let html = report(&[live, simulated]).unwrap().html;
    for caption in [
        "Cost against gain, simulated:",
        "Latency of questions, live, ",
        "(and how many), simulated.",
    ] {
        assert!(html.contains(caption), "{caption}");
    }
    // Of equals, the live one.
    let html = report(&both()).unwrap().html;
    assert!(html.contains("Cost against gain, live:"));
}
