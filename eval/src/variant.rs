//! The ways in which a question can be answered that a run compares.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One way to answer. Written as `k=3`, `k=inf,salvage=off`, `k=3,speculator=llm,verifier=exact`: what
/// is as usual is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Variant {
    /// Most branches alive at once.
    pub k: K,
    /// Who guesses. Usually `hot`.
    pub speculator: String,
    /// When a guess counts as right. Usually by our rules.
    pub verifier: Verifier,
    /// Whether look-ups of rolled-back branches are kept. Usually so.
    pub salvage: bool,
    /// Whether planning continues without a guess. Usually not.
    pub plan_ahead: bool,
    /// Guesses of a hop that branches are built upon. Usually 1.
    pub guesses: u32,
    /// No branch is built that is less likely than this to be needed. Usually 0: all are.
    pub chance_min: f64,
    /// Look-ups that are begun for a hop while its sub-question is still being written. Usually none.
    pub drafts: u32,
    /// In rounds: the window is filled again only when all of it is settled. Usually not: it slides.
    pub rounds: bool,
}

/// The paper's k: the most branches alive at once. In tables in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum K {
    /// So many.
    Bounded(u32),
    /// As many as there may be.
    Unbounded,
    /// As many as the server chooses for each question. Only a server can. It also chooses whether planning
    /// goes ahead and what is gated, unless the variant names that.
    Auto,
}

/// When a guess counts as right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verifier {
    /// The same words.
    Exact,
    /// The same meaning, by our rules.
    Rule,
    /// The paper's rules to the letter.
    Paper,
    /// Always: the guess replaces the look-up ("full speculation"). Where there is none, it is looked up.
    None,
}

impl Variant {
    /// The usual way, at this k.
    pub fn at(k: impl Into<K>) -> Self {
        Self {
            k: k.into(),
            speculator: "hot".into(),
            verifier: Verifier::Rule,
            salvage: true,
            plan_ahead: false,
            guesses: 1,
            chance_min: 0.0,
            drafts: 0,
            rounds: false,
        }
    }

    /// The standard agent, which everything is compared with.
    pub fn standard() -> Self {
        Self::at(K::Bounded(1))
    }

    /// Everything that the tables compare: widths with and without salvage, and at the paper's k = 3
    /// each ablation.
    pub fn suite() -> Vec<Self> {
        let widths = [Some(1), Some(2), Some(3), Some(4), Some(6), None].map(K::from);
        let salvaging = widths.map(Self::at);
        let plain = widths
            .into_iter()
            .filter(|k| *k != K::Bounded(1))
            .map(|k| Self {
                salvage: false,
                ..Self::at(k)
            });
        let usual = Self::at(K::Bounded(3));
        let ablations = [
            Self {
                verifier: Verifier::Exact,
                ..usual.clone()
            },
            Self {
                verifier: Verifier::None,
                ..Self::standard()
            },
            Self {
                rounds: true,
                ..usual.clone()
            },
            Self {
                plan_ahead: true,
                ..usual.clone()
            },
            Self {
                guesses: 3,
                ..usual.clone()
            },
            Self {
                chance_min: 0.5,
                ..usual
            },
        ];
        salvaging
            .into_iter()
            .chain(plain)
            .chain(ablations)
            .collect()
    }

    /// Whether this is the standard agent: nothing is ever guessed, so nothing else matters.
    pub fn is_standard(&self) -> bool {
        self.k == K::Bounded(1) && self.verifier != Verifier::None
    }
}

/// Why a text is no variant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVariant {
    /// There is no k.
    #[error("`{0}` does not say k, e.g. k=3 or k=inf")]
    NoK(String),
    /// A key or its value is not known.
    #[error(
        "`{0}` is nothing that a variant can say: k=1…64, inf or auto, speculator=NAME, verifier=rule, exact, paper or none, \
         salvage=on or off, plan-ahead=on or off, guesses=1…8, chance-min=0…1, drafts=0…8, rounds=on or off"
    )]
    Unknown(String),
    /// Plan-ahead without salvage: the look-ups made ahead could never be used.
    #[error("`{0}` plans ahead without salvage, by which the look-ups made ahead are taken up")]
    PlanAheadAlone(String),
    /// Nothing runs ahead of what is not waited for.
    #[error("`{0}`: without verification there is nothing to run ahead of; say k=1,verifier=none")]
    NothingAhead(String),
}

impl From<Option<u32>> for K {
    /// `None` is unbounded.
    fn from(k: Option<u32>) -> Self {
        k.map_or(Self::Unbounded, Self::Bounded)
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

impl FromStr for Variant {
    type Err = InvalidVariant;

    fn from_str(text: &str) -> Result<Self, InvalidVariant> {
        let mut variant = Self::at(K::Unbounded);
        let mut has_k = false;
        for pair in text.split(',') {
            let unknown = || InvalidVariant::Unknown(pair.trim().to_owned());
            let (key, value) = pair.trim().split_once('=').ok_or_else(unknown)?;
            let switch = || match value {
                "on" => Ok(true),
                "off" => Ok(false),
                _ => Err(unknown()),
            };
            match key {
                "k" => {
                    has_k = true;
                    variant.k = match value {
                        "inf" => K::Unbounded,
                        "auto" => K::Auto,
                        k => K::Bounded(number(k, 1, 64).ok_or_else(unknown)?),
                    };
                }
                "speculator" if is_name(value) => variant.speculator = value.to_owned(),
                "verifier" => {
                    variant.verifier = match value {
                        "rule" => Verifier::Rule,
                        "exact" => Verifier::Exact,
                        "paper" => Verifier::Paper,
                        "none" => Verifier::None,
                        _ => return Err(unknown()),
                    };
                }
                "salvage" => variant.salvage = switch()?,
                "plan-ahead" => variant.plan_ahead = switch()?,
                "guesses" => variant.guesses = number(value, 1, 8).ok_or_else(unknown)?,
                "chance-min" => {
                    let share = value.parse().ok();
                    let sensible = |share: &f64| (0.0..=1.0).contains(share);
                    variant.chance_min = share.filter(sensible).ok_or_else(unknown)?;
                }
                "drafts" => variant.drafts = number(value, 0, 8).ok_or_else(unknown)?,
                "rounds" => variant.rounds = switch()?,
                _ => return Err(unknown()),
            }
        }
        if !has_k {
            return Err(InvalidVariant::NoK(text.to_owned()));
        }
        if variant.plan_ahead && !variant.salvage {
            return Err(InvalidVariant::PlanAheadAlone(text.to_owned()));
        }
        if variant.verifier == Verifier::None && variant.k != K::Bounded(1) {
            return Err(InvalidVariant::NothingAhead(text.to_owned()));
        }
        Ok(variant)
    }
}

fn number(text: &str, least: u32, most: u32) -> Option<u32> {
    let number = text.parse().ok()?;
    (least..=most).contains(&number).then_some(number)
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    !text.is_empty() && text.chars().all(plain)
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k={}", self.k)?;
        let usual = Self::at(self.k);
        if self.speculator != usual.speculator {
            write!(f, ",speculator={}", self.speculator)?;
        }
        match self.verifier {
            Verifier::Rule => {}
            Verifier::Exact => f.write_str(",verifier=exact")?,
            Verifier::Paper => f.write_str(",verifier=paper")?,
            Verifier::None => f.write_str(",verifier=none")?,
        }
        if !self.salvage {
            f.write_str(",salvage=off")?;
        }
        if self.plan_ahead {
            f.write_str(",plan-ahead=on")?;
        }
        if self.guesses != usual.guesses {
            write!(f, ",guesses={}", self.guesses)?;
        }
        if self.chance_min > 0.0 {
            write!(f, ",chance-min={}", self.chance_min)?;
        }
        if self.drafts > 0 {
            write!(f, ",drafts={}", self.drafts)?;
        }
        if self.rounds {
            f.write_str(",rounds=on")?;
        }
        Ok(())
    }
}

impl From<Variant> for String {
    fn from(variant: Variant) -> Self {
        variant.to_string()
    }
}

impl TryFrom<String> for Variant {
    type Error = InvalidVariant;

    fn try_from(text: String) -> Result<Self, InvalidVariant> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "k=1",
            "k=inf",
            "k=3,salvage=off",
            "k=4,speculator=hot-0.05,verifier=exact,plan-ahead=on,guesses=3,chance-min=0.25,drafts=2,rounds=on",
            "k=1,verifier=none",
            "k=auto,speculator=index,plan-ahead=on",
        ] {
            let variant: Variant = text.parse().unwrap();
            assert_eq!(variant.to_string(), text);
        }
        let spaced: Variant = " k=2 , salvage=on".parse().unwrap();
        assert_eq!(spaced, Variant::at(Some(2)));
    }

    #[test]
    fn what_is_no_variant_is_refused() {
        for text in [
            "",
            "3",
            "salvage=off",
            "k=0",
            "k=65",
            "k=-1",
            "k=3,verifier=maybe",
            "k=3,guesses=9",
            "k=3,chance-min=1.5",
            "k=3,chance-min=nan",
            "k=3,speculator=",
            "k=3,colour=red",
            "k=3,plan-ahead=on,salvage=off",
            "k=3,verifier=none",
            "k=auto,verifier=none",
            "k=any",
            "k=3,salvage",
        ] {
            assert!(text.parse::<Variant>().is_err(), "{text:?}");
        }
    }
}
