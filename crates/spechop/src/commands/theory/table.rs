//! `spechop theory --table`: the paper's rows, beside what our formulas and our simulator say of them.

use std::io::Write;
use std::num::NonZeroUsize;

use spechop_sim::{Hop, Rules, Simulator, Trace};
use spechop_theory::{HopCount, PUBLISHED, Published, Setting, k_epsilon, k_epsilon_closed};
use spechop_window::Width;

/// The largest ν that the paper measured.
const NU: f64 = 0.4;
/// How often the window may wait.
const EPSILON: f64 = 0.05;
/// How far a simulated RelLat may be from the paper's.
const CLOSE: f64 = 0.02;
/// Mean time of a simulated look-up. RelLat does not depend on it.
const TARGET_MS: f64 = 1_000.0;

/// Of some rows, how many are close to the paper.
#[derive(Default)]
struct Tally {
    close: usize,
    rows: usize,
}

/// Prints both tables.
pub(super) fn published(mut output: impl Write) -> anyhow::Result<()> {
    formulas(&mut output)?;
    Ok(simulated(&mut output)?)
}

fn formulas(output: &mut impl Write) -> anyhow::Result<()> {
    let three = NonZeroUsize::MIN.saturating_add(2);
    writeln!(
        output,
        "Tables 1 and 3 of arXiv 2605.21965: p, alpha, beta, RelLat* and RelLat are the paper's. Beside them\n\
         what the formulas say of p, alpha and beta: RelLat*, RelLat at k = 3 in rounds and continuous, and\n\
         the k whose window waits with a probability of {EPSILON} at most (nu {NU}): by search, and closed.\n\
         The paper's inputs have two digits, so RelLat* may be off by 0.01. RelLat is what it measured over\n\
         questions of a few hops. The second table simulates it.\n"
    )?;
    writeln!(
        output,
        "{:<38} {:<16} {:>5} {:>5} {:>5} {:>7} {:>6} | {:>7} {:>8} {:>7} {:>3} {:>3}",
        "generator, target, speculator",
        "data set",
        "p",
        "alpha",
        "beta",
        "RelLat*",
        "RelLat",
        "RelLat*",
        "rounds 3",
        "cont. 3",
        "k",
        "k"
    )?;
    for row in &PUBLISHED {
        let setting = Setting::new(row.p, row.alpha, row.beta, NU)?;
        writeln!(
            output,
            "{:<38} {:<16} {:>5.2} {:>5.2} {:>5.2} {:>7.2} {:>6.2} | {:>7.3} {:>8.3} {:>7.3} {:>3} {:>3}",
            names(row),
            row.dataset,
            row.p,
            row.alpha,
            row.beta,
            row.rel_lat_oracle,
            row.rel_lat,
            setting.rel_lat_oracle(),
            setting.rel_lat_k(three),
            setting.rel_lat_continuous(three),
            k_epsilon(setting, EPSILON)?,
            k_epsilon_closed(setting, EPSILON)?
        )?;
    }
    Ok(())
}

fn simulated(output: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        output,
        "\nThe same settings, simulated at k = inf by the paper's algorithm. Every stage takes its mean time.\n\
         All sequences of right and wrong guesses are played, each weighted by its probability. The last\n\
         segment takes no time, because the paper's calls to M leave it out. A fractional number of hops is\n\
         a mixture of questions with the whole numbers below and above it, in the share that makes this mean.\n\n\
         given     the look-ups of a question without speculation, one for each hop (Figure 2)\n\
         inferred  the seconds of a question without speculation (Table 2; timed in the runs with Llama),\n\
         \u{20}         divided by T (1 + beta). The mean look-up T is 0.44 s (E5) or 4.15 s (web; Figure 5)\n\
         unknown   neither is printed with GPT-5, so these rows cannot be simulated\n\n\
         The two ways disagree: for DeepResearch-9K over the web, 5.48 hops are given with GPT-4o, and 4.30\n\
         are inferred with the other three. With 5.48 hops these would be 0.759, 0.787 and 0.752, all within\n\
         {CLOSE} of the paper's RelLat.\n"
    )?;
    writeln!(
        output,
        "{:<30} {:<16} {:>5} {:<9} {:>6} {:>9} {:>7}",
        "generator, target, speculator", "data set", "hops", "", "RelLat", "simulated", "off by"
    )?;
    let mut simulator = Simulator::new();
    let (mut given, mut inferred) = (Tally::default(), Tally::default());
    for row in &PUBLISHED {
        write!(output, "{:<30} {:<16} ", names(row), row.dataset)?;
        let Some(hops) = row.hops() else {
            writeln!(output, "{:>5} {:<9} {:>6.2}", "-", "unknown", row.rel_lat)?;
            continue;
        };
        let (how, tally) = match hops {
            HopCount::Given(_) => ("given", &mut given),
            HopCount::Inferred(_) => ("inferred", &mut inferred),
        };
        let hops = hops.mean();
        let simulated = rel_lat(&mut simulator, row, hops);
        let off_by = simulated - row.rel_lat;
        let is_close = off_by.abs() <= CLOSE;
        tally.rows += 1;
        tally.close += usize::from(is_close);
        let verdict = if is_close { "within" } else { "outside" };
        writeln!(
            output,
            "{hops:>5.2} {how:<9} {:>6.2} {simulated:>9.3} {off_by:>+7.3}  {verdict}",
            row.rel_lat
        )?;
    }
    writeln!(
        output,
        "\nWithin {CLOSE} of the paper's RelLat: {} of {} with the hops given, {} of {} with the hops inferred.\n\
         Not simulated: {}.",
        given.close,
        given.rows,
        inferred.close,
        inferred.rows,
        PUBLISHED.len() - given.rows - inferred.rows
    )
}

fn names(row: &Published) -> String {
    format!("{}, {}, {}", row.generator, row.target, row.speculator)
}

/// RelLat at k = ∞ of questions that have so many hops on average: each has one of the two neighbouring
/// whole numbers. It is a mean latency divided by a mean latency, so only the average matters.
fn rel_lat(simulator: &mut Simulator, row: &Published, hops: f64) -> f64 {
    let (fewer, share_of_more) = (hops.floor() as u32, hops.fract());
    let mut mean = |width| {
        let fewer_hops = latency_ms(simulator, row, fewer, width);
        let more_hops = latency_ms(simulator, row, fewer + 1, width);
        (1.0 - share_of_more) * fewer_hops + share_of_more * more_hops
    };
    mean(Width::UNBOUNDED) / mean(Width::STANDARD)
}

/// Mean latency of a question of so many hops. There are few of them, so every sequence of right and wrong
/// guesses can be played, and nothing is drawn.
fn latency_ms(simulator: &mut Simulator, row: &Published, hops: u32, width: Width) -> f64 {
    // Each bit of a sequence says whether a hop's guess is right.
    let weighted = |sequence: u32| {
        let is_right = |at: u32| (sequence >> at) & 1 == 1;
        let trace = Trace {
            id: String::new(),
            hops: (0..hops).map(|at| hop(row, is_right(at))).collect(),
            final_ms: 0.0,
        };
        let right = f64::from(sequence.count_ones());
        let chance = row.p.powf(right) * (1.0 - row.p).powf(f64::from(hops) - right);
        chance * simulator.run(&trace, Rules::paper(width)).latency_ms
    };
    (0..2_u32.pow(hops)).map(weighted).sum()
}

/// A hop whose stages take their mean times.
fn hop(row: &Published, accepted: bool) -> Hop {
    Hop {
        segment_ms: row.beta * TARGET_MS,
        target_ms: TARGET_MS,
        speculation_ms: row.alpha * TARGET_MS,
        accepted,
        confidence: None,
        guessed: true,
        right_guess: None,
        draft_held: None,
        depends_on: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every hop but the last gains what an oracle's does: nobody waits for a guess of the last one.
    #[test]
    fn the_simulator_agrees_with_the_closed_form() {
        let mut simulator = Simulator::new();
        for row in &PUBLISHED {
            for hops in [1.0, 2.0, row.hops().map_or(3.5, HopCount::mean)] {
                let gain = row.p * (1.0 - row.alpha) / (1.0 + row.beta);
                let closed = 1.0 - (hops - 1.0) / hops * gain;
                let got = rel_lat(&mut simulator, row, hops);
                assert!((got - closed).abs() < 1e-9, "{row:?}: {got}, not {closed}");
            }
        }
    }

    /// The figures in the text above the second table: three rows with the hops that are given for the fourth.
    #[test]
    fn deep_research_with_the_hops_that_are_given() {
        let web = PUBLISHED.iter().filter(|row| {
            [row.generator, row.target, row.dataset] == ["CoRAG 8B", "web", "DeepResearch-9K"]
        });
        let inferred = web.filter(|row| matches!(row.hops(), Some(HopCount::Inferred(_))));
        let got: Vec<_> = inferred
            .map(|row| {
                let got = rel_lat(&mut Simulator::new(), row, 5.48);
                assert!((got - row.rel_lat).abs() <= CLOSE, "{row:?}: {got}");
                format!("{got:.3}")
            })
            .collect();
        assert_eq!(got, ["0.759", "0.787", "0.752"]);
    }
}
