//! Merges a LoRA adapter into the model that it was trained for, both GGUF files.
//!
//! ```text
//! W + (alpha / rank) · B·A      for each matrix W that the adapter has a pair A, B for
//! ```
//!
//! llama.cpp can add an adapter while it computes, which costs three more operations for each matrix. In a
//! small model that is an eighth of the time. The merged matrices are also stored in a form that
//! llama.cpp computes with faster than with the usual `Q4_1`: in four bits with unequal steps (`IQ4_NL`), of
//! which it takes eight rows of a matrix at once, and four tokens. A model whose last matrix is that of its
//! vocabulary, stored in eight bits for looking tokens up, gets a copy in that form for choosing the next
//! token. docs/MEASURED.md has the times of a call, docs/TRIED.md what merging saves and what the answers say to it.
//!
//! This crate reads and writes bytes, and runs no model. The same files give the same bytes everywhere, so
//! whoever calls it can know their hash.

mod block;
mod error;
mod read;

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::thread;

use block::{BLOCK, Form};
pub use error::{MergeError, ReadError};
use read::{Gguf, TENSOR_COUNT_AT, Tensor};

/// `general.file_type` of a model whose matrices are mostly in [`Form::Iq4Nl`].
const MOSTLY_IQ4_NL: u32 = 25;

/// The matrix of the vocabulary, a row for each token: what a token looks like, and in many small models
/// also what is likeliest to follow, unless there is [`OUTPUT`].
const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";

/// What the new file is made of.
struct Merged<'a> {
    alignment: usize,
    placed: Vec<Placed<'a>>,
    data: Vec<u8>,
}

/// A tensor of the new file.
struct Placed<'a> {
    name: &'a str,
    /// What it is made from; its shape is the same.
    tensor: &'a Tensor<'a>,
    kind: u32,
    /// Where its numbers begin.
    at: usize,
}

/// A pair of small matrices whose product is added to a large one.
struct Pair {
    /// `rank` rows as long as those of the large matrix.
    a: Vec<f32>,
    /// A row of `rank` numbers for each row of the large matrix.
    b: Vec<f32>,
    rank: usize,
}

/// The model with the adapter in it. What the adapter does not change stays as it is, keys included.
///
/// Memory: the new file twice, and the numbers of the largest matrix.
///
/// # Errors
///
/// If a file is damaged or no such file, or if they do not fit each other: see [`MergeError`].
pub fn merge(model: &[u8], adapter: &[u8]) -> Result<Vec<u8>, MergeError> {
    let file = |which| move |why| MergeError::File { which, why };
    let model = Gguf::read(model).map_err(file("the model"))?;
    let adapter = Gguf::read(adapter).map_err(file("the adapter"))?;
    let pairs = pairs(&model, &adapter)?;
    let mut merged = Merged {
        alignment: model.alignment,
        placed: Vec::with_capacity(model.tensors.len() + 1),
        data: Vec::with_capacity(model.bytes.len() * 3 / 2),
    };
    for tensor in &model.tensors {
        let written = match pairs.get(tensor.name) {
            Some(pair) => {
                let weights = added(tensor, pair).map_err(file("the model"))?;
                Some(written(&weights, tensor.shape[0]))
            }
            None => None,
        };
        merged.place(tensor.name, tensor, written);
    }
    if let Some(embedding) = embedding_alone(&model) {
        let weights = numbers(embedding).map_err(file("the model"))?;
        let written = written(&weights, embedding.shape[0]);
        merged.place(OUTPUT, embedding, Some(written));
    }
    Ok(merged.file(&model))
}

/// The matrix of the vocabulary, if there is no other one to choose the next token by, and it can be written.
fn embedding_alone<'a, 'b>(model: &'b Gguf<'a>) -> Option<&'b Tensor<'a>> {
    let of_model = by_name(model);
    let embedding = *of_model.get(EMBEDDING)?;
    let has_rows = matches!(embedding.shape[..], [width, _] if width % BLOCK == 0);
    let is_alone = !of_model.contains_key(OUTPUT) && Form::of(embedding.kind).is_some();
    (has_rows && is_alone).then_some(embedding)
}

/// A matrix in the form of those that are merged, part by part.
fn written(weights: &[f32], width: usize) -> Vec<Vec<u8>> {
    in_threads(weights, width, |rows| {
        let mut out = Vec::with_capacity(rows.len() / BLOCK * Form::WRITTEN.block_bytes());
        block::write(rows, &mut out);
        out
    })
}

/// The adapter's pairs by the tensors that they belong to, scaled.
fn pairs<'a>(model: &Gguf<'a>, adapter: &Gguf<'_>) -> Result<HashMap<&'a str, Pair>, MergeError> {
    let unfit = |detail: String| MergeError::Unfit { detail };
    let is_lora = adapter.text("adapter.type") == Some(b"lora");
    let alpha = adapter.float("adapter.lora.alpha").filter(|_| is_lora);
    let alpha = alpha.ok_or(MergeError::NoAdapter)?;
    let (of_model, of_adapter) = (by_name(model), by_name(adapter));
    let mut pairs = HashMap::new();
    for tensor in &adapter.tensors {
        let (name, side) = tensor
            .name
            .rsplit_once(".lora_")
            .unwrap_or((tensor.name, ""));
        let base = of_model
            .get(name)
            .ok_or_else(|| unfit(format!("the model has no {name}")))?;
        let other = match side {
            "a" => "b",
            "b" => "a",
            _ => return Err(unfit(format!("{} is no half of a pair", tensor.name))),
        };
        let other = of_adapter.get(format!("{name}.lora_{other}").as_str());
        let other = other.ok_or_else(|| unfit(format!("{} is alone", tensor.name)))?;
        if side == "b" {
            continue;
        }
        let (a, b) = (tensor, other);
        // The rows of A are as long as those of W; B has as many rows as W, and A as many as B's are long.
        let (&[width, rows], &[a_width, rank], &[b_width, b_rows]) =
            (&base.shape[..], &a.shape[..], &b.shape[..])
        else {
            return Err(unfit(format!("{name} is no matrix")));
        };
        if (a_width, b_rows, b_width) != (width, rows, rank) || width % BLOCK != 0 {
            return Err(unfit(format!("{name} has {rows} rows of {width}")));
        }
        let read = |half: &Tensor<'_>| {
            numbers(half).map_err(|why| MergeError::File {
                which: "the adapter",
                why,
            })
        };
        // As llama.cpp has it: an alpha of nought means that nothing is scaled.
        #[expect(clippy::cast_precision_loss, reason = "ranks are small")]
        let scale = if alpha == 0.0 {
            1.0
        } else {
            alpha / rank as f32
        };
        let mut b = read(b)?;
        b.iter_mut().for_each(|number| *number *= scale);
        pairs.insert(
            base.name,
            Pair {
                a: read(a)?,
                b,
                rank,
            },
        );
    }
    if pairs.is_empty() {
        return Err(MergeError::NothingToDo);
    }
    Ok(pairs)
}

fn by_name<'a, 'b>(file: &'b Gguf<'a>) -> HashMap<&'a str, &'b Tensor<'a>> {
    file.tensors
        .iter()
        .map(|tensor| (tensor.name, tensor))
        .collect()
}

/// The numbers of a tensor.
fn numbers(tensor: &Tensor<'_>) -> Result<Vec<f32>, ReadError> {
    let form = Form::of(tensor.kind).ok_or_else(|| ReadError::Kind {
        name: tensor.name.to_owned(),
        kind: tensor.kind,
    })?;
    let mut numbers = vec![0.0; tensor.shape.iter().product()];
    form.read(tensor.data, &mut numbers);
    Ok(numbers)
}

/// A matrix with its pair added.
fn added(tensor: &Tensor<'_>, pair: &Pair) -> Result<Vec<f32>, ReadError> {
    let mut weights = numbers(tensor)?;
    let width = tensor.shape[0];
    for (row, b) in weights
        .chunks_exact_mut(width)
        .zip(pair.b.chunks_exact(pair.rank))
    {
        for (b, a) in b.iter().zip(pair.a.chunks_exact(width)) {
            for (weight, a) in row.iter_mut().zip(a) {
                *weight += b * a;
            }
        }
    }
    Ok(weights)
}

/// Parts of a matrix, cut between its rows, each worked on by a thread.
fn in_threads<T: Send>(weights: &[f32], width: usize, work: impl Fn(&[f32]) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let rows = (weights.len() / width).div_ceil(threads);
    thread::scope(|scope| {
        let parts = weights.chunks(rows * width);
        let started: Vec<_> = parts.map(|rows| scope.spawn(|| work(rows))).collect();
        let ended = started
            .into_iter()
            .map(|part| part.join().unwrap_or_else(|why| resume_unwind(why)));
        ended.collect()
    })
}

impl<'a> Merged<'a> {
    /// Adds a tensor: as it is, or as it is written anew, part by part.
    fn place(&mut self, name: &'a str, tensor: &'a Tensor<'a>, written: Option<Vec<Vec<u8>>>) {
        let at = self.data.len();
        let kind = match written {
            Some(parts) => {
                parts.into_iter().for_each(|part| self.data.extend(part));
                Form::WRITTEN.kind()
            }
            None => {
                self.data.extend_from_slice(tensor.data);
                tensor.kind
            }
        };
        let size = self.data.len().next_multiple_of(self.alignment);
        self.data.resize(size, 0);
        self.placed.push(Placed {
            name,
            tensor,
            kind,
            at,
        });
    }

    /// The file: the model's keys, the tensors with their forms and places, and their numbers.
    fn file(&self, model: &Gguf<'_>) -> Vec<u8> {
        let (placed, data) = (&self.placed, &self.data);
        let long = |number: usize| (number as u64).to_le_bytes();
        let mut out = Vec::with_capacity(model.tensors_at + data.len() + data.len() / 64);
        out.extend_from_slice(&model.bytes[..model.tensors_at]);
        out[TENSOR_COUNT_AT..][..size_of::<u64>()].copy_from_slice(&long(placed.len()));
        if let Some(at) = model.int_at("general.file_type") {
            out[at..at + 4].copy_from_slice(&MOSTLY_IQ4_NL.to_le_bytes());
        }
        for &Placed {
            name,
            tensor,
            kind,
            at,
        } in placed
        {
            out.extend(long(name.len()));
            out.extend_from_slice(name.as_bytes());
            out.extend(tensor.dimensions.to_le_bytes());
            tensor
                .shape
                .iter()
                .for_each(|&length| out.extend(long(length)));
            out.extend(kind.to_le_bytes());
            out.extend(long(at));
        }
        out.resize(out.len().next_multiple_of(model.alignment), 0);
        out.extend_from_slice(data);
        out
    }
}

#[cfg(test)]
mod tests;
