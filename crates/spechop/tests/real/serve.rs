//! `index build`, `serve` and `ask` as scripts use them.

use std::process::Command;

use serde_json::Value;
use spechop_testkit::assets;

use crate::shell::{in_data_dir, output};
use crate::{CORPUS, Server, indexed};

#[test]
fn serves_and_asks_with_real_parts() {
    let dir = tempfile::tempdir().unwrap();
    let data = assets::data_dir();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let spechop = |args: &[&str]| in_data_dir(&data, args);
    let run = |args: &[&str]| output(&mut spechop(args));
    let [_, index] = indexed(dir.path(), CORPUS);
    let index = format!("index.dir={index}");
    let serve = |listen: &str| spechop(&["serve", "--listen", listen, "--set", &index]);
    let mut server = serve("127.0.0.1:0");
    server
        .args(["--log-format", "json"])
        .env("SPECHOP_GENERATOR_THREADS", "1")
        .env("SPECHOP_QUESTION_HOP_BUDGET", "1")
        .env("SPECHOP_TUNING_STATE", path("tuning.json"));
    let (mut server, address) = Server::start(&mut server, path("log").as_ref());
    let log = || std::fs::read_to_string(path("log")).unwrap();

    let question = "Where was the director of Halcón born?";
    let (code, stdout, stderr) = run(&["ask", question, "--addr", &address, "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert!(!answer["answer"].as_str().unwrap().is_empty());
    let evidence = &answer["hops"][0]["observation"]["evidence"];
    assert!(
        ["p1", "p2"].contains(&evidence[0]["passage_id"].as_str().unwrap()),
        "{answer}"
    );
    assert_eq!(answer["applied"]["options"]["hop_budget"], 1);
    // The index was built without a hot subset.
    assert_eq!(answer["applied"]["options"]["speculator"], "none");

    // Without a terminal the board comes once, at the end, on stderr; the answer for people is on stdout.
    let watched = |how: &[&str]| {
        let (code, stdout, stderr) =
            run(&[&["ask", question, "--addr", &address, "--k", "1"], how].concat());
        assert_eq!(code, 0, "{stderr}");
        assert!(
            !stderr.contains('\x1b') && !stdout.contains('\x1b'),
            "no colours in a pipe"
        );
        assert!(
            stdout.starts_with(answer["answer"].as_str().unwrap()),
            "{stdout}"
        );
        assert!(
            stdout.contains("[p1] Halcón (hop 1)") && stdout.contains("k = 1"),
            "{stdout}"
        );
        (stdout, stderr)
    };
    let (stdout, stderr) = watched(&["--watch"]);
    assert!(
        stderr.starts_with("✓ hop 1 b0  ") && stderr.lines().count() == 2,
        "a hop and the answer: {stderr}"
    );
    assert!(!stdout.contains("Halcón is a film"), "{stdout}");
    let (stdout, stderr) = watched(&["--watch=events", "--evidence"]);
    assert!(
        stderr.contains("✎ writing") && stderr.contains("✓ committed"),
        "{stderr}"
    );
    assert!(
        stdout.contains("Halcón is a film directed by Ana Ruiz."),
        "{stdout}"
    );

    // The command knows that there is no k = 0, and the server how large it may be.
    let (code, stdout, stderr) = run(&["ask", question, "--addr", &address, "--k", "0"]);
    assert_eq!((code, &*stdout), (2, ""));
    assert!(stderr.contains("a number of branches from 1"), "{stderr}");
    let (code, stdout, stderr) = run(&["ask", question, "--addr", &address, "--k", "65"]);
    assert_eq!((code, &*stdout), (1, ""));
    assert_eq!(
        stderr,
        "spechop: INVALID_ARGUMENT: options.k: must be at most 64, not 65\n"
    );

    let (code, _, stderr) = output(&mut serve(&address));
    assert_eq!(code, 1);
    assert!(
        stderr.contains(&format!("cannot listen on {address}")),
        "{stderr}"
    );

    // Every line of the log is JSON.
    assert!(
        log()
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{}",
        log()
    );
    // SIGTERM ends it, cleanly.
    let pid = server.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert!(server.0.wait().unwrap().success(), "{}", log());
    let learnt = std::fs::read_to_string(path("tuning.json")).unwrap();
    assert!(
        learnt.contains("\"llm\"") && !learnt.contains("Halcón"),
        "{learnt}"
    );
}
