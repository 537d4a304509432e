//! What a run was made on and by: the machine, the commit and the command.

use std::fs;
use std::process::Command;
use std::thread;

use crate::{Machine, short_hash};

const UNKNOWN: &str = "unknown";

/// The machine that this process runs on.
pub fn machine() -> Machine {
    let cpu = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| cpu(&text));
    Machine {
        cores: thread::available_parallelism().map_or(1, usize::from),
        cpu: cpu.unwrap_or_else(|| UNKNOWN.to_owned()),
    }
}

/// The commit of the repository that this process was started in. If tracked files had been changed, there is a `+`
/// behind it, and the beginning of a hash of the changes to the program. `unknown` if there is no repository.
pub fn commit() -> String {
    let commit = git(&["rev-parse", "--verify", "HEAD"]);
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let of_the_program = git(&[&["diff", "HEAD", "--"], &SOURCES[..]].concat());
    match (commit, changed, of_the_program) {
        (Some(commit), Some(changed), _) if changed.is_empty() => commit,
        (Some(commit), _, Some(changes)) if !changes.is_empty() => {
            format!("{commit}+{}", short_hash(changes))
        }
        (Some(commit), ..) => format!("{commit}+"),
        (None, ..) => UNKNOWN.to_owned(),
    }
}

/// What the program is made of.
const SOURCES: [&str; 6] = [
    ":/crates",
    ":/eval/src",
    ":/index",
    ":/proto",
    ":/Cargo.toml",
    ":/Cargo.lock",
];

/// The words of a command as a shell takes them.
pub fn command(words: impl IntoIterator<Item = String>) -> String {
    let words: Vec<_> = words.into_iter().map(quoted).collect();
    words.join(" ")
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("--no-optional-locks")
        .args(args)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn cpu(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn quoted(word: String) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_cores_and_a_name() {
        let machine = machine();
        assert!(machine.cores > 0 && !machine.cpu.is_empty());
    }

    #[test]
    fn the_name_of_the_processor_is_found() {
        let text = "processor\t: 0\nmodel name\t: Fast 9000 @ 2 GHz\nflags\t: a b\n";
        assert_eq!(cpu(text).as_deref(), Some("Fast 9000 @ 2 GHz"));
        assert_eq!(cpu("processor\t: 0\nBogoMIPS\t: 243\n"), None);
        assert_eq!(cpu("model name\t:\n"), None);
    }

    #[test]
    fn a_commit_is_one_word() {
        let commit = commit();
        assert!(!commit.is_empty() && !commit.contains(char::is_whitespace));
    }

    #[test]
    fn a_command_can_be_pasted() {
        let words = [
            "spechop",
            "eval",
            "--part",
            "reader=a b",
            "--system",
            "it's",
            "",
        ];
        let command = command(words.map(str::to_owned));
        assert_eq!(
            command,
            r"spechop eval --part 'reader=a b' --system 'it'\''s' ''"
        );
    }
}
