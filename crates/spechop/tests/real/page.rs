//! The page of the server: its reducer over recorded runs in Node, and all of it in a real browser. So is the report of
//! `spechop eval report`.

use std::fs::{read_to_string, write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// The folder of the page's tests.
fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../spechop-server/tests/page")
}

fn node(args: &[PathBuf]) -> Command {
    let mut node = Command::new("node");
    node.args(args).stdin(Stdio::null());
    node
}

/// All of them, and some at all.
#[track_caller]
fn passed(output: &Output) {
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let count = |what: &str| {
        let lines = told
            .lines()
            .filter_map(|line| line.trim_start().split_once(what));
        lines
            .filter_map(|(_, count)| count.trim().parse::<u32>().ok())
            .next_back()
    };
    assert!(output.status.success(), "{told}{errors}");
    assert!(
        count(" pass ").is_some_and(|passed| passed > 0),
        "{told}{errors}"
    );
}

#[test]
fn recorded_runs_are_reduced() {
    let files =
        ["panels.test.mjs", "reduce.test.mjs", "stream.test.mjs"].map(|name| tests().join(name));
    let mut node = node(&["--test".into()]);
    passed(&node.args(files).output().unwrap());
}

mod browser {
    use spechop_testkit::assets;

    use super::*;
    use crate::shell::{in_data_dir, output};
    use crate::{Server, indexed};

    /// What a passage of the web may hold.
    const HOSTILE: &str = " <script>window.pwned=1</script><img src=x onerror=\"window.pwned=1\">";

    /// The passages of the first demonstration. Those that the answer rests on hold a script, so that the page has to
    /// show it.
    fn corpus() -> String {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../eval/datasets/2wikimultihopqa/demo_questions.jsonl");
        let questions = read_to_string(file).unwrap();
        let first: Value = serde_json::from_str(questions.lines().next().unwrap()).unwrap();
        let facts = first["supporting_facts"].as_array().unwrap();
        let mut lines = String::new();
        for (n, passage) in first["context"].as_array().unwrap().iter().enumerate() {
            let sentences = passage[1].as_array().unwrap().iter();
            let text: Vec<_> = sentences
                .map(|sentence| sentence.as_str().unwrap())
                .collect();
            let (mut title, mut text) = (passage[0].as_str().unwrap().to_owned(), text.join(" "));
            if facts.iter().any(|fact| fact[0] == passage[0]) {
                title += HOSTILE;
                text += HOSTILE;
            }
            lines += &format!(
                "{}\n",
                json!({"id": format!("p{n}"), "title": title, "text": text})
            );
        }
        lines
    }

    #[test]
    fn a_question_is_seen_while_it_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let data = assets::data_dir();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let [corpus, index] = indexed(dir.path(), &corpus());

        let serve = |log: &str, variables: &[(&str, &str)]| {
            let mut serve = in_data_dir(&data, &["serve", "--listen", "127.0.0.1:0"]);
            serve
                .env("SPECHOP_INDEX_DIR", &index)
                .env("SPECHOP_TUNING_STATE", "none")
                .envs(variables.iter().copied());
            Server::start(&mut serve, &dir.path().join(log))
        };
        let slow = [
            ("SPECHOP_QUESTION_VERIFIER", "exact"),
            ("SPECHOP_QUESTION_PLAN_AHEAD", "true"),
            ("SPECHOP_TARGET_INJECTED_LATENCY_MEAN_MS", "4000"),
            ("SPECHOP_TARGET_INJECTED_LATENCY_SIGMA_MS", "100"),
            ("SPECHOP_TARGET_INJECTED_LATENCY_SEED", "1"),
        ];
        let (_server, address) = serve("log", &slow);

        // The same index behind keys, of which one may ask once and then no more.
        let key = |name: &str, more: &str| {
            let (code, told, stderr) =
                output(&mut in_data_dir(&data, &["keys", "new", "--name", name]));
            assert_eq!(code, 0, "{stderr}");
            let (key, lines) = told.split_once('\n').unwrap();
            (key.trim().to_owned(), format!("{lines}\n{more}\n"))
        };
        let (key, once) = (
            key("page", ""),
            key("once", "requests_per_second = 0.001\nrequests_burst = 1"),
        );
        write(path("keys.toml"), key.1 + &once.1).unwrap();
        let keys = path("keys.toml");
        let shared = [
            ("SPECHOP_SERVER_KEYS_FILE", keys.as_ref()),
            ("SPECHOP_PAGE_SHARE_S", "600"),
        ];
        let (_locked, locked) = serve("locked", &shared);

        // The same passages in a web that is as slow as a real one, and guesses from the index meanwhile.
        let mut web = in_data_dir(&data, &["eval", "web", "--corpus", &corpus]);
        web.args(["--listen", "127.0.0.1:0", "--latency", "3000:300"]);
        let (_web, web) = Server::start(&mut web, &dir.path().join("web"));
        let url = format!("http://{web}");
        let surfs = [
            ("SPECHOP_TARGET_KIND", "web"),
            ("SPECHOP_WEB_PROVIDERS", "searxng"),
            ("SPECHOP_WEB_SEARXNG_URL", url.as_str()),
            ("SPECHOP_WEB_ALLOW", &web),
            ("SPECHOP_SPECULATOR_KIND", "index"),
        ];
        let (_surfing, surfing) = serve("surfing", &surfs);

        let mut node = node(&[tests().join("browser.mjs")]);
        node.env("PAGE_URL", format!("http://{address}/"))
            .env("PAGE_WEB", format!("http://{surfing}/"))
            .env("PAGE_HOSTILE", HOSTILE)
            .env("PAGE_LOCKED", format!("http://{locked}/"))
            .env("PAGE_KEYS", format!("{} {}", key.0, once.0))
            .env("PAGE_TOOLS", data.join("page-tests"));
        passed(&node.output().unwrap());
    }

    #[test]
    fn the_stored_report_is_whole_on_any_screen_and_in_print() {
        let report = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../eval/runs/report");
        let mut node = node(&[tests().join("report.mjs")]);
        node.env("REPORT", report.join("report.html"))
            .env("PAGE_TOOLS", assets::data_dir().join("page-tests"));
        passed(&node.output().unwrap());
    }
}
