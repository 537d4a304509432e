//! `spechop index push`: fills a collection of Qdrant from an index.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use spechop_config::{Env, default_index_dir};
use spechop_index::{Progress, must_be_there};
use spechop_qdrant::{
    COLLECTION, Cluster, ClusterOptions, CollectionSettings, PassageIndex, Push, Pushed,
};
use tokio::time::Instant;

use super::display::Display;
use super::say;
use crate::commands::{from_one, runtime};
use crate::input;

/// The arguments of `spechop index push`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The folder of the index [default: indexes/default in the data folder].
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The gRPC address of a Qdrant server. May be repeated: servers of one cluster stand in for
    /// each other.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:6334")]
    url: Vec<String>,
    /// The name of the collection.
    #[arg(long, value_name = "NAME", default_value = COLLECTION)]
    collection: String,
    /// The environment variable that holds the API key.
    #[arg(long, value_name = "VARIABLE")]
    api_key_env: Option<String>,
    /// Into how many parts a new collection is cut [default: as the server is set up].
    #[arg(long, value_name = "N")]
    shards: Option<u32>,
    /// How many servers hold each part of a new collection [default: as the server is set up].
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Quantise the vectors of a new collection to eight bits in the server.
    #[arg(long)]
    int8: bool,
    /// A file with further settings of a new collection: the JSON that Qdrant's REST interface takes,
    /// such as {"hnsw_config": {"m": 32}, "on_disk_payload": true}.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Passages that are sent together.
    #[arg(long, value_name = "N", value_parser = from_one, default_value = "256")]
    batch: NonZeroUsize,
    /// Batches that are on their way at the same time.
    #[arg(long, value_name = "N", value_parser = from_one, default_value = "4")]
    at_once: NonZeroUsize,
    /// Print one JSON object on stdout instead of a sentence.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Nothing is encoded again: the vectors of the index are sent, and the passages with them.
If the command was interrupted, run it again. It sends only passages that are missing.
A collection remembers its encoder and its corpus, and takes no other. To change the corpus, push to a
new collection. Then let an alias point to it, and name the alias in qdrant.collection.

Examples:
  spechop index push --url http://10.0.0.7:6334 --int8 --shards 6 --replicas 2
  spechop serve --set target.kind=qdrant --set qdrant.urls=http://10.0.0.7:6334";

impl Args {
    /// Whether a default of it lies in the data folder.
    pub(super) fn needs_folders(&self) -> bool {
        self.dir.is_none()
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, data_dir: &Path, env: &Env) -> anyhow::Result<()> {
    let dir = args.dir.clone();
    let dir = dir.unwrap_or_else(|| default_index_dir(data_dir));
    let mut options = ClusterOptions::new(args.url.clone()).patient();
    if let Some(variable) = &args.api_key_env {
        let key = env.secret(variable);
        let unset = || format!("--api-key-env: the environment variable {variable} is not set");
        options.key = Some(key.with_context(unset)?);
    }
    let push = Push {
        settings: settings(args)?,
        batch: args.batch,
        at_once: args.at_once,
        ..Push::new(&args.collection)
    };
    let cluster = Cluster::new(&options)?;
    must_be_there(&dir)?;
    // What is damaged stays here.
    let index = PassageIndex::open_verified(&dir)?;
    if let Some(part) = index.inputs().part {
        anyhow::bail!(
            "{} is part {} of {} of an index: join the parts with `spechop index merge`",
            dir.display(),
            part.number,
            part.of
        );
    }
    let runtime = runtime()?;
    let started = Instant::now();
    let mut display = Display::new(started);
    let mut show = |step: spechop_qdrant::Progress| {
        let (done, total) = (step.done, step.total);
        display.show(Progress { done, total });
    };
    let pushed = runtime.block_on(push.run(&index, &cluster, &mut show));
    display.end();
    let Pushed { passages, sent } = pushed?;
    let seconds = started.elapsed().as_secs_f64();
    let collection = &args.collection;
    let summary = Summary {
        index: &dir,
        collection,
        passages,
        sent,
        seconds,
    };
    let how = match sent {
        0 => "was complete".to_owned(),
        _ => {
            let rate = sent as f64 / seconds.max(1e-3);
            format!("filled: {sent} sent in {seconds:.1} s, {rate:.0}/s")
        }
    };
    let sentence = format!("collection {collection} {how}; {passages} passages");
    say(args.json, &summary, &sentence)
}

fn settings(args: &Args) -> anyhow::Result<CollectionSettings> {
    let mut settings = match &args.settings {
        None => CollectionSettings::default(),
        Some(path) => {
            let wrong = || format!("{} holds no settings of a collection", path.display());
            CollectionSettings::parse(&input::read(path)?).with_context(wrong)?
        }
    };
    settings.shard_number = args.shards.or(settings.shard_number);
    settings.replication_factor = args.replicas.or(settings.replication_factor);
    Ok(match args.int8 {
        true => settings.or_int8(),
        false => settings,
    })
}

/// What the command says on stdout, for programs.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(serialize_with = "crate::output::lossy")]
    index: &'a Path,
    collection: &'a str,
    passages: usize,
    sent: usize,
    seconds: f64,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Args {
        Command::parse_from(line.split(' ')).args
    }

    #[test]
    fn flags_go_before_the_file_of_settings() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.json");
        std::fs::write(
            &file,
            r#"{"shard_number": 2, "write_consistency_factor": 1}"#,
        )
        .unwrap();
        let line = format!("push --shards 6 --replicas 3 --settings {}", file.display());
        let found = settings(&parsed(&line)).unwrap();
        assert_eq!(found.shard_number, Some(6));
        assert_eq!(found.replication_factor, Some(3));
        assert_eq!(found.write_consistency_factor, Some(1));
        assert_eq!(
            settings(&parsed("push")).unwrap(),
            CollectionSettings::default()
        );

        std::fs::write(&file, r#"{"shards": 2}"#).unwrap();
        let error = settings(&parsed(&line)).unwrap_err();
        assert!(format!("{error:#}").contains("settings.json"), "{error:#}");
        assert!(format!("{error:#}").contains("`shards`"), "{error:#}");
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let args = parsed("push --api-key-env QDRANT_KEY");
        let error = run(&args, Path::new("/nowhere"), &Env::default()).unwrap_err();
        assert!(
            error.to_string().contains("QDRANT_KEY is not set"),
            "{error}"
        );
    }
}
