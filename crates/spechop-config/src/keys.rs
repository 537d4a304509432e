//! What the operator wrote: settings by key path, from flags, variables and the file. Every mistake
//! is kept, with its key and where it was written.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use toml::{Table, Value};

use super::InvalidConfig;
use super::mistake::{Mistake, Source};
use super::nearest::nearest;
use super::table::{self, Key, Kind, LIST};
use super::variable::{is_of_service, variable};
use crate::Env;

/// Settings that were written, to be asked for by their keys. What is not in the table is a mistake.
pub(super) struct Keys<'a> {
    flags: BTreeMap<String, (String, String)>,
    env: &'a Env,
    file: PathBuf,
    written: BTreeMap<String, Value>,
    asked: BTreeSet<String>,
    mistakes: Vec<Mistake>,
}

impl<'a> Keys<'a> {
    /// `flags` are (key, flag as written, value).
    #[cfg(test)]
    pub(super) fn new(
        flags: impl IntoIterator<Item = (String, String, String)>,
        env: &'a Env,
        file: PathBuf,
        table: Table,
    ) -> Self {
        let mut written = BTreeMap::new();
        flatten("", table, &mut written);
        Self::of(flags, env, file, written)
    }

    /// A part of what this file means with these variables of the environment, or the mistakes in it.
    #[cfg(test)]
    pub(super) fn meaning<T>(
        file: &str,
        variables: &[(&str, &str)],
        read: impl FnOnce(&mut Keys<'_>, &Env) -> T,
    ) -> Result<T, Vec<String>> {
        let env: Env = variables.iter().copied().collect();
        let table = toml::from_str(file).unwrap();
        let mut keys = Keys::new([], &env, "c.toml".into(), table);
        let part = read(&mut keys, &env);
        let mistakes = keys.finish();
        match mistakes.is_empty() {
            true => Ok(part),
            false => Err(mistakes.iter().map(ToString::to_string).collect()),
        }
    }

    /// The same, with the settings of the file by their paths.
    pub(super) fn of(
        flags: impl IntoIterator<Item = (String, String, String)>,
        env: &'a Env,
        file: PathBuf,
        written: BTreeMap<String, Value>,
    ) -> Self {
        Self {
            flags: flags
                .into_iter()
                .map(|(key, flag, value)| (key, (flag, value)))
                .collect(),
            env,
            file,
            written,
            asked: BTreeSet::new(),
            mistakes: Vec::new(),
        }
    }

    /// A whole number.
    pub(super) fn integer(&mut self, key: &str) -> Option<u64> {
        self.read(key, |kind, value| {
            let number = match value {
                Value::Integer(number) => u64::try_from(*number).ok(),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            };
            number.filter(|number| kind.holds_whole(*number))
        })
    }

    /// A number.
    pub(super) fn number(&mut self, key: &str) -> Option<f64> {
        self.read(key, |kind, value| {
            let number = match value {
                #[expect(clippy::cast_precision_loss, reason = "far from 2^53")]
                Value::Integer(number) => Some(*number as f64),
                Value::Float(number) => Some(*number),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            };
            number.filter(|number| kind.holds_number(*number))
        })
    }

    /// A whole number that the table has a default for.
    pub(super) fn size(&mut self, key: &str) -> usize {
        let size = self.integer(key);
        size.and_then(|size| usize::try_from(size).ok())
            .unwrap_or_default()
    }

    /// The same, in 32 bits.
    pub(super) fn small(&mut self, key: &str) -> u32 {
        self.small_if(key).unwrap_or_default()
    }

    /// A whole number in 32 bits.
    pub(super) fn small_if(&mut self, key: &str) -> Option<u32> {
        let number = self.integer(key);
        number.and_then(|number| u32::try_from(number).ok())
    }

    /// A number of at least 1 that the table has a default for.
    pub(super) fn count(&mut self, key: &str) -> NonZeroUsize {
        self.count_or(key, 1)
    }

    /// A number of at least 1, or else `usual`.
    pub(super) fn count_or(&mut self, key: &str, usual: usize) -> NonZeroUsize {
        let count = self.count_if(key).or_else(|| NonZeroUsize::new(usual));
        count.unwrap_or(NonZeroUsize::MIN)
    }

    /// A number of at least 1.
    pub(super) fn count_if(&mut self, key: &str) -> Option<NonZeroUsize> {
        let count = self.integer(key);
        count.and_then(|count| NonZeroUsize::new(usize::try_from(count).ok()?))
    }

    /// Milliseconds that the table has a default for.
    pub(super) fn millis(&mut self, key: &str) -> Duration {
        Duration::from_millis(self.integer(key).unwrap_or_default())
    }

    /// Whether exactly this word stands there. What else may stand there is asked for next.
    pub(super) fn is(&mut self, key: &str, word: &str) -> bool {
        let row = self.row(key);
        let written = self.find(key).map(|(value, _)| value);
        let value = written.or_else(|| row.default.value());
        value.is_some_and(|value| value.as_str().is_some_and(|text| text.trim() == word))
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        self.read(key, |_, value| match value {
            Value::Boolean(flag) => Some(*flag),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        })
    }

    /// `true` or `false`, for which the table has a default.
    pub(super) fn switch(&mut self, key: &str) -> bool {
        self.flag(key).unwrap_or_default()
    }

    /// A text that is not blank.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.read(key, |_, value| {
            value
                .as_str()
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        })
    }

    /// A text with all its spaces, which may be empty.
    pub(super) fn verbatim(&mut self, key: &str) -> Option<String> {
        self.read(key, |_, value| value.as_str().map(str::to_owned))
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
        self.read(key, |_, value| match value {
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

    /// The tables of [`LIST`], written as `[[keys]]` in the file.
    pub(super) fn tables(&mut self) -> Option<Vec<Table>> {
        let wanted = format!("expected tables, each written as [[{LIST}]], found");
        let fields = format!("{LIST}.");
        if self.written.keys().any(|key| key.starts_with(&fields)) {
            self.mistake_in_file(LIST, format!("{wanted} [{LIST}] with one bracket"));
            return None;
        }
        let (value, source) = self.find(LIST)?;
        let items = value.as_array().map(|items| items.iter());
        let tables = items.and_then(|mut items| {
            items.try_fold(Vec::new(), |mut tables, item| {
                tables.push(item.as_table()?.clone());
                Some(tables)
            })
        });
        if tables.is_none() {
            self.mistakes.push(Mistake {
                key: LIST.to_owned(),
                source,
                // A key itself may stand there.
                problem: format!("{wanted} {}", value.type_str()),
                remedy: None,
            });
        }
        tables
    }

    /// A program and its arguments: a list, or one text with spaces between them. A list keeps every
    /// text whole, whatever is in it.
    pub(super) fn words(&mut self, key: &str) -> Option<Vec<String>> {
        self.read(key, |_, value| match value {
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
        let path = self.text(key)?;
        Some(self.expanded(key, &path))
    }

    /// The same, of a text that was found to be one.
    pub(super) fn expanded(&mut self, key: &str, path: &str) -> PathBuf {
        if path.starts_with("~/") && self.env.get("HOME").is_none() {
            self.mistake(key, "HOME is not set: write the path without ~/");
        }
        self.env.expand(path)
    }

    /// One of the words of the table, as these are meant.
    pub(super) fn one_of<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        self.read(key, |kind, value| {
            let text = value.as_str()?.trim();
            debug_assert!(
                words.iter().all(|(word, _)| kind.has_word(word)),
                "the table has other words for {key}"
            );
            words
                .iter()
                .find(|(word, _)| *word == text)
                .map(|(_, meaning)| *meaning)
        })
    }

    /// Whatever its type parses.
    pub(super) fn parsed<T: FromStr>(&mut self, key: &str) -> Option<T> {
        self.read(key, |_, value| value.as_str()?.trim().parse().ok())
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

    fn mistake_in_file(&mut self, key: &str, problem: String) {
        self.mistakes.push(Mistake {
            key: key.to_owned(),
            source: Source::File(self.file.clone()),
            problem,
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

    /// Every mistake, keys that are not in the table among them.
    pub(super) fn finish(mut self) -> Vec<Mistake> {
        let known: BTreeSet<String> = table::all().map(|(path, _)| path).collect();
        let is_field = |key: &&String| key.starts_with(LIST) && key[LIST.len()..].starts_with('.');
        let is_known = |key: &String| known.contains(key) || key == LIST;
        let names = || {
            let names = known.iter().filter(|key| !is_field(key));
            names.map(String::as_str)
        };
        let hint = |key: &str| nearest(key, names().chain([LIST]));
        let mut unknown: Vec<(String, Source, Option<String>)> = Vec::new();
        for key in self.written.keys().filter(|key| !is_known(key)) {
            unknown.push((key.clone(), Source::File(self.file.clone()), hint(key)));
        }
        let flags = self.flags.iter();
        for (key, (flag, _)) in flags.filter(|(key, _)| !is_known(key) || is_field(key)) {
            unknown.push((key.clone(), Source::Flag(flag.clone()), hint(key)));
        }
        let variables: BTreeSet<_> = names().map(variable).collect();
        let sections: BTreeSet<_> = names().filter_map(|key| key.split('.').next()).collect();
        let secrets = self.named_variables();
        // Other SPECHOP_ variables are not ours to judge.
        for section in sections {
            for name in self.env.names(&format!("{}_", variable(section))) {
                let value = self.env.get(name).unwrap_or_default();
                let is_key = !secrets.contains(name) && !is_of_service(name, value);
                if is_key && !variables.contains(name) {
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
    pub(super) fn asked(&self) -> &BTreeSet<String> {
        &self.asked
    }

    /// What is written, or else what the table says.
    fn read<T>(&mut self, key: &str, parse: impl Fn(&Kind, &Value) -> Option<T>) -> Option<T> {
        let row = self.row(key);
        if let Some((value, source)) = self.find(key) {
            let parsed = parse(&row.kind, &value);
            if parsed.is_some() {
                return parsed;
            }
            let found = match row.secret {
                true => value.type_str().to_owned(),
                false => value.to_string(),
            };
            let problem = format!("expected {}, found {found}", row.kind);
            self.mistakes.push(Mistake {
                key: key.to_owned(),
                source,
                problem,
                remedy: None,
            });
        }
        let value = row.default.value()?;
        parse(&row.kind, &value)
    }

    /// Variables that the configuration itself names: what they hold is no setting.
    fn named_variables(&self) -> BTreeSet<String> {
        let names = table::all().filter(|(_, row)| row.kind == Kind::Variable);
        let names = names.filter_map(|(path, _)| self.find(&path));
        let programs = self.find("target.mcp.env");
        let values = names.chain(programs).flat_map(|(value, _)| match value {
            Value::Array(values) => values,
            value => vec![value],
        });
        let texts = values.filter_map(|value| value.as_str().map(str::to_owned));
        texts
            .flat_map(|text| {
                let names = text.split(',').map(|name| name.trim().to_owned());
                names.collect::<Vec<_>>()
            })
            .collect()
    }

    /// The row of a key that is asked for.
    fn row(&mut self, key: &str) -> &'static Key {
        /// Stands in for a row that a test would miss.
        static NONE: Key = Key::UNKNOWN;
        self.asked.insert(key.to_owned());
        let row = table::find(key);
        debug_assert!(row.is_some(), "{key} is not in the table");
        row.unwrap_or(&NONE)
    }

    /// What is written. Flags go before variables, variables before the file.
    pub(super) fn find(&self, key: &str) -> Option<(Value, Source)> {
        let kind = table::find(key).map(|row| &row.kind);
        if let Some((flag, value)) = self.flags.get(key) {
            return Some((as_written(kind, value), Source::Flag(flag.clone())));
        }
        let name = variable(key);
        let value = match kind == Some(&Kind::Verbatim) {
            true => self.env.verbatim(&name),
            false => self.env.get(&name),
        };
        if let Some(value) = value {
            return Some((as_written(kind, value), Source::Variable(name)));
        }
        let value = self.written.get(key)?;
        Some((value.clone(), Source::File(self.file.clone())))
    }
}

/// What a flag or a variable says: a text, or a list that is written there as the file has it.
fn as_written(kind: Option<&Kind>, text: &str) -> Value {
    let may_be_list = matches!(kind, Some(Kind::List | Kind::Words));
    let list = match may_be_list && text.trim_start().starts_with('[') {
        true => table::value(text),
        false => None,
    };
    list.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The settings of a file by their paths.
pub(super) fn values_of(path: &Path, text: &str) -> Result<BTreeMap<String, Value>, InvalidConfig> {
    let table: Table = toml::from_str(text).map_err(|error| {
        InvalidConfig(vec![Mistake {
            key: format!("line {}", line_of(text, &error)),
            source: Source::File(path.to_owned()),
            problem: format!("not TOML: {}", error.message().trim()),
            remedy: None,
        }])
    })?;
    let mut values = BTreeMap::new();
    flatten("", table, &mut values);
    Ok(values)
}

/// The line at which a text is no TOML, from 1.
pub(super) fn line_of(text: &str, error: &toml::de::Error) -> usize {
    let start = error.span().map_or(0, |span| span.start);
    text[..start].matches('\n').count() + 1
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
