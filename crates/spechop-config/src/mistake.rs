//! What is wrong with a configuration, and where a setting was written.

use std::fmt;
use std::path::PathBuf;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere: it is the default.
    Default,
    /// In the configuration file.
    File(PathBuf),
    /// In this environment variable.
    Variable(String),
    /// On the command line, with this flag.
    Flag(String),
}

/// Something in the configuration that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key's path, e.g. `question.k`.
    pub key: String,
    /// Where it was written.
    pub source: Source,
    /// What is wrong, and if possible what would be right.
    pub problem: String,
    /// The command that puts it right, if there is one.
    pub remedy: Option<String>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.key, self.source, self.problem)?;
        match &self.remedy {
            Some(command) => write!(f, ": run `{command}`"),
            None => Ok(()),
        }
    }
}
