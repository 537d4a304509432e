//! Indexes that are built, added to and killed, with an encoder of hashed words.

mod additions;
mod build;
mod generations;
mod hot;
mod kills;
mod site;
