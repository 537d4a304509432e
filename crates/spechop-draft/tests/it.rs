//! Drafters, their files, and what they draft of recorded questions.

mod drafter;
mod files;
mod recorded;
