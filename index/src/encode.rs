//! From passages of a corpus to rows of an index; and rows of an index to rows of another.

use spechop_ports::{Encoder, PortError};
use spechop_store::{IndexWriter, PassageIndex, PassageRef};

use crate::build::Progress;
use crate::corpus::{Corpus, Record};
use crate::error::BuildError;

/// After so many rows that were copied, they are made to survive a kill.
const COPIED_AT_ONCE: usize = 1 << 13;

/// Encodes passages behind the rows that an index has already.
pub(crate) struct Encoding<'a> {
    pub(crate) encoder: &'a dyn Encoder,
    /// Rows before the first passage that is encoded.
    pub(crate) base: usize,
    /// Passages to encode, those of earlier runs included.
    pub(crate) total: usize,
    /// Passages given to the encoder at once. It sorts them by length among themselves.
    pub(crate) batch_rows: usize,
}

impl Encoding<'_> {
    /// Encodes what is missing. `corpus` stands at the first passage of all that are to be encoded.
    /// Ends early where the corpus does.
    pub(crate) async fn run(
        &self,
        writer: &mut IndexWriter,
        corpus: &mut Corpus,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), BuildError> {
        let total = self.total;
        let mut done = writer.rows() - self.base;
        for _ in 0..done {
            corpus.next()?;
        }
        progress(Progress { done, total });
        while done < total {
            // Batches end at fixed rows, wherever this run began: company in a batch may touch the
            // last bits of a vector.
            let room = (self.batch_rows - done % self.batch_rows).min(total - done);
            let mut batch = Vec::with_capacity(room);
            while batch.len() < room
                && let Some(record) = corpus.next()?
            {
                batch.push(record);
            }
            if batch.is_empty() {
                break;
            }
            self.batch(writer, &batch).await?;
            // Milliseconds, where a batch takes seconds.
            writer.checkpoint()?;
            done = writer.rows() - self.base;
            progress(Progress { done, total });
        }
        Ok(())
    }

    async fn batch(&self, writer: &mut IndexWriter, batch: &[Record]) -> Result<(), BuildError> {
        let texts: Vec<String> = batch.iter().map(Record::encoded).collect();
        let vectors = match self.encoder.encode_passages(texts).await {
            Ok(vectors) if vectors.len() == batch.len() => Ok(vectors),
            Ok(vectors) => Err(PortError::Malformed {
                what: "the encoder".into(),
                detail: format!("{} vectors for {} passages", vectors.len(), batch.len()),
            }),
            Err(error) => Err(error),
        };
        let vectors = vectors.map_err(|source| BuildError::Encoder {
            first: writer.rows() - self.base,
            count: batch.len(),
            source,
        })?;
        for (record, vector) in batch.iter().zip(&vectors) {
            let passage = PassageRef {
                id: &record.id,
                title: &record.title,
                text: &record.text,
                url: record.url.as_deref(),
                in_degree: record.in_degree,
            };
            writer.push(passage, vector)?;
        }
        Ok(())
    }
}

/// Appends rows of an index that is there, bit for bit.
pub(crate) fn copy_rows(
    writer: &mut IndexWriter,
    from: &PassageIndex,
    rows: impl Iterator<Item = usize>,
) -> Result<(), BuildError> {
    for (copied, row) in (1..).zip(rows) {
        let (vector, scale) = from.vector(row)?;
        writer.push_quantised(from.passage(row)?.fields(), vector, scale)?;
        if copied % COPIED_AT_ONCE == 0 {
            writer.checkpoint()?;
        }
    }
    Ok(())
}
