//! The nouns of SpecHop. No behaviour beyond what a noun must guarantee about itself, no I/O.
//!
//! Beside them stand small rules that all packages share: how a text is folded, cut and put on one line, how an
//! error tells its causes, how a time becomes a number.
//!
//! Texts that travel through many branches are `Arc<str>`: a branch that copies its prefix copies
//! pointers.

mod activity;
mod budget;
mod causes;
mod chance;
mod draft;
mod hop;
mod ids;
mod options;
mod owned;
mod passage;
mod provider;
mod question;
mod refusal;
mod spread;
mod stage;
mod tenant;
mod text;
mod time;
mod trace_context;
mod unanswered;

pub use activity::{Activities, Activity};
pub use budget::{Budget, Money, Price, Tokens};
pub use causes::{causes, innermost, with_causes};
pub use chance::Chance;
pub use draft::Draft;
pub use hop::{CommitKind, Hop, Observation, Step, SubQuestion};
pub use ids::{BranchId, LookupId};
pub use options::{AnswerOptions, Effort, InvalidOption, K, VerifierMode};
pub use owned::{Owned, OwnedCache};
pub use passage::Passage;
pub use provider::ProviderChange;
pub use question::{InvalidQuestion, QUESTION_BYTES_MAX, Question};
pub use refusal::{Refusal, Refusals};
pub use spread::{GOLDEN, spread};
pub use stage::Stage;
pub use tenant::{InvalidTenant, Tenant};
pub use text::{
    canonical, canonical_name, cut_at_word, is_invisible, is_unseen, is_unspaced, is_web,
    normalise, one_line, plain_figure, words,
};
pub use time::{ms, whole_ms};
pub use trace_context::{SpanId, TraceContext, TraceId};
pub use unanswered::{is_hedge, is_refusal};
