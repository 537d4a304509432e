//! `spechop simulate` as scripts see it: stdout, stderr, exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::shell::{GOOD, Recorded, miswritten, object, printed, refused, with, words};
use serde_json::{Value, json};

/// Two questions; the second is answered from memory, in 400 ms at every k.
const BY_HAND: &str = r#"{"id":"q1","hops":[
{"segment_ms":100,"target_ms":1000,"speculation_ms":50,"accepted":true},
{"segment_ms":200,"target_ms":800,"speculation_ms":100,"accepted":true},
{"segment_ms":100,"target_ms":900,"speculation_ms":150,"accepted":false},
{"segment_ms":300,"target_ms":700,"speculation_ms":50,"accepted":true}],"final_ms":500}
{"id":"q2","hops":[],"final_ms":400}"#;

/// Mi, Ti and Si are the segment, the target call and the guess of hop i, F the final segment.
///
/// k = 1, one after the other:
///   M1 100, T1 1100, M2 1300, T2 2100, M3 2200, T3 3100, M4 3400, T4 4100, F 4600
///   Calls: M 5, T 4, S 0.
///
/// k = 2, two branches alive:
///   M1 0–100, T1 100–1100, S1 100–150
///   M2 150–350, T2 350–1150, S2 350–450; the window is full, so this guess waits
///   1100 hop 1 accepted; there is room for a branch on S2: M3 1100–1200
///   1150 hop 2 accepted
///   T3 1200–2100, S3 1200–1350
///   M4 on the wrong guess 1350–1650, T4 from 1650, S4 1650–1700, which waits
///   2100 hop 3 rejected; T4 is aborted; M4 again 2100–2400
///   T4 2400–3100, S4 2400–2450, F 2450–2950
///   3100 hop 4 accepted, and the answer is there
///   Calls: M 6, T 5, S 5.
///
/// k = inf:
///   M1 0–100, T1 100–1100, S1 100–150
///   M2 150–350, T2 350–1150, S2 350–450
///   M3 450–550, T3 550–1450, S3 550–700
///   M4 on the wrong guess 700–1000, T4 from 1000, S4 1000–1050, F from 1050
///   1100 hop 1 accepted, 1150 hop 2 accepted
///   1450 hop 3 rejected; T4 and F are aborted; M4 again 1450–1750
///   T4 1750–2450, S4 1750–1800, F 1800–2300
///   2450 hop 4 accepted, and the answer is there
///   Calls: M 7, T 5, S 5.
///
/// Means over both questions: 5000, 3500 and 2850 ms over 2. RelLat is the ratio of the means.
#[test]
fn recorded_questions_by_hand() {
    let file = Recorded::new(BY_HAND.replace(",\n{", ",{").replace("[\n", "["));
    let args = ["simulate", "--hops", file.path(), "--k", "1,2,inf"];
    let row = |k: Value, latency: f64, relative: f64, [m, t, s]: [f64; 3]| {
        json!({
            "k": k, "mean_latency_ms": latency, "rel_lat": relative,
            "mean_calls_m": m, "mean_calls_t": t, "mean_calls_s": s, "mean_salvaged": 0.0,
        })
    };
    assert_eq!(
        object(&args),
        json!({"questions": 2, "results": [
            row(json!(1), 2500.0, 1.0, [3.0, 2.0, 0.0]),
            row(json!(2), 1750.0, 0.7, [3.5, 2.5, 2.5]),
            row(json!("inf"), 1425.0, 0.57, [4.0, 2.5, 2.5]),
        ]})
    );
    assert_eq!(
        printed(&args),
        "2 questions
    k   mean latency   RelLat   calls M   calls T   calls S  salvaged
    1      2500.0 ms   1.0000     3.000     2.000     0.000     0.000
    2      1750.0 ms   0.7000     3.500     2.500     2.500     0.000
  inf      1425.0 ms   0.5700     4.000     2.500     2.500     0.000
"
    );
}

/// Two hops that do not need each other, both guessed wrong: salvage has the second look-up, begun at
/// 250, answer at 1,250 what is asked again at 1,200. Without it the question takes as long as at k = 1.
#[test]
fn salvage_is_a_switch() {
    let hop = r#"{"segment_ms":100,"target_ms":1000,"speculation_ms":50,"accepted":false,"depends_on":[]}"#;
    let file = Recorded::new(format!(
        r#"{{"id":"q","hops":[{hop},{hop}],"final_ms":100}}"#
    ));
    let args = ["simulate", "--hops", file.path(), "--k", "inf"];
    for (flags, latency, salvaged) in [(&[][..], 1350.0, 1.0), (&["--no-salvage"], 2300.0, 0.0)] {
        let row = &object(&[&args[..], flags].concat())["results"][0];
        assert_eq!(row["mean_latency_ms"], latency);
        assert_eq!(row["mean_salvaged"], salvaged);
    }
    miswritten(
        &[&args[..], &["--no-salvage", "--plan-ahead"]].concat(),
        "cannot be used with",
    );
}

/// Three hops, guessed right; M 100, T 1000, S 50. With room for all of it, the last look-up runs from 400
/// to 1400, and the answer is written meanwhile. The guess of the second hop says that it is right in two
/// cases of five; of the others no more is known than that all such guesses are right. A gate above that
/// keeps the third hop from being written until the second one is known, at 1250: its look-up ends at 2350.
#[test]
fn unlikely_branches_wait_at_the_gate() {
    let hop = r#"{"segment_ms":100,"target_ms":1000,"speculation_ms":50,"accepted":true}"#;
    let unsure = hop.replace('}', r#","confidence":0.4}"#);
    let file = Recorded::new(format!(
        r#"{{"id":"q","hops":[{hop},{unsure},{hop}],"final_ms":100}}"#
    ));
    let args = ["simulate", "--hops", file.path(), "--k", "inf"];
    for (share, latency) in [("0", 1400.0), ("0.4", 1400.0), ("0.41", 2350.0)] {
        let row = &object(&[&args[..], &["--chance-min", share]].concat())["results"][0];
        assert_eq!(row["mean_latency_ms"], latency, "{share}");
    }
    assert_eq!(
        object(&args),
        object(&[&args[..], &["--chance-min", "0"]].concat())
    );
}

/// The same questions, whatever is said of their guesses: only the gate listens.
#[test]
fn sharp_confidences_save_calls() {
    let setting =
        "simulate --p 0.28 --alpha 0.03 --beta 0.1 --nu 0.4 --hop-count 6 --trials 300 --k 1,5";
    let rows = |more: &[&str]| object(&[&words(setting)[..], more].concat())["results"].clone();
    let open = rows(&[]);
    assert_eq!(open, rows(&["--sharpness", "0.35"]));
    let gate = rows(&["--sharpness", "0.35", "--chance-min", "0.11"]);
    assert_eq!(open[0], gate[0]);
    let calls = |rows: &Value| rows[1]["mean_calls_t"].as_f64().unwrap();
    assert!(calls(&gate) < 0.8 * calls(&open), "{open} {gate}");
    // Nothing is known of the guesses: they are as likely as they are right, or too unlikely.
    assert_eq!(open, rows(&["--chance-min", "0.001"]));
    let none = rows(&["--chance-min", "0.29"]);
    assert_eq!(none[1]["rel_lat"], 1.0);
    assert_eq!(none[1]["mean_calls_t"], open[0]["mean_calls_t"]);
}

#[test]
fn shapes_say_what_depends_on_what() {
    let numbers = words("simulate --p 0 --alpha 0.05 --beta 0.1 --k inf --shapes");
    let relative = |shape: &str| {
        let file = Recorded::new(shape);
        let args = [&numbers[..], &[file.path()]].concat();
        object(&args)["results"][0]["rel_lat"].as_f64().unwrap()
    };
    // The look-ups of a comparison overlap although no guess is right; those of a chain cannot.
    let chain = relative(r#"{"depends_on":[[],[1]],"count":1}"#);
    assert!((chain - 1.0).abs() < 1e-9, "{chain}");
    // (0.1 + 1 + 0.05 + 0.1 + 0.1) / 2.3, as in `salvage_is_a_switch`.
    let comparison = relative(r#"{"type":"comparison","depends_on":[[],[]],"count":1}"#);
    assert!((comparison - 1.35 / 2.3).abs() < 1e-9, "{comparison}");
    for bad in [
        "",
        "x",
        r#"{"depends_on":[[1]],"count":1}"#,
        r#"{"depends_on":[[],[2]],"count":1}"#,
        r#"{"depends_on":[[],[0]],"count":1}"#,
        r#"{"depends_on":[[]],"count":0}"#,
        r#"{"depends_on":[[]],"count":-1}"#,
        r#"{"depends_on":[[]]}"#,
    ] {
        let file = Recorded::new(bad);
        let words = if bad.is_empty() {
            "not a single record"
        } else {
            "line 1"
        };
        refused(&[&numbers[..], &[file.path()]].concat(), words);
    }
    for flag in ["--missing", "--later"] {
        let setting = words("simulate --hop-count 2 --p 0.5 --alpha 0.05 --beta 0.1");
        refused(&[&setting[..], &[flag, "1.5"]].concat(), flag);
    }
}

#[test]
fn blank_lines_and_windows_line_ends_are_passed_over() {
    let second = with("\"a\"", "\"b\"");
    let file = Recorded::new(format!("\n{GOOD}\r\n \t\n{second}"));
    let args = ["simulate", "--hops", file.path(), "--k", "1"];
    let answer = object(&args);
    assert_eq!(answer["questions"], 2);
    assert_eq!(answer["results"][0]["mean_latency_ms"], 4780.0);
}

/// Steady times, target 1000, segment 100, guess 200; every guess right. k = 1: 3 · 1100 + 100. At
/// k = inf the segments are written at 0, 300 and 600, and the last look-up runs from 700 to 1700.
/// At k = 2 the third segment waits for the first look-up, 1100–1200, and its look-up ends at 2200.
#[test]
fn drawn_questions_by_hand() {
    let args = |p| {
        let setting = ["--alpha", "0.2", "--beta", "0.1", "--hop-count", "3"];
        let rest = ["--trials", "7", "--seed", "3", "--k", "inf,2,1"];
        [&["simulate", "--p", p][..], &setting, &rest].concat()
    };
    let answer = object(&args("1"));
    assert_eq!(answer["questions"], 7);
    let rows = answer["results"].as_array().unwrap();
    let expected = [
        (json!("inf"), 1700.0, 3.0),
        (json!(2), 2200.0, 3.0),
        (json!(1), 3400.0, 0.0),
    ];
    assert_eq!(rows.len(), expected.len());
    for (row, (k, latency, guesses)) in rows.iter().zip(expected) {
        assert_eq!(row["k"], k);
        assert_eq!(row["mean_latency_ms"], latency, "k = {k}");
        assert_eq!(row["rel_lat"], latency / 3400.0, "k = {k}");
        assert_eq!(
            [&row["mean_calls_m"], &row["mean_calls_t"]],
            [&json!(4.0), &json!(3.0)],
            "k = {k}"
        );
        assert_eq!(row["mean_calls_s"], guesses, "k = {k}");
    }
    // Every guess wrong: it costs calls, and no time.
    for row in object(&args("0"))["results"].as_array().unwrap() {
        assert_eq!(row["mean_latency_ms"], 3400.0, "{row}");
        assert_eq!(
            row["mean_calls_t"].as_f64().unwrap() > 3.0,
            row["k"] != 1,
            "{row}"
        );
    }
}

#[test]
fn a_mark_of_the_encoding_is_no_part_of_the_first_question() {
    let [plain, marked] = ["", "\u{feff}"].map(|mark| {
        let file = Recorded::new(format!("{mark}{GOOD}\n"));
        printed(&["simulate", "--hops", file.path()])
    });
    assert_eq!(plain, marked);
}

#[test]
fn the_seed_decides_what_is_drawn() {
    let args = |seed, k| {
        let setting = "simulate --p 0.5 --alpha 0.2 --beta 0.1 --nu 0.4 --hop-count 4 --trials 50";
        [&words(setting)[..], &["--seed", seed, "--k", k]].concat()
    };
    let all = "1,2,3,inf";
    assert_eq!(printed(&args("7", all)), printed(&args("7", all)));
    assert_eq!(object(&args("7", all)), object(&args("7", all)));
    assert_ne!(object(&args("7", all)), object(&args("8", all)));
    // The largest seed is one, too.
    object(&args("18446744073709551615", all));
    // Every k plays the same questions, whichever are asked for.
    let rows = object(&args("7", all))["results"].clone();
    assert_eq!(object(&args("7", "3"))["results"][0], rows[2]);
    assert_eq!(object(&args("7", "inf,1"))["results"][1], rows[0]);
    // What is not said is the same as its default.
    let written = args("1", all);
    let silent = [
        &written[..written.len() - 4],
        &["--k", "1,2,3,inf", "--seed", "1"],
    ]
    .concat();
    assert_eq!(object(&written), object(&silent));
}

#[test]
fn help_names_the_formats() {
    for (command, words) in [
        ("simulate", "{\"id\":\"q1\",\"hops\":[{\"segment_ms\":330"),
        ("theory", "spechop theory --p 0.68 --alpha 0.19 --beta 0.10"),
    ] {
        let help = printed(&[command, "--help"]);
        assert!(help.contains(words), "{help}");
    }
}
