//! The evaluation harness: data sets, recorded and live runs, and the tables that come of them.
//!
//! ```text
//! data set ─▶ questions ─┬─ record ─▶ bundle ─▶ simulate ─┐
//!                        └─ live, replayed ───────────────┴▶ rows ─▶ report
//! ```

mod folder;
mod question;
mod report;
mod row;
pub mod score;
pub mod stats;
mod variant;

pub use folder::Run;
pub use question::{Dataset, GoldHop, Question};
pub use report::{Cell, Report, ReportData, ReportError, Section, Table, report};
pub use row::{Calls, HopKind, Injected, Machine, Row, RowHop, RunInfo, Source};
pub use variant::{InvalidVariant, Variant, Verifier};
