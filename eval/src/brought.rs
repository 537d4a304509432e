//! Guesses and verdicts that somebody brings: of a speculator or a verifier we know nothing but a file of
//! what it said at each hop. They are read and checked here, and played by [`crate::play_brought`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::BufRead;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use spechop_types::VerifierMode;

use crate::asked::number;
use crate::stage::RecordedGuess;
use crate::{Control, Variant};

/// Why what was brought cannot be played. If a line is wrong, it names the file and the line.
#[derive(Debug, thiserror::Error)]
pub enum BroughtError {
    /// The file cannot be read to its end.
    #[error("{file}: line {line} cannot be read")]
    Io {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Why not.
        source: std::io::Error,
    },
    /// A line is no JSON, or not of these fields.
    #[error("{file}: line {line} is not a JSON object with {fields}")]
    Syntax {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What it must have.
        fields: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A line says what cannot be.
    #[error("{file}: line {line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// No variant plays the guesses of this name.
    #[error("no variant plays the guesses of `{0}`: say --variant k=…,speculator={0}")]
    UnplayedGuesses(String),
    /// No variant plays this control.
    #[error("no variant plays the control `{control}`: say {how}", control = .0, how = .0.played_by())]
    UnplayedControl(Control),
    /// No variant plays the verdicts of this name.
    #[error(
        "no variant plays the verdicts of `{0}`, which take the usual verifier's place: \
         say whose guesses they are of with --variant k=…,speculator=NAME"
    )]
    UnplayedVerdicts(String),
    /// Variants of these speculators would be judged by the same verdicts.
    #[error(
        "verdicts are of one speculator's guesses: name one of {} in every --variant \
         (speculator=NAME)",
        .0.join(", ")
    )]
    SeveralJudged(Vec<String>),
}

/// How many hops each question of a bundle has. `None`: its sequential agent was not recorded whole, so
/// nothing of it is played.
pub type HopCounts = HashMap<String, Option<u32>>;

/// What was said of each hop, by question and by number.
pub(crate) type ByHop<T> = HashMap<String, BTreeMap<u32, T>>;

/// A guess that was brought.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BroughtGuess {
    pub(crate) guess: RecordedGuess,
    pub(crate) ms: f64,
}

/// A verdict that was brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BroughtVerdict {
    pub(crate) accepted: bool,
    pub(crate) ms: f64,
}

/// What a file said, under the name that its rows have.
#[derive(Clone, Debug)]
struct Named<T> {
    name: String,
    by_hop: ByHop<T>,
}

/// Guesses, verdicts, or both; and controls, and a cascade.
#[derive(Clone, Debug, Default)]
pub struct Brought {
    guesses: Option<Named<BroughtGuess>>,
    /// The guesses of those that nobody brings.
    made: Vec<Named<BroughtGuess>>,
    verdicts: Option<Named<BroughtVerdict>>,
}

impl Brought {
    /// Takes in the guesses of a speculator of this name: a JSON object on each line with `question`,
    /// `hop`, `guess`, `ms` and perhaps `confidence`. `file` is what messages call the input.
    ///
    /// # Errors
    ///
    /// The first line that is wrong.
    pub fn read_guesses(
        &mut self,
        name: &str,
        file: &str,
        input: impl BufRead,
        hops: &HopCounts,
    ) -> Result<(), BroughtError> {
        self.guesses = Some(Named {
            name: name.to_owned(),
            by_hop: read::<GuessLine>(file, input, hops)?,
        });
        Ok(())
    }

    /// Takes in the guesses of a control ([`crate::control`]) or of a cascade ([`crate::cascade`]).
    pub(crate) fn add_guesses(&mut self, name: &str, by_hop: ByHop<BroughtGuess>) {
        self.made.push(Named {
            name: name.to_owned(),
            by_hop,
        });
    }

    /// Takes in verdicts: a JSON object on each line with `question`, `hop`, `accept` and perhaps `ms`.
    ///
    /// # Errors
    ///
    /// The first line that is wrong.
    pub fn read_verdicts(
        &mut self,
        name: &str,
        file: &str,
        input: impl BufRead,
        hops: &HopCounts,
    ) -> Result<(), BroughtError> {
        self.verdicts = Some(Named {
            name: name.to_owned(),
            by_hop: read::<VerdictLine>(file, input, hops)?,
        });
        Ok(())
    }

    /// How many hops were guessed in what was brought.
    pub fn guesses(&self) -> usize {
        self.guesses.as_ref().map_or(0, Named::len)
    }

    /// How many hops were judged.
    pub fn verdicts(&self) -> usize {
        self.verdicts.as_ref().map_or(0, Named::len)
    }

    /// The variants, each followed by those that play what was brought in its place. Guesses take the place
    /// of the usual speculator's; so do a control's, if it says something of the variant. Verdicts are of
    /// the guesses that were brought, else of one recorded speculator's, and never of a control's or a
    /// cascade's; they take the place of the usual verifier's. A file has one guess of a hop, so variants of
    /// several guesses stand alone.
    ///
    /// # Errors
    ///
    /// What no variant plays, and verdicts that would judge several speculators.
    pub fn beside(&self, variants: &[Variant]) -> Result<Vec<Variant>, BroughtError> {
        let usual = Variant::standard();
        let mut all: Vec<Variant> = Vec::new();
        let mut add = |variant: Variant| {
            if !all.contains(&variant) {
                all.push(variant);
            }
        };
        for variant in variants {
            add(variant.clone());
            if variant.is_standard() || variant.guesses() > 1 {
                continue;
            }
            let is_usual = variant.speculator() == usual.speculator();
            let controls = self.made.iter().filter(|_| is_usual);
            for control in controls.filter(|control| is_for(&control.name, variant)) {
                add(variant.clone().with_speculator(&control.name));
            }
            let mut judged = variant.clone();
            if let Some(guesses) = self.guesses.as_ref().filter(|_| is_usual) {
                judged = judged.with_speculator(&guesses.name);
                add(judged.clone());
            }
            if let Some(verdicts) = self.verdicts.as_ref().filter(|_| self.judges(&judged)) {
                judged.verdicts = Some(verdicts.name.clone());
                add(judged);
            }
        }
        self.must_be_played(&all)?;
        Ok(all)
    }

    /// Whether verdicts can be of this variant's guesses.
    fn judges(&self, variant: &Variant) -> bool {
        let are_theirs = match &self.guesses {
            Some(guesses) => variant.speculator() == guesses.name,
            // Nobody has seen the guesses that were made here.
            None => !self.guesses_for(variant),
        };
        are_theirs && variant.is_verified_by(VerifierMode::Rule)
    }

    /// Refuses what none of these plays, and verdicts on several speculators' guesses.
    fn must_be_played(&self, variants: &[Variant]) -> Result<(), BroughtError> {
        let played = || variants.iter().filter(|variant| !variant.is_standard());
        if let Some(guesses) = &self.guesses
            && !played().any(|variant| variant.speculator() == guesses.name)
        {
            return Err(BroughtError::UnplayedGuesses(guesses.name.clone()));
        }
        let is_unplayed = |made: &&Named<BroughtGuess>| {
            !played().any(|variant| variant.speculator() == made.name)
        };
        if let Some(Named { name, .. }) = self.made.iter().find(is_unplayed) {
            return Err(match name.parse::<Control>() {
                Ok(control) => BroughtError::UnplayedControl(control),
                Err(_) => BroughtError::UnplayedGuesses(name.clone()),
            });
        }
        let Some(verdicts) = &self.verdicts else {
            return Ok(());
        };
        let judged = played().filter(|variant| self.verdicts_for(variant));
        let judged: BTreeSet<&str> = judged.map(Variant::speculator).collect();
        match judged.len() {
            0 => Err(BroughtError::UnplayedVerdicts(verdicts.name.clone())),
            1 => Ok(()),
            _ => {
                let names = judged.into_iter().map(str::to_owned);
                Err(BroughtError::SeveralJudged(names.collect()))
            }
        }
    }

    /// Whether the variant plays anything of this.
    pub(crate) fn plays(&self, variant: &Variant) -> bool {
        !variant.is_standard() && (self.guesses_for(variant) || self.verdicts_for(variant))
    }

    /// Whether the variant's guesses are these.
    pub(crate) fn guesses_for(&self, variant: &Variant) -> bool {
        self.named(variant.speculator()).is_some()
    }

    fn named(&self, speculator: &str) -> Option<&Named<BroughtGuess>> {
        let mut all = self.guesses.iter().chain(&self.made);
        all.find(|named| named.name == speculator)
    }

    /// Whether the variant's verdicts are these.
    pub(crate) fn verdicts_for(&self, variant: &Variant) -> bool {
        let named = self.verdicts.as_ref();
        named.is_some_and(|named| Some(&named.name) == variant.verdicts.as_ref())
    }

    /// The guess of this speculator at this place of the question.
    pub(crate) fn guess(
        &self,
        speculator: &str,
        question: &str,
        at: usize,
    ) -> Option<&BroughtGuess> {
        self.named(speculator)?.get(question, at)
    }

    /// The verdict at this place of the question.
    pub(crate) fn verdict(&self, question: &str, at: usize) -> Option<&BroughtVerdict> {
        self.verdicts.as_ref()?.get(question, at)
    }
}

/// Whether the control of this name has something to say beside the variant.
fn is_for(name: &str, variant: &Variant) -> bool {
    let control: Result<Control, _> = name.parse();
    control.is_ok_and(|control| control.is_for(variant))
}

impl<T> Named<T> {
    fn get(&self, question: &str, at: usize) -> Option<&T> {
        self.by_hop.get(question)?.get(&number(at))
    }

    fn len(&self) -> usize {
        self.by_hop.values().map(BTreeMap::len).sum()
    }
}

/// A line, as it is written.
trait Line: DeserializeOwned {
    /// What becomes of it.
    type Said;
    /// What it must have, for messages.
    const FIELDS: &'static str;

    /// Question and hop.
    fn place(&self) -> (&str, u32);
    /// What it says, or what is wrong with it.
    fn said(self) -> Result<Self::Said, String>;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GuessLine {
    question: String,
    hop: u32,
    guess: String,
    ms: f64,
    #[serde(default)]
    confidence: Option<f32>,
}

impl Line for GuessLine {
    type Said = BroughtGuess;
    const FIELDS: &'static str = "`question`, `hop`, `guess`, `ms` and perhaps `confidence`";

    fn place(&self) -> (&str, u32) {
        (&self.question, self.hop)
    }

    fn said(self) -> Result<BroughtGuess, String> {
        let text = self.guess.trim();
        if text.is_empty() {
            return Err("the guess is empty; leave the line out if there is no guess".to_owned());
        }
        if let Some(share) = self.confidence.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(format!("`confidence` is {share}; it must be from 0 to 1"));
        }
        Ok(BroughtGuess {
            guess: RecordedGuess {
                text: text.into(),
                confidence: self.confidence,
            },
            ms: time(self.ms)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerdictLine {
    question: String,
    hop: u32,
    accept: bool,
    #[serde(default)]
    ms: f64,
}

impl Line for VerdictLine {
    type Said = BroughtVerdict;
    const FIELDS: &'static str = "`question`, `hop`, `accept` and perhaps `ms`";

    fn place(&self) -> (&str, u32) {
        (&self.question, self.hop)
    }

    fn said(self) -> Result<BroughtVerdict, String> {
        Ok(BroughtVerdict {
            accepted: self.accept,
            ms: time(self.ms)?,
        })
    }
}

fn time(ms: f64) -> Result<f64, String> {
    match ms.is_finite() && ms >= 0.0 {
        true => Ok(ms),
        false => Err(format!(
            "`ms` is {ms}; it must be a time in milliseconds, from 0 on"
        )),
    }
}

/// Every line that is not blank. No line at all is no mistake: then nothing was said of any hop.
fn read<L: Line>(
    file: &str,
    input: impl BufRead,
    hops: &HopCounts,
) -> Result<ByHop<L::Said>, BroughtError> {
    let mut lines: ByHop<usize> = HashMap::new();
    let mut all: ByHop<L::Said> = HashMap::new();
    for (text, line) in input.lines().zip(1..) {
        let wrong = |reason| BroughtError::Line {
            file: file.to_owned(),
            line,
            reason,
        };
        let text = text.map_err(|source| BroughtError::Io {
            file: file.to_owned(),
            line,
            source,
        })?;
        if text.trim().is_empty() {
            continue;
        }
        let read: L = serde_json::from_str(&text).map_err(|source| BroughtError::Syntax {
            file: file.to_owned(),
            line,
            fields: L::FIELDS,
            source,
        })?;
        let (question, hop) = read.place();
        let is_whole = match hops.get(question) {
            None => return Err(wrong(format!("the bundle has no question `{question}`"))),
            Some(Some(last)) if !(1..=*last).contains(&hop) => {
                return Err(wrong(format!(
                    "question `{question}` has no hop {hop}: it has {last}, counted from 1"
                )));
            }
            Some(last) => last.is_some(),
        };
        let place = lines.entry(question.to_owned()).or_default();
        if let Some(first) = place.insert(hop, line) {
            return Err(wrong(format!(
                "hop {hop} of question `{question}` has stood in line {first} already"
            )));
        }
        let question = question.to_owned();
        let said = read.said().map_err(wrong)?;
        // Nothing of another is played.
        if is_whole {
            all.entry(question).or_default().insert(hop, said);
        }
    }
    Ok(all)
}
