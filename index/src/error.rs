//! Why an index was not built.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use spechop_ports::PortError;
use spechop_store::IndexError;

use crate::formats::Format;
use crate::intake::Intake;

/// Why an index was not built. What had been encoded is kept, and the next build goes on from there,
/// unless the corpus changed in between.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A line of the in-degree file that cannot be used.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A corpus without a passage.
    #[error("{}", nothing_in(path, intake))]
    Empty {
        /// The file or folder.
        path: PathBuf,
        /// What became of its entries.
        intake: Intake,
    },
    /// A file without a word.
    #[error("{} is empty", .0.display())]
    Blank(PathBuf),
    /// Nobody said how the corpus is written, and it does not show.
    #[error(
        "{} is written in no format that is recognised: name its format with --format",
        .0.display()
    )]
    Unrecognised(PathBuf),
    /// The corpus ends in the middle of an entry: a download that was not complete.
    #[error(
        "the corpus is cut off at {0}: fetch it again, or take what there is of it with --accept-cut-off"
    )]
    CutOff(String),
    /// The corpus was written to while it was being encoded. Nobody knows what was encoded of which, so
    /// nothing of it is kept.
    #[error("{} changed while it was being read", .0.display())]
    Changed(PathBuf),
    /// A file that cannot be read or a folder that cannot be written.
    #[error("{action} {} failed", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else builds or changes the same index.
    #[error("another process is writing {}: wait for its end", .0.display())]
    Locked(PathBuf),
    /// There is nothing where an index should be.
    #[error("there is no folder {}", .0.display())]
    Missing(PathBuf),
    /// Something else lies where the index should go.
    #[error("{} exists and is no index: remove it, or choose another folder", .0.display())]
    Taken(PathBuf),
    /// Something else lies within an index, and would be lost if the index were replaced.
    #[error(
        "{} holds {name:?}, which no index has: move it away, or choose another folder",
        dir.display()
    )]
    Stray {
        /// The folder of the index.
        dir: PathBuf,
        /// What lies in it.
        name: OsString,
    },
    /// Settings that make no sense.
    #[error("{0}")]
    Setting(String),
    /// The encoder failed.
    #[error("encoding passages {first}..{end} failed", end = first + count)]
    Encoder {
        /// Number of the first passage of the batch in the corpus, from 0.
        first: usize,
        /// Passages in the batch.
        count: usize,
        /// Why.
        source: PortError,
    },
    /// The index could not be written or read back.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Says that there is no passage, and why, as far as that is known.
fn nothing_in(path: &Path, intake: &Intake) -> String {
    let mut text = format!("{} holds no passage", path.display());
    match intake.format {
        Format::Documents => text += ": no .txt, .md or .html file with text in it",
        format => text += &format!(" in the format {format}"),
    }
    if intake.left_out() > 0 {
        text += &format!(" (left out: {intake})");
    }
    text
}

impl BuildError {
    /// For `map_err`: the failure of `action` on `path`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
