//! What `spechop simulate` and `spechop theory` refuse, and in which words.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fmt::Write;

use crate::shell::{GOOD, Recorded, miswritten, output, refused, run, spechop, unread, with};

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
        (
            ":true",
            ":true,\"confidence\":1.5",
            "line 2: hops[0].confidence is 1.5; it must be a share from 0 to 1",
        ),
        (
            ":true",
            ":false,\"guessed\":false,\"confidence\":0.5",
            "line 2: hops[0] is confident of a guess that was not made",
        ),
    ] {
        is_refused(&with(from, to), reason);
    }
    for (from, to, reason) in [
        // JSON knows neither.
        (":4150,", ":NaN,", "expected value"),
        (":4150,", ":Infinity,", "expected value"),
        (":true", ":true,\"confidence\":NaN", "expected value"),
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
    let (_, _, stderr) = run(&["simulate", "--hops", file.path()]);
    assert_eq!(stderr.matches("line 1").count(), 1, "{stderr}");
}

#[test]
fn a_file_that_is_none_is_refused() {
    Recorded::new("").is_refused("not a single record");
    Recorded::new("\n \r\n\t\n\n").is_refused("not a single record");
    let latin1 = [GOOD.as_bytes(), b"\n\n{\"id\":\"Halc\xf3n\"}\n"].concat();
    Recorded::new(latin1).is_refused("line 3 cannot be read: stream did not contain valid UTF-8");
    Recorded::new(b"\x1f\x8b\x08\x00\xff\xfe").is_refused("cannot read ");
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
        (
            "--trials",
            "1000000001",
            "--trials must be at most 1000000000",
        ),
        ("--hop-count", "10001", "--hop-count must be at most 10000"),
        // Neither infinite means nor `null` where JSON has no infinity.
        ("--beta", "1e305", "too large to add up"),
        ("--beta", "1e307", "too large or too small to draw"),
        (
            "--sharpness",
            "1.1",
            "--sharpness must lie between 0 and 1, not 1.1",
        ),
        ("--sharpness", "-1", "--sharpness must lie between"),
        ("--sharpness", "NaN", "--sharpness must lie between"),
        ("--nu", "10.1", "--nu must be at most 10"),
        ("--nu", "1e-200", "too large or too small to draw"),
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
    let hops = ["simulate", "--hops", file.path()];
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
        ("--sharpness", "sharp"),
        ("--chance-min", ""),
        ("--chance-min", "1.1"),
        ("--chance-min", "-0.1"),
        ("--chance-min", "NaN"),
        ("--alpha", ""),
        ("--guesses", "0"),
        ("--guesses", "17"),
        ("--guesses", "99999999999"),
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
        ("--sharpness", "0.5"),
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

#[test]
fn a_tree_of_branches_that_no_k_bounds_is_refused() {
    let tree = [("--hop-count", "8"), ("--guesses", "8")];
    refused(
        &drawn("simulate", &tree),
        "--guesses 8 on 8 hops is more than 100000 branches at k = inf: give --k numbers",
    );
    let bounded = [&tree[..], &[("--k", "1,3")]].concat();
    let (code, _, stderr) = run(&drawn("simulate", &bounded));
    assert_eq!(code, 0, "{stderr}");
}

/// As in `spechop simulate … | head -1`, where `head` is gone by the time of the next line.
#[test]
fn a_closed_pipe_ends_a_command_in_silence() {
    let file = Recorded::new(GOOD);
    let hops = vec!["simulate", "--hops", file.path()];
    for args in [hops, drawn("simulate", &[]), drawn("theory", &[])] {
        for more in [&[][..], &["--json"]] {
            let ended = output(spechop(&args).args(more).stdout(unread()));
            assert_eq!(ended, (141, String::new(), String::new()), "{args:?}");
        }
    }
}
