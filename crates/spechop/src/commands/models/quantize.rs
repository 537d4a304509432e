//! `spechop models quantize`.

use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use indicatif::HumanBytes;
use serde::Serialize;
use spechop_embed::EncoderOptions;
use spechop_index::{Reading, sample};

use crate::commands::runtime;
use crate::models::quantised::{COSINE_MIN, Compared, Folder, SENTENCES};
use crate::output::stdout;

/// The arguments of `spechop models quantize`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The encoder: the name of a pulled model, or a folder with encoder.toml.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The folder to write [default: that of the model, with -int8 behind its name].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Compare the two models on passages of this corpus, in any format of `spechop index build`
    /// [default: on sentences of this program].
    #[arg(long, value_name = "FOLDER|FILE")]
    corpus: Option<PathBuf>,
    /// Passages of the corpus to compare, spread evenly over it.
    #[arg(long, value_name = "N", default_value = "256", requires = "corpus")]
    passages: NonZeroUsize,
    /// The lowest cosine between the two vectors of a text. Below it, nothing is kept.
    #[arg(long, value_name = "C", default_value_t = COSINE_MIN)]
    cosine_min: f32,
    /// The ONNX Runtime library [default: the one that `spechop models pull onnxruntime` fetched].
    #[arg(long, value_name = "FILE")]
    runtime: Option<PathBuf>,
    /// Print one JSON object on stdout instead of sentences.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
The weights of large matrix products get eight bits, and activations are quantised while the model
runs. The folder is half as large. How much faster it is depends on the processor: those with integer
dot products (AVX-512 VNNI, AVX-VNNI) gain most. Both are measured here, on the same texts.

Vectors differ a little. So an index that was built with one of the two models is refused with the
other. Build it with --model DIR, and serve it with encoder.dir.

Examples:
  spechop models pull gte-small
  spechop models quantize gte-small
  spechop models quantize gte-small --corpus corpus.jsonl --passages 1000
  spechop index build --corpus corpus.jsonl --model ~/.local/share/spechop/models/gte-small-int8

The default encoder, e5-small-v2-int8, is made the same way by `spechop models pull`.";

/// Runs the command; models are looked for under `data_dir`.
pub(super) fn run(args: Args, data_dir: &Path) -> anyhow::Result<()> {
    let models = data_dir.join("models");
    let library = args.runtime.clone();
    let library = library.unwrap_or_else(|| models.join("onnxruntime/libonnxruntime.so"));
    anyhow::ensure!(
        library.exists(),
        "{} is missing: run `spechop models pull onnxruntime`",
        library.display()
    );
    let source = source(&args.model, &models)?;
    let out = match args.out {
        Some(out) => out,
        None => beside(&source).context("name the new folder with --out")?,
    };
    let texts = match &args.corpus {
        Some(corpus) => sample(corpus, &Reading::default(), args.passages.get())?,
        None => SENTENCES.iter().map(|&text| text.to_owned()).collect(),
    };
    let options = EncoderOptions::new(library).side_by_side();
    let folder = Folder::new(&source, &out)?;
    let made = folder.make()?;
    let compared = runtime()?.block_on(folder.compare(&options, &texts))?;
    folder.publish(&compared, args.cosine_min, args.runtime.as_deref())?;
    let summary = Summary {
        model: folder.name(),
        folder: &out,
        matrices: made.matrices,
        parameters: made.parameters,
        bytes: made.bytes,
        bytes_before: made.bytes_before,
        compared: &compared,
    };
    summary.say(args.json)
}

/// The folder of a model: as it was written, or that of a pulled model of this name.
fn source(model: &Path, models: &Path) -> anyhow::Result<PathBuf> {
    let pulled = models.join(model);
    let mut parts = model.components();
    // A folder such as `.` is a part, too, and no name.
    let is_name = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
    if is_name && pulled.is_dir() {
        return Ok(pulled);
    }
    anyhow::ensure!(
        model.is_dir(),
        "{} is no model: there is no such folder, here or in {} (see `spechop models list`)",
        model.display(),
        models.display()
    );
    Ok(model.to_owned())
}

fn beside(source: &Path) -> Option<PathBuf> {
    let name = source.file_name()?.to_str()?;
    Some(source.with_file_name(format!("{name}-int8")))
}

/// What the command says on stdout, for programs.
#[derive(Serialize)]
struct Summary<'a> {
    model: &'a str,
    #[serde(serialize_with = "crate::output::lossy")]
    folder: &'a Path,
    matrices: usize,
    parameters: usize,
    bytes: u64,
    bytes_before: u64,
    #[serde(flatten)]
    compared: &'a Compared,
}

impl Summary<'_> {
    fn say(&self, json: bool) -> anyhow::Result<()> {
        use std::io::Write;

        let line = match json {
            true => serde_json::to_string(self)?,
            false => self.sentences(),
        };
        writeln!(stdout(), "{line}")?;
        Ok(())
    }

    fn sentences(&self) -> String {
        let compared = self.compared;
        format!(
            "model {} is in {}: {} matrices in eight bits, {} instead of {}\n\
             {} texts: the cosine to what they were before is {:.4} at least, {:.4} in the mean\n\
             {:.1} texts a second instead of {:.1}, {:.2} times as many",
            self.model,
            self.folder.display(),
            self.matrices,
            HumanBytes(self.bytes),
            HumanBytes(self.bytes_before),
            compared.texts,
            compared.cosine_min,
            compared.cosine_mean,
            compared.texts_per_second,
            compared.texts_per_second_before,
            compared.texts_per_second / compared.texts_per_second_before,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_named_or_pointed_to() {
        let data = tempfile::tempdir().unwrap();
        let models = data.path().join("models");
        let pulled = models.join("e5");
        std::fs::create_dir_all(&pulled).unwrap();
        assert_eq!(source(Path::new("e5"), &models).unwrap(), pulled);
        assert_eq!(source(&pulled, &models).unwrap(), pulled);
        for here in [".", "..", "/"].map(Path::new) {
            assert_eq!(source(here, &models).unwrap(), here);
        }
        assert_eq!(beside(&pulled), Some(models.join("e5-int8")));
        assert_eq!(beside(Path::new("/")), None);
        let error = source(Path::new("e6"), &models).unwrap_err().to_string();
        assert!(error.contains("`spechop models list`"), "{error}");
    }
}
