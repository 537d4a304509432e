//! The Makefile: how it builds llama.cpp, and its paths.

use std::process::Command;

use crate::machine::{Machine, project};

#[test]
fn llama_is_built_for_no_more_than_this_processor_has() {
    let asked = |flags: &str| {
        let cpuinfo = format!("flags\t\t: fpu {flags} sse\n");
        let machine = Machine::new().file("proc/cpuinfo", cpuinfo.as_bytes());
        let target = "asked: ; @env | grep ^GGML_AVX512 | cut -c 12- | sort || true";
        let output = Command::new("make")
            .args(["--silent", "--eval", target, "asked"])
            .current_dir(project())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("SETUP_ROOT", machine.path(""))
            .output()
            .expect("make runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(asked("avx2"), "");
    // Cascade Lake, then Ice Lake.
    assert_eq!(asked("avx512vl avx512_vnni"), "=ON\n_VNNI=ON\n");
    assert_eq!(
        asked("avx512vl avx512vbmi avx512_vbmi2 avx512_vnni"),
        "=ON\n_VBMI=ON\n_VNNI=ON\n"
    );
}

#[test]
fn paths_of_the_makefile_may_be_relative_and_hold_blanks() {
    let asked = |data: &str| {
        let target = "asked: ; @printf '%s\\n' \"$$SPECHOP_DATA_DIR\" $(QUICK) $(BENCH_PYTHON)";
        let output = Command::new("make")
            .args(["--silent", "--eval", target, "asked", data])
            .current_dir(project())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("CARGO_TARGET_DIR", "/a b/target")
            .env("HOME", "/home/me")
            .output()
            .expect("make runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(
        asked("SPECHOP_DATA_DIR=/my data"),
        "/my data\n/a b/target/quick/spechop\n/my data/bench-venv/bin/python\n"
    );
    // No folder of the name `~` is made.
    let in_home = asked("SPECHOP_DATA_DIR=~/my  data/~/x");
    let first = in_home.lines().next();
    assert_eq!(first, Some("/home/me/my  data/~/x"), "{in_home}");
    let here = project().canonicalize().expect("a folder");
    let relative = asked("SPECHOP_DATA_DIR=my data");
    let expected = format!("{}/my data\n", here.display());
    assert!(relative.starts_with(&expected), "{relative}");
}

#[test]
fn a_proof_takes_how_many_schedules_it_plays_and_from_which_seed() {
    for (settings, expected) in [
        (&[][..], ""),
        (&["SEED=7"], "1000000 7"),
        (&["SCHEDULES=5"], "5"),
        (&["SCHEDULES=5", "SEED=7"], "5 7"),
    ] {
        let output = Command::new("make")
            .args(["--dry-run", "prove"])
            .args(settings)
            .current_dir(project())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/home/me")
            .output()
            .expect("make runs");
        let told = String::from_utf8(output.stdout).expect("text");
        let command = told.lines().last().expect("a command");
        let (_, taken) = command.rsplit_once("--example prove --").expect("a proof");
        assert_eq!(taken.trim(), expected, "{command}");
    }
}
