//! The environment: read here and nowhere else, so that tests pass a map.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

/// Variables that are not named after this program and say where its folders lie.
const FOLDERS: [&str; 2] = ["HOME", "XDG_DATA_HOME"];

/// The environment's variables as they were when the program started.
///
/// It holds API keys: it is neither printed nor logged.
#[derive(Clone, Default)]
pub struct Env(BTreeMap<String, String>);

/// What in an environment keeps this program from knowing what is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// A variable that this program would read.
    #[error("the variable {name} is not UTF-8")]
    NotUtf8 {
        /// The variable's name.
        name: String,
    },
    /// A folder is to lie in a home that nobody has named.
    #[error("HOME is not set: set {variable}{}", if *is_set { " without ~/" } else { "" })]
    NoHome {
        /// The variable that names the folder.
        variable: &'static str,
        /// Whether that is set, and begins with `~/`.
        is_set: bool,
    },
}

impl Env {
    /// Reads the process's environment. A variable that is not ours and not UTF-8 is left out.
    ///
    /// # Errors
    ///
    /// One of ours that is not UTF-8: it was meant to say something.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    pub fn read() -> Result<Self, EnvError> {
        Self::of(std::env::vars_os())
    }

    fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, EnvError> {
        let mut read = BTreeMap::new();
        for (name, value) in variables {
            match (name.to_str(), value.to_str()) {
                (Some(name), Some(value)) => {
                    read.insert(name.to_owned(), value.to_owned());
                }
                _ => {
                    let name = name.to_string_lossy();
                    if name.starts_with("SPECHOP_") || FOLDERS.contains(&&*name) {
                        let name = name.into_owned();
                        return Err(EnvError::NotUtf8 { name });
                    }
                }
            }
        }
        Ok(Self(read))
    }

    /// A variable's value; a blank one counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.verbatim(name).filter(|value| !value.trim().is_empty())
    }

    /// A variable's value, which may be blank.
    pub(crate) fn verbatim(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
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

    /// Whether the folders above lie anywhere. A command that needs one asks this before all else: otherwise
    /// it would make a folder of the name `~`.
    ///
    /// # Errors
    ///
    /// If one of them is to lie in the home folder, and `HOME` is not set.
    pub fn check_folders(&self) -> Result<(), EnvError> {
        if self.get("HOME").is_some() {
            return Ok(());
        }
        for variable in ["SPECHOP_DATA_DIR", "SPECHOP_STATE_DIR"] {
            if self.get(variable).is_some_and(|dir| dir.starts_with("~/")) {
                let is_set = true;
                return Err(EnvError::NoHome { variable, is_set });
            }
        }
        let variable = "SPECHOP_DATA_DIR";
        match self.get(variable).or_else(|| self.get("XDG_DATA_HOME")) {
            Some(_) => Ok(()),
            None => Err(EnvError::NoHome {
                variable,
                is_set: false,
            }),
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
    fn without_a_home_the_folders_must_be_named() {
        for (variables, said) in [
            (&[][..], "HOME is not set: set SPECHOP_DATA_DIR"),
            (
                &[("SPECHOP_STATE_DIR", "/state")],
                "HOME is not set: set SPECHOP_DATA_DIR",
            ),
            (
                &[("SPECHOP_DATA_DIR", "~/d")],
                "HOME is not set: set SPECHOP_DATA_DIR without ~/",
            ),
            (
                &[("SPECHOP_DATA_DIR", "/d"), ("SPECHOP_STATE_DIR", "~/s")],
                "HOME is not set: set SPECHOP_STATE_DIR without ~/",
            ),
            (&[("SPECHOP_DATA_DIR", "/d")], ""),
            (&[("XDG_DATA_HOME", "/x")], ""),
            (&[("HOME", "/h"), ("SPECHOP_DATA_DIR", "~/d")], ""),
        ] {
            let env: Env = variables.iter().copied().collect();
            let error = env.check_folders().err();
            let error = error.map_or_else(String::new, |error| error.to_string());
            assert_eq!(error, said, "{variables:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_was_meant_for_us_is_not_passed_over() {
        use std::os::unix::ffi::OsStringExt;

        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let read = |name: &[u8], value: &[u8]| {
            let good = (text(b"A"), text(b"b"));
            Env::of([good, (text(name), text(value))])
        };
        for (name, value, named) in [
            (
                &b"SPECHOP_QUESTION_K"[..],
                &b"\xff"[..],
                "SPECHOP_QUESTION_K",
            ),
            (b"HOME", b"/home/\xe9", "HOME"),
            (b"XDG_DATA_HOME", b"\xff", "XDG_DATA_HOME"),
            (b"SPECHOP_\xff", b"1", "SPECHOP_\u{fffd}"),
        ] {
            let error = read(name, value).err().map(|error| error.to_string());
            let said = format!("the variable {named} is not UTF-8");
            assert_eq!(error.as_deref(), Some(&*said));
        }
        for (name, value) in [(&b"OTHER"[..], &b"\xff"[..]), (b"\xff", b"1")] {
            let env = read(name, value).unwrap();
            assert_eq!((env.get("A"), env.get("OTHER")), (Some("b"), None));
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
