//! What each type of question gains, and how well it is answered.

use super::*;

fn number(row: &Row) -> usize {
    row.id.trim_start_matches('q').parse().unwrap()
}

#[test]
fn types_have_a_bound_of_their_own() {
    let mut runs = both();
    // Of one type no guess is right.
    for row in &mut runs[0].rows {
        if number(row).is_multiple_of(3) {
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
fn types_are_compared_over_common_questions() {
    let mut runs = both();
    // Without salvage, the first of each type was not answered, and of inference nothing was.
    runs[0].rows.retain(|row| {
        let i = number(row);
        row.variant.salvages() || (i >= 3 && i % 3 != 2)
    });
    // Where both were, salvage gained nothing.
    for row in &mut runs[0].rows {
        if row.variant.to_string() == "k=inf" && row.id.as_str() >= "q003" {
            row.latency_ms *= 0.66 / 0.63;
        }
    }
    let report = report(&runs).unwrap();
    let of = |kind, column| cell(table(&report, "by_type"), &["live", kind], column);
    assert_eq!(of("bridge", "Questions").text, "9 of 10, NOT WHOLE");
    is(of("bridge", "RelLat"), 0.66);
    is(of("bridge", "RelLat, salvage off"), 0.66);
    assert_eq!(of("bridge", "Questions of p, α, β").text, "10 of 10");
    assert_eq!(of("inference", "Questions").text, "10 of 10");
    assert_eq!(of("inference", "RelLat, salvage off").text, "–");
}

#[test]
fn types_say_how_well_they_are_answered() {
    let mut runs = both();
    for row in &mut runs[0].rows {
        let i = number(row);
        match i % 3 {
            0 => row.answer = format!("answer {i}"),
            1 => row.answer = "lost".into(),
            _ if i == 2 => row.answer = "answer 2 perhaps".into(),
            _ => {}
        }
    }
    let report = report(&runs).unwrap();
    let of = |kind, column| cell(table(&report, "by_type"), &["live", kind], column);
    // All and none are not certain: the intervals are Wilson's.
    for column in ["EM", "F1"] {
        assert_eq!(of("bridge", column).text, "1.000 [0.722, 1.000]");
        assert_eq!(of("comparison", column).text, "0.000 [0.000, 0.278]");
    }
    // One of ten is half right, and one is wrong.
    is(of("inference", "EM"), 0.8);
    is(of("inference", "F1"), 0.88);
    let f1 = of("inference", "F1");
    assert!(f1.low.unwrap() < 0.8 && f1.high.unwrap() > 0.9, "{f1:?}");
}

#[test]
fn answers_of_a_type_that_are_not_known_are_left_out() {
    let mut runs = both();
    for row in &mut runs[0].rows {
        if row.variant.to_string() == "k=inf" && row.id == "q000" {
            (row.unrecorded, row.answer) = (1, String::new());
        }
    }
    let report = report(&runs).unwrap();
    let of = |column| cell(table(&report, "by_type"), &["live", "bridge"], column);
    for column in ["EM", "F1"] {
        is(of(column), 8.0 / 9.0);
        let text = &of(column).text;
        assert!(text.ends_with("9 of 10, NOT WHOLE"), "{text}");
    }
    is(of("RelLat"), 0.63);
}
