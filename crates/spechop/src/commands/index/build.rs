//! `spechop index build`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{HumanBytes, HumanDuration};
use serde::Serialize;
use spechop_index::{Build, Built, Files, Hot};
use spechop_server::config::default_index_dir;
use tokio::time::Instant;

use super::display::Display;
use super::encoder::Model;
use super::{hot, runtime, say};

/// The arguments of `spechop index build`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The corpus: a folder of .txt, .md and .html files; or a file with one {"id","title","text"} a
    /// line, plain or gzipped.
    #[arg(long, value_name = "FOLDER|FILE")]
    corpus: PathBuf,
    /// The folder of the index. An index in it is replaced; an unfinished build is in DIR.partial
    /// [default: indexes/default in the data folder, which `spechop serve` looks for].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write an index of the most mentioned passages to DIR/hot; F is their share.
    #[arg(long, value_name = "F", requires = "in_degree")]
    hot_fraction: Option<f64>,
    /// A file that says how often each title is mentioned: one {"title","mention_indegree"} a line,
    /// plain or gzipped.
    #[arg(long, value_name = "FILE", requires = "hot_fraction")]
    in_degree: Option<PathBuf>,
    #[command(flatten)]
    model: Model,
    /// Print one JSON object on stdout instead of a sentence.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
A folder is read with all folders in it. Hidden files and folders are skipped. Each file is cut into
passages of about 100 words. The identifiers of the passages are PATH#1, PATH#2 and so on, by the path
in the folder. Their title is that of the file: <title>, title: or the first heading, else its name.
The command counts and names files that it cannot read as text.
A server that has the old index open keeps it until it is started again. Never copy over the files of
an index that is open.

Examples:
  spechop index build --corpus notes/
  spechop index build --corpus corpus.jsonl.gz --out indexes/mine
  spechop serve --set index.dir=indexes/mine";

/// Runs the command.
pub(super) fn run(args: Args, data_dir: &Path) -> anyhow::Result<()> {
    let encoder = args.model.open(data_dir)?;
    let out = args.out.unwrap_or_else(|| default_index_dir(data_dir));
    let build = Build {
        hot: args
            .hot_fraction
            .zip(args.in_degree)
            .map(|(fraction, in_degree)| Hot {
                fraction,
                in_degree,
            }),
        ..Build::new(args.corpus, out)
    };
    let started = Instant::now();
    let mut display = Display::new(started);
    let built = runtime()?.block_on(build.run(&encoder, &mut |progress| display.show(progress)));
    display.end();
    report(&build.out, &built?, started.elapsed(), args.json)
}

/// What a build says on stdout, for programs.
#[derive(Serialize)]
struct Summary<'a> {
    index: &'a Path,
    rows: usize,
    bytes: u64,
    encoded: usize,
    hot_rows: Option<usize>,
    /// What became of the documents, if the corpus is made of documents.
    files: Option<&'a Files>,
    up_to_date: bool,
    seconds: f64,
}

fn report(out: &Path, built: &Built, took: Duration, json: bool) -> anyhow::Result<()> {
    if let Some(files) = built.files.as_ref().filter(|files| files.left_out() > 0) {
        eprintln!("left out: {files}");
    }
    let summary = Summary {
        index: out,
        rows: built.rows,
        bytes: built.bytes,
        encoded: built.encoded,
        hot_rows: built.hot_rows,
        files: built.files.as_ref(),
        up_to_date: built.encoded == 0,
        seconds: took.as_secs_f64(),
    };
    let (hot, of) = (hot(built.hot_rows), of_files(built.files.as_ref()));
    let (rows, bytes, shown) = (built.rows, HumanBytes(built.bytes), out.display());
    let how = match built.encoded {
        0 => "is up to date".to_owned(),
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

fn of_files(files: Option<&Files>) -> String {
    files.map_or_else(String::new, |files| match files.left_out() {
        0 => format!(" of {} files", files.read),
        left_out => format!(" of {} files, {left_out} left out", files.read),
    })
}
