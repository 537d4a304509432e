//! What the planner is about to ask, guessed before it has written it.

use async_trait::async_trait;
use spechop_types::{Draft, Hop, Question, Tenant, Tokens};

use crate::{Call, KnownHop, PlanRequest, PortError};

/// What a drafter may look at.
#[derive(Clone, Copy, Debug)]
pub struct DraftRequest<'a> {
    /// Whose question it is.
    pub tenant: &'a Tenant,
    /// The question as asked.
    pub question: &'a Question,
    /// The trajectory so far, oldest first. Some of its answers may be guesses.
    pub hops: &'a [KnownHop],
    /// Most drafts that are of use.
    pub limit: usize,
}

/// Guesses the next sub-question, not its answer: a pattern of tool calls in PASTE's sense (arXiv
/// 2603.18897, section 4).
///
/// It answers at once and never waits: a question asks it between two of its steps.
pub trait Drafter: Send + Sync {
    /// At most [`DraftRequest::limit`] drafts, the likeliest first, none twice, none empty. None if it
    /// has no idea.
    fn draft(&self, request: &DraftRequest<'_>) -> Vec<Draft>;

    /// Whether every call is known to come back within microseconds, whatever it is given: it looks at a bounded
    /// number of things, and waits for nothing. Such calls are made in place. Others are made on another thread,
    /// which can be left behind, and that takes longer than a short call.
    fn ends_at_once(&self) -> bool {
        false
    }

    /// Takes note of the hops of a question that has been answered. It has `ended` if the planner chose to
    /// answer, and was not made to: then it might have asked on. Nothing, for one that does not learn.
    fn learn(&self, _tenant: &Tenant, _question: &Question, _hops: &[Hop], _ended: bool) {}
}

/// A draft that somebody has written, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenDraft {
    /// What the planner may be about to ask; never empty. `None` if whoever wrote expects no look-up, or
    /// wrote nothing of use.
    pub draft: Option<Draft>,
    /// Tokens spent on it.
    pub tokens: Tokens,
}

/// Guesses the next sub-question by writing it, which takes time and money: the speculator of speculative
/// tool calls (arXiv 2512.15834, algorithm 2).
///
/// It is asked while the planner writes, and whoever asked drops the call when the planner has written.
/// So it is of use only if it is faster than the planner.
#[async_trait]
pub trait DraftWriter: Send + Sync {
    /// One draft of the step that `request` asks a planner for. Samples of the same request are asked for
    /// side by side (the source's λ): sample 0 is the likeliest draft, every further one may be another.
    async fn write_draft(
        &self,
        call: &Call,
        request: PlanRequest,
        sample: u32,
    ) -> Result<WrittenDraft, PortError>;
}
