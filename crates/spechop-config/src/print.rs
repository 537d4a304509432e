//! The table of keys as texts: the example file and the reference.

use std::borrow::Cow;
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
        text += &format!("\n## {}\n", names.join(", "));
        for paragraph in paragraphs(section.doc) {
            text += &match paragraph.is_entry {
                true => format!("* {}\n", paragraph.text),
                false => format!("\n{}\n", paragraph.text),
            };
        }
        text += "\n| key | value | default | live | about |\n|---|---|---|---|---|\n";
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

/// Sentences of a documentation, or one entry of a list in it.
struct Paragraph {
    is_entry: bool,
    text: String,
}

/// The paragraphs of a documentation, each as one line of Markdown.
/// An entry of a list is indented and begins with a word in quotation marks.
fn paragraphs(doc: &[&str]) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    for line in doc {
        let (is_entry, begins) = (line.starts_with("   "), line.starts_with("   \""));
        let words: Vec<_> = line.split_whitespace().map(word).collect();
        let text = words.join(" ");
        match paragraphs.last_mut() {
            Some(last) if last.is_entry == is_entry && !begins => {
                last.text.push(' ');
                last.text += &text;
            }
            _ => paragraphs.push(Paragraph { is_entry, text }),
        }
    }
    paragraphs
}

/// A word as code if Markdown would take it for HTML.
fn word(word: &str) -> Cow<'_, str> {
    match word.starts_with('<') {
        true => format!("`{word}`").into(),
        false => word.into(),
    }
}

/// Paragraphs in a table of Markdown.
fn cell(doc: &[&str]) -> String {
    let paragraphs = paragraphs(doc).into_iter();
    let texts: Vec<_> = paragraphs.map(|paragraph| paragraph.text).collect();
    texts.join("<br>").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_lines() {
        let doc = [
            " Who guesses:",
            "   \"hot\"   a small index,",
            "           or \"none\"",
            "   \"none\"",
            " By default a|b",
            " \"hot\" in <dir>/hot or none",
        ];
        assert_eq!(
            cell(&doc),
            r#"Who guesses:<br>"hot" a small index, or "none"<br>"none"<br>By default a\|b "hot" in `<dir>/hot` or none"#
        );
        let reference = reference();
        let section = reference.split("\n## `[target]`\n").nth(1);
        let list = "\nWhere look-ups go:\n* \"index\" the passage index\n* \"web\" web search";
        assert!(section.is_some_and(|section| section.starts_with(list)));
        assert!(reference.contains("\n\nIf look-ups go elsewhere"));
    }
}
