//! Endpoints that refuse parts of the usual request, as those of thinking models do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Value, json};
use spechop_llm::{LlmPlanner, Message, OpenAiModel, Prompt, PromptStyle, Role, TextModel};
use spechop_ports::{Call, KnownHop, Lane, PlanRequest, Planner, PortError};
use spechop_types::{Chance, Question, Step, SubQuestion};
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

pub(super) fn refusal(reason: &str) -> ResponseTemplate {
    let error = json!({"error": {"message": reason, "type": "invalid_request_error"}});
    ResponseTemplate::new(400).set_body_json(error)
}

/// A server that answers requests by what they hold, and a model behind it.
pub(super) async fn answering(
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

/// A temperature can be missed, in whatever words it is refused.
#[tokio::test]
async fn a_temperature_that_is_refused_is_left_out() {
    const ONLY_ONE: &str = "invalid temperature: only 1 is allowed for this model";
    let (server, model) = server(|body| body.get("temperature").map(|_| ONLY_ONE)).await;
    for _ in 0..2 {
        let said = model.generate(&Call::authoritative(), generation()).await;
        assert_eq!(said.unwrap().text, ANSWER);
    }
    let fields = [
        vec!["max_tokens", "temperature"],
        vec!["max_tokens"],
        vec!["max_tokens"],
    ];
    assert_eq!(sent(&server).await, fields);
}

/// As vLLM says it of Gemma 2, OpenAI of o1-mini, Mistral's templates of themselves, and Gemini's endpoint of Gemma 3.
#[tokio::test]
async fn instructions_go_with_the_first_message_if_they_have_no_place_of_their_own() {
    let mut instructed = generation();
    let Prompt::Chat(chat) = &mut instructed.prompt else {
        panic!("a chat");
    };
    let instructions = Message {
        role: Role::System,
        text: "Be brief.".into(),
    };
    chat.messages.insert(0, instructions);
    for words in [
        "System role not supported",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Only user and assistant roles are supported!",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
    ] {
        let (server, model) =
            answering(move |body| match body["messages"][0]["role"] == "system" {
                true => refusal(words),
                false => stream(delta(ANSWER) + &ending("stop")),
            })
            .await;
        for _ in 0..2 {
            let call = Call::authoritative();
            let said = model.generate(&call, instructed.clone()).await;
            assert_eq!(said.unwrap().text, ANSWER);
        }
        let requests = server.received_requests().await.unwrap();
        let messages = |request: &Request| {
            let body: Value = request.body_json().unwrap();
            body["messages"].clone()
        };
        let asked = "Who directed the film?";
        let apart =
            json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": asked}]);
        let joined = json!([{"role": "user", "content": format!("Be brief.\n\n{asked}")}]);
        let messages: Vec<_> = requests.iter().map(messages).collect();
        assert_eq!(messages, [apart, joined.clone(), joined]);
    }
}

/// Thoughts that are not sent take their time.
#[tokio::test]
async fn a_model_that_thinks_may_be_silent_for_as_long_as_a_call_may_last() {
    let (server, _) = answering(|body| match body.get("max_tokens") {
        Some(_) => refusal(NO_MAX_TOKENS),
        None => stream(delta(ANSWER) + &ending("stop")).set_delay(Duration::from_millis(1_500)),
    })
    .await;
    let mut endpoint = endpoint(&format!("{}/v1", server.uri()));
    endpoint.limits.silence = Duration::from_secs(1);
    let model = OpenAiModel::new(&endpoint).unwrap();
    let said = model.generate(&Call::authoritative(), generation()).await;
    assert_eq!(said.unwrap().text, ANSWER);
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

/// Not every endpoint shows thoughts, and some show no more than their end.
#[tokio::test]
async fn a_model_that_was_seen_to_think_gets_room_for_it() {
    let hidden = |_: &str| String::new();
    let ended = |thought: &str| delta(&format!("<think>{thought}</think>"));
    let opened = |thought: &str| delta(&format!("{thought}</think>"));
    for thought in [told as fn(&str) -> String, in_parts, hidden, ended, opened] {
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

/// Whatever the field is called that limits its tokens.
#[tokio::test]
async fn thoughts_that_are_hidden_are_counted() {
    let (_server, model) = thinker(|_| String::new(), 1_000).await;
    for _ in 0..2 {
        let said = model.generate(&Call::authoritative(), generation()).await;
        // The server's: only two pieces of text have come.
        assert_eq!(said.unwrap().tokens.completion, 3);
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

/// The limit falls into the text.
#[tokio::test]
async fn half_a_text_behind_thoughts_is_asked_for_whole() {
    let details = json!({"reasoning_tokens": 5});
    let usage = json!({"completion_tokens": 8, "completion_tokens_details": details});
    let counted = event(&json!({"choices": [], "usage": usage}));
    for thoughts in [told("hm"), counted] {
        for (whole, text) in [(ANSWER, ANSWER), ("<answer>An", "<answer>An")] {
            let thoughts = thoughts.clone();
            let (server, model) = answering(move |body| {
                let half = body["max_tokens"].as_u64().unwrap() < 1_000;
                let text = if half { "<answer>An" } else { whole };
                stream(thoughts.clone() + &delta(text) + &ending("length"))
            })
            .await;
            let said = model.generate(&Call::authoritative(), generation()).await;
            // Half a text is better than none.
            assert_eq!(said.unwrap().text, text);
            assert_eq!(server.received_requests().await.unwrap().len(), 2);
        }
    }
}

/// Ahead of need only if nobody can have the whole: a needed call is tried more often.
#[tokio::test]
async fn half_a_text_is_better_than_none_if_the_whole_cannot_be_had() {
    let ahead = || Call::new(Lane::Speculative, Chance::EVEN);
    let too_long = || refusal("This model's maximum context length is 1000 tokens");
    let busy = || ResponseTemplate::new(429);
    let late = stream(delta("late")).set_delay(Duration::from_secs(60));
    for (fault, call, has_half) in [
        (too_long(), Call::authoritative(), true),
        (too_long(), ahead(), true),
        (busy(), Call::authoritative(), true),
        (busy(), ahead(), false),
        (late, Call::authoritative(), true),
    ] {
        let (server, _) = answering(move |body| match body["max_tokens"].as_u64().unwrap() {
            ..1_000 => stream(told("hm") + &delta("<answer>An") + &ending("length")),
            _ => fault.clone(),
        })
        .await;
        let mut endpoint = endpoint(&format!("{}/v1", server.uri()));
        endpoint.limits.total = Duration::from_secs(2);
        let model = OpenAiModel::new(&endpoint).unwrap();
        let said = model.generate(&call, generation()).await;
        let said = said.map(|said| said.text).ok();
        assert_eq!(said.as_deref(), has_half.then_some("<answer>An"));
    }
}

/// As OpenAI's models that think do. That leads to the same as any text that is of no use.
#[tokio::test]
async fn a_planner_whose_model_thinks_out_of_sight_for_too_long_answers_from_what_is_known() {
    let (_server, model) = answering(|body| match body.get("max_tokens") {
        Some(_) => refusal(NO_MAX_TOKENS),
        None => stream(ending("length")),
    })
    .await;
    let planner = LlmPlanner::new(Arc::new(model), PromptStyle::Tagged);
    let request = PlanRequest {
        question: Question::new("Who is the mother of the director of film Blue Kite?").unwrap(),
        hops: vec![KnownHop {
            sub_question: SubQuestion::new("Who directed the film Blue Kite?"),
            answer: "Anna".into(),
        }],
        must_answer: false,
        drafts: Vec::new(),
    };
    let planned = planner.plan(&Call::authoritative(), request).await;
    assert_eq!(planned.unwrap().step, Step::Answer("Anna".into()));
}

/// In vLLM's words: the prompt of a few tokens is not to blame for a limit that has room for thoughts.
#[tokio::test]
async fn a_limit_that_does_not_fit_is_no_prompt_that_is_too_long() {
    const TOO_LARGE: &str = "'max_tokens' or 'max_completion_tokens' is too large: 2056. This \
                             model's maximum context length is 2048 tokens and your request has \
                             16 input tokens (2056 > 2048 - 16).";
    let (server, _) = server(|body| {
        let limit = body["max_tokens"].as_u64();
        limit.filter(|limit| *limit > 1_000).map(|_| TOO_LARGE)
    })
    .await;
    let mut endpoint = endpoint(&format!("{}/v1", server.uri()));
    endpoint.opens_thoughts = true;
    let model = OpenAiModel::new(&endpoint).unwrap();
    let said = model.generate(&Call::authoritative(), generation()).await;
    assert!(matches!(said, Err(PortError::Refused { .. })), "{said:?}");
}

/// In vLLM's words, too: beside that limit a shorter prompt would fit.
#[tokio::test]
async fn a_prompt_that_leaves_no_room_for_its_answer_is_too_long() {
    const TOO_LARGE: &str = "'max_tokens' or 'max_completion_tokens' is too large: 8. This \
                             model's maximum context length is 2048 tokens and your request has \
                             2044 input tokens (8 > 2048 - 2044).";
    let (_server, model) = server(|_| Some(TOO_LARGE)).await;
    let said = model.generate(&Call::authoritative(), generation()).await;
    assert!(matches!(said, Err(PortError::TooLong { .. })), "{said:?}");
}

/// A server whose streams these are, in turn.
async fn streaming(streams: Vec<String>) -> (MockServer, OpenAiModel) {
    let next = AtomicUsize::new(0);
    answering(move |_| stream(streams[next.fetch_add(1, Relaxed)].clone() + &ending("stop"))).await
}

#[tokio::test]
async fn thoughts_that_the_template_opens_are_no_text() {
    let short = delta("Hm.") + &delta("</think>\n\n") + &delta(ANSWER);
    let long = delta("Is it <answer>Per</answer>?\n") + &delta("No.</think>") + &delta(ANSWER);
    // It may also answer at once.
    let none = delta(ANSWER) + &delta(" and on");
    let (_short, learns) = streaming(vec![short, long.clone(), none.clone()]).await;
    let (server, _) = streaming(vec![long, none]).await;
    let mut told = endpoint(&format!("{}/v1", server.uri()));
    told.opens_thoughts = true;
    let told = OpenAiModel::new(&told).unwrap();
    for (model, times) in [(learns, 3), (told, 2)] {
        for _ in 0..times {
            let said = model.generate(&Call::authoritative(), generation()).await;
            assert_eq!(said.unwrap().text, ANSWER);
        }
    }
}

/// A text may speak of the mark. The next one, which ends without it, shows that no template opens thoughts.
#[tokio::test]
async fn a_text_that_speaks_of_the_end_of_thoughts_costs_the_later_ones_nothing() {
    let speaks = delta("<answer></think></answer>");
    let short = delta(ANSWER);
    let long = delta(ANSWER) + &delta("\nand so on") + &ending("length");
    // That next one is whole if it ends by itself. If not, it is lost, with room for thoughts as without.
    for (next, is_whole) in [(vec![short], true), (vec![long.clone(); 2], false)] {
        let requests = 1 + next.len() + 1;
        let (server, model) =
            streaming([vec![speaks.clone()], next, vec![long.clone()]].concat()).await;
        let call = Call::authoritative();
        model.generate(&call, generation()).await.unwrap();
        let said = model.generate(&call, generation()).await;
        assert_eq!(said.is_ok_and(|said| said.text == ANSWER), is_whole);
        let said = model.generate(&call, generation()).await;
        assert_eq!(said.unwrap().text, ANSWER);
        let sent = server.received_requests().await.unwrap();
        assert_eq!(sent.len(), requests);
        // No room for thoughts is left of it.
        let last: Value = sent.last().unwrap().body_json().unwrap();
        assert_eq!(last["max_tokens"], 8);
    }
}

/// A template that is said to open thoughts may open none for this text. What else was learnt of its endpoint stays.
#[tokio::test]
async fn what_an_endpoint_refuses_is_remembered_though_no_thoughts_have_come() {
    let (server, _) = answering(|body| match body.get("temperature") {
        Some(_) => refusal(NO_TEMPERATURE),
        None => stream(delta("Anna") + &ending("stop")),
    })
    .await;
    let mut told = endpoint(&format!("{}/v1", server.uri()));
    told.opens_thoughts = true;
    let told = OpenAiModel::new(&told).unwrap();
    for _ in 0..2 {
        let said = told.generate(&Call::authoritative(), generation()).await;
        assert_eq!(said.unwrap().text, "Anna");
    }
    let fields = [
        vec!["max_tokens", "temperature"],
        vec!["max_tokens"],
        vec!["max_tokens"],
    ];
    assert_eq!(sent(&server).await, fields);
}
