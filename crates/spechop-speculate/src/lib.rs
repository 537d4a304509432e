//! Speculators: a language model from memory, a hot subset of the index.
