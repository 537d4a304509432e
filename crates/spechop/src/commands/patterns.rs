//! `spechop patterns mine|show|check`: the patterns by which the drafter guesses sub-questions.

mod table;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use spechop_draft::{
    MineOptions, PatternDrafter, Patterns, Segment, Trajectory, check, mine, read_bundle,
    read_trajectories, segments, trajectories,
};
use spechop_eval::write_whole;

use super::share;
use crate::input;

/// The arguments of `spechop patterns`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
A pattern says what the planner asks after what. It is a form, which is a text without its names:

  When did the director of film {q1} die?
    Who is the director of the film {q1}?
    When did {a1} die?

{q1} is the first name in the question, {a1} the answer of the first sub-question. Patterns of
a sub-question that found nothing hold what is asked instead, whatever the question; {s1} is the first
name in that sub-question. The drafter fills in the names, and
so guesses a sub-question before the planner has written it.

Example: mine patterns of a planner of your own, and see how good they are.
  spechop patterns mine --trajectories FILE --out patterns.json
  spechop patterns check --patterns patterns.json --bundle eval/runs/2wiki-own/bundle";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Mine patterns from trajectories, and write them to a file.
    Mine(MineArgs),
    /// Show patterns as a table.
    Show(ShowArgs),
    /// Compare drafts with what the planner wrote, word for word.
    Check(CheckArgs),
}

/// Where trajectories come from.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Sources {
    /// Trajectories, one JSON object a line:
    /// {"question":…,"hops":[{"sub_question":…,"answer":…,"found":true}]}.
    #[arg(long, value_name = "FILE")]
    trajectories: Vec<PathBuf>,
    /// Folders that `spechop eval record` wrote: their segments of the planner are read.
    #[arg(long, value_name = "DIR")]
    bundle: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct MineArgs {
    #[command(flatten)]
    sources: Sources,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// In how many different questions a form must stand.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    support: u32,
    /// The share of places at which a form's drafts must be right, on questions left out of its mining.
    #[arg(long, value_name = "SHARE", default_value_t = 0.4, value_parser = share)]
    precision: f64,
    /// How many of the patterns to print, those of most questions first.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// A file of `spechop patterns mine` [default: the patterns that come with the program].
    #[arg(long, value_name = "FILE")]
    patterns: Option<PathBuf>,
    /// How many patterns to show, those of most questions first [default: all].
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    #[command(flatten)]
    sources: Sources,
    /// A file of `spechop patterns mine` [default: the patterns that come with the program].
    #[arg(long, value_name = "FILE")]
    patterns: Option<PathBuf>,
    /// Most drafts of a sub-question.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    drafts: u8,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Carries a command out, and prints its result.
pub(crate) fn run(args: &Args, mut output: impl Write) -> anyhow::Result<()> {
    let text = match &args.command {
        Command::Mine(args) => mined(args)?,
        Command::Show(args) => shown(args)?,
        Command::Check(args) => checked(args)?,
    };
    Ok(output.write_all(text.as_bytes())?)
}

fn mined(args: &MineArgs) -> anyhow::Result<String> {
    let (trajectories, without_hops) = args.sources.trajectories()?;
    let options = MineOptions {
        support: args.support as usize,
        precision_min: args.precision,
        ..MineOptions::default()
    };
    let mined = mine(&trajectories, &options)?;
    let json = mined.patterns.to_json()?;
    write_whole(&args.out, json.as_bytes())?;
    let rows = mined.patterns.rows();
    if args.json {
        return table::mined_json(&mined.report, without_hops, json.len());
    }
    let mut text = table::mined(&mined.report, without_hops, json.len());
    text.push('\n');
    text.push_str(&table::patterns(&rows, args.top));
    Ok(text)
}

fn shown(args: &ShowArgs) -> anyhow::Result<String> {
    let rows = patterns(args.patterns.as_deref())?.rows();
    let top = args.top.unwrap_or(rows.len());
    if args.json {
        return table::patterns_json(&rows, top);
    }
    Ok(table::patterns(&rows, top))
}

fn checked(args: &CheckArgs) -> anyhow::Result<String> {
    let drafter = PatternDrafter::new(patterns(args.patterns.as_deref())?);
    let segments = args.sources.segments()?;
    if segments.is_empty() {
        bail!("there is no segment of a planner to compare with");
    }
    let scores = check(&drafter, &segments, usize::from(args.drafts));
    match args.json {
        true => table::scores_json(&scores),
        false => Ok(table::scores(&scores)),
    }
}

fn patterns(file: Option<&Path>) -> anyhow::Result<Patterns> {
    let Some(file) = file else {
        return Patterns::shipped().context("the patterns that come with the program");
    };
    Patterns::from_json(&input::read(file)?).with_context(|| format!("{}", file.display()))
}

impl Sources {
    /// All trajectories, and how many had no hops.
    fn trajectories(&self) -> anyhow::Result<(Vec<Trajectory>, usize)> {
        let (mut all, mut without_hops) = (Vec::new(), 0);
        for file in &self.trajectories {
            let traces = read_trajectories(input::open(file)?);
            let traces = traces.with_context(|| format!("{}", file.display()))?;
            all.extend(traces.trajectories);
            without_hops += traces.without_hops;
        }
        for folder in &self.bundle {
            all.extend(trajectories(&bundle(folder)?));
        }
        Ok((all, without_hops))
    }

    /// All segments. Those of trajectories are counted under the name of their file.
    fn segments(&self) -> anyhow::Result<Vec<Segment>> {
        let mut all = Vec::new();
        for file in &self.trajectories {
            let traces = read_trajectories(input::open(file)?);
            let traces = traces.with_context(|| format!("{}", file.display()))?;
            let name = file.file_name().unwrap_or(file.as_os_str());
            all.extend(segments(&traces.trajectories, &name.to_string_lossy()));
        }
        for folder in &self.bundle {
            all.extend(bundle(folder)?);
        }
        Ok(all)
    }
}

fn bundle(folder: &Path) -> anyhow::Result<Vec<Segment>> {
    let questions = input::open(&folder.join("questions.jsonl"))?;
    let stages = input::open(&folder.join("stages.jsonl"))?;
    read_bundle(questions, stages).with_context(|| format!("the bundle {}", folder.display()))
}
