//! `spechop tune`: what a running deployment should be set to, and how sure that is.
//!
//! ```text
//! GetTuning, WhatIf, GetBackends ─▶ Curve (each k, with bounds) ─▶ Advice ─▶ text, plot, SVG
//! ```

mod advice;
mod curve;
mod plot;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use spechop_config::Env;
use spechop_eval::{curve_svg, write_whole};
use spechop_proto::admin_client::AdminClient;
use spechop_proto::{GetBackendsRequest, GetTuningRequest, Tuning};

use super::ask::answered;
use super::clean::clean;
use super::reach::{Reached, ServerArgs};
use super::tuning::played_again;
use crate::output::stdout;
use advice::{Advice, advice};
use curve::{Curve, Known};

/// The arguments of `spechop tune`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The speculator to tune for [default: the one with the most hops].
    #[arg(long, value_name = "NAME")]
    speculator: Option<String>,
    /// The values of k that are compared.
    #[arg(long, value_name = "K,…", value_delimiter = ',', default_value = "1,2,3,4,6,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    k: Vec<u32>,
    /// Also write the plot as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// How wide the plot may be, in characters [default: as the terminal, else 80].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(40..=400))]
    width: Option<u16>,
    #[command(flatten)]
    server: ServerArgs,
}

const HELP: &str = "\
The server plays its last questions again with each k, on a virtual clock, and this command draws
what that gives: RelLat (the latency divided by that at k = 1) and the look-ups of a question. The
bounds are those of p and alpha (95 %), carried over by the paper's closed form. Below are the
settings that follow, why, and what speaks against relying on them.

Nothing is changed: write what you take into the configuration file; a running server takes it up by
itself. With question.k = \"auto\" the server chooses by itself and keeps learning.

This is of one tenant: that of your key, which needs the role `admin`, else the one without a name.
For another tenant, make a key: spechop keys new --name NAME --tenant TENANT --role admin

Examples:
  spechop tune
  spechop tune --svg tune.svg --speculator index
  spechop tuning --json      # the same estimates for programs";

/// Characters of a plot if nobody says and no terminal is there.
const WIDTH: u16 = 80;

/// Asks, and prints.
pub(crate) async fn run(args: Args, env: &Env) -> anyhow::Result<()> {
    let mut admin = AdminClient::new(args.server.reach(env).await?);
    let text = match known(&mut admin, &args).await? {
        Some((curve, known)) => {
            if let Some(file) = &args.svg {
                let svg = curve_svg(&curve.figure());
                write_whole(file, svg.as_bytes())?;
            }
            let width = args.width.unwrap_or_else(terminal_width);
            page(&curve, &advice(&curve, &known), usize::from(width))
        }
        None => nothing_known(args.speculator.as_deref()),
    };
    Ok(writeln!(stdout(), "{}", text.trim_end())?)
}

fn terminal_width() -> u16 {
    let size = console::Term::stdout().size_checked();
    size.map_or(WIDTH, |(_, columns)| columns.clamp(40, 400))
}

/// What the server has learnt, as far as it can be drawn. `None`: it has played no question.
async fn known(
    admin: &mut AdminClient<Reached>,
    args: &Args,
) -> anyhow::Result<Option<(Curve, Known)>> {
    let learnt = answered(admin.get_tuning(GetTuningRequest {}).await)?;
    let Some(tuning) = chosen(learnt.tunings, args.speculator.as_deref())? else {
        return Ok(None);
    };
    let mut ks = args.k.clone();
    ks.push(1);
    ks.sort_unstable();
    ks.dedup();
    let played = played_again(admin, ks, &tuning.speculator).await?;
    let backends = answered(admin.get_backends(GetBackendsRequest {}).await)?;
    let waiting = backends.backends.iter();
    let waiting = waiting
        .map(|backend| backend.waiting_authoritative)
        .sum::<u32>();
    let known = Known::of(&tuning, &played, waiting);
    Ok(Curve::of(&tuning, &played).map(|curve| (curve, known)))
}

/// The speculator of this name, else the one that is known best. `None`: nothing is known of any.
fn chosen(tunings: Vec<Tuning>, name: Option<&str>) -> anyhow::Result<Option<Tuning>> {
    let Some(name) = name.filter(|_| !tunings.is_empty()) else {
        return Ok(tunings.into_iter().max_by_key(|tuning| tuning.hops));
    };
    let known = tunings.iter().map(|tuning| clean(&tuning.speculator));
    let known = known.collect::<Vec<_>>().join(", ");
    let mut tunings = tunings.into_iter();
    let found = tunings.find(|tuning| tuning.speculator == name);
    let unknown = || {
        format!(
            "the server has answered no question of this tenant with the speculator `{name}` yet; \
             it knows: {known}"
        )
    };
    found.with_context(unknown).map(Some)
}

fn nothing_known(speculator: Option<&str>) -> String {
    let whose = speculator.map_or_else(
        || "with a speculator".to_owned(),
        |name| format!("with the speculator {name}"),
    );
    format!(
        "The server has not answered a question of this tenant {whose} yet, so there is nothing to tune by.\n\
         \n\
         Let it answer some that are like yours, and come back:\n  \
         spechop eval load --a k=3 --for 120 --questions FILE\n\
         The server keeps what it has learnt over a restart, unless tuning.state is \"none\"."
    )
}

/// For people. Writing to a text does not fail.
fn page(curve: &Curve, advice: &Advice, width: usize) -> String {
    let title = format!(
        "{}: {} questions played again, {} hops",
        curve.speculator, curve.questions, curve.hops
    );
    let mut text = wrapped(&title, width).join("\n") + "\n\n";
    text += &plot::plot(curve, advice.k, width);
    let _ = writeln!(text, "\nRecommended");
    for setting in &advice.settings {
        let _ = writeln!(text, "  {} = {}", setting.key, setting.value);
        for line in wrapped(&setting.why, width.saturating_sub(6)) {
            let _ = writeln!(text, "      {line}");
        }
    }
    let _ = writeln!(text, "\nNot sure");
    for doubt in &advice.doubts {
        let mut lines = wrapped(doubt, width.saturating_sub(4)).into_iter();
        let _ = writeln!(text, "  - {}", lines.next().unwrap_or_default());
        for line in lines {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// Lines of at most so many characters, if no word is longer. Some of it comes from the server.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in clean(text).split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::curve::tests::{estimate, played, tuning};
    use super::*;

    fn shown(tuning: &Tuning, questions: u32, width: usize) -> String {
        let played = played(
            questions,
            &[
                (1, 1.0, 3.0),
                (2, 0.7, 3.4),
                (3, 0.6, 3.9),
                (4, 0.595, 4.5),
                (8, 0.595, 5.9),
            ],
        );
        let curve = Curve::of(tuning, &played).unwrap();
        page(
            &curve,
            &advice(&curve, &Known::of(tuning, &played, 0)),
            width,
        )
    }

    #[test]
    fn a_deployment_that_is_known_well() {
        let page = shown(&tuning(), 200, 80);
        for words in [
            "index: 200 questions played again, 600 hops",
            ">   3 0.60",
            "question.k = 3",
            "question.chance_min = 0.38",
            "question.budget_target_calls = 8",
            "┼",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }

    #[test]
    fn a_deployment_that_is_hardly_known_on_a_narrow_terminal() {
        let mut tuning = tuning();
        tuning.p = estimate(0.62, 0.31, 0.86);
        tuning.nu = 1.4;
        let page = shown(&tuning, 6, 48);
        for words in [
            "few questions: 6 were played",
            "wide bounds: p is 0.62",
            "times vary much",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        // There is no room for bars.
        assert!(!page.contains('┼'), "{page}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [40, 60, 80, 120] {
            let page = shown(&tuning(), 200, width);
            let widest = page.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}: {widest:?}\n{page}");
        }
    }

    #[test]
    fn a_server_without_a_history_says_what_to_do() {
        for name in [None, Some("index")] {
            assert!(chosen(Vec::new(), name).unwrap().is_none());
        }
        assert!(Curve::of(&tuning(), &played(0, &[])).is_none());
        let text = nothing_known(Some("index"));
        assert!(text.contains("the speculator index yet"), "{text}");
        assert!(text.contains("spechop eval load"), "{text}");
    }

    #[test]
    fn the_speculator_that_is_known_best_is_taken() {
        let mut other = tuning();
        other.speculator = "llm".into();
        other.hops += 1;
        let both = || vec![tuning(), other.clone()];
        for (name, taken) in [(None, "llm"), (Some("index"), "index")] {
            let found = chosen(both(), name).unwrap().unwrap();
            assert_eq!(found.speculator, taken);
        }
        let told = chosen(both(), Some("indx")).unwrap_err().to_string();
        assert!(told.contains("`indx` yet; it knows: index, llm"), "{told}");
    }
}
