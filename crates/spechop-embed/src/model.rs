//! Tokens to unit vectors: one run of the model, synchronous.

use std::path::{Path, PathBuf};

use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::{TensorElementType, TensorRef, ValueType};

use crate::text::one_line;
use crate::{OpenError, Pooling, Recipe, runtime};

/// A loaded model. Its owner runs it on one thread.
pub(crate) struct Model {
    session: Session,
    inputs: Vec<Input>,
    output: String,
    pooling: Pooling,
    width: usize,
}

/// What a text encoder may ask for; anything else is refused when the model is opened.
#[derive(Clone, Copy, PartialEq)]
enum Input {
    Ids,
    Mask,
    TypeIds,
}

impl Input {
    const ALL: [Self; 3] = [Self::Ids, Self::Mask, Self::TypeIds];

    fn name(self) -> &'static str {
        match self {
            Self::Ids => "input_ids",
            Self::Mask => "attention_mask",
            Self::TypeIds => "token_type_ids",
        }
    }
}

impl Model {
    /// Loads the model and tries it on its largest token and its longest text.
    pub(crate) fn open(
        library: &Path,
        path: &Path,
        recipe: &Recipe,
        threads: usize,
    ) -> Result<Self, OpenError> {
        let session = load(library, path, threads)?;
        let no_encoder = |detail: String| OpenError::NoEncoder {
            path: path.to_owned(),
            detail,
        };
        Ok(Self {
            inputs: inputs(&session).map_err(no_encoder)?,
            output: output(&session).map_err(no_encoder)?,
            session,
            pooling: recipe.pooling,
            width: recipe.width,
        })
    }

    /// Runs the model once on short and once on long input, so that a folder whose parts do not
    /// fit each other is refused now and not in the middle of a question.
    pub(crate) fn try_out(
        &mut self,
        path: &Path,
        tokenizer: PathBuf,
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
            Err(RunError::Failed(detail)) => {
                let path = path.to_owned();
                return Err(OpenError::NoEncoder { path, detail });
            }
        }
        if let Err(error) = self.run(&[&[largest]]) {
            return Err(OpenError::Vocabulary {
                path: tokenizer,
                largest,
                source: error.into(),
            });
        }
        if let Err(error) = self.run(&[&vec![0; tokens_max]]) {
            return Err(OpenError::Length {
                path: path.to_owned(),
                tokens: tokens_max,
                source: error.into(),
            });
        }
        Ok(())
    }

    /// The unit vectors of texts, in order, from one run of the model. The texts, each at least one
    /// token long, are padded to the longest of them; the mask keeps the padding out of the result.
    pub(crate) fn run(&mut self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>, RunError> {
        let length = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        if length == 0 {
            return Ok(vec![vec![0.0; self.width]; texts.len()]);
        }
        let mut ids = Vec::with_capacity(texts.len() * length);
        let mut mask = Vec::with_capacity(texts.len() * length);
        for text in texts {
            let end = ids.len() + length;
            ids.extend(text.iter().map(|&id| i64::from(id)));
            ids.resize(end, 0);
            mask.resize(end - length + text.len(), 1);
            mask.resize(end, 0);
        }
        let type_ids = vec![0; ids.len()];
        let shape = [texts.len(), length];

        let mut feed = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let data: &[i64] = match input {
                Input::Ids => &ids,
                Input::Mask => &mask,
                Input::TypeIds => &type_ids,
            };
            feed.push((input.name(), TensorRef::from_array_view((shape, data))?));
        }
        let outputs = self.session.run(feed)?;
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
        Ok(pooled.collect())
    }
}

/// Why a run gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The vectors are of another width than promised.
    #[error("its vectors are of width {0}")]
    Width(usize),
    /// ONNX Runtime failed, or gave something that is no vectors.
    #[error("{0}")]
    Failed(String),
}

impl From<ort::Error> for RunError {
    fn from(error: ort::Error) -> Self {
        Self::Failed(one_line(&error))
    }
}

fn load(library: &Path, path: &Path, threads: usize) -> Result<Session, OpenError> {
    let environment = runtime::environment(library)?;
    let session = || -> ort::Result<Session> {
        Session::builder(&environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(threads)?
            // A spinning thread burns the core that the language model could use.
            .with_intra_op_spinning(false)?
            // Every run has another shape: a plan of the last one's memory does not fit the next.
            .with_memory_pattern(false)?
            .commit_from_file(path)
    };
    session().map_err(|error| OpenError::Model {
        path: path.to_owned(),
        source: one_line(&error).into(),
    })
}

fn inputs(session: &Session) -> Result<Vec<Input>, String> {
    let mut inputs = Vec::new();
    for outlet in session.inputs() {
        let known = Input::ALL.into_iter().find(|i| i.name() == outlet.name());
        inputs.push(known.ok_or_else(|| format!("it wants an input {:?}", outlet.name()))?);
    }
    for needed in [Input::Ids, Input::Mask] {
        if !inputs.contains(&needed) {
            return Err(format!("it has no input {:?}", needed.name()));
        }
    }
    Ok(inputs)
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

/// Scales to length 1, which also turns a sum into a mean: the direction is all that counts.
fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm > 0.0 {
        for x in &mut vector {
            *x /= norm;
        }
    }
    vector
}
