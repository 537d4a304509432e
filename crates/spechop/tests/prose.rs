//! What users read: documents, `--help`, the example configuration and the protocol.
//!
//! A program can check that links and paths lead somewhere, that commands and laws exist, that lines
//! fit, and that the worst turns of phrase do not come back. CONTRIBUTING.md gives the reasons.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The reference of all keys: it comes from the table of keys, where `EXAMPLE` has the same texts.
const REFERENCE: &str = "docs/CONFIG.md";
/// Below it each run has a folder, with pages that programs write.
const RUNS: &str = "eval/runs/";
const EXAMPLE: &str = "deploy/spechop.example.toml";
const PROTOCOL: &str = "proto/spechop/v1/spechop.proto";
/// The long pages, which begin with a list of their sections.
const WITH_CONTENTS: [&str; 3] = ["docs/MEASURED.md", "docs/OPERATING.md", "docs/TRIED.md"];
/// The folders that a path in a document may begin with.
const FOLDERS: [&str; 8] = [
    "clients", "crates", "deploy", "docs", "eval", "fuzz", "index", "proto",
];
/// Most characters of a line, tables and code blocks aside.
const COLUMNS: usize = 100;

/// Phrases, and what to write instead. Those with a capital letter begin a sentence.
const BANNED: [(&str, &str); 20] = [
    ("gone on with", "resumed"),
    ("go on with", "resume"),
    ("goes on with", "resumes"),
    ("goes on learning", "keeps learning"),
    ("go on to", "turn to"),
    ("goes on to", "turns to"),
    ("questions go on", "questions are answered"),
    ("what is there", "the name of the thing"),
    ("what is not said", "the name of the thing"),
    ("where there is", "if there is"),
    ("where there are", "if there are"),
    ("where there was", "if there was"),
    ("where no ", "if no "),
    ("where nothing", "if nothing"),
    ("where nobody", "if nobody"),
    ("where it is", "if it is"),
    ("is no step", "is not a step"),
    ("One that ", "the name of the thing"),
    ("What is ", "the name of the thing"),
    ("Whatever ", "the name of the thing"),
];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

fn read(file: &str) -> String {
    let text = fs::read_to_string(root().join(file));
    text.map_err(|error| format!("{file}: {error}")).unwrap()
}

/// The documents that people write.
fn documents() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .arg("*.md")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let is_of_a_run = |file: &str| {
        let below = file.strip_prefix(RUNS);
        below.is_some_and(|below| below.contains('/'))
    };
    let files = String::from_utf8(output.stdout).unwrap();
    let files = files.lines().map(str::to_owned);
    let documents: Vec<_> = files
        .filter(|file| file != REFERENCE && !is_of_a_run(file))
        .collect();
    assert!(documents.contains(&"eval/runs/README.md".to_owned()));
    documents
}

/// The lines of a document, each with whether it lies in a code block.
fn lines(document: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut code = false;
    document.lines().map(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        (line, code || fence)
    })
}

/// The texts between backticks, code blocks aside.
fn spans(document: &str) -> Vec<&str> {
    let prose = lines(document).filter(|(_, code)| !code);
    prose
        .flat_map(|(line, _)| line.split('`').skip(1).step_by(2))
        .collect()
}

/// The words of a document as one line, without code and without quotations.
fn prose(document: &str) -> String {
    let lines = lines(document).filter(|(_, code)| !code);
    let text: Vec<_> = lines.map(|(line, _)| line).collect();
    let text = without(&text.join("\n"), '`');
    let text = without(&text, '"');
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text without what stands between pairs of a mark.
fn without(text: &str, mark: char) -> String {
    text.split(mark).step_by(2).collect::<Vec<_>>().join(" ")
}

/// The comments of a file, without their mark.
fn comments(file: &str, mark: &str) -> String {
    let text = read(file);
    let comments = text.lines().filter_map(|line| line.split_once(mark));
    comments
        .map(|(_, comment)| comment.trim_start_matches(['#', '/']))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The `--help` of every command, by the words after `spechop`.
fn helps() -> BTreeMap<String, String> {
    let mut helps = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let output = Command::new(env!("CARGO_BIN_EXE_spechop"))
            .args(path.split_whitespace())
            .arg("--help")
            .env_clear()
            .output()
            .unwrap();
        assert!(output.status.success(), "spechop {path} --help");
        let help = String::from_utf8(output.stdout).unwrap();
        let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
        let listed = listed.lines().take_while(|line| line.starts_with("  "));
        let names = listed.filter_map(|line| line.split_whitespace().next());
        open.extend(
            names
                .filter(|name| *name != "help")
                .map(|name| format!("{path} {name}").trim().to_owned()),
        );
        helps.insert(path, help);
    }
    assert!(helps.contains_key("eval record"), "every command is found");
    helps
}

fn banned(text: &str) -> Vec<&'static str> {
    let lower = text.to_lowercase();
    let is_in = |phrase: &str| match phrase.starts_with(char::is_uppercase) {
        true => text.contains(phrase),
        false => lower.contains(phrase),
    };
    let found = BANNED.iter().filter(|(phrase, _)| is_in(phrase));
    found.map(|(phrase, _)| *phrase).collect()
}

/// The links of a document to files of the repository that do not exist.
fn dead_links(document: &str, folder: &Path) -> Vec<String> {
    let links = document.split("](").skip(1);
    let targets = links.filter_map(|rest| rest.split([')', '#']).next());
    let files = targets.filter(|target| !target.is_empty() && !target.contains("://"));
    files
        .filter(|target| !folder.join(target).exists())
        .map(str::to_owned)
        .collect()
}

/// The name by which a link finds a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let kept: String = heading.chars().filter(is_kept).collect();
    kept.to_lowercase().replace(' ', "-")
}

/// The sections that the list at the top of a page lacks, and the links of the list that lead to none.
fn wrong_contents(page: &str) -> Vec<String> {
    let (list, _) = page.split_once("\n## ").unwrap_or((page, ""));
    let links = list.split("](#").skip(1);
    let links: Vec<_> = links.filter_map(|rest| rest.split(')').next()).collect();
    let prose = lines(page).filter(|(_, code)| !code);
    let headings = prose.filter_map(|(line, _)| line.strip_prefix("## "));
    let sections: Vec<_> = headings.map(anchor).collect();
    let missing = sections
        .iter()
        .filter(|name| !links.contains(&name.as_str()));
    let missing = missing.map(|name| format!("not in the list: {name}"));
    let unknown = links
        .iter()
        .filter(|link| sections.iter().all(|name| name != *link));
    let unknown = unknown.map(|link| format!("no such section: {link}"));
    missing.chain(unknown).collect()
}

/// The paths in backticks that do not exist.
fn dead_paths(document: &str) -> Vec<&str> {
    let words = spans(document)
        .into_iter()
        .filter_map(|span| span.split_whitespace().next());
    let is_path = |word: &&str| {
        let folder = word.split_once('/').map(|(folder, _)| folder);
        folder.is_some_and(|folder| FOLDERS.contains(&folder)) && !word.contains(['*', '…', '<'])
    };
    let root = root();
    words
        .filter(is_path)
        .filter(|word| !root.join(word).exists())
        .collect()
}

/// The commands of a document, those of several lines joined.
fn commands(document: &str) -> Vec<String> {
    let block = lines(document).filter(|(line, code)| *code && !line.starts_with("```"));
    let block: Vec<_> = block.map(|(line, _)| line).collect();
    let block = block.join("\n").replace("\\\n", " ");
    let block = block.lines().map(str::to_owned);
    let spans = spans(document).into_iter().map(str::to_owned);
    block
        .chain(spans)
        .map(|line| line.split(" #").next().unwrap_or_default().to_owned())
        .filter(|line| line.starts_with("spechop ") || line.starts_with("make "))
        .collect()
}

/// The problem with a command of ours, if it has one.
fn wrong_command(command: &str, helps: &BTreeMap<String, String>) -> Option<String> {
    let words: Vec<_> = command.split_whitespace().skip(1).collect();
    let mut path = String::new();
    for word in &words {
        let longer = format!("{path} {word}").trim().to_owned();
        if !helps.contains_key(&longer) {
            break;
        }
        path = longer;
    }
    let is_placeholder = |word: &str| word.chars().all(|c| c.is_ascii_uppercase());
    if path.is_empty() && !words.first().is_some_and(|word| is_placeholder(word)) {
        return Some(format!("no such command: {command}"));
    }
    let help = helps.get(&path)?;
    let flags = words.iter().filter(|word| word.starts_with("--"));
    let flags = flags.map(|flag| flag.split('=').next().unwrap_or(flag));
    let mut unknown = flags.filter(|flag| !help.split([' ', ',', '\n']).any(|word| word == *flag));
    let flag = unknown.next()?;
    Some(format!("no such flag: {flag} of spechop {path}"))
}

fn wrong_target<'a>(command: &'a str, makefile: &str) -> Option<&'a str> {
    let is_target = |word: &&str| !word.contains('=');
    let is_known = |word: &str| makefile.contains(&format!("\n{word}:"));
    let mut targets = command.split_whitespace().skip(1).filter(is_target);
    targets.find(|target| !is_known(target))
}

/// The names in snake case that a document has in backticks. One that ends in `…` is the beginning of a name.
fn names(document: &str) -> Vec<&str> {
    let is_name = |span: &&str| {
        let name = span.trim_end_matches('…');
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    spans(document).into_iter().filter(is_name).collect()
}

/// The names of a document that are neither functions nor public fields of these sources.
fn unknown_names<'a>(document: &'a str, sources: &str) -> Vec<&'a str> {
    let is_known = |name: &str| match name.strip_suffix('…') {
        Some(beginning) => sources.contains(&format!("fn {beginning}")),
        None => {
            sources.contains(&format!("fn {name}(")) || sources.contains(&format!("pub {name}: "))
        }
    };
    let names = names(document).into_iter();
    names.filter(|name| !is_known(name)).collect()
}

/// The functions of a source that a document does not name, private ones aside.
fn untold<'a>(document: &str, source: &'a str) -> Vec<&'a str> {
    let told = names(document);
    let functions = source.lines().filter_map(|line| {
        let public = line.strip_prefix("pub fn ");
        public.or_else(|| line.strip_prefix("pub(crate) fn "))
    });
    let functions = functions.filter_map(|rest| rest.split('(').next());
    functions.filter(|name| !told.contains(name)).collect()
}

fn too_long(document: &str) -> Vec<&str> {
    let prose = lines(document).filter(|(line, code)| !code && !line.starts_with('|'));
    prose
        .map(|(line, _)| line)
        .filter(|line| line.chars().count() > COLUMNS)
        .collect()
}

#[test]
fn documents_lead_somewhere_and_fit() {
    let mut wrong = Vec::new();
    for file in documents() {
        let document = read(&file);
        let folder = root().join(&file);
        let links = dead_links(&document, folder.parent().unwrap());
        wrong.extend(links.iter().map(|link| format!("{file}: no file {link}")));
        let paths = dead_paths(&document);
        wrong.extend(paths.iter().map(|path| format!("{file}: no path {path}")));
        let long = too_long(&document);
        wrong.extend(long.iter().map(|line| format!("{file}: too long: {line}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn long_pages_list_their_sections() {
    let mut wrong = Vec::new();
    for page in WITH_CONTENTS {
        let found = wrong_contents(&read(page));
        wrong.extend(found.iter().map(|problem| format!("{page}: {problem}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_in_documents_and_help_exist() {
    let helps = helps();
    let makefile = read("Makefile");
    let documents = documents().into_iter().map(|file| {
        let document = read(&file);
        (file, document)
    });
    let examples = helps.iter().map(|(path, help)| {
        let lines = help.lines().map(str::trim);
        let examples: Vec<_> = lines.filter(|line| line.starts_with("spechop ")).collect();
        let block = format!("```\n{}\n```", examples.join("\n"));
        (format!("spechop {path} --help"), block)
    });
    let mut wrong = Vec::new();
    for (source, document) in documents.chain(examples) {
        for command in commands(&document) {
            let problem = match command.starts_with("make ") {
                true => wrong_target(&command, &makefile).map(|t| format!("no target {t}")),
                false => wrong_command(&command, &helps),
            };
            wrong.extend(problem.map(|problem| format!("{source}: {problem}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// That no row names another command, the test above says.
#[test]
fn the_table_of_commands_has_them_all() {
    let page = read("docs/COMMANDS.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let told = rows.filter_map(|row| row.strip_prefix("spechop ")?.split('`').next());
    let told: Vec<_> = told.collect();
    let helps = helps().into_iter();
    let commands = helps.filter(|(_, help)| !help.contains("[OPTIONS] <COMMAND>"));
    let missing: Vec<_> = commands
        .map(|(path, _)| path)
        .filter(|path| !told.contains(&path.as_str()))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn nothing_that_users_read_is_written_as_a_riddle() {
    let mut texts: Vec<(String, String)> = Vec::new();
    for file in documents() {
        let document = read(&file);
        texts.push((file, document));
    }
    texts.extend(
        helps()
            .into_iter()
            .map(|(path, help)| (format!("spechop {path} --help"), help)),
    );
    texts.push((EXAMPLE.to_owned(), comments(EXAMPLE, "#")));
    texts.push((PROTOCOL.to_owned(), comments(PROTOCOL, "//")));
    texts.push(("Makefile".to_owned(), comments("Makefile", "#")));
    let mut wrong = Vec::new();
    for (source, text) in texts {
        let found = banned(&prose(&text));
        wrong.extend(found.iter().map(|phrase| format!("{source}: “{phrase}”")));
    }
    let instead = BANNED.map(|(phrase, better)| format!("“{phrase}” → {better}"));
    assert!(
        wrong.is_empty(),
        "{}\n\nInstead:\n{}",
        wrong.join("\n"),
        instead.join("\n")
    );
}

/// Both ways: whoever renames a law renames it in the document, and whoever adds one tells it there.
#[test]
fn laws_are_told_by_the_names_that_they_have() {
    let document = read("docs/LAWS.md");
    let window = read("crates/spechop-window/src/laws.rs");
    let sched = read("crates/spechop-sched/src/laws.rs");
    // The exceptions to laws are named by the policy that makes them.
    let policy = read("crates/spechop-window/src/limits.rs");
    let whole_runs = read("crates/spechop-window/tests/properties.rs");
    let sources = [&*window, &sched, &policy, &whole_runs].concat();
    assert_eq!(unknown_names(&document, &sources), [""; 0]);
    // `broken…` look for a law that does not hold, and `offers_are_alive` is a check of the window's own.
    assert_eq!(untold(&document, &window), ["offers_are_alive", "broken"]);
    assert_eq!(untold(&document, &sched), ["broken_in_group", "broken"]);
}

#[test]
fn every_check_finds_its_fault() {
    let page = "See [here](gone.md), [there](Cargo.toml#x) and [out](https://h/x).\n\
                `crates/nowhere/x.rs`, `crates/*/x.rs`, `make test` and `make tset A=1`.\n\
                ```\nspechop ask --wach \\\n  \"Q\"   # a comment\n```\n\
                One that is\nthere is \"gone on with\", where\nthere is nothing.\n";
    assert_eq!(dead_links(page, &root()), ["gone.md"]);
    assert_eq!(dead_paths(page), ["crates/nowhere/x.rs"]);
    assert_eq!(banned(&prose(page)), ["where there is", "One that "]);
    assert!(too_long(page).is_empty());
    assert_eq!(too_long(&"x".repeat(101)).len(), 1);
    assert!(too_long(&format!("```\n{page}{}\n```", "x".repeat(101))).is_empty());

    let long = "* [One](#one), [two](#k--2-times), [not\nthere](#three).\n\n## One\n### Three\n\n\
                ## K = 2 times\n```\n## Code\n```\n## Four’s\n[Here](#five)\n";
    let wrong = ["not in the list: fours", "no such section: three"];
    assert_eq!(wrong_contents(long), wrong);

    let commands = commands(page);
    let helps = BTreeMap::from([("ask".to_owned(), "  --watch  Show it.".to_owned())]);
    let problem = wrong_command(&commands[0], &helps);
    assert_eq!(problem.unwrap(), "no such flag: --wach of spechop ask");
    assert_eq!(wrong_command("spechop ask \"Q\" --watch", &helps), None);
    assert_eq!(wrong_command("spechop COMMAND --help", &helps), None);
    let problem = wrong_command("spechop aks", &helps);
    assert_eq!(problem.unwrap(), "no such command: spechop aks");
    let laws = "Laws `fits`, `fit`, `holds…`, `hold_s…` and `wide`, if `k_max` is on. `Not`, `a b`, `x.rs`.";
    let source = "pub fn fits(a: u8) {}\nfn holds_always() {}\npub fn rests() {}\n\
                  pub(crate) fn sleeps() {}\n    pub k_max: u8,";
    assert_eq!(unknown_names(laws, source), ["fit", "hold_s…", "wide"]);
    assert_eq!(untold(laws, source), ["rests", "sleeps"]);
    let makefile = "x:\ntest: setup ## run\n";
    let targets = commands.iter().skip(1).map(|c| wrong_target(c, makefile));
    assert_eq!(targets.collect::<Vec<_>>(), [None, Some("tset")]);
}
