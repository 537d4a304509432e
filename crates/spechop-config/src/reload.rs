//! What a changed file means for a server that runs: the table says which keys may change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::Value;

use super::keys::Keys;
use super::mistake::{Mistake, Source};
use super::read::{config, valid};
use super::{Callers, Config, InvalidConfig, Written, table};
use crate::Env;

/// What was written of the configuration that a server runs on.
#[derive(Clone, Debug)]
pub struct Effective {
    path: PathBuf,
    flags: Vec<(String, String, String)>,
    /// What counts of the file.
    values: BTreeMap<String, Value>,
}

/// What a changed file brings.
#[derive(Clone, Debug)]
pub struct Reread {
    /// The configuration from now on.
    pub config: Config,
    /// What was written of it.
    pub effective: Effective,
    /// The keys that have changed and count now.
    pub changed: Vec<String>,
    /// The keys that have changed and wait for a restart.
    pub waiting: Vec<String>,
}

impl Effective {
    /// What a server has started with.
    ///
    /// # Errors
    ///
    /// The file is not TOML.
    pub fn new(written: &Written) -> Result<Self, InvalidConfig> {
        let (path, text) = written.file.clone().unwrap_or_default();
        Ok(Self {
            values: super::keys::values_of(&path, &text)?,
            path,
            flags: written.flags.clone(),
        })
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        (!self.path.as_os_str().is_empty()).then_some(&*self.path)
    }

    /// Reads the file anew, whole. Keys that need a restart stay as they are. `before` may ask until now.
    /// Blocks: files that the configuration names are looked at.
    ///
    /// # Errors
    ///
    /// Every mistake in it. Then nothing of it counts.
    pub fn reread(&self, text: &str, env: &Env, before: &Callers) -> Result<Reread, InvalidConfig> {
        let values = super::keys::values_of(&self.path, text)?;
        let (all, mut mistakes) = self.read(&values, env);
        if !mistakes.is_empty() {
            // What the server was started with was right then: a file or a core that it names may be gone by now.
            let (_, of_start) = self.read(&self.values, env);
            mistakes.retain(|it| table::is_live(&it.key) || !of_start.contains(it));
        }
        let all = valid(all, mistakes)?;
        // A file that was cut off, or whose last key was taken away, must not open the server.
        if before.wants_keys() && !all.callers.wants_keys() {
            return Err(InvalidConfig(vec![self.opens()]));
        }
        let (changed, waiting): (Vec<_>, Vec<_>) = self
            .differing(&values, env)
            .into_iter()
            .partition(|path| table::is_live(path));
        if waiting.is_empty() {
            return Ok(self.with(values, all, changed, waiting));
        }
        let of_start = self.values.iter().filter(|(path, _)| !table::is_live(path));
        let of_now = values.iter().filter(|(path, _)| table::is_live(path));
        let values = of_start.chain(of_now);
        let values = values
            .map(|(path, value)| (path.clone(), value.clone()))
            .collect();
        let (config, mut mistakes) = self.read(&values, env);
        // The other keys are those of the start.
        mistakes.retain(|mistake| table::is_live(&mistake.key));
        let config = valid(config, mistakes)?;
        Ok(self.with(values, config, changed, waiting))
    }

    /// What is wrong with a file that lets everybody in.
    fn opens(&self) -> Mistake {
        Mistake {
            key: table::LIST.to_owned(),
            source: Source::File(self.path.clone()),
            problem: "nobody would be asked for a key any more: restart the server to let everybody in, or \
                      name an empty file in server.keys_file to let nobody in"
                .to_owned(),
            remedy: None,
        }
    }

    fn with(
        &self,
        values: BTreeMap<String, Value>,
        config: Config,
        changed: Vec<String>,
        waiting: Vec<String>,
    ) -> Reread {
        Reread {
            config,
            effective: Self {
                values,
                ..self.clone()
            },
            changed,
            waiting,
        }
    }

    /// The configuration, and what is wrong with it by now.
    fn read(&self, values: &BTreeMap<String, Value>, env: &Env) -> (Config, Vec<Mistake>) {
        let mut keys = self.keys(values, env);
        let config = config(&mut keys, env);
        (config, keys.finish())
    }

    fn keys<'a>(&self, values: &BTreeMap<String, Value>, env: &'a Env) -> Keys<'a> {
        Keys::of(self.flags.clone(), env, self.path.clone(), values.clone())
    }

    /// Keys that these values set otherwise, if no variable and no flag goes before the file.
    fn differing(&self, values: &BTreeMap<String, Value>, env: &Env) -> BTreeSet<String> {
        let (before, after) = (self.keys(&self.values, env), self.keys(values, env));
        let paths = self.values.keys().chain(values.keys());
        let differs = |path: &&String| {
            let is_over = |keys: &Keys<'_>| {
                matches!(keys.source(path), Source::Variable(_) | Source::Flag(_))
            };
            self.values.get(*path) != values.get(*path) && !is_over(&before) && !is_over(&after)
        };
        paths.filter(differs).cloned().collect()
    }
}
