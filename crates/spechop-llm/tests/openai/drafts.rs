//! Drafts over HTTP: the request that asks for one, what servers may say to it, and predicted output.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use spechop_llm::{
    ChatEndpoint, Generation, LlmDraftWriter, LlmPlanner, OpenAiModel, PromptStyle, TextDraft,
    TextModel,
};
use spechop_ports::{Call, DraftWriter, Lane, PlanRequest, Planner, PortError, contract};
use spechop_types::{Chance, Draft, Question, Step, SubQuestion, TraceContext};
use wiremock::matchers::{body_partial_json, method};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::{delta, ending, endpoint, event, generation};

const QUESTION: &str = "Who is the mother of the director of film Blue Kite?";

fn request() -> PlanRequest {
    PlanRequest {
        question: Question::new(QUESTION).unwrap(),
        hops: Vec::new(),
        must_answer: false,
        drafts: Vec::new(),
    }
}

fn stream(body: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(body.as_bytes(), "text/event-stream")
}

fn says(text: &str, end: &str) -> ResponseTemplate {
    stream(&(delta(text) + &ending(end)))
}

async fn server(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    let mock = Mock::given(method("POST")).respond_with(answer);
    mock.mount(&server).await;
    server
}

fn at(server: &MockServer) -> ChatEndpoint {
    endpoint(&format!("{}/v1", server.uri()))
}

fn writer(endpoint: &ChatEndpoint, style: PromptStyle) -> LlmDraftWriter {
    LlmDraftWriter::new(Arc::new(OpenAiModel::new(endpoint).unwrap()), style)
}

fn guess() -> Call {
    Call::new(Lane::Speculative, Chance::EVEN)
}

async fn sent(server: &MockServer) -> Vec<Value> {
    let received = server.received_requests().await.unwrap();
    let body = |request: &Request| request.body_json().unwrap();
    received.iter().map(body).collect()
}

#[tokio::test]
async fn an_endpoint_hears_for_which_span_it_writes() {
    let server = server(says("yes</answer>", "stop")).await;
    let model = OpenAiModel::new(&at(&server)).unwrap();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = Call::authoritative().traced(TraceContext::parse(parent, ""));
    for call in [guess(), call.sub_call()] {
        model.generate(&call, generation()).await.unwrap();
    }
    let received = server.received_requests().await.unwrap();
    let told = received
        .iter()
        .map(|request| request.headers.get("traceparent"));
    let told: Vec<_> = told.map(|value| Some(value?.to_str().unwrap())).collect();
    assert_eq!(told, [None, Some(parent)]);
}

#[tokio::test]
async fn the_first_sample_is_greedy_and_the_others_are_drawn() {
    let server = server(says(
        "<question>Who directed the film Blue Kite?</question>",
        "stop",
    ))
    .await;
    let mut endpoint = at(&server);
    endpoint.reasoning_effort = Some("minimal".into());
    let writer = writer(&endpoint, PromptStyle::Tagged);
    contract::draft_writer(&writer).await;
    for sample in 0..3 {
        let written = writer.write_draft(&guess(), request(), sample).await;
        let written = written.unwrap();
        let draft = written.draft.unwrap();
        let words = draft.sub_question.as_str();
        assert_eq!(words, "Who directed the film Blue Kite?");
        assert!(written.tokens.total() > 0);
    }
    let bodies = sent(&server).await;
    let temperatures: Vec<_> = bodies[2..]
        .iter()
        .map(|body| (body["temperature"].as_f64().unwrap() * 10.0).round())
        .collect();
    assert_eq!(temperatures, [0.0, 8.0, 8.0]);
    for body in &bodies {
        assert_eq!(body["reasoning_effort"], "minimal");
        assert!(body["max_tokens"].as_u64().unwrap() <= 64);
        assert_eq!(body.get("prediction"), None);
    }
}

/// What the server says, and what comes of it.
#[tokio::test]
async fn what_is_no_sub_question_is_no_draft() {
    let endless = format!("<question>{}", "Who directed ".repeat(40));
    let repeats = format!("<question>{QUESTION}</question>");
    for (said, end) in [
        ("", "stop"),
        ("   ", "stop"),
        ("\u{1}\u{fffd}{]]>", "stop"),
        ("<question></question>", "stop"),
        (&*endless, "length"),
        (&*repeats, "stop"),
        ("<answer>Anna</answer>", "stop"),
        ("Let me think about that film first", "length"),
    ] {
        let server = server(says(said, end)).await;
        let writer = writer(&at(&server), PromptStyle::Tagged);
        let written = writer.write_draft(&guess(), request(), 0).await.unwrap();
        assert_eq!(written.draft, None, "{said:?}");
        assert!(written.tokens.total() > 0, "it is paid all the same");
        assert_eq!(sent(&server).await.len(), 1, "nothing is repaired");
    }
}

#[tokio::test]
async fn a_server_that_fails_fails_the_draft_alone() {
    let hangs = ResponseTemplate::new(200).set_delay(Duration::from_secs(600));
    let busy = event(&json!({"error": {"message": "busy"}}));
    let seconds = Duration::from_secs;
    for (answer, silence) in [
        (hangs, Duration::from_millis(50)),
        (ResponseTemplate::new(400), seconds(60)),
        (ResponseTemplate::new(429), seconds(60)),
        (stream("data: {not json}\n\n"), seconds(60)),
        (stream(&busy), seconds(60)),
        // It breaks off.
        (stream(&delta("<question>Who")), seconds(60)),
    ] {
        let server = server(answer).await;
        let mut endpoint = at(&server);
        endpoint.limits.silence = silence;
        endpoint.retries.max = 0;
        let writer = writer(&endpoint, PromptStyle::Tagged);
        let written = writer.write_draft(&guess(), request(), 0).await;
        let is_late = matches!(written, Err(PortError::Timeout { .. }));
        assert!(
            written.is_err() && is_late == (silence < seconds(1)),
            "{written:?}"
        );
    }
}

/// The planner of that server, with this expected.
async fn plan(model: &Arc<OpenAiModel>, style: PromptStyle, draft: Option<&str>) -> Step {
    let planner = LlmPlanner::new(model.clone(), style);
    let drafts = draft.into_iter().map(|draft| Draft {
        sub_question: SubQuestion::new(draft),
        chance: Chance::EVEN,
    });
    let request = PlanRequest {
        drafts: drafts.collect(),
        ..request()
    };
    let planned = planner.plan(&Call::authoritative(), request).await;
    planned.unwrap().step
}

#[tokio::test]
async fn what_is_expected_goes_with_the_request_if_that_is_wished() {
    let asked = "Who directed the film Blue Kite?";
    let tagged = format!("<question>{asked}</question>");
    for (style, said) in [(PromptStyle::Tagged, &*tagged), (PromptStyle::Corag, asked)] {
        let server = server(says(said, "stop")).await;
        for (predicted_output, draft, expected) in [
            (
                true,
                Some(asked),
                Some(json!({"type": "content", "content": said})),
            ),
            (true, None, None),
            (false, Some(asked), None),
        ] {
            let mut endpoint = at(&server);
            endpoint.predicted_output = predicted_output;
            let model = Arc::new(OpenAiModel::new(&endpoint).unwrap());
            let step = plan(&model, style, draft).await;
            assert_eq!(step, Step::Ask(SubQuestion::new(asked)));
            let last = sent(&server).await.pop().unwrap();
            assert_eq!(last.get("prediction"), expected.as_ref());
        }
    }
}

/// Refuses whatever comes with a prediction, in these words.
async fn plain_server(refusal: &str) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(body_partial_json(
            json!({"prediction": {"type": "content"}}),
        ))
        .respond_with(ResponseTemplate::new(400).set_body_string(refusal))
        .with_priority(1)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .respond_with(says("<answer>Anna</answer>", "stop"))
        .with_priority(2)
        .mount(&server)
        .await;
    server
}

fn expecting() -> Generation {
    Generation {
        drafts: vec![TextDraft {
            text: "<answer>Anna</answer>".into(),
            chance: None,
        }],
        ..generation()
    }
}

#[tokio::test]
async fn an_endpoint_that_refuses_predictions_is_sent_none_any_more() {
    // Pydantic quotes what it refuses, and that may speak of anything.
    let quotes = r#"{"detail":[{"type":"extra_forbidden","loc":["body","prediction"],
        "msg":"Extra inputs are not permitted","input":{"type":"content",
        "content":"<question>What is the average temperature of Lake Como?</question>"}}]}"#;
    let names = r#"{"error":{"message":"unknown parameter: 'prediction'"}}"#;
    for refusal in [names, quotes] {
        let server = plain_server(refusal).await;
        let mut endpoint = at(&server);
        endpoint.predicted_output = true;
        endpoint.requests_max = NonZeroUsize::MIN;
        let model = OpenAiModel::new(&endpoint).unwrap();
        for _ in 0..3 {
            let said = model.generate(&Call::authoritative(), expecting()).await;
            assert_eq!(said.unwrap().text, "<answer>Anna</answer>");
        }
        let bodies = sent(&server).await;
        let predicted = |body: &Value| body.get("prediction").is_some();
        let predicted: Vec<_> = bodies.iter().map(predicted).collect();
        assert_eq!(predicted, [true, false, false, false]);
        assert!(bodies.iter().all(|body| body["temperature"] == 0.0));
    }
}

/// If it refuses the plain request, too, the prediction is not to blame.
#[tokio::test]
async fn another_refusal_is_not_blamed_on_the_prediction() {
    let server = server(ResponseTemplate::new(401)).await;
    let mut endpoint = at(&server);
    endpoint.predicted_output = true;
    let model = OpenAiModel::new(&endpoint).unwrap();
    for _ in 0..2 {
        let said = model.generate(&Call::authoritative(), expecting()).await;
        assert!(matches!(said, Err(PortError::Refused { .. })), "{said:?}");
    }
    let predicted = |body: &Value| body.get("prediction").is_some();
    let predicted: Vec<_> = sent(&server).await.iter().map(predicted).collect();
    assert_eq!(predicted, [true, false, true, false]);
}
