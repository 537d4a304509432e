//! How a question is to be answered, or was: from the wire and onto it.

use std::num::NonZeroUsize;

use spechop_types::{self as types, AnswerOptions, Chance, K};

use crate::json::WrongField;
use crate::options::Width;
use crate::{AskRequest, Auto, Effort, Options, Unbounded, VerifierMode};

impl AskRequest {
    /// The same question with other options.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(self.options.get_or_insert_default());
        self
    }
}

impl Width {
    /// No bound.
    pub const UNBOUNDED: Self = Self::Unbounded(Unbounded {});
    /// The server chooses.
    pub const AUTO: Self = Self::Auto(Auto {});
}

impl Options {
    /// What is said, and which options say what nobody can mean. Those count as not said.
    pub fn read(&self) -> (AnswerOptions, Vec<WrongField>) {
        let mut wrong = Vec::new();
        let mut refuse = |field: &str, problem: String| {
            let field = field.to_owned();
            wrong.push(WrongField { field, problem });
        };
        let mut count = |field, number: Option<u32>| {
            let count = NonZeroUsize::new(number? as usize);
            if count.is_none() {
                refuse(field, "must be at least 1, not 0".to_owned());
            }
            count
        };
        let k = match self.width {
            None => None,
            Some(Width::K(k)) => count("k", Some(k)).map(K::Bounded),
            Some(Width::Unbounded(_)) => Some(K::Unbounded),
            Some(Width::Auto(_)) => Some(K::Auto),
        };
        let hop_budget = count("hop_budget", self.hop_budget).and(self.hop_budget);
        let top_passages = count("top_passages", self.top_passages);
        let guesses = count("guesses", self.guesses);
        let verifier = match VerifierMode::try_from(self.verifier) {
            Ok(VerifierMode::Unspecified) => None,
            Ok(VerifierMode::Exact) => Some(types::VerifierMode::Exact),
            Ok(VerifierMode::Rule) => Some(types::VerifierMode::Rule),
            Ok(VerifierMode::Paper) => Some(types::VerifierMode::Paper),
            Err(_) => {
                refuse("verifier", format!("there is no mode {}", self.verifier));
                None
            }
        };
        let effort = match Effort::try_from(self.effort) {
            Ok(Effort::Unspecified) => None,
            Ok(Effort::Low) => Some(types::Effort::Low),
            Ok(Effort::Normal) => Some(types::Effort::Normal),
            Ok(Effort::High) => Some(types::Effort::High),
            Err(_) => {
                refuse("effort", format!("there is no effort {}", self.effort));
                None
            }
        };
        let chance_min = self.chance_min.and_then(|share| {
            let chance = Chance::exactly(share);
            if chance.is_none() {
                refuse("chance_min", format!("must be from 0 to 1, not {share}"));
            }
            chance
        });
        let options = AnswerOptions {
            k,
            hop_budget,
            top_passages,
            verifier,
            speculator: self.speculator.clone().filter(|name| !name.is_empty()),
            salvage: self.salvage,
            plan_ahead: self.plan_ahead,
            guesses,
            chance_min,
            not_found_max: self.not_found_max,
            drafts: self.drafts,
            effort,
            fresh: self.fresh,
            quiet: self.quiet,
        };
        (options, wrong)
    }
}

impl From<AnswerOptions> for Options {
    fn from(options: AnswerOptions) -> Self {
        Self {
            width: options.k.map(Width::from),
            hop_budget: options.hop_budget,
            top_passages: options.top_passages.map(count),
            verifier: match options.verifier {
                None => VerifierMode::Unspecified,
                Some(types::VerifierMode::Exact) => VerifierMode::Exact,
                Some(types::VerifierMode::Rule) => VerifierMode::Rule,
                Some(types::VerifierMode::Paper) => VerifierMode::Paper,
            }
            .into(),
            speculator: options.speculator,
            salvage: options.salvage,
            plan_ahead: options.plan_ahead,
            guesses: options.guesses.map(count),
            chance_min: options.chance_min.map(Chance::share),
            not_found_max: options.not_found_max,
            drafts: options.drafts,
            effort: match options.effort {
                None => Effort::Unspecified,
                Some(types::Effort::Low) => Effort::Low,
                Some(types::Effort::Normal) => Effort::Normal,
                Some(types::Effort::High) => Effort::High,
            }
            .into(),
            fresh: options.fresh,
            quiet: options.quiet,
        }
    }
}

impl From<K> for Width {
    fn from(k: K) -> Self {
        match k {
            K::Bounded(k) => Self::K(count(k)),
            K::Unbounded => Self::UNBOUNDED,
            K::Auto => Self::AUTO,
        }
    }
}

fn count(number: NonZeroUsize) -> u32 {
    u32::try_from(number.get()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut said = AnswerOptions::default();
        assert_eq!(Options::default().read(), (said.clone(), Vec::new()));
        for (name, value) in [
            ("k", "3"),
            ("hop_budget", "5"),
            ("top_passages", "2"),
            ("verifier", "paper"),
            ("speculator", "index"),
            ("salvage", "off"),
            ("plan_ahead", "on"),
            ("guesses", "2"),
            ("chance_min", "0.25"),
            ("not_found_max", "0"),
            ("drafts", "0"),
            ("effort", "low"),
            ("effort", "normal"),
            ("effort", "high"),
            ("fresh", "on"),
            ("quiet", "on"),
            ("k", "inf"),
            ("k", "auto"),
            ("verifier", "rule"),
            ("verifier", "exact"),
        ] {
            said.say(name, value).unwrap();
            let read = Options::from(said.clone()).read();
            assert_eq!(read, (said.clone(), Vec::new()), "{name}={value}");
        }
    }

    #[test]
    fn every_option_that_says_nothing_sensible_is_named() {
        let options = Options {
            width: Some(Width::K(0)),
            hop_budget: Some(0),
            top_passages: Some(0),
            verifier: 9,
            effort: 7,
            speculator: Some(String::new()),
            guesses: Some(0),
            chance_min: Some(f64::NAN),
            ..Options::default()
        };
        let (said, wrong) = options.read();
        assert_eq!(said, AnswerOptions::default());
        let fields: Vec<_> = wrong.iter().map(|wrong| wrong.field.as_str()).collect();
        let expected = [
            "k",
            "hop_budget",
            "top_passages",
            "guesses",
            "verifier",
            "effort",
            "chance_min",
        ];
        assert_eq!(fields, expected);
        assert!(wrong[3].problem.contains("at least 1"), "{wrong:?}");
        assert!(wrong[4].problem.contains("no mode 9"), "{wrong:?}");
    }
}
