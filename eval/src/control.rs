//! Controls: speculators that know nothing. What a window gains with them is not owed to prediction.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spechop_sim::Clock;

use crate::asked::{AskedHop, asked};
use crate::brought::{Brought, BroughtGuess, ByHop};
use crate::stage::RecordedGuess;
use crate::{Bundle, Injected, Variant};

/// Draws are the same each time.
const SEED: u64 = 1;

/// A speculator that knows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// It guesses at the same hops as ours, as fast and as sure, but what another question's hop was answered
    /// with, drawn by chance: as much runs at once, and for no good reason.
    Blind,
    /// It never guesses. What is left is plan-ahead alone.
    Silent,
}

impl Control {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Blind, Self::Silent];

    /// Whether its rows would say anything beside this variant's: one that is as usual in all but k, salvage and
    /// planning ahead. If nobody guesses and nothing is planned ahead, nothing is gained.
    pub(crate) fn is_for(self, variant: &Variant) -> bool {
        let mut usual = Variant::at(variant.k());
        usual.options.salvage = variant.options.salvage;
        usual.options.plan_ahead = variant.options.plan_ahead;
        let plans_ahead = variant.options.plan_ahead == Some(true);
        *variant == usual && (self == Self::Blind || plans_ahead)
    }

    /// A flag by which it is played.
    pub(crate) fn played_by(self) -> &'static str {
        match self {
            Self::Blind => "--k 3",
            Self::Silent => "--variant k=3,plan-ahead=on",
        }
    }

    /// Whether a speculator of this name is one.
    pub(crate) fn is_name(name: &str) -> bool {
        name.parse::<Self>().is_ok()
    }

    /// The name of its rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blind => "blind",
            Self::Silent => "silent",
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Control {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|control| control.as_str() == text);
        found.ok_or_else(|| "expected blind or silent".to_owned())
    }
}

impl Brought {
    /// Takes in what a control says of each hop of the bundle. Of a question whose sequential agent was not
    /// recorded whole nothing is played, so it says nothing of it.
    pub fn add_control(&mut self, control: Control, bundle: &Bundle, injected: Option<Injected>) {
        let said = match control {
            Control::Silent => HashMap::new(),
            Control::Blind => blind(bundle, injected),
        };
        self.add_guesses(control.as_str(), said);
    }
}

fn blind(bundle: &Bundle, injected: Option<Injected>) -> ByHop<BroughtGuess> {
    let mut clock = Clock::new();
    let usual = Variant::standard();
    let mut hops: Vec<AskedHop> = Vec::new();
    for question in bundle.questions() {
        let all = asked(&mut clock, bundle, question, usual.speculator(), injected);
        hops.extend(all.into_iter().flatten());
    }
    draw(&hops, &mut SmallRng::seed_from_u64(SEED))
}

/// In place of each guess of ours the observation of a hop of another question. Nothing if there is only one
/// question.
fn draw(hops: &[AskedHop], rng: &mut impl Rng) -> ByHop<BroughtGuess> {
    let found: Vec<&AskedHop> = hops.iter().filter(|hop| hop.found).collect();
    let mut said = ByHop::new();
    for hop in hops {
        let Some(ours) = &hop.ours else { continue };
        let others: Vec<&&AskedHop> = found
            .iter()
            .filter(|o| o.question != hop.question)
            .collect();
        let Some(other) = others.choose(rng) else {
            continue;
        };
        let guess = BroughtGuess {
            guess: RecordedGuess {
                text: other.observed.as_str().into(),
                confidence: ours.confidence,
            },
            ms: ours.ms,
        };
        let of: &mut std::collections::BTreeMap<u32, BroughtGuess> =
            said.entry(hop.question.clone()).or_default();
        of.insert(hop.hop, guess);
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;
    use crate::asked::{OurGuess, number};

    fn hop(question: &str, at: usize, ours: Option<f64>) -> AskedHop {
        AskedHop {
            question: question.to_owned(),
            dataset: Dataset::Wiki,
            kind: "bridge".to_owned(),
            text: "Who?".to_owned(),
            hop: number(at),
            sub_question: format!("What of {question}?"),
            observed: format!("fact {at} of {question}"),
            found: true,
            target_ms: 100.0,
            ours: ours.map(|ms| OurGuess {
                guess: "right".to_owned(),
                ms,
                confidence: Some(0.5),
            }),
        }
    }

    #[test]
    fn a_blind_speculator_says_what_other_questions_found() {
        let hops = [
            hop("a", 0, Some(7.0)),
            hop("a", 1, None),
            hop("b", 0, Some(8.0)),
            hop("b", 1, Some(9.0)),
        ];
        let said = draw(&hops, &mut SmallRng::seed_from_u64(SEED));
        let mut of: Vec<_> = said["a"].iter().chain(&said["b"]).collect();
        of.sort_by(|a, b| a.1.ms.total_cmp(&b.1.ms));
        // Where ours guesses, as fast and as sure.
        let (places, times): (Vec<u32>, Vec<f64>) = of.iter().map(|(hop, g)| (**hop, g.ms)).unzip();
        assert_eq!((places, times), (vec![1, 1, 2], vec![7.0, 8.0, 9.0]));
        assert!(of.iter().all(|(_, g)| g.guess.confidence == Some(0.5)));
        assert!(of[0].1.guess.text.ends_with("of b") && of[2].1.guess.text.ends_with("of a"));
        let again = draw(&hops, &mut SmallRng::seed_from_u64(SEED));
        assert_eq!(said, again);
        assert!(draw(&hops[..2], &mut SmallRng::seed_from_u64(SEED)).is_empty());
    }

    #[test]
    fn names_are_read() {
        for control in Control::ALL {
            assert_eq!(control.to_string().parse(), Ok(control));
        }
        assert!("hot".parse::<Control>().is_err());
    }
}
