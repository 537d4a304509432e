//! How a question is to be answered, or was: the same options on the wire, in the configuration, on the
//! command line and in measurements.

#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Chance;

/// How a question is to be answered. Who reads it decides about everything that is not said. Of an
/// answered question, everything is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerOptions {
    /// Most branches alive at once.
    pub k: Option<K>,
    /// Most hops, at least 1.
    pub hop_budget: Option<u32>,
    /// Passages read for each hop.
    pub top_passages: Option<NonZeroUsize>,
    /// When a guess counts as right.
    pub verifier: Option<VerifierMode>,
    /// Who guesses.
    pub speculator: Option<String>,
    /// Whether look-ups of rolled-back branches are kept.
    pub salvage: Option<bool>,
    /// Whether planning continues without a guess.
    pub plan_ahead: Option<bool>,
    /// Most guesses of a hop that branches are built upon.
    pub guesses: Option<NonZeroUsize>,
    /// No branch is built that is less likely than this to be needed.
    pub chance_min: Option<Chance>,
    /// Most look-ups that may find nothing.
    pub not_found_max: Option<u32>,
    /// Most look-ups that are begun for a hop while its sub-question is still being written.
    pub drafts: Option<u32>,
    /// How much is done for a better answer.
    pub effort: Option<Effort>,
    /// Whether kept results of earlier look-ups are passed by.
    pub fresh: bool,
    /// Whether no look-up is made ahead of need.
    pub quiet: bool,
}

impl AnswerOptions {
    /// With what `usual` says about everything that is not said here.
    #[must_use]
    pub fn or(self, usual: &Self) -> Self {
        Self {
            k: self.k.or(usual.k),
            hop_budget: self.hop_budget.or(usual.hop_budget),
            top_passages: self.top_passages.or(usual.top_passages),
            verifier: self.verifier.or(usual.verifier),
            speculator: self.speculator.or_else(|| usual.speculator.clone()),
            salvage: self.salvage.or(usual.salvage),
            plan_ahead: self.plan_ahead.or(usual.plan_ahead),
            guesses: self.guesses.or(usual.guesses),
            chance_min: self.chance_min.or(usual.chance_min),
            not_found_max: self.not_found_max.or(usual.not_found_max),
            drafts: self.drafts.or(usual.drafts),
            effort: self.effort.or(usual.effort),
            fresh: self.fresh || usual.fresh,
            quiet: self.quiet || usual.quiet,
        }
    }

    /// What is said, by name, each as [`Self::say`] takes it.
    pub fn said(&self) -> Vec<(&'static str, String)> {
        fn text<T: fmt::Display>(value: Option<T>) -> Option<String> {
            value.map(|value| value.to_string())
        }
        fn switch(on: bool) -> String {
            (if on { "on" } else { "off" }).to_owned()
        }
        let all = [
            ("k", text(self.k)),
            ("hop_budget", text(self.hop_budget)),
            ("top_passages", text(self.top_passages)),
            ("speculator", self.speculator.clone()),
            ("verifier", text(self.verifier)),
            ("salvage", self.salvage.map(switch)),
            ("plan_ahead", self.plan_ahead.map(switch)),
            ("guesses", text(self.guesses)),
            ("chance_min", text(self.chance_min)),
            ("not_found_max", text(self.not_found_max)),
            ("drafts", text(self.drafts)),
            ("effort", text(self.effort)),
            ("fresh", self.fresh.then(|| switch(true))),
            ("quiet", self.quiet.then(|| switch(true))),
        ];
        let said = |(name, value): (_, Option<String>)| value.map(|value| (name, value));
        all.into_iter().filter_map(said).collect()
    }

    /// Says an option by its name: `plan_ahead`, `on`.
    ///
    /// # Errors
    ///
    /// There is no such option, or it has no such value.
    pub fn say(&mut self, name: &str, value: &str) -> Result<(), InvalidOption> {
        fn read<T: FromStr>(value: &str) -> Result<T, InvalidOption> {
            value.parse().map_err(|_| InvalidOption::Value)
        }
        fn switch(value: &str) -> Result<bool, InvalidOption> {
            match value {
                "on" => Ok(true),
                "off" => Ok(false),
                _ => Err(InvalidOption::Value),
            }
        }
        match name {
            "k" => self.k = Some(read(value)?),
            "hop_budget" => self.hop_budget = Some(at_least_one(read(value)?)?),
            "top_passages" => self.top_passages = Some(read(value)?),
            "speculator" => self.speculator = Some(value.to_owned()),
            "verifier" => self.verifier = Some(read(value)?),
            "salvage" => self.salvage = Some(switch(value)?),
            "plan_ahead" => self.plan_ahead = Some(switch(value)?),
            "guesses" => self.guesses = Some(read(value)?),
            "chance_min" => {
                let share = read(value)?;
                let chance = Chance::exactly(share).ok_or(InvalidOption::Value)?;
                self.chance_min = Some(chance);
            }
            "not_found_max" => self.not_found_max = Some(read(value)?),
            "drafts" => self.drafts = Some(read(value)?),
            "effort" => self.effort = Some(read(value)?),
            "fresh" => self.fresh = switch(value)?,
            "quiet" => self.quiet = switch(value)?,
            _ => return Err(InvalidOption::Name),
        }
        Ok(())
    }

    /// The first option that is said here and is not the same in `other`.
    pub fn unlike(&self, other: &Self) -> Option<&'static str> {
        let other = other.said();
        let mut said = self.said().into_iter();
        said.find(|pair| !other.contains(pair))
            .map(|(name, _)| name)
    }
}

fn at_least_one(number: u32) -> Result<u32, InvalidOption> {
    match number {
        0 => Err(InvalidOption::Value),
        number => Ok(number),
    }
}

/// Why an option cannot be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidOption {
    /// There is none of this name.
    Name,
    /// It has no such value.
    Value,
}

impl fmt::Display for InvalidOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "there is no such option",
            Self::Value => "the option has no such value",
        })
    }
}

impl std::error::Error for InvalidOption {}

/// The paper's k, as somebody asks for it: the most branches alive at once. In tables in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum K {
    /// So many. 1 is the standard agent, which never speculates.
    Bounded(NonZeroUsize),
    /// As many as there may be.
    Unbounded,
    /// As many as the server chooses for each question.
    Auto,
}

impl K {
    /// The standard agent.
    pub const ONE: Self = Self::Bounded(NonZeroUsize::MIN);

    /// So many branches. `None` for 0: there is no such k.
    pub const fn of(k: usize) -> Option<Self> {
        match NonZeroUsize::new(k) {
            Some(k) => Some(Self::Bounded(k)),
            None => None,
        }
    }
}

impl fmt::Display for K {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bounded(k) => write!(f, "{k}"),
            Self::Unbounded => f.write_str("inf"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for K {
    type Err = InvalidOption;

    /// A number from 1, `inf` or `auto`.
    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        match text {
            "inf" => Ok(Self::Unbounded),
            "auto" => Ok(Self::Auto),
            number => number
                .parse()
                .map(Self::Bounded)
                .map_err(|_| InvalidOption::Value),
        }
    }
}

/// When a guess counts as right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifierMode {
    /// Byte for byte, after trimming white space. A model that goes on from the guess then reads
    /// exactly what it would have read after the observation, so that speculation changes nothing.
    /// Texts that are equal only when folded would prompt it differently.
    Exact,
    /// Both say the same thing, by our rules.
    #[default]
    Rule,
    /// The paper's rules to the letter (appendix D.4), which accept on shared words. For comparison.
    Paper,
}

impl VerifierMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Rule, Self::Paper];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Rule => "rule",
            Self::Paper => "paper",
        }
    }
}

impl fmt::Display for VerifierMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for VerifierMode {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let mut all = Self::ALL.into_iter();
        all.find(|mode| mode.as_str() == text)
            .ok_or(InvalidOption::Value)
    }
}

/// How much is done for a better answer. It is there to change answers; k is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effort {
    /// Few passages of a hop are read.
    Low,
    /// One plan is followed.
    #[default]
    Normal,
    /// If its hops were not read surely, further plans are drawn, and the surest one is the answer.
    High,
}

impl Effort {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Effort {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let mut all = Self::ALL.into_iter();
        all.find(|effort| effort.as_str() == text)
            .ok_or(InvalidOption::Value)
    }
}
