//! Real models on this machine: a catalogue, several sources for each, every file checked.
//!
//! A model lies in `<data folder>/models/<name>/`. A pull builds it in `<name>.partial/` beside that and
//! renames it into place when every SHA-256 is right, so that a folder without the suffix is always whole.
//! What a pull has fetched stays in the partial folder when it is interrupted, and the next one goes on there.

mod archive;
mod built_in;
mod catalogue;
mod client;
mod digest;
mod parts;
mod progress;
mod pull;
pub(crate) mod quantised;
mod record;
mod space;

pub(crate) use catalogue::{
    ANY_ENCODER, Catalogue, DEFAULT, DEFAULT_ENCODER, DEFAULT_MODELS, EARLIER_ENCODER,
    FALLBACK_ENCODER, Kind,
};
pub(crate) use client::Clients;
pub(crate) use digest::of_file;
pub(crate) use pull::{Pulled, Puller, Source};
pub(crate) use record::{State, state};

#[cfg(test)]
pub(crate) use catalogue::tests::{PACKAGE, entry};
