//! The OpenAI-compatible client, and what is built on it, against llama.cpp's own server with a
//! real model: SmolLM2-135M, one thread, a port of the server's choice.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use spechop_llm::{
    Chat, ChatEndpoint, End, Generation, LlmDraftWriter, LlmPlanner, LlmReader, LlmSpeculator,
    Message, OpenAiModel, Prompt, PromptStyle, ReadLimits, Role, TextModel,
};
use spechop_ports::{
    Call, DraftWriter, GuessRequest, PlanRequest, Planner, PortError, ReadRequest, Reader,
    Speculator, contract,
};
use spechop_testkit::llama_server::{KEY, LlamaServer};
use spechop_testkit::passage;
use spechop_types::{Chance, Draft, Question, Step, SubQuestion};

struct Server(LlamaServer);

impl Server {
    fn start(parallel: usize) -> Self {
        Self(LlamaServer::texts(parallel))
    }

    fn endpoint(&self) -> ChatEndpoint {
        let mut endpoint = ChatEndpoint::new(format!("{}/v1", self.0.url()), "smollm2");
        endpoint.key = Some(KEY.into());
        endpoint
    }

    fn model(&self) -> Arc<OpenAiModel> {
        Arc::new(OpenAiModel::new(&self.endpoint()).unwrap())
    }

    /// Number of generations under way.
    async fn busy(&self) -> usize {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let slots = http
            .get(format!("{}/slots", self.0.url()))
            .bearer_auth(KEY)
            .send()
            .await
            .unwrap()
            .json::<Value>()
            .await
            .unwrap();
        slots
            .as_array()
            .unwrap()
            .iter()
            .filter(|slot| slot["is_processing"].as_bool().unwrap())
            .count()
    }

    async fn until_busy(&self, slots: usize) {
        for _ in 0..2_000 {
            if self.busy().await == slots {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never {slots} generations under way");
    }
}

fn generation(turns: &[(Role, &str)], tokens_max: u32) -> Generation {
    let message = |(role, text): &(Role, &str)| Message {
        role: *role,
        text: (*text).into(),
    };
    Generation {
        prompt: Prompt::Chat(Chat {
            messages: turns.iter().map(message).collect(),
            fixed: 0,
        }),
        tokens_max,
        stop: &["</answer>"],
        drafts: Vec::new(),
        sample: 0,
    }
}

/// Worked examples that even the smallest model follows.
fn capital(of: &str) -> Generation {
    let asked = format!("Capital of {of}?");
    let turns = [
        (Role::User, "Capital of Spain?"),
        (Role::Assistant, "<answer>Madrid</answer>"),
        (Role::User, "Capital of Italy?"),
        (Role::Assistant, "<answer>Rome</answer>"),
        (Role::User, "Capital of Japan?"),
        (Role::Assistant, "<answer>Tokyo</answer>"),
        (Role::User, asked.as_str()),
    ];
    generation(&turns, 64)
}

#[tokio::test]
async fn answers_stops_at_a_tag_and_serves_four_at_once() {
    let server = Server::start(4);
    let model = server.model();
    let call = Call::authoritative();

    let hello = generation(&[(Role::User, "Say hello.")], 12);
    let said = model.generate(&call, hello.clone()).await.unwrap();
    assert!(!said.text.trim().is_empty());
    assert!(matches!(said.end, End::Turn | End::Length), "{said:?}");
    assert!(said.tokens.prompt > 5 && (1..=12).contains(&said.tokens.completion));
    let again = model.generate(&call, hello).await.unwrap();
    assert_eq!(said.text, again.text, "greedy");

    let said = model.generate(&call, capital("France")).await.unwrap();
    assert_eq!(said.end, End::Stop, "{said:?}");
    assert!(said.text.ends_with("</answer>"), "{said:?}");
    assert!(said.tokens.completion < 64);
    server.until_busy(0).await;

    let countries = ["Greece", "Norway", "Egypt", "Poland"];
    let said = join_all(countries.map(|of| model.generate(&call, capital(of)))).await;
    for said in said {
        assert_eq!(said.unwrap().end, End::Stop);
    }

    let mut endpoint = server.endpoint();
    endpoint.key = Some("sk-wrong".into());
    let error = OpenAiModel::new(&endpoint)
        .unwrap()
        .generate(&call, capital("France"))
        .await
        .unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
    assert!(!error.to_string().contains("sk-wrong"));
}

#[tokio::test]
async fn dropping_the_future_ends_the_generation_on_the_server() {
    let server = Server::start(1);
    let model = server.model();
    let call = Call::authoritative();
    let story = generation(&[(Role::User, "Tell me a very long story.")], 1_900);
    tokio::select! {
        said = model.generate(&call, story) => panic!("done already: {said:?}"),
        () = server.until_busy(1) => {}
    }
    server.until_busy(0).await;
    assert!(model.generate(&call, capital("France")).await.is_ok());
}

/// The likeliest draft of the same model has the words that it then writes as a planner. Those that are drawn
/// are drafts, too. An endpoint that knows no predicted output writes the same with it.
#[tokio::test]
async fn the_likeliest_draft_of_the_same_model_is_what_it_then_asks() {
    let server = Server::start(1);
    let model: Arc<dyn TextModel> = server.model();
    let call = Call::authoritative();
    let request = PlanRequest {
        question: Question::new("Where was the director of film Blue Kite born?").unwrap(),
        hops: Vec::new(),
        must_answer: false,
        drafts: Vec::new(),
    };
    let style = PromptStyle::Corag;
    let planner = LlmPlanner::new(model.clone(), style);
    let planned = planner.plan(&call, request.clone()).await.unwrap().step;
    let Step::Ask(asked) = &planned else {
        panic!("in this style nothing else is written: {planned:?}");
    };
    let writer = LlmDraftWriter::new(model, style);
    let written = writer.write_draft(&call, request.clone(), 0).await.unwrap();
    assert_eq!(written.draft.unwrap().sub_question, *asked);
    let drawn = writer.write_draft(&call, request.clone(), 1).await.unwrap();
    assert!(drawn.tokens.completion > 0);

    let mut endpoint = server.endpoint();
    endpoint.predicted_output = true;
    let predicting = LlmPlanner::new(Arc::new(OpenAiModel::new(&endpoint).unwrap()), style);
    for draft in [asked.clone(), SubQuestion::new("Who sang it?")] {
        let request = PlanRequest {
            drafts: vec![Draft {
                sub_question: draft,
                chance: Chance::EVEN,
            }],
            ..request.clone()
        };
        let again = predicting.plan(&call, request).await.unwrap().step;
        assert_eq!(again, planned);
    }
}

#[tokio::test]
async fn the_likeliest_guess_stays_and_samples_differ_from_it() {
    let server = Server::start(1);
    let model: Arc<dyn TextModel> = server.model();
    let call = Call::authoritative();
    let request = GuessRequest {
        question: Question::new("Where was the director of film Blue Kite born?").unwrap(),
        hops: Vec::new(),
        sub_question: SubQuestion::new("Who directed the film Blue Kite?"),
        passages: NonZeroUsize::MIN,
        limit: NonZeroUsize::MIN,
    };
    let guess = async |sample| {
        let speculator = LlmSpeculator::new(model.clone()).of_sample(sample);
        let guessed = speculator.guess(&call, request.clone()).await.unwrap();
        guessed.guesses.into_iter().next().map(|guess| guess.text)
    };
    // A prompt that the server finds in its cache is summed in another order than one that it reads, and of
    // two words that are as likely another one may win.
    guess(0).await;
    let likeliest = guess(0).await;
    assert_eq!(guess(0).await, likeliest);
    let mut others = 0;
    for sample in 1..=8 {
        others += usize::from(guess(sample).await != likeliest);
    }
    assert!(others > 0, "eight samples say {likeliest:?}");
}

#[tokio::test]
async fn keeps_the_contracts() {
    let server = Server::start(1);
    let model: Arc<dyn TextModel> = server.model();
    for style in [PromptStyle::Tagged, PromptStyle::Corag] {
        contract::planner(&LlmPlanner::new(model.clone(), style)).await;
        let reader = LlmReader::new(model.clone(), style, ReadLimits::default());
        contract::reader(&reader).await;
        let request = ReadRequest {
            sub_question: SubQuestion::new("Who directed the film Blue Kite?"),
            passages: [passage(
                "p1",
                "Blue Kite",
                "Blue Kite is a 1948 film directed by Amy Dunne.",
            )]
            .into(),
        };
        let reading = reader.read(&Call::authoritative(), request).await.unwrap();
        // What it finds is another matter, with so small a model.
        assert!(
            reading
                .answer
                .is_none_or(|answer| !answer.trim().is_empty())
        );
        assert!(reading.tokens.prompt > 0);
    }
    contract::speculator(&LlmSpeculator::new(model)).await;
}
