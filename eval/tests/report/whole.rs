//! What is missing, or does not fit together, says so.

use spechop_eval::Wanted;

use super::*;

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
fn what_was_never_begun_is_missing_too() {
    let mut runs = both();
    runs[0].info.wanted = Wanted::all(&["k=6".parse().unwrap()], &[1]);
    let report = report(&runs).unwrap();
    let warning = "live: k=6 is NOT WHOLE: it was to be asked, and has no answer at all.";
    assert!(
        report.markdown.contains(warning),
        "{:?}",
        report.data.warnings
    );
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
fn numbers_of_fewer_questions_say_how_many() {
    let mut runs = both();
    // The widest has 20 questions; the best has all. k = 3 is right twice less.
    runs[0]
        .rows
        .retain(|row| row.variant.to_string() != "k=inf" || row.id.as_str() < "q020");
    for row in &mut runs[0].rows {
        match row.variant.to_string().as_str() {
            "k=inf" => row.latency_ms *= 1.5,
            "k=3" if row.id.as_str() < "q002" => row.answer = "lost".into(),
            _ => {}
        }
    }
    runs[1].rows.retain(|row| row.id.as_str() < "q029");
    let report = report(&runs).unwrap();
    let of = |column| cell(table(&report, "speculation"), &["live", "hot"], column);
    assert_eq!(of("Best k").text, "k=3");
    assert_eq!(of("Questions").text, "30 of 30");
    assert_eq!(of("Questions of p, α, β").text, "20 of 30, NOT WHOLE");
    let part = "1.000 [1.000, 1.000], 29 of 30, NOT WHOLE";
    assert_eq!(of("RelLat ÷ simulated").text, part);
    let of = |column| cell(table(&report, "by_k"), &["3"], column);
    assert_eq!(of("RelLat, live ÷ simulated").text, part);
    // Of 30 every tenth is wrong anyhow.
    is(of("Right at k=1, live"), 27.0);
    assert!(of("RelLat of theory").text.ends_with("29 of 30, NOT WHOLE"));
    let overview = &report.data.overview;
    let at = overview.columns.iter().position(|head| head == "RelLat*");
    let live = overview.rows.iter().find(|row| row[1].text == "live");
    let bound = &live.unwrap()[at.unwrap()].text;
    assert!(bound.ends_with("20 of 30, NOT WHOLE"), "{bound}");
}

#[test]
fn answers_that_are_not_known_are_left_out_at_a_glance() {
    let mut runs = both();
    let first = runs[0].rows.iter_mut();
    for row in first.filter(|row| row.variant.to_string() == "k=inf" && row.id == "q000") {
        (row.unrecorded, row.answer) = (1, String::new());
    }
    let overview = report(&runs).unwrap().data.overview;
    let live = overview.rows.iter().find(|row| row[1].text == "live");
    for (column, expected) in [
        ("EM, k=1", 26.0 / 29.0),
        ("EM", 26.0 / 29.0),
        ("Same answer", 1.0),
    ] {
        let at = overview.columns.iter().position(|head| head == column);
        let cell = &live.unwrap()[at.unwrap()];
        is(cell, expected);
        assert!(cell.text.ends_with("29 of 30, NOT WHOLE"), "{}", cell.text);
    }
}

#[test]
fn variants_without_a_common_question_are_no_ablation() {
    let variants = [("k=1", 1.0), ("k=3", 0.7), ("k=3,salvage=off", 0.8)];
    let mut run = run(Source::Live, 6, &variants);
    run.rows.retain(|row| {
        let early = row.id.as_str() < "q003";
        row.variant.is_standard() || early == row.variant.salvages()
    });
    let report = report(&[run]).unwrap();
    let mut tables = report.data.sections[0].tables.iter();
    assert!(!tables.any(|table| table.name == "ablation"));
    assert!(!report.markdown.contains("NaN") && !report.html.contains("NaN"));
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
    runs[0].info.commit = "7654321+89abcdef01234567".into();
    runs[1].info.machine.cores = 4;
    let title = "2WikiMultihopQA, gold planner, latency INJECTED: 4150 ± 1680 ms, seed 7";
    let warnings = [
        format!("{title}: the runs differ in part `reader`: live large; simulated small 0123abcd."),
        format!(
            "{title}: the runs differ in machine: live a processor, 2 cores; simulated a processor, 4 cores."
        ),
        "The runs were made at these commits of the program (+: with changes that were not committed): \
         0123456 (1), 7654321+89ab (1)."
            .to_owned(),
    ];
    assert_eq!(report(&runs).unwrap().data.warnings, warnings);
}

#[test]
fn a_section_says_what_its_rows_take_for_granted() {
    let about = |sources: &[(Source, f64)]| {
        let runs = sources.iter().map(|(source, speed)| {
            let mut run = run(*source, 3, &[("k=1", 1.0), ("k=3", 0.7)]);
            run.info.speed = *speed;
            run
        });
        let report = report(&runs.collect::<Vec<_>>()).unwrap();
        let about = report.data.sections[0].about.clone();
        assert!(
            report.markdown.contains(&about) && report.html.contains(&about[..about.len().min(30)])
        );
        about
    };
    assert_eq!(about(&[(Source::Live, 1.0)]), "");
    assert!(about(&[(Source::Live, 1.0), (Source::Simulated, 1.0)]).contains("do not contend"));
    let both = about(&[(Source::Replayed, 8.0), (Source::Simulated, 1.0)]);
    assert_eq!(both.matches("do not contend").count(), 1, "{both}");
    assert!(both.contains("Rows of replayed were run at speed 8 and are multiplied by 8"));
}
