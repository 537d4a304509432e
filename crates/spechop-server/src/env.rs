//! The environment: read here and nowhere else, so that tests pass a map.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

/// The environment's variables as they were when the program started.
///
/// It holds API keys: it is neither printed nor logged.
#[derive(Clone, Default)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// Reads the process's environment. A variable that is not UTF-8 is left out.
    pub fn read() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
        )
    }

    /// A variable's value; a blank one counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.trim().is_empty())
    }

    /// A variable that holds a secret.
    pub fn secret(&self, name: &str) -> Option<SecretString> {
        self.get(name).map(|value| value.trim().into())
    }

    /// Names that begin with `prefix`.
    pub(crate) fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(move |name| name.starts_with(prefix))
    }

    /// Where models and indexes lie: `SPECHOP_DATA_DIR`, else `$XDG_DATA_HOME/spechop`, else
    /// `~/.local/share/spechop`.
    pub fn data_dir(&self) -> PathBuf {
        if let Some(dir) = self.get("SPECHOP_DATA_DIR") {
            return self.expand(dir);
        }
        match self.get("XDG_DATA_HOME") {
            Some(dir) => Path::new(dir).join("spechop"),
            None => self.expand("~/.local/share/spechop"),
        }
    }

    /// Where a server keeps what it learns, if no key names a file: `SPECHOP_STATE_DIR`, else the data folder.
    pub(crate) fn state_dir(&self) -> PathBuf {
        match self.get("SPECHOP_STATE_DIR") {
            Some(dir) => self.expand(dir),
            None => self.data_dir(),
        }
    }

    /// The path, a leading `~/` replaced by `HOME`.
    pub fn expand(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), self.get("HOME")) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            _ => path.into(),
        }
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_data_folder() {
        let home = ("HOME", "/home/me");
        for (variables, dir) in [
            (vec![home], "/home/me/.local/share/spechop"),
            (vec![home, ("XDG_DATA_HOME", "/data")], "/data/spechop"),
            (
                vec![
                    home,
                    ("XDG_DATA_HOME", "/data"),
                    ("SPECHOP_DATA_DIR", "/here"),
                ],
                "/here",
            ),
            (
                vec![home, ("SPECHOP_DATA_DIR", "~/models")],
                "/home/me/models",
            ),
            (
                vec![home, ("SPECHOP_DATA_DIR", " ")],
                "/home/me/.local/share/spechop",
            ),
        ] {
            let env: Env = variables.into_iter().collect();
            assert_eq!(env.data_dir(), Path::new(dir));
            assert_eq!(env.state_dir(), Path::new(dir));
        }
    }

    #[test]
    fn what_is_learnt_may_lie_elsewhere() {
        let variables = [
            ("SPECHOP_DATA_DIR", "/data"),
            ("SPECHOP_STATE_DIR", "/state"),
        ];
        let env: Env = variables.into_iter().collect();
        assert_eq!(env.data_dir(), Path::new("/data"));
        assert_eq!(env.state_dir(), Path::new("/state"));
    }
}
