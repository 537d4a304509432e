//! `spechop eval fit-words`: the weight of words beside vectors, by training questions.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use spechop_config::Env;
use spechop_eval::retrieval::{
    Fit, FitInfo, FittedOn, PassageIndex, Searched, fit, look_ups, write_fit,
};
use spechop_eval::{Dataset, commit, machine, read_ids};

use super::parts::hashed;
use super::questions::dataset;
use super::steps::Steps;
use crate::commands::index::encoder::Model;
use crate::models::of_file;
use crate::output::stdout;

/// The arguments of `spechop eval fit-words`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// A data set, its look-ups and the index that they are looked up in. May be repeated; every data
    /// set counts the same.
    #[arg(long, num_args = 3, value_names = ["SET", "FILE", "DIR"], required = true)]
    on: Vec<String>,
    /// Leave out the questions whose ids this file lists (JSON): those that results are reported on.
    #[arg(long, value_name = "FILE")]
    held_out: PathBuf,
    #[command(flatten)]
    model: Model,
    /// The file that is written. `spechop eval retrieval` reads it if `--fit` names it.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

const HELP: &str = "\
Each hop of the questions is looked up at every weight from 0 to 5. The best weight is that at which
most hops have their gold page among the first five passages. It goes into index.lexical_weight.
eval/datasets/make_look_ups.py makes the look-ups.

Example:
  spechop eval fit-words --on musique look-ups/musique.jsonl indexes/musique-extended \\
    --held-out eval/datasets/untrained.json --out runs/retrieval/fit.json";

/// A data set, its look-ups and its index.
struct Set<'a> {
    dataset: Dataset,
    look_ups: &'a Path,
    index: &'a Path,
}

/// Fits, writes, and prints the curve.
pub(super) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let sets: Vec<Set<'_>> = args.on.chunks(3).map(set).collect::<Result<_, _>>()?;
    let encoder = args.model.clone().open(env).await?;
    let mut fitted = BTreeMap::new();
    for set in &sets {
        let held_out = read_ids(&args.held_out, set.dataset, None)?;
        let mut asked = look_ups(set.look_ups)?;
        asked.retain(|look_ups| !held_out.contains(&look_ups.id));
        let index = Arc::new(PassageIndex::open_verified(set.index)?);
        let corpus = Searched::of(set.dataset.title(), &index, None)?;
        let mut steps = Steps::new(asked.len(), "questions");
        let mut progress = |done: usize| steps.reach(done);
        let recall = fit(&*encoder, &corpus, &asked, &mut progress).await?;
        steps.end();
        let on = FittedOn {
            look_ups_sha256: sha256(set.look_ups)?,
            index: hashed(&[&set.index.join("manifest.json")])?,
            passages: corpus.passages(),
            questions: asked.len(),
            hops: asked.iter().map(|look_ups| look_ups.hops.len()).sum(),
            recall,
        };
        let twice = fitted.insert(set.dataset.as_str().to_owned(), on);
        ensure!(twice.is_none(), "--on names {} twice", set.dataset.as_str());
    }
    let info = FitInfo {
        held_out_sha256: sha256(&args.held_out)?,
        encoder: encoder.fingerprint().to_owned(),
        commit: commit(),
        machine: machine(),
        command: super::command(env),
    };
    let fit = Fit::of(fitted, info);
    write_fit(&args.out, &fit)?;
    show(&fit)
}

fn show(fit: &Fit) -> anyhow::Result<()> {
    let mut out = stdout();
    let names: Vec<&str> = fit.sets.keys().map(String::as_str).collect();
    writeln!(out, "weight  recall@5  {}", names.join("  "))?;
    for (at, (weight, recall)) in fit.recall_at_5.iter().enumerate() {
        let own = fit.sets.values().filter_map(|set| set.recall.get(at));
        let own: Vec<String> = own
            .map(|(_, [_, recall])| format!("{:.2}", 100.0 * recall))
            .collect();
        let own = own.join("  ");
        writeln!(out, "{weight:6}  {:8.2}  {own}", 100.0 * recall)?;
    }
    Ok(writeln!(out, "index.lexical_weight = {}", fit.weight)?)
}

fn set(words: &[String]) -> anyhow::Result<Set<'_>> {
    let [name, look_ups, index] = words else {
        anyhow::bail!("--on takes three words: SET FILE DIR");
    };
    let dataset = dataset(name).map_err(|why| anyhow::anyhow!("--on: {why}, found {name}"))?;
    Ok(Set {
        dataset,
        look_ups: Path::new(look_ups),
        index: Path::new(index),
    })
}

/// Of a file, in hexadecimal.
pub(super) fn sha256(path: &Path) -> anyhow::Result<String> {
    let print = of_file(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(print.sha256)
}
