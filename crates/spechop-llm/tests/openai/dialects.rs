//! Endpoints that refuse parts of the usual request, as those of thinking models do.

use serde_json::{Value, json};
use spechop_llm::{OpenAiModel, TextModel};
use spechop_ports::{Call, PortError};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::{delta, ending, endpoint, event, generation};

const ANSWER: &str = "<answer>Anna</answer>";
/// In the words of the endpoints that say so.
const NO_MAX_TOKENS: &str = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                             Use 'max_completion_tokens' instead.";
const NO_TEMPERATURE: &str = "Unsupported value: 'temperature' does not support 0.0 with this model. \
                              Only the default (1) value is supported.";

/// In those of Mistral.
const NO_STREAM_OPTIONS: &str = r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden",
    "loc":["body","stream_options","include_usage"],"msg":"Extra inputs are not permitted","input":true}]},
    "type":"invalid_request_error","param":null,"code":null,"raw_status_code":422}"#;

fn refusal(reason: &str) -> ResponseTemplate {
    let error = json!({"error": {"message": reason, "type": "invalid_request_error"}});
    ResponseTemplate::new(400).set_body_json(error)
}

/// A server that answers requests by what they hold, and a model behind it.
async fn answering(
    answer: impl Fn(&Value) -> ResponseTemplate + Send + Sync + 'static,
) -> (MockServer, OpenAiModel) {
    let server = MockServer::start().await;
    let answer = move |request: &Request| answer(&request.body_json().unwrap());
    Mock::given(method("POST"))
        .respond_with(answer)
        .mount(&server)
        .await;
    let model = OpenAiModel::new(&endpoint(&format!("{}/v1", server.uri()))).unwrap();
    (server, model)
}

fn stream(events: String) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(events.into_bytes(), "text/event-stream")
}

/// A server that refuses a request for what this says of it, and answers all others.
async fn server(refuses: fn(&Value) -> Option<&'static str>) -> (MockServer, OpenAiModel) {
    answering(move |body| match refuses(body) {
        Some(reason) => refusal(reason),
        None => stream(delta(ANSWER) + &ending("stop")),
    })
    .await
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
        let said = said.unwrap();
        assert_eq!(said.text, ANSWER);
        // The server's, which counts the thoughts that nobody has seen.
        assert_eq!(said.tokens.completion, 3);
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

/// The server's count is taken if it sends one unasked, as Mistral does.
#[tokio::test]
async fn an_endpoint_that_forbids_what_it_does_not_know_is_not_asked_to_count() {
    let end = event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    let uncounted = end + "data: [DONE]\n\n";
    for (end, prompt, completion) in [(uncounted, 10, 1), (ending("stop"), 11, 3)] {
        let (server, model) = answering(move |body| match body.get("stream_options") {
            Some(_) => ResponseTemplate::new(422)
                .set_body_raw(NO_STREAM_OPTIONS.as_bytes(), "application/json"),
            None => stream(delta("Anna") + &end),
        })
        .await;
        for _ in 0..2 {
            let said = model.generate(&Call::authoritative(), generation()).await;
            let said = said.unwrap();
            assert_eq!(said.text, "Anna");
            assert_eq!(
                (said.tokens.prompt, said.tokens.completion),
                (prompt, completion)
            );
        }
        let requests = server.received_requests().await.unwrap();
        let bodies = requests
            .iter()
            .map(|request| request.body_json::<Value>().unwrap());
        let asked: Vec<_> = bodies
            .map(|body| body.get("stream_options").is_some())
            .collect();
        assert_eq!(asked, [true, false, false]);
        let usual = ["max_tokens", "temperature"].map(str::to_owned);
        assert!(sent(&server).await.iter().all(|fields| *fields == usual));
    }
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

/// A server whose model writes behind its thoughts, if it has room for so many tokens.
async fn thinker(thought: fn(&str) -> String, needs: u64) -> (MockServer, OpenAiModel) {
    answering(
        move |body| match body["max_tokens"].as_u64().unwrap() < needs {
            true => stream(thought("hm").repeat(8) + &ending("length")),
            false => stream(thought("hm") + &delta("\n\n") + &delta(ANSWER) + &ending("stop")),
        },
    )
    .await
}

/// As servers tell thoughts from text.
fn told(thought: &str) -> String {
    event(&json!({"choices": [{"delta": {"reasoning_content": thought}}]}))
}

/// As Mistral does.
fn in_parts(thought: &str) -> String {
    let thinking = [json!({"type": "text", "text": thought})];
    let part = json!({"type": "thinking", "thinking": thinking});
    event(&json!({"choices": [{"delta": {"content": [part]}}]}))
}

#[tokio::test]
async fn a_model_that_was_seen_to_think_gets_room_for_it() {
    for thought in [told as fn(&str) -> String, in_parts] {
        let (server, model) = thinker(thought, 1_000).await;
        for _ in 0..2 {
            let said = model.generate(&Call::authoritative(), generation()).await;
            assert_eq!(said.unwrap().text, ANSWER);
        }
        let requests = server.received_requests().await.unwrap();
        let limit = |request: &Request| request.body_json::<Value>().unwrap()["max_tokens"].clone();
        let limits: Vec<_> = requests.iter().map(limit).collect();
        assert_eq!(limits, [8, 2_056, 2_056]);
    }
}

#[tokio::test]
async fn a_model_that_only_thinks_is_said_to() {
    let inline = |thought: &str| delta(&format!("<think>{thought}"));
    for thought in [told as fn(&str) -> String, inline, in_parts] {
        let (server, model) = thinker(thought, u64::MAX).await;
        let said = model.generate(&Call::authoritative(), generation()).await;
        let Err(PortError::Malformed { detail, .. }) = said else {
            panic!("{said:?}");
        };
        assert!(detail.contains("reasoning_effort"), "{detail}");
        assert_eq!(server.received_requests().await.unwrap().len(), 2);
    }
}
