//! A million random schedules of the window against the standard agent, every law looked at after every
//! event. `make prove` runs it; a schedule that fails is named, and can be run alone.
//!
//! `cargo run --release -p spechop-window --example prove -- [SCHEDULES [SEED]]`

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]

#[path = "../tests/world/mod.rs"]
mod world;

use std::io::IsTerminal;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use world::{Schedule, Seen, draw, oracle};

/// Schedules between two reports of a thread.
const STEP: u64 = 1_000;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let (schedules, seed) = match (args.next(), args.next()) {
        (None, None) => (1_000_000, clock()),
        (Some(Ok(schedules)), None) => (schedules, clock()),
        (Some(Ok(schedules)), Some(Ok(seed))) => (schedules, seed),
        _ => {
            eprintln!("usage: prove [SCHEDULES [SEED]]");
            return ExitCode::FAILURE;
        }
    };
    println!("{schedules} schedules from seed {seed}");
    let began = Instant::now();
    let Some(seen) = prove(schedules, seed) else {
        return ExitCode::FAILURE;
    };
    println!(
        "every committed trajectory is the standard agent's, and every law held after each of {} events \
         ({:.0} s)\nbranches rolled back {}, look-ups salvaged {}, orphans expired {}, \
         segments with an open answer {}, later guesses right {}, guesses too unlikely {} \
         (in time {}), calls failed {}",
        seen.events,
        began.elapsed().as_secs_f64(),
        seen.rolled_back,
        seen.salvaged,
        seen.expired,
        seen.left_open,
        seen.second_guesses,
        seen.gated,
        seen.let_through,
        seen.failures,
    );
    ExitCode::SUCCESS
}

/// Runs them all, on every core. `None` where one failed.
fn prove(schedules: u64, seed: u64) -> Option<Seen> {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let bar = progress(schedules);
    let worker = || {
        let mut seen = Seen::default();
        while !failed.load(Relaxed) {
            let from = next.fetch_add(STEP, Relaxed);
            let to = (from + STEP).min(schedules);
            for n in from..to {
                let seed = seed.wrapping_add(n);
                match catch_unwind(|| play(seed)) {
                    Ok(one) => seen.add(one),
                    Err(_) => {
                        failed.store(true, Relaxed);
                        eprintln!("the schedule of seed {seed} failed; alone: prove 1 {seed}");
                        return seen;
                    }
                }
            }
            if to <= from {
                break;
            }
            bar.inc(to - from);
        }
        seen
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut all = Seen::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            match worker.join() {
                Ok(seen) => all.add(seen),
                Err(_) => failed.store(true, Relaxed),
            }
        }
    });
    bar.finish_and_clear();
    (!failed.load(Relaxed)).then_some(all)
}

/// One schedule: its world, its window and the order of its events all come from the seed.
fn play(seed: u64) -> Seen {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (world, limits) = draw(rng.random());
    let mut schedule = Schedule::new(world, limits);
    while schedule.outcome.is_none() {
        schedule.step(|running| rng.random_range(0..running));
    }
    assert_eq!(schedule.outcome, Some(oracle(world, limits)));
    schedule.seen
}

fn clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |since| since.as_secs())
}

fn progress(schedules: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len} schedules, {per_sec}, {eta} left");
    ProgressBar::new(schedules).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
