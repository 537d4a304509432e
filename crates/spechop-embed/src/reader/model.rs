//! A pair of sub-question and passage to logits: one run of the model, synchronous.

use std::path::Path;

use super::pairs::Pair;
use super::recipe::{READER_RECIPE_FILE, ReaderRecipe};
use super::spans::{CLASSES, Logits};
use crate::OpenError;
use crate::session::{Input, Limits, RunError, TokenModel, try_limits};

const WANTED: &str = "extractive reader";

const START: &str = "start_logits";
const END: &str = "end_logits";
const CLASS: &str = "class_logits";

/// A loaded reader model. Its owner runs it on one thread.
pub(crate) struct Model(TokenModel);

impl Model {
    /// Loads the model.
    pub(crate) fn open(library: &Path, path: &Path, threads: usize) -> Result<Self, OpenError> {
        let model = TokenModel::open(library, path, threads, &Input::ALL, WANTED)?;
        for output in [START, END, CLASS] {
            let outlets = model.session().outputs();
            if !outlets.iter().any(|outlet| outlet.name() == output) {
                return Err(unfit(path, format!("it has no output {output:?}")));
            }
        }
        Ok(Self(model))
    }

    /// Runs the model once on ordinary input and at its limits.
    pub(crate) fn try_out(
        &mut self,
        path: &Path,
        tokenizer: &Path,
        largest: u32,
        recipe: &ReaderRecipe,
    ) -> Result<(), OpenError> {
        let pair = |ids: &[u32]| {
            let type_ids = (0..ids.len()).map(|at| u32::from(at > 0)).collect();
            let ids = ids.to_vec();
            Pair { ids, type_ids }
        };
        self.run(&pair(&[0, 0, 0]))
            .map_err(|error| unfit(path, error.to_string()))?;
        let limits = Limits {
            model: path,
            tokenizer,
            recipe: READER_RECIPE_FILE,
            largest,
            tokens_max: recipe.tokens_max,
        };
        try_limits(&limits, |ids| self.run(&pair(ids)).map(drop))
    }

    /// The logits of a pair, which has at least one token.
    pub(crate) fn run(&mut self, pair: &Pair) -> Result<Logits, RunError> {
        let length = pair.ids.len();
        let outputs = self.0.run(&[pair.row()], length)?;
        let output = |name: &str, width: usize| {
            let value = outputs
                .get(name)
                .ok_or_else(|| RunError::Failed(format!("it gave no {name}")))?;
            let (shape, values) = value.try_extract_tensor::<f32>()?;
            if **shape != [1, width as i64] {
                let detail = format!("its {name} have shape {shape:?}");
                return Err(RunError::Failed(detail));
            }
            // A damaged weight shows so, and halves that overflow; read on, and it would be an answer, and a sure
            // one. What is ruled out may be infinitely unlikely.
            let is_damaged = |value: &f32| value.is_nan() || *value == f32::INFINITY;
            if values.iter().any(is_damaged) {
                return Err(RunError::Failed(format!("its {name} are no numbers")));
            }
            Ok(values.to_vec())
        };
        let classes = output(CLASS, CLASSES)?;
        Ok(Logits {
            start: output(START, length)?,
            end: output(END, length)?,
            classes: std::array::from_fn(|class| classes[class]),
        })
    }
}

fn unfit(path: &Path, detail: String) -> OpenError {
    OpenError::Unfit {
        path: path.to_owned(),
        wanted: WANTED,
        detail,
    }
}
