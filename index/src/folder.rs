//! Where an index is built, and how it takes its place.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use spechop_store::{Fault, HOT, Inputs, MANIFEST, PassageIndex, is_index_entry};

use crate::error::BuildError;
use crate::hot::Hot;

/// NFS and FUSE give a name of this kind to a file that somebody has open when it is removed. It goes
/// when that is closed.
const STILL_OPEN: [&str; 2] = [".nfs", ".fuse_hidden"];
/// So many replaced indexes are put aside while somebody has them open.
const ASIDE_MAX: usize = 9;
/// Their names are `.NAME.replaced-1` and so on.
const ASIDE: &str = ".replaced-";

/// The folder of an index: where it goes, and where it grows.
pub(crate) struct Folder {
    /// The finished index.
    pub(crate) out: PathBuf,
    /// The one being built, beside it.
    pub(crate) partial: PathBuf,
    /// The one being replaced, for a moment, if the file system cannot exchange two. Hidden, for what is called
    /// `OUT.old` may be a copy that somebody made to go back to.
    old: PathBuf,
}

/// Held for the length of a build; the system lets go of it however the process ends.
pub(crate) struct Lock {
    _file: File,
}

impl Folder {
    /// Refused where something else than an index lies at `out`.
    pub(crate) fn new(out: &Path) -> Result<Self, BuildError> {
        if out.file_name().is_none() {
            let out = out.display();
            return Err(BuildError::Setting(format!(
                "{out} is no name for a folder"
            )));
        }
        let folder = Self {
            out: out.to_owned(),
            partial: sibling(out, "", ".partial"),
            old: sibling(out, ".", ".old"),
        };
        for dir in [&folder.out, &folder.partial, &folder.old] {
            may_be_replaced(dir)?;
        }
        Ok(folder)
    }

    /// The folder that an index goes to. A link to a folder stays, as in [`Self::there`].
    pub(crate) fn at(out: &Path) -> Result<Self, BuildError> {
        // With a slash at its end, a link is taken for the folder.
        let named = out.components().as_path();
        match named.is_symlink() && named.is_dir() {
            true => Self::new(&fs::canonicalize(named).map_err(BuildError::io("reading", named))?),
            false => Self::new(out),
        }
    }

    /// The folder of an index that is there. If there is none, not even a lock is left behind. A link stays, and what
    /// it leads to is replaced: others may know that by its own name.
    pub(crate) fn there(index: &Path) -> Result<Self, BuildError> {
        let real = match index.is_symlink() {
            true => fs::canonicalize(index).map_err(BuildError::io("reading", index))?,
            false => index.to_owned(),
        };
        let index = real.as_path();
        let is_index = |dir: &Path| dir.join(MANIFEST).exists();
        if !is_index(index) && !is_index(&sibling(index, ".", ".old")) {
            must_be_there(index)?;
            // Says what is wrong.
            PassageIndex::open(index)?;
        }
        Self::new(index)
    }

    /// Keeps other builds away. If the last one was killed between the two steps of its swap, the index that it was
    /// about to replace is at `out` again.
    pub(crate) fn lock(&self) -> Result<Lock, BuildError> {
        let parent = parent(&self.out);
        fs::create_dir_all(parent).map_err(BuildError::io("creating", parent))?;
        // The file stays: removing it would race with a build that has just opened it.
        let path = sibling(&self.out, ".", ".lock");
        let file = File::create(&path).map_err(BuildError::io("creating", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BuildError::Locked(self.out.clone())),
            Err(TryLockError::Error(source)) => {
                return Err(BuildError::io("locking", &path)(source));
            }
        }
        if self.old.exists() && !self.out.exists() {
            fs::rename(&self.old, &self.out).map_err(BuildError::io("restoring", &self.out))?;
        }
        Ok(Lock { _file: file })
    }

    /// Whether an earlier run has finished the index in `partial`. Refused if that cannot take its place,
    /// before anything is encoded.
    pub(crate) fn is_grown(&self, inputs: &Inputs) -> Result<bool, BuildError> {
        if is_mount_point(&self.out) {
            let out = self.out.display();
            return Err(BuildError::Setting(format!(
                "{out} is a mount point, which cannot be exchanged: name a folder in it"
            )));
        }
        Ok(finished(&self.partial, inputs)?.is_some())
    }

    /// Reads back the index that was finished in `partial`, gives it its hot subset and moves it to
    /// `out`. Whoever has the old one open keeps it.
    pub(crate) fn publish(&self, hot: Option<&Hot>) -> Result<PassageIndex, BuildError> {
        let index = self.read_back()?;
        if let Some(hot) = hot {
            hot.build(&index, &self.partial)?;
        }
        drop(index);
        self.swap()?;
        Ok(PassageIndex::open(&self.out)?)
    }

    /// What is published has been read back, and has no hot subset yet.
    pub(crate) fn read_back(&self) -> Result<PassageIndex, BuildError> {
        // A build that was killed may have left a subset of other passages.
        for name in [
            HOT.to_owned(),
            format!("{HOT}.partial"),
            format!("{HOT}.old"),
            format!(".{HOT}.old"),
        ] {
            remove(&self.partial.join(name))?;
        }
        Ok(PassageIndex::open_verified(&self.partial)?)
    }

    /// Moves `partial` to `out`. There is an index at `out` at every moment, if there was one before and the file system
    /// can exchange two.
    pub(crate) fn swap(&self) -> Result<(), BuildError> {
        let failed = |action| BuildError::io(action, &self.out);
        // A build may have taken hours, in which somebody has put something there.
        may_be_replaced(&self.out)?;
        let exchanged = renameat_with(CWD, &self.partial, CWD, &self.out, RenameFlags::EXCHANGE);
        let replaced = match exchanged {
            // The old index is now where the new one grew.
            Ok(()) => &self.partial,
            Err(Errno::NOENT) => {
                fs::rename(&self.partial, &self.out).map_err(failed("publishing"))?;
                &self.partial
            }
            // A file system that cannot do it in one step.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                self.in_two_steps()?;
                &self.old
            }
            Err(error) => return Err(failed("replacing")(error.into())),
        };
        File::open(parent(&self.out))
            .and_then(|dir| dir.sync_all())
            .map_err(failed("publishing"))?;
        may_be_replaced(replaced)?;
        // The new index is in its place, whatever becomes of the old one.
        let _ = self.clear_away(replaced);
        Ok(())
    }

    /// The same without an exchange. Some file systems refuse that before they look whether there is
    /// anything to exchange.
    fn in_two_steps(&self) -> Result<(), BuildError> {
        let failed = |action| BuildError::io(action, &self.out);
        self.clear_away(&self.old)?;
        match fs::rename(&self.out, &self.old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("replacing")(error));
            }
            // There is no old one before the first is published.
            Ok(()) | Err(_) => {}
        }
        fs::rename(&self.partial, &self.out).map_err(failed("publishing"))
    }

    /// Removes what was replaced. If files of it stay because somebody has them open, it is put aside, and
    /// removed when the index is replaced again.
    fn clear_away(&self, replaced: &Path) -> Result<(), BuildError> {
        let asides = (1..=ASIDE_MAX).map(|n| sibling(&self.out, ".", &format!("{ASIDE}{n}")));
        let is_free = |aside: &PathBuf| {
            let removed = may_be_replaced(aside).and_then(|()| remove(aside));
            removed.is_ok()
        };
        // All of them, and not only the first.
        let free: Vec<PathBuf> = asides.filter(is_free).collect();
        match (remove(replaced), free.first()) {
            (Err(_), Some(aside)) => {
                fs::rename(replaced, aside).map_err(BuildError::io("removing", replaced))
            }
            (removed, _) => removed,
        }
    }

    /// Where a copy of a stream is made, beside the index, where there is room.
    pub(crate) fn spool(&self) -> PathBuf {
        sibling(&self.out, ".", ".corpus")
    }
}

/// Refused if nothing is at `dir`: that no index can be read there says less.
///
/// # Errors
///
/// [`BuildError::Missing`].
pub fn must_be_there(dir: &Path) -> Result<(), BuildError> {
    match dir.exists() {
        true => Ok(()),
        false => Err(BuildError::Missing(dir.to_owned())),
    }
}

/// The index in `dir`, if it is whole and made of these inputs. An index that the system does not let
/// be read is an error: whoever takes it for unfinished builds it again, and deletes it for that.
pub(crate) fn finished(dir: &Path, inputs: &Inputs) -> Result<Option<PassageIndex>, BuildError> {
    let error = match PassageIndex::open_verified(dir) {
        Ok(index) => return Ok((index.inputs() == inputs).then_some(index)),
        Err(error) => error,
    };
    match error.fault {
        Fault::Unfinished
        | Fault::Manifest(_)
        | Fault::Version { .. }
        | Fault::Missing(_)
        | Fault::Length { .. }
        | Fault::Foreign(_)
        | Fault::Checksum(_)
        | Fault::Senseless { .. }
        | Fault::Record { .. } => Ok(None),
        // Somebody else is writing to it, or it says nothing about what is there.
        Fault::Changed(_)
        | Fault::Io { .. }
        | Fault::Encoder { .. }
        | Fault::Part { .. }
        | Fault::Vector { .. } => Err(error.into()),
    }
}

/// The way from a folder to a path below it, however the two are written; `None` if the path lies
/// elsewhere. It need not be there.
pub(crate) fn within(path: &Path, dir: &Path) -> Option<PathBuf> {
    let dir = fs::canonicalize(dir).ok()?;
    let path = std::path::absolute(path).ok()?;
    // The path itself may be a link, which is replaced where it lies.
    let mut above = path.ancestors().skip(1);
    let (above, found) = above.find_map(|above| Some((above, fs::canonicalize(above).ok()?)))?;
    let whole = found.join(path.strip_prefix(above).ok()?);
    whole.strip_prefix(dir).ok().map(Path::to_owned)
}

fn remove(dir: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(BuildError::io("removing", dir)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Refused unless there is nothing, or a folder with nothing in it but what an index has. That goes for
/// its hot subset, too, which is an index of its own.
fn may_be_replaced(dir: &Path) -> Result<(), BuildError> {
    let taken = || BuildError::Taken(dir.to_owned());
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // A file here, or in the place of a folder above?
        Err(_) if dir.is_file() => return Err(taken()),
        Err(error) => return Err(BuildError::io("reading", dir)(error)),
    };
    for entry in entries {
        let name = entry.map_err(BuildError::io("reading", dir))?.file_name();
        let known = name
            .to_str()
            .filter(|name| is_index_entry(name) || is_left_over(name));
        if known.is_some_and(|name| name.trim_start_matches('.').starts_with(HOT)) {
            may_be_replaced(&dir.join(&name))?;
        }
        if known.is_none() {
            // Nobody should be told to remove an index for the sake of a note in it.
            return Err(match dir.join(MANIFEST).exists() {
                true => BuildError::Stray {
                    dir: dir.to_owned(),
                    name,
                },
                false => taken(),
            });
        }
    }
    Ok(())
}

/// Whether an entry of an index is what a change has left there: a file that was removed while somebody
/// had it open, or a hot subset that was put aside for the sake of such a file.
fn is_left_over(name: &str) -> bool {
    let hidden = name.strip_prefix('.');
    let hot = hidden.and_then(|name| name.strip_prefix(HOT));
    hot.is_some_and(|rest| rest.starts_with(ASIDE))
        || STILL_OPEN.iter().any(|start| name.starts_with(start))
}

/// Whether another file system begins at `dir`. Such a folder cannot be renamed.
fn is_mount_point(dir: &Path) -> bool {
    match (fs::symlink_metadata(dir), fs::metadata(parent(dir))) {
        (Ok(inner), Ok(outer)) => inner.dev() != outer.dev(),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// `dir/name` → `dir/{before}name{after}`
fn sibling(path: &Path, before: &str, after: &str) -> PathBuf {
    let mut name = OsString::from(before);
    name.push(path.file_name().unwrap_or_default());
    name.push(after);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests;
