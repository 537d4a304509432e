//! How well retrievers find gold passages, and how much words should count beside vectors.
//!
//! Two protocols, over the same look-ups ([`LookUps`]):
//!
//! * *Whole question*, as HippoRAG measures: the retriever is asked the multi-hop question itself, and
//!   recall@k is the share of its gold pages among the first k passages.
//! * *Per hop*, as our agent asks: the retriever is asked a sub-question in good words, and recall@k is
//!   the share of hops whose gold page is among the first k passages.
//!
//! ```text
//! training look-ups ─▶ fit ─▶ weight ─┐
//! held-out look-ups ──────────────────┴▶ measure ─▶ rows ─▶ tables
//! ```
//!
//! Everything is compared exactly and on one thread, so the same models and files give the same rows.

mod fit;
mod look_ups;
mod measure;
mod run;
mod searched;
mod tables;

use std::io;

use spechop_ports::PortError;
use spechop_store::IndexError;

use crate::{FileError, LoadError};

pub use fit::{Fit, FitInfo, FittedOn, fit};
pub use look_ups::{AskedHop, LookUps, look_ups, of_sample, passage_ids};
pub use measure::{Found, Measurement};
pub use run::{RetrievalInfo, keep, read_fit, write_fit};
pub use searched::Searched;
/// The passage index, as it is opened and searched.
pub use spechop_store::{IndexRetriever, PassageIndex};
pub use tables::tables;

/// Passages that are kept of what a retriever found.
pub(crate) const DEPTH: usize = 5;
/// The depths at which recall is reported.
pub(crate) const DEPTHS: [usize; 2] = [2, 5];

/// Why retrieval cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum RetrievalError {
    /// The look-ups or a corpus cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// An index cannot be opened or read.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A file of the run cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder of the run cannot be made.
    #[error("cannot make the folder of the run")]
    Folder(#[source] io::Error),
    /// The encoder or a retriever failed.
    #[error("{who} failed")]
    Port {
        /// Which part.
        who: String,
        /// Why.
        source: PortError,
    },
    /// The index was built with another encoder.
    #[error(
        "the index was built with encoder {built_with}, and this is {in_use}: name its encoder"
    )]
    Encoder {
        /// Fingerprint of the encoder that the index was built with.
        built_with: String,
        /// Fingerprint of the encoder at hand.
        in_use: String,
    },
    /// A gold passage is not in the index.
    #[error(
        "question `{question}` looks for passage `{passage}`, which the index does not hold: give the \
         index of the corpus that the look-ups were made for"
    )]
    NoSuchPassage {
        /// The question.
        question: String,
        /// The passage.
        passage: String,
    },
    /// Nothing is left to be asked.
    #[error("there is nothing to {0}: give look-ups of other questions")]
    Nothing(&'static str),
    /// A fit that held other questions out.
    #[error(
        "the weight was fitted while other questions were held out than are asked: fit it again with \
         the same list of ids"
    )]
    OtherHeldOut,
    /// A fit of another encoder, whose cosines have another scale.
    #[error(
        "the weight was fitted with encoder {fitted}, and this is {in_use}: fit it again with this one"
    )]
    OtherEncoder {
        /// Fingerprint of the encoder that it was fitted with.
        fitted: String,
        /// Fingerprint of the encoder at hand.
        in_use: String,
    },
}
