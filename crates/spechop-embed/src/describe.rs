//! Model folders describe themselves: how a description is read and what all of them check.

use std::path::{Component, Path};

use serde::de::DeserializeOwned;

use crate::OpenError;

/// What the TOML file of a model folder says.
pub(crate) trait Described: DeserializeOwned {
    /// The file's name.
    const FILE: &'static str;
    /// What it describes, with its article.
    const WHAT: &'static str;

    /// Everything that the types let through and that is wrong nevertheless.
    fn mistakes(&self) -> Vec<String>;
}

/// Reads the description in `dir`, and names every mistake in it.
pub(crate) fn read<T: Described>(dir: &Path) -> Result<T, OpenError> {
    let path = dir.join(T::FILE);
    let text = std::fs::read_to_string(&path).map_err(|source| OpenError::Read {
        path: path.clone(),
        source,
    })?;
    parse(&text).map_err(|detail| OpenError::Recipe {
        path,
        what: T::WHAT,
        detail,
    })
}

pub(crate) fn parse<T: Described>(text: &str) -> Result<T, String> {
    let described: T = toml::from_str(text).map_err(|error| located(text, &error))?;
    let mistakes = described.mistakes();
    if mistakes.is_empty() {
        Ok(described)
    } else {
        Err(mistakes.join("; "))
    }
}

pub(crate) fn check_name(name: &str) -> Option<String> {
    name.trim().is_empty().then(|| "`name` is empty".to_owned())
}

/// A file of the folder itself.
pub(crate) fn check_file(key: &str, file: &str) -> Option<String> {
    (!is_own_file(file)).then(|| format!("`{key}` must name a file of this folder, not {file:?}"))
}

/// A file of the folder itself, or of one beside it: models may share a file.
pub(crate) fn check_shared_file(key: &str, file: &str) -> Option<String> {
    let mut parts = Path::new(file).components();
    let beside = matches!(
        (parts.next(), parts.next(), parts.next(), parts.next()),
        (
            Some(Component::ParentDir),
            Some(Component::Normal(_)),
            Some(Component::Normal(_)),
            None
        )
    );
    (!beside && !is_own_file(file)).then(|| {
        format!(
            "`{key}` must name a file of this folder or of one beside it (\"../FOLDER/FILE\"), not {file:?}"
        )
    })
}

fn is_own_file(file: &str) -> bool {
    let mut parts = Path::new(file).components();
    matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    )
}

/// Below this, prefix and special tokens leave no room for the text.
const TOKENS_MAX_MIN: usize = 8;
/// Attention is quadratic: a longer text would hold up every call behind it.
const TOKENS_MAX_MAX: usize = 8192;

pub(crate) fn check_tokens(key: &str, tokens: usize) -> Option<String> {
    (!(TOKENS_MAX_MIN..=TOKENS_MAX_MAX).contains(&tokens))
        .then(|| format!("`{key}` must be {TOKENS_MAX_MIN} to {TOKENS_MAX_MAX}, not {tokens}"))
}

/// The parser's complaint on one line; its own rendering spans several.
fn located(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    match error.span() {
        Some(span) => {
            let line = 1 + text[..span.start.min(text.len())].matches('\n').count();
            format!("line {line}: {message}")
        }
        None => message,
    }
}
