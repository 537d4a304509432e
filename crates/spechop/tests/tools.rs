//! `deploy/test-tools.sh` and `deploy/checks/tools.sh` over made-up machines: which of the tests' tools
//! count as installed, and which are made anew.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::machine::{Machine, project};

/// It takes away what is in an environment, and leaves the copies of the lists.
#[test]
fn after_an_upgrade_of_python_environments_are_made_anew() {
    let list = |name: &str| fs::read(project().join("deploy").join(name)).expect(name);
    let lists = |folder: &str| {
        ["requirements-pinned.txt", "requirements.txt"]
            .map(|name| list(&format!("{folder}/{name}")))
            .concat()
    };
    let makes = r#"
        [ "$2" = venv ] || exit 0
        folder=${!#}
        echo "${folder##*/}" >> "$NOTES"
        rm -rf "$folder"
        mkdir -p "$folder/bin"
        ln -s /bin/true "$folder/bin/python""#;
    // It runs, and has no module.
    let upgraded = "[ \"$*\" = '-c ' ]";
    for (script, made) in [
        ("test-tools.sh", "venv\nsearxng\n"),
        ("checks/tools.sh", "venv\n"),
    ] {
        let machine = Machine::new()
            .without("apt-get")
            .command("python3", makes)
            .variable("SPECHOP_DATA_DIR", "data")
            .program("data/venv/bin/python", upgraded)
            .file(
                "data/venv/requirements-test.txt",
                &list("requirements-test.txt"),
            )
            .file("data/venv/requirements-checks.txt", &lists("checks"))
            .program("data/searxng/bin/python", upgraded)
            .file("data/searxng/installed", &lists("searxng"));
        // The second time they work.
        for _ in 0..2 {
            let output = machine.script(script, &[]);
            assert!(output.status.success(), "{output:?}");
            assert_eq!(machine.installed(), made, "{output:?}");
        }
    }
}

/// Another version is not what is tested. An installation that was interrupted is finished.
#[test]
fn tools_of_an_earlier_version_count_as_none() {
    let script = fs::read_to_string(project().join("deploy/test-tools.sh")).expect("the script");
    let mut lines = script.lines();
    let version = lines.find_map(|line| line.strip_prefix("qdrant="));
    let qdrant = format!("qdrant-{}", version.expect("a version"));
    let machine = || {
        let machine = Machine::new()
            .without("apt-get")
            .command("python3", "")
            .command("npm", "exit 1")
            .variable("SPECHOP_DATA_DIR", "data")
            .program("data/venv/bin/python", "")
            .program("data/bin/grpcurl-v1.0.0", "")
            .file("data/mcp/version", b"2025.1.1\n")
            .file("data/searxng/installed", b"")
            .file("data/page-tests/installed", b"{}")
            .file("data/node-tests/installed", b"{}");
        symlink("grpcurl-v1.0.0", machine.path("data/bin/grpcurl")).expect("a link");
        machine
    };
    let run = |machine: &Machine| {
        let output = machine.script("test-tools.sh", &[]);
        assert!(output.status.success(), "{output:?}");
    };
    let earlier = machine();
    symlink("qdrant-1.0.0", earlier.path("data/bin/qdrant")).expect("a link");
    run(&earlier);
    for file in [
        "bin/grpcurl",
        "bin/qdrant",
        "mcp/version",
        "page-tests/installed",
        "node-tests/installed",
    ] {
        let is_there = fs::symlink_metadata(earlier.path("data").join(file)).is_ok();
        assert!(!is_there, "{file}");
    }
    let interrupted = machine().program(&format!("data/bin/{qdrant}"), "");
    run(&interrupted);
    let link = fs::read_link(interrupted.path("data/bin/qdrant")).expect("a link");
    assert_eq!(link, Path::new(&qdrant));
    // A program that somebody has put there by hand stays.
    let own = machine().program("data/bin/qdrant", "");
    run(&own);
    assert!(own.path("data/bin/qdrant").exists());
}

/// Ubuntu has no package of Chromium, and apt-get installs all that it is asked for or nothing.
#[test]
fn node_does_not_wait_for_a_browser() {
    let apt_get = "[[ $* != *chromium* ]] || exit 100; echo \"$*\" >> \"$NOTES\"";
    let machine = Machine::new()
        .command("apt-get", apt_get)
        .command("python3", "")
        .variable("SPECHOP_DATA_DIR", "data")
        .program("data/venv/bin/python", "")
        .program("data/bin/nginx", "")
        .file("data/searxng/installed", b"");
    let output = machine.script("test-tools.sh", &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        machine.installed(),
        "update -qq\ninstall -y -qq --no-install-recommends nodejs npm\nupdate -qq\n"
    );
    let said = String::from_utf8_lossy(&output.stderr);
    let told = said.contains("\nchromium fonts-dejavu-core cannot be installed: the page's tests");
    assert!(told && !said.contains("npm cannot"), "{said}");
}

#[test]
fn helm_on_the_path_does_without_go() {
    let machine = || {
        Machine::new()
            .without("apt-get")
            .command("python3", "")
            .variable("SPECHOP_DATA_DIR", "data")
            .program("data/venv/bin/python", "")
    };
    let neither = machine().script("checks/tools.sh", &["helm"]);
    let said = String::from_utf8_lossy(&neither.stderr);
    assert_eq!(neither.status.code(), Some(1), "{said}");
    assert!(said.contains("install Go, or Helm on the PATH"), "{said}");
    let helm = machine().command("helm", "");
    let output = helm.script("checks/tools.sh", &["helm"]);
    assert!(output.status.success(), "{output:?}");
}
