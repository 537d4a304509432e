//! What several of this crate's tests need.
#![allow(
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers of tests, none of which uses all of them"
)]

pub(crate) mod damage;
pub(crate) mod tiny;

use std::path::{Path, PathBuf};

use spechop_testkit::assets::data_dir;

/// The folder of the trained reader: the one that the repository ships, else a pulled one. `None`
/// where there is neither, since tests must not need the training.
pub(crate) fn trained_reader() -> Option<PathBuf> {
    let name = "models/spechop-reader";
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    [shipped, data_dir()]
        .into_iter()
        .map(|dir| dir.join(name))
        .find(|dir| dir.join("reader.toml").exists())
}
