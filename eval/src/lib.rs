//! The evaluation harness: data sets, recorded and live runs, and the tables that come of them.
//!
//! ```text
//! data set ─▶ questions ─┬─ record ─▶ bundle ─▶ simulate ─┐
//!                        └─ live, replayed ───────────────┴▶ rows ─▶ report
//! ```

mod question;
mod row;
pub mod stats;
mod variant;

pub use question::{Dataset, GoldHop, Question};
pub use row::{Calls, HopKind, Injected, Machine, Row, RowHop, RunInfo, Source};
pub use variant::{InvalidVariant, Variant, Verifier};
