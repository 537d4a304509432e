//! Indexes for tests.

use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::manifest::Inputs;
use crate::shard::PassageRef;
use crate::write::IndexWriter;

pub(crate) fn inputs(width: usize, shard_rows: usize) -> Inputs {
    Inputs {
        corpus_sha256: "c0".into(),
        encoder: "test-encoder".into(),
        width,
        text: "title, newline, text".into(),
        batch_rows: 1,
        shard_rows,
        subset: None,
        extended: false,
        part: None,
    }
}

/// Random unit vectors: far apart from each other, as far as anything is in `width` dimensions.
pub(crate) fn unit_vectors(seed: u64, count: usize, width: usize) -> Vec<Vec<f32>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut vector = || {
        let raw: Vec<f32> = (0..width)
            .map(|_| random.random_range(-1f32..1.0))
            .collect();
        let norm = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
        raw.iter().map(|x| x / norm).collect()
    };
    (0..count).map(|_| vector()).collect()
}

pub(crate) fn push(writer: &mut IndexWriter, row: usize, vector: &[f32]) {
    let (id, title) = (format!("p-{row}"), format!("Title {row}"));
    let text = format!(
        "Text of passage {row}, naïve and long enough: {}",
        "x".repeat(row % 97)
    );
    let url = format!("https://example.org/{row}");
    let passage = PassageRef {
        id: &id,
        title: &title,
        text: &text,
        url: Some(&url),
        in_degree: Some(row as u32),
    };
    writer.push(passage, vector).unwrap();
}

/// An index of these vectors, with passages named after their rows, without URLs and in-degrees.
pub(crate) fn write(dir: &Path, vectors: &[Vec<f32>], shard_rows: usize) {
    write_as(dir, vectors, inputs(vectors[0].len(), shard_rows));
}

/// The same with URLs and in-degrees.
pub(crate) fn write_extended(dir: &Path, vectors: &[Vec<f32>], shard_rows: usize) {
    let inputs = Inputs {
        extended: true,
        ..inputs(vectors[0].len(), shard_rows)
    };
    write_as(dir, vectors, inputs);
}

pub(crate) fn write_as(dir: &Path, vectors: &[Vec<f32>], inputs: Inputs) {
    let mut writer = IndexWriter::open(dir, inputs).unwrap();
    for (row, vector) in vectors.iter().enumerate() {
        push(&mut writer, row, vector);
    }
    writer.finish().unwrap();
}
