//! Questions of a conversation, made to stand alone.

use std::sync::Arc;

use async_trait::async_trait;
use spechop_types::Tokens;

use crate::{Call, PortError};

/// Who has said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The one who asks.
    User,
    /// The one who answers.
    Assistant,
}

/// Something that was said before the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// By whom.
    pub speaker: Speaker,
    /// What.
    pub text: Arc<str>,
}

/// A question that may leave out what was said before.
#[derive(Clone, Debug)]
pub struct RewriteRequest {
    /// The conversation before it, oldest first.
    pub turns: Vec<Turn>,
    /// The last message of the user.
    pub question: Arc<str>,
}

/// A question that needs no conversation, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewritten {
    /// The question on one line, never empty. It may be the one that was asked.
    pub question: Arc<str>,
    /// Tokens spent on it.
    pub tokens: Tokens,
}

/// Puts into a question what earlier turns of its conversation say.
#[async_trait]
pub trait Rewriter: Send + Sync {
    /// The same question for somebody who has not heard the conversation. It is not answered.
    async fn rewrite(&self, call: &Call, request: RewriteRequest) -> Result<Rewritten, PortError>;
}
