//! Questions of conversations, rewritten by the smallest model that chats. It is too small to be right each
//! time; that it writes one short line, in bounded time, and the same twice, is what is asserted.

use std::sync::Arc;

use spechop_llm::LlmRewriter;
use spechop_ports::{Call, RewriteRequest, Rewriter, Speaker, Turn};

use crate::model::open;

#[tokio::test]
async fn a_small_model_writes_one_line() {
    let model = open(|options| options.context_tokens_per_sequence = 1024);
    let rewriter = LlmRewriter::new(Arc::new(model));
    let turn = |speaker, text: &str| Turn {
        speaker,
        text: text.into(),
    };
    let request = RewriteRequest {
        turns: vec![
            turn(Speaker::User, "Who directed the film Solaris of 1972?"),
            turn(Speaker::Assistant, "Andrei Tarkovsky"),
        ],
        question: "And where was he born?".into(),
    };
    let call = Call::authoritative();
    let first = rewriter.rewrite(&call, request.clone()).await;
    let first = first.expect("a question");
    assert!(!first.question.contains('\n') && !first.question.is_empty());
    // Instructions, two examples and the conversation; and no more than a question.
    assert!(first.tokens.prompt > 150, "{first:?}");
    assert!((1..=96).contains(&first.tokens.completion), "{first:?}");
    let again = rewriter.rewrite(&call, request).await;
    assert_eq!(again.expect("a question").question, first.question);
}
