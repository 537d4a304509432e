//! Builds passage indexes from a corpus.
