//! `spechop eval choose`: the choice of each hop beside every fixed setting.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use spechop_eval::{Bundle, Compared, Recording, compare, learning};
use spechop_sim::Wanted;

use super::super::from_one_to;
use super::asked::must_guess;
use super::record::{Latency, latency};

/// The arguments of `spechop eval choose`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The folder of the bundle that `spechop eval record` made.
    #[arg(long, value_name = "DIR")]
    bundle: PathBuf,
    /// Whose guesses of the bundle are played.
    #[arg(long, default_value = "hot")]
    speculator: String,
    /// The latency that is added to every look-up. `0` adds none.
    #[arg(long, value_name = "MEAN:SIGMA:SEED|0", value_parser = latency, default_value = "0")]
    inject: Latency,
    /// The widest window (1 to 64).
    #[arg(long, default_value = "8", value_parser = from_one_to(64))]
    k_max: NonZeroUsize,
    /// Share of the latency up to which fewer target calls are worth more than speed.
    #[arg(long, default_value_t = 0.002)]
    tolerance: f64,
    /// What a further target call of a question must save, as a share of its latency at k = 1.
    #[arg(long, default_value_t = 0.0)]
    call_worth: f64,
    /// Most target calls of a question for each one at k = 1; `inf` for no limit.
    #[arg(long, default_value_t = f64::INFINITY)]
    calls_max: f64,
}

const HELP: &str = "\
Weighs each hop of recorded questions as `k = auto` does: build on the guess, leave its answer open, or
wait. What it is weighed by is learnt from one half of the questions and played on the other, both ways.
Beside it stands the best fixed setting of k, chance-min and plan-ahead, found on the same questions.
The last two lines play the questions in their order and learn from those before, as a server does.

Example:
  spechop eval choose --bundle eval/runs/2wiki-own/bundle --inject 4150:1680:1";

/// Questions that a server may learn from before it is measured.
const SKIPPED: usize = 50;

/// Plays, and prints what came of it.
pub(crate) fn run(args: &Args, mut output: impl Write) -> anyhow::Result<()> {
    anyhow::ensure!(
        (0.0..1.0).contains(&args.tolerance),
        "--tolerance must lie between 0 and 1, not {}",
        args.tolerance
    );
    anyhow::ensure!(
        args.call_worth >= 0.0 && args.call_worth.is_finite(),
        "--call-worth must be a number from 0 on, not {}",
        args.call_worth
    );
    anyhow::ensure!(
        args.calls_max >= 1.0,
        "--calls-max must be 1 or more, not {}",
        args.calls_max
    );
    let bundle = Bundle::read(&args.bundle)?;
    must_guess(&bundle, &args.speculator)?;
    let wanted = Wanted {
        tolerance: args.tolerance,
        worth: args.call_worth,
        calls_max: args.calls_max,
        load: 0.0,
    };
    let recording = Recording {
        bundle: &bundle,
        speculator: &args.speculator,
        injected: args.inject.0,
        k_max: args.k_max,
    };
    let [hops, untried] = recording.hops()?;
    if untried > 0 {
        writeln!(
            output,
            "of {hops} hops, {untried} were not guessed; they have the guesses of others"
        )?;
    }
    let (compared, chosen) = compare(&recording, wanted)?;
    let heading = "questions                      best fixed setting              RelLat  targets | chosen: RelLat  targets | k = 1";
    writeln!(output, "{heading}")?;
    for of in &compared {
        let Some((setting, fixed)) = of.best() else {
            continue;
        };
        let kind = of.kind.as_deref().unwrap_or("all");
        writeln!(
            output,
            "{:4} {kind:25} {:32} {:5.3} {:8.2} | {:14.3} {:8.2} | {:5.2}",
            of.questions,
            setting.to_string(),
            fixed.rel_lat,
            fixed.targets,
            of.chosen.rel_lat,
            of.chosen.targets,
            of.standard_targets,
        )?;
    }
    for (places, played) in ["1, 3, 5, …", "2, 4, 6, …"].iter().zip(&chosen) {
        let Some(played) = played else { continue };
        writeln!(
            output,
            "for questions {places}, learnt from the others: k = {}, planning ahead {}, a guess is built upon from a chance of {:.2} on",
            played.k,
            if played.plan_ahead { "on" } else { "off" },
            played.weighing.least(0.0).share(),
        )?;
    }
    let all = compared.iter().find(|of| of.kind.is_none());
    if let Some((setting, _)) = all.and_then(Compared::best) {
        let skipped = [0, SKIPPED.min(bundle.questions().len() / 2)];
        let costs = learning(&recording, wanted, *setting, skipped)?;
        for (skipped, [learnt, fixed]) in skipped.iter().zip(costs) {
            writeln!(
                output,
                "learning as it goes, from question {}: RelLat {:.3}, targets {:.2}; {setting}: {:.3}, {:.2}",
                skipped + 1,
                learnt.rel_lat,
                learnt.targets,
                fixed.rel_lat,
                fixed.targets,
            )?;
        }
    }
    Ok(())
}
