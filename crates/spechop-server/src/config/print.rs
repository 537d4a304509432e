//! The table of keys as texts: the example file and the reference.

use std::fmt::Write;

use super::table::{DefaultValue, Key, SECTIONS, Section};

const EXAMPLE: &str = "\
# Every key of the configuration, with its default.
# A line `# key = value` holds a default.
# A line `## key = value` holds an example of a key that has no default or that belongs to another
# kind.
#
#   spechop serve --config FILE
#
# Every key can also be given as a variable (question.k is SPECHOP_QUESTION_K) or as a flag
# (--set question.k=3). Flags go before variables, and variables before this file.
# Unknown keys are refused. A leading ~/ in a path means the home folder.
# `spechop config check FILE` finds every mistake, and `spechop config show FILE` says what is set where.
";

const REFERENCE: &str = "\
# Configuration

Every key of the configuration, as `spechop config show --keys` prints it.
[`deploy/spechop.example.toml`](../deploy/spechop.example.toml) holds the same as a file to begin with.
[`OPERATING.md`](OPERATING.md) says how a configuration is checked, shown and changed while the server runs.

A change of a key marked *live* counts as soon as the server has read the file again.
All others need a restart.
";

/// The file `deploy/spechop.example.toml`.
pub fn example() -> String {
    let mut text = EXAMPLE.to_owned();
    for (section, groups) in printed() {
        text.push('\n');
        lines(&mut text, section.doc);
        match section.is_list() {
            true => text += &format!("## [[{}]]\n", section.names[0]),
            false => text += &format!("[{}]\n", section.names[0]),
        }
        for key in groups.into_iter().flatten() {
            lines(&mut text, key.doc);
            let mark = match key.default {
                DefaultValue::Is(_) | DefaultValue::Usually(_) => "#",
                DefaultValue::Example(_) => "##",
            };
            text += &format!("{mark} {} = {}\n", key.name, key.default.text());
        }
    }
    text
}

/// The file `docs/CONFIG.md`.
pub fn reference() -> String {
    let mut text = REFERENCE.to_owned();
    for (section, groups) in printed() {
        let names: Vec<_> = section
            .names
            .iter()
            .map(|name| format!("`[{name}]`"))
            .collect();
        text += &format!("\n## {}\n\n", names.join(", "));
        if !section.doc.is_empty() {
            text += &format!("{}\n\n", cell(section.doc));
        }
        text += "| key | value | default | live | about |\n|---|---|---|---|---|\n";
        for key in groups.into_iter().flatten() {
            let default = match key.default {
                DefaultValue::Is(value) => format!("`{value}`"),
                DefaultValue::Usually(value) => format!("usually `{value}`"),
                DefaultValue::Example(_) => String::new(),
            };
            let live = if key.live { "live" } else { "" };
            let (name, kind, about) = (key.name, key.kind, cell(key.doc));
            // Writing to a string does not fail.
            let _ = writeln!(text, "| `{name}` | {kind} | {default} | {live} | {about} |");
        }
    }
    text
}

/// The sections, each with the groups that no section before it has.
fn printed() -> impl Iterator<Item = (&'static Section, Vec<&'static [Key]>)> {
    let mut known = Vec::new();
    SECTIONS.iter().filter_map(move |section| {
        let mut groups = section.groups.to_vec();
        groups.retain(|group| !known.contains(&group.as_ptr()));
        known.extend(groups.iter().map(|group| group.as_ptr()));
        (!groups.is_empty()).then_some((section, groups))
    })
}

fn lines(text: &mut String, doc: &[&str]) {
    for line in doc {
        text.push('#');
        *text += line;
        text.push('\n');
    }
}

/// Lines as one, in a table of Markdown.
fn cell(doc: &[&str]) -> String {
    let lines: Vec<_> = doc.iter().map(|line| line.trim()).collect();
    lines.join(" ").replace('|', "\\|").replace('<', "&lt;")
}
