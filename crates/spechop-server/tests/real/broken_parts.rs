//! Models and indexes that are there and cannot be used: one clear line at the start, or a clear
//! status for what shows only later.

use std::fs;
use std::path::Path;

use spechop_config::{Config, Env, Written};
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_index::Build;
use spechop_proto::{AskRequest, AskResponse};
use spechop_server::App;
use spechop_testkit::{OwnPort, Script, ScriptedPorts, assets};
use spechop_types::with_causes;
use tonic::{Code, Status};

use crate::support::{Server, question};

const CORPUS: &str = r#"{"id":"p1","title":"Halcón","text":"Halcón is a film by Ana Ruiz."}
{"id":"p2","title":"Ana Ruiz","text":"Ana Ruiz was born in Cádiz."}
"#;

async fn build_index(dir: &Path) {
    let corpus = dir.join("corpus.jsonl");
    fs::write(&corpus, CORPUS).unwrap();
    let options = EncoderOptions::new(assets::onnxruntime());
    let encoder = OnnxEncoder::open(&assets::default_encoder(), &options).unwrap();
    Build::new(corpus, dir.join("index"))
        .run(&encoder, &mut |_| {})
        .await
        .unwrap();
}

/// Everything real and whole, but for the keys given here.
fn config(dir: &Path, keys: &[(&str, &str)]) -> Config {
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let whole = [
        ("encoder.dir", path(&assets::default_encoder())),
        ("runtime.onnxruntime", path(&assets::onnxruntime())),
        ("index.dir", path(&dir.join("index"))),
        (
            "generator.file",
            path(&assets::model_dir("smollm2-135m-instruct").join("model.gguf")),
        ),
    ];
    let broken = keys.iter().map(|(key, value)| (*key, (*value).to_owned()));
    let flags = whole.into_iter().chain(broken);
    let flags = flags
        .map(|(key, value)| (key.to_owned(), "--set".to_owned(), value))
        .collect();
    Config::read(Written { file: None, flags }, &Env::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_is_named_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    build_index(dir.path()).await;
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(at("empty")).unwrap();
    fs::write(at("text"), "neither a model nor a library").unwrap();
    let real = assets::model_dir("smollm2-135m-instruct").join("model.gguf");
    fs::write(at("cut.gguf"), &fs::read(real).unwrap()[..1 << 20]).unwrap();
    for (key, path, words) in [
        ("index.dir", at("empty"), "cannot open the index: index "),
        ("encoder.dir", at("empty"), "cannot open the encoder: "),
        ("generator.file", at("text"), "text is no GGUF model"),
        (
            "generator.file",
            at("cut.gguf"),
            "cannot open the generator: ",
        ),
        ("generator.file", at("empty"), "cannot open the generator: "),
    ] {
        let error = App::build(config(dir.path(), &[(key, &path)]))
            .await
            .err()
            .unwrap();
        let line = with_causes(&error);
        assert!(line.contains(words) && line.contains(&path), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
    // A damaged file of an index that was whole.
    for file in fs::read_dir(at("index")).unwrap() {
        let path = file.unwrap().path();
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0xff;
        fs::write(&path, damaged).unwrap();
        let error = App::build(config(dir.path(), &[])).await.err().unwrap();
        assert!(
            with_causes(&error).contains("rebuild it with"),
            "{}: {}",
            path.display(),
            with_causes(&error)
        );
        fs::write(&path, whole).unwrap();
    }
}

/// Asks a server of this configuration one question.
async fn ask(config: Config, request: AskRequest) -> Result<AskResponse, Status> {
    let app = App::build(config).await.unwrap();
    let unplayed = ScriptedPorts::new(Script::instant(1));
    let server = Server::serving(unplayed, app).await;
    let answer = server.ask(request).await;
    assert_eq!(server.gauges.questions_open(), 0);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_endpoint_is_named_in_the_status() {
    let dir = tempfile::tempdir().unwrap();
    build_index(dir.path()).await;
    let nobody = OwnPort::reserve();
    let address = nobody.address().to_string();
    let base_url = format!("http://{address}/v1");
    let keys = [
        ("generator.kind", "openai"),
        ("generator.base_url", &*base_url),
        ("generator.model", "m"),
    ];
    let status = ask(config(dir.path(), &keys), question()).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains(&address), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_answers_where_the_endpoint_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    build_index(dir.path()).await;
    let nobody = OwnPort::reserve();
    let base_url = format!("http://{}/v1", nobody.address());
    let model = assets::model_dir("smollm2-135m-instruct").join("model.gguf");
    let keys = [
        ("generator.kind", "openai"),
        ("generator.base_url", &*base_url),
        ("generator.model", "m"),
        ("fallback.kind", "local"),
        ("fallback.file", model.to_str().unwrap()),
        ("fallback.threads", "1"),
        ("question.hop_budget", "1"),
        ("speculator.kind", "none"),
    ];
    let request = AskRequest {
        question: "Where was the director of the film Halcón born?".into(),
        ..AskRequest::default()
    };
    let answer = ask(config(dir.path(), &keys), request).await.unwrap();
    assert!(!answer.answer.is_empty());
    assert_eq!(answer.hops.len(), 1, "{answer:?}");
}
