//! The flags that select the questions of a run.

use std::path::PathBuf;

use anyhow::Context;
use spechop_eval::{Dataset, Question, load, of_kinds, only, read_ids, sample};

/// Flags that select questions.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Questions")]
pub(super) struct QuestionArgs {
    /// The data set: 2wiki, musique or deepresearch.
    #[arg(long, value_name = "NAME", value_parser = dataset)]
    pub(super) dataset: Dataset,
    /// A file of questions as the authors published it, plain or gzipped. May be repeated.
    #[arg(long, value_name = "FILE", required = true)]
    questions: Vec<PathBuf>,
    /// Only questions whose ids this file lists (JSON), e.g. those that no model was trained on.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// Only the ids of this part of the file.
    #[arg(long, value_name = "NAME", requires = "ids")]
    ids_part: Option<String>,
    /// Only questions of these kinds, e.g. 3hop1,4hop1 or compositional.
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    kinds: Vec<String>,
    /// How many questions to draw. A larger draw contains the smaller one [default: all].
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// The seed of the draw and of the order.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(super) seed: u64,
}

impl QuestionArgs {
    /// The questions, in the order in which they are asked.
    pub(super) fn select(&self) -> anyhow::Result<Vec<Question>> {
        let mut questions = load(self.dataset, &self.questions)?;
        if let Some(file) = &self.ids {
            let ids = read_ids(file, self.dataset, self.ids_part.as_deref())?;
            questions = only(questions, &ids)
                .with_context(|| format!("no use of the ids of {}", file.display()))?;
        }
        questions = of_kinds(questions, &self.kinds)?;
        Ok(sample(questions, self.count, self.seed)?)
    }
}

pub(super) fn dataset(text: &str) -> Result<Dataset, String> {
    let known = Dataset::ALL.into_iter().find(|set| set.as_str() == text);
    known.ok_or_else(|| format!("expected {}", Dataset::ALL.map(Dataset::as_str).join(", ")))
}
