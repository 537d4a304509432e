//! What the operator wrote: settings by key path, from flags, variables and the file. Every mistake
//! is kept, with its key and where it was written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use toml::{Table, Value};

use crate::Env;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere: it is the default.
    Default,
    /// In the configuration file.
    File(PathBuf),
    /// In this environment variable.
    Variable(String),
    /// On the command line, with this flag.
    Flag(String),
}

/// Something in the configuration that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key's path, e.g. `question.k`.
    pub key: String,
    /// Where it was written.
    pub source: Source,
    /// What is wrong, and if possible what would be right.
    pub problem: String,
    /// The command that puts it right, if there is one.
    pub remedy: Option<String>,
}

/// Settings that were written, to be asked for by their keys. Asking makes a key known; what nobody
/// asks for is a mistake.
pub(super) struct Keys<'a> {
    flags: BTreeMap<String, (String, String)>,
    env: &'a Env,
    file: PathBuf,
    written: BTreeMap<String, Value>,
    known: BTreeSet<String>,
    mistakes: Vec<Mistake>,
}

impl<'a> Keys<'a> {
    /// `flags` are (key, flag as written, value).
    pub(super) fn new(
        flags: impl IntoIterator<Item = (String, String, String)>,
        env: &'a Env,
        file: PathBuf,
        table: Table,
    ) -> Self {
        let mut written = BTreeMap::new();
        flatten("", table, &mut written);
        Self {
            flags: flags
                .into_iter()
                .map(|(key, flag, value)| (key, (flag, value)))
                .collect(),
            env,
            file,
            written,
            known: BTreeSet::new(),
            mistakes: Vec::new(),
        }
    }

    /// A whole number within a range.
    pub(super) fn integer(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let (low, high) = range.clone().into_inner();
        let wanted = match high {
            u64::MAX => format!("a whole number, at least {low}"),
            _ => format!("a whole number from {low} to {high}"),
        };
        self.integer_of(key, range, &wanted)
    }

    /// A whole number, at least 1. What else may stand there was asked for before: it is `or`.
    pub(super) fn count_or(&mut self, key: &str, or: &str) -> Option<u64> {
        let wanted = format!("{or} or a whole number, at least 1");
        self.integer_of(key, 1..=u64::MAX, &wanted)
    }

    fn integer_of(&mut self, key: &str, range: RangeInclusive<u64>, wanted: &str) -> Option<u64> {
        self.read(key, wanted, |value| {
            match value {
                Value::Integer(number) => u64::try_from(*number).ok(),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            }
            .filter(|number| range.contains(number))
        })
    }

    /// A number within a range.
    pub(super) fn number(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let wanted = format!("a number from {} to {}", range.start(), range.end());
        self.read(key, &wanted, |value| {
            match value {
                #[expect(clippy::cast_precision_loss, reason = "far from 2^53")]
                Value::Integer(number) => Some(*number as f64),
                Value::Float(number) => Some(*number),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            }
            .filter(|number| range.contains(number))
        })
    }

    /// Whether exactly this word stands there. What else may stand there is asked for next.
    pub(super) fn is(&mut self, key: &str, word: &str) -> bool {
        self.known.insert(key.to_owned());
        let written = self.find(key);
        written.is_some_and(|(value, _)| value.as_str().is_some_and(|text| text.trim() == word))
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        self.read(key, "true or false", |value| match value {
            Value::Boolean(flag) => Some(*flag),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        })
    }

    /// A text that is not blank.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.read(key, "a text", |value| {
            value
                .as_str()
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        })
    }

    /// A text with all its spaces, which may be empty.
    pub(super) fn verbatim(&mut self, key: &str) -> Option<String> {
        self.read(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// Texts: a list, or one text with commas between them. Blank ones are left out.
    pub(super) fn list(&mut self, key: &str) -> Option<Vec<String>> {
        let parts = |text: &str| -> Vec<String> {
            let parts = text.split(',').map(str::trim);
            parts
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect()
        };
        self.read(key, "a list of texts", |value| match value {
            Value::String(text) => Some(parts(text)),
            Value::Array(items) => items
                .iter()
                .map(|item| match item {
                    Value::String(text) => Some(parts(text)),
                    Value::Integer(number) => Some(vec![number.to_string()]),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()
                .map(|items| items.concat()),
            _ => None,
        })
    }

    /// Tables, written as `[[key]]` in the file.
    pub(super) fn tables(&mut self, key: &str) -> Option<Vec<Table>> {
        let wanted = format!("tables, each written as [[{key}]]");
        let fields = format!("{key}.");
        let is_field = |written: &&String| written.starts_with(&fields);
        let one: Vec<_> = self.written.keys().filter(is_field).cloned().collect();
        if !one.is_empty() {
            self.known.extend(one);
            self.known.insert(key.to_owned());
            self.mistakes.push(Mistake {
                key: key.to_owned(),
                source: Source::File(self.file.clone()),
                problem: format!("expected {wanted}, found [{key}] with one bracket"),
                remedy: None,
            });
            return None;
        }
        self.read(key, &wanted, |value| {
            value
                .as_array()?
                .iter()
                .map(|item| item.as_table().cloned())
                .collect()
        })
    }

    /// A program and its arguments: a list, or one text with spaces between them. A list keeps every
    /// text whole, whatever is in it.
    pub(super) fn words(&mut self, key: &str) -> Option<Vec<String>> {
        self.read(key, "a program and its arguments", |value| match value {
            Value::String(text) => Some(text.split_whitespace().map(str::to_owned).collect()),
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        })
        .filter(|words: &Vec<String>| !words.is_empty())
    }

    /// A path; a leading `~/` means the home folder.
    pub(super) fn path(&mut self, key: &str) -> Option<PathBuf> {
        let env = self.env;
        self.text(key).map(|path| env.expand(&path))
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let names: Vec<_> = words
            .iter()
            .map(|(word, _)| format!("\"{word}\""))
            .collect();
        self.read(key, &names.join(" or "), |value| {
            let text = value.as_str()?.trim();
            words
                .iter()
                .find(|(word, _)| *word == text)
                .map(|(_, meaning)| *meaning)
        })
    }

    /// Whatever its type parses; `wanted` says what that is.
    pub(super) fn parsed<T: FromStr>(&mut self, key: &str, wanted: &str) -> Option<T> {
        self.read(key, wanted, |value| value.as_str()?.trim().parse().ok())
    }

    /// Where the setting was written.
    pub(super) fn source(&self, key: &str) -> Source {
        self.find(key).map_or(Source::Default, |(_, source)| source)
    }

    /// Notes a mistake that shows only with other settings.
    pub(super) fn mistake(&mut self, key: &str, problem: impl Into<String>) {
        let source = self.source(key);
        self.mistakes.push(Mistake {
            key: key.to_owned(),
            source,
            problem: problem.into(),
            remedy: None,
        });
    }

    /// Notes that something is not on the disk, and the command that makes it.
    pub(super) fn missing(&mut self, key: &str, problem: String, command: String) {
        let source = self.source(key);
        self.mistakes.push(Mistake {
            key: key.to_owned(),
            source,
            problem,
            remedy: Some(command),
        });
    }

    /// Every mistake, keys that nobody asked for among them.
    pub(super) fn finish(mut self) -> Vec<Mistake> {
        let mut unknown: Vec<(String, Source, Option<String>)> = Vec::new();
        for key in self.written.keys().filter(|key| !self.known.contains(*key)) {
            let hint = nearest(key, self.known.iter().map(String::as_str));
            unknown.push((key.clone(), Source::File(self.file.clone()), hint));
        }
        for (key, (flag, _)) in self
            .flags
            .iter()
            .filter(|(key, _)| !self.known.contains(*key))
        {
            let hint = nearest(key, self.known.iter().map(String::as_str));
            unknown.push((key.clone(), Source::Flag(flag.clone()), hint));
        }
        let variables: BTreeSet<_> = self.known.iter().map(|key| variable(key)).collect();
        let sections: BTreeSet<_> = self
            .known
            .iter()
            .filter_map(|key| key.split('.').next())
            .collect();
        // Other SPECHOP_ variables are not ours to judge: Kubernetes sets some for every service.
        for section in sections {
            for name in self.env.names(&format!("{}_", variable(section))) {
                if !variables.contains(name) {
                    let hint = nearest(name, variables.iter().map(String::as_str));
                    unknown.push((name.to_owned(), Source::Variable(name.to_owned()), hint));
                }
            }
        }
        for (key, source, hint) in unknown {
            let hint = hint
                .map(|hint| format!("; did you mean {hint}?"))
                .unwrap_or_default();
            self.mistakes.push(Mistake {
                key,
                source,
                problem: format!("there is no such key{hint}"),
                remedy: None,
            });
        }
        self.mistakes
    }

    /// All keys that were asked for.
    #[cfg(test)]
    pub(super) fn known(&self) -> &BTreeSet<String> {
        &self.known
    }

    fn read<T>(
        &mut self,
        key: &str,
        wanted: &str,
        parse: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        self.known.insert(key.to_owned());
        let (value, source) = self.find(key)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            let problem = format!("expected {wanted}, found {value}");
            self.mistakes.push(Mistake {
                key: key.to_owned(),
                source,
                problem,
                remedy: None,
            });
        }
        parsed
    }

    /// Flags go before variables, variables before the file.
    fn find(&self, key: &str) -> Option<(Value, Source)> {
        if let Some((flag, value)) = self.flags.get(key) {
            return Some((Value::String(value.clone()), Source::Flag(flag.clone())));
        }
        let name = variable(key);
        if let Some(value) = self.env.get(&name) {
            return Some((Value::String(value.to_owned()), Source::Variable(name)));
        }
        let value = self.written.get(key)?;
        Some((value.clone(), Source::File(self.file.clone())))
    }
}

/// `question.k` → `SPECHOP_QUESTION_K`.
fn variable(key: &str) -> String {
    format!("SPECHOP_{}", key.replace('.', "_").to_ascii_uppercase())
}

fn flatten(prefix: &str, table: Table, out: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        let key = if prefix.is_empty() {
            name
        } else {
            format!("{prefix}.{name}")
        };
        match value {
            Value::Table(inner) => flatten(&key, inner, out),
            value => {
                out.insert(key, value);
            }
        }
    }
}

/// The known word that differs least, if it is close enough to have been meant.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    known
        .map(|other| {
            // The right name in the wrong section is as near as a slip of the finger.
            let distance = if last(other) == last(word) {
                1
            } else {
                distance(word, other)
            };
            (distance, other)
        })
        .filter(|(distance, other)| *distance <= 2.max(other.len() / 5))
        .min()
        .map(|(_, other)| other.to_owned())
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.key, self.source, self.problem)?;
        match &self.remedy {
            Some(command) => write!(f, ": run `{command}`"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        for (a, b, edits) in [
            ("", "", 0),
            ("kitten", "sitting", 3),
            ("question.kk", "question.k", 1),
        ] {
            assert_eq!(distance(a, b), edits);
            assert_eq!(distance(b, a), edits);
        }
    }

    #[test]
    fn suggests_only_what_may_have_been_meant() {
        let known = ["question.k", "question.passages", "server.listen"];
        for (word, hint) in [
            ("question.passsages", Some("question.passages")),
            ("server.passages", Some("question.passages")),
            ("listen", Some("server.listen")),
            ("colour.of.the.sky", None),
        ] {
            assert_eq!(nearest(word, known.into_iter()).as_deref(), hint, "{word}");
        }
    }
}
