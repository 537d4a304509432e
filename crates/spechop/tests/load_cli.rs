//! `spechop eval load` against `spechop eval scripted`, both as scripts see them.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::shell;
use crate::shell::scripted::Server;
use serde_json::Value;

#[test]
fn a_server_over_scripted_tools_is_loaded_and_two_settings_are_compared() {
    let server = Server::start(&["--look-up", "200:0:1", "--hit", "1", "--hops", "4"]);
    let questions = tempfile::NamedTempFile::new().unwrap();
    let lines: Vec<_> = (0..100).map(|n| format!("Who is number {n}?")).collect();
    std::fs::write(questions.path(), lines.join("\n")).unwrap();
    let load = shell::words("eval load --rate 20 --for 2 --warm-up 0.5 --a k=1 --b k=8");
    let file = questions.path().to_str().unwrap();
    let asked = [&load[..], &["--addr", &server.address, "--questions", file]].concat();
    let (code, text, stderr) = shell::run(&asked);
    assert_eq!((code, &*stderr), (0, ""));
    for words in ["k=8 divided by k=1", "p99.9", "no errors", "not counted: "] {
        assert!(text.contains(words), "{text}");
    }
    let (_, json, _) = shell::run(&[&asked[..], &["--json", "--stream"]].concat());
    let run: Value = serde_json::from_str(&json).unwrap();
    let ratio = &run["compared"]["latency"];
    assert!(ratio["value"].as_f64().unwrap() < 0.8, "{json}");
    assert!(ratio["high"].as_f64().unwrap() < 1.0, "{json}");
    assert_eq!(run["settings"][0]["target_calls"], 4.0, "{json}");
    assert!(
        run["settings"][0]["first_event_ms"]["p50"].is_f64(),
        "{json}"
    );
    assert_eq!(run["questions_given"], 100);
    // Twenty pairs, so that each question is asked twice.
    assert!(
        (1..=10).contains(&run["questions"].as_u64().unwrap()),
        "{json}"
    );
    assert_eq!(run["stream"], true);
}

/// Speculation must not change what a script says.
#[test]
fn a_question_has_the_same_answer_at_every_k() {
    let server = Server::start(&["--hit", "0.5", "--hops", "5"]);
    let ask = |k: &str| {
        let question = "Who was it after all?";
        shell::printed(&["ask", "--addr", &server.address, "--k", k, question])
    };
    let first = |text: String| text.lines().next().unwrap().to_owned();
    assert_eq!(first(ask("1")), first(ask("4")));
}

#[test]
fn what_is_written_wrong_is_told() {
    shell::miswritten(
        &["eval", "load", "--b", "k=3"],
        "the following required arguments",
    );
    shell::miswritten(&["eval", "load", "--a", "k=many"], "invalid value");
    shell::miswritten(
        &["eval", "load", "--period", "3"],
        "the following required arguments",
    );
    shell::miswritten(&["eval", "scripted", "--hit", "2"], "invalid value");
    shell::miswritten(&["eval", "scripted", "--hops", "0"], "invalid value");
    let open = ["eval", "scripted", "--listen", "0.0.0.0:0"];
    shell::refused(&open, "can be reached from other machines");
    let same = ["eval", "load", "--a", "k=3", "--b", "k=3"];
    shell::refused(&same, "nothing to compare");
    shell::refused(
        &["eval", "load", "--questions", "/nowhere"],
        "cannot read /nowhere",
    );
    let nobody = ["eval", "load", "--addr", "127.0.0.1:9", "--for", "1"];
    shell::refused(&nobody, "no server answers at 127.0.0.1:9");
}

/// The page of the tuner over a real server: first without a history, then with one.
#[test]
fn a_server_is_tuned_by_what_it_was_asked() {
    let times = "--look-up 40:10:1 --guess-ms 2 --segment-ms 2 --hit 0.8";
    let server = Server::start(&shell::words(times));
    let tune =
        |more: &[&str]| shell::printed(&[&["tune", "--addr", &server.address], more].concat());
    let empty = tune(&[]);
    assert!(empty.contains("there is nothing to tune by"), "{empty}");
    assert!(empty.contains("spechop eval load"), "{empty}");

    let asked = ["eval", "load", "--addr", &server.address, "--rate", "20"];
    let more = ["--for", "3", "--warm-up", "0", "--a", "k=4"];
    shell::printed(&[&asked[..], &more].concat());
    let dir = tempfile::tempdir().unwrap();
    let svg = dir.path().join("tune.svg");
    let drawn = shell::words("--k 2,4 --width 80 --svg");
    let page = tune(&[&drawn[..], &[svg.to_str().unwrap()]].concat());
    for words in [
        "questions played again",
        "question.k = ",
        "question.budget_target_calls = ",
        "Not sure",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // k = 1 is always among them.
    let rows = page
        .lines()
        .filter(|line| line.contains(") ") && line.contains('┼'));
    assert_eq!(rows.count(), 3, "{page}");
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg xmlns"), "{drawn}");
    assert_eq!(drawn.matches(r#"class="mark s0""#).count(), 3, "{drawn}");

    shell::miswritten(&["tune", "--k", "0"], "invalid value");
    let unknown = ["tune", "--addr", &server.address, "--speculator", "oven"];
    shell::refused(&unknown, "the speculator `oven` yet; it knows: ");
}

#[test]
fn before_any_question_programs_read_nothing_of_what_was_learnt() {
    let server = Server::start(&[]);
    let asked = ["tuning", "--json", "--addr", &server.address];
    assert_eq!(shell::printed(&asked), "");
}
