//! `spechop index hot`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use spechop_index::{Chosen, Hot, Traffic};
use spechop_server::read_traffic;

use super::say;

/// The arguments of `spechop index hot`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The folder of the index. The subset goes to DIR/hot, in place of one that is there.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The share of the passages that is in, above 0 and at most 1.
    #[arg(long, value_name = "F")]
    fraction: f64,
    /// The file in which a server has counted which passages its verified answers came from
    /// (speculator.traffic_file) [default: in-degrees alone decide].
    #[arg(long, value_name = "FILE")]
    traffic: Option<PathBuf>,
    /// Count only the answers of this tenant; can be repeated. `default` is the one without a name
    /// [default: all tenants of the file].
    #[arg(long, value_name = "NAME", requires = "traffic")]
    tenant: Vec<String>,
    /// A file that says how often each title is mentioned: one {"title","mention_indegree"} a line,
    /// plain or packed [default: the numbers of links that come with the passages].
    #[arg(long, value_name = "FILE")]
    in_degree: Option<PathBuf>,
    /// Print one JSON object on stdout instead of a sentence.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
The passages that most answers came from are in. In-degrees decide between equal counts, and fill up.
With --traffic, passages without either are left out. A file for --in-degree must name titles of the
index. Nothing is encoded again.
The subset grows beside the old one and takes its place in one step. A server that has the old one open
keeps it until it is started again, or chooses one itself (speculator.hot_every_s).
All tenants of a server share its hot subset: what is in it says something about the questions of the
tenants whose answers were counted.

Examples:
  spechop index hot indexes/wikipedia --fraction 0.1
  spechop index hot indexes/wikipedia --fraction 0.1 --traffic traffic.json --tenant team-7";

/// What the command says on stdout, for programs.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(serialize_with = "crate::output::lossy")]
    index: &'a Path,
    hot_rows: usize,
    by_traffic: usize,
    unknown: usize,
    up_to_date: bool,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let mut traffic = Traffic::new();
    if let Some(path) = &args.traffic {
        let mut known = args.tenant.is_empty();
        for counted in read_traffic(path)? {
            let tenant = counted.tenant.to_string();
            if args.tenant.is_empty() || args.tenant.contains(&tenant) {
                known = true;
                let answers = traffic.entry(counted.passage).or_insert(0);
                *answers = answers.saturating_add(counted.answers);
            }
        }
        anyhow::ensure!(
            known,
            "{} holds no answer of {}: name tenants of speculator.hot_tenants",
            path.display(),
            args.tenant.join(", ")
        );
    }
    let hot = Hot {
        fraction: args.fraction,
        in_degree: args.in_degree,
    };
    let Chosen {
        rows,
        by_traffic,
        unknown,
        is_new,
    } = hot.choose_for(&args.dir, None, &traffic)?;
    let summary = Summary {
        index: &args.dir,
        hot_rows: rows,
        by_traffic,
        unknown,
        up_to_date: !is_new,
    };
    let mut sentence = format!(
        "hot subset of {} {}; {rows} passages",
        args.dir.display(),
        if is_new { "written" } else { "is up to date" }
    );
    if args.traffic.is_some() {
        sentence += &format!(", {by_traffic} by traffic; {unknown} more are not in this index");
    }
    say(args.json, &summary, &sentence)
}
