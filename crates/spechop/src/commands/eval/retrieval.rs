//! `spechop eval retrieval`: how well retrievers find gold passages.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::ensure;
use spechop_config::Env;
use spechop_eval::retrieval::{
    Found, IndexRetriever, LookUps, Measurement, PassageIndex, RetrievalInfo, Searched, keep,
    look_ups, of_sample, passage_ids, read_fit,
};
use spechop_eval::{Dataset, commit, machine, read_ids};
use spechop_qdrant::{COLLECTION, Cluster, ClusterOptions, QdrantRetriever, SearchOptions};

use super::fit_words::sha256;
use super::parts::hashed;
use super::questions::dataset;
use super::steps::Steps;
use crate::commands::configured::name_value;
use crate::commands::index::encoder::Model;
use crate::output::stdout;

/// The arguments of `spechop eval retrieval`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The data set: 2wiki, musique or deepresearch.
    #[arg(long, value_name = "NAME", value_parser = dataset)]
    dataset: Dataset,
    /// The look-ups, as eval/datasets/make_look_ups.py writes them.
    #[arg(long, value_name = "FILE")]
    look_ups: PathBuf,
    /// The index of the whole corpus.
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Ask those questions whose ids this file lists (JSON), e.g. those that nothing was fitted on.
    #[arg(long, value_name = "FILE")]
    held_out: PathBuf,
    /// A smaller corpus, of which every passage is in the index: the questions of HippoRAG's sample
    /// are also looked up among its passages alone.
    #[arg(long, value_name = "FILE")]
    within: Option<PathBuf>,
    /// A further index, such as a hot subset, and its name in the tables. May be repeated.
    #[arg(long, value_name = "NAME=DIR", value_parser = name_value)]
    hot: Vec<(String, String)>,
    /// An index of the same corpus by another encoder, such as one in eight bits, and its name in the tables.
    #[arg(long, value_name = "NAME=DIR", value_parser = name_value, requires = "other_model")]
    other: Option<(String, String)>,
    /// The folder of that encoder.
    #[arg(long, value_name = "DIR", requires = "other")]
    other_model: Option<PathBuf>,
    /// Mix words with vectors at the weight that `spechop eval fit-words` has found.
    #[arg(long, value_name = "FILE")]
    fit: Option<PathBuf>,
    /// Also compare the vectors themselves: every passage is encoded again, which takes as long as the
    /// build of the index.
    #[arg(long)]
    fp32: bool,
    /// The gRPC address of a Qdrant server that holds the same index.
    #[arg(long, value_name = "URL")]
    qdrant: Option<String>,
    /// Its collection.
    #[arg(long, value_name = "NAME", default_value = COLLECTION, requires = "qdrant")]
    collection: String,
    #[command(flatten)]
    model: Model,
    /// The folder of the run: run.json, rows.jsonl, results.json and report.md.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

const HELP: &str = "\
Every retriever is asked the multi-hop questions themselves (HippoRAG's protocol), and their hops in
good words (as our agent asks). Tables say how many gold pages are among the first two and five
passages, with 95 % intervals and by kind of question.

Example:
  spechop eval retrieval --dataset musique --look-ups look-ups/musique.jsonl \\
    --index indexes/musique-extended --hot 'hot 25 %=indexes/musique-extended/hot' \\
    --held-out eval/datasets/untrained.json --fit runs/retrieval/fit.json --out runs/retrieval/musique";

/// Asks, writes the run, and prints its tables.
pub(super) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    // Its rows would be replaced.
    ensure!(
        !args.out.join("questions.jsonl").exists(),
        "{} holds a bundle or a run; take another folder for this one",
        args.out.display()
    );
    let all = look_ups(&args.look_ups)?;
    let listed = read_ids(&args.held_out, args.dataset, None)?;
    let held_out = all.iter().filter(|one| listed.contains(&one.id)).cloned();
    let held_out: Vec<LookUps> = held_out.collect();
    let encoder = args.model.clone().open(env).await?;
    let weight = match &args.fit {
        Some(path) => {
            let fit = read_fit(path, &sha256(&args.held_out)?, encoder.fingerprint())?;
            Some(fit.weight)
        }
        None => None,
    };
    let index = Arc::new(PassageIndex::open_verified(&args.index)?);
    let mut measurement = Measurement::new(encoder, &index)?;
    if let Some(weight) = weight {
        measurement = measurement.mixing(weight);
    }
    let mut parts = parts(&args)?;
    parts.insert(
        "encoder".to_owned(),
        measurement.encoder().fingerprint().to_owned(),
    );
    for (name, dir) in &args.hot {
        let dir = Path::new(dir);
        let subset = PassageIndex::open_verified(dir)?;
        parts.insert(name.clone(), hashed(&[&dir.join("manifest.json")])?);
        measurement.add_index(name.clone(), subset)?;
    }
    if let (Some((name, dir)), Some(model)) = (&args.other, &args.other_model) {
        let dir = Path::new(dir);
        let other = Arc::new(PassageIndex::open_verified(dir)?);
        parts.insert(name.clone(), hashed(&[&dir.join("manifest.json")])?);
        let encoder = args.model.clone().in_folder(model).open(env).await?;
        let retriever = IndexRetriever::new(encoder, other)?;
        measurement.add(name.clone(), Arc::new(retriever));
    }
    if let Some(url) = &args.qdrant {
        let cluster = Cluster::new(&ClusterOptions::new(vec![url.clone()]))?;
        let encoder = measurement.encoder();
        let (collection, search) = (&*args.collection, SearchOptions::default());
        let retriever = QdrantRetriever::new(encoder, Arc::new(cluster), collection, search);
        measurement.add("Qdrant".to_owned(), Arc::new(retriever));
    }
    if args.fp32 {
        let mut steps = Steps::new(index.rows(), "passages");
        let mut progress = |done: usize| steps.reach(done);
        measurement.encode(&index, &mut progress).await?;
        steps.end();
    }
    let mut passages = BTreeMap::new();
    let mut rows: Vec<Found> = Vec::new();
    let mut ask = Vec::new();
    let whole = Searched::of("the whole index", &index, None)?;
    ask.push((whole, held_out, true));
    if let Some(file) = &args.within {
        let ids = passage_ids(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let corpus = Searched::of(&format!("{name} alone"), &index, Some(&ids))?;
        ask.push((corpus, of_sample(&all, &ids), false));
    }
    for (corpus, questions, is_whole) in &ask {
        passages.insert(corpus.name().to_owned(), corpus.passages());
        let mut steps = Steps::new(questions.len(), "questions");
        let mut progress = |done: usize| steps.reach(done);
        // Hops, and indexes of their own, are for the whole index.
        let asked = measurement.ask(corpus, questions, *is_whole, *is_whole, &mut progress);
        rows.extend(asked.await?);
        steps.end();
    }
    let info = RetrievalInfo {
        set: args.dataset.title().to_owned(),
        parts,
        passages,
        weight,
        commit: commit(),
        machine: machine(),
        command: super::command(env),
    };
    let report = keep(&args.out, &info, &all, &rows)?;
    Ok(stdout().write_all(report.as_bytes())?)
}

/// What the rows depend on, by hash.
fn parts(args: &Args) -> anyhow::Result<BTreeMap<String, String>> {
    let manifest = args.index.join("manifest.json");
    let mut files = vec![
        ("index", &manifest),
        ("look-ups", &args.look_ups),
        ("held out", &args.held_out),
    ];
    files.extend(args.within.iter().map(|file| ("smaller corpus", file)));
    files.extend(args.fit.iter().map(|file| ("fit", file)));
    let part = |(name, file): (&str, &PathBuf)| -> anyhow::Result<(String, String)> {
        Ok((name.to_owned(), hashed(&[file])?))
    };
    files.into_iter().map(part).collect()
}
