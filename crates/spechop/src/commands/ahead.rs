//! Flags that say how far speculation goes: the same for a server's answer and for a simulated one.

use std::num::NonZeroUsize;

use spechop_types::{AnswerOptions, Chance};

use super::from_one_to;

/// The most that a server can be configured to take (`question.guesses_max`).
const GUESSES_MAX: u16 = 16;

/// How far speculation goes.
#[derive(Debug, clap::Args)]
pub(super) struct AheadArgs {
    /// Keep no look-ups of rolled-back branches for reuse.
    #[arg(long, conflicts_with = "plan_ahead")]
    no_salvage: bool,
    /// If there is no guess, plan the next hop with the answer left open.
    #[arg(long)]
    plan_ahead: bool,
    /// The most guesses of one hop that branches are built upon (1 to 16).
    #[arg(long, value_name = "N", value_parser = from_one_to(GUESSES_MAX))]
    guesses: Option<NonZeroUsize>,
    /// Build no branch that is less likely than this to be needed (0 to 1).
    #[arg(long, value_name = "X", value_parser = chance)]
    chance_min: Option<Chance>,
}

impl AheadArgs {
    /// What is said.
    pub(super) fn options(&self) -> AnswerOptions {
        AnswerOptions {
            salvage: self.no_salvage.then_some(false),
            plan_ahead: self.plan_ahead.then_some(true),
            guesses: self.guesses,
            chance_min: self.chance_min,
            ..AnswerOptions::default()
        }
    }
}

fn chance(text: &str) -> Result<Chance, String> {
    let share = text.parse().ok().and_then(Chance::exactly);
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}
