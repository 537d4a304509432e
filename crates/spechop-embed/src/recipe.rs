//! `encoder.toml`: how a model wants its texts treated.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::OpenError;
use crate::describe::{self, Described};

/// The file in a model folder that describes the model.
pub const RECIPE_FILE: &str = "encoder.toml";

/// How the vectors of a text's tokens become the vector of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Whether each text gets a run of its own. A model that quantises its activations while it runs
    /// has one scale for all texts of a run, so a text's vector would depend on its company.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

impl Recipe {
    /// Reads the description in the model folder `dir`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Read`] where there is none, [`OpenError::Recipe`] with every mistake in it.
    pub fn read(dir: &Path) -> Result<Self, OpenError> {
        describe::read(dir)
    }
}

impl Described for Recipe {
    const FILE: &'static str = RECIPE_FILE;
    const WHAT: &'static str = "an encoder";

    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        mistakes.extend(describe::check_name(&self.name));
        mistakes.extend(describe::check_file("model", &self.model));
        mistakes.extend(describe::check_file("tokenizer", &self.tokenizer));
        if self.width == 0 {
            mistakes.push("`width` is 0".to_owned());
        }
        mistakes.extend(describe::check_tokens(
            "query_tokens_max",
            self.query_tokens_max,
        ));
        mistakes.extend(describe::check_tokens(
            "passage_tokens_max",
            self.passage_tokens_max,
        ));
        mistakes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A recipe without a mistake.
    pub(crate) const GOOD: &str = r#"
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
        let recipe = describe::parse::<Recipe>(GOOD).expect("good");
        assert_eq!(recipe.pooling, Pooling::Mean);
        assert_eq!((recipe.width, recipe.query_tokens_max), (384, 64));
        assert_eq!(recipe.passage_prefix, "passage: ");
        assert!(!recipe.alone);
        let alone = format!("{GOOD}alone = true\n");
        let alone = describe::parse::<Recipe>(&alone).expect("good");
        assert_eq!(
            alone,
            Recipe {
                alone: true,
                ..recipe.clone()
            }
        );
        for recipe in [recipe, alone] {
            let written = toml::to_string(&recipe).expect("a description");
            assert_eq!(describe::parse::<Recipe>(&written), Ok(recipe));
        }
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
            let error = describe::parse::<Recipe>(&GOOD.replace(from, to)).expect_err(to);
            assert!(error.contains(expected), "{to}: {error}");
            assert!(!error.contains('\n'), "{to}: {error}");
        }
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let broken = GOOD.replace("384", "0").replace("= 64", "= 1");
        let error = describe::parse::<Recipe>(&broken).expect_err("two mistakes");
        assert!(
            error.contains("`width`") && error.contains("`query_tokens_max`"),
            "{error}"
        );
    }
}
