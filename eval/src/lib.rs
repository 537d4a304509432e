//! The evaluation harness: data sets, recorded and live runs, and the tables that come of them.
//!
//! ```text
//! data set ─▶ questions ─┬─ record ─▶ bundle ─▶ simulate ─┐
//!                        └─ live, replayed ───────────────┴▶ rows ─▶ report
//! ```

mod circumstances;
mod dataset;
mod folder;
mod live;
mod question;
mod row;
mod variant;

pub use circumstances::{command, commit, machine};
pub use dataset::{LoadError, load, of_kinds, only, read_ids, sample};
pub use folder::{Missing, Run, RunError, RunWriter};
pub use live::{Failure, LiveError, LiveOptions, Progress, Summary, live, probe};
pub use question::{Dataset, GoldHop, Question};
pub use row::{Calls, HopKind, Injected, Machine, Row, RowHop, RunInfo, Source};
pub use variant::{InvalidVariant, Variant, Verifier};
