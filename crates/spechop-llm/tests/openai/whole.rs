//! Endpoints that refuse to stream, and give whole answers.

use std::time::Duration;

use serde_json::{Value, json};
use spechop_llm::{OpenAiModel, TextModel};
use spechop_ports::Call;
use wiremock::{Request, ResponseTemplate};

use super::request_forms::{answering, refusal};
use super::{endpoint, generation};

const ANSWER: &str = "<answer>Anna</answer>";
const NOT_VERIFIED: &str = "Your organization must be verified to stream this model.";

/// In OpenAI's words of o1, and to organisations that it has not verified.
#[tokio::test]
async fn an_endpoint_that_does_not_stream_is_asked_for_the_whole() {
    for words in [
        "Unsupported value: 'stream' does not support true with this model.",
        NOT_VERIFIED,
    ] {
        let message = json!({"content": format!("{ANSWER} and on")});
        let whole = json!({
            "choices": [{"message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 3},
        });
        let (server, model) = answering(move |body| match body["stream"] == true {
            true => refusal(words),
            false => ResponseTemplate::new(200).set_body_json(&whole),
        })
        .await;
        for _ in 0..2 {
            let said = model.generate(&Call::authoritative(), generation()).await;
            let said = said.unwrap();
            assert_eq!((said.text.as_str(), said.tokens.completion), (ANSWER, 3));
        }
        let requests = server.received_requests().await.unwrap();
        let had = |request: &Request| {
            let body: Value = request.body_json().unwrap();
            (body["stream"] == true, body.get("stream_options").is_some())
        };
        let had: Vec<_> = requests.iter().map(had).collect();
        // Options of a stream are for streams alone: some servers refuse them otherwise.
        assert_eq!(had, [(true, true), (false, false), (false, false)]);
    }
}

/// Nothing of it comes before its end.
#[tokio::test]
async fn a_whole_answer_may_be_awaited_for_as_long_as_a_call_may_last() {
    let (server, _) = answering(|body| match body["stream"] == true {
        true => refusal(NOT_VERIFIED),
        false => {
            let choice = json!({"message": {"content": ANSWER}, "finish_reason": "stop"});
            let whole = ResponseTemplate::new(200).set_body_json(json!({ "choices": [choice] }));
            whole.set_delay(Duration::from_millis(1_500))
        }
    })
    .await;
    let mut endpoint = endpoint(&format!("{}/v1", server.uri()));
    endpoint.limits.silence = Duration::from_secs(1);
    let model = OpenAiModel::new(&endpoint).unwrap();
    let said = model.generate(&Call::authoritative(), generation()).await;
    assert_eq!(said.unwrap().text, ANSWER);
}
