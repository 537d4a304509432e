//! From a corpus to an index.

use std::path::PathBuf;

use spechop_ports::{Encoder, PortError};
use spechop_store::{IndexWriter, Inputs, PassageIndex, PassageRef};

use crate::corpus::{Corpus, Identity, Record, Survey, identify, survey};
use crate::documents::Files;
use crate::error::BuildError;
use crate::folder::{Folder, finished};
use crate::hot::Hot;

/// What to build, and where.
#[derive(Clone, Debug)]
pub struct Build {
    /// The corpus: a file of lines `{"id","title","text"}`, plain or gzipped; or a folder of .txt,
    /// .md and .html files, or one such file, which are cut into passages.
    pub corpus: PathBuf,
    /// The folder of the index. An index that is there already is replaced once the new one is
    /// whole; anything else is left alone.
    pub out: PathBuf,
    /// A hot subset beside the whole.
    pub hot: Option<Hot>,
    /// Passages given to the encoder at once, and what a kill costs at most.
    pub batch_rows: usize,
    /// Most rows of a shard.
    pub shard_rows: usize,
}

/// How far a build is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Passages encoded, those of earlier runs included.
    pub done: usize,
    /// Passages of the corpus.
    pub total: usize,
}

/// What a build left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Passages in the index.
    pub rows: usize,
    /// Bytes of its files.
    pub bytes: u64,
    /// Passages that this run had to encode; 0 where the index was up to date.
    pub encoded: usize,
    /// Passages in the hot subset, where one was asked for.
    pub hot_rows: Option<usize>,
    /// What became of the documents, if the corpus is made of documents.
    pub files: Option<Files>,
}

impl Build {
    /// A build with the usual settings and no hot subset.
    pub fn new(corpus: impl Into<PathBuf>, out: impl Into<PathBuf>) -> Self {
        Self {
            corpus: corpus.into(),
            out: out.into(),
            hot: None,
            batch_rows: 256,
            shard_rows: 1 << 16,
        }
    }

    /// Builds what is not there yet. `progress` is called before the first batch and after each.
    pub async fn run(
        &self,
        encoder: &dyn Encoder,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Built, BuildError> {
        self.check()?;
        let folder = Folder::new(&self.out)?;
        let _lock = folder.lock()?;
        let (index, encoded, files) = match self.existing(&folder, encoder)? {
            Some((index, files)) => (index, 0, files),
            None => self.make(&folder, encoder, progress).await?,
        };
        let hot = self.hot.as_ref();
        let hot_rows = hot.map(|hot| hot.build(&index, &folder.out)).transpose()?;
        Ok(Built {
            rows: index.rows(),
            bytes: index.bytes(),
            encoded,
            hot_rows,
            files,
        })
    }

    fn check(&self) -> Result<(), BuildError> {
        if self.batch_rows == 0 || self.shard_rows == 0 {
            let reason = "a batch and a shard must hold at least one passage";
            return Err(BuildError::Setting(reason.into()));
        }
        self.hot.as_ref().map_or(Ok(()), Hot::check)
    }

    fn inputs(&self, corpus_sha256: &str, encoder: &dyn Encoder) -> Inputs {
        Inputs {
            corpus_sha256: corpus_sha256.to_owned(),
            encoder: encoder.fingerprint().to_owned(),
            width: encoder.width(),
            text: Record::ENCODED.to_owned(),
            batch_rows: self.batch_rows,
            shard_rows: self.shard_rows,
            subset: None,
        }
    }

    /// The index as it is, if there is nothing to do. Reading the corpus is enough to know.
    fn existing(
        &self,
        folder: &Folder,
        encoder: &dyn Encoder,
    ) -> Result<Option<(PassageIndex, Option<Files>)>, BuildError> {
        if !folder.out.exists() {
            return Ok(None);
        }
        let Identity { sha256, files } = identify(&self.corpus)?;
        let index = finished(&folder.out, &self.inputs(&sha256, encoder));
        Ok(index.map(|index| (index, files)))
    }

    /// Builds the index and puts it in its place. Returns it with the number of passages encoded,
    /// and what became of the documents.
    async fn make(
        &self,
        folder: &Folder,
        encoder: &dyn Encoder,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(PassageIndex, usize, Option<Files>), BuildError> {
        let survey = survey(&self.corpus)?;
        let inputs = self.inputs(&survey.identity.sha256, encoder);
        let mut encoded = 0;
        // A build may have been killed between its last two steps.
        if finished(&folder.partial, &inputs).is_none() {
            let mut writer = IndexWriter::open(&folder.partial, inputs)?;
            let before = writer.rows();
            self.encode(&mut writer, &survey, encoder, progress).await?;
            encoded = writer.rows() - before;
            writer.finish()?;
            // What is published has been read back.
            PassageIndex::open_verified(&folder.partial)?;
        }
        folder.publish()?;
        let index = PassageIndex::open(&folder.out)?;
        Ok((index, encoded, survey.identity.files))
    }

    async fn encode(
        &self,
        writer: &mut IndexWriter,
        survey: &Survey,
        encoder: &dyn Encoder,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), BuildError> {
        let mut corpus = Corpus::open(&self.corpus)?;
        for _ in 0..writer.rows() {
            corpus.next()?;
        }
        let total = survey.rows;
        let done = writer.rows();
        progress(Progress { done, total });
        loop {
            let mut batch = Vec::with_capacity(self.batch_rows);
            // Batches end at fixed rows, wherever this run began: company in a batch may touch the
            // last bits of a vector.
            let room = self.batch_rows - writer.rows() % self.batch_rows;
            while batch.len() < room
                && let Some(record) = corpus.next()?
            {
                batch.push(record);
            }
            if batch.is_empty() {
                break;
            }
            encode_batch(writer, &batch, encoder).await?;
            // Milliseconds, where a batch takes seconds.
            writer.checkpoint()?;
            let done = writer.rows();
            progress(Progress { done, total });
        }
        if corpus.identity().sha256 != survey.identity.sha256 {
            return Err(BuildError::Changed(self.corpus.clone()));
        }
        Ok(())
    }
}

async fn encode_batch(
    writer: &mut IndexWriter,
    batch: &[Record],
    encoder: &dyn Encoder,
) -> Result<(), BuildError> {
    let texts: Vec<String> = batch.iter().map(Record::encoded).collect();
    let vectors = match encoder.encode_passages(texts).await {
        Ok(vectors) if vectors.len() == batch.len() => Ok(vectors),
        Ok(vectors) => Err(PortError::Malformed {
            what: "the encoder".into(),
            detail: format!("{} vectors for {} passages", vectors.len(), batch.len()),
        }),
        Err(error) => Err(error),
    };
    let vectors = vectors.map_err(|source| BuildError::Encoder {
        first: writer.rows(),
        count: batch.len(),
        source,
    })?;
    for (record, vector) in batch.iter().zip(&vectors) {
        let passage = PassageRef {
            id: &record.id,
            title: &record.title,
            text: &record.text,
        };
        writer.push(passage, vector)?;
    }
    Ok(())
}
