//! Blocks of 32 weights, as ggml stores them: read as floats, and written.
//!
//! What a weight becomes hangs on its block alone, and on additions in a fixed order, so the bytes are the
//! same on every machine.

use half::f16;

/// Weights of a block.
pub(crate) const BLOCK: usize = 32;

/// A form of storage, `GGML_TYPE_…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    F32,
    F16,
    /// Four bits a weight, with a scale and a minimum for each block.
    Q4_1,
    /// Eight bits a weight, with a scale for each block.
    Q8_0,
    /// Four bits a weight, which choose one of [`LEVELS`], with a scale for each block. llama.cpp
    /// computes with eight rows of it at once.
    Iq4Nl,
}

/// What four bits stand for in [`Form::Iq4Nl`]: close together near zero, where most weights are.
const LEVELS: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

/// The scales that are tried on either side of the one that makes the largest weight an extreme level,
/// in units of a level.
const TRIED: i32 = 7;

impl Form {
    /// The form that [`write`] writes.
    pub(crate) const WRITTEN: Self = Self::Iq4Nl;

    /// The form of a tensor, if it can be read here.
    pub(crate) fn of(kind: u32) -> Option<Self> {
        Some(match kind {
            0 => Self::F32,
            1 => Self::F16,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            20 => Self::Iq4Nl,
            _ => return None,
        })
    }

    /// `GGML_TYPE_…`.
    pub(crate) fn kind(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_1 => 3,
            Self::Q8_0 => 8,
            Self::Iq4Nl => 20,
        }
    }

    /// Bytes of 32 weights.
    pub(crate) fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4 * BLOCK,
            Self::F16 => 2 * BLOCK,
            Self::Q4_1 => 4 + BLOCK / 2,
            Self::Q8_0 => 2 + BLOCK,
            Self::Iq4Nl => 2 + BLOCK / 2,
        }
    }

    /// The weights of whole blocks, as a file of them was read; of F32 and F16, which have none, any number.
    pub(crate) fn read(self, bytes: &[u8], weights: &mut [f32]) {
        let blocks = bytes.chunks(self.block_bytes());
        for (bytes, weights) in blocks.zip(weights.chunks_mut(BLOCK)) {
            match self {
                Self::F32 => fill(weights, bytes.as_chunks().0.iter(), |&four| {
                    f32::from_le_bytes(four)
                }),
                Self::F16 => fill(weights, bytes.chunks_exact(2), half),
                Self::Q4_1 => {
                    let (scale, least) = (half(&bytes[..2]), half(&bytes[2..4]));
                    nibbles(&bytes[4..], weights, |level| {
                        scale * f32::from(level) + least
                    });
                }
                Self::Q8_0 => {
                    let scale = half(&bytes[..2]);
                    fill(weights, bytes[2..].iter(), |&byte| {
                        scale * f32::from(byte.cast_signed())
                    });
                }
                Self::Iq4Nl => {
                    let scale = half(&bytes[..2]);
                    nibbles(&bytes[2..], weights, |level| {
                        scale * LEVELS[usize::from(level)]
                    });
                }
            }
        }
    }
}

/// Appends whole blocks of weights, in [`Form::WRITTEN`].
pub(crate) fn write(weights: &[f32], out: &mut Vec<u8>) {
    weights
        .chunks_exact(BLOCK)
        .for_each(|block| write_iq4_nl(block, out));
}

fn half(two: &[u8]) -> f32 {
    f16::from_le_bytes([two[0], two[1]]).to_f32()
}

fn fill<T>(weights: &mut [f32], from: impl Iterator<Item = T>, read: impl Fn(T) -> f32) {
    for (weight, from) in weights.iter_mut().zip(from) {
        *weight = read(from);
    }
}

/// The first half of a block is in the low halves of its bytes.
fn nibbles(bytes: &[u8], weights: &mut [f32], read: impl Fn(u8) -> f32) {
    let (low, high) = weights.split_at_mut(BLOCK / 2);
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        *low = read(byte & 15);
        *high = read(byte >> 4);
    }
}

/// The scale that leaves the least error, where an error counts by the square of its weight: large weights
/// decide what a matrix does.
fn write_iq4_nl(block: &[f32], out: &mut Vec<u8>) {
    let largest = block.iter().copied().fold(0.0_f32, |most, weight| {
        if weight.abs() > most.abs() {
            weight
        } else {
            most
        }
    });
    let (mut best, mut scale) = (0.0, 0.0);
    if largest != 0.0 {
        for step in -TRIED..=TRIED {
            #[expect(clippy::cast_precision_loss, reason = "single digits")]
            let inverse = (step as f32 + LEVELS[0]) / largest;
            let (mut product, mut square) = (0.0_f32, 0.0_f32);
            for &weight in block {
                let level = LEVELS[usize::from(nearest(weight * inverse))];
                let importance = weight * weight;
                product += importance * level * weight;
                square += importance * level * level;
            }
            if square > 0.0 && product * product > best * square {
                scale = product / square;
                best = scale * product;
            }
        }
    }
    let scale = f16::from_f32(scale);
    out.extend(scale.to_le_bytes());
    let scale = scale.to_f32();
    let inverse = if scale == 0.0 { 0.0 } else { scale.recip() };
    let (low, high) = block.split_at(BLOCK / 2);
    out.extend(
        low.iter()
            .zip(high)
            .map(|(low, high)| nearest(low * inverse) | nearest(high * inverse) << 4),
    );
}

/// What lies halfway between one level and the next.
const BETWEEN: [f32; 15] = {
    let (mut between, mut at) = ([0.0; 15], 0);
    while at < between.len() {
        between[at] = (LEVELS[at] + LEVELS[at + 1]) / 2.0;
        at += 1;
    }
    between
};

/// The place of the level that is nearest to a number. All are compared: that needs no branch.
fn nearest(number: f32) -> u8 {
    BETWEEN
        .iter()
        .map(|&between| u8::from(number > between))
        .sum()
}
