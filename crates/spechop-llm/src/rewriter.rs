//! A question of a conversation, put into words that need no conversation: a model is shown both.

use std::sync::Arc;

use async_trait::async_trait;
use spechop_ports::{Call, PortError, RewriteRequest, Rewriter, Rewritten};

use crate::TextModel;
use crate::prompt;

/// Rewrites questions of conversations with a language model.
#[derive(Clone)]
pub struct LlmRewriter {
    model: Arc<dyn TextModel>,
}

impl LlmRewriter {
    /// Rewrites with `model`.
    pub fn new(model: Arc<dyn TextModel>) -> Self {
        Self { model }
    }
}

/// Nothing is repaired: if the model has not written a question, the one that was asked is as good.
#[async_trait]
impl Rewriter for LlmRewriter {
    async fn rewrite(&self, call: &Call, request: RewriteRequest) -> Result<Rewritten, PortError> {
        let generated = self.model.generate(call, prompt::rewrite(&request)).await?;
        let question = prompt::rewritten(&generated)
            .ok_or_else(|| PortError::malformed(self.model.name(), "no question"))?;
        Ok(Rewritten {
            question,
            tokens: generated.tokens,
        })
    }
}

#[cfg(test)]
mod tests {
    use spechop_ports::contract;

    use super::*;
    use crate::scripted::scripted;

    #[tokio::test]
    async fn what_the_model_writes_is_the_question_or_an_error() {
        let model = scripted(&["Where was Maren born?\n", " … "]);
        let rewriter = LlmRewriter::new(model.clone());
        let request = RewriteRequest {
            turns: Vec::new(),
            question: "Where?".into(),
        };
        let call = Call::authoritative();
        let rewritten = rewriter.rewrite(&call, request.clone()).await.unwrap();
        assert_eq!(&*rewritten.question, "Where was Maren born?");
        assert_eq!(rewritten.tokens.total(), 11);
        let error = rewriter.rewrite(&call, request.clone()).await.unwrap_err();
        assert!(matches!(error, PortError::Malformed { .. }), "{error}");
        let error = rewriter.rewrite(&call, request).await.unwrap_err();
        assert!(matches!(error, PortError::Unavailable { .. }), "{error}");
        // Nothing is repaired.
        assert_eq!(model.asked.lock().len(), 3);
    }

    #[tokio::test]
    async fn keeps_the_contract() {
        let model = scripted(&["When was Tian Zhuangzhuang born?"]);
        contract::rewriter(&LlmRewriter::new(model)).await;
    }
}
