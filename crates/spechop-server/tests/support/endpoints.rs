//! Everything behind HTTP: a language model that a function plays, an encoder for which texts are
//! as near as they share words, and a small web. So a server is opened as its configuration says,
//! and no model is needed.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use spechop_config::{Config, Env, Written};
use spechop_server::App;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

/// What a model is asked: the role and the text of each message, and how much it may say.
#[derive(Clone, Debug, PartialEq)]
pub struct Chat {
    pub messages: Vec<(String, String)>,
    pub tokens_max: u64,
}

impl Chat {
    fn of(request: &Request) -> Self {
        let body: Value = request.body_json().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let messages = body["messages"].as_array().unwrap().iter();
        Self {
            messages: messages
                .map(|one| (text(&one["role"]), text(&one["content"])))
                .collect(),
            tokens_max: body["max_tokens"].as_u64().unwrap(),
        }
    }

    /// The last message, which says what it is about.
    pub fn prompt(&self) -> &str {
        &self.messages.last().unwrap().1
    }

    /// Whether passages are to be read: the prompt of [`spechop_llm::PromptStyle::Tagged`].
    pub fn reads(&self) -> bool {
        self.messages[0]
            .1
            .starts_with("Answer the question from the passages alone")
    }

    /// The facts that a planner is told. For the first step it is told none.
    pub fn facts(&self) -> Vec<&str> {
        let lines = self.prompt().lines();
        lines.filter_map(|line| line.strip_prefix("- ")).collect()
    }

    /// What is asked of a reader.
    pub fn asked(&self) -> &str {
        let mut lines = self.prompt().lines();
        lines
            .find_map(|line| line.strip_prefix("Question: "))
            .unwrap()
    }
}

/// An answer of a model.
pub fn says(text: &str) -> ResponseTemplate {
    let choice = json!({ "message": { "content": text }, "finish_reason": "stop" });
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [choice],
        "usage": { "prompt_tokens": 11, "completion_tokens": 3 },
    }))
}

/// A model behind an endpoint of OpenAI's form.
pub struct Model(MockServer);

impl Model {
    pub async fn that(answers: impl Fn(&Chat) -> ResponseTemplate + Send + Sync + 'static) -> Self {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .and(path("/v1/chat/completions"))
            .respond_with(move |request: &Request| answers(&Chat::of(request)))
            .mount(&server)
            .await;
        Self(server)
    }

    /// The keys of a section that names it.
    pub fn toml(&self) -> String {
        format!(
            "kind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"scripted\"\n",
            self.0.uri()
        )
    }

    /// The requests so far, whole.
    pub async fn bodies(&self) -> Vec<Value> {
        let requests = self.0.received_requests().await.unwrap();
        requests
            .iter()
            .map(|one| one.body_json().unwrap())
            .collect()
    }

    /// What it was asked so far.
    pub async fn asked(&self) -> Vec<Chat> {
        let requests = self.0.received_requests().await.unwrap();
        requests.iter().map(Chat::of).collect()
    }
}

/// An encoder in the form of text-embeddings-inference.
pub struct Words(MockServer);

impl Words {
    pub const MODEL: &str = "words";
    pub const WIDTH: usize = 64;

    pub async fn start() -> Self {
        let server = MockServer::start().await;
        let answer = |request: &Request| {
            let vectors: Vec<_> = texts(request).iter().map(|text| vector(text)).collect();
            ResponseTemplate::new(200).set_body_json(vectors)
        };
        Mock::given(method("POST"))
            .respond_with(answer)
            .mount(&server)
            .await;
        Self(server)
    }

    pub fn url(&self) -> String {
        format!("{}/embed", self.0.uri())
    }

    /// Its section. No vector is kept, so that all encodings are seen.
    pub fn toml(&self) -> String {
        format!(
            "[encoder]\nkind = \"tei\"\nqueries_kept = 0\n\
             url = \"{}\"\nmodel = \"{}\"\nwidth = {}\n",
            self.url(),
            Self::MODEL,
            Self::WIDTH
        )
    }

    /// The queries so far, in any order.
    pub async fn queries(&self) -> Vec<String> {
        let requests = self.0.received_requests().await.unwrap();
        let texts = requests.iter().flat_map(texts);
        let queries = texts.filter_map(|text| text.strip_prefix("query: ").map(str::to_owned));
        queries.collect()
    }
}

fn texts(request: &Request) -> Vec<String> {
    let body: Value = request.body_json().unwrap();
    let texts = body["inputs"].as_array().unwrap().iter();
    texts
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

fn vector(text: &str) -> Vec<f32> {
    // Never without a direction.
    let mut vector = vec![0.01; Words::WIDTH];
    for word in spechop_types::canonical(text).split(' ') {
        let hash = word.bytes().fold(7_usize, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        vector[hash % Words::WIDTH] += 1.0;
    }
    vector
}

/// A search engine of SearXNG's form that finds every page, and those pages: name and HTML.
pub struct Site(MockServer);

impl Site {
    pub async fn of(pages: &BTreeMap<&str, String>) -> Self {
        let server = MockServer::start().await;
        let found: Vec<_> = pages
            .keys()
            .map(|name| {
                let url = format!("{}/{name}", server.uri());
                json!({ "url": url, "title": name, "content": name })
            })
            .collect();
        let found = json!({ "results": found, "unresponsive_engines": [] });
        Mock::given(path("/search"))
            .respond_with(ResponseTemplate::new(200).set_body_json(found))
            .mount(&server)
            .await;
        for (name, html) in pages {
            let page = ResponseTemplate::new(200)
                .set_body_raw(html.as_bytes(), "text/html; charset=utf-8");
            Mock::given(path(format!("/{name}")))
                .respond_with(page)
                .mount(&server)
                .await;
        }
        Self(server)
    }

    pub fn address(&self) -> String {
        self.0.address().to_string()
    }

    /// The web as the target: this site, and others that may be fetched from. Nothing is kept, and
    /// a busy machine has time.
    pub fn toml(&self, others: &[&MockServer]) -> String {
        let others = others.iter().map(|other| other.address().to_string());
        let allow: Vec<_> = others.chain([self.address()]).collect();
        format!(
            "[target]\nkind = \"web\"\n\
             [web]\nproviders = [\"searxng\"]\nrobots = false\nkeep_s = 0\npage_ms_max = 60000\n\
             allow = {allow:?}\n\
             [web.searxng]\nurl = \"{}\"\nms_max = 60000\n",
            self.0.uri()
        )
    }

    /// The requests so far, with the queries of searches; sorted, for pages are fetched together.
    pub async fn requests(&self) -> Vec<String> {
        let requests = self.0.received_requests().await.unwrap();
        let told = |one: &Request| {
            let query = one.url.query_pairs().find(|(name, _)| name == "q");
            let query = query.map(|(_, query)| format!("?{query}"));
            format!(
                "{} {}{}",
                one.method,
                one.url.path(),
                query.unwrap_or_default()
            )
        };
        let mut told: Vec<_> = requests.iter().map(told).collect();
        told.sort_unstable();
        told
    }
}

/// A server that is opened as these lines say, with its data in this folder.
pub async fn open(data: &Path, toml: &str) -> App {
    let env: Env = [("SPECHOP_DATA_DIR", data.to_str().unwrap())]
        .into_iter()
        .collect();
    let written = Written {
        file: Some(("test.toml".into(), toml.to_owned())),
        // Nothing is learnt for a later server.
        flags: vec![["tuning.state", "--set", "none"].map(str::to_owned).into()],
    };
    App::build(Config::read(written, &env).unwrap())
        .await
        .unwrap()
}
