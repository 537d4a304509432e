//! From passages of a corpus to rows of an index; and rows of an index to rows of another.

use spechop_ports::{Call, Encoder, PortError, TextKind};
use spechop_store::{IndexWriter, PassageIndex, PassageRef};

use crate::build::Progress;
use crate::corpus::{Corpus, Record};
use crate::error::BuildError;

/// After so many rows that were copied, they are made to survive a kill.
const COPIED_AT_ONCE: usize = 1 << 13;

/// Encodes passages behind the rows that an index has already.
pub(crate) struct Encoding<'a> {
    pub(crate) encoder: &'a dyn Encoder,
    /// The index, and those of its rows, that were copied before the first passage that is encoded.
    pub(crate) copied: Option<(&'a PassageIndex, &'a [usize])>,
    /// Number of the first passage that is encoded, in the corpus.
    pub(crate) first: usize,
    /// Passages to encode, those of earlier runs included.
    pub(crate) total: usize,
    /// Passages given to the encoder at once. It sorts them by length among themselves.
    pub(crate) batch_rows: usize,
}

impl Encoding<'_> {
    /// Encodes what is missing. `corpus` stands at the first passage of all that are to be encoded.
    /// Ends early where the corpus does.
    ///
    /// False, and nothing was encoded, if rows of an earlier run are not of this corpus: it had changed
    /// while that run read it.
    pub(crate) async fn run(
        &self,
        writer: &mut IndexWriter,
        corpus: &mut Corpus,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<bool, BuildError> {
        let (total, base) = (self.total, self.base());
        let mut done = writer.rows() - base;
        if done > 0 && !self.are_of(writer, corpus)? {
            return Ok(false);
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
            if batch.len() < room {
                // Shorter than it was: nothing of this will be used.
                break;
            }
            self.batch(writer, &batch).await?;
            // Milliseconds, where a batch takes seconds.
            writer.checkpoint()?;
            done = writer.rows() - base;
            progress(Progress { done, total });
        }
        Ok(true)
    }

    /// Whether the rows that earlier runs have encoded are the first ones of the corpus, which is read
    /// as far as that.
    fn are_of(&self, writer: &IndexWriter, corpus: &mut Corpus) -> Result<bool, BuildError> {
        let mut written = writer.compare_from(self.base());
        if let Some((from, rows)) = self.copied {
            // The shard may begin with rows that were copied.
            for &row in &rows[written.row()..] {
                written.take(from.passage(row)?.fields());
            }
        }
        while written.row() < writer.rows()
            && let Some(record) = corpus.next()?
        {
            written.take(fields(&record));
        }
        Ok(written.is_equal())
    }

    /// Rows before the first passage that is encoded.
    fn base(&self) -> usize {
        self.copied.map_or(0, |(_, rows)| rows.len())
    }

    async fn batch(&self, writer: &mut IndexWriter, batch: &[Record]) -> Result<(), BuildError> {
        let texts: Vec<String> = batch.iter().map(Record::encoded).collect();
        let call = Call::authoritative();
        let encoded = self.encoder.encode(&call, TextKind::Passage, texts).await;
        let vectors = match encoded.map(|encoded| encoded.vectors) {
            Ok(vectors) if vectors.len() == batch.len() => Ok(vectors),
            Ok(vectors) => {
                let detail = format!("{} vectors for {} passages", vectors.len(), batch.len());
                Err(PortError::malformed("the encoder", detail))
            }
            Err(error) => Err(error),
        };
        let vectors = vectors.map_err(|source| BuildError::Encoder {
            first: self.first + writer.rows() - self.base(),
            count: batch.len(),
            source,
        })?;
        for (record, vector) in batch.iter().zip(&vectors) {
            writer.push(fields(record), vector)?;
        }
        Ok(())
    }
}

fn fields(record: &Record) -> PassageRef<'_> {
    PassageRef {
        id: &record.id,
        title: &record.title,
        text: &record.text,
        url: record.url.as_deref(),
        in_degree: record.in_degree,
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
