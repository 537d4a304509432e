//! The exact search: every row against every query of a batch, in one pass.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::dots::Batch;
use crate::error::Fault;
use crate::layout::stride;
use crate::lexical::Lexical;
use crate::shard::Shard;

/// Rows compared with all queries of a batch before the next rows are touched: 24 KiB at 384
/// components, so that they come from memory once and from the first-level cache afterwards.
const BLOCK_ROWS: usize = 64;

/// Rows between two looks at the file that they are mapped from: 1.5 MiB at 384 components. A look
/// takes less than a microsecond, this many rows take a few hundred.
const GUARDED_ROWS: usize = 64 * BLOCK_ROWS;

/// A query as the scan wants it: int8, as the rows are.
#[derive(Clone, Debug)]
pub struct Query {
    row: Vec<i8>,
    scale: f32,
    limit: usize,
    /// What was asked, if its words are to count, too.
    text: Option<Box<str>>,
    /// What the words add to the score of each row of the index; empty if they add nothing.
    bonus: Vec<f32>,
}

/// A row that a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Its number within the index.
    pub row: usize,
    /// Approximate dot product with the query, and what its words add.
    pub score: f32,
}

impl Query {
    /// Prepares a search for the `limit` rows nearest to `vector`. `None` where a component is not
    /// a finite number.
    pub fn new(vector: &[f32], limit: usize) -> Option<Self> {
        let mut row = Vec::new();
        let scale = quantise(vector, &mut row)?;
        Some(Self {
            row,
            scale,
            limit,
            text: None,
            bonus: Vec::new(),
        })
    }

    /// The same query, with the text that its vector stands for.
    pub(crate) fn of_text(self, text: &str) -> Self {
        Self {
            text: Some(text.into()),
            ..self
        }
    }

    /// Whether its words are still to be mixed in.
    pub(crate) fn has_words(&self) -> bool {
        self.text.is_some()
    }

    /// From now on its words count, if it has a text.
    pub(crate) fn mix(&mut self, lexical: &Lexical) {
        if let Some(text) = self.text.take() {
            self.bonus = lexical.bonus(&text);
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes of the row, padding included.
    pub(crate) fn stride(&self) -> usize {
        self.row.len()
    }
}

/// Writes `vector` into `row` as int8, padded with zeros, and returns the scale: each component is
/// its int8 times the scale, to within half a scale. `None` where a component is not finite.
pub(crate) fn quantise(vector: &[f32], row: &mut Vec<i8>) -> Option<f32> {
    if !vector.iter().all(|x| x.is_finite()) {
        return None;
    }
    let largest = vector.iter().fold(0f32, |largest, x| largest.max(x.abs()));
    let scale = largest / 127.0;
    row.clear();
    // A scale too small to divide by is a vector of zeros.
    let inverse = if scale.is_normal() {
        scale.recip()
    } else {
        0.0
    };
    row.extend(vector.iter().map(|x| (x * inverse).round() as i8));
    row.resize(stride(vector.len()), 0);
    Some(if inverse == 0.0 { 0.0 } else { scale })
}

/// Holds rows of a shard, whose first is row `first_row` of the index, against every query, and keeps
/// each query's best in its `Top`. Refused if the shard's file has changed; nothing in `tops` may be
/// believed then.
pub(crate) fn scan(
    shard: &Shard,
    rows: std::ops::Range<usize>,
    first_row: usize,
    queries: &[&Query],
    tops: &mut [Top],
) -> Result<(), Fault> {
    let batch = Batch::new(queries.iter().map(|query| &*query.row));
    let mut start = rows.start;
    while start < rows.end {
        let end = rows.end.min(start + GUARDED_ROWS);
        let vectors = shard.vectors(start..end)?;
        compare(shard, vectors, start..end, first_row, queries, &batch, tops);
        start = end;
    }
    Ok(())
}

/// The same, of rows whose vectors are at hand.
fn compare(
    shard: &Shard,
    vectors: &[i8],
    rows: std::ops::Range<usize>,
    first_row: usize,
    queries: &[&Query],
    batch: &Batch<'_>,
    tops: &mut [Top],
) {
    let stride = vectors.len() / rows.len().max(1);
    let (mut products, mut scores) = (Vec::new(), Vec::new());
    let mut start = rows.start;
    for block in vectors.chunks(BLOCK_ROWS * stride) {
        batch.products(block, stride, &mut products);
        let end = start + block.len() / stride;
        for ((query, top), products) in queries
            .iter()
            .zip(tops.iter_mut())
            .zip(products.chunks_exact(end - start))
        {
            let numbers = products.iter().zip(shard.scales(start..end));
            scores.clear();
            scores.extend(numbers.map(|(product, scale)| *product as f32 * scale * query.scale));
            let bonus = query.bonus.get(first_row + start..).unwrap_or_default();
            for (score, bonus) in scores.iter_mut().zip(bonus) {
                *score += bonus;
            }
            top.offer_all(first_row + start, &scores);
        }
        start = end;
    }
}

/// The best rows seen so far, at most `limit`. Of equal scores the lower row is better, so that the
/// result does not depend on the order in which rows come. A score that is no number is the worst.
pub(crate) struct Top {
    limit: usize,
    /// Worst on top.
    heap: BinaryHeap<Reverse<Ranked>>,
}

impl Top {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            heap: BinaryHeap::new(),
        }
    }

    /// Offers the scores of rows that follow one another, the first of which is `first_row`.
    fn offer_all(&mut self, first_row: usize, scores: &[f32]) {
        // Most blocks hold no row that is good enough, and the highest score says so at once.
        let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if self.heap.len() == self.limit
            && let Some(Reverse(worst)) = self.heap.peek()
            && highest < worst.0.score
        {
            return;
        }
        for (at, score) in scores.iter().enumerate() {
            self.offer(Hit {
                row: first_row + at,
                score: *score,
            });
        }
    }

    pub(crate) fn offer(&mut self, hit: Hit) {
        let hit = Ranked(hit);
        if self.heap.len() < self.limit {
            self.heap.push(Reverse(hit));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && !surely_lower(hit, worst.0)
            && hit > worst.0
        {
            *worst = Reverse(hit);
        }
    }

    /// Best first.
    pub(crate) fn into_hits(self) -> Vec<Hit> {
        let sorted = self.heap.into_sorted_vec();
        sorted.into_iter().map(|Reverse(Ranked(hit))| hit).collect()
    }
}

/// The quick answer for most rows. Of a score that is no number it says nothing.
fn surely_lower(a: Ranked, b: Ranked) -> bool {
    a.0.score < b.0.score
}

#[derive(Clone, Copy)]
struct Ranked(Hit);

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.0, other.0);
        let is_number = |hit: Hit| !hit.score.is_nan();
        is_number(a)
            .cmp(&is_number(b))
            .then(a.score.total_cmp(&b.score))
            .then(b.row.cmp(&a.row))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantises() {
        for (vector, ints, scale) in [
            (&[1.0, -1.0, 0.5, 0.0][..], [127, -127, 64, 0], 1.0 / 127.0),
            (&[0.0; 4], [0; 4], 0.0),
            (&[1e-44; 4], [0; 4], 0.0),
            (
                &[f32::MAX, f32::MIN, 0.0, 0.0],
                [127, -127, 0, 0],
                f32::MAX / 127.0,
            ),
        ] {
            let mut row = vec![9; 3];
            assert_eq!(quantise(vector, &mut row), Some(scale), "{vector:?}");
            assert_eq!(row.len(), 64);
            assert_eq!(row[..4], ints, "{vector:?}");
            assert!(row[4..].iter().all(|x| *x == 0));
        }
        assert_eq!(quantise(&[1.0, f32::NAN], &mut Vec::new()), None);
        assert_eq!(quantise(&[f32::INFINITY], &mut Vec::new()), None);
    }

    proptest! {
        /// Every component comes back to within half a scale.
        #[test]
        fn quantisation_error_is_bounded(vector in prop::collection::vec(-10f32..10.0, 1..200)) {
            let mut row = Vec::new();
            let scale = quantise(&vector, &mut row).unwrap();
            for (x, q) in vector.iter().zip(&row) {
                prop_assert!((x - f32::from(*q) * scale).abs() <= scale * 0.5001, "{x} {q} {scale}");
            }
        }

        /// The heap agrees with sorting everything; few distinct scores, so that ties abound.
        #[test]
        fn top_is_the_head_of_the_sorted(scores in prop::collection::vec(0i8..5, 0..200), limit in 0usize..20) {
            let hits = scores.iter().enumerate().map(|(row, score)| Hit { row, score: f32::from(*score) });
            let mut top = Top::new(limit);
            hits.clone().for_each(|hit| top.offer(hit));
            let mut sorted: Vec<Hit> = hits.collect();
            sorted.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
            sorted.truncate(limit);
            prop_assert_eq!(top.into_hits(), sorted);
        }

        /// Also among scores that are no numbers: those come last, whenever they come.
        #[test]
        fn what_is_no_number_is_the_worst(scores in prop::collection::vec(-3i8..5, 0..100), limit in 0usize..20) {
            let score = |s: i8| match s { -3 => f32::NAN, -2 => -f32::NAN, s => f32::from(s) };
            let (mut top, mut by_blocks) = (Top::new(limit), Top::new(limit));
            for (row, s) in scores.iter().enumerate() {
                top.offer(Hit { row, score: score(*s) });
            }
            for (block, scores) in scores.chunks(7).enumerate() {
                let scores: Vec<f32> = scores.iter().map(|s| score(*s)).collect();
                by_blocks.offer_all(7 * block, &scores);
            }
            let rows = |hits: Vec<Hit>| hits.iter().map(|hit| hit.row).collect::<Vec<_>>();
            let mut sorted: Vec<f32> = scores.iter().map(|s| score(*s)).collect();
            sorted.sort_by(|a, b| a.is_nan().cmp(&b.is_nan()).then(b.total_cmp(a)));
            sorted.truncate(limit);
            let hits = top.into_hits();
            let found: Vec<f32> = hits.iter().map(|hit| hit.score).collect();
            prop_assert_eq!(rows(by_blocks.into_hits()), rows(hits));
            let words = |scores: &[f32]| format!("{scores:?}");
            prop_assert_eq!(words(&found), words(&sorted));
        }
    }
}
