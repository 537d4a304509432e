//! The verifier: a table of cases, its laws, other names of the same thing.

mod aliases;
mod laws;
mod table;
