//! A way to answer, as a load run asks for it.

use std::fmt;
use std::str::FromStr;

use spechop_proto::AskRequest;
use spechop_types::AnswerOptions;

use crate::{InvalidVariant, Variant, wire};

/// A way to answer, written as a [`Variant`] is. The server's configuration decides about everything that
/// it does not name.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSetting {
    text: String,
    /// What it names.
    options: AnswerOptions,
}

/// Why a text is no setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSetting {
    /// It is no variant either.
    #[error(transparent)]
    Variant(#[from] InvalidVariant),
    /// Only the simulator knows it.
    #[error("no server can do {0}: leave it out")]
    SimulatedOnly(&'static str),
}

impl LoadSetting {
    /// Everything as the server is configured.
    pub fn configured() -> Self {
        Self {
            text: "as configured".to_owned(),
            options: AnswerOptions::default(),
        }
    }

    /// The request for a question. `fresh`: without what earlier questions have left behind.
    pub(super) fn ask(&self, question: &str, deadline_ms: u64, fresh: bool) -> AskRequest {
        let options = AnswerOptions {
            fresh,
            ..self.options.clone()
        };
        AskRequest {
            question: question.to_owned(),
            options: Some(options.into()),
            deadline_ms: Some(deadline_ms),
            ..AskRequest::default()
        }
    }
}

impl fmt::Display for LoadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for LoadSetting {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        let said = Variant::said(text)?;
        if let Some(what) = wire::simulated_only(&said, false) {
            return Err(InvalidSetting::SimulatedOnly(what));
        }
        Ok(Self {
            text: text.to_owned(),
            options: said.options,
        })
    }
}

#[cfg(test)]
mod tests {
    use spechop_proto::options::Width;
    use spechop_proto::{Options, VerifierMode};

    use super::*;

    #[test]
    fn the_server_decides_about_what_is_not_named() {
        let setting: LoadSetting = "k=3".parse().unwrap();
        let expected = AskRequest {
            question: "Who?".into(),
            options: Some(Options {
                width: Some(Width::K(3)),
                ..Options::default()
            }),
            deadline_ms: Some(50),
            ..AskRequest::default()
        };
        assert_eq!(setting.ask("Who?", 50, false), expected);
        let named: LoadSetting = "k=auto,speculator=llm,chance-min=0.5,verifier=exact"
            .parse()
            .unwrap();
        let asked = named.ask("Who?", 50, true);
        let asked = asked.options.unwrap();
        assert_eq!(asked.width, Some(Width::AUTO));
        assert!(asked.fresh && asked.salvage.is_none());
        assert_eq!(asked.speculator.as_deref(), Some("llm"));
        assert_eq!(asked.chance_min, Some(0.5));
        assert_eq!(asked.verifier(), VerifierMode::Exact);
    }

    #[test]
    fn what_no_server_can_do_is_refused() {
        for (text, words) in [
            ("k=3,rounds=on", "no server can do rounds=on"),
            ("k=1,verifier=none", "no server can do verifier=none"),
            ("k=3,verdicts=judge", "no server can do verdicts=NAME"),
            ("salvage=off", "does not say k"),
            ("k=65", "nothing that a variant can say"),
        ] {
            let error = text.parse::<LoadSetting>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
