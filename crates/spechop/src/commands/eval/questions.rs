//! Which questions a run is about.

use std::path::PathBuf;

use anyhow::Context;
use spechop_eval::{Dataset, Question, load, of_kinds, only, read_ids, sample};

/// What says which questions.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Questions")]
pub(super) struct QuestionArgs {
    /// Whose questions: 2wiki, musique or deepresearch.
    #[arg(long, value_name = "NAME", value_parser = dataset)]
    pub(super) dataset: Dataset,
    /// A file of them as their authors published it, plain or gzip; may be given several times.
    #[arg(long, value_name = "FILE", required = true)]
    questions: Vec<PathBuf>,
    /// Only those whose ids this file lists (JSON), e.g. what no model was trained on.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// Only the ids of this part of the list.
    #[arg(long, value_name = "NAME", requires = "ids")]
    ids_part: Option<String>,
    /// Only those of these kinds, e.g. 3hop1,4hop1 or compositional.
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    kinds: Vec<String>,
    /// So many, drawn by the seed; a larger draw holds the smaller one [default: all].
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Of the draw and of the order.
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

fn dataset(text: &str) -> Result<Dataset, String> {
    let known = Dataset::ALL.into_iter().find(|set| set.as_str() == text);
    known.ok_or_else(|| format!("expected {}", Dataset::ALL.map(Dataset::as_str).join(", ")))
}
