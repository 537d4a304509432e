//! A matrix of f32 in eight bits.

use crate::QuantiseError;
use crate::proto::{EXTERNAL, FLOAT, Tensor};

/// Matrices with fewer numbers stay as they are: they take no time.
const LARGE: usize = 1 << 14;

/// The largest quantised weight. Processors without integer dot products (AVX2 without VNNI) add two
/// products of an unsigned and a signed byte in sixteen bits, which hold 2 · 255 · 64 but not
/// 2 · 255 · 127: with more, sums would be cut off there, and vectors would differ between machines.
const MOST: f32 = 64.0;

/// A quantised matrix, for `x · w`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Int8 {
    /// Rows: components of the input.
    pub(crate) rows: usize,
    /// Columns: components of the output.
    pub(crate) columns: usize,
    /// Row by row.
    pub(crate) values: Vec<i8>,
    /// What a unit of each column is worth.
    pub(crate) scales: Vec<f32>,
}

/// The sides of a tensor that is a large matrix of f32.
pub(crate) fn large(tensor: &Tensor) -> Option<(usize, usize)> {
    let &[rows, columns] = tensor.dims.as_slice() else {
        return None;
    };
    let (rows, columns) = (usize::try_from(rows).ok()?, usize::try_from(columns).ok()?);
    let is_large = rows.checked_mul(columns)? >= LARGE;
    (is_large && tensor.data_type == Some(FLOAT)).then_some((rows, columns))
}

/// Quantises a tensor for which [`large`] gives `sides`; a transposed one is turned.
pub(crate) fn quantise(
    tensor: &Tensor,
    sides: (usize, usize),
    transposed: bool,
) -> Result<Int8, QuantiseError> {
    let wrong = |detail| QuantiseError::Tensor {
        tensor: tensor.name().to_owned(),
        detail,
    };
    let read = read(tensor)?;
    if read.len() != sides.0 * sides.1 {
        return Err(wrong("it has another number of values than its shape"));
    }
    if read.iter().any(|x| !x.is_finite()) {
        return Err(wrong("it holds a value that is not a number"));
    }
    let (rows, columns) = if transposed {
        (sides.1, sides.0)
    } else {
        sides
    };
    let at = |row: usize, column: usize| match transposed {
        true => read[column * rows + row],
        false => read[row * columns + column],
    };
    let mut scales = vec![0.0_f32; columns];
    for row in 0..rows {
        for (column, scale) in scales.iter_mut().enumerate() {
            *scale = scale.max(at(row, column).abs());
        }
    }
    for scale in &mut scales {
        *scale /= MOST;
        // A column of noughts, or of numbers so small that they are none.
        if !scale.is_normal() {
            *scale = 1.0;
        }
    }
    let mut values = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for (column, scale) in scales.iter().enumerate() {
            let value = (at(row, column) / scale).round_ties_even();
            values.push(value.clamp(-MOST, MOST) as i8);
        }
    }
    Ok(Int8 {
        rows,
        columns,
        values,
        scales,
    })
}

/// The values of an f32 tensor, wherever the file has put them.
fn read(tensor: &Tensor) -> Result<Vec<f32>, QuantiseError> {
    if tensor.data_location == Some(EXTERNAL) {
        let tensor = tensor.name().to_owned();
        return Err(QuantiseError::External { tensor });
    }
    match &tensor.raw_data {
        Some(raw) if tensor.float_data.is_empty() => {
            let (values, rest) = raw.as_chunks::<4>();
            if !rest.is_empty() {
                return Err(QuantiseError::Tensor {
                    tensor: tensor.name().to_owned(),
                    detail: "its last value is cut off",
                });
            }
            Ok(values
                .iter()
                .map(|&bytes| f32::from_le_bytes(bytes))
                .collect())
        }
        Some(_) | None => Ok(tensor.float_data.clone()),
    }
}
