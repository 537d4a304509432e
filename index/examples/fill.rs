//! Fills an index up to a size with perturbed copies of its own passages, so that a large index can be
//! measured without encoding it.
//!
//! ```text
//! cargo run --release -p spechop-index --example fill -- FROM OUT ROWS
//! ```
//!
//! The passages of FROM come first, as they are. Each further one is a mixture of two of them: its
//! vector lies between theirs, and its text is half of each. So the copies lie as dense as passages do,
//! and none of them is the passage that a question needs. Row n is the same whoever makes it: a run
//! that was killed goes on where it was, to the same bytes.
#![allow(clippy::print_stdout, reason = "what it is for")]

use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};
use spechop_store::{IndexWriter, Inputs, PassageIndex, PassageRef};

/// After so many rows, they are made to survive a kill, and told.
const AT_ONCE: usize = 1 << 14;

/// The share of the second passage in a mixture, relative to that of the first.
const SHARE: std::ops::Range<f32> = 0.4..1.0;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, out, rows] = &args[..] else {
        return Err("say FROM OUT ROWS: an index, a folder, and how many passages".into());
    };
    let from = PassageIndex::open_verified(Path::new(from))?;
    let rows: usize = rows.parse()?;
    if rows < from.rows() {
        return Err(format!(
            "{rows} passages are fewer than the {} there are",
            from.rows()
        )
        .into());
    }
    fill(&from, Path::new(out), rows)
}

fn fill(from: &PassageIndex, out: &Path, rows: usize) -> Result<(), Error> {
    let corpus = format!("{} filled up to {rows}", from.inputs().corpus_sha256);
    let hash = Sha256::digest(corpus);
    let inputs = Inputs {
        corpus_sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        subset: None,
        part: None,
        ..from.inputs().clone()
    };
    let mut writer = IndexWriter::open(out, inputs)?;
    println!("{} of {rows} passages are there", writer.rows());
    while writer.rows() < rows {
        let row = writer.rows();
        if row < from.rows() {
            let (vector, scale) = from.vector(row)?;
            writer.push_quantised(from.passage(row)?.fields(), vector, scale)?;
        } else {
            push_mixture(from, &mut writer, row)?;
        }
        if writer.rows() % AT_ONCE == 0 {
            writer.checkpoint()?;
            println!("{} of {rows}", writer.rows());
        }
    }
    writer.finish()?;
    Ok(())
}

fn push_mixture(from: &PassageIndex, writer: &mut IndexWriter, row: usize) -> Result<(), Error> {
    let mut random = StdRng::seed_from_u64(row as u64);
    let (first, second) = (row % from.rows(), random.random_range(0..from.rows()));
    let share = random.random_range(SHARE);
    let (a, b) = (unpacked(from, first)?, unpacked(from, second)?);
    let mut vector: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + share * b).collect();
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= norm);
    let (a, b) = (from.passage(first)?, from.passage(second)?);
    let (a, b) = (a.fields(), b.fields());
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (head, tail) = (words(a.text), words(b.text));
    let half = [&head[..head.len() / 2], &tail[tail.len() / 2..]].concat();
    writer.push(
        PassageRef {
            id: &format!("copy-{row}"),
            title: &format!("{} / {}", a.title, b.title),
            text: &half.join(" "),
            ..PassageRef::default()
        },
        &vector,
    )?;
    Ok(())
}

fn unpacked(index: &PassageIndex, row: usize) -> Result<Vec<f32>, Error> {
    let (vector, scale) = index.vector(row)?;
    let components = vector.iter().take(index.width());
    Ok(components.map(|x| f32::from(*x) * scale).collect())
}
