//! Numbers that follow from what was put in.

use super::*;
use spechop_eval::Means;

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
    // Each published row finds the runs that it stands beside.
    for row in spechop_theory::PUBLISHED {
        let mut titles = Dataset::ALL.into_iter().map(Dataset::title);
        assert!(titles.any(|title| title == row.dataset), "{row:?}");
    }
    let of_the_paper = |speculator| ["the paper, CoRAG 8B, web", speculator];
    is(cell(table, &of_the_paper("GPT-4o"), "RelLat*"), 0.5);
    is(cell(table, &of_the_paper("Llama 3.1 8B"), "RelLat"), 0.78);
    let right = "RelLat where k=1 is right";
    is(cell(table, &of_the_paper("Llama 3.1 8B"), right), 0.77);
}

#[test]
fn what_blind_guesses_gain_too_is_not_owed_to_prediction() {
    let variants = [
        ("k=1", 1.0),
        ("k=3", 0.7),
        ("k=3,speculator=blind", 0.9),
        ("k=3,plan-ahead=on", 0.6),
        ("k=3,speculator=blind,plan-ahead=on", 0.8),
        ("k=3,speculator=silent,plan-ahead=on", 0.8),
        ("k=inf", 1.0),
        ("k=inf,speculator=blind", 1.0),
    ];
    let report = report(&[run(Source::Simulated, 10, &variants)]).unwrap();
    let control = table(&report, "control");
    let of = |variant, column| cell(control, &["simulated", variant], column);
    is(of("k=3", "RelLat, blind"), 0.9);
    is(of("k=3", "Owed to prediction"), 2.0 / 3.0);
    assert_eq!(of("k=3", "RelLat, silent").text, "–");
    is(of("k=3,plan-ahead=on", "RelLat, silent"), 0.8);
    is(of("k=3,plan-ahead=on", "Owed to prediction"), 0.5);
    assert_eq!(of("k=inf", "Owed to prediction").text, "–");
    assert_eq!(control.rows.len(), 3);
    // A control is nobody's speculator, and never the fastest.
    let named = |table: &&Table| table.title.contains("blind") || table.title.contains("silent");
    let sections = &report.data.sections;
    assert!(
        !sections
            .iter()
            .flat_map(|section| &section.tables)
            .any(|table| named(&table))
    );
}

#[test]
fn stall_overlap_and_ranks_are_what_was_put_in() {
    let variants = [("k=1", 1.0), ("k=3,guesses=3", 0.7)];
    let mut run = run(Source::Simulated, 10, &variants);
    for row in &mut run.rows {
        let targets: f64 = row.hops.iter().map(|hop| hop.target_ms).sum();
        let is_standard = row.variant.is_standard();
        row.stall_ms = Some(if is_standard { targets } else { targets / 4.0 });
        // The first hop's first guess is right, the second's third.
        if !is_standard {
            row.hops[0].right_guess = Some(1);
            row.hops[1].right_guess = Some(3);
        }
    }
    let report = report(&[run.clone()]).unwrap();
    let of = |variant, column| cell(table(&report, "stall"), &["simulated", variant], column);
    is(of("k=1", "Hidden"), 0.0);
    is(of("k=3,guesses=3", "Hidden"), 0.75);
    is(of("k=3,guesses=3", "Stall ÷ k=1"), 0.25);
    let hits = |column| cell(table(&report, "hits"), &["simulated"], column);
    is(hits("Top 1"), 1.0 / 3.0);
    is(hits("Top 2"), 1.0 / 3.0);
    is(hits("Top 3"), 2.0 / 3.0);
    is(hits("Any"), 2.0 / 3.0);
    assert_eq!(hits("Hops").text, "30");
    // Nobody knows of one that did not say.
    run.rows.iter_mut().for_each(|row| row.stall_ms = None);
    let unknown = super::report(&[run]).unwrap();
    let tables = || {
        unknown
            .data
            .sections
            .iter()
            .flat_map(|section| &section.tables)
    };
    assert!(!tables().any(|table| table.name == "stall" || table.name == "hits"));
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
    is(
        cell(table, &["inf"], "RelLat where k=1 is right, live"),
        0.63,
    );
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
fn drafts_are_counted_where_there_are_some() {
    let mut runs = both();
    let cost = |runs: &[Run]| table(&report(runs).unwrap(), "cost").clone();
    assert!(!cost(&runs).columns.contains(&"Drafted".to_owned()));
    for row in &mut runs[0].rows {
        if row.variant.to_string() == "k=3" {
            row.drafted = Drafted {
                begun: 3,
                foreseen: 2,
                hidden_ms: 250.0,
            };
            // A language model wrote some of them.
            row.drafts = Calls {
                started: 4,
                wasted: 3,
                tokens: 40,
                wasted_tokens: 30,
                money_micros: 8,
                wasted_money_micros: 6,
            };
        }
    }
    let cost = cost(&runs);
    for (column, ahead) in [("Drafted", 3.0), ("Foreseen", 2.0), ("Hidden, s", 0.25)] {
        is(cell(&cost, &["live", "k=3"], column), ahead);
        is(cell(&cost, &["live", "k=1"], column), 0.0);
    }
    // Calls of three stages have 100 tokens each. Only the drafts have a price.
    for (column, sum) in [
        ("Tokens", 340.0),
        ("Tokens wasted", 30.0),
        ("Money per 1,000", 0.008),
    ] {
        is(cell(&cost, &["live", "k=3"], column), sum);
    }
}

#[test]
fn every_k_has_a_chance_of_no_difference() {
    // All five questions are faster: 2 of 2⁵ flips are as far off.
    let run = run(Source::Live, 5, &[("k=1", 1.0), ("k=3", 0.75)]);
    let report = report(&[run]).unwrap();
    let table = table(&report, "by_k");
    is(cell(table, &["3"], "p of latency, live"), 2.0 / 32.0);
    assert_eq!(cell(table, &["1"], "p of latency, live").text, "–");
}

#[test]
fn an_agent_that_never_guesses_is_no_speculator() {
    let mut run = run(Source::Live, 10, &[("k=1", 1.0), ("k=1,effort=low", 0.9)]);
    for row in &mut run.rows {
        for hop in &mut row.hops {
            (hop.kind, hop.guess, hop.speculation_ms) = (HopKind::Observed, None, None);
        }
    }
    let low: Variant = "k=1,effort=low".parse().unwrap();
    assert_eq!(Means::of(&low, &run.questions, &run.rows).p, None);
    let report = report(&[run]).unwrap();
    let speculation = &table(&report, "speculation").rows;
    assert!(
        speculation.iter().all(|row| row[0].text != "live"),
        "{speculation:?}"
    );
}

#[test]
fn what_answers_say_of_themselves_stands_beside_what_is_so() {
    let mut run = run(Source::Live, 30, &[("k=1", 1.0), ("k=3", 0.75)]);
    for (at, row) in run.rows.iter_mut().enumerate() {
        // Of 30 every tenth is wrong; the second of these three says no less than a right one.
        let chance = match at % 30 {
            9 | 29 => 0.25,
            _ => 0.75,
        };
        row.confidence = Some(Confidence {
            chance: Some(chance),
            of_form: Some(0.9),
            supported: at % 30 != 9,
            withheld: false,
        });
    }
    // One does not say, which is not 0, and one is of an earlier version.
    if let Some(confidence) = &mut run.rows[0].confidence {
        confidence.chance = None;
    }
    run.rows[1].confidence = None;
    let with = report(&[run.clone()]).unwrap();
    let of = |variant, column| cell(table(&with, "calibration"), &["live", variant], column);
    assert_eq!(of("k=1", "Questions").text, "28 of 30, NOT WHOLE");
    is(of("k=3", "Chance said"), (28.0 * 0.75 + 2.0 * 0.25) / 30.0);
    is(of("k=3", "EM"), 0.9);
    // 28 say 0.75, and 27 of them are right; two say 0.25, and are wrong.
    let gaps = (27.0 - 28.0 * 0.75) + 2.0 * 0.25;
    is(of("k=3", "Calibration error"), gaps / 30.0);
    is(of("k=3", "Wrong that stay"), 1.0 / 3.0);
    is(of("k=3", "Supported"), 29.0 / 30.0);
    is(of("k=3", "Withheld"), 0.0);
    // Rows of earlier versions have no such table.
    run.rows.iter_mut().for_each(|row| row.confidence = None);
    let without = report(&[run]).unwrap();
    let mut tables = without.data.sections[0].tables.iter();
    assert!(!tables.any(|table| table.name == "calibration"));
}

#[test]
fn full_speculation_stands_against_the_standard_agent() {
    let variants = [("k=1", 1.0), ("k=3", 0.75), ("k=1,verifier=none", 0.5)];
    let report = report(&[run(Source::Simulated, 10, &variants)]).unwrap();
    let of = |column| {
        cell(
            table(&report, "ablation"),
            &["simulated", "verifier none", "k=1,verifier=none"],
            column,
        )
    };
    assert_eq!(of("Against").text, "k=1");
    is(of("Latency ratio"), 0.5);
    is(of("RelLat, against"), 1.0);
    is(of("T calls, against"), 3.0);
    is(of("Agreement, against"), 1.0);
}

#[test]
fn the_fastest_are_of_the_least_load() {
    let variants = [("k=1", 1.0), ("k=3", 0.75), ("k=3,plan-ahead=on", 0.7)];
    let mut run = run(Source::Live, 10, &variants);
    let crowded = [("k=1", 4.0), ("k=6", 0.4), ("k=3", 0.4)];
    for (variant, rel_lat) in crowded {
        run.rows.extend((0..10).map(|i| Row {
            concurrency: 4,
            ..row(i, variant, rel_lat)
        }));
    }
    // Answers without a check are no gain.
    run.rows
        .extend((0..10).map(|i| row(i, "k=1,verifier=none", 0.3)));
    let report = report(&[run]).unwrap();
    let overview = &report.data.overview;
    let of = |column: &str| {
        let at = overview.columns.iter().position(|head| head == column);
        &overview.rows[0][at.unwrap()]
    };
    assert_eq!(of("Fastest k").text, "k=3");
    is(of("RelLat"), 0.75);
    assert_eq!(of("Fastest variant").text, "k=3,plan-ahead=on");
    is(of("RelLat of variant"), 0.7);
    assert_eq!(of("Questions of variant").text, "10 of 10");
    // Who ran beside whom is said where such rows are.
    let says = |name| table(&report, name).about.contains("share its load");
    assert!(says("cost") && says("ablation"));
    assert!(!says("by_k") && !says("speculation") && !overview.about.contains("share its load"));
    // Nor is a k that was only asked under load among the ks.
    assert_eq!(table(&report, "by_k").rows.len(), 2);
}

#[test]
fn a_run_with_the_exact_verifier_alone_is_judged_by_it() {
    let exact = [("k=1", 1.0), ("k=3,verifier=exact", 0.75)];
    for (others, fastest, best) in [
        (&[][..], "k=3,verifier=exact", 0.75),
        // Beside the usual one it is a variant like any other.
        (&[("k=3", 0.8)], "k=3", 0.8),
    ] {
        let variants = [&exact[..], others].concat();
        let report = report(&[run(Source::Live, 10, &variants)]).unwrap();
        let speculation = cell(table(&report, "speculation"), &["live", "hot"], "RelLat");
        is(speculation, best);
        let overview = &report.data.overview;
        let of = |column: &str| {
            let at = overview.columns.iter().position(|head| head == column);
            &overview.rows[0][at.unwrap()]
        };
        assert_eq!(of("Fastest variant").text, fastest);
        is(of("RelLat of variant"), best);
    }
}

#[test]
fn full_speculation_stands_beside_what_it_is_held_against() {
    let full = "k=1,verifier=none,target=off";
    let variants = [("k=1", 1.0), ("k=3", 0.75), ("k=inf", 0.7), (full, 0.2)];
    let mut run = run(Source::Simulated, 10, &variants);
    // Of two questions nobody knows what guesses alone would have answered.
    for row in run.rows.iter_mut().filter(|row| row.variant.target_off) {
        if row.id.as_str() < "q002" {
            (row.unrecorded, row.answer) = (1, String::new());
        }
    }
    let report = report(&[run]).unwrap();
    let outcomes = table(&report, "outcomes");
    let text = |row: &[spechop_eval::Cell], at: usize| row[at].text.clone();
    let ways: Vec<_> = outcomes
        .rows
        .iter()
        .map(|row| (text(row, 1), text(row, 2)))
        .collect();
    let ours = [
        ("standard", "k=1"),
        ("SpecHop", "k=inf"),
        ("full speculation", full),
    ];
    assert_eq!(
        ways[..3],
        ours.map(|(way, name)| (way.to_owned(), name.to_owned()))
    );
    // Then those of the paper, for look-ups as slow as the web.
    assert_eq!(
        (outcomes.rows.len(), text(&outcomes.rows[3], 6)),
        (6, "21.13".to_owned())
    );
    for row in &outcomes.rows[..3] {
        assert_eq!(text(row, 3), "8 of 10, NOT WHOLE");
        is(&row[4], 7.0 / 8.0);
    }
    let seconds = |at: usize| outcomes.rows[at][6].value.unwrap();
    assert!((seconds(1) / seconds(0) - 0.7).abs() < 1e-9);
    assert!((seconds(2) / seconds(0) - 0.2).abs() < 1e-9);
    // The other tables leave out what is not known, too.
    let em = cell(table(&report, "quality"), &["simulated", full], "EM");
    assert!(em.text.ends_with("8 of 10, NOT WHOLE"), "{}", em.text);
    is(em, 7.0 / 8.0);
    assert!(
        table(&report, "quality")
            .about
            .contains("An answer is not known")
    );
}

#[test]
fn what_is_compared_with_k_1_was_asked_at_k_1() {
    let questions = questions(4);
    let of = |standard: usize| {
        let mut rows: Vec<_> = (0..4).map(|i| row(i, "k=3", 0.6)).collect();
        rows.extend((0..standard).map(|i| row(i, "k=1", 1.0)));
        Means::of(&"k=3".parse().unwrap(), &questions, &rows).rel_lat
    };
    assert!((of(4).unwrap() - 0.6).abs() < 1e-9);
    assert_eq!((of(1), of(0)), (None, None));
}
