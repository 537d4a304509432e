//! `spechop index build`.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use indicatif::{HumanBytes, HumanDuration};
use serde::Serialize;
use spechop_config::{Env, default_index_dir};
use spechop_index::{Build, Built, Format, Hot, Intake, Part, Reading};
use tokio::time::Instant;

use super::display::Display;
use super::encoder::Model;
use super::{hot_rows, say};
use crate::commands::runtime;

/// The arguments of `spechop index build`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    corpus: Corpus,
    /// The folder of the index. An index in it is replaced; an unfinished build is in DIR.partial
    /// [default: indexes/default in the data folder, which `spechop serve` looks for].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    hot: HotArgs,
    /// Build only part I of N, numbered from 0, as an index of its own. `spechop index merge` joins the
    /// parts to the same bytes as one build. Each part reads the whole corpus.
    #[arg(long, value_name = "I/N", value_parser = part, conflicts_with = "hot_fraction")]
    shard: Option<Part>,
    #[command(flatten)]
    model: Model,
    /// Print one JSON object on stdout instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// The arguments that say what is read, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Corpus {
    /// The corpus: a folder of .txt, .md and .html files; or a file in one of the formats below, plain
    /// or packed with gzip or zstd; or `-`, standard input.
    #[arg(long, value_name = "FOLDER|FILE|-")]
    pub(super) corpus: PathBuf,
    /// The format [default: it is recognised by the first entries]: documents, jsonl, 2wiki, musique,
    /// hipporag, kilt or cirrus.
    #[arg(long, value_parser = Format::from_str)]
    format: Option<Format>,
    /// Cut texts of more than 150 words into passages of about 100. Passage n of text ID is ID#n.
    /// Documents and pages of wikis are always cut.
    #[arg(long)]
    cut: bool,
    /// Take what there is of a corpus that ends in the middle of an entry. Otherwise it is refused.
    #[arg(long)]
    accept_cut_off: bool,
}

impl Corpus {
    pub(super) fn reading(&self) -> Reading {
        Reading {
            format: self.format,
            cut_long: self.cut,
            accept_cut_off: self.accept_cut_off,
        }
    }
}

/// The arguments that choose a hot subset.
#[derive(Debug, clap::Args)]
pub(super) struct HotArgs {
    /// Also write an index of the passages that are linked to most to DIR/hot; F is their share. Documents come
    /// without numbers of links: name --in-degree.
    #[arg(long, value_name = "F")]
    hot_fraction: Option<f64>,
    /// A file that says how often each title is mentioned: one {"title","mention_indegree"} a line,
    /// plain or packed [default: the numbers of links that come with the passages].
    #[arg(long, value_name = "FILE", requires = "hot_fraction")]
    in_degree: Option<PathBuf>,
}

impl HotArgs {
    pub(super) fn hot(self) -> Option<Hot> {
        let in_degree = self.in_degree;
        self.hot_fraction.map(|fraction| Hot {
            fraction,
            in_degree,
        })
    }
}

const HELP: &str = "\
Formats:
  documents  a folder with all folders in it; hidden files and folders are skipped
  jsonl      {\"id\",\"title\",\"text\"} with or without \"url\" and \"in_degree\"
  2wiki      questions of 2WikiMultihopQA or HotpotQA; their contexts are pooled
  musique    questions of MuSiQue; their paragraphs are pooled
  hipporag   {\"title\",\"text\"}, as in the corpora of HippoRAG
  kilt       lines of id, text and title with tabs between them, as in KILT and DPR
  cirrus     a CirrusSearch dump of a wiki; the number of links to each page is kept

JSON stands one object a line, or in arrays. Entries that cannot be used are counted and named.
Each document is cut into passages of about 100 words. The identifiers of the passages are PATH#1,
PATH#2 and so on, by the path in the folder. Their title is that of the file: <title>, title: or the
first heading, else its name.
A build that was interrupted is resumed by the same command. A server that has the old index open keeps
it until it is started again. Never copy over the files of an index that is open.

The encoder is the one that `spechop serve` has with the same configuration: --config, --set and
SPECHOP_ variables say the same here. Of the configuration, only encoder.* and runtime.* are read. An
index remembers its encoder, and a server with another one refuses it.

Examples:
  spechop index build --corpus notes/
  spechop index build --corpus corpus.jsonl.gz --out indexes/mine
  spechop index build --corpus enwiki-content.json.gz --hot-fraction 0.1 --out indexes/wikipedia
  spechop index build --corpus corpus.jsonl --shard 0/8 --out parts/0
  spechop index build --corpus notes/ --config spechop.toml
  spechop serve --set index.dir=indexes/mine";

impl Args {
    /// Whether a default of it lies in the data folder.
    pub(super) fn needs_folders(&self) -> bool {
        self.out.is_none() || self.model.needs_folders()
    }
}

/// Runs the command.
pub(super) fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let out = args
        .out
        .unwrap_or_else(|| default_index_dir(&env.data_dir()));
    let build = Build {
        reading: args.corpus.reading(),
        hot: args.hot.hot(),
        part: args.shard,
        ..Build::new(args.corpus.corpus, out)
    };
    build.check()?;
    let runtime = runtime()?;
    let encoder = runtime.block_on(args.model.open(env))?;
    let started = Instant::now();
    let mut display = Display::new(started);
    let built = runtime.block_on(build.run(&*encoder, &mut |progress| display.show(progress)));
    display.end();
    report(&build.out, &built?, started.elapsed(), args.json)
}

/// What a build says on stdout, for programs.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(serialize_with = "crate::output::lossy")]
    index: &'a Path,
    rows: usize,
    bytes: u64,
    encoded: usize,
    hot_rows: Option<usize>,
    /// What became of the entries of the corpus.
    intake: &'a Intake,
    up_to_date: bool,
    seconds: f64,
}

fn report(out: &Path, built: &Built, took: Duration, json: bool) -> anyhow::Result<()> {
    complain(&built.intake);
    let summary = Summary {
        index: out,
        rows: built.rows,
        bytes: built.bytes,
        encoded: built.encoded,
        hot_rows: built.hot_rows,
        intake: &built.intake,
        up_to_date: built.up_to_date,
        seconds: took.as_secs_f64(),
    };
    let (hot, of) = (hot_rows(built.hot_rows), of_entries(&built.intake));
    let (rows, bytes, shown) = (built.rows, HumanBytes(built.bytes), out.display());
    let how = match built.encoded {
        0 if built.up_to_date => "is up to date".to_owned(),
        0 => "built: all passages were encoded before".to_owned(),
        encoded => format!(
            "built: {encoded} encoded in {}, {:.1}/s",
            HumanDuration(took),
            encoded as f64 / took.as_secs_f64()
        ),
    };
    say(
        json,
        &summary,
        &format!("index {shown} {how}; {rows} passages{of}{hot}, {bytes}"),
    )
}

/// Says what is not in the index as it stands in the corpus.
pub(super) fn complain(intake: &Intake) {
    if intake.left_out() > 0 {
        say!("left out: {intake}");
    }
    if intake.without_url > 0 {
        let count = intake.without_url;
        say!(
            "{count} URLs were left out: they do not begin with http:// or https://, or are no \
             addresses behind that"
        );
    }
    if intake.long > 0 {
        let (count, words) = (intake.long, Intake::LONG_WORDS);
        say!(
            "{count} texts have more than {words} words, and an encoder reads only the beginning of \
             those: cut them with --cut"
        );
    }
}

/// ` of 12 lines (jsonl), 3 merged, 1 left out`
pub(super) fn of_entries(intake: &Intake) -> String {
    let mut text = format!(
        " of {} {} ({})",
        intake.read,
        intake.format.entries(),
        intake.format
    );
    for (count, what) in [(intake.merged, "merged"), (intake.left_out(), "left out")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

/// `3/8`
fn part(text: &str) -> Result<Part, String> {
    let numbers = text.split_once('/').and_then(|(number, of)| {
        let (number, of) = (number.parse().ok()?, of.parse().ok()?);
        Some(Part { number, of })
    });
    numbers.filter(|part| part.number < part.of).ok_or_else(|| {
        format!("{text} is no part: write 0/8 for the first of eight, 7/8 for the last")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_from_zero() {
        for (text, expected) in [
            ("0/1", Some((0, 1))),
            ("7/8", Some((7, 8))),
            ("8/8", None),
            ("0/0", None),
            ("-1/8", None),
            ("3", None),
            ("a/b", None),
        ] {
            let found = part(text).ok().map(|part| (part.number, part.of));
            assert_eq!(found, expected, "{text}");
        }
    }
}
