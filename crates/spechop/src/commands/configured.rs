//! The configuration flags of every command that opens models.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use spechop_config::{Env, Written};

/// Flags that name configuration.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file, in TOML [also SPECHOP_CONFIG].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set any configuration key, e.g. `--set question.k=1`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

impl ConfigArgs {
    /// This file, and these keys.
    pub(crate) fn of(config: Option<PathBuf>, set: Vec<(String, String)>) -> Self {
        Self { config, set }
    }

    /// Whether a flag sets this key.
    pub(crate) fn sets(&self, key: &str) -> bool {
        self.set.iter().any(|(set, _)| set == key)
    }

    /// What the operator wrote.
    pub(crate) fn written(self, env: &Env) -> anyhow::Result<Written> {
        let path = self
            .config
            .or_else(|| env.get("SPECHOP_CONFIG").map(|path| env.expand(path)));
        let file = match path {
            None => None,
            Some(path) => {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("cannot read the configuration {}", path.display()))?;
                Some((path, text))
            }
        };
        let set = self
            .set
            .into_iter()
            .map(|(key, value)| (key, "--set".to_owned(), value));
        Ok(Written {
            file,
            flags: set.collect(),
        })
    }
}

/// `KEY=VALUE`, in two. A value may be a text whose spaces count (`encoder.query_prefix`).
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// `NAME=VALUE`, in two, without spaces around either.
pub(crate) fn name_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = key_value(text)?;
    Ok((name, value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_keeps_the_spaces_of_its_value_and_a_name_does_not() {
        let text = " encoder.query_prefix =query: ";
        let [key, value] = ["encoder.query_prefix", "query: "].map(str::to_owned);
        assert_eq!(key_value(text), Ok((key.clone(), value)));
        assert_eq!(name_value(text), Ok((key, "query:".to_owned())));
        assert!(key_value(" =1").is_err() && name_value("k").is_err());
    }
}
