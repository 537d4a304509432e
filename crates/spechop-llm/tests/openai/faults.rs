//! Whole answers: statuses and bodies.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use spechop_llm::{
    End, Generated, Generation, LlmReader, OpenAiModel, Prompt, PromptStyle, ReadLimits, TextModel,
};
use spechop_ports::{Call, Lane, PortError, ReadRequest, Reader};
use spechop_testkit::{OwnPort, passage};
use spechop_types::{Chance, SubQuestion, Tokens};
use wiremock::matchers::{body_partial_json, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{KEY, delta, ending, endpoint, event, generation, model};

pub(super) fn stream(body: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(body.as_bytes(), "text/event-stream")
}

fn good() -> ResponseTemplate {
    stream(&(delta("Amy") + &delta(" Dunne") + &ending("stop")))
}

/// What a model of this server says.
pub(super) async fn generated(server: &MockServer) -> Result<Generated, PortError> {
    let model = model(&base(server));
    model.generate(&Call::authoritative(), generation()).await
}

/// A server that gives `first` so many times, then the good answer.
pub(super) async fn server(first: ResponseTemplate, times: u64) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/v1/chat/completions"))
        .respond_with(first)
        .up_to_n_times(times)
        .with_priority(1)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .respond_with(good())
        .with_priority(2)
        .mount(&server)
        .await;
    server
}

pub(super) fn base(server: &MockServer) -> String {
    format!("{}/v1", server.uri())
}

async fn requests(server: &MockServer) -> usize {
    server.received_requests().await.unwrap().len()
}

#[tokio::test]
async fn asks_as_promised_and_takes_the_servers_count() {
    let server = MockServer::start().await;
    let expected = json!({
        "model": "tiny",
        "messages": [{"role": "user", "content": "Who directed the film?"}],
        "temperature": 0.0,
        "max_tokens": 8,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    Mock::given(method("POST"))
        .and(path("/v1/chat/completions"))
        .and(header("authorization", format!("Bearer {KEY}")))
        .and(body_partial_json(expected))
        .respond_with(good())
        .expect(1)
        .mount(&server)
        .await;
    let said = generated(&server).await.unwrap();
    assert_eq!((said.text.as_str(), said.end), ("Amy Dunne", End::Turn));
    let tokens = Tokens {
        prompt: 11,
        completion: 3,
    };
    assert_eq!(said.tokens, tokens);
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let pushed = ResponseTemplate::new(429).insert_header("retry-after", "0");
    for (fault, times) in [
        (pushed, 1),
        (ResponseTemplate::new(500), 2),
        (ResponseTemplate::new(503), 1),
        (ResponseTemplate::new(408), 3),
        (stream(&delta("Amy")), 1),
        // Some servers give an empty reason for as long as they have none.
        (stream(&delta("Am").replace("null", "\"\"")), 1),
        (stream(&event(&json!({"error": {"message": "busy"}}))), 1),
        (stream(&in_stream(502)), 1),
        // Half a refusal would be another answer.
        (
            stream(&(delta("<answer>No") + &ending("insufficient_system_resource"))),
            1,
        ),
        (stream(&(delta("<answer>No") + &ending("network_error"))), 1),
    ] {
        let server = server(fault, times).await;
        let said = generated(&server).await.unwrap();
        assert_eq!(said.text, "Amy Dunne", "nothing of a broken answer is kept");
        assert_eq!(requests(&server).await as u64, times + 1);
    }
}

#[tokio::test]
async fn what_does_not_pass_is_unavailable() {
    let message = json!({"error": {"message": format!("no room for {KEY}")}});
    let fault = ResponseTemplate::new(500).set_body_json(message);
    let server = server(fault, 99).await;
    let error = generated(&server).await.unwrap_err();
    assert_eq!(requests(&server).await, 4);
    let PortError::Unavailable { what, source } = &error else {
        panic!("{error:?}");
    };
    assert!(what.starts_with("tiny at 127.0.0.1:"), "{what}");
    let source = source.as_ref().unwrap().to_string();
    assert_eq!(source, "500 Internal Server Error: no room for [key]");
    assert!(!format!("{error:?}").contains(KEY));
}

/// An error that is told in a stream that has begun, with the status that it would have had.
fn in_stream(code: u16) -> String {
    event(&json!({"error": {"code": code, "message": "not now"}}))
}

#[tokio::test]
async fn speculation_gives_way_to_push_back() {
    for fault in [ResponseTemplate::new(429), stream(&in_stream(429))] {
        let server = server(fault, 1).await;
        let error = model(&base(&server))
            .generate(&Call::new(Lane::Speculative, Chance::EVEN), generation())
            .await
            .unwrap_err();
        assert!(matches!(error, PortError::Unavailable { .. }));
        assert_eq!(requests(&server).await, 1);
    }
}

#[tokio::test]
async fn what_is_refused_for_good_is_not_asked_again() {
    let wrong_key = json!({"error": {"message": format!("wrong key: {KEY}")}});
    for (fault, said) in [
        (
            ResponseTemplate::new(401).set_body_json(wrong_key),
            "401 Unauthorized: wrong key: [key]",
        ),
        (
            ResponseTemplate::new(400),
            "400 Bad Request: no reason given",
        ),
        (
            ResponseTemplate::new(404).set_body_string("no such model"),
            "404 Not Found: no such model",
        ),
        (
            ResponseTemplate::new(307).insert_header("location", "http://127.0.0.1:1/"),
            "307 Temporary Redirect: no reason given",
        ),
        (stream(&in_stream(402)), "not now"),
    ] {
        let server = server(fault, 1).await;
        let error = generated(&server).await.unwrap_err();
        assert_eq!(requests(&server).await, 1);
        let PortError::Refused { detail, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(detail, said);
    }
}

/// Asked again with a complaint, it would say nothing again. The passage that it was about can be left out.
#[tokio::test]
async fn a_filter_that_leaves_nothing_refuses() {
    let thoughts = delta("<think>Is it") + &ending("sensitive");
    for fault in [ending("content_filter"), thoughts] {
        let server = server(stream(&fault), 2).await;
        let model = model(&base(&server));
        let call = Call::authoritative();
        let refused = model.generate(&call, generation()).await.unwrap_err();
        let PortError::Refused { detail, .. } = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!(detail, "its content filter has left nothing of the answer");
        let limits = ReadLimits::default();
        let reader = LlmReader::new(Arc::new(model), PromptStyle::Tagged, limits);
        let request = ReadRequest {
            sub_question: SubQuestion::new("Who directed the film?"),
            passages: [
                passage("a", "A", "by Amy Dunne"),
                passage("b", "B", "blood"),
            ]
            .into(),
        };
        let read = reader.read(&call, request).await.unwrap();
        assert_eq!(read.answer.as_deref(), Some("Amy Dunne"));
        assert_eq!(requests(&server).await, 3);
    }
}

/// No server is asked: it would put a template around the text.
#[tokio::test]
async fn a_bare_text_is_refused() {
    let server = server(good(), 1).await;
    let generation = Generation {
        prompt: Prompt::Text("Question: Who?\n".into()),
        ..generation()
    };
    let refused = model(&base(&server))
        .generate(&Call::authoritative(), generation)
        .await
        .unwrap_err();
    assert!(matches!(refused, PortError::Refused { .. }));
    assert!(refused.to_string().contains("bare text"), "{refused}");
    assert_eq!(requests(&server).await, 0);
}

#[tokio::test]
async fn odd_answers_are_taken_for_what_they_are() {
    let whole = json!({
        "choices": [{"message": {"content": "<answer>X</answer> and"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    });
    let message = json!({"content": "Amy Dunne", "role": "assistant"});
    let whole_again = event(&json!({"choices": [{"finish_reason": "stop", "message": message}]}));
    let again = delta("no ").repeat(8);
    let last = event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    for (answer, text, end) in [
        // Never closes its tag.
        (
            stream(&(delta("<answer>Amy") + &ending("length"))),
            "<answer>Amy".to_owned(),
            End::Length,
        ),
        // Repeats itself.
        (
            stream(&(again + &ending("length"))),
            "no ".repeat(8),
            End::Length,
        ),
        // Says nothing.
        (stream(&ending("stop")), String::new(), End::Turn),
        // A filter has cut it.
        (
            stream(&(delta("<question>Who killed") + &ending("content_filter"))),
            "<question>Who killed".to_owned(),
            End::Length,
        ),
        // So it has, or the end of the context, in the words of others.
        (
            stream(&(delta("<question>Who killed") + &ending("sensitive"))),
            "<question>Who killed".to_owned(),
            End::Length,
        ),
        (
            stream(&(delta("<question>Who killed") + &ending("model_length"))),
            "<question>Who killed".to_owned(),
            End::Length,
        ),
        // Its thoughts are no part of what it says.
        (
            stream(
                &(delta("<think>\n<answer>Y</answer>?")
                    + &delta("</think>\n\nX")
                    + &ending("stop")),
            ),
            "X".to_owned(),
            End::Turn,
        ),
        // Events without a word keep the line open, and what comes behind the end is rubbish.
        (
            stream(&(delta("Amy") + "data:\n\n" + &last + "data: {not json}\n\n")),
            "Amy".to_owned(),
            End::Turn,
        ),
        (
            stream(&(delta("Amy") + &last + "data: [DONE] \n\n")),
            "Amy".to_owned(),
            End::Turn,
        ),
        // Says all of it once more at its end.
        (
            stream(&(delta("Amy") + &delta(" Dunne") + &whole_again)),
            "Amy Dunne".to_owned(),
            End::Turn,
        ),
        // Knows no limit.
        (
            stream(&delta("ü").repeat(5_000)),
            "ü".repeat(8 * 32 / 2),
            End::Length,
        ),
        // Does not stream.
        (
            ResponseTemplate::new(200).set_body_json(whole),
            "<answer>X</answer>".to_owned(),
            End::Stop,
        ),
    ] {
        let server = server(answer, 1).await;
        let said = generated(&server).await.unwrap();
        assert_eq!((said.text, said.end), (text, end));
    }
}

#[tokio::test]
async fn too_long_a_prompt_is_told_from_other_refusals() {
    let code =
        json!({"error": {"message": "8192 tokens at most", "code": "context_length_exceeded"}});
    // llama.cpp's, and the words of vLLM and SGLang.
    let kind = json!({"error": {
        "code": 400, "message": "8192 tokens at most", "type": "exceed_context_size_error", "n_ctx": 8192,
    }});
    let words = json!({
        "object": "error", "type": "BadRequestError", "code": 400,
        "message": "This model's maximum context length is 8192 tokens at most",
    });
    for fault in [
        stream(&event(&code)),
        ResponseTemplate::new(400).set_body_json(code),
        stream(&event(&kind)),
        ResponseTemplate::new(400).set_body_json(kind),
        ResponseTemplate::new(400).set_body_json(words),
        ResponseTemplate::new(413).set_body_string("8192 tokens at most"),
    ] {
        let server = server(fault, 1).await;
        let error = generated(&server).await.unwrap_err();
        assert_eq!(requests(&server).await, 1);
        let PortError::TooLong { detail, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(detail.ends_with("8192 tokens at most"), "{detail}");
    }
}

/// As MiniMax does, with the status of an answer.
#[tokio::test]
async fn a_failure_in_the_place_of_an_answer_says_why() {
    let why = json!({"status_code": 1008, "status_msg": "insufficient balance"});
    let body = json!({"choices": null, "base_resp": why});
    let server = server(ResponseTemplate::new(200).set_body_json(body), 99).await;
    let error = generated(&server).await.unwrap_err();
    assert_eq!(requests(&server).await, 4);
    let PortError::Unavailable { source, .. } = &error else {
        panic!("{error:?}");
    };
    let source = source.as_ref().unwrap().to_string();
    assert!(source.contains("insufficient balance"), "{source}");
}

/// Those of LM Studio, of TGI and of llama.cpp as it was, which have no code for it.
#[tokio::test]
async fn too_long_a_prompt_is_known_by_the_words_of_its_server() {
    for words in [
        "Trying to keep the first 5317 tokens when context the overflows. However, the model is \
         loaded with context length of only 4096 tokens, which is not enough.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4090 \
         `inputs` tokens and 8 `max_new_tokens`",
        "Input validation error: `inputs` must have less than 4095 tokens. Given: 5317",
        "the request exceeds the available context size. try increasing the context size",
    ] {
        let refused = json!({ "error": words });
        // A stream of llama.cpp has a field for it.
        let field = json!({"code": 400, "message": words, "type": "invalid_request_error"});
        for fault in [
            ResponseTemplate::new(422).set_body_json(&refused),
            stream(&event(&refused)),
            stream(&format!("error: {field}\n\n")),
        ] {
            let server = server(fault, 1).await;
            let error = generated(&server).await.unwrap_err();
            assert_eq!(requests(&server).await, 1);
            assert!(matches!(error, PortError::TooLong { .. }), "{error:?}");
        }
    }
}

#[tokio::test]
async fn garbage_is_malformed() {
    // A text in the place of choices, which has the key in it.
    let long = json!({"choices": format!("{KEY} {}", "x".repeat(200_000))});
    for fault in [
        stream("data: {not json}\n\n"),
        stream("data: [1, 2]\n\n"),
        stream("data: {\"choices\": 3}\n\n"),
        stream(&event(&long)),
        ResponseTemplate::new(200).set_body_json(&long),
    ] {
        let server = server(fault, 1).await;
        let error = generated(&server).await.unwrap_err();
        assert!(matches!(error, PortError::Malformed { .. }), "{error:?}");
        let told = error.to_string();
        assert!(!told.contains(KEY), "{told:.1000}");
        assert!(told.len() < 1_000, "{}", told.len());
    }
}

#[tokio::test]
async fn a_slow_server_times_out() {
    let slow = good().set_delay(Duration::from_secs(60));
    let server = server(slow, 9).await;
    let mut endpoint = endpoint(&base(&server));
    endpoint.limits.silence = Duration::from_millis(50);
    let error = OpenAiModel::new(&endpoint)
        .unwrap()
        .generate(&Call::authoritative(), generation())
        .await
        .unwrap_err();
    assert!(
        matches!(error, PortError::Timeout { limit, .. } if limit.as_millis() == 50),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_dead_endpoint_is_unavailable() {
    let nobody = OwnPort::reserve();
    let error = model(&format!("http://{}/v1", nobody.address()))
        .generate(&Call::authoritative(), generation())
        .await
        .unwrap_err();
    assert!(matches!(error, PortError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn warming_up_connects_and_says_nothing() {
    let server = server(good(), 9).await;
    let model = model(&base(&server));
    model
        .warm(&Call::authoritative(), generation())
        .await
        .unwrap();
    let received = server.received_requests().await.unwrap();
    let [request] = received.as_slice() else {
        panic!("{received:?}")
    };
    assert_eq!(request.method.as_str(), "HEAD");
    assert!(request.body.is_empty());
    // Built with the whole workspace, the client could unpack; it does not ask for it.
    assert!(!request.headers.contains_key("accept-encoding"));
    // Nobody is there: the call itself will say so.
    let nobody = OwnPort::reserve();
    let url = format!("http://{}/v1", nobody.address());
    let gone = super::model(&url)
        .warm(&Call::authoritative(), generation())
        .await;
    assert!(
        matches!(gone, Err(PortError::Unavailable { .. })),
        "{gone:?}"
    );
}
