//! The binary as scripts see it: stdout, stderr, exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;

use crate::shell::{self, in_data_dir, output, spechop, unread, words};
use serde_json::Value;
use spechop_testkit::OwnPort;

/// Exit code, stdout, stderr.
fn run(data_dir: &Path, args: &[&str]) -> (i32, String, String) {
    output(&mut in_data_dir(data_dir, args))
}

#[test]
fn errors_are_one_clear_line_and_an_exit_code() {
    let empty = tempfile::tempdir().unwrap();
    let port = OwnPort::reserve();
    let closed = port.address().to_string();
    let not_toml = empty.path().join("c.toml");
    std::fs::write(&not_toml, "[server\nlisten = 1").unwrap();
    let run_of_another_kind = empty.path().join("run");
    std::fs::create_dir(&run_of_another_kind).unwrap();
    std::fs::write(run_of_another_kind.join("questions.jsonl"), "").unwrap();
    let retrieval =
        words("eval retrieval --dataset 2wiki --look-ups none --index none --held-out none --out");
    let retrieval = [&retrieval[..], &[run_of_another_kind.to_str().unwrap()]].concat();
    for (args, words) in [
        (
            &["ask", "Who?", "--addr", &closed][..],
            "start it with `spechop serve`",
        ),
        (
            &["ask", "Who?", "--addr", "ftp://h:1"],
            "`ftp` is not spoken",
        ),
        (&["ask", "Who?", "--addr", "no address"], "is no HOST:PORT"),
        (
            &["ask", "Who?", "--addr", "http://127.0.0.1:9/qa"],
            "`http://127.0.0.1:9/qa` has a path",
        ),
        (
            &["ask", "Who?", "--addr", "127.0.0.1:99999"],
            "`127.0.0.1:99999` is no HOST:PORT",
        ),
        (
            &["serve", "--config", "/nowhere.toml"],
            "cannot read the configuration /nowhere.toml",
        ),
        (
            &["serve", "--config", not_toml.to_str().unwrap()],
            "not TOML",
        ),
        (&retrieval, "holds a bundle or a run"),
    ] {
        let (code, stdout, stderr) = run(empty.path(), args);
        assert_eq!((code, &*stdout), (1, ""), "{args:?}: {stderr}");
        assert!(
            stderr.starts_with("spechop: ") && stderr.contains(words),
            "{args:?}: {stderr}"
        );
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    }
    // A reader of stderr that is gone changes nothing.
    let args = ["ask", "Who?", "--addr", &closed, "--log", "trace"];
    let ended = output(in_data_dir(empty.path(), &args).stderr(unread()));
    assert_eq!(ended.0, 1);
    // What was written wrong is told by the parser of the command line.
    let width = "expected a number of branches from 1, `inf` or `auto`";
    let (limit, count) = (
        "expected 0.001 to 86400 seconds",
        "expected a whole number, at least 1",
    );
    for (args, words) in [
        (&["ask"][..], "required"),
        (&["ask", "Who?", "--k", "many"], width),
        (&["ask", "Who?", "--k", "-1"], width),
        (&["ask", "Who?", "--deadline", "-1"], limit),
        (&["ask", "Who?", "--deadline", "nan"], limit),
        (&["ask", "Who?", "--passages", "0"], count),
        (
            &["ask", "Who?", "--speculator", ""],
            "a value is required for '--speculator",
        ),
        (&["index", "search", ""], "a value is required"),
        (&["index", "search", "Who?", "--limit", "0"], count),
        (
            &["index", "search", "Who?", "--lexical-weight", "-1"],
            "expected auto or a number from 0 to 10",
        ),
        (
            &["serve", "--listen", "localhost:1"],
            "expected an address such as 127.0.0.1:50051",
        ),
        (&["serve", "--log", "a=b=c"], "`a=b=c` is no log filter: "),
        (&["serve", "--log", "warning"], "`warning` is no log level"),
        (&["nothing"], "unrecognized"),
    ] {
        shell::miswritten(args, words);
    }
    // A variable is read when the command line is known to be right.
    let mut command = in_data_dir(empty.path(), &["data-dir"]);
    let (code, _, stderr) = output(command.env("SPECHOP_LOG", "warning"));
    assert!(
        code == 1 && stderr.contains("`warning` is no log level"),
        "{stderr}"
    );
    // Everything that is missing, at once, each with the command that fetches it.
    let (code, _, stderr) = run(empty.path(), &["serve"]);
    assert_eq!(code, 1);
    for words in [
        "5 mistakes",
        "`spechop models pull encoder`",
        "`spechop models pull onnxruntime`",
        "`spechop models pull spechop-planner-merged`",
        "`spechop models pull spechop-reader`",
        "`spechop index build --corpus FOLDER`",
        "`spechop models pull default`",
    ] {
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn a_bridge_that_nobody_reads_ends_as_any_other_command() {
    let folder = tempfile::tempdir().unwrap();
    let ping = folder.path().join("ping.json");
    // The bridge answers it by itself.
    let asked = concat!(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "\n");
    std::fs::write(&ping, asked).unwrap();
    let port = OwnPort::reserve();
    let address = port.address().to_string();
    let mut bridge = in_data_dir(folder.path(), &["mcp", "--addr", &address]);
    let input = std::fs::File::open(&ping).unwrap();
    let ended = output(bridge.stdin(input).stdout(unread()));
    assert_eq!(ended, (141, String::new(), String::new()));
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
        let (code, stdout, _) = run(empty.path(), args);
        assert!(code == 0 && stdout.contains(words), "{stdout}");
        // The flags of every command stand apart from its own.
        let (own, log) = stdout.split_once("\nLog:\n").unwrap();
        assert!(
            log.contains("--log <FILTER>") && !own.contains("--log"),
            "{stdout}"
        );
    }
}

#[test]
fn our_own_models_come_out_of_the_binary() {
    let data = tempfile::tempdir().unwrap();
    // No mirror, no client of any registry: no variable says where programs are.
    let args = ["models", "pull", "spechop-planner", "spechop-reader"];
    let (code, _, stderr) = run(data.path(), &args);
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
    let (_, stdout, _) = run(data.path(), &["models", "list", "--json"]);
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
fn without_a_home_no_folder_is_made_of_its_sign() {
    let empty = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| output(spechop(args).current_dir(&empty));
    for args in [
        &["data-dir"][..],
        &["models", "list"],
        &["index", "build", "--corpus", "."],
        &["config", "check"],
        &["serve"],
    ] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, &*stdout), (1, ""), "{args:?}: {stderr}");
        assert_eq!(
            stderr, "spechop: HOME is not set: set SPECHOP_DATA_DIR\n",
            "{args:?}"
        );
    }
    for args in [&["--help"][..], &["config", "show", "--example"]] {
        let (code, _, stderr) = run(args);
        assert_eq!((code, &*stderr), (0, ""), "{args:?}");
    }
    // These read the folders that they are told.
    let elsewhere = words("--model m --runtime r.so --corpus .");
    for args in [
        &[&["index", "build", "--out", "o"][..], &elsewhere].concat()[..],
        &[&["index", "add", "."][..], &elsewhere].concat(),
        &words("index build --out o --corpus . --model m --set runtime.onnxruntime=r.so"),
        &words("index search Who? --index . --model m --runtime r.so"),
        &["index", "push", "."],
        &["index", "info", "."],
        &["index", "remove", ".", "p1"],
        &["index", "verify", "."],
    ] {
        let (code, _, stderr) = run(args);
        assert!(code == 1 && !stderr.contains("HOME"), "{args:?}: {stderr}");
    }
    assert_eq!(empty.path().read_dir().unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_variable_that_cannot_be_read_is_not_passed_over() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let no_text = OsStr::from_bytes(b"\xff");
    let run =
        |name: &str, args: &[&str]| output(spechop(args).env("HOME", "/h").env(name, no_text));
    for name in ["SPECHOP_DATA_DIR", "HOME"] {
        let said = format!("spechop: the variable {name} is not UTF-8\n");
        assert_eq!(run(name, &["data-dir"]), (1, String::new(), said));
        assert_eq!(run(name, &["--help"]).0, 0);
    }
    assert_eq!(run("OTHER", &["data-dir"]).0, 0);
}

#[test]
fn the_data_folder_is_printed_by_its_rule() {
    for (variables, dir) in [
        (&[("HOME", "/h")][..], "/h/.local/share/spechop"),
        (&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")], "/x/spechop"),
        (&[("HOME", "/h"), ("SPECHOP_DATA_DIR", "~/d")], "/h/d"),
    ] {
        let mut command = spechop(&["data-dir"]);
        command.envs(variables.iter().copied());
        assert_eq!(output(&mut command), (0, format!("{dir}\n"), String::new()));
    }
}
