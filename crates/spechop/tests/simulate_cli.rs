//! `spechop simulate` as scripts see it: stdout, stderr, exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod shell;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use shell::{miswritten, object, printed, refused, run, spechop};
use tempfile::TempDir;

/// A file of recorded questions.
struct Recorded(TempDir);

impl Recorded {
    fn new(content: impl AsRef<[u8]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("hops.jsonl"), content).unwrap();
        Self(dir)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("hops.jsonl")
    }

    /// What simulating it is refused with. Both forms of output must keep silent.
    #[track_caller]
    fn is_refused(&self, words: &str) {
        let path = self.path();
        let args = ["simulate", "--hops", path.to_str().unwrap()];
        refused(&args, words);
        refused(&[&args[..], &["--json"]].concat(), words);
    }
}

const GOOD: &str = r#"{"id":"a","hops":[{"segment_ms":330,"target_ms":4150,"speculation_ms":180,"accepted":true}],"final_ms":300}"#;

/// The good line with something in it replaced.
#[track_caller]
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

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
    let path = file.path();
    let args = [
        "simulate",
        "--hops",
        path.to_str().unwrap(),
        "--k",
        "1,2,inf",
    ];
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
    let path = file.path();
    let args = ["simulate", "--hops", path.to_str().unwrap(), "--k", "inf"];
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

#[test]
fn shapes_say_what_depends_on_what() {
    let numbers = ["--p", "0", "--alpha", "0.05", "--beta", "0.1", "--k", "inf"];
    let relative = |shape: &str| {
        let file = Recorded::new(shape);
        let path = file.path();
        let args = [
            &["simulate", "--shapes", path.to_str().unwrap()][..],
            &numbers,
        ]
        .concat();
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
        let path = file.path();
        let args = [
            &["simulate", "--shapes", path.to_str().unwrap()][..],
            &numbers,
        ]
        .concat();
        let words = if bad.is_empty() {
            "not a single record"
        } else {
            "line 1"
        };
        refused(&args, words);
    }
    for flag in ["--missing", "--later"] {
        let setting = [
            "simulate",
            "--hop-count",
            "2",
            "--p",
            "0.5",
            "--alpha",
            "0.05",
            "--beta",
            "0.1",
        ];
        refused(&[&setting[..], &[flag, "1.5"]].concat(), flag);
    }
}

#[test]
fn blank_lines_and_windows_line_ends_are_passed_over() {
    let second = with("\"a\"", "\"b\"");
    let file = Recorded::new(format!("\n{GOOD}\r\n \t\n{second}"));
    let path = file.path();
    let args = ["simulate", "--hops", path.to_str().unwrap(), "--k", "1"];
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
fn the_seed_decides_what_is_drawn() {
    let args = |seed, k| {
        let setting = [
            "--p", "0.5", "--alpha", "0.2", "--beta", "0.1", "--nu", "0.4",
        ];
        let rest = [
            "--hop-count",
            "4",
            "--trials",
            "50",
            "--seed",
            seed,
            "--k",
            k,
        ];
        [&["simulate"][..], &setting, &rest].concat()
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
fn a_bad_line_is_named_with_its_reason() {
    let is_refused = |line: &str, reason: &str| {
        let first = with("\"a\"", "\"first\"");
        Recorded::new(format!("{first}\n{line}\n{GOOD}\n")).is_refused(reason);
    };
    for (from, to, reason) in [
        (":4150,", ":-4150,", "line 2: hops[0].target_ms is -4150"),
        (":330,", ":-0.5,", "line 2: hops[0].segment_ms is -0.5"),
        (":180,", ":1e300,", "line 2: hops[0].speculation_ms is 1"),
        (":300}", ":-1}", "line 2: final_ms is -1"),
        (":300}", ":864000001}", "from 0 to 864000000"),
        ("\"a\"", "\"first\"", "line 2: the id \"first\" has stood"),
    ] {
        is_refused(&with(from, to), reason);
    }
    for (from, to, reason) in [
        // JSON knows neither.
        (":4150,", ":NaN,", "expected value"),
        (":4150,", ":Infinity,", "expected value"),
        (":4150,", ":1e999,", "number out of range"),
        (
            ":4150,",
            ":\"4150\",",
            "invalid type: string \"4150\", expected f64",
        ),
        (":4150,", ":null,", "invalid type: null, expected f64"),
        (
            ":true",
            ":1",
            "invalid type: integer `1`, expected a boolean",
        ),
        ("\"a\"", "7", "invalid type: integer `7`, expected a string"),
        ("\"target_ms\":4150,", "", "missing field `target_ms`"),
        (",\"accepted\":true", "", "missing field `accepted`"),
        (",\"final_ms\":300", "", "missing field `final_ms`"),
        ("\"id\":\"a\",", "", "missing field `id`"),
        ("target_ms", "target_s", "unknown field `target_s`"),
        ("{\"id\"", "{\"k\":1,\"id\"", "unknown field `k`"),
        ("}],", "}],\"final_ms\":1,", "duplicate field `final_ms`"),
        (":300}", ":300}{}", "trailing characters"),
        (":300}", ":300", "EOF"),
        (GOOD, "null", "invalid type: null"),
        (GOOD, "[]", "invalid"),
        (GOOD, "id,segment_ms", "expected value"),
        ("{\"id\"", "\u{feff}{\"id\"", "expected value"),
    ] {
        is_refused(&with(from, to), &format!("line 2 is no trace: {reason}"));
    }
    // What stands in the file cannot break the line or paint it.
    let file = Recorded::new(with("\"target_ms\"", "\"a\\nb\\u001b[31m\""));
    file.is_refused("unknown field `a\\nb\\u{1b}[31m`");
    let twice = with("\"a\"", "\"a\\nb\"");
    Recorded::new(format!("{twice}\n{twice}")).is_refused("line 2: the id \"a\\nb\" has stood");
    // The line is counted by the file, not by the parser of the line.
    let path = file.path();
    let (_, _, stderr) = run(&["simulate", "--hops", path.to_str().unwrap()]);
    assert_eq!(stderr.matches("line 1").count(), 1, "{stderr}");
}

#[test]
fn a_file_that_is_none_is_refused() {
    Recorded::new("").is_refused("not a single record");
    Recorded::new("\n \r\n\t\n\n").is_refused("not a single record");
    let latin1 = [GOOD.as_bytes(), b"\n\n{\"id\":\"Halc\xf3n\"}\n"].concat();
    Recorded::new(latin1).is_refused("line 3 cannot be read: stream did not contain valid UTF-8");
    Recorded::new(b"\x1f\x8b\x08\x00\xff\xfe").is_refused("line 1 cannot be read");
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    refused(&["simulate", "--hops", dir], "Is a directory");
    refused(
        &["simulate", "--hops", &format!("{dir}/none.jsonl")],
        "none.jsonl: No such file or directory",
    );
}

/// The results of the lines before it are not printed as if they were all.
#[test]
fn one_bad_line_among_many_is_found() {
    let mut lines = String::new();
    for n in 1..=100_000 {
        let target = if n == 50_001 { "\"slow\"" } else { "4150" };
        writeln!(
            lines,
            r#"{{"id":"q{n}","hops":[{{"segment_ms":330,"target_ms":{target},"speculation_ms":180,"accepted":true}}],"final_ms":300}}"#
        )
        .unwrap();
    }
    Recorded::new(&lines).is_refused("line 50001 is no trace: invalid type: string \"slow\"");
    // The same with the last line cut off.
    let whole = lines.replace("\"slow\"", "4150");
    Recorded::new(&whole[..whole.len() - 9]).is_refused("line 100000 is no trace: EOF");
}

#[test]
fn a_setting_that_makes_no_sense_is_refused() {
    for (flag, value, words) in [
        ("--p", "1.01", "p = 1.01 is no share"),
        ("--p", "-0.1", "p = -0.1 is no share"),
        ("--p", "NaN", "p = NaN is no share"),
        ("--p", "inf", "p = inf is no share"),
        (
            "--alpha",
            "-0.2",
            "alpha = -0.2 must be finite and not negative",
        ),
        ("--alpha", "NaN", "alpha = NaN must be"),
        ("--beta", "-1", "beta = -1 must be finite and not negative"),
        ("--beta", "inf", "beta = inf must be"),
        ("--nu", "-0.4", "nu = -0.4 must be finite and not negative"),
    ] {
        for command in ["simulate", "theory"] {
            refused(&drawn(command, &[(flag, value)]), words);
        }
    }
    for (flag, value, words) in [
        ("--trials", "0", "--trials must be at least 1"),
        ("--hop-count", "10001", "--hop-count must be at most 10000"),
        // Neither infinite means nor `null` where JSON has no infinity.
        ("--beta", "1e305", "too large to add up"),
        ("--beta", "1e307", "too large or too small to draw"),
        ("--nu", "1e200", "too large or too small to draw"),
    ] {
        refused(&drawn("simulate", &[(flag, value)]), words);
        refused(
            &[&drawn("simulate", &[(flag, value)])[..], &["--json"]].concat(),
            words,
        );
    }
    for epsilon in ["0", "1", "-0.05", "NaN"] {
        let words = format!("epsilon = {epsilon} must lie strictly between 0 and 1");
        refused(&drawn("theory", &[("--epsilon", epsilon)]), &words);
    }
    // A branch costs no time: no finite window is wide enough.
    refused(
        &drawn("theory", &[("--alpha", "0"), ("--beta", "0")]),
        "no window is wide enough",
    );
}

/// `simulate` or `theory` with a setting that makes sense, and these flags instead or besides.
fn drawn<'a>(command: &'a str, flags: &[(&'a str, &'a str)]) -> Vec<&'a str> {
    let mut all = vec![("--p", "0.5"), ("--alpha", "0.2"), ("--beta", "0.1")];
    if command == "simulate" {
        all.extend([("--hop-count", "3"), ("--trials", "5")]);
    }
    all.retain(|(name, _)| flags.iter().all(|(flag, _)| flag != name));
    let pairs = all.iter().chain(flags);
    let mut args = vec![command];
    args.extend(pairs.flat_map(|(flag, value)| [*flag, *value]));
    args
}

#[test]
fn a_command_line_that_is_none_is_refused() {
    let file = Recorded::new(GOOD);
    let path = file.path();
    let hops = ["simulate", "--hops", path.to_str().unwrap()];
    for k in ["0", "-1", "two", "1.5", "", "1,,2", "2,0", "∞"] {
        let last = k.split(',').find(|k| !["1", "2"].contains(k)).unwrap();
        let words = format!("invalid value '{last}' for '--k <K,…>': expected a number from 1");
        miswritten(&[&hops[..], &["--k", k]].concat(), &words);
        miswritten(&drawn("simulate", &[("--k", k)]), &words);
        miswritten(&drawn("theory", &[("--k", k)]), &words);
    }
    for (flag, value) in [
        ("--hop-count", "99999999999999999999"),
        ("--hop-count", "-3"),
        ("--hop-count", "2.5"),
        ("--trials", "-1"),
        ("--trials", "many"),
        ("--seed", "-1"),
        ("--p", "half"),
        ("--alpha", ""),
    ] {
        let words = format!("invalid value '{value}' for '{flag} ");
        miswritten(&drawn("simulate", &[(flag, value)]), &words);
    }
    // Recorded and drawn exclude each other: nothing that is written is passed over in silence.
    for (flag, value) in [
        ("--p", "0.5"),
        ("--alpha", "0.2"),
        ("--beta", "0.1"),
        ("--nu", "0.4"),
        ("--hop-count", "3"),
        ("--trials", "5"),
        ("--seed", "1"),
    ] {
        miswritten(
            &[&hops[..], &[flag, value]].concat(),
            "the argument '--hops <FILE>' cannot be used with",
        );
    }
    let missing = "the following required arguments were not provided";
    miswritten(&["simulate"], missing);
    miswritten(&["simulate", "--p", "0.5", "--alpha", "0.2"], missing);
    miswritten(&["theory", "--p", "0.5", "--alpha", "0.2"], missing);
    miswritten(
        &drawn("theory", &[("--trials", "5")]),
        "unexpected argument",
    );
    miswritten(&drawn("theory", &[("--k", "inf")]), "invalid value 'inf'");
}

/// As in `spechop simulate … | head -1`, where `head` is gone by the time of the next line.
#[test]
fn a_closed_pipe_is_an_error_and_no_panic() {
    let file = Recorded::new(GOOD);
    let path = file.path();
    let hops = vec!["simulate", "--hops", path.to_str().unwrap()];
    for args in [hops, drawn("simulate", &[]), drawn("theory", &[])] {
        for more in [&[][..], &["--json"]] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let child = spechop(&args)
                .args(more)
                .stdout(writer)
                .stderr(Stdio::piped())
                .spawn();
            let output = child.unwrap().wait_with_output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
            assert_eq!(
                stderr, "spechop: cannot write the results: Broken pipe (os error 32)\n",
                "{args:?}"
            );
        }
    }
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
