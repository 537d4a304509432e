//! The drill of `make chaos` in its short form: a real server with a real index, a local web and a scripted
//! model in processes of their own, which are killed and hang.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spechop_testkit::assets;

#[test]
fn what_is_killed_and_hangs_changes_no_answer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut drill = Command::new("python3");
    drill
        .arg(root.join("deploy/chaos.py"))
        .args(["--spechop", env!("CARGO_BIN_EXE_spechop")])
        .args(["--for", "20", "--seed", "3"])
        // The whole machine may be busy with other tests, and this build is not a release: how soon things
        // happen is measured by the long form. Here they must happen at all.
        .args("--ready-max 100 --recovered-max 100 --late-max 30".split(' '))
        .env("SPECHOP_DATA_DIR", assets::data_dir())
        // Everything is on this machine: no proxy is asked. Nobody listens on port 9.
        .env("http_proxy", "http://127.0.0.1:9")
        .env_remove("no_proxy")
        .env_remove("NO_PROXY");
    let done = drill.output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{out}\n{errors}");
    let found: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert!(found["statuses"]["OK"].as_u64() > Some(0), "{found}");
    assert!(found["faults"].as_object().unwrap().len() >= 2, "{found}");
    assert_ne!(found["recoveries"], 0, "{found}");
    assert!(
        !found["restarts_s"].as_array().unwrap().is_empty(),
        "{found}"
    );
}
