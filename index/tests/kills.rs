//! Builds in a process of their own: killed, measured, without room, without leave to write.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::site::{Site, Triples, files, line};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_index::Build;

/// The build in the child: of `corpus.jsonl` in its working folder. Prints a line for each batch, with what it has in
/// memory by then.
#[tokio::test]
#[ignore = "a process that other tests start, and kill"]
async fn child() {
    let build = Build {
        batch_rows: 8,
        shard_rows: 36,
        ..Build::new("corpus.jsonl", "index")
    };
    let mut tell = |progress: spechop_index::Progress| {
        writeln!(stdout(), "batch {} {}", progress.done, memory_kib()).unwrap();
    };
    match build.run(&Triples::new("triples"), &mut tell).await {
        Ok(_) => writeln!(stdout(), "built").unwrap(),
        Err(error) => {
            let source = std::error::Error::source(&error);
            let source = source.map(ToString::to_string).unwrap_or_default();
            writeln!(stdout(), "failed: {error}: {source}").unwrap();
        }
    }
}

/// What this process holds in memory, in KiB. A file that is mapped is none of it: the system takes that back as it
/// likes. 0 where nobody tells.
fn memory_kib() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = size.and_then(|size| size.split_whitespace().next()?.parse().ok());
    kib.unwrap_or_default()
}

/// The child, after a line of shell.
fn start(dir: &Path, shell: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{shell} exec \"$0\" --exact kills::child --ignored --nocapture");
    command
        .arg("-c")
        .arg(script)
        .arg(std::env::current_exe().unwrap());
    command
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// What the child said at the end.
fn outcome(command: &mut Command) -> String {
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let told = output
        .lines()
        .find(|line| line.contains("built") || line.contains("failed: "));
    told.unwrap_or(&output).to_owned()
}

#[tokio::test]
async fn a_build_that_is_killed_anywhere_comes_to_the_same_bytes() {
    let whole = Site::new();
    whole.run(&Triples::new("triples")).await.unwrap();
    let expected = files(&whole.build.out);
    let seed = 15;
    let mut random = StdRng::seed_from_u64(seed);
    let mut killed = 0;
    for round in 0..8 {
        let site = Site::new();
        // Several times in one build, each within some batch.
        for _ in 0..3 {
            let mut child = start(site.dir.path(), "").spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            // The child runs on while we read: the kill comes at some moment behind this line.
            let line = lines.nth(random.random_range(0..8));
            child.kill().unwrap();
            child.wait().unwrap();
            killed += usize::from(line.is_some() && !site.build.out.exists());
        }
        assert_eq!(
            outcome(&mut start(site.dir.path(), "")),
            "built",
            "seed {seed}, round {round}"
        );
        assert_eq!(
            files(&site.build.out),
            expected,
            "seed {seed}, round {round}"
        );
        assert!(!site.path("index.partial").exists());
    }
    assert!(killed > 0, "no build was killed before its end");
}

/// It grows with the batch, not with the corpus.
#[cfg(target_os = "linux")]
#[test]
fn a_corpus_ten_times_as_large_takes_no_more_memory() {
    const TEXT_KIB: usize = 48;
    let most_kib = |passages: usize| {
        let site = Site::new();
        let text = "a word. ".repeat(TEXT_KIB * 1024 / 8);
        let lines = (0..passages).map(|n| line(&format!("p{n}"), &format!("{n}: {text}")));
        fs::write(&site.build.corpus, lines.collect::<String>()).unwrap();
        let output = start(site.dir.path(), "").output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains("built"), "{told}");
        let sizes = told.lines().filter_map(|line| {
            let (_, size) = line.split_once("batch ")?.1.split_once(' ')?;
            size.parse::<usize>().ok()
        });
        sizes.max().unwrap()
    };
    let [small, large] = [40, 400].map(most_kib);
    assert!(small > 0, "the system tells");
    // Half of what the other texts would take.
    let spare = 360 * TEXT_KIB / 2;
    assert!(large < small + spare, "{small} KiB, then {large} KiB");
}

#[tokio::test]
async fn without_room_nothing_that_was_there_is_lost() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let before = files(&site.build.out);
    let corpus = fs::read_to_string(&site.build.corpus).unwrap();
    let larger = corpus.replace("is about", &"is about ".repeat(200));
    fs::write(&site.build.corpus, larger).unwrap();
    // No file may grow beyond some kilobytes, and the signal for it is ignored: writing fails.
    let told = outcome(&mut start(site.dir.path(), "trap '' XFSZ; ulimit -f 64;"));
    assert!(
        told.contains("failed: ") && told.contains("passages-00000.bin"),
        "{told}"
    );
    assert_eq!(files(&site.build.out), before);
    // With room the same command resumes.
    assert_eq!(outcome(&mut start(site.dir.path(), "")), "built");
    assert_ne!(files(&site.build.out), before);
}

#[tokio::test]
async fn a_folder_that_nobody_may_write_to_is_an_error_with_its_name() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let before = files(&site.build.out);
    let lock = site.path(".index.lock");
    fs::remove_file(&lock).unwrap();
    fs::write(
        &site.build.corpus,
        "{\"id\":\"a\",\"title\":\"\",\"text\":\"x\"}",
    )
    .unwrap();
    let is_refused = |told: String| {
        assert!(
            told.contains("failed: creating ") && told.contains(".index.lock"),
            "{told}"
        );
        assert_eq!(files(&site.build.out), before);
    };
    // Not even the superuser writes where a folder is.
    fs::create_dir(&lock).unwrap();
    is_refused(outcome(&mut start(site.dir.path(), "")));
    fs::remove_dir(&lock).unwrap();
    let mode = |mode| fs::set_permissions(site.dir.path(), Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    let probe = fs::write(site.path("probe"), "");
    let told = outcome(&mut start(site.dir.path(), ""));
    mode(0o755);
    // The superuser may write anywhere.
    if probe.is_err() {
        is_refused(told);
    }
}

/// The kernel's own folder takes no file from anybody.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_folder_that_takes_no_file_is_an_error_with_its_name() {
    let mut site = Site::new();
    site.build.out = "/proc/index".into();
    let error = site.run(&Triples::new("triples")).await.unwrap_err();
    assert_eq!(error.to_string(), "creating /proc/.index.lock failed");
}
