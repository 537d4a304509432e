//! The paper's statements and ours, beside its tables.

mod calls;
mod paper;
mod tune;
