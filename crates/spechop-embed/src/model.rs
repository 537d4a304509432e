//! Tokens to unit vectors: one run of the model, synchronous.

use std::path::Path;

use ort::session::Session;
use ort::value::{TensorElementType, ValueType};

use crate::session::{Input, Limits, Row, RunError, TokenModel, try_limits};
use crate::{OpenError, Pooling, RECIPE_FILE, Recipe};

const WANTED: &str = "text encoder";

/// A loaded encoder model. Its owner runs it on one thread.
pub(crate) struct Model {
    model: TokenModel,
    output: String,
    pooling: Pooling,
    width: usize,
}

impl Model {
    /// Loads the model.
    pub(crate) fn open(
        library: &Path,
        path: &Path,
        recipe: &Recipe,
        threads: usize,
    ) -> Result<Self, OpenError> {
        let needed = [Input::Ids, Input::Mask];
        let model = TokenModel::open(library, path, threads, &needed, WANTED)?;
        Ok(Self {
            output: output(model.session()).map_err(|detail| unfit(path, detail))?,
            model,
            pooling: recipe.pooling,
            width: recipe.width,
        })
    }

    /// Runs the model once on ordinary input and at its limits.
    pub(crate) fn try_out(
        &mut self,
        path: &Path,
        tokenizer: &Path,
        largest: u32,
        tokens_max: usize,
    ) -> Result<(), OpenError> {
        match self.run(&[&[0]]) {
            Ok(_) => {}
            Err(RunError::Width(actual)) => {
                return Err(OpenError::Width {
                    path: path.to_owned(),
                    stated: self.width,
                    actual,
                });
            }
            Err(RunError::Failed(detail)) => return Err(unfit(path, detail)),
        }
        let limits = Limits {
            model: path,
            tokenizer,
            recipe: RECIPE_FILE,
            largest,
            tokens_max,
        };
        try_limits(&limits, |text| self.run(&[text]).map(drop))
    }

    /// The unit vectors of texts, in order, from one run of the model. The texts, each at least one
    /// token long, are padded to the longest of them; the mask keeps the padding out of the result.
    pub(crate) fn run(&mut self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>, RunError> {
        let length = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        if length == 0 {
            return Ok(vec![vec![0.0; self.width]; texts.len()]);
        }
        let rows: Vec<_> = texts.iter().map(|ids| Row { ids, type_ids: &[] }).collect();
        let outputs = self.model.run(&rows, length)?;
        let output = outputs
            .get(&self.output)
            .ok_or_else(|| RunError::Failed(format!("it gave no {}", self.output)))?;
        let (shape, tokens) = output.try_extract_tensor::<f32>()?;
        match **shape {
            [batch, n, width] if batch as usize == texts.len() && n as usize == length => {
                if width as usize != self.width {
                    return Err(RunError::Width(width as usize));
                }
            }
            _ => return Err(RunError::Failed(format!("its output has shape {shape:?}"))),
        }
        let padded = length * self.width;
        let pooled = texts
            .iter()
            .zip(tokens.chunks_exact(padded))
            .map(|(text, rows)| {
                let rows = &rows[..text.len() * self.width];
                unit(match self.pooling {
                    Pooling::Cls => rows[..self.width].to_vec(),
                    Pooling::Mean => sum(rows, self.width),
                })
            });
        // A damaged weight shows so, and halves that overflow.
        let vectors: Option<_> = pooled.collect();
        vectors.ok_or_else(|| RunError::Failed("its vectors are no finite numbers".to_owned()))
    }
}

fn unfit(path: &Path, detail: String) -> OpenError {
    OpenError::Unfit {
        path: path.to_owned(),
        wanted: WANTED,
        detail,
    }
}

/// The output that holds one vector a token: the first of three dimensions.
fn output(session: &Session) -> Result<String, String> {
    let is_tokens = |dtype: &ValueType| matches!(dtype, ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } if shape.len() == 3);
    session
        .outputs()
        .iter()
        .find(|outlet| is_tokens(outlet.dtype()))
        .map(|outlet| outlet.name().to_owned())
        .ok_or_else(|| "it has no output of f32 vectors, one a token".to_owned())
}

fn sum(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    for row in rows.chunks_exact(width) {
        for (total, x) in sum.iter_mut().zip(row) {
            *total += x;
        }
    }
    sum
}

/// Scales to length 1, which also turns a sum into a mean: the direction is all that counts. `None` if it has no
/// finite length.
fn unit(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !norm.is_finite() {
        return None;
    }
    if norm > 0.0 {
        for x in &mut vector {
            *x /= norm;
        }
    }
    Some(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_of_no_finite_length_is_none() {
        assert_eq!(unit(vec![3.0, 4.0]), Some(vec![0.6, 0.8]));
        assert_eq!(unit(vec![0.0, 0.0]), Some(vec![0.0, 0.0]));
        for damaged in [[f32::NAN, 1.0], [f32::INFINITY, 1.0], [f32::MAX, 1.0]] {
            assert_eq!(unit(damaged.to_vec()), None, "{damaged:?}");
        }
    }
}
