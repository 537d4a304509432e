//! From a corpus to an index.

use std::ops::Range;
use std::path::PathBuf;

use spechop_ports::Encoder;
use spechop_store::{IndexWriter, Inputs, Part};

use crate::corpus::{Corpus, Reading, Record, Survey};
use crate::encode::Encoding;
use crate::error::BuildError;
use crate::folder::{Folder, finished};
use crate::hot::Hot;
use crate::input::Source;
use crate::intake::Intake;

/// What to build, and where.
#[derive(Clone, Debug)]
pub struct Build {
    /// The corpus: a file in one of the formats, plain or packed; or a folder of .txt, .md and .html
    /// files; or `-`, which is standard input; or a pipe.
    pub corpus: PathBuf,
    /// How the corpus is read.
    pub reading: Reading,
    /// The folder of the index. An index that is there already is replaced once the new one is
    /// whole; anything else is left alone. If it is a link to a folder, that is where the index goes.
    pub out: PathBuf,
    /// A hot subset beside the whole.
    pub hot: Option<Hot>,
    /// Build only this part of the index; [`crate::merge`] joins the parts. The whole corpus is read
    /// for each of them, but only the part is encoded.
    pub part: Option<Part>,
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
    /// Whether the index was there already, made of the same corpus by the same encoder.
    pub up_to_date: bool,
    /// Passages that this run had to encode. None if it was up to date, or if a run that was killed had
    /// encoded them all.
    pub encoded: usize,
    /// Passages in the hot subset, where one was asked for.
    pub hot_rows: Option<usize>,
    /// What became of the entries of the corpus.
    pub intake: Intake,
}

impl Build {
    /// A build with the usual settings and no hot subset.
    pub fn new(corpus: impl Into<PathBuf>, out: impl Into<PathBuf>) -> Self {
        Self {
            corpus: corpus.into(),
            out: out.into(),
            reading: Reading::default(),
            hot: None,
            part: None,
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
        if let Some(hot) = &self.hot {
            // Before hours are spent on encoding.
            hot.check_file()?;
        }
        let folder = Folder::at(&self.out)?;
        let _lock = folder.lock()?;
        let corpus = Source::of(&self.corpus, &folder.spool())?;
        let survey = Survey::of(&corpus, &self.reading)?;
        if let Some(hot) = &self.hot {
            hot.check_passages(survey.in_degrees)?;
        }
        let inputs = self.inputs(&survey, encoder);
        let there = finished(&folder.out, &inputs)?;
        let up_to_date = there.is_some();
        let (index, encoded) = match there {
            Some(index) => (index, 0),
            None => {
                let encoded = self.grow(&folder, &corpus, &survey, &inputs, encoder, progress);
                let encoded = encoded.await?;
                (folder.publish(self.hot.as_ref())?, encoded)
            }
        };
        let hot = self.hot.as_ref();
        let hot_rows = hot.map(|hot| hot.build(&index, &folder.out)).transpose()?;
        Ok(Built {
            rows: index.rows(),
            bytes: index.bytes(),
            up_to_date,
            encoded,
            hot_rows,
            intake: survey.intake,
        })
    }

    /// Refuses what shows at once, such as a corpus that is not there, and leaves nothing behind: for whoever must open
    /// an encoder first, which takes long.
    ///
    /// # Errors
    ///
    /// Those of [`Self::run`].
    pub fn check(&self) -> Result<(), BuildError> {
        self.check_settings()?;
        Folder::at(&self.out)?;
        Source::check(&self.corpus)
    }

    fn check_settings(&self) -> Result<(), BuildError> {
        let wrong = |reason: &str| Err(BuildError::Setting(reason.into()));
        if self.batch_rows == 0 || self.shard_rows == 0 {
            return wrong("a batch and a shard must hold at least one passage");
        }
        match (self.part, &self.hot) {
            (Some(part), _) if part.number >= part.of => Err(BuildError::Setting(format!(
                "there is no part {} of {}: parts are numbered from 0",
                part.number, part.of
            ))),
            (Some(_), Some(_)) => {
                wrong("a part has no hot subset: choose it when the parts are merged")
            }
            (_, Some(hot)) => hot.check(),
            (_, None) => Ok(()),
        }
    }

    fn inputs(&self, survey: &Survey, encoder: &dyn Encoder) -> Inputs {
        Inputs {
            corpus_sha256: survey.sha256.clone(),
            encoder: encoder.fingerprint().to_owned(),
            width: encoder.width(),
            text: Record::ENCODED.to_owned(),
            batch_rows: self.batch_rows,
            shard_rows: self.shard_rows,
            subset: None,
            extended: survey.extended,
            part: self.part,
        }
    }

    /// The passages that are built here: whole batches, so that merged parts equal one build.
    fn rows(&self, survey: &Survey) -> Result<Range<usize>, BuildError> {
        let part = self.part.unwrap_or(Part { number: 0, of: 1 });
        let batches = survey.rows.div_ceil(self.batch_rows);
        let begin = |number: usize| {
            // Two factors of a corpus and a cluster do not come near the largest number.
            let batch = batches.saturating_mul(number) / part.of;
            (batch * self.batch_rows).min(survey.rows)
        };
        let rows = begin(part.number)..begin(part.number + 1);
        if rows.is_empty() {
            return Err(BuildError::Setting(format!(
                "part {} of {} would be empty: the corpus fills {batches} batches of {}, so choose \
                 {batches} parts at most",
                part.number, part.of, self.batch_rows
            )));
        }
        Ok(rows)
    }

    /// Builds the index where it grows. Returns the number of passages encoded.
    async fn grow(
        &self,
        folder: &Folder,
        corpus: &Source,
        survey: &Survey,
        inputs: &Inputs,
        encoder: &dyn Encoder,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<usize, BuildError> {
        let rows = self.rows(survey)?;
        // A build may have been killed between its last two steps.
        if folder.is_grown(inputs)? {
            return Ok(0);
        }
        let encoding = Encoding {
            encoder,
            copied: None,
            first: rows.start,
            total: rows.len(),
            batch_rows: self.batch_rows,
        };
        loop {
            let mut writer = IndexWriter::open(&folder.partial, inputs.clone())?;
            let before = writer.rows();
            let mut passages = Corpus::open(corpus, &self.reading)?;
            for _ in 0..rows.start {
                passages.next()?;
            }
            if !encoding.run(&mut writer, &mut passages, progress).await? {
                // From the beginning: no row is left to compare then.
                writer.abandon()?;
                continue;
            }
            while passages.next()?.is_some() {}
            if !survey.is_of(&passages) {
                writer.abandon()?;
                return Err(BuildError::Changed(self.corpus.clone()));
            }
            let encoded = writer.rows() - before;
            writer.finish()?;
            return Ok(encoded);
        }
    }
}
