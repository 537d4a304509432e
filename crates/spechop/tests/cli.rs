//! The binary as scripts see it: stdout, stderr, exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use spechop_testkit::assets;

fn spechop(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spechop"));
    command
        .env_clear()
        .env("SPECHOP_DATA_DIR", data_dir)
        .stdin(Stdio::null());
    command
}

/// Exit code, stdout, stderr.
fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn errors_are_one_clear_line_and_an_exit_code() {
    let empty = tempfile::tempdir().unwrap();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let not_toml = empty.path().join("c.toml");
    std::fs::write(&not_toml, "[server\nlisten = 1").unwrap();
    for (args, words) in [
        (
            &["ask", "Who?", "--addr", &closed][..],
            "start it with `spechop serve`",
        ),
        (
            &["ask", "Who?", "--addr", "https://h:1"],
            "`https` is not spoken",
        ),
        (&["ask", "Who?", "--addr", "no address"], "is no HOST:PORT"),
        (
            &["serve", "--config", "/nowhere.toml"],
            "cannot read the configuration /nowhere.toml",
        ),
        (
            &["serve", "--config", not_toml.to_str().unwrap()],
            "not TOML",
        ),
        (&["serve", "--log", "a=b=c"], "is no log filter"),
    ] {
        let (code, stdout, stderr) = run(spechop(empty.path()).args(args));
        assert_eq!((code, &*stdout), (1, ""), "{args:?}: {stderr}");
        assert!(
            stderr.starts_with("spechop: ") && stderr.contains(words),
            "{args:?}: {stderr}"
        );
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    }
    // What was written wrong is told by the parser of the command line.
    for args in [
        &["ask"][..],
        &["ask", "Who?", "--k", "many"],
        &["serve", "--listen", "here"],
        &["nothing"],
    ] {
        let (code, stdout, stderr) = run(spechop(empty.path()).args(args));
        assert_eq!((code, &*stdout), (2, ""), "{args:?}");
        assert!(stderr.contains("error: "), "{args:?}: {stderr}");
    }
    // Everything that is missing, at once, each with the command that fetches it.
    let (code, _, stderr) = run(spechop(empty.path()).arg("serve"));
    assert_eq!(code, 1);
    for words in [
        "6 mistakes",
        "`spechop models pull encoder`",
        "`spechop models pull onnxruntime`",
        "`spechop models pull smollm2-135m-instruct`",
        "`spechop models pull spechop-planner`",
        "`spechop models pull spechop-reader`",
        "`spechop index build --corpus FOLDER`",
        "`spechop models pull default`",
    ] {
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn help_teaches_by_example() {
    let empty = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["--help"][..], "spechop ask --watch"),
        (&["index", "build", "--help"], "--corpus notes/"),
        (&["ask", "--help"], "jq -r .answer"),
        (&["serve", "--help"], "--set speculator.kind=none"),
    ] {
        let (code, stdout, _) = run(spechop(empty.path()).args(args));
        assert!(code == 0 && stdout.contains(words), "{stdout}");
    }
}

#[test]
fn our_own_models_come_out_of_the_binary() {
    let data = tempfile::tempdir().unwrap();
    // No mirror, no client of any registry: no variable says where programs are.
    let args = ["models", "pull", "spechop-planner", "spechop-reader"];
    let (code, _, stderr) = run(spechop(data.path()).args(args));
    assert_eq!(code, 0, "{stderr}");
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/models");
    for file in [
        "spechop-planner/adapter.gguf",
        "spechop-reader/model.onnx",
        "spechop-reader/reader.toml",
        "spechop-reader/tokenizer.json",
    ] {
        let installed = std::fs::read(data.path().join("models").join(file)).unwrap();
        assert!(
            installed == std::fs::read(ours.join(file)).unwrap(),
            "{file}"
        );
    }
    let (_, stdout, _) = run(spechop(data.path()).args(["models", "list", "--json"]));
    let list: Value = serde_json::from_str(&stdout).unwrap();
    let state = |name: &str| {
        let models = list["models"].as_array().unwrap();
        let model = models.iter().find(|model| model["name"] == name).unwrap();
        (model["state"].clone(), model["download_bytes"].clone())
    };
    assert_eq!(state("spechop-planner"), ("present".into(), 0.into()));
    assert_eq!(state("spechop-reader"), ("present".into(), 0.into()));
}

#[test]
fn the_data_folder_is_printed_by_its_rule() {
    for (variables, dir) in [
        (&[("HOME", "/h")][..], "/h/.local/share/spechop"),
        (&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")], "/x/spechop"),
        (&[("HOME", "/h"), ("SPECHOP_DATA_DIR", "~/d")], "/h/d"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spechop"));
        command
            .env_clear()
            .envs(variables.iter().copied())
            .arg("data-dir");
        assert_eq!(run(&mut command), (0, format!("{dir}\n"), String::new()));
    }
}

/// A server process, killed when the test ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn serves_and_asks_with_real_parts() {
    let dir = tempfile::tempdir().unwrap();
    let data = assets::data_dir();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let corpus = r#"{"id":"p1","title":"Halcón","text":"Halcón is a film directed by Ana Ruiz."}
{"id":"p2","title":"Ana Ruiz","text":"Ana Ruiz is a director who was born in Cádiz."}
"#;
    std::fs::write(path("corpus.jsonl"), corpus).unwrap();
    let (code, _, stderr) = run(spechop(&data).args(["index", "build"]).args([
        "--corpus",
        &path("corpus.jsonl"),
        "--out",
        &path("index"),
    ]));
    assert_eq!(code, 0, "{stderr}");

    let model = assets::model_dir("smollm2-135m-instruct").join("model.gguf");
    let mut server = spechop(&data);
    server
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
        .args(["--set", &format!("index.dir={}", path("index"))])
        .args(["--set", &format!("generator.file={}", model.display())])
        .env("SPECHOP_GENERATOR_THREADS", "1")
        .env("SPECHOP_QUESTION_HOP_BUDGET", "1")
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(path("log")).unwrap());
    let mut server = Server(server.spawn().unwrap());
    let mut ready = String::new();
    BufReader::new(server.0.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    let log = || std::fs::read_to_string(path("log")).unwrap();
    let address = ready
        .trim()
        .strip_prefix("ready on ")
        .unwrap_or_else(|| panic!("{}", log()))
        .to_owned();

    let question = "Where was the director of Halcón born?";
    let (code, stdout, stderr) =
        run(spechop(&data).args(["ask", question, "--addr", &address, "--json"]));
    assert_eq!(code, 0, "{stderr}");
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert!(!answer["answer"].as_str().unwrap().is_empty());
    let evidence = &answer["hops"][0]["observation"]["evidence"];
    assert!(
        ["p1", "p2"].contains(&evidence[0]["passage_id"].as_str().unwrap()),
        "{answer}"
    );
    assert_eq!(answer["applied"]["hop_budget"], 1);
    assert_eq!(answer["applied"]["speculator"], "llm");

    // Without a terminal, a line for each event on stderr, and the answer for people on stdout.
    let (code, stdout, stderr) =
        run(spechop(&data).args(["ask", question, "--addr", &address, "--watch", "--k", "1"]));
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("✎ writing") && stderr.contains("✓ committed"),
        "{stderr}"
    );
    assert!(
        !stderr.contains('\x1b') && !stdout.contains('\x1b'),
        "no colours in a pipe"
    );
    assert!(
        stdout.starts_with(answer["answer"].as_str().unwrap()),
        "{stdout}"
    );
    assert!(
        stdout.contains("[p1] Halcón: ") && stdout.contains("k = 1"),
        "{stdout}"
    );

    let (code, stdout, stderr) =
        run(spechop(&data).args(["ask", question, "--addr", &address, "--k", "0"]));
    assert_eq!((code, &*stdout), (1, ""));
    assert_eq!(
        stderr,
        "spechop: INVALID_ARGUMENT: k: must be from 1 to 64, not 0\n"
    );

    let (code, _, stderr) = run(spechop(&data)
        .args(["serve", "--listen", &address])
        .args(["--set", &format!("index.dir={}", path("index"))])
        .args(["--set", &format!("generator.file={}", model.display())]));
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
}
