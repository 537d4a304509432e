//! The ways in which a question can be answered that a run compares.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use spechop_types::{AnswerOptions, Chance, Effort, InvalidOption, K, VerifierMode};

/// One way to answer. Written as `k=3`, `k=inf,salvage=off`, `k=3,speculator=llm,verifier=exact`: what
/// is as usual is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Variant {
    /// What a server can be asked for, too. Everything that a variant can say is said; how many hops there
    /// may be, and the like, is a matter of the question.
    pub options: AnswerOptions,
    /// Every guess is right: it replaces the look-up ("full speculation"). If there is none, it is looked
    /// up. Usually not.
    pub unverified: bool,
    /// Nothing is ever looked up: a hop without a guess has no answer. Only without verification, which
    /// needs an observation. Usually not.
    pub target_off: bool,
    /// In rounds: the window is filled again only when all of it is settled. Usually not: it slides.
    pub rounds: bool,
    /// A guess waits for no room in the window. Usually so; it does in the paper's algorithm.
    pub guess_at_once: bool,
    /// Branches are built on observations, too. Usually so; in the paper's algorithm on guesses only.
    pub on_observations: bool,
    /// Whose verdicts take the place of the verifier's, by the name of what was brought. Usually nobody's.
    pub verdicts: Option<String>,
}

impl Variant {
    /// The usual way, at this k.
    pub fn at(k: K) -> Self {
        Self {
            options: AnswerOptions {
                k: Some(k),
                speculator: Some("hot".to_owned()),
                verifier: Some(VerifierMode::Rule),
                salvage: Some(true),
                plan_ahead: Some(false),
                guesses: Some(NonZeroUsize::MIN),
                chance_min: Some(Chance::NONE),
                drafts: Some(0),
                effort: Some(Effort::Normal),
                ..AnswerOptions::default()
            },
            unverified: false,
            target_off: false,
            rounds: false,
            guess_at_once: true,
            on_observations: true,
            verdicts: None,
        }
    }

    /// The paper's algorithm to the letter, at this k.
    pub fn paper(k: K) -> Self {
        let mut paper = Self {
            guess_at_once: false,
            on_observations: false,
            ..Self::at(k)
        };
        paper.options.salvage = Some(false);
        paper
    }

    /// Most branches alive at once.
    pub fn k(&self) -> K {
        self.options.k.unwrap_or(K::Unbounded)
    }

    /// Who guesses.
    pub fn speculator(&self) -> &str {
        self.options.speculator.as_deref().unwrap_or_default()
    }

    /// The same with another speculator.
    #[must_use]
    pub fn with_speculator(mut self, name: &str) -> Self {
        self.options.speculator = Some(name.to_owned());
        self
    }

    /// Guesses of a hop that branches are built upon.
    pub fn guesses(&self) -> usize {
        self.options.guesses.map_or(1, NonZeroUsize::get)
    }

    /// Whether look-ups of rolled-back branches are kept.
    pub fn salvages(&self) -> bool {
        self.options.salvage == Some(true)
    }

    /// Whether guesses are verified by our verifier in this mode. [`VerifierMode::Rule`] is the usual one.
    pub fn is_verified_by(&self, mode: VerifierMode) -> bool {
        let by_mode = self.options.verifier == Some(mode);
        by_mode && !self.unverified && self.verdicts.is_none()
    }

    /// The standard agent, which everything is compared with.
    pub fn standard() -> Self {
        Self::at(K::ONE)
    }

    /// Everything that the tables compare: widths as usual and by the paper's algorithm, at the paper's k = 3
    /// each ablation, and the unbounded window without salvage.
    pub fn suite() -> Vec<Self> {
        let bounded = [1, 2, 3, 4, 6].into_iter().filter_map(K::of);
        let widths: Vec<K> = bounded.chain([K::Unbounded]).collect();
        let papers = widths
            .iter()
            .filter(|k| **k != K::ONE)
            .map(|k| Self::paper(*k));
        let salvaging = widths.iter().copied().map(Self::at);
        let ablation = |change: fn(&mut Self)| {
            // The paper's k = 3.
            let mut variant = Self::at(K::Bounded(NonZeroUsize::MIN.saturating_add(2)));
            change(&mut variant);
            variant
        };
        let ablations = [
            ablation(|of| of.options.verifier = Some(VerifierMode::Exact)),
            Self {
                unverified: true,
                ..Self::standard()
            },
            ablation(|of| of.rounds = true),
            ablation(|of| of.options.salvage = Some(false)),
            ablation(|of| of.guess_at_once = false),
            ablation(|of| of.on_observations = false),
            ablation(|of| of.options.plan_ahead = Some(true)),
            ablation(|of| of.options.guesses = NonZeroUsize::new(3)),
            ablation(|of| of.options.chance_min = Some(Chance::EVEN)),
        ];
        let mut unbounded = Self::at(K::Unbounded);
        unbounded.options.salvage = Some(false);
        let all = salvaging.chain(papers).chain(ablations);
        all.chain([unbounded]).collect()
    }

    /// Whether this is the standard agent: nothing is ever guessed, so nothing else matters.
    pub fn is_standard(&self) -> bool {
        let is_normal = self.options.effort == Some(Effort::Normal);
        self.k() == K::ONE && !self.unverified && !self.target_off && is_normal
    }

    /// Whether anything is ever guessed.
    pub(crate) fn guesses_at_all(&self) -> bool {
        self.k() != K::ONE || self.unverified
    }

    /// Each thing that it says, by name and as it is written, in the order in which it is written.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = self.options.said();
        for (name, value) in &mut pairs {
            if *name == "verifier" && self.unverified {
                NONE.clone_into(value);
            }
        }
        pairs.push((TARGET, switch(!self.target_off)));
        pairs.push((ROUNDS, switch(self.rounds)));
        pairs.push((GUESS_AT_ONCE, switch(self.guess_at_once)));
        pairs.push((ON_OBSERVATIONS, switch(self.on_observations)));
        let whose = self.verdicts.as_deref().unwrap_or(OURS);
        pairs.push((VERDICTS, whose.to_owned()));
        pairs
    }

    /// Says one thing by its name.
    fn say(&mut self, name: &str, value: &str) -> Result<(), InvalidOption> {
        match (name, value) {
            ("verifier", NONE) => {
                self.unverified = true;
                return self.options.say(name, VerifierMode::Rule.as_str());
            }
            (TARGET, "on" | "off") => {
                self.target_off = value == "off";
                return Ok(());
            }
            (ALGORITHM, PAPER) => {
                return PAPERS
                    .iter()
                    .try_for_each(|(name, value)| self.say(name, value));
            }
            (ROUNDS, "on" | "off") => {
                self.rounds = value == "on";
                return Ok(());
            }
            (GUESS_AT_ONCE, "on" | "off") => {
                self.guess_at_once = value == "on";
                return Ok(());
            }
            (ON_OBSERVATIONS, "on" | "off") => {
                self.on_observations = value == "on";
                return Ok(());
            }
            (VERDICTS, value) if is_name(value) => {
                self.verdicts = (value != OURS).then(|| value.to_owned());
                return Ok(());
            }
            ("speculator" | VERDICTS, value) if !is_name(value) => {
                return Err(InvalidOption::Value);
            }
            ("verifier", _) => self.unverified = false,
            _ if !is_sayable(name) => return Err(InvalidOption::Name),
            _ => {}
        }
        self.options.say(name, value)?;
        let many = self.guesses() > GUESSES_MAX || self.options.drafts > Some(DRAFTS_MAX);
        let wide = matches!(self.options.k, Some(K::Bounded(k)) if k.get() > K_MAX);
        match many || wide {
            true => Err(InvalidOption::Value),
            false => Ok(()),
        }
    }

    /// The variant with each single thing as usual, and what was changed.
    pub(crate) fn put_back(&self) -> Vec<(String, Self)> {
        let usual = Self::at(self.k()).pairs();
        let changed = self.pairs().into_iter().zip(usual).filter(|(a, b)| a != b);
        let back = changed.filter_map(|((name, value), (_, usual))| {
            let mut other = self.clone();
            other.say(name, &usual).ok()?;
            let what = match name {
                "guesses" | "drafts" => format!("{value} {name}"),
                _ => format!("{} {value}", name.replace('_', "-")),
            };
            Some((what, other))
        });
        back.collect()
    }

    /// What a text says, and no more than that.
    pub(crate) fn said(text: &str) -> Result<Self, InvalidVariant> {
        let mut said = Self {
            options: AnswerOptions::default(),
            unverified: false,
            target_off: false,
            rounds: false,
            guess_at_once: true,
            on_observations: true,
            verdicts: None,
        };
        for pair in text.split(',') {
            let unknown = || InvalidVariant::Unknown(pair.trim().to_owned());
            let (name, value) = pair.trim().split_once('=').ok_or_else(unknown)?;
            if name.contains('_') {
                return Err(unknown());
            }
            let name = name.replace('-', "_");
            said.say(&name, value).map_err(|_| unknown())?;
        }
        let options = &said.options;
        if options.k.is_none() {
            return Err(InvalidVariant::NoK(text.to_owned()));
        }
        if options.plan_ahead == Some(true) && options.salvage == Some(false) {
            return Err(InvalidVariant::PlanAheadAlone(text.to_owned()));
        }
        if options.plan_ahead == Some(true) {
            // Planning ahead needs it, whatever else is usual.
            said.options.salvage = Some(true);
        }
        if said.unverified && said.k() != K::ONE {
            return Err(InvalidVariant::NothingAhead(text.to_owned()));
        }
        if said.target_off && !said.unverified {
            return Err(InvalidVariant::NothingObserved(text.to_owned()));
        }
        Ok(said)
    }
}

fn switch(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// The verifier that takes every guess.
const NONE: &str = "none";
/// Whether the target tool is called.
const TARGET: &str = "target";
/// What only the simulator can do.
const ROUNDS: &str = "rounds";
const GUESS_AT_ONCE: &str = "guess_at_once";
const ON_OBSERVATIONS: &str = "on_observations";
/// The paper's algorithm to the letter, in one word: all of these.
const ALGORITHM: &str = "algorithm";
const PAPER: &str = "paper";
const PAPERS: [(&str, &str); 3] = [
    ("salvage", "off"),
    (GUESS_AT_ONCE, "off"),
    (ON_OBSERVATIONS, "off"),
];
/// Whose verdicts count; only the simulator plays others than ours.
const VERDICTS: &str = "verdicts";
/// The verdicts of our own verifier.
const OURS: &str = "ours";
/// The largest k of a variant but `inf`.
const K_MAX: usize = 64;
/// The most guesses of a hop.
const GUESSES_MAX: usize = 8;
/// The most drafts of a hop.
const DRAFTS_MAX: u32 = 8;

/// Why a text is no variant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVariant {
    /// There is no k.
    #[error("`{0}` does not say k, e.g. k=3 or k=inf")]
    NoK(String),
    /// A key or its value is not known.
    #[error(
        "`{0}` is nothing that a variant can say: k=1…64, inf or auto, speculator=NAME, verifier=rule, exact, paper or none, \
         salvage=on or off, plan-ahead=on or off, guesses=1…8, chance-min=0…1, drafts=0…8, effort=low, normal or high, target=on or off, \
         rounds=on or off, guess-at-once=on or off, on-observations=on or off, \
         algorithm=paper, verdicts=NAME"
    )]
    Unknown(String),
    /// Plan-ahead without salvage: the look-ups made ahead could never be used.
    #[error("`{0}` plans ahead without salvage, by which the look-ups made ahead are taken up")]
    PlanAheadAlone(String),
    /// Nothing runs ahead of what is not waited for.
    #[error("`{0}`: without verification there is nothing to run ahead of; say k=1,verifier=none")]
    NothingAhead(String),
    /// Without a target there is no observation to verify a guess by.
    #[error("`{0}`: without a target no guess can be verified; say k=1,verifier=none,target=off")]
    NothingObserved(String),
}

impl FromStr for Variant {
    type Err = InvalidVariant;

    fn from_str(text: &str) -> Result<Self, InvalidVariant> {
        let said = Self::said(text)?;
        Ok(Self {
            options: said.options.or(&Self::at(K::ONE).options),
            ..said
        })
    }
}

/// Whether a variant can say this option.
fn is_sayable(name: &str) -> bool {
    let usual = Variant::standard().options.said();
    usual.iter().any(|(known, _)| *known == name)
}

/// Whether a speculator, or whoever gave verdicts, can be called so.
pub fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    !text.is_empty() && text.chars().all(plain)
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k={}", self.k())?;
        let usual = Self::at(self.k()).pairs();
        let mut pairs = self.pairs();
        let is_papers = |pair: &(&str, String)| PAPERS.contains(&(pair.0, pair.1.as_str()));
        if pairs.iter().filter(|pair| is_papers(pair)).count() == PAPERS.len() {
            pairs.retain(|pair| !is_papers(pair));
            pairs.push((ALGORITHM, PAPER.to_owned()));
        }
        for (name, value) in pairs.iter().filter(|pair| !usual.contains(pair)) {
            write!(f, ",{}={value}", name.replace('_', "-"))?;
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
            "k=inf,algorithm=paper",
            "k=3,salvage=off,guess-at-once=off",
            "k=1,verifier=none",
            "k=1,verifier=none,target=off",
            "k=auto,speculator=index,plan-ahead=on",
            "k=3,speculator=mine,verdicts=judge.v2",
            "k=1,effort=high",
        ] {
            let variant: Variant = text.parse().unwrap();
            assert_eq!(variant.to_string(), text);
        }
        let spaced: Variant = " k=2 , salvage=on".parse().unwrap();
        assert_eq!(spaced, Variant::at(K::of(2).unwrap()));
        let paper: Variant = "k=2,on-observations=off,salvage=off,guess-at-once=off"
            .parse()
            .unwrap();
        assert_eq!(paper, Variant::paper(K::of(2).unwrap()));
        assert_eq!(paper.to_string(), "k=2,algorithm=paper");
        let ours: Variant = "k=2,verdicts=ours".parse().unwrap();
        assert_eq!(ours, Variant::at(K::of(2).unwrap()));
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
            "k=3,drafts=9",
            "k=3,plan_ahead=on",
            "k=3,hop-budget=4",
            "k=3,quiet=on",
            "k=1,target=off",
            "k=3,target=off",
            "k=1,verifier=none,target=maybe",
            "k=3,algorithm=mine",
            "k=3,guess-at-once=1",
            "k=3,on-observations=maybe",
            "k=3,verdicts=",
            "k=3,verdicts=a b",
        ] {
            assert!(text.parse::<Variant>().is_err(), "{text:?}");
        }
    }
}
