//! Nothing scripted: E5, an index of real passages with its hot subset, and models in this process
//! answer real questions over gRPC.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use spechop_config::{Config, Env, Written};
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_index::{Build, Hot};
use spechop_proto::admin_client::AdminClient;
use spechop_proto::options::Width;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{
    Activity, ActivityTime, AskRequest, AskResponse, Backend, GetBackendsRequest, Passage, Stage,
    StopReason, VerifierMode,
};
use spechop_server::{App, Gauges, ServeError};
use spechop_testkit::assets;
use spechop_testkit::llama_server::{KEY, LlamaServer};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

fn dataset(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../eval/datasets/2wikimultihopqa")
        .join(file)
}

/// The first questions of the data set and their answers, and the titles of the passages that it gives
/// with them.
pub(super) fn first_questions(most: usize) -> (Vec<(String, String)>, BTreeSet<String>) {
    let file = File::open(dataset("questions.jsonl.gz")).unwrap();
    read(GzDecoder::new(file), most)
}

fn read(file: impl Read, most: usize) -> (Vec<(String, String)>, BTreeSet<String>) {
    let mut questions = Vec::new();
    let mut titles = BTreeSet::new();
    for line in BufReader::new(file).lines().take(most) {
        let record: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let context = record["context"].as_array().unwrap();
        titles.extend(context.iter().map(|page| text(&page[0])));
        questions.push((text(&record["question"]), text(&record["answer"])));
    }
    (questions, titles)
}

/// Lines of the shipped corpus: those titles, and a few others. Returns the ids, too.
fn small_corpus(path: &Path, titles: &BTreeSet<String>) -> BTreeSet<String> {
    let corpus = GzDecoder::new(File::open(dataset("corpus.jsonl.gz")).unwrap());
    let mut out = File::create(path).unwrap();
    let mut ids = BTreeSet::new();
    for (number, line) in BufReader::new(corpus).lines().enumerate() {
        let line = line.unwrap();
        let record: serde_json::Value = serde_json::from_str(&line).unwrap();
        if number < 30 || titles.contains(record["title"].as_str().unwrap()) {
            writeln!(out, "{line}").unwrap();
            ids.insert(record["id"].as_str().unwrap().to_owned());
        }
    }
    ids
}

/// What the same question gives at every k: no times, no calls.
pub(super) fn trajectory(answer: &AskResponse) -> Vec<(&str, &str)> {
    let hops = answer
        .hops
        .iter()
        .map(|hop| (&*hop.sub_question, &*hop.sub_answer));
    hops.chain([("", &*answer.answer)]).collect()
}

/// Without speculation one thing happens after the other, so what is told of the time adds up to the
/// whole at most.
fn accounted(answer: &AskResponse) {
    let usage = answer.usage.as_ref().unwrap();
    let (segments, targets) = (usage.segments.unwrap(), usage.targets.unwrap());
    for (stage, calls, wanted) in [
        (
            Stage::Segment,
            segments,
            &[Activity::Prefill, Activity::Decode][..],
        ),
        (
            Stage::Target,
            targets,
            &[Activity::Encode, Activity::Scan, Activity::Read],
        ),
    ] {
        let of_stage = |time: &&ActivityTime| time.stage() == stage;
        let told: Vec<_> = answer.activities.iter().filter(of_stage).collect();
        for activity in wanted {
            let time = told.iter().find(|time| time.activity() == *activity);
            assert!(time.unwrap().time_ms > 0.0, "{answer:?}");
        }
        assert!(told.iter().all(|time| time.wasted_time_ms == 0.0));
        let sum: f64 = told.iter().map(|time| time.time_ms).sum();
        // What is added up in another order may differ in its last digits.
        assert!(sum <= calls.time_ms + 1e-6, "{answer:?}");
    }
    assert!(segments.time_ms + targets.time_ms <= answer.elapsed_ms + 1e-6);
}

/// An index of those passages in `dir`, with its hot subset; and the configuration of everything
/// but the models that plan and read.
pub(super) async fn prepare(dir: &Path, titles: &BTreeSet<String>) -> (String, BTreeSet<String>) {
    let (corpus, index) = (dir.join("corpus.jsonl"), dir.join("index"));
    let ids = small_corpus(&corpus, titles);
    let encoder_dir = assets::default_encoder();
    let encoder =
        OnnxEncoder::open(&encoder_dir, &EncoderOptions::new(assets::onnxruntime())).unwrap();
    let hot = Hot {
        fraction: 0.25,
        in_degree: Some(dataset("in_degree.jsonl.gz")),
    };
    let build = Build {
        hot: Some(hot),
        ..Build::new(&corpus, &index)
    };
    build.run(&encoder, &mut |_| {}).await.unwrap();
    let toml = format!(
        "[encoder]\ndir = {encoder_dir:?}\n\
         [runtime]\nonnxruntime = {:?}\n\
         [index]\ndir = {index:?}\n\
         [question]\nverifier = \"exact\"\n",
        assets::onnxruntime(),
    );
    (toml, ids)
}

/// A folder in which that is done for the questions of the demo, and these with their answers.
pub(super) async fn prepared() -> (TempDir, Vec<(String, String)>, String, BTreeSet<String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = File::open(dataset("demo_questions.jsonl")).unwrap();
    let (questions, titles) = read(file, usize::MAX);
    let (toml, ids) = prepare(dir.path(), &titles).await;
    (dir, questions, toml, ids)
}

/// A server of that configuration, and a client of it.
pub(super) struct Running {
    pub(super) url: String,
    pub(super) client: SpecHopClient<Channel>,
    gauges: Gauges,
    stop: oneshot::Sender<()>,
    serving: JoinSet<Result<(), ServeError>>,
}

impl Running {
    pub(super) async fn start(toml: String) -> Self {
        Self::in_data_dir(&assets::data_dir(), toml).await
    }

    /// With its models, and whatever else its configuration does not name, in this folder.
    pub(super) async fn in_data_dir(data_dir: &Path, toml: String) -> Self {
        let written = Written {
            file: Some(("test.toml".into(), toml)),
            flags: vec![["tuning.state", "--set", "none"].map(str::to_owned).into()],
        };
        let env = [
            ("SPECHOP_DATA_DIR", data_dir.to_str().unwrap()),
            ("LLAMA_KEY", KEY),
        ];
        let env: Env = env.into_iter().collect();
        let app = App::build(Config::read(written, &env).unwrap())
            .await
            .unwrap();
        let gauges = app.gauges();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = JoinSet::new();
        serving.spawn(app.serve(listener, async {
            let _ = stopped.await;
        }));
        let channel = Endpoint::from_shared(url.clone())
            .unwrap()
            .connect()
            .await
            .unwrap();
        Self {
            url,
            client: SpecHopClient::new(channel),
            gauges,
            stop,
            serving,
        }
    }

    /// What its scheduler holds, by the names of the backends.
    pub(super) async fn backends(&self) -> BTreeMap<String, Backend> {
        let channel = Endpoint::from_shared(self.url.clone()).unwrap();
        let mut admin = AdminClient::new(channel.connect().await.unwrap());
        let backends = admin.get_backends(GetBackendsRequest {}).await.unwrap();
        let backends = backends.into_inner().backends.into_iter();
        backends.map(|one| (one.name.clone(), one)).collect()
    }

    /// With so many passages a hop.
    pub(super) async fn answer(
        &self,
        question: &str,
        k: u32,
        speculator: &str,
        passages: u32,
    ) -> AskResponse {
        let request = AskRequest {
            question: question.to_owned(),
            ..AskRequest::default()
        }
        .with(|asked| {
            asked.width = Some(Width::K(k));
            asked.speculator = Some(speculator.to_owned());
            asked.top_passages = Some(passages);
        });
        let answer = self.client.clone().ask(request).await;
        answer.unwrap().into_inner()
    }

    /// Cited, with so many passages a hop, all of them of the corpus.
    pub(super) async fn ask(
        &self,
        question: &str,
        k: u32,
        speculator: &str,
        passages: u32,
        ids: &BTreeSet<String>,
    ) -> AskResponse {
        let answer = self.answer(question, k, speculator, passages).await;
        assert!(!answer.answer.trim().is_empty());
        assert!(
            !answer.hops.is_empty(),
            "an answer without a look-up: {answer:?}"
        );
        for hop in &answer.hops {
            assert!(!hop.sub_question.is_empty() && !hop.sub_answer.is_empty());
            let evidence = &hop.observation.as_ref().unwrap().evidence;
            assert_eq!(evidence.len(), passages as usize);
            let known = |passage: &Passage| ids.contains(&passage.passage_id);
            assert!(evidence.iter().all(known), "{evidence:?}");
            assert!(hop.times.as_ref().unwrap().target_ms > 0.0);
        }
        let applied = answer.applied.as_ref().unwrap();
        let options = applied.options.as_ref().unwrap();
        assert_eq!(
            (options.speculator.as_deref(), options.verifier()),
            (Some(speculator), VerifierMode::Exact)
        );
        let guesses = answer.usage.as_ref().unwrap().speculations.unwrap().started;
        // Guesses are for idle cores; on a busy machine there may be none, and the answer says so.
        let speculates = guesses > 0 || !answer.refused.is_empty();
        assert_eq!(speculates, k > 1, "{answer:?}");
        answer
    }

    pub(super) async fn stop(mut self) {
        assert_eq!(self.gauges.questions_open(), 0);
        drop(self.client);
        self.stop.send(()).unwrap();
        self.serving.join_next().await.unwrap().unwrap().unwrap();
    }
}

/// A model in conversations that plans, reads and guesses. It is tiny: that its answer is cited and its
/// trajectory the same at every k is what is asserted, not that it is right.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_question_gets_a_cited_answer() {
    let (_dir, questions, toml, ids) = prepared().await;
    assert!(ids.len() > 35, "the questions' own pages: {}", ids.len());
    let model = assets::model_dir("smollm2-135m-instruct").join("model.gguf");
    let toml = format!("{toml}hop_budget = 1\n[generator]\nfile = {model:?}\nthreads = 1\n");
    let server = Running::start(toml).await;
    let question = &questions[0].0;
    let mut answers = Vec::new();
    for (k, speculator) in [(1, "none"), (3, "hot"), (3, "llm")] {
        answers.push(server.ask(question, k, speculator, 2, &ids).await);
    }
    // Exact verification: speculation buys time, never another answer.
    assert_eq!(trajectory(&answers[1]), trajectory(&answers[0]));
    assert_eq!(trajectory(&answers[2]), trajectory(&answers[0]));
    server.stop().await;
}

/// What a newcomer gets: our own planner and reader. They are deterministic, and good enough for most
/// of the demo's questions.
#[tokio::test(flavor = "multi_thread")]
async fn our_own_models_answer_the_demo() {
    let (_dir, questions, toml, ids) = prepared().await;
    let server = Running::start(toml).await;
    let mut right = 0;
    for (question, gold) in &questions {
        let slow = server.ask(question, 1, "none", 5, &ids).await;
        let fast = server.ask(question, 4, "hot", 5, &ids).await;
        assert_eq!(trajectory(&fast), trajectory(&slow));
        accounted(&slow);
        assert!(slow.hops.len() >= 2, "no multi-hop answer: {slow:?}");
        right += usize::from(slow.answer == *gold);
        // What is left of the question when it has to end is no answer to it, however sure the planner is of it.
        let short = AskRequest {
            question: question.clone(),
            ..AskRequest::default()
        }
        .with(|asked| asked.hop_budget = Some(1));
        let short = server.client.clone().ask(short).await.unwrap().into_inner();
        assert_eq!(short.stop_reason(), StopReason::HopBudget);
        assert!(chance(&short) < 0.5 * chance(&slow), "{short:?}");
    }
    assert!(right >= 2, "{right} of {} right", questions.len());
    server.stop().await;
}

/// How likely it says that it is to be right.
fn chance(answer: &AskResponse) -> f64 {
    answer.confidence.as_ref().unwrap().chance.unwrap()
}

/// The keys of a model at such a server. Its prompts are short, for one thread reads them.
fn model_at(server: &LlamaServer, requests_max: u32) -> String {
    format!(
        "kind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"smollm2\"\nstyle = \"corag\"\n\
         api_key_env = \"LLAMA_KEY\"\nrequests_max = {requests_max}\n",
        server.url()
    )
}

/// llama.cpp's own server plans, another one drafts what the first is about to ask: its likeliest draft, and
/// one that is drawn. Neither changes the answer.
#[tokio::test(flavor = "multi_thread")]
async fn drafts_of_a_model_behind_http_change_no_answer() {
    let (_dir, questions, toml, ids) = prepared().await;
    // The planner has a server of its own: in company its sums, and so its words, could come out otherwise.
    let (plans, drafts) = (LlamaServer::texts(1), LlamaServer::texts(2));
    let with = |drafter: &str| {
        format!(
            "{toml}hop_budget = 2\ndrafts = 2\n\
             [reader]\nkind = \"spans\"\n\
             [generator]\n{}predicted_output = true\n\
             [drafter]\nkind = {drafter:?}\nsamples = 2\n\
             [drafter.model]\n{}",
            model_at(&plans, 1),
            model_at(&drafts, 2),
        )
    };
    let plain = Running::start(with("none")).await;
    let drafting = Running::start(with("llm")).await;
    let question = &questions[0].0;
    let expected = plain.ask(question, 1, "none", 2, &ids).await;
    assert_eq!(expected.usage.unwrap().drafts.unwrap().started, 0);
    let answer = drafting.ask(question, 2, "index", 2, &ids).await;
    assert_eq!(trajectory(&answer), trajectory(&expected));
    let usage = answer.usage.unwrap();
    let drafts = usage.drafts.unwrap();
    assert!(drafts.started > 0, "nothing was drafted");
    plain.stop().await;
    drafting.stop().await;
}

/// A model behind HTTP guesses from memory: with room for three guesses of a hop, it writes three samples.
#[tokio::test(flavor = "multi_thread")]
async fn samples_of_a_model_behind_http_change_no_answer() {
    let (_dir, questions, toml, ids) = prepared().await;
    let guesser = LlamaServer::texts(3);
    // A look-up is long enough for three samples on a busy machine, too.
    let with = |guesses: u32| {
        format!(
            "{toml}guesses = {guesses}\n\
             [target.injected_latency]\nmean_ms = 8000.0\nseed = 1\n\
             [speculator]\nkind = \"llm\"\n\
             [speculator.model]\n{}",
            model_at(&guesser, 3),
        )
    };
    let mut tokens = Vec::new();
    let mut told = Vec::new();
    for guesses in [1, 3] {
        let server = Running::start(with(guesses)).await;
        let answer = server.ask(&questions[0].0, 2, "llm", 5, &ids).await;
        let speculations = answer.usage.unwrap().speculations.unwrap();
        assert!(speculations.started > 0, "nothing was guessed");
        tokens.push(speculations.prompt_tokens / u64::from(speculations.started));
        told.push(format!("{:?}", trajectory(&answer)));
        server.stop().await;
    }
    assert_eq!(told[0], told[1]);
    // The prompt of each sample counts.
    assert!(tokens[1] > 2 * tokens[0], "{tokens:?}");
}
