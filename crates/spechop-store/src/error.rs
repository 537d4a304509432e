//! Why an index cannot be used.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::layout::HOT;
use crate::manifest::{Manifest, Part};

/// An index that cannot be opened, read or written. Its text is one sentence that ends with what to
/// do.
#[derive(Debug)]
pub struct IndexError {
    /// The folder of the index.
    pub dir: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
    /// If it is a part of an index, as far as its manifest can be read: it is rebuilt as one.
    part: Option<Part>,
}

/// What is wrong with an index.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no manifest: not an index, or a build that never finished.
    #[error("it has no manifest.json, so it is no index or its build has not finished")]
    Unfinished,
    /// The manifest cannot be understood, or was changed after it was written.
    #[error("its manifest.json is damaged ({0})")]
    Manifest(String),
    /// Written by another version of this program.
    #[error("it is of format {found}, this program reads formats up to {newest}")]
    Version {
        /// The format found.
        found: u64,
        /// The newest format that this program reads.
        newest: u64,
    },
    /// A file that the manifest names is not there.
    #[error("{0} is missing")]
    Missing(String),
    /// A file was cut or grew.
    #[error("{file} is {found} bytes long instead of {expected}")]
    Length {
        /// The file's name.
        file: String,
        /// Its length now.
        found: u64,
        /// Its length when it was written.
        expected: u64,
    },
    /// A file of another index, or none of ours.
    #[error("{0} does not belong to this index")]
    Foreign(String),
    /// A file's content changed after it was written.
    #[error("{0} is damaged: its checksum does not match")]
    Checksum(String),
    /// A file is as it was written, but was written wrongly: a scale that is no number, a record that
    /// ends before it begins.
    #[error("{file} makes no sense at row {row}")]
    Senseless {
        /// The file's name.
        file: String,
        /// Number of the first such row within the file.
        row: usize,
    },
    /// Somebody wrote to a file, or cut it, while it was in use.
    #[error("{0} was changed while it was in use")]
    Changed(String),
    /// A passage's record makes no sense.
    #[error("{file} is damaged: record {record} cannot be read")]
    Record {
        /// The file's name.
        file: String,
        /// Number of the record within the file.
        record: usize,
    },
    /// Built with another encoder: its vectors mean something else.
    #[error("it was built with encoder {built_with}, but the encoder in use is {in_use}")]
    Encoder {
        /// Fingerprint in the manifest.
        built_with: String,
        /// Fingerprint of the encoder that was to be used.
        in_use: String,
    },
    /// One part of several, which finds only what is in it.
    #[error("it is part {number} of {of} of an index")]
    Part {
        /// Its number, from 0.
        number: usize,
        /// How many parts make the whole.
        of: usize,
    },
    /// A vector that cannot be stored.
    #[error("the encoder gave an unusable vector for passage {id}: {detail}")]
    Vector {
        /// The passage's id.
        id: String,
        /// What is wrong with the vector.
        detail: String,
    },
    /// The operating system refused: permissions, a full disk, too many open files.
    #[error("{action} failed: {error}")]
    Io {
        /// What was tried, with the file's name.
        action: String,
        /// What the system said.
        error: io::Error,
    },
}

impl IndexError {
    pub(crate) fn new(dir: &Path, fault: Fault) -> Self {
        let manifest = Manifest::read(dir).ok();
        Self {
            dir: dir.to_owned(),
            fault,
            part: manifest.and_then(|manifest| manifest.inputs.part),
        }
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.dir.display();
        write!(f, "index {dir}: {}", self.fault)?;
        match self.fault {
            Fault::Io { .. } | Fault::Vector { .. } => Ok(()),
            Fault::Changed(_) => write!(
                f,
                "; look at it with `spechop index verify {dir}`, and start this program again"
            ),
            Fault::Part { .. } => f.write_str("; join the parts with `spechop index merge`"),
            Fault::Version { .. }
            | Fault::Unfinished
            | Fault::Manifest(_)
            | Fault::Missing(_)
            | Fault::Length { .. }
            | Fault::Foreign(_)
            | Fault::Checksum(_)
            | Fault::Senseless { .. }
            | Fault::Record { .. }
            | Fault::Encoder { .. } => {
                // A hot subset is chosen from the index that it is part of.
                match self.dir.parent().filter(|_| self.dir.ends_with(HOT)) {
                    Some(index) => {
                        let index = index.display();
                        write!(
                            f,
                            "; rebuild it with `spechop index hot {index} --fraction 0.1`"
                        )
                    }
                    None => {
                        let shard = match self.part {
                            Some(Part { number, of }) => format!(" --shard {number}/{of}"),
                            None => String::new(),
                        };
                        write!(
                            f,
                            "; rebuild it with `spechop index build --corpus CORPUS \
                             --out {dir}{shard}`"
                        )
                    }
                }
            }
        }
    }
}

impl std::error::Error for IndexError {}

impl Fault {
    /// For `map_err`: the failure of `action` on `path`.
    pub(crate) fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Fault {
        let action = match path.file_name() {
            Some(name) => format!("{action} {}", name.to_string_lossy()),
            None => action.to_owned(),
        };
        move |error| Fault::Io { action, error }
    }
}
