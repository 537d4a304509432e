//! `deploy/setup.sh` over made-up machines: what it finds, what it would install, and what it refuses.

use std::process::Output;

use crate::machine::Machine;

/// The beginning of a 64-bit ELF file, as far as anybody looks at it.
const ELF64: &[u8] = b"\x7fELF\x02 a library";
const ELF32: &[u8] = b"\x7fELF\x01 a library";

/// What is asked of the script.
impl Machine {
    /// The headers that libclang brings as a package of their own.
    fn headers(self, llvm: &str) -> Self {
        self.file(
            &format!("usr/lib/llvm-{llvm}/lib/clang/{llvm}/include/stdbool.h"),
            b"",
        )
    }

    fn run(&self, parts: &[&str]) -> Output {
        self.script("setup.sh", parts)
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
    // A package that cannot be installed ends the build, with the compilers that it has started. They keep the
    // output open, so the script is over when they are.
    let compiles = r#"(sleep 1; echo compiled >> "$NOTES") & wait"#;
    let no_maven = bare(compiles).command("apt-get", "[[ $* != *maven ]]");
    let output = run(&no_maven);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(no_maven.installed(), "");
    // Nothing that was begun meanwhile outlives a script that has failed.
    let fetches = r#"
        [ "$1" != fetch ] || { sleep 1; echo fetched >> "$NOTES"; }
        echo 'cargo 1.95.0 (f2d3ce0bd 2026-03-21)'"#;
    let no_libclang = bare("exit 0")
        .command("cargo", fetches)
        .command("apt-get", "[ $1 = update ]");
    let output = run(&no_libclang);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(no_libclang.installed(), "");
}

#[test]
fn whoever_is_not_root_uses_sudo_or_is_told_what_to_do() {
    let user = || Machine::new().command("id", "echo 1000");
    user().refuses(&["run as root 'apt-get install libclang-dev'"]);
    user().command("sudo", "\"$@\"").installs("libclang-dev");
}

#[test]
fn a_source_of_packages_that_has_gone_bad_is_not_needed() {
    let bad = "echo \"apt-get $*\" >> \"$NOTES\"; [ $1 != update ]";
    Machine::new()
        .command("apt-get", bad)
        .installs("libclang-dev");
}

#[test]
fn a_virtual_environment_does_not_get_its_pip_from_debian() {
    let without_pip = |in_environment: bool| {
        let python = format!(
            "case $2 in *base_prefix*) exit {} ;; 'import pip') exit 1 ;; esac",
            u8::from(!in_environment)
        );
        let machine = Machine::new().command("python3", &python);
        let output = machine.run(&["python"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), machine.installed(), said)
    };
    let (code, installed, said) = without_pip(false);
    assert_eq!(code, Some(0), "{said}");
    assert!(installed.ends_with(" python3-pip\n"), "{installed}");
    let (code, installed, said) = without_pip(true);
    assert_eq!((code, installed.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("'python3 -m ensurepip'"), "{said}");
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
fn an_unknown_part_is_named() {
    let output = Machine::new().run(&["bulid"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no part 'bulid'"), "{said}");
}
