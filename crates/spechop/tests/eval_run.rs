//! `eval/run.sh` over a `spechop` that only notes what it is called with: what the script asks for, and
//! what it does if something fails.

#![expect(clippy::unwrap_used, reason = "a test's own helpers")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Notes its arguments in a line of `NOTES`. Servers are ready at once, do not mind a closed terminal, and end with
/// `ENDS` when they are told to. With `HANGS`, who asks them says so and gets no answer.
const SPECHOP: &str = r#"#!/bin/bash
# Two may run side by side, so a line is written at once.
printf -v line '%q ' "$@"; printf '%s\n' "$line" >>"$NOTES"
case "$1 ${2:-}" in
  "data-dir ") echo "$HOME" ;;
  "serve "* | "eval web" | "eval replay")
    trap 'echo "this server is not content" >&2; exit ${ENDS:-0}' TERM
    trap '' HUP
    echo $$ >>"$HOME/pids"
    echo "ready on 127.0.0.1:9"
    # Whatever fails, it does not outlive the test.
    while [ -d "$HOME" ]; do sleep 0.02; done ;;
  "eval live")
    [ -z "${HANGS:-}" ] || { echo $$ >>"$HOME/pids"; echo asked >&2; exec sleep 60; } ;;
esac
"#;

/// The gold planner and Qdrant say where they are, the former if its files are there; whatever else is written in
/// Python does nothing.
const PYTHON: &str = r#"#!/bin/bash
case "$1" in
  *gold_planner.py)
    for file in "${@:4}"; do [ -f "$file" ] || exit 1; done
    echo "http://127.0.0.1:9/v1"; exec sleep 60 ;;
  *upstream.py) echo "ready on 127.0.0.1:9"; exec sleep 60 ;;
esac
"#;

/// A folder with these programs, in which the script keeps everything.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self::called(".tmp")
    }

    /// One whose name begins so.
    fn called(name: &str) -> Self {
        let folder = tempfile::Builder::new().prefix(name).tempdir();
        let place = Self(folder.unwrap());
        for (name, text) in [("spechop", SPECHOP), ("python3", PYTHON)] {
            let path = place.0.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for set in ["2wikimultihopqa", "musique"] {
            let folder = place.0.path().join("data").join(set);
            fs::create_dir_all(&folder).unwrap();
            for file in ["questions", "extra_questions", "goldonly_covered"] {
                fs::write(folder.join(file).with_extension("jsonl"), "").unwrap();
            }
        }
        place
    }

    /// Whether these parts succeed, and what is said meanwhile.
    fn run(&self, parts: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        let output = self.command(parts, variables).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), said)
    }

    fn command(&self, parts: &[&str], variables: &[(&str, &str)]) -> Command {
        let home = self.0.path();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new(root.join("eval/run.sh"));
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", home.display()))
            .env("HOME", home)
            .env("TMPDIR", home)
            .env("NOTES", home.join("notes"))
            .env("SPECHOP", home.join("spechop"))
            .env("OUT", home.join("out"))
            .envs(variables.iter().copied())
            .arg(home.join("data"))
            .args(parts);
        command
    }

    /// What the program was called with, a line for each call, as a shell reads it.
    fn calls(&self) -> Vec<String> {
        let notes = fs::read_to_string(self.0.path().join("notes")).unwrap();
        notes.lines().map(str::to_owned).collect()
    }
}

/// COUNT of the next test: so many questions of each sample are asked at most.
const COUNT: usize = 8;

/// A hundred calls, each read by the real command line: nothing is asked for that it does not know, although a blank
/// in the folder's name could cut an argument in two. Nor is any more asked than COUNT says.
#[test]
fn what_the_script_calls_exists() {
    let place = Place::called("a %d ");
    for out in ["2wiki-own", "musique-gold"] {
        fs::create_dir_all(place.0.path().join("out").join(out).join("bundle")).unwrap();
    }
    let indexes = place.0.path().join("indexes");
    for set in ["2wiki", "musique"] {
        fs::create_dir_all(indexes.join(format!("{set}-extended/hot"))).unwrap();
        let memory = place.0.path().join("out/web/memory");
        fs::create_dir_all(&memory).unwrap();
        fs::write(memory.join(set).with_extension("json"), "").unwrap();
    }
    let count = COUNT.to_string();
    for (parts, variables) in [
        (
            "prepare record_gold record_own record_speculators record_llm record_large simulate replay live report decisions",
            &[][..],
        ),
        (
            "drafts answers answers_theirs effort choice saturation words ablation",
            &[("FREE", "1")],
        ),
        ("web web_guesses large_reads", &[("PLANS", "large")]),
        // With its own six questions it does not read COUNT.
        (
            "deepresearch",
            &[
                ("DIFFICULTY", "L2"),
                ("DEEPRESEARCH", "nine thousand.parquet"),
                ("CORPUS", "passages of mine.jsonl"),
            ],
        ),
    ] {
        let parts: Vec<_> = parts.split(' ').collect();
        let variables = [variables, &[("COUNT", &*count)]].concat();
        let (success, said) = place.run(&parts, &variables);
        assert!(success, "{parts:?}: {said}");
    }
    let calls = place.calls();
    assert!(calls.len() > 100, "{}", calls.len());
    let is_free = |call: &String| call.contains("tuning.calls_max=");
    assert!(calls.iter().any(is_free), "FREE is not read");
    // The index and the web hold the same passages, and the run names them.
    let is_mine = |call: &&String| call.contains("passages\\ of\\ mine.jsonl");
    assert_eq!(calls.iter().filter(is_mine).count(), 3, "{calls:?}");
    // An older bundle may lack stages of these ways: that costs questions of this run, and no other run.
    let is_papers = |call: &&String| call.starts_with("eval simulate ") && is_to_the_letter(call);
    let papers: Vec<_> = calls.iter().filter(is_papers).collect();
    assert_eq!(papers.len(), 2, "with and without latency: {papers:?}");
    for call in papers {
        assert!(call.contains("--whole-only"), "{call}");
        assert!(call.contains("2wiki-own/simulated-paper-"), "{call}");
    }
    let records = |call: &&String| call.starts_with("eval record ") && call.contains("musique-own");
    let record = calls.iter().find(records);
    assert!(
        record.is_some_and(|call| is_to_the_letter(call)),
        "{record:?}"
    );
    for call in calls {
        if call.starts_with("eval live ") || call.starts_with("eval record ") {
            asks_few(&call);
        }
        let line = format!("'{}' {call} --help", env!("CARGO_BIN_EXE_spechop"));
        let read = Command::new("bash").args(["-c", &line]).output().unwrap();
        let said = String::from_utf8(read.stderr).unwrap();
        assert!(read.status.success(), "spechop {call}: {said}");
    }
}

/// Whether the paper's verifier is asked for with the paper's algorithm.
fn is_to_the_letter(call: &str) -> bool {
    let call = call.replace('\\', "");
    call.contains("k=inf,verifier=paper,algorithm=paper")
}

/// No more questions than COUNT, and no more at once than there are: `eval live` would refuse that.
fn asks_few(call: &str) {
    let count = numbers(call, "--count").first().copied();
    assert!(count.is_some_and(|count| count <= COUNT), "{call}");
    let at_once = numbers(call, "--concurrency").into_iter().max();
    assert!(at_once <= count, "{call}");
}

/// The numbers behind a flag. A call is noted as a shell reads it, with a backslash before a comma.
fn numbers(call: &str, flag: &str) -> Vec<usize> {
    let mut words = call.split(' ').skip_while(|word| *word != flag);
    let list = words.nth(1).unwrap_or_default().replace('\\', "");
    list.split(',')
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[test]
fn the_gold_planner_finds_its_files_whatever_their_folder_is_called() {
    let place = Place::called("a %d ");
    for set in ["2wiki", "musique"] {
        let hot = format!("indexes/{set}-extended/hot");
        fs::create_dir_all(place.0.path().join(hot)).unwrap();
    }
    let (success, said) = place.run(&["prepare", "record_gold"], &[]);
    assert!(success, "{said}");
}

/// A tokenizer changes what a model says, as its weights do. What is noted of its folder changes nothing.
#[test]
fn a_model_is_named_by_all_that_its_folder_holds() {
    let place = Place::new();
    let folder = place.0.path().join("models/spechop-reader");
    fs::create_dir_all(&folder).unwrap();
    let mut named = Vec::new();
    for (file, text) in [
        ("model.onnx", "weights"),
        (".note.json", "checked today"),
        ("tokenizer.json", "words"),
        ("tokenizer.json", "other words"),
    ] {
        fs::write(folder.join(file), text).unwrap();
        let (success, said) = place.run(&["effort"], &[("ONLY", "2wiki")]);
        assert!(success, "{said}");
        let calls = place.calls();
        let asked = calls.iter().rfind(|call| call.starts_with("eval live "));
        let mut parts = asked.unwrap().split(" --part ");
        let reader = parts.find(|part| part.starts_with("reader=spechop-reader"));
        named.push(reader.unwrap().to_owned());
    }
    assert_eq!(named[0], named[1]);
    named.dedup();
    assert_eq!(named.len(), 3, "{named:?}");
}

/// Only a replay knows that it was asked for stages that are not recorded. It says so at its end.
#[test]
fn a_server_that_fails_fails_the_run() {
    let place = Place::new();
    let (success, said) = place.run(&["replay"], &[("ENDS", "1")]);
    assert!(
        !success && said.contains("this server is not content"),
        "{said}"
    );
    let (success, said) = place.run(&["replay"], &[]);
    assert!(success && !said.contains("not content"), "{said}");
}

/// The script alone is told to end, or that its terminal is closed, while a server is asked.
#[test]
fn nothing_that_was_started_outlives_the_script() {
    for (part, signal) in [("live", "TERM"), ("live", "HUP"), ("replay", "TERM")] {
        let place = Place::new();
        let mut command = place.command(&[part], &[("ONLY", "2wiki"), ("HANGS", "1")]);
        let mut script = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(script.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap() == "asked"), "{part}");
        let kill = format!("kill -{signal} {}", script.id());
        let sent = Command::new("bash").args(["-c", &kill]).status().unwrap();
        assert!(sent.success(), "{kill}");
        let ended = script.wait().unwrap();
        assert_eq!(ended.code(), Some(143), "{part}, {signal}");
        let pids = fs::read_to_string(place.0.path().join("pids")).unwrap();
        assert_eq!(pids.lines().count(), 2, "a server and who asks it: {pids}");
        for pid in pids.lines() {
            let is_there = Path::new("/proc").join(pid).exists();
            assert!(!is_there, "{part}, {signal}: {pid} is there");
        }
    }
}

#[test]
fn a_report_is_of_what_there_is() {
    let place = Place::new();
    let out = place.0.path().join("out");
    for run in [
        "2wiki-own/live-0",
        "musique-gold/simulated-4150",
        "web/musique",
        "musique-own/simulated-paper-4150",
    ] {
        fs::create_dir_all(out.join(run)).unwrap();
    }
    let (success, said) = place.run(&["report"], &[]);
    assert!(success, "{said}");
    let calls = place.calls();
    let of = |call: &&String| call.starts_with("eval report ");
    let reports: Vec<_> = calls.iter().filter(of).collect();
    // What is played by the paper's verifier has a report of its own.
    assert_eq!(reports.len(), 2, "{reports:?}");
    for (call, count) in reports.into_iter().zip([3, 1]) {
        let (runs, out) = call.split_once("--out").unwrap();
        let runs: Vec<_> = runs
            .split(' ')
            .skip(2)
            .filter(|run| !run.is_empty())
            .collect();
        assert_eq!(runs.len(), count, "{call}");
        assert!(runs.iter().all(|run| Path::new(run).is_dir()), "{call}");
        let is_papers = |text: &str| text.contains("paper");
        assert_eq!(runs.iter().any(|run| is_papers(run)), count == 1, "{call}");
        assert_eq!(is_papers(out), count == 1, "{call}");
    }
}

#[test]
fn every_part_that_ends_well_notes_how_long_it_took() {
    let place = Place::new();
    for (parts, ends) in [
        (&["saturation", "report"][..], "0"),
        (&["replay"], "1"),
        (&["report"], "0"),
    ] {
        let (success, said) = place.run(parts, &[("ENDS", ends)]);
        assert_eq!(success, ends == "0", "{said}");
    }
    let times = |folder: &str| {
        let file = place.0.path().join(folder).join("times.tsv");
        fs::read_to_string(file).unwrap()
    };
    let told = times("out");
    let mut lines = told
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let of: Vec<_> = lines.collect();
    let parts: Vec<&str> = of.iter().map(|line| line[0]).collect();
    assert_eq!(parts, ["saturation", "report", "report"], "{told}");
    for line in of {
        assert_eq!(line.len(), head.len(), "{told}");
        assert!(line[2].parse::<u64>().is_ok(), "{told}");
        for load in [line[3], line[4]] {
            let means = load.split(' ').filter(|mean| mean.parse::<f64>().is_ok());
            assert_eq!(means.count(), 3, "{told}");
        }
        assert!(!line[5].is_empty(), "{told}");
    }
    // The runs of this machine lie in its data folder, and so do their times.
    let (success, said) = place.run(&["saturation"], &[("OUT", "")]);
    assert!(success, "{said}");
    assert_eq!(times("eval/runs").lines().count(), 2);
}
