//! Every key with its value and where that was written.

use std::collections::BTreeMap;
use std::fmt;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::mistake::Source;
use super::table::{self, DefaultValue, Key, Kind, LIST, SECTIONS};
use super::{InvalidConfig, Written};
use crate::Env;

/// Stands in for a secret.
const HIDDEN: &str = "hidden";

/// A key and what it is set to.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its path, e.g. `question.k`.
    path: String,
    /// Its row; `None` for the list of API keys, which has one for each field.
    row: Option<&'static Key>,
    /// What was written, or the default, as TOML. `None` if there is neither.
    value: Option<Value>,
    /// Where it was written.
    origin: Origin,
}

/// Where a value was written, to the line.
#[derive(Clone, Debug)]
struct Origin {
    /// The file, the variable or the flag.
    source: Source,
    /// The line of the file, from 1.
    line: Option<usize>,
}

impl Written {
    /// Every key with its value, in the order of the table. Values are not checked. Secrets are hidden
    /// unless they are asked for.
    ///
    /// # Errors
    ///
    /// The file is not TOML.
    pub fn settings(&self, env: &Env, with_secrets: bool) -> Result<Vec<Setting>, InvalidConfig> {
        let lines = self.lines();
        let keys = self.clone().keys(env)?;
        let mut paths: Vec<(String, Option<&'static Key>)> = Vec::new();
        for (path, row) in table::all() {
            match path
                .strip_prefix(LIST)
                .is_some_and(|rest| rest.starts_with('.'))
            {
                false => paths.push((path, Some(row))),
                true if paths.last().is_some_and(|(last, _)| last == LIST) => {}
                true => paths.push((LIST.to_owned(), None)),
            }
        }
        let setting = |(path, row): (String, Option<&'static Key>)| {
            let (value, source) = match keys.find(&path) {
                Some((value, source)) => (Some(bare(row, value)), source),
                None => (row.and_then(|row| row.default.value()), Source::Default),
            };
            let value = value.map(|value| match with_secrets {
                true => value,
                false => hidden(row, value),
            });
            let line = match source {
                Source::File(_) => lines.get(&path).copied(),
                Source::Default | Source::Variable(_) | Source::Flag(_) => None,
            };
            Setting {
                origin: Origin { source, line },
                path,
                row,
                value,
            }
        };
        Ok(paths.into_iter().map(setting).collect())
    }

    /// The line of each key of the file, from 1. Nothing if the file is not TOML.
    pub fn lines(&self) -> BTreeMap<String, usize> {
        let mut lines = BTreeMap::new();
        if let Some((_, text)) = &self.file
            && let Ok(table) = DeTable::parse(text)
        {
            lines_of("", text, table.get_ref(), &mut lines);
        }
        lines
    }
}

/// The settings as a file that gives the same configuration: what was written stands in it, and
/// defaults are comments.
pub fn as_toml(settings: &[Setting]) -> String {
    let mut text = String::new();
    let value_of = |path: &str| {
        let mut settings = settings.iter();
        settings.find(|setting| setting.path == path)
    };
    for section in SECTIONS {
        if section.is_list() {
            let list = value_of(LIST).and_then(|setting| setting.value.as_ref());
            // An empty one has no table of its own, and would stand in the one before it.
            let filled = list.filter(|list| list.as_array().is_none_or(|keys| !keys.is_empty()));
            if let Some(list) = filled.cloned() {
                let table = Table::from_iter([(LIST.to_owned(), list)]);
                text += &format!("\n{table}");
            }
            continue;
        }
        for name in section.names {
            text += &format!("\n[{name}]\n");
            for key in section.keys() {
                let Some(setting) = value_of(&format!("{name}.{}", key.name)) else {
                    continue;
                };
                let mark = match setting.origin.source {
                    Source::Default => "# ",
                    Source::File(_) | Source::Variable(_) | Source::Flag(_) => "",
                };
                if let Some(value) = &setting.value {
                    text += &format!("{mark}{} = {value}\n", key.name);
                }
            }
        }
    }
    text.trim_start().to_owned()
}

/// `path = value`, and behind it where that was written.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, origin) = (&self.path, &self.origin);
        match (&self.value, self.row.map(|row| row.default)) {
            (Some(value), _) => write!(f, "{path} = {value}  # {origin}"),
            (None, Some(DefaultValue::Usually(usual))) => {
                write!(f, "# {path} = {usual}  # usually; not set")
            }
            (None, _) => write!(f, "# {path}  # not set"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source, self.line) {
            (Source::File(path), Some(line)) => write!(f, "{}:{line}", path.display()),
            (source, _) => write!(f, "{source}"),
        }
    }
}

fn lines_of(prefix: &str, text: &str, table: &DeTable<'_>, lines: &mut BTreeMap<String, usize>) {
    for (name, value) in table.iter() {
        let path = match prefix {
            "" => name.get_ref().to_string(),
            prefix => format!("{prefix}.{}", name.get_ref()),
        };
        let line = text[..name.span().start].matches('\n').count() + 1;
        if let DeValue::Table(inner) = value.get_ref() {
            lines_of(&path, text, inner, lines);
        }
        lines.entry(path).or_insert(line);
    }
}

/// Flags and variables are texts. A number is shown as a number.
fn bare(row: Option<&'static Key>, value: Value) -> Value {
    let (Some(row), Value::String(text)) = (row, &value) else {
        return value;
    };
    let is_text = !matches!(
        row.kind,
        Kind::Whole(..) | Kind::Number(..) | Kind::Flag | Kind::Or(..)
    );
    match table::value(text.trim()) {
        Some(bare @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_)))
            if !is_text && is_read(text.trim()) =>
        {
            bare
        }
        _ => value,
    }
}

/// Whether a text is taken for a number or a switch: TOML knows more ways to write one, which are mistakes here.
fn is_read(text: &str) -> bool {
    text.parse::<u64>().is_ok() || text.parse::<f64>().is_ok() || text.parse::<bool>().is_ok()
}

/// Without what nobody is to see: the hashes of keys, and names and passwords in addresses. A key that
/// was written in the place of the name of its variable is not shown either.
fn hidden(row: Option<&'static Key>, value: Value) -> Value {
    match (row, value) {
        (None, Value::Array(tables)) => {
            let secret =
                |name: &str| table::find(&format!("{LIST}.{name}")).is_none_or(|k| k.secret);
            let one = |value: Value| match value {
                Value::Table(table) => Value::Table(
                    table
                        .into_iter()
                        .map(|(name, value)| match secret(&name) {
                            true => (name, HIDDEN.into()),
                            false => (name, value),
                        })
                        .collect(),
                ),
                _ => HIDDEN.into(),
            };
            Value::Array(tables.into_iter().map(one).collect())
        }
        (Some(row), _) if row.secret => HIDDEN.into(),
        (Some(row), Value::String(text)) if row.kind == Kind::Variable => {
            match super::models::is_variable(&text) {
                true => text.into(),
                false => HIDDEN.into(),
            }
        }
        (row, Value::Array(items)) => items
            .into_iter()
            .map(|item| hidden(row, item))
            .collect::<Vec<_>>()
            .into(),
        (_, Value::String(text)) => without_passwords(&text).into(),
        (_, value) => value,
    }
}

/// A text without the names and passwords of the addresses in it. A password may hold anything, also what ends
/// an address or begins another one. So everything goes from the first `://` to the last `@`, and with it
/// what stands between two addresses.
fn without_passwords(text: &str) -> String {
    let hidden = text.split_once("://").and_then(|(scheme, rest)| {
        let (_, host) = rest.rsplit_once('@')?;
        Some(format!("{scheme}://{HIDDEN}@{host}"))
    });
    hidden.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_shows_its_password() {
        for (text, shown) in [
            ("query: ", "query: "),
            ("me@example.org", "me@example.org"),
            ("http://h:6334/a?b#c", "http://h:6334/a?b#c"),
            ("https://me:pw@h/a", "https://hidden@h/a"),
            ("y@z http://h/ x", "y@z http://h/ x"),
            ("http://a:1,http://me:pw@b:2", "http://hidden@b:2"),
            ("http://me:p,w@a,http://b", "http://hidden@a,http://b"),
            ("x http://h/ pg://u:p@db  y", "x http://hidden@db  y"),
            ("pg://u:p#w/a?b@c@h/db", "pg://hidden@h/db"),
            ("pg://u:p w@db", "pg://hidden@db"),
            ("pg://u:a://b@h", "pg://hidden@h"),
            ("pg://u:a, b://c@h", "pg://hidden@h"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }
}
