//! What a planner may be about to ask.

use crate::{Chance, SubQuestion};

/// A sub-question that the planner may be about to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The words, which must be the planner's to be of use.
    pub sub_question: SubQuestion,
    /// How likely the planner is to write just these.
    pub chance: Chance,
}
