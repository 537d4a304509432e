//! `spechop eval questions`, and guesses and verdicts of somebody else in `spechop eval simulate`, over a
//! stored bundle.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::shell::{miswritten, output, printed, refused, run, spechop, unread};
use serde_json::{Value, json};
use tempfile::TempDir;

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../eval/runs");
pub(crate) const WEB: &str = "4150:1680:1";

/// A stored bundle, and a folder for what is made of it.
pub(crate) struct Bundle {
    pub(crate) bundle: String,
    pub(crate) folder: TempDir,
}

impl Bundle {
    pub(crate) fn stored(name: &str) -> Self {
        Self {
            bundle: format!("{RUNS}/{name}/bundle"),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A copy in which nobody was recorded to guess, as at k = 1.
    fn at_one(name: &str) -> Self {
        let stored = Self::stored(name);
        let copy = stored.path("at-one");
        fs::create_dir(&copy).unwrap();
        for file in ["bundle.json", "questions.jsonl"] {
            let original = format!("{}/{file}", stored.bundle);
            fs::copy(original, format!("{copy}/{file}")).unwrap();
        }
        let stages = fs::read_to_string(format!("{}/stages.jsonl", stored.bundle)).unwrap();
        let kept = stages.split_inclusive('\n');
        let kept: String = kept
            .filter(|line| !line.contains(r#""stage":"speculation""#))
            .collect();
        assert!(kept.len() < stages.len());
        fs::write(format!("{copy}/stages.jsonl"), kept).unwrap();
        Self {
            bundle: copy,
            ..stored
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The words of an eval command that is run on the bundle.
    pub(crate) fn eval<'a>(&'a self, command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["eval", command, "--bundle", &self.bundle][..], more].concat()
    }

    /// What was asked at each hop.
    pub(crate) fn hops(&self) -> Vec<Value> {
        lines(&printed(&self.eval("questions", &["--inject", WEB])))
    }

    /// A file with these lines.
    pub(crate) fn file(&self, name: &str, lines: impl IntoIterator<Item = Value>) -> String {
        let path = self.path(name);
        let lines: Vec<String> = lines.into_iter().map(|line| line.to_string()).collect();
        fs::write(&path, lines.join("\n")).unwrap();
        path
    }

    /// The means by variant, over look-ups as slow as the web.
    fn simulated(&self, args: &[&str]) -> Vec<Value> {
        let whole = self.eval("simulate", &["--inject", WEB, "--json"]);
        lines(&printed(&[&whole[..], args].concat()))
    }

    #[track_caller]
    fn is_refused(&self, flag: &str, content: &str, words: &str) {
        let path = self.path("bad.jsonl");
        fs::write(&path, content).unwrap();
        refused(&self.eval("simulate", &["--k", "2", flag, &path]), words);
    }
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[track_caller]
fn of<'a>(means: &'a [Value], variant: &str) -> &'a Value {
    let found = means.iter().find(|mean| mean["variant"] == variant);
    assert!(found.is_some(), "{variant} is not in {means:?}");
    found.unwrap()
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap()
}

/// Our own guesses, as they were recorded.
pub(crate) fn ours(hops: &[Value]) -> impl Iterator<Item = Value> {
    let guessed = hops.iter().filter(|hop| !hop["ours"].is_null());
    guessed.map(|hop| {
        let mut line = hop["ours"].clone();
        line["question"] = hop["question"].clone();
        line["hop"] = hop["hop"].clone();
        line
    })
}

#[test]
fn our_own_guesses_gain_what_they_gained() {
    // Behind a wrong guess that was not followed, a branch continues as after the observation, and what it
    // looks up is salvaged more often. That matters to questions of four hops.
    for (name, apart_max) in [("2wiki-own", 0.003), ("musique-gold", 0.02)] {
        let bundle = Bundle::stored(name);
        let hops = bundle.hops();
        let file = bundle.file("again.jsonl", ours(&hops));
        let means = bundle.simulated(&["--k", "3,inf", "--guesses", &file]);
        for k in ["k=3", "k=inf"] {
            let (mine, again) = (of(&means, k), of(&means, &format!("{k},speculator=again")));
            for (field, within) in [("rel_lat", apart_max), ("p", 0.004)] {
                let apart = number(mine, field) - number(again, field);
                assert!(apart.abs() <= within, "{name} {k} {field}: {mine} {again}");
            }
            let known = number(again, "answers_known") / number(again, "questions");
            assert!(known > 0.98, "{again}");
        }
    }
}

#[test]
fn recorded_speculators_are_played_as_one() {
    // Of one, it is that one.
    let bundle = Bundle::stored("2wiki-own");
    let again = bundle.file("again.jsonl", ours(&bundle.hops()));
    let cascade = ["--variant", "k=3,speculator=cascade", "--cascade"];
    let alone = ["--k", "3", "--guesses", &again];
    let means = bundle.simulated(&[&alone[..], &cascade, &["hot"]].concat());
    let said = |name: &str| {
        let mut mean = of(&means, &format!("k=3,speculator={name}")).clone();
        mean["variant"] = Value::Null;
        mean
    };
    assert_eq!(said("cascade"), said("again"));
    // Of two, it does not matter who is named first.
    let bundle = Bundle::stored("2wiki-gold-llm");
    let [one, other] = ["llm-135m,llm-1.5b", "llm-1.5b,llm-135m"]
        .map(|members| bundle.simulated(&[&cascade[..], &[members]].concat()));
    assert_eq!(one, other);
    assert!(number(of(&one, "k=3,speculator=cascade"), "p") > 0.0);
    let unknown = [&cascade[..], &["llm-135m,oracle"]].concat();
    let words = "no guesses of `oracle`, but of llm-1.5b, llm-135m";
    refused(&bundle.eval("simulate", &unknown), words);
    let unplayed = [
        "--variant",
        "k=3,speculator=llm-1.5b",
        "--cascade",
        "llm-135m",
    ];
    let words = "no variant plays the guesses of `cascade`: say --variant k=…,speculator=cascade";
    refused(&bundle.eval("simulate", &unplayed), words);
}

#[test]
fn perfect_guesses_gain_what_the_theory_says() {
    let bundle = Bundle::stored("2wiki-own");
    let hops = bundle.hops();
    let found: Vec<&Value> = hops.iter().filter(|hop| hop["found"] == true).collect();
    let guess = |hop: &&Value| json!({"question": hop["question"], "hop": hop["hop"], "guess": hop["observed"], "ms": 0});
    let file = bundle.file("perfect.jsonl", found.iter().map(guess));
    let out = bundle.path("run");
    let means = bundle.simulated(&["--k", "inf", "--guesses", &file, "--out", &out]);
    let perfect = of(&means, "k=inf,speculator=perfect");
    // If nothing was found, none that says something is accepted.
    assert_eq!(perfect["accepted"], found.len());
    assert_eq!(perfect["accepted_otherwise"], 0);
    assert!(number(perfect, "alpha").abs() < 1e-12);
    // Every answer is that of k = 1.
    assert_eq!(perfect["exact_match"], of(&means, "k=1")["exact_match"]);

    let report = bundle.path("report");
    let (code, tables, _) = run(&["eval", "report", &out, "--out", &report, "--json"]);
    assert_eq!(code, 0);
    let tables: Value = serde_json::from_str(&tables).unwrap();
    let tables = tables["sections"][0]["tables"].as_array().unwrap();
    let table = tables
        .iter()
        .find(|table| table["name"] == "speculation")
        .unwrap();
    let columns = table["columns"].as_array().unwrap();
    let at = |head: &str| columns.iter().position(|column| column == head).unwrap();
    let mut rows = table["rows"].as_array().unwrap().iter();
    let row = rows
        .find(|row| row[at("Speculator")]["text"] == "perfect")
        .unwrap();
    let value = |head: &str| row[at(head)]["value"].as_f64().unwrap();
    let apart = value("RelLat") - value("RelLat* at this length");
    // The theory knows means alone: the slowest of several look-ups is slower than the mean one.
    assert!((0.0..0.12).contains(&apart), "{row}");
    assert!((value("RelLat") - number(perfect, "rel_lat")).abs() < 1e-9);
    // The run says what it was made of.
    let info = fs::read_to_string(PathBuf::from(&out).join("run.json")).unwrap();
    let info: Value = serde_json::from_str(&info).unwrap();
    let part = info["parts"]["speculator perfect"].as_str().unwrap();
    assert!(part.starts_with("perfect.jsonl "), "{part}");
}

#[test]
fn no_guess_gains_nothing() {
    let bundle = Bundle::stored("2wiki-1.5b");
    let file = bundle.file("empty.jsonl", []);
    let means = bundle.simulated(&["--k", "3", "--guesses", &file, "--name", "none"]);
    let none = of(&means, "k=3,speculator=none");
    assert!((number(none, "rel_lat") - 1.0).abs() < 1e-9, "{none}");
    assert_eq!(
        (&none["compared"], &none["alpha"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(none["exact_match"], of(&means, "k=1")["exact_match"]);
    let table = printed(&bundle.eval("simulate", &["--k", "3", "--guesses", &file]));
    let end = format!("empty: guesses for 0 of {} hops\n", bundle.hops().len());
    assert!(table.ends_with(&end), "{table}");
}

#[test]
fn a_bundle_needs_no_guesses_of_ours() {
    let bundle = Bundle::at_one("2wiki-1.5b");
    let hops = bundle.hops();
    assert_eq!(hops.len(), Bundle::stored("2wiki-1.5b").hops().len());
    assert!(hops.iter().all(|hop| hop["ours"].is_null()), "{hops:?}");
    let guess = |hop: &Value| json!({"question": hop["question"], "hop": hop["hop"], "guess": hop["observed"], "ms": 0});
    let file = bundle.file("mine.jsonl", hops.iter().map(guess));
    let way = "k=3,speculator=mine";
    let means = bundle.simulated(&["--variant", way, "--guesses", &file]);
    assert_eq!(means.len(), 2, "k = 1 and mine: {means:?}");
    let mine = of(&means, way);
    assert!(
        number(mine, "p") > 0.0 && number(mine, "rel_lat") < 1.0,
        "{mine}"
    );
    let nobodys = "the bundle has no guesses of `hot`, nor of anybody else";
    refused(&bundle.eval("questions", &["--speculator", "hot"]), nobodys);
    refused(&bundle.eval("choose", &[]), nobodys);

    // If others were recorded, they are named.
    let bundle = Bundle::stored("2wiki-gold-llm");
    let (code, hops, told) = run(&bundle.eval("questions", &[]));
    assert_eq!(code, 0, "{told}");
    assert!(lines(&hops).iter().all(|hop| hop["ours"].is_null()));
    let others = "`ours` is null; --speculator takes llm-1.5b, llm-135m\n";
    assert!(told.ends_with(others), "{told}");
}

#[test]
fn what_no_variant_plays_is_refused() {
    let bundle = Bundle::stored("2wiki-gold-llm");
    let (file, out) = (bundle.file("mine.jsonl", []), bundle.path("run"));
    let with = |way: &str, more: &[&str], words: &str| {
        let played = ["--variant", way, "--out", &out];
        let args = [&played[..], more].concat();
        refused(&bundle.eval("simulate", &args), words);
        assert!(!PathBuf::from(&out).exists());
    };
    let (guesses, verdicts) = (["--guesses", &file], ["--verdicts", &file]);
    let words = "no variant plays the guesses of `mine`: say --variant k=…,speculator=mine";
    with("k=3,speculator=llm-1.5b", &guesses, words);
    let words = "no variant plays the verdicts of `mine`";
    with("k=3,speculator=llm-1.5b,verifier=exact", &verdicts, words);
    // Nobody has seen what a cascade says.
    let together = [&verdicts[..], &["--cascade", "llm-135m,llm-1.5b"]].concat();
    with("k=3,speculator=cascade", &together, words);
    let way = ["--variant", "k=3,speculator=llm-1.5b"];
    let means = bundle.simulated(&[way, verdicts].concat());
    of(&means, "k=3,speculator=llm-1.5b,verdicts=mine");

    let bundle = Bundle::stored("2wiki-gold");
    let both = ["--k", "3", "--variant", "k=3,speculator=hot-0.05"];
    let args = [&both[..], &verdicts].concat();
    let words = "verdicts are of one speculator's guesses: name one of hot, hot-0.05 ";
    refused(&bundle.eval("simulate", &args), words);
}

#[test]
fn verdicts_are_played_and_what_they_hide_is_said() {
    let bundle = Bundle::stored("2wiki-own");
    let hops = bundle.hops();
    let judged = |accept: bool, ms: u32| {
        let hops = hops.iter();
        hops.map(move |hop| {
            json!({"question": hop["question"], "hop": hop["hop"], "accept": accept, "ms": ms})
        })
    };
    let way = ["--variant", "k=3,salvage=off"];
    let never = bundle.file("never.jsonl", judged(false, 0));
    let means = bundle.simulated(&[&way[..], &["--verdicts", &never]].concat());
    let none = of(&means, "k=3,salvage=off,verdicts=never");
    assert!((number(none, "rel_lat") - 1.0).abs() < 1e-9, "{none}");
    assert_eq!(
        (&none["p"], &none["answers_known"]),
        (&json!(0.0), &json!(200))
    );

    let always = bundle.file("always.jsonl", judged(true, 0));
    let out = bundle.path("run");
    let args = [&way[..], &["--verdicts", &always, "--out", &out]].concat();
    let means = bundle.simulated(&args);
    let (ours, all) = (
        of(&means, "k=3,salvage=off"),
        of(&means, "k=3,salvage=off,verdicts=always"),
    );
    assert!(
        number(all, "p") > number(ours, "p") && number(all, "rel_lat") < number(ours, "rel_lat")
    );
    // Most wrong guesses were not followed to the end, so most of those answers are not known.
    assert!(number(all, "accepted_otherwise") > 40.0, "{all}");
    let known = number(all, "answers_known");
    assert!((100.0..200.0).contains(&known), "{all}");
    let simulate = bundle.eval("simulate", &["--inject", WEB]);
    let table = printed(&[&simulate[..], &way, &["--verdicts", &always]].concat());
    assert!(table.contains(" known\n"), "{table}");
    let report = bundle.path("report");
    // Nobody reads what is said meanwhile.
    let mut command = spechop(&["eval", "report", &out, "--out", &report]);
    let (code, ..) = output(command.stderr(unread()));
    let page = fs::read_to_string(PathBuf::from(report).join("report.md")).unwrap();
    assert_eq!(code, 0);
    assert!(
        page.contains(&format!("{known} of 200, NOT WHOLE")),
        "EM says of how many it is"
    );

    // A verifier that takes its time gives it away.
    let slow = bundle.file("slow.jsonl", judged(true, 2000));
    let means = bundle.simulated(&[&way[..], &["--verdicts", &slow]].concat());
    let slow = of(&means, "k=3,salvage=off,verdicts=slow");
    assert!(
        number(slow, "rel_lat") > number(all, "rel_lat") + 0.05,
        "{slow}"
    );
}

#[test]
fn full_speculation_is_played_as_far_as_it_was_recorded() {
    // The small bundle was not recorded with it.
    for (name, k, questions, is_whole) in [
        ("2wiki-own", "inf", 200, true),
        ("2wiki-1.5b", "3", 5, false),
    ] {
        let bundle = Bundle::stored(name);
        let out = bundle.path("run");
        let full = "k=1,verifier=none,target=off";
        let means = bundle.simulated(&["--k", k, "--variant", full, "--out", &out]);
        let full = of(&means, full);
        assert_eq!((&full["targets"], &full["p"]), (&json!(0.0), &Value::Null));
        let known = number(full, "answers_known");
        assert_eq!(known == f64::from(questions), is_whole, "{full}");
        let report = bundle.path("report");
        let (code, ..) = run(&["eval", "report", &out, "--out", &report]);
        let page = fs::read_to_string(PathBuf::from(report).join("report.md")).unwrap();
        assert_eq!(code, 0);
        let table = page.split("### Full speculation").nth(1).unwrap();
        let says = match is_whole {
            true => format!("| {known} of {questions} |"),
            false => format!("| {known} of {questions}, NOT WHOLE |"),
        };
        assert!(table.contains(&says), "{table}");
    }
}

#[test]
fn the_example_plays() {
    let bundle = Bundle::stored("2wiki-own");
    let (hops, guesses) = (bundle.path("hops.jsonl"), bundle.path("by-form.jsonl"));
    printed(&bundle.eval("questions", &["--out", &hops]));
    let example = format!("{RUNS}/../examples/guess.py");
    let ran = Command::new("python3")
        .arg(example)
        .stdin(File::open(&hops).unwrap())
        .stdout(File::create(&guesses).unwrap())
        .status();
    assert!(ran.unwrap().success());
    let means = bundle.simulated(&["--k", "3", "--guesses", &guesses]);
    let mine = of(&means, "k=3,speculator=by-form");
    let (p, rel_lat) = (number(mine, "p"), number(mine, "rel_lat"));
    assert!(
        p > 0.01 && p < 0.1 && rel_lat < 0.95 && rel_lat > 0.7,
        "{mine}"
    );
    assert!(number(mine, "compared") > 200.0, "{mine}");
    // Over stdin it is the same.
    let args = bundle.eval("simulate", &["--inject", WEB, "--json", "--k", "3"]);
    let mut piped = spechop(&[&args[..], &["--guesses", "-", "--name", "by-form"]].concat());
    piped.stdin(Stdio::from(File::open(&guesses).unwrap()));
    let (code, text, told) = output(&mut piped);
    assert_eq!((code, &*told), (0, ""));
    assert_eq!(lines(&text), means);
}

#[test]
fn what_cannot_be_played_is_refused() {
    let bundle = Bundle::stored("2wiki-1.5b");
    let hops = bundle.hops();
    let id = hops[0]["question"].as_str().unwrap();
    let line = |rest: &str| format!(r#"{{"question":"{id}",{rest}}}"#);
    let good = line(r#""hop":1,"guess":"Ana","ms":5"#);
    let guesses = [
        (
            "{",
            "bad.jsonl: line 1 is not a JSON object with `question`, `hop`, `guess`, `ms`",
        ),
        (&format!("{good}\n\nhop 2"), "line 3 is not a JSON object"),
        (&line(r#""hop":1,"guess":"Ana""#), "missing field `ms`"),
        (
            &line(r#""hop":1,"guess":"Ana","ms":5,"confidense":1"#),
            "confidense",
        ),
        (&line(r#""hop":1,"guess":"Ana","ms":NaN"#), "line 1 is not"),
        (
            &line(r#""hop":1,"guess":"Ana","ms":1e999"#),
            "line 1 is not",
        ),
        (
            &line(r#""hop":1,"guess":"Ana","ms":-1"#),
            "line 1: `ms` is -1",
        ),
        (
            &line(r#""hop":1,"guess":" ","ms":5"#),
            "line 1: the guess is empty",
        ),
        (
            &line(r#""hop":1,"guess":"Ana","ms":5,"confidence":2"#),
            "`confidence` is 2",
        ),
        (
            &line(r#""hop":9,"guess":"Ana","ms":5"#),
            "has no hop 9: it has",
        ),
        (&line(r#""hop":0,"guess":"Ana","ms":5"#), "has no hop 0"),
        (&format!("{good}\n{good}"), "line 2: hop 1 of question"),
        (
            r#"{"question":"nobody","hop":1,"guess":"Ana","ms":5}"#,
            "the bundle has no question `nobody`",
        ),
    ];
    for (content, words) in guesses {
        bundle.is_refused("--guesses", content, words);
    }
    let verdict = line(r#""hop":1,"accept":true"#);
    let verdicts = [
        (
            &*line(r#""hop":1,"accept":"yes""#),
            "line 1 is not a JSON object with `question`, `hop`, `accept`",
        ),
        (&line(r#""hop":1,"accept":true,"ms":-0.5"#), "`ms` is -0.5"),
        (
            &format!("{verdict}\n{verdict}"),
            "has stood in line 1 already",
        ),
    ];
    for (content, words) in verdicts {
        bundle.is_refused("--verdicts", content, words);
    }

    let simulate = bundle.eval("simulate", &["--k", "2"]);
    let with = |more: &[&str], words: &str| refused(&[&simulate[..], more].concat(), words);
    let file = bundle.file("hot.jsonl", []);
    with(
        &["--guesses", &file],
        "the bundle has guesses of `hot` itself",
    );
    with(
        &["--guesses", "-", "--verdicts", "-"],
        "cannot both be read from stdin",
    );
    with(&["--name", "mine"], "--name names what");
    with(&["--guesses", &bundle.path("none.jsonl")], "cannot read ");
    with(&["--variant", "k=2,verdicts=mine"], "with --verdicts");
    for command in ["questions", "choose"] {
        refused(
            &bundle.eval(command, &["--speculator", "llm"]),
            "the bundle has no guesses of `llm`; it has those of: hot",
        );
    }
    miswritten(&bundle.eval("choose", &["--k-max", "65"]), "1..=64");
}
