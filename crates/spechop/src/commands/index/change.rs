//! `spechop index add` and `spechop index remove`.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use spechop_config::Env;
use spechop_index::{Addition, Changed, remove};
use tokio::time::Instant;

use super::build::{Corpus, complain, of_entries};
use super::display::Display;
use super::encoder::Model;
use super::{hot_rows, say};
use crate::commands::clean::clean;
use crate::commands::runtime;
use crate::input;

/// The arguments of `spechop index add`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct AddArgs {
    /// The folder of the index.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    corpus: Corpus,
    /// Passages take the place of those of the same id. Otherwise those that are there stay.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    model: Model,
    /// Print one JSON object on stdout instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// The arguments of `spechop index remove`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct RemoveArgs {
    /// The folder of the index.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Identifiers of passages; that of a page stands for all its passages.
    #[arg(value_name = "ID", required_unless_present = "ids")]
    id: Vec<String>,
    /// A file with one identifier a line; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// Print one JSON object on stdout instead of a sentence.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
The index is written anew beside the old one, without encoding what stays, and takes its place in one
step. For that moment the disk holds it twice. Programs that have it open keep the old one: start a
server again to let it see the new one. A hot subset loses what is removed and gains nothing:
`spechop index hot` chooses it anew.";

impl AddArgs {
    /// Whether a default of it lies in the data folder.
    pub(super) fn needs_folders(&self) -> bool {
        self.model.needs_folders()
    }
}

/// Runs `spechop index add`.
pub(super) fn add(args: AddArgs, env: &Env) -> anyhow::Result<()> {
    let addition = Addition {
        reading: args.corpus.reading(),
        index: args.dir,
        corpus: args.corpus.corpus,
        replace: args.replace,
    };
    addition.check()?;
    let runtime = runtime()?;
    let encoder = runtime.block_on(args.model.open(env))?;
    let mut display = Display::new(Instant::now());
    let mut show = |progress| display.show(progress);
    let changed = runtime.block_on(addition.run(&*encoder, &mut show));
    display.end();
    report(&addition.index, &changed?, args.json)
}

/// Runs `spechop index remove`.
pub(super) fn take(args: &RemoveArgs) -> anyhow::Result<()> {
    let mut ids = args.id.clone();
    if let Some(path) = &args.ids {
        ids.extend(ids_in(&input::read(path)?));
    }
    let changed = remove(&args.dir, &ids)?;
    if !changed.unknown.is_empty() {
        let shown = changed.unknown.iter().take(10).map(|id| clean(id));
        let shown: Vec<_> = shown.collect();
        let count = changed.unknown_count;
        say!("ids that no passage has ({count}): {}", shown.join(", "));
    }
    anyhow::ensure!(
        changed.removed > 0,
        "nothing was removed from {}: no passage has one of these ids",
        args.dir.display()
    );
    report(&args.dir, &changed, args.json)
}

/// One a line.
fn ids_in(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).map(str::to_owned)
}

fn report(dir: &Path, changed: &Changed, json: bool) -> anyhow::Result<()> {
    let mut of = String::new();
    if let Some(intake) = &changed.intake {
        complain(intake);
        of = of_entries(intake);
    }
    let sentence = format!(
        "index {}: {} added{of}, {} removed; {} passages{}, {}",
        dir.display(),
        changed.added,
        changed.removed,
        changed.rows,
        hot_rows(changed.hot_rows),
        HumanBytes(changed.bytes)
    );
    say(json, changed, &sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stand_one_a_line() {
        for (text, ids) in [
            ("a\nb c\n", &["a", "b c"][..]),
            ("a\r\n\r\n b \n", &["a", "b"]),
            ("\n", &[]),
        ] {
            assert_eq!(ids_in(text).collect::<Vec<_>>(), ids, "{text:?}");
        }
    }
}
