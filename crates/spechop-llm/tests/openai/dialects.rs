//! Endpoints that refuse parts of the usual request, as those of thinking models do.

use serde_json::{Value, json};
use spechop_llm::{OpenAiModel, TextModel};
use spechop_ports::{Call, PortError};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::{delta, ending, endpoint, generation};

const ANSWER: &str = "<answer>Anna</answer>";
/// In the words of the endpoints that say so.
const NO_MAX_TOKENS: &str = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                             Use 'max_completion_tokens' instead.";
const NO_TEMPERATURE: &str = "Unsupported value: 'temperature' does not support 0.0 with this model. \
                              Only the default (1) value is supported.";

fn refusal(reason: &str) -> ResponseTemplate {
    let error = json!({"error": {"message": reason, "type": "invalid_request_error"}});
    ResponseTemplate::new(400).set_body_json(error)
}

/// A server that refuses a request for what this says of it, and answers all others.
async fn server(refuses: fn(&Value) -> Option<&'static str>) -> (MockServer, OpenAiModel) {
    let server = MockServer::start().await;
    let answer = move |request: &Request| {
        let stream = delta(ANSWER) + &ending("stop");
        match refuses(&request.body_json().unwrap()) {
            Some(reason) => refusal(reason),
            None => {
                ResponseTemplate::new(200).set_body_raw(stream.into_bytes(), "text/event-stream")
            }
        }
    };
    Mock::given(method("POST"))
        .respond_with(answer)
        .mount(&server)
        .await;
    let model = OpenAiModel::new(&endpoint(&format!("{}/v1", server.uri()))).unwrap();
    (server, model)
}

/// Which of the disputed fields each request had.
async fn sent(server: &MockServer) -> Vec<Vec<String>> {
    let fields = ["max_tokens", "max_completion_tokens", "temperature"];
    let had = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        let had = fields.into_iter().filter(|field| body.get(field).is_some());
        had.map(ToOwned::to_owned).collect()
    };
    let requests = server.received_requests().await.unwrap();
    requests.iter().map(had).collect()
}

#[tokio::test]
async fn a_thinking_model_is_asked_in_its_own_form_from_then_on() {
    let (server, model) = server(|body| {
        let refuses = [
            ("max_tokens", NO_MAX_TOKENS),
            ("temperature", NO_TEMPERATURE),
        ];
        let refused = refuses
            .into_iter()
            .find(|(field, _)| body.get(field).is_some());
        refused.map(|(_, reason)| reason)
    })
    .await;
    for _ in 0..2 {
        let said = model.generate(&Call::authoritative(), generation()).await;
        assert_eq!(said.unwrap().text, ANSWER);
    }
    assert_eq!(
        sent(&server).await,
        [
            vec!["max_tokens", "temperature"],
            vec!["max_completion_tokens", "temperature"],
            vec!["max_completion_tokens"],
            vec!["max_completion_tokens"],
        ]
    );
    // Its thoughts count, so there is room for them beside the eight tokens of the answer.
    let requests = server.received_requests().await.unwrap();
    let last: Value = requests.last().unwrap().body_json().unwrap();
    assert!(last["max_completion_tokens"].as_u64().unwrap() > 1_000);
}

#[tokio::test]
async fn a_refusal_of_every_form_is_told_and_teaches_nothing() {
    let (server, model) = server(|body| {
        let old = body.get("max_tokens").is_some();
        Some(if old {
            NO_MAX_TOKENS
        } else {
            "this model is not for you"
        })
    })
    .await;
    for _ in 0..2 {
        let said = model.generate(&Call::authoritative(), generation()).await;
        let Err(PortError::Refused { detail, .. }) = said else {
            panic!("{said:?}");
        };
        assert!(detail.contains("this model is not for you"), "{detail}");
    }
    let usual = vec!["max_tokens", "temperature"];
    let other = vec!["max_completion_tokens", "temperature"];
    assert_eq!(
        sent(&server).await,
        [usual.clone(), other.clone(), usual, other]
    );
}

/// A limit that is too large is no question of form. Asked in another one, this server would ignore what it does
/// not know, and write without any limit.
#[tokio::test]
async fn a_value_that_is_refused_is_not_the_form() {
    const TOO_MANY: &str = "max_tokens is too large: this model supports at most 4";
    let (server, model) = server(|body| body.get("max_tokens").map(|_| TOO_MANY)).await;
    let said = model.generate(&Call::authoritative(), generation()).await;
    assert!(matches!(said, Err(PortError::Refused { .. })), "{said:?}");
    assert_eq!(sent(&server).await, [["max_tokens", "temperature"]]);
}
