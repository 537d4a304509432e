//! Guess against observation: a verdict.
