//! `spechop eval decisions`: over the guesses of a bundle, and a sample that is labelled.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;

use crate::eval_brought::{Bundle, WEB};
use crate::shell::{output, printed, refused, run, spechop, unread, without_room};
use serde_json::Value;

#[test]
fn a_sample_is_drawn_labelled_and_read_again() {
    let bundle = Bundle::stored("2wiki-own");
    let (played, sample) = (bundle.path("run"), bundle.path("sample.jsonl"));
    printed(&bundle.eval(
        "simulate",
        &["--inject", WEB, "--k", "1,4", "--out", &played],
    ));
    let draw = ["eval", "decisions", &played, "--out", &sample];
    let (code, lines, told) = run(&[&draw[..], &["--count", "20", "--json"]].concat());
    assert_eq!((code, told.lines().count()), (0, 1), "{told}");
    let of = |name: &str| -> Value {
        let mut values = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        values
            .find(|value: &Value| value["verifier"] == name)
            .unwrap()
    };
    // Same decisions for all. The stricter one accepts less, and what it accepts is as often right.
    let number = |name: &str, field: &str| of(name)[field].as_f64().unwrap();
    assert_eq!(number("exact", "decisions"), number("paper", "decisions"));
    // Those that a local look-up leaves time for would be fewer, and easier.
    assert!(number("exact", "decisions") > 300.0);
    assert!(number("exact", "accepted") < 0.75 * number("exact", "decisions"));
    assert!(number("exact", "accepted") <= number("rule", "accepted"));
    assert!(number("rule", "accepted") <= number("paper", "accepted"));
    for other in ["rule", "paper"] {
        assert!(number("exact", "precision") >= number(other, "precision"));
    }

    let text = fs::read_to_string(&sample).unwrap();
    assert_eq!(text.lines().count(), 20);
    refused(
        &["eval", "decisions", "--labelled", &sample],
        "line 1: set \"same\"",
    );
    // What was labelled is not overwritten.
    refused(&draw, "sample.jsonl is there: give --out another file");
    // What there was no room for is not there, and the next try finds its place free.
    let cut = bundle.path("cut.jsonl");
    let again = ["eval", "decisions", &played, "--out", &cut];
    let (code, _, told) = output(&mut without_room(&again));
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("cannot write "), "{told}");
    assert_eq!(run(&again).0, 0);
    assert_eq!(fs::read_to_string(&cut).unwrap().lines().count(), 100);
    // A table that nobody reads is no reason to lose the sample.
    let whole = bundle.path("whole.jsonl");
    let mut command = spechop(&["eval", "decisions", &played, "--out", &whole]);
    assert_eq!(output(command.stdout(unread())).0, 141);
    assert_eq!(fs::read_to_string(&whole).unwrap().lines().count(), 100);
    let labelled: Vec<String> = text
        .lines()
        .map(|line| {
            let mut one: Value = serde_json::from_str(line).unwrap();
            one["same"] = one["paper"]["accepted"].clone();
            one.to_string()
        })
        .collect();
    fs::write(&sample, labelled.join("\n")).unwrap();
    let table = printed(&["eval", "decisions", "--labelled", &sample]);
    let paper = table
        .lines()
        .find(|line| line.starts_with("paper"))
        .unwrap();
    assert!(paper.ends_with("1.000   1.000"), "{table}");
    fs::write(&sample, "{}").unwrap();
    refused(&["eval", "decisions", "--labelled", &sample], "line 1");
    fs::write(&sample, "\n").unwrap();
    refused(
        &["eval", "decisions", "--labelled", &sample],
        "holds no decision",
    );
}
