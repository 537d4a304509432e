//! The whole harness on twenty real questions, with the planner, reader and encoder of the embedded
//! default: recorded, simulated, replayed, asked live, reported.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use serde_json::Value;
use spechop_eval::{Row, Run, Source, Variant};
use spechop_testkit::assets;

use crate::Server;
use crate::shell::{self, words};

const WEB: &str = "1000:300:1";

fn datasets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../eval/datasets/2wikimultihopqa")
}

fn lines(name: &str) -> impl Iterator<Item = Value> {
    let file = File::open(datasets().join(name)).unwrap();
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

/// Where everything of the test lies.
struct Place(tempfile::TempDir);

impl Place {
    /// With an index of the pages that the shipped questions rest on, half of it hot.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let needed: BTreeSet<String> = lines("questions.jsonl.gz")
            .flat_map(|question| {
                let facts = question["supporting_facts"].as_array().unwrap().clone();
                facts
                    .into_iter()
                    .map(|fact| fact[0].as_str().unwrap().to_owned())
            })
            .collect();
        let mut corpus = File::create(place.path("corpus.jsonl")).unwrap();
        for passage in lines("corpus.jsonl.gz") {
            if needed.contains(passage["title"].as_str().unwrap()) {
                writeln!(corpus, "{passage}").unwrap();
            }
        }
        let (corpus, index) = (place.path("corpus.jsonl"), place.path("index"));
        let degrees = datasets().join("in_degree.jsonl.gz");
        place.run(&[
            "index",
            "build",
            "--corpus",
            text(&corpus),
            "--out",
            text(&index),
            "--hot-fraction",
            "0.5",
            "--in-degree",
            text(&degrees),
        ]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spechop"));
        command
            .args(args)
            .env("SPECHOP_DATA_DIR", assets::data_dir())
            .env("SPECHOP_INDEX_DIR", self.path("index"))
            .env("SPECHOP_SPECULATOR_HOT_DIR", self.path("index/hot"))
            .env("SPECHOP_TUNING_STATE", "none")
            .stdin(Stdio::null());
        command
    }

    /// Exit code, stdout, stderr.
    fn try_run(&self, args: &[&str]) -> (i32, String, String) {
        shell::output(&mut self.command(args))
    }

    /// Stdout and stderr of what must succeed.
    fn run(&self, args: &[&str]) -> (String, String) {
        let (code, stdout, stderr) = self.try_run(args);
        assert_eq!(code, 0, "{args:?}: {stderr}");
        (stdout, stderr)
    }

    /// What must fail, in a line with these words.
    fn refuses(&self, args: &[&str], words: &str) {
        let (code, stdout, stderr) = self.try_run(args);
        assert_eq!((code, &*stdout), (1, ""), "{args:?}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }

    /// Starts a server; its address.
    fn serve(&self, args: &[&str]) -> (Server, String) {
        Server::start(&mut self.command(args), &self.path("log"))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What does not depend on the clock.
fn trajectory(row: &Row) -> Vec<(&str, &str)> {
    let hops = row.hops.iter();
    let hops = hops.map(|hop| (&*hop.sub_question, &*hop.answer));
    hops.chain([("", &*row.answer)]).collect()
}

fn row<'a>(run: &'a Run, id: &str, variant: &str) -> &'a Row {
    let variant: Variant = variant.parse().unwrap();
    let mut rows = run.rows.iter();
    rows.find(|row| row.id == id && row.variant == variant)
        .unwrap()
}

#[test]
fn twenty_questions_from_the_data_set_to_the_report() {
    let place = Place::new();
    let questions = datasets().join("questions.jsonl.gz");
    let which = words("--dataset 2wiki --count 20 --questions");
    let which = [&which[..], &[text(&questions)]].concat();
    let variants = words("--k 1,3 --variant k=3,verifier=exact --variant k=1,verifier=none");
    let bundle = place.path("bundle");

    let recording = [
        &["eval", "record", "--system", "embedded default"],
        &which[..],
        &variants[..],
        &["--inject", "0", "--inject", WEB, "--out", text(&bundle)],
    ]
    .concat();
    let (_, said) = place.run(&recording);
    assert!(said.contains("20 questions"), "{said}");
    // What is there is not run again.
    let (_, said) = place.run(&recording);
    assert!(said.contains(" 0 stages run"), "{said}");

    let simulated = place.path("simulated");
    let over_web = ["--bundle", text(&bundle), "--inject", WEB];
    let simulating = [&["eval", "simulate"][..], &over_web].concat();
    let keep = ["--json", "--out", text(&simulated)];
    let (means, _) = place.run(&[&simulating[..], &variants, &keep].concat());
    let means: Vec<Value> = means
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(means.len(), 4);
    assert_eq!(means[0]["rel_lat"], 1.0);
    assert!(means[1]["rel_lat"].as_f64().unwrap() < 1.0, "{means:?}");
    // How much less is a matter of the machine: the stages are real ones.
    assert!(means[3]["rel_lat"].as_f64().unwrap() < 1.0, "{means:?}");
    let simulated_run = Run::read(&simulated).unwrap();
    assert_eq!(simulated_run.rows.len(), 80);

    // The real server, over tools that wait.
    let replay = words("eval replay --listen 127.0.0.1:0 --speed 16");
    let (server, address) = place.serve(&[&replay[..], &over_web].concat());
    let replayed = place.path("replayed");
    let asked = words("--variant k=1 --variant k=3,verifier=exact");
    let live = |out: &Path, address: &str, more: &[&str]| {
        let command = ["eval", "live", "--system", "embedded default"];
        let to = ["--addr", address, "--out", text(out)];
        place.run(&[&command[..], &which, &to, &asked, more].concat());
    };
    live(&replayed, &address, &["--speed", "16"]);
    drop(server);
    let replayed_run = Run::read(&replayed).unwrap();
    assert_eq!(replayed_run.info.source, Source::Replayed);
    assert_eq!(replayed_run.info.injected, simulated_run.info.injected);
    // Law 8, live and simulated: one trajectory, at every k.
    for question in &simulated_run.questions {
        let standard = trajectory(row(&simulated_run, &question.id, "k=1"));
        for (run, variant) in [
            (&simulated_run, "k=3,verifier=exact"),
            (&replayed_run, "k=1"),
            (&replayed_run, "k=3,verifier=exact"),
        ] {
            assert_eq!(
                trajectory(row(run, &question.id, variant)),
                standard,
                "{variant}"
            );
        }
    }

    // Everything computing: what was recorded is what the server says.
    let (server, address) = place.serve(&["serve", "--listen", "127.0.0.1:0"]);
    let computed = place.path("live");
    live(&computed, &address, &[]);
    drop(server);
    let live_run = Run::read(&computed).unwrap();
    for question in &live_run.questions {
        let standard = trajectory(row(&simulated_run, &question.id, "k=1"));
        for variant in ["k=1", "k=3,verifier=exact"] {
            assert_eq!(
                trajectory(row(&live_run, &question.id, variant)),
                standard,
                "{variant}"
            );
        }
    }

    let report = place.path("report");
    let reported = |runs: &[&Path]| {
        let runs: Vec<_> = runs.iter().map(|run| text(run)).collect();
        let to = ["--out", text(&report)];
        place.run(&[&["eval", "report"][..], &runs, &to].concat());
    };
    reported(&[&simulated, &replayed, &computed]);
    let html = fs::read_to_string(report.join("report.html")).unwrap();
    let markdown = fs::read_to_string(report.join("report.md")).unwrap();
    assert!(html.contains("<svg") && html.contains("INJECTED"));
    for words in ["RelLat", "embedded default", "k=3", "20"] {
        assert!(markdown.contains(words), "{words}");
    }

    // Not recorded, of other parts, another sample, another data set, nothing at all.
    place.refuses(
        &[&simulating[..], &["--variant", "k=3,guesses=3"]].concat(),
        "is not in the bundle",
    );
    // The planner's base, without its adapter.
    let base = assets::model_dir("smollm2-135m-instruct").join("model.gguf");
    let base = format!("generator.file={}", text(&base));
    let other_planner = [
        &recording[..],
        &["--set", "generator.style=tagged", "--set", &base],
    ];
    place.refuses(&other_planner.concat(), "was recorded with another planner");
    place.refuses(
        &[&recording[..], &["--seed", "2"]].concat(),
        "was recorded with another seed",
    );
    let musique = datasets().join("../musique/questions.jsonl.gz");
    let elsewhere = place.path("x");
    let record = words("eval record --system x --dataset 2wiki --k 1 --questions");
    let files = [text(&musique), "--out", text(&elsewhere)];
    place.refuses(&[&record[..], &files].concat(), "musique");
    let nothing = ["eval", "simulate", "--k", "1", "--bundle", text(&elsewhere)];
    place.refuses(&nothing, "is no bundle");
    // A run that lacks answers is never passed off as whole.
    let rows = fs::read_to_string(replayed.join("rows.jsonl")).unwrap();
    let fewer: Vec<_> = rows.lines().take(30).collect();
    fs::write(replayed.join("rows.jsonl"), fewer.join("\n") + "\n").unwrap();
    reported(&[&simulated, &replayed]);
    let markdown = fs::read_to_string(report.join("report.md")).unwrap();
    assert!(
        markdown.contains("NOT WHOLE: 15 of 20 questions"),
        "{markdown}"
    );
}
