//! Nothing scripted: E5, an index of real passages with its hot subset, and a language model in this
//! process answer a real question over gRPC. The model is tiny: that its answer is cited and its
//! trajectory the same at every k is what is asserted, not that it is right.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_index::{Build, Hot};
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_proto::{AskRequest, AskResponse, VerifierMode};
use spechop_server::config::{Config, Written};
use spechop_server::{App, Env};
use spechop_testkit::assets;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

fn dataset(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../eval/datasets/2wikimultihopqa")
        .join(file)
}

/// The first question of the demo, and the titles of the passages that the data set gives with it.
fn question() -> (String, BTreeSet<String>) {
    let file = BufReader::new(File::open(dataset("demo_questions.jsonl")).unwrap());
    let line = file.lines().next().unwrap().unwrap();
    let record: serde_json::Value = serde_json::from_str(&line).unwrap();
    let context = record["context"].as_array().unwrap();
    let titles = context
        .iter()
        .map(|page| page[0].as_str().unwrap().to_owned());
    (
        record["question"].as_str().unwrap().to_owned(),
        titles.collect(),
    )
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
fn trajectory(answer: &AskResponse) -> Vec<(&str, &str)> {
    let hops = answer
        .hops
        .iter()
        .map(|hop| (&*hop.sub_question, &*hop.sub_answer));
    hops.chain([("", &*answer.answer)]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_question_gets_a_cited_answer() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = dir.path().join("corpus.jsonl");
    let index = dir.path().join("index");
    let (question, titles) = question();
    let ids = small_corpus(&corpus, &titles);
    assert!(
        ids.len() > 35,
        "the question's own pages are in the corpus: {}",
        ids.len()
    );

    let chosen = std::fs::read_to_string(assets::data_dir().join("models/default-encoder"));
    let encoder_dir = assets::model_dir(chosen.as_deref().unwrap_or("e5-small-v2").trim());
    let encoder =
        OnnxEncoder::open(&encoder_dir, &EncoderOptions::new(assets::onnxruntime())).unwrap();
    let hot = Hot {
        fraction: 0.25,
        in_degree: dataset("in_degree.jsonl.gz"),
    };
    let build = Build {
        hot: Some(hot),
        ..Build::new(&corpus, &index)
    };
    build.run(&encoder, &mut |_| {}).await.unwrap();
    drop(encoder);

    let toml = format!(
        "[encoder]\ndir = {encoder_dir:?}\n\
         [runtime]\nonnxruntime = {:?}\n\
         [index]\ndir = {index:?}\n\
         [generator]\nfile = {:?}\nthreads = 1\n\
         [question]\nhop_budget = 1\npassages = 2\nverifier = \"exact\"\n",
        assets::onnxruntime(),
        assets::model_dir("smollm2-135m-instruct").join("model.gguf"),
    );
    let written = Written {
        file: Some(("test.toml".into(), toml)),
        flags: Vec::new(),
    };
    let app = App::build(Config::read(written, &Env::default()).unwrap())
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
    let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
    let mut client = SpecHopClient::new(channel);

    let mut answers = Vec::new();
    for (k, speculator) in [(1, "none"), (3, "hot"), (3, "llm")] {
        let request = AskRequest {
            question: question.clone(),
            k: Some(k),
            speculator: Some(speculator.to_owned()),
            ..AskRequest::default()
        };
        let answer = client.ask(request).await.unwrap().into_inner();
        assert!(!answer.answer.trim().is_empty());
        assert!(
            !answer.hops.is_empty(),
            "an answer without a look-up: {answer:?}"
        );
        for hop in &answer.hops {
            assert!(!hop.sub_question.is_empty() && !hop.sub_answer.is_empty());
            let evidence = &hop.observation.as_ref().unwrap().evidence;
            assert_eq!(evidence.len(), 2);
            assert!(
                evidence
                    .iter()
                    .all(|passage| ids.contains(&passage.passage_id)),
                "{evidence:?}"
            );
            assert!(hop.times.as_ref().unwrap().target_ms > 0.0);
        }
        let applied = answer.applied.as_ref().unwrap();
        assert_eq!(
            (&*applied.speculator, applied.verifier()),
            (speculator, VerifierMode::Exact)
        );
        let guesses = answer.usage.as_ref().unwrap().speculations.unwrap().started;
        assert_eq!(guesses > 0, k > 1, "{answer:?}");
        answers.push(answer);
    }
    // Exact verification: speculation buys time, never another answer.
    assert_eq!(trajectory(&answers[1]), trajectory(&answers[0]));
    assert_eq!(trajectory(&answers[2]), trajectory(&answers[0]));
    assert_eq!(gauges.questions_open(), 0);
    drop(client);
    stop.send(()).unwrap();
    serving.join_next().await.unwrap().unwrap().unwrap();
}
