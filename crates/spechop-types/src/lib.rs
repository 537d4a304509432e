//! The nouns of SpecHop. No behaviour beyond what a noun must guarantee about itself, no I/O.
//!
//! Texts that travel through many branches are `Arc<str>`: a branch that copies its prefix copies
//! pointers.

mod activity;
mod budget;
mod chance;
mod hop;
mod ids;
mod options;
mod owned;
mod passage;
mod provider;
mod question;
mod refusal;
mod stage;
mod tenant;
mod text;
mod trace_context;
mod unanswered;

pub use activity::{Activities, Activity};
pub use budget::{Budget, Money, Price, Tokens};
pub use chance::Chance;
pub use hop::{CommitKind, Hop, Observation, Step, SubQuestion};
pub use ids::{BranchId, LookupId};
pub use options::{AnswerOptions, Effort, InvalidOption, K, VerifierMode};
pub use owned::{Owned, OwnedCache};
pub use passage::Passage;
pub use provider::ProviderChange;
pub use question::{InvalidQuestion, QUESTION_BYTES_MAX, Question};
pub use refusal::{Refusal, Refusals};
pub use stage::Stage;
pub use tenant::{InvalidTenant, TENANT_BYTES_MAX, Tenant};
pub use text::{canonical, is_unseen, normalise};
pub use trace_context::{SpanId, TraceContext, TraceId};
pub use unanswered::{is_hedge, is_refusal};
