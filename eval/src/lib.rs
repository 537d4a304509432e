//! The evaluation harness: data sets, recorded, simulated and live runs, and reports of them.
//!
//! ```text
//! data set ─▶ questions ─┬─ record ─▶ bundle ─▶ simulate ─┐
//!                        └─ live, replayed ───────────────┴▶ rows ─▶ report
//! ```

mod asked;
mod brought;
mod bundle;
mod cascade;
mod choose;
mod circumstances;
mod control;
pub mod dataset;
pub mod decisions;
mod files;
mod folder;
mod live;
pub mod load;
mod means;
mod past;
mod play;
mod question;
mod record;
mod replay;
mod report;
pub mod retrieval;
mod row;
pub mod score;
mod scripted;
mod short_hash;
mod stage;
mod stats;
mod variant;
pub mod web;
mod wire;

pub use asked::{AskedHop, OurGuess, asked};
pub use brought::{Brought, BroughtError, HopCounts};
pub use bundle::{Bundle, BundleError, BundleInfo};
pub use cascade::CASCADE;
pub use choose::{Compared, Comparison, Cost, Recording, Setting, compare, learning};
pub use circumstances::{command, commit, machine};
pub use control::Control;
pub use dataset::{LoadError, load, of_kinds, only, read_ids, sample};
pub use files::{FileError, write_whole};
pub use folder::{Missing, Run, RunError, RunWriter};
pub use live::{Failure, LiveError, LiveOptions, Progress, Summary, live, probe};
pub use means::Means;
pub use past::past;
pub use play::{MissingStage, play, play_brought};
pub use question::{Dataset, GoldHop, Question};
pub use record::{LeftOut, Parts, RecordError, RecordEvent, Recorder};
pub use replay::{Replayed, replay};
pub use report::{
    Cell, CurveFigure, CurvePoint, Report, ReportData, ReportError, Section, Table, curve_svg,
    report,
};
pub use row::{Calls, Confidence, Drafted, HopKind, Machine, Row, RowHop, RunInfo, Source, Wanted};
pub use score::{exact_match, f1, holds, recall};
pub use scripted::{Script, scripted};
pub use short_hash::short_hash;
/// Latency that is added to every look-up on purpose.
pub use spechop_sim::InjectedLatency as Injected;
pub use stage::{HopTexts, Input, Output, PassageName, RecordedGuess, Stage};
pub use variant::{InvalidVariant, Variant, is_name};
