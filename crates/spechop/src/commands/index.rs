//! `spechop index build|check|push`: passage indexes.

mod push;

use std::fs;
use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};
use serde::Serialize;
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_index::{Build, Built, Files, Hot, Progress, check};
use spechop_server::Env;
use spechop_server::config::default_index_dir;
use spechop_server::model_note::{compare_at, sha256s};
use tokio::time::Instant;

use crate::models::DEFAULT_ENCODER;

/// Where nobody watches a bar, a line this often.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The arguments of `spechop index`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build an index from a corpus, or resume a build that was interrupted.
    Build(BuildArgs),
    /// Read every byte of an index and check that it is complete and undamaged.
    Check(CheckArgs),
    /// Fill a collection of Qdrant from an index, or resume a push that was interrupted.
    Push(push::Args),
}

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
struct BuildArgs {
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
    /// The encoder's folder [default: the one that `spechop models pull encoder` chose].
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The ONNX Runtime library [default: the one that `spechop models pull onnxruntime` fetched].
    #[arg(long, value_name = "FILE")]
    runtime: Option<PathBuf>,
    /// Threads of the encoder [default: one for each core].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
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

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The folder of the index.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print one JSON object on stdout instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// Runs the command; models are looked for under `data_dir`.
pub(crate) fn run(args: Args, data_dir: &Path, env: &Env) -> anyhow::Result<()> {
    match args.command {
        Command::Build(args) => build(args, data_dir),
        Command::Check(args) => prove(&args),
        Command::Push(args) => push::run(&args, data_dir, env),
    }
}

fn build(args: BuildArgs, data_dir: &Path) -> anyhow::Result<()> {
    let encoder = encoder(&args, data_dir)?;
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let started = Instant::now();
    let mut display = Display::new(started);
    let built = runtime.block_on(build.run(&encoder, &mut |progress| display.show(progress)));
    display.bar.finish_and_clear();
    report(&build.out, &built?, started.elapsed(), args.json)
}

fn encoder(args: &BuildArgs, data_dir: &Path) -> anyhow::Result<OnnxEncoder> {
    let models = data_dir.join("models");
    let library = args.runtime.clone();
    let library = library.unwrap_or_else(|| models.join("onnxruntime/libonnxruntime.so"));
    let library = existing(library, "onnxruntime")?;
    let dir = args.model.clone();
    let dir = existing(
        dir.unwrap_or_else(|| models.join(chosen_encoder(&models))),
        "encoder",
    )?;
    // A damaged encoder builds an index that only the damaged encoder can search.
    for path in [&library, &dir] {
        compare_at(path)?;
    }
    let mut options = EncoderOptions::new(library);
    options.threads = args.threads.unwrap_or(options.threads);
    options.proven_sha256 = sha256s(&dir);
    Ok(OnnxEncoder::open(&dir, &options.side_by_side())?)
}

/// `spechop models pull encoder` notes which encoder it came to; the server goes by the same note.
fn chosen_encoder(models: &Path) -> String {
    match fs::read_to_string(models.join("default-encoder")) {
        Ok(note) if !note.trim().is_empty() => note.trim().to_owned(),
        Ok(_) | Err(_) => DEFAULT_ENCODER.to_owned(),
    }
}

fn existing(path: PathBuf, model: &str) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    anyhow::ensure!(
        path.exists(),
        "{shown} is missing: run `spechop models pull {model}`"
    );
    Ok(path)
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

/// What a check says on stdout, for programs.
#[derive(Serialize)]
struct Proof<'a> {
    index: &'a Path,
    rows: usize,
    bytes: u64,
    hot_rows: Option<usize>,
    inputs: spechop_index::Inputs,
}

fn prove(args: &CheckArgs) -> anyhow::Result<()> {
    let checked = check(&args.dir)?;
    let (rows, hot, shown) = (checked.rows, hot(checked.hot_rows), args.dir.display());
    let (encoder, width) = (&checked.inputs.encoder, checked.inputs.width);
    let bytes = HumanBytes(checked.bytes);
    let sentence = format!(
        "index {shown} is whole; {rows} passages{hot}, {bytes}, encoder {encoder} ({width})"
    );
    let proof = Proof {
        index: &args.dir,
        rows,
        bytes: checked.bytes,
        hot_rows: checked.hot_rows,
        inputs: checked.inputs,
    };
    say(args.json, &proof, &sentence)
}

fn of_files(files: Option<&Files>) -> String {
    files.map_or_else(String::new, |files| match files.left_out() {
        0 => format!(" of {} files", files.read),
        left_out => format!(" of {} files, {left_out} left out", files.read),
    })
}

fn hot(rows: Option<usize>) -> String {
    rows.map_or_else(String::new, |rows| format!(" ({rows} hot)"))
}

/// The JSON for programs, or the sentence for people, as one line on stdout.
fn say(json: bool, value: &impl Serialize, sentence: &str) -> anyhow::Result<()> {
    let line = if json {
        serde_json::to_string(value)?
    } else {
        sentence.to_owned()
    };
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}

/// A bar where someone watches; elsewhere a line now and then.
struct Display {
    bar: ProgressBar,
    watched: bool,
    started: Instant,
    line_at: Instant,
    /// Passages that an earlier run had encoded.
    before: Option<usize>,
}

impl Display {
    fn new(started: Instant) -> Self {
        let watched = std::io::stderr().is_terminal();
        let bar = if watched {
            ProgressBar::no_length()
        } else {
            ProgressBar::hidden()
        };
        // The template is a constant, and tried by a test.
        let style = ProgressStyle::with_template(TEMPLATE);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            bar,
            watched,
            started,
            line_at: started,
            before: None,
        }
    }

    fn show(&mut self, progress: Progress) {
        let Progress { done, total } = progress;
        let before = match self.before {
            Some(before) => before,
            None => {
                self.started = Instant::now();
                self.bar.set_length(total as u64);
                self.bar.set_position(done as u64);
                // What was there before must not count as speed.
                self.bar.reset_eta();
                if done > 0 {
                    self.bar
                        .suspend(|| eprintln!("going on from passage {done} of {total}"));
                }
                *self.before.insert(done)
            }
        };
        self.bar.set_position(done as u64);
        if !self.watched && self.line_at.elapsed() >= LINE_EVERY && done > before {
            self.line_at = Instant::now();
            eprintln!("{}", line(progress, done - before, self.started.elapsed()));
        }
    }
}

const TEMPLATE: &str = "{bar:32} {pos}/{len} passages, {per_sec}, {eta} left";

/// `512/6120 passages, 51.2/s, 2 minutes left`
fn line(progress: Progress, here: usize, took: Duration) -> String {
    let Progress { done, total } = progress;
    let rate = here as f64 / took.as_secs_f64().max(1e-3);
    let left = Duration::from_secs_f64(((total - done) as f64 / rate).min(1e9));
    format!(
        "{done}/{total} passages, {rate:.1}/s, {} left",
        HumanDuration(left)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_has_a_template_that_can_be_read() {
        ProgressStyle::with_template(TEMPLATE).unwrap();
    }

    #[test]
    fn a_line_tells_rate_and_time_left_of_this_run() {
        let progress = Progress {
            done: 512,
            total: 1012,
        };
        assert_eq!(
            line(progress, 100, Duration::from_secs(10)),
            "512/1012 passages, 10.0/s, 50 seconds left"
        );
    }

    #[test]
    fn the_encoder_is_the_one_that_was_chosen() {
        let models = tempfile::tempdir().unwrap();
        assert_eq!(chosen_encoder(models.path()), DEFAULT_ENCODER);
        fs::write(models.path().join("default-encoder"), "gte-small\n").unwrap();
        assert_eq!(chosen_encoder(models.path()), "gte-small");
    }
}
