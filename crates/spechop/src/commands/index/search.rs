//! `spechop index search`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use serde::Serialize;
use spechop_config::{Env, LexicalWeight, served_index_dir};
use spechop_index::{Found, search};
use spechop_types::is_invisible;

use super::encoder::Model;
use super::say;
use crate::commands::clean::clean;
use crate::commands::{from_one, runtime};

/// The arguments of `spechop index search`.
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(super) struct Args {
    /// The query.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    query: String,
    /// The folder of the index [default: indexes/default in the data folder; if there is none, that of
    /// `make demo`, indexes/demo].
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
    /// At most so many passages.
    #[arg(long, value_name = "N", value_parser = from_one, default_value = "5")]
    limit: NonZeroUsize,
    /// How much the words of the query count beside its vector, as `index.lexical_weight` of a server.
    #[arg(long, value_name = "auto|WEIGHT", default_value_t = LexicalWeight::Auto)]
    lexical_weight: LexicalWeight,
    #[command(flatten)]
    model: Model,
    /// Print one JSON object on stdout instead of the passages.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Whether a default of it lies in the data folder.
    pub(super) fn needs_folders(&self) -> bool {
        self.index.is_none() || self.model.needs_folders()
    }
}

/// Runs the command.
pub(super) fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let dir = args.index.clone();
    let dir = dir.unwrap_or_else(|| served_index_dir(&env.data_dir()));
    let runtime = runtime()?;
    let encoder = runtime.block_on(args.model.open(env))?;
    let found = search(
        &dir,
        encoder,
        &args.query,
        args.limit.get(),
        args.lexical_weight,
    );
    let passages = runtime.block_on(found)?;
    let shown: Vec<String> = passages.iter().map(shown).collect();
    let results = Results {
        query: &args.query,
        passages: &passages,
    };
    say(args.json, &results, &shown.join("\n\n"))
}

/// What the command says on stdout, for programs.
#[derive(Serialize)]
struct Results<'a> {
    query: &'a str,
    passages: &'a [Found],
}

/// What was read from outside must not steer the terminal, nor hide in it. The lines of a text stay.
fn shown(found: &Found) -> String {
    let url = found.url.as_deref().unwrap_or_default();
    let [id, title, url] = [found.id.as_str(), &found.title, url].map(clean);
    let head = format!("{:.3}  {id}  {title}  {url}", found.score);
    let mut text = found.text.replace(is_invisible, "");
    text = text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    format!("{}\n{text}", head.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_neither_steers_the_terminal_nor_looks_like_two() {
        let found = Found {
            id: "p\u{202e}1".into(),
            title: "Page\n0.999  p2  Other".into(),
            text: "two\u{200b}\n  lines\u{1b}[2J".into(),
            url: None,
            score: 0.5,
        };
        assert_eq!(
            shown(&found),
            "0.500  p1  Page 0.999 p2 Other\ntwo\n  lines\u{fffd}[2J"
        );
    }
}
