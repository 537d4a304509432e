//! Every command that the program's texts name is one that the program takes.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use super::{Cli, Command};
use crate::models::{ANY_ENCODER, Catalogue, DEFAULT};

/// Folders and files whose texts people read, from the root of the repository.
const TEXTS: [&str; 12] = [
    "ARCHITECTURE.md",
    "Makefile",
    "README.md",
    "crates",
    "clients/python/README.md",
    "deploy",
    "docs",
    "eval/README.md",
    "eval/run.sh",
    "eval/src",
    "index",
    "proto",
];

/// `spechop …` between backquotes: in errors, help texts, comments and documents.
fn named_in(text: &str) -> Vec<String> {
    let mut named = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("`spechop ") {
        rest = &rest[at + 1..];
        let Some(end) = rest.find('`') else { break };
        // Texts are broken at the ends of lines, with or without the mark of a comment.
        let words = rest[..end].split_whitespace();
        let words = words.filter(|word| !matches!(*word, "///" | "//!" | "//" | "#" | "\\"));
        named.push(words.collect::<Vec<_>>().join(" "));
        rest = &rest[end + 1..];
    }
    named
}

/// What is wrong with a command, if anything is.
fn wrong(command: &str) -> Option<String> {
    // `{name}` in a format string, and `…`, stand for something.
    let mut words = Vec::new();
    let command = command.replace("COMMAND", "serve");
    // What follows a pipe is another program.
    let words_of_ours = command.split(' ').take_while(|word| *word != "|");
    for word in words_of_ours.filter(|word| *word != "…") {
        let filled = word.contains('{') && word.contains('}');
        words.push(if filled { "filled-in" } else { word });
    }
    // Several commands, written as one: `spechop index build|verify`.
    if let Some(at) = words.iter().position(|word| word.contains('|')) {
        let choices: Vec<&str> = words[at].split('|').collect();
        return choices.iter().find_map(|choice| {
            words[at] = choice;
            wrong(&words.join(" "))
        });
    }
    match Cli::try_parse_from(&words) {
        Ok(Cli {
            command: Command::Models(args),
            ..
        }) => unknown_model(&args),
        Ok(_) => None,
        Err(error) => match error.kind() {
            // The name of a command, or its help.
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion => None,
            _ => Some(error.to_string()),
        },
    }
}

fn unknown_model(args: &super::models::Args) -> Option<String> {
    let catalogue = Catalogue::load().unwrap();
    let known = |name: &str| {
        matches!(name, ANY_ENCODER | DEFAULT | "filled-in" | "NAME") || catalogue.find(name).is_ok()
    };
    let unknown = args.names().iter().find(|name| !known(name))?;
    Some(format!("there is no model {unknown}"))
}

/// All files under a path.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries.iter().flat_map(|entry| files(entry)).collect()
}

#[test]
fn every_command_that_a_text_names_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut seen, mut mistakes) = (0, Vec::new());
    for file in TEXTS.iter().flat_map(|text| files(&root.join(text))) {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        // This file names some that there are not.
        if file.ends_with("named_commands.rs") {
            continue;
        }
        for command in named_in(&text) {
            seen += 1;
            if let Some(why) = wrong(&command) {
                mistakes.push(format!("{}: `{command}`: {why}", file.display()));
            }
        }
        // No error sends a user of the binary to the Makefile, which is not part of it.
        if text.contains("run `make ") {
            mistakes.push(format!("{}: names a target of make", file.display()));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(seen > 60, "only {seen} commands were found");
}

#[test]
fn a_command_that_is_none_is_noticed() {
    for good in [
        "spechop serve",
        "spechop models pull default spechop-reader",
        "spechop models pull {model}",
        "spechop index build --corpus FOLDER --out {out}{hot}",
        "spechop index build|verify",
        "spechop index",
        "spechop COMMAND --help",
        "spechop simulate … | head -1",
        "spechop eval record … --k 1",
    ] {
        assert_eq!(wrong(good), None, "{good}");
    }
    for bad in [
        "spechop server",
        "spechop models pull all",
        "spechop models fetch default",
        "spechop index build --folder FOLDER",
        "spechop index build|prove",
        "spechop ask \"Who?\" --k none",
    ] {
        assert!(wrong(bad).is_some(), "{bad}");
    }
    let text = "say `spechop serve`, or\n/// `spechop models\n/// pull default`; `spec";
    assert_eq!(
        named_in(text),
        ["spechop serve", "spechop models pull default"]
    );
}
