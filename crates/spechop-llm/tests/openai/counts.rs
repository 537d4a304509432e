//! What an answer has cost: the server's count, or an estimate.

use serde_json::json;
use spechop_llm::{End, TextModel};
use spechop_ports::Call;
use spechop_types::Tokens;
use wiremock::ResponseTemplate;

use super::faults::{base, generated, server, stream};
use super::{delta, ending, event, generation, model};

#[tokio::test]
async fn a_count_that_never_came_is_estimated() {
    let answer = delta("<answer>") + &delta("X</answer>") + &delta(" and") + &ending("stop");
    let server = server(stream(&answer), 1).await;
    let said = generated(&server).await.unwrap();
    assert_eq!(
        (said.text.as_str(), said.end),
        ("<answer>X</answer>", End::Stop)
    );
    // 22 bytes of prompt make six tokens and four of form; two events have been read.
    let tokens = Tokens {
        prompt: 10,
        completion: 2,
    };
    assert_eq!(said.tokens, tokens);
}

/// Some servers send a usage with every piece, and fill it in at the end, which is not waited for.
#[tokio::test]
async fn a_count_of_nothing_is_none() {
    for (usage, prompt, completion) in [
        (json!({}), 10, 2),
        (json!({"total_tokens": 0}), 10, 2),
        (json!({"prompt_tokens": 0, "completion_tokens": 0}), 10, 2),
        (json!({"prompt_tokens": null}), 10, 2),
        // Each kind counts by itself.
        (json!({"prompt_tokens": 21, "completion_tokens": 0}), 21, 2),
        (json!({"completion_tokens": 7}), 10, 7),
    ] {
        let piece = |text: &str| {
            let choice = json!({"delta": {"content": text}});
            event(&json!({"choices": [choice], "usage": usage}))
        };
        let answer = piece("<answer>") + &piece("X</answer>") + &piece(" and") + &ending("stop");
        let server = server(stream(&answer), 1).await;
        let call = Call::authoritative();
        let said = model(&base(&server)).generate(&call, generation()).await;
        let tokens = Tokens { prompt, completion };
        assert_eq!(said.unwrap().tokens, tokens, "{usage}");
        assert_eq!(call.spent(), tokens, "{usage}");
    }
}

#[tokio::test]
async fn a_count_stays_if_none_comes_behind_it() {
    let counted = event(&json!({
        "choices": [{"delta": {"content": "<answer>"}}],
        "usage": {"prompt_tokens": 21, "completion_tokens": 4},
    }));
    let zeros = event(&json!({
        "choices": [{"delta": {"content": "X</answer>"}}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0},
    }));
    let server = server(stream(&(counted + &zeros)), 1).await;
    let tokens = Tokens {
        prompt: 21,
        completion: 4,
    };
    assert_eq!(generated(&server).await.unwrap().tokens, tokens);
}

#[tokio::test]
async fn a_whole_answer_with_half_a_count_is_taken() {
    let whole = json!({
        "choices": [{"message": {"content": "<answer>X</answer> and"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": null, "completion_tokens": 3},
    });
    let server = server(ResponseTemplate::new(200).set_body_json(whole), 1).await;
    let said = generated(&server).await.unwrap();
    assert_eq!(said.text, "<answer>X</answer>");
    let tokens = Tokens {
        prompt: 10,
        completion: 3,
    };
    assert_eq!(said.tokens, tokens);
}

#[tokio::test]
async fn no_count_is_larger_than_any_context() {
    let usage = json!({"choices": [], "usage": {
        "prompt_tokens": u64::MAX, "completion_tokens": u64::MAX,
    }});
    let answer =
        delta("<answer>X") + &event(&usage) + &ending("stop").replace("11", "18446744073709551615");
    let server = server(stream(&answer), 1).await;
    let call = Call::authoritative();
    let said = model(&base(&server))
        .generate(&call, generation())
        .await
        .unwrap();
    let most = u64::from(u32::MAX);
    assert_eq!(said.tokens.prompt, most);
    assert_eq!(call.spent().prompt, most, "as it was told meanwhile, too");
    assert!(said.tokens.total() <= 2 * most);
}
