//! `reader.toml`: how a model wants to be asked, and what its scores are worth.

use std::path::Path;

use serde::Deserialize;

use crate::OpenError;
use crate::describe::{self, Described};

/// The file in a model folder that describes the reader.
pub const READER_RECIPE_FILE: &str = "reader.toml";

/// What `reader.toml` says. Unknown keys are refused: a misspelt prefix would cost quality in
/// silence.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReaderRecipe {
    /// The model's name, for people.
    pub name: String,
    /// The ONNX file, within the folder.
    pub model: String,
    /// The tokenizer file (Hugging Face `tokenizer.json`): within the folder, or `../FOLDER/FILE`
    /// where the encoder that the reader was made from lies beside it.
    pub tokenizer: String,
    /// Put before every sub-question.
    pub query_prefix: String,
    /// Longest pair of sub-question and passage, in tokens, the special ones included; the rest of
    /// the passage is cut off.
    pub tokens_max: usize,
    /// Longest answer, in tokens.
    pub answer_tokens_max: usize,
    /// What a score is worth.
    pub calibration: PlattScaling,
    /// Nothing was found where the confidence is below this, 0 to 1.
    pub threshold: f64,
    /// Passages are read in their order, and a reading of this confidence (0 to 1) ends that: those behind
    /// it are not read. Without it, all are read and the best counts.
    pub enough: Option<f64>,
}

/// Platt scaling: `confidence = sigmoid(scale · score + shift)`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlattScaling {
    /// More than 0, or a better score would be worth less.
    pub scale: f64,
    /// Any number.
    pub shift: f64,
}

impl PlattScaling {
    /// The probability that a reading of this score is right.
    pub fn confidence(self, score: f64) -> f64 {
        1.0 / (1.0 + (-(self.scale * score + self.shift)).exp())
    }
}

impl ReaderRecipe {
    /// Reads the description in the model folder `dir`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Read`] where there is none, [`OpenError::Recipe`] with every mistake in it.
    pub fn read(dir: &Path) -> Result<Self, OpenError> {
        describe::read(dir)
    }
}

impl Described for ReaderRecipe {
    const FILE: &'static str = READER_RECIPE_FILE;
    const WHAT: &'static str = "a reader";

    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        mistakes.extend(describe::check_name(&self.name));
        mistakes.extend(describe::check_file("model", &self.model));
        mistakes.extend(describe::check_shared_file("tokenizer", &self.tokenizer));
        mistakes.extend(describe::check_tokens("tokens_max", self.tokens_max));
        if !(1..=self.tokens_max).contains(&self.answer_tokens_max) {
            mistakes.push(format!(
                "`answer_tokens_max` must be 1 to `tokens_max`, not {}",
                self.answer_tokens_max
            ));
        }
        let PlattScaling { scale, shift } = self.calibration;
        if !(scale.is_finite() && scale > 0.0) {
            mistakes.push(format!(
                "`calibration.scale` must be a number above 0, not {scale}"
            ));
        }
        if !shift.is_finite() {
            mistakes.push(format!("`calibration.shift` must be a number, not {shift}"));
        }
        if !(0.0..=1.0).contains(&self.threshold) {
            mistakes.push(format!(
                "`threshold` must be 0 to 1, not {}",
                self.threshold
            ));
        }
        if let Some(enough) = self.enough
            && !(self.threshold..=1.0).contains(&enough)
        {
            mistakes.push(format!("`enough` must be `threshold` to 1, not {enough}"));
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "reader"
model = "model.onnx"
tokenizer = "tokenizer.json"
query_prefix = "query: "
tokens_max = 256
answer_tokens_max = 24
threshold = 0.5

[calibration]
scale = 0.4
shift = -2.0
"#;

    fn parse(text: &str) -> Result<ReaderRecipe, String> {
        describe::parse(text)
    }

    #[test]
    fn a_good_description_is_taken_as_it_stands() {
        let recipe = parse(GOOD).expect("good");
        assert_eq!((recipe.tokens_max, recipe.answer_tokens_max), (256, 24));
        assert_eq!(recipe.query_prefix, "query: ");
        assert!((recipe.calibration.confidence(5.0) - 0.5).abs() < 1e-12);
        assert!(recipe.calibration.confidence(1e9) <= 1.0);
        assert!(recipe.calibration.confidence(-1e9) >= 0.0);
        assert_eq!(recipe.enough, None);
        let stops = GOOD.replace("= 0.5", "= 0.5\nenough = 0.6");
        assert_eq!(parse(&stops).expect("good").enough, Some(0.6));
        let shared = GOOD.replace("tokenizer.json", "../e5-small-v2/tokenizer.json");
        assert!(parse(&shared).is_ok());
    }

    #[test]
    fn mistakes_are_named_on_one_line() {
        for (from, to, expected) in [
            ("= 256", "= \"long\"", "line 6"),
            ("tokens_max = 256", "", "missing field `tokens_max`"),
            ("shift = -2.0", "", "missing field `shift`"),
            ("= 256", "= 256\nfetch = 1", "unknown field `fetch`"),
            ("= -2.0", "= -2.0\nbias = 1", "unknown field `bias`"),
            ("model.onnx", "../e5/model.onnx", "`model` must name a file"),
            ("tokenizer.json", "/etc/passwd", "or of one beside it"),
            ("tokenizer.json", "../../a/b", "or of one beside it"),
            ("tokenizer.json", "../../passwd", "or of one beside it"),
            ("tokenizer.json", "", "or of one beside it"),
            (
                "= 24",
                "= 0",
                "`answer_tokens_max` must be 1 to `tokens_max`",
            ),
            (
                "= 24",
                "= 257",
                "`answer_tokens_max` must be 1 to `tokens_max`",
            ),
            ("= 256", "= 4", "`tokens_max` must be 8 to 8192, not 4"),
            ("0.4", "0.0", "`calibration.scale` must be a number above 0"),
            ("0.4", "nan", "`calibration.scale` must be a number above 0"),
            ("-2.0", "inf", "`calibration.shift` must be a number"),
            ("0.5", "1.5", "`threshold` must be 0 to 1, not 1.5"),
            ("0.5", "nan", "`threshold` must be 0 to 1, not NaN"),
            (
                "= 0.5",
                "= 0.5\nenough = 0.4",
                "`enough` must be `threshold` to 1, not 0.4",
            ),
            (
                "= 0.5",
                "= 0.5\nenough = nan",
                "`enough` must be `threshold` to 1, not NaN",
            ),
        ] {
            let error = parse(&GOOD.replace(from, to)).expect_err(to);
            assert!(error.contains(expected), "{to}: {error}");
            assert!(!error.contains('\n'), "{to}: {error}");
        }
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let broken = GOOD.replace("0.5", "7.0").replace("= 24", "= 0");
        let error = parse(&broken).expect_err("two mistakes");
        assert!(
            error.contains("`threshold`") && error.contains("`answer_tokens_max`"),
            "{error}"
        );
    }
}
