//! `encoder.toml`: how a model wants its texts treated.

use std::fmt;
use std::path::{Component, Path};

use serde::Deserialize;

use crate::OpenError;

/// The file in a model folder that describes the model.
pub const RECIPE_FILE: &str = "encoder.toml";

/// How the vectors of a text's tokens become the vector of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean over the text's tokens (E5, GTE).
    Mean,
    /// The first token's vector (BGE).
    Cls,
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
        })
    }
}

/// What `encoder.toml` says. Unknown keys are refused: a misspelt prefix would cost quality in
/// silence.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The model's name, for people and for the fingerprint.
    pub name: String,
    /// The ONNX file, within the folder.
    pub model: String,
    /// The tokenizer file (Hugging Face `tokenizer.json`), within the folder.
    pub tokenizer: String,
    /// Put before every query.
    pub query_prefix: String,
    /// Put before every passage.
    pub passage_prefix: String,
    /// How tokens become a text.
    pub pooling: Pooling,
    /// Number of components of every vector.
    pub width: usize,
    /// Longest query, in tokens, the special ones included; the rest is cut off.
    pub query_tokens_max: usize,
    /// Longest passage, in tokens, the special ones included; the rest is cut off.
    pub passage_tokens_max: usize,
}

impl Recipe {
    /// Reads the description in the model folder `dir`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Read`] where there is none, [`OpenError::Recipe`] with every mistake in it.
    pub fn read(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(RECIPE_FILE);
        let text = std::fs::read_to_string(&path).map_err(|source| OpenError::Read {
            path: path.clone(),
            source,
        })?;
        Self::parse(&text).map_err(|detail| OpenError::Recipe { path, detail })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let recipe: Self = toml::from_str(text).map_err(|error| located(text, &error))?;
        let mistakes = recipe.mistakes();
        if mistakes.is_empty() {
            Ok(recipe)
        } else {
            Err(mistakes.join("; "))
        }
    }

    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.name.trim().is_empty() {
            mistakes.push("`name` is empty".to_owned());
        }
        for (key, file) in [("model", &self.model), ("tokenizer", &self.tokenizer)] {
            let mut parts = Path::new(file).components();
            if !matches!(
                (parts.next(), parts.next()),
                (Some(Component::Normal(_)), None)
            ) {
                mistakes.push(format!(
                    "`{key}` must name a file of this folder, not {file:?}"
                ));
            }
        }
        if self.width == 0 {
            mistakes.push("`width` is 0".to_owned());
        }
        for (key, tokens) in [
            ("query_tokens_max", self.query_tokens_max),
            ("passage_tokens_max", self.passage_tokens_max),
        ] {
            if !(TOKENS_MAX_MIN..=TOKENS_MAX_MAX).contains(&tokens) {
                mistakes.push(format!(
                    "`{key}` must be {TOKENS_MAX_MIN} to {TOKENS_MAX_MAX}, not {tokens}"
                ));
            }
        }
        mistakes
    }
}

/// Below this, prefix and special tokens leave no room for the text.
const TOKENS_MAX_MIN: usize = 8;
/// Attention is quadratic: a longer text would hold up every query behind it.
const TOKENS_MAX_MAX: usize = 8192;

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

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "e5"
model = "model.onnx"
tokenizer = "tokenizer.json"
query_prefix = "query: "
passage_prefix = "passage: "
pooling = "mean"
width = 384
query_tokens_max = 64
passage_tokens_max = 512
"#;

    #[test]
    fn a_good_description_is_taken_as_it_stands() {
        let recipe = Recipe::parse(GOOD).expect("good");
        assert_eq!(recipe.pooling, Pooling::Mean);
        assert_eq!((recipe.width, recipe.query_tokens_max), (384, 64));
        assert_eq!(recipe.passage_prefix, "passage: ");
    }

    #[test]
    fn mistakes_are_named_on_one_line() {
        for (from, to, expected) in [
            ("width = 384", "width = \"wide\"", "line 8"),
            ("width = 384", "", "missing field `width`"),
            ("width = 384", "width = 0", "`width` is 0"),
            (
                "width = 384",
                "width = 384\nfetch = 1",
                "unknown field `fetch`",
            ),
            ("\"mean\"", "\"max\"", "unknown variant `max`"),
            (
                "model.onnx",
                "../model.onnx",
                "`model` must name a file of this folder",
            ),
            (
                "tokenizer.json",
                "/etc/passwd",
                "`tokenizer` must name a file",
            ),
            ("tokenizer.json", "", "`tokenizer` must name a file"),
            ("\"e5\"", "\" \"", "`name` is empty"),
            ("= 64", "= 2", "`query_tokens_max` must be 8 to 8192, not 2"),
            (
                "= 512",
                "= 1000000",
                "`passage_tokens_max` must be 8 to 8192",
            ),
            ("name = ", "name", "line 2"),
        ] {
            let error = Recipe::parse(&GOOD.replace(from, to)).expect_err(to);
            assert!(error.contains(expected), "{to}: {error}");
            assert!(!error.contains('\n'), "{to}: {error}");
        }
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let broken = GOOD.replace("384", "0").replace("= 64", "= 1");
        let error = Recipe::parse(&broken).expect_err("two mistakes");
        assert!(
            error.contains("`width`") && error.contains("`query_tokens_max`"),
            "{error}"
        );
    }
}
