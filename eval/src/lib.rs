//! The evaluation harness: data sets, recorded and live runs, and the tables that come of them.
//!
//! ```text
//! data set ─▶ questions ─┬─ record ─▶ bundle ─▶ simulate ─┐
//!                        └─ live, replayed ───────────────┴▶ rows ─▶ report
//! ```

pub mod dataset;
mod question;
mod row;
pub mod score;
mod variant;

pub use dataset::LoadError;
pub use question::{Dataset, GoldHop, Question};
pub use row::{Calls, HopKind, Injected, Machine, Row, RowHop, RunInfo, Source};
pub use variant::{InvalidVariant, Variant, Verifier};
