//! The first steps of `spechop --help`, as somebody takes them who has the binary and nothing else: an
//! empty home, no checkout, no variables, no registry. Models come from the folder that the tests'
//! models are in, in place of a download.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use spechop_testkit::assets;
use tempfile::TempDir;
use tokio::time::Instant;

use super::Server;

/// For everything but the downloads. It takes well under a minute on a machine that does nothing else, but other
/// tests share the cores.
const TIME_MAX: Duration = Duration::from_secs(600);

/// What people have: text, Markdown and pages saved from the web. Two of them hold the answer.
const FOLDER: [(&str, &str); 8] = [
    (
        "films/Polish-Russian War.txt",
        "Polish-Russian War (film)\n\n\
         Polish-Russian War is a 2009 Polish film directed by Xawery Żuławski. It is based on the novel \
         of the same name by Dorota Masłowska, who also appears in it.\n\n\
         The film was shown at the festival in Gdynia, where it won three prizes.\n",
    ),
    (
        "films/the-third-man.html",
        "<!DOCTYPE html><html><head><title>The Third Man</title><style>p { margin: 0 }</style></head>\
         <body><nav><a href=/>Home</a> <a href=/films>Xawery Żuławski's mother is on another page</a></nav>\
         <p>The Third Man is a 1949 British film directed by Carol Reed and written by Graham Greene.</p>\
         <script>document.write('no text')</script></body></html>",
    ),
    (
        "films/halcon.md",
        "# Halcón\n\n*Halcón* is a film directed by **Ana Ruiz**. It tells of two sisters in Cádiz.\n",
    ),
    (
        "people/xawery-zulawski.md",
        "# Xawery Żuławski\n\nXawery Żuławski (born 22 December 1971 in Warsaw) is a Polish film \
         director. His mother is Małgorzata Braunek, an actress. His father, Andrzej \
         Żuławski, directed films, too.\n\n\
         ## Career\n\nIn 1995 he graduated from the National Film School in Łódź.\n",
    ),
    (
        "people/ana-ruiz.md",
        "# Ana Ruiz\n\nAna Ruiz is a Spanish director. Her mother is the painter Lucía Ortega.\n",
    ),
    (
        "people/carol_reed.txt",
        "Carol Reed was an English film director. He was born in London in 1906 and died in 1976.\n",
    ),
    (
        "places/gdynia.html",
        "<title>Gdynia</title><p>Gdynia is a city in northern Poland, on the coast of the Baltic Sea. \
         Its festival shows Polish films every year.<p>It has 245,000 inhabitants.",
    ),
    ("places/photograph.jpg", "\u{0}not a text"),
];

/// A machine with an empty home, and the binary in it.
struct Machine {
    home: TempDir,
}

impl Machine {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::copy(env!("CARGO_BIN_EXE_spechop"), home.path().join("spechop")).unwrap();
        Self { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn spechop(&self, args: &[String]) -> Command {
        let mut command = Command::new(self.path("spechop"));
        command
            .env_clear()
            .env("HOME", self.home.path())
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .args(args);
        command
    }

    /// Runs a step to its end; returns stdout and stderr.
    #[track_caller]
    fn step(&self, step: &[String], more: &[&str]) -> (String, String) {
        let more = more.iter().map(|&arg| arg.to_owned());
        let args: Vec<String> = step.iter().cloned().chain(more).collect();
        let Output {
            status,
            stdout,
            stderr,
        } = self.spechop(&args).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(status.success(), "{args:?}: {stderr}");
        (String::from_utf8(stdout).unwrap(), stderr)
    }

    /// The server, and its address.
    #[track_caller]
    fn serve(&self, step: &[String]) -> (Server, String) {
        let mut args = step.to_vec();
        args.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
        Server::start(&mut self.spechop(&args), &self.path("log"))
    }
}

/// The commands under `First steps:`, in words; what stands between quotes is one word.
fn first_steps(help: &str) -> Vec<Vec<String>> {
    let (_, steps) = help.split_once("First steps:\n").unwrap();
    let commands = steps
        .lines()
        .map_while(|line| line.strip_prefix("  spechop "));
    let words = |command: &str| {
        let mut words = Vec::new();
        for (n, part) in command.split('"').enumerate() {
            match n % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    };
    commands.map(words).collect()
}

fn write_folder(folder: &Path) {
    for (name, text) in FOLDER {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// What each hop found, and the id of the passage that comes first as its evidence.
fn found(answer: &Value) -> Vec<(&str, &str)> {
    fn text(value: &Value) -> &str {
        value.as_str().unwrap()
    }
    let hops = answer["hops"].as_array().unwrap().iter();
    hops.map(|hop| {
        let observation = &hop["observation"];
        (
            text(&observation["answer"]),
            text(&observation["evidence"][0]["passage_id"]),
        )
    })
    .collect()
}

#[test]
fn the_first_steps_work_in_an_empty_home_with_nothing_but_the_binary() {
    let machine = Machine::new();
    let started = Instant::now();
    let (help, _) = machine.step(&["--help".to_owned()], &[]);
    let steps = first_steps(&help);
    let [pull, build, serve, ask] = &steps[..] else {
        panic!("{steps:?}")
    };

    let models = assets::data_dir().join("models");
    machine.step(
        pull,
        &["--source", "mirror", "--from", models.to_str().unwrap()],
    );

    write_folder(&machine.path("FOLDER"));
    let (built, named) = machine.step(build, &[]);
    assert!(
        built.contains("7 passages of 7 files (documents), 1 left out"),
        "{built}"
    );
    assert!(named.contains("(places/photograph.jpg)"), "{named}");

    let (_server, address) = machine.serve(serve);
    let (answer, _) = machine.step(ask, &["--json", "--addr", &address]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["answer"], "Małgorzata Braunek", "{answer}");
    assert_eq!(
        found(&answer),
        [
            ("Xawery Żuławski", "films/Polish-Russian War.txt#1"),
            ("Małgorzata Braunek", "people/xawery-zulawski.md#1"),
        ]
    );

    let took = started.elapsed();
    assert!(took < TIME_MAX, "the first steps took {took:?}");
}
