//! A transformer on ONNX Runtime: rows of tokens in, tensors out. One run, synchronous.

use std::path::Path;

use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionOutputs};
use ort::value::TensorRef;
use spechop_ports::PortError;

use crate::text::one_line;
use crate::{OpenError, runtime};

/// A loaded model. Its owner runs it on one thread.
pub(crate) struct TokenModel {
    session: Session,
    inputs: Vec<Input>,
}

/// What a transformer may ask for; anything else is refused when the model is opened.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Input {
    Ids,
    Mask,
    TypeIds,
}

impl Input {
    pub(crate) const ALL: [Self; 3] = [Self::Ids, Self::Mask, Self::TypeIds];

    fn name(self) -> &'static str {
        match self {
            Self::Ids => "input_ids",
            Self::Mask => "attention_mask",
            Self::TypeIds => "token_type_ids",
        }
    }
}

/// One text, or one pair of texts, as the model sees it.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) ids: &'a [u32],
    /// One a token; none at all where every token is of type 0.
    pub(crate) type_ids: &'a [u32],
}

impl TokenModel {
    /// Loads the model at `path`, which must ask for the inputs `needed`. `wanted` says in errors
    /// what it should be.
    pub(crate) fn open(
        library: &Path,
        path: &Path,
        threads: usize,
        needed: &[Input],
        wanted: &'static str,
    ) -> Result<Self, OpenError> {
        let session = load(library, path, threads)?;
        let inputs = inputs(&session, needed).map_err(|detail| OpenError::Unfit {
            path: path.to_owned(),
            wanted,
            detail,
        })?;
        Ok(Self { session, inputs })
    }

    /// The session, for what it says of its outputs.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Runs the model once. The rows are padded to `length`, that of the longest of them; the mask
    /// tells the model what is padding.
    pub(crate) fn run(
        &mut self,
        rows: &[Row<'_>],
        length: usize,
    ) -> Result<SessionOutputs<'_>, RunError> {
        let mut ids: Vec<i64> = Vec::with_capacity(rows.len() * length);
        let mut mask = Vec::with_capacity(rows.len() * length);
        let mut type_ids: Vec<i64> = Vec::with_capacity(rows.len() * length);
        for row in rows {
            let end = ids.len() + length;
            ids.extend(row.ids.iter().map(|&id| i64::from(id)));
            ids.resize(end, 0);
            mask.resize(end - length + row.ids.len(), 1);
            mask.resize(end, 0);
            type_ids.extend(row.type_ids.iter().map(|&id| i64::from(id)));
            type_ids.resize(end, 0);
        }
        let shape = [rows.len(), length];
        let mut feed = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let data: &[i64] = match input {
                Input::Ids => &ids,
                Input::Mask => &mask,
                Input::TypeIds => &type_ids,
            };
            feed.push((input.name(), TensorRef::from_array_view((shape, data))?));
        }
        Ok(self.session.run(feed)?)
    }
}

/// Why a run gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The vectors are of another width than promised.
    #[error("its vectors are of width {0}")]
    Width(usize),
    /// ONNX Runtime failed, or gave something of another shape than promised.
    #[error("{0}")]
    Failed(String),
}

impl RunError {
    /// As the callers of `what` are told.
    pub(crate) fn of(&self, what: &str) -> PortError {
        PortError::unavailable(what, self.to_string())
    }
}

impl From<ort::Error> for RunError {
    fn from(error: ort::Error) -> Self {
        Self::Failed(one_line(&error))
    }
}

/// The ends of what a folder promises, for [`try_limits`].
pub(crate) struct Limits<'a> {
    pub(crate) model: &'a Path,
    pub(crate) tokenizer: &'a Path,
    /// The description that promises it.
    pub(crate) recipe: &'static str,
    /// The tokenizer's largest token id.
    pub(crate) largest: u32,
    /// The longest text, in tokens.
    pub(crate) tokens_max: usize,
}

/// Runs the model on its largest token and on its longest text, so that a folder whose parts do
/// not fit each other is refused now and not in the middle of a question.
pub(crate) fn try_limits(
    limits: &Limits<'_>,
    mut run: impl FnMut(&[u32]) -> Result<(), RunError>,
) -> Result<(), OpenError> {
    let largest = limits.largest;
    run(&[largest, largest]).map_err(|error| OpenError::Vocabulary {
        path: limits.tokenizer.to_owned(),
        largest,
        source: error.into(),
    })?;
    run(&vec![0; limits.tokens_max]).map_err(|error| OpenError::Length {
        path: limits.model.to_owned(),
        recipe: limits.recipe,
        tokens: limits.tokens_max,
        source: error.into(),
    })
}

fn load(library: &Path, path: &Path, threads: usize) -> Result<Session, OpenError> {
    let environment = runtime::environment(library)?;
    let session = || -> ort::Result<Session> {
        let mut builder = Session::builder(&environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(threads)?
            // A spinning thread burns the core that the language model could use.
            .with_intra_op_spinning(false)?
            // Every run has another shape: a plan of the last one's memory does not fit the next.
            .with_memory_pattern(false)?;
        if sums_may_overflow() {
            builder = builder.with_config_entry("session.x64quantprecision", "1")?;
        }
        builder.commit_from_file(path)
    };
    session().map_err(|error| OpenError::Model {
        path: path.to_owned(),
        source: one_line(&error).into(),
    })
}

/// Whether this processor adds two products of eight bits in sixteen, so that a quantised model would read
/// other words here than elsewhere unless it is told to be exact. With integer dot products (VNNI) it is
/// exact anyway, and would take the slower way as well if it were told.
fn sums_may_overflow() -> bool {
    #[cfg(target_arch = "x86_64")]
    return !(std::arch::is_x86_feature_detected!("avx512vnni")
        || std::arch::is_x86_feature_detected!("avxvnni"));
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn inputs(session: &Session, needed: &[Input]) -> Result<Vec<Input>, String> {
    let mut inputs = Vec::new();
    for outlet in session.inputs() {
        let known = Input::ALL.into_iter().find(|i| i.name() == outlet.name());
        inputs.push(known.ok_or_else(|| format!("it wants an input {:?}", outlet.name()))?);
    }
    for needed in needed {
        if !inputs.contains(needed) {
            return Err(format!("it has no input {:?}", needed.name()));
        }
    }
    Ok(inputs)
}
