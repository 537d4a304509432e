//! What stands beside the paper's rows, and how it is told.

use super::*;

/// Hashes are hexadecimal, and one in sixteen of them has an "e5".
#[test]
fn the_papers_tool_is_known_by_the_name_of_the_encoder() {
    let stands_beside = |encoder: &str| {
        let mut run = run(Source::Simulated, 10, &[("k=1", 1.0), ("k=3", 0.7)]);
        run.info.injected = None;
        run.info.parts = BTreeMap::from([
            ("encoder".into(), encoder.into()),
            ("index".into(), "some/manifest.json b6ba1f5de57dffd9".into()),
        ]);
        let report = report(&[run]).unwrap();
        let speculation = table(&report, "speculation");
        let mut firsts = speculation.rows.iter().map(|row| row[0].text.clone());
        firsts.any(|text| text.starts_with("the paper") && text.ends_with("E5"))
    };
    assert!(stands_beside(
        "e5-small-v2-int8/model.onnx f682c49d5bf14f9b"
    ));
    assert!(!stands_beside("bge-small/model.onnx 00e5e5e5e5e5e5e5"));
}

/// The paper's main setting is k → ∞, so what stands beside its rows is, too.
#[test]
fn the_widest_window_stands_beside_the_papers_rows_and_the_best_k_behind_it() {
    let letter = "k=inf,verifier=paper,algorithm=paper";
    let variants = [("k=1", 1.0), ("k=3", 0.5), ("k=inf", 0.7), (letter, 0.8)];
    let mut run = run(Source::Simulated, 10, &variants);
    // The only question that k = 1 gets wrong is slow.
    for row in run.rows.iter_mut().filter(|row| row.id == "q009") {
        if row.variant.to_string() == "k=inf" {
            row.latency_ms *= 2.0;
        }
    }
    let report = report(&[run]).unwrap();
    let speculation = table(&report, "speculation");
    let of = |shown, column| cell(speculation, &["simulated", "hot", shown], column);
    let rel_lat = of("k=inf", "RelLat").value.unwrap();
    assert!(rel_lat > 0.75, "{rel_lat}");
    is(of("k=inf", "RelLat where k=1 is right"), 0.7);
    assert_eq!(of("k=inf", "Best k").text, "k=3");
    is(of("k=inf", "RelLat, best k"), 0.5);
    // The paper's verifier with the paper's algorithm has a row, and no k was chosen for it.
    is(of(letter, "RelLat"), 0.8);
    is(of(letter, "p"), SHARE);
    assert_eq!(of(letter, "Best k").text, "–");
    assert!(speculation.about.contains("the paper to the letter"));
    let columns = speculation.columns.len();
    assert!(speculation.rows.iter().all(|row| row.len() == columns));
}

#[test]
fn rows_that_stand_beside_no_run_name_their_data_set() {
    let of_paper = report(&both()).unwrap().data.of_paper;
    assert_eq!(of_paper.len(), 3);
    for row in of_paper.iter().flat_map(|table| &table.rows) {
        let mut titles = Dataset::ALL.into_iter().map(Dataset::title);
        assert!(
            titles.any(|title| row[0].text.ends_with(title)),
            "{:?}",
            row[0]
        );
    }
}

#[test]
fn injected_latency_says_what_of_it_is_the_papers() {
    let mut run = run(Source::Live, 3, &[("k=1", 1.0), ("k=3", 0.7)]);
    for (sigma_ms, whose) in [
        (
            1680.0,
            "(log-normal is our choice; mean and σ are the paper's)",
        ),
        (300.0, "(log-normal is our choice)"),
    ] {
        run.info.injected = run.info.injected.map(|of| Injected { sigma_ms, ..of });
        let markdown = report(&[run.clone()]).unwrap().markdown;
        assert!(markdown.contains(whose), "{markdown}");
    }
}

#[test]
fn segments_are_drawn_as_the_paper_counts_them() {
    let html = report(&both()).unwrap().html;
    let (_, figure) = html.split_once("Calls against k</title>").unwrap();
    let begins = |series: &str| {
        let path = format!("path {series}\" points=\"");
        let (_, points) = figure.split_once(&path).unwrap();
        points.split(' ').next().unwrap().to_owned()
    };
    // Without the segment that writes the answer they are as many as the look-ups, at k = 1.
    assert_eq!(begins("s2"), begins("s0"));
    assert_ne!(begins("s1"), begins("s0"));
}

#[test]
fn a_verifier_that_rejects_right_guesses_has_less_recall() {
    let mut run = run(Source::Live, 10, &[("k=1", 1.0), ("k=3", 0.75)]);
    let guessing = run.rows.iter_mut().filter(|row| !row.variant.is_standard());
    for row in guessing.take(4) {
        row.hops[2].guess = Some(row.hops[2].observed.clone());
    }
    let report = report(&[run]).unwrap();
    let of = |column| cell(table(&report, "verifier"), &["live", "k=3"], column);
    is(of("Recall"), 20.0 / 24.0);
    is(of("False rejects"), 0.4);
}
