//! `deploy/setup.sh` over made-up machines: what it finds, what it would install, and what it refuses. And what else
//! depends on the machine: how the Makefile builds llama.cpp, and the Python environments of the tests' tools.
//!
//! Every machine is a folder: a root with libraries in it, and a `PATH` of its own, on which `apt-get`
//! only notes what it was asked for.

#![expect(clippy::expect_used, reason = "a test's own helpers")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The beginning of a 64-bit ELF file, as far as anybody looks at it.
const ELF64: &[u8] = b"\x7fELF\x02 a library";
const ELF32: &[u8] = b"\x7fELF\x01 a library";

/// What the script itself is made of.
const TOOLS: [&str; 21] = [
    "bash", "od", "tr", "sed", "dirname", "readlink", "sort", "head", "cut", "grep", "getconf",
    "env", "nproc", "cat", "uname", "rm", "sleep", "cmp", "cp", "ln", "mkdir",
];

/// A machine with a compiler, cmake, make and the right Rust, and root's rights; no libclang.
struct Machine {
    home: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            home: TempDir::new().expect("a folder"),
            variables: Vec::new(),
        };
        fs::create_dir_all(machine.path("bin")).expect("a folder");
        for tool in TOOLS {
            let real = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(tool));
            let real = real.iter().find(|path| path.exists()).expect(tool);
            symlink(real, machine.path("bin").join(tool)).expect("a link");
        }
        machine
            .command("cmake", "")
            .command("c++", "")
            .command("make", "")
            .command("cargo", "echo 'cargo 1.95.0 (f2d3ce0bd 2026-03-21)'")
            .command("id", "echo 0")
            .command("apt-get", "echo \"apt-get $*\" >> \"$NOTES\"")
    }

    /// A program on the `PATH`; replaces one of the same name.
    fn command(self, name: &str, script: &str) -> Self {
        self.program(&format!("bin/{name}"), script)
    }

    fn program(self, path: &str, script: &str) -> Self {
        let machine = self.file(path, format!("#!/bin/bash\n{script}\n").as_bytes());
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(machine.path(path), executable).expect("a program");
        machine
    }

    fn without(self, name: &str) -> Self {
        fs::remove_file(self.path("bin").join(name)).expect("it was there");
        self
    }

    fn file(self, path: &str, content: &[u8]) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
        self
    }

    /// The headers that libclang brings as a package of their own.
    fn headers(self, llvm: &str) -> Self {
        self.file(
            &format!("usr/lib/llvm-{llvm}/lib/clang/{llvm}/include/stdbool.h"),
            b"",
        )
    }

    /// `value` is relative to the machine's root.
    fn variable(mut self, name: &'static str, value: &str) -> Self {
        let value = self.path(value).display().to_string();
        self.variables.push((name, value));
        self
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.home.path().join(relative)
    }

    fn run(&self, parts: &[&str]) -> Output {
        self.script("setup.sh", parts)
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Output {
        Command::new("/bin/bash")
            .arg(project().join("deploy").join(name))
            .args(arguments)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("SETUP_ROOT", self.home.path())
            .env("NOTES", self.path("notes"))
            // As if something had been built, unless a test says otherwise.
            .env("CARGO_TARGET_DIR", self.path("target"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .expect("bash runs")
    }

    /// Everything is there: nothing is installed.
    fn is_ready(&self) {
        let output = self.run(&["build"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(self.installed(), "", "{said}");
    }

    /// These packages are installed, in one go.
    fn installs(&self, packages: &str) {
        let output = self.run(&["build"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(
            said.contains(&format!("missing, from Debian packages: {packages}\n")),
            "{said}"
        );
        assert_eq!(
            self.installed(),
            format!(
                "apt-get update -qq\napt-get install -y -qq --no-install-recommends {packages}\n"
            )
        );
    }

    /// It says each of these, fails, and installs nothing.
    fn refuses(&self, reasons: &[&str]) {
        let output = self.run(&["build"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        for reason in reasons {
            assert!(said.contains(reason), "{said}\nshould tell: {reason}");
        }
        assert_eq!(self.installed(), "", "{said}");
    }

    fn installed(&self) -> String {
        fs::read_to_string(self.path("notes")).unwrap_or_default()
    }
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn libclang_is_what_bindgen_takes_for_it() {
    let found = |file| {
        let machine = Machine::new().headers("14").headers("18");
        machine.file(file, ELF64).is_ready();
    };
    found("usr/lib/llvm-14/lib/libclang.so");
    found("usr/lib/x86_64-linux-gnu/libclang-14.so");
    found("usr/lib/x86_64-linux-gnu/libclang-14.so.1");
    found("usr/lib/llvm-14/lib/libclang.so.1");
    found("usr/local/lib/libclang.so.18");
    found("usr/lib64/libclang.so");
}

#[test]
fn what_only_looks_like_libclang_is_none() {
    let missing = |file, content| {
        let machine = Machine::new().headers("14").file(file, content);
        machine.installs("libclang-dev");
    };
    missing("usr/lib/x86_64-linux-gnu/libclang-cpp.so.14", ELF64);
    missing("usr/lib/llvm-14/lib/libclang-cpp.so", ELF64);
    missing("usr/lib/x86_64-linux-gnu/libclang-14.so.1", ELF32);
    missing("usr/lib/x86_64-linux-gnu/libclang-14.so.1", b"no library");
    missing("usr/lib/x86_64-linux-gnu/libclang-14.so.1", b"");
    missing("opt/llvm/lib/libclang.so", ELF64);
    missing("usr/lib/a/b/c/libclang.so", ELF64);
}

#[test]
fn the_headers_of_the_library_that_bindgen_takes_are_needed_too() {
    let library = |version| {
        let file = format!("usr/lib/x86_64-linux-gnu/libclang-{version}.so.1");
        Machine::new().file(&file, ELF64)
    };
    library("14").installs("libclang-common-14-dev");
    let both = library("14").file("usr/lib/x86_64-linux-gnu/libclang-19.so.1", ELF64);
    both.installs("libclang-common-19-dev");
    // clang brings them, and bindgen asks it.
    library("14").command("clang", "").is_ready();
}

#[test]
fn llvm_config_and_the_library_paths_are_asked() {
    let at = |folder: &str| {
        let file = format!("{folder}/libclang.so.17");
        Machine::new().headers("17").file(&file, ELF64)
    };
    let elsewhere = at("opt/llvm/lib");
    let prefix = elsewhere.path("opt/llvm");
    elsewhere
        .command("llvm-config", &format!("echo {}", prefix.display()))
        .is_ready();
    at("opt/a").variable("LD_LIBRARY_PATH", "opt/a").is_ready();
    at("opt/a").variable("LIBRARY_PATH", "opt/a").is_ready();
}

#[test]
fn libclang_path_is_the_only_place_if_it_is_set() {
    let machine = || {
        let machine = Machine::new()
            .headers("14")
            .file("opt/llvm/lib/libclang.so.14", ELF64);
        machine.file("usr/lib/llvm-14/lib/libclang.so", ELF64)
    };
    machine()
        .variable("LIBCLANG_PATH", "opt/llvm/lib")
        .is_ready();
    machine()
        .variable("LIBCLANG_PATH", "opt/llvm/lib/libclang.so.14")
        .is_ready();
    let wrong = [
        "LIBCLANG_PATH is",
        "no libclang for this machine lies there; unset it",
    ];
    machine()
        .variable("LIBCLANG_PATH", "opt/llvm")
        .refuses(&wrong);
    machine()
        .variable("LIBCLANG_PATH", "nowhere")
        .refuses(&wrong);
    let of_another = machine().file("opt/32/libclang.so", ELF32);
    of_another
        .variable("LIBCLANG_PATH", "opt/32")
        .refuses(&wrong);
}

#[test]
fn everything_that_is_missing_is_installed_in_one_go() {
    let bare = Machine::new()
        .without("cmake")
        .without("c++")
        .without("make");
    bare.installs("cmake g++ make libclang-dev");
}

/// The build does not wait for what it does not need; setting up waits for the build.
#[test]
fn a_build_begins_as_soon_as_it_can() {
    let bare = |build: &str| {
        Machine::new().command("build", build).command(
            "apt-get",
            "[ $1 = update ] || echo \"${@:4}\" >> \"$NOTES\"; [[ $* != *maven ]] || sleep 0.3",
        )
    };
    let run = |machine: &Machine| machine.run(&["build", "maven", "--", "build", "it"]);
    let machine = bare("echo building $* >> \"$NOTES\"");
    let output = run(&machine);
    assert!(output.status.success(), "{output:?}");
    let notes = machine.installed();
    let mut lines: Vec<_> = notes.lines().collect();
    assert_eq!(lines[0], "--no-install-recommends libclang-dev");
    lines[1..].sort_unstable();
    assert_eq!(lines[1..], ["--no-install-recommends maven", "building it"]);
    let failed = run(&bare("exit 7"));
    assert_eq!(failed.status.code(), Some(7), "{failed:?}");
    // A package that cannot be installed ends the build.
    let no_maven = bare("exec sleep 20").command("apt-get", "[[ $* != *maven ]]");
    let output = run(&no_maven);
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn whoever_is_not_root_uses_sudo_or_is_told_what_to_do() {
    let user = || Machine::new().command("id", "echo 1000");
    user().refuses(&["run as root 'apt-get install libclang-dev'"]);
    user().command("sudo", "\"$@\"").installs("libclang-dev");
}

#[test]
fn without_apt_get_the_packages_are_named() {
    Machine::new()
        .without("apt-get")
        .refuses(&["no apt-get", "libclang-dev"]);
}

#[test]
fn every_problem_is_told_before_anything_is_installed() {
    let machine = Machine::new()
        .without("cargo")
        .without("apt-get")
        .without("cmake");
    machine.refuses(&[
        "there is no Rust toolchain: install rustup",
        "no apt-get",
        "cmake libclang-dev",
    ]);
    let old = Machine::new().command("cargo", "echo 'cargo 1.70.0 (x 2023-01-01)'");
    old.refuses(&["cargo is 1.70.0, and 1.95.0 or later is needed"]);
    let broken = Machine::new().command(
        "cargo",
        "echo 'error: toolchain is not installed' >&2; exit 1",
    );
    broken.refuses(&["'cargo --version' fails here", "rustup toolchain install"]);
}

#[test]
fn a_first_build_is_announced_and_a_second_one_is_silent() {
    let machine = Machine::new()
        .headers("14")
        .file("usr/lib/libclang.so", ELF64);
    let said = |machine: &Machine| String::from_utf8(machine.run(&["build"]).stderr).expect("text");
    let first = said(&machine);
    assert!(
        first.contains("setup: found cmake, c++, make, libclang ("),
        "{first}"
    );
    assert!(first.contains("a first build compiles"), "{first}");
    let built = machine.file("target/debug/deps/libx.rlib", b"");
    assert_eq!(said(&built), "");
}

#[test]
fn a_build_for_another_processor_or_with_other_kernels_is_made_again() {
    let settled = "target/release/build/llama-cpp-sys-2-1a/out/build/CMakeCache.txt";
    let of = |vnni: &str, vbmi: &str, llamafile: &str| {
        let machine = Machine::new()
            .headers("14")
            .file("usr/lib/libclang.so", ELF64)
            .file(
                settled,
                format!(
                    "GGML_AVX512_VBMI:BOOL={vbmi}\nGGML_AVX512_VNNI:BOOL={vnni}\nGGML_LLAMAFILE:BOOL={llamafile}\n"
                )
                .as_bytes(),
            )
            .file("target/release/.fingerprint/llama-cpp-sys-2-1a/x", b"")
            .file("target/release/deps/libx.rlib", b"");
        machine.is_ready();
        machine
    };
    assert!(of("OFF", "OFF", "OFF").path(settled).exists());
    for (vnni, vbmi, llamafile) in [
        ("ON", "OFF", "OFF"),
        ("OFF", "ON", "OFF"),
        ("OFF", "OFF", "ON"),
    ] {
        let otherwise = of(vnni, vbmi, llamafile);
        let exists = |path: &str| otherwise.path(&format!("target/release/{path}")).exists();
        assert!(!exists("build/llama-cpp-sys-2-1a"));
        assert!(!exists(".fingerprint/llama-cpp-sys-2-1a"));
        assert!(exists("deps/libx.rlib"));
    }
}

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

#[test]
fn an_unknown_part_is_named() {
    let output = Machine::new().run(&["bulid"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no part 'bulid'"), "{said}");
}
