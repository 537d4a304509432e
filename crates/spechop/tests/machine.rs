//! Made-up machines, for the scripts that set up a real one.
//!
//! Every machine is a folder: a root with libraries in it, and a `PATH` of its own, on which `apt-get`
//! only notes what it was asked for.

#![expect(clippy::expect_used, reason = "a test's own helpers")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// What the scripts themselves are made of.
const TOOLS: [&str; 21] = [
    "bash", "od", "tr", "sed", "dirname", "readlink", "sort", "head", "cut", "grep", "getconf",
    "env", "nproc", "cat", "uname", "rm", "sleep", "cmp", "cp", "ln", "mkdir",
];

/// A machine with a compiler, cmake, make and the right Rust, and root's rights; no libclang.
pub(crate) struct Machine {
    home: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Machine {
    pub(crate) fn new() -> Self {
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
    pub(crate) fn command(self, name: &str, script: &str) -> Self {
        self.program(&format!("bin/{name}"), script)
    }

    pub(crate) fn program(self, path: &str, script: &str) -> Self {
        let machine = self.file(path, format!("#!/bin/bash\n{script}\n").as_bytes());
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(machine.path(path), executable).expect("a program");
        machine
    }

    pub(crate) fn without(self, name: &str) -> Self {
        fs::remove_file(self.path("bin").join(name)).expect("it was there");
        self
    }

    pub(crate) fn file(self, path: &str, content: &[u8]) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
        self
    }

    /// `value` is relative to the machine's root.
    pub(crate) fn variable(mut self, name: &'static str, value: &str) -> Self {
        let value = self.path(value).display().to_string();
        self.variables.push((name, value));
        self
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.home.path().join(relative)
    }

    pub(crate) fn script(&self, name: &str, arguments: &[&str]) -> Output {
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

    pub(crate) fn installed(&self) -> String {
        fs::read_to_string(self.path("notes")).unwrap_or_default()
    }
}

pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
