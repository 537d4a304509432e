//! A run on disk.

use crate::{Question, Row, RunInfo};

/// A run: how it came about, what was asked, and what was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How it came about.
    pub info: RunInfo,
    /// What was asked.
    pub questions: Vec<Question>,
    /// What was answered.
    pub rows: Vec<Row>,
}
