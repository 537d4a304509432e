//! The unmodified clients of OpenAI for Python and for Node, and the encoder that is served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_ports::{Call, Encoded, Encoder, TextKind};
use spechop_testkit::{Script, assets};
use spechop_types::Stage;
use tokio::process::Command;

use crate::support::{Server, Shelf, config, question};
use crate::unmodified_client::{output, tool};

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/real")
        .join(name)
}

/// What a client tells, and the encoder of the server that it has asked.
async fn told(client: &mut Command) -> (Value, Arc<OnnxEncoder>) {
    let encoder = EncoderOptions::new(assets::onnxruntime());
    let encoder = OnnxEncoder::open(&assets::default_encoder(), &encoder).unwrap();
    let encoder = Arc::new(encoder);
    let shared = Arc::clone(&encoder) as Arc<dyn Encoder>;
    let script = Script::steady(&[true, false], 1, 10, 1);
    let server = Server::equipped(script, config(""), |toolbox, config| {
        let mut toolbox = toolbox.encoding(shared, config);
        toolbox.passages = Some(Arc::new(Shelf));
        toolbox
    })
    .await;
    let mut script = Script::instant(2);
    script.failures.insert((1, Stage::Target), u32::MAX);
    let broken = Server::start(script).await;
    for server in [&server, &broken] {
        client.arg(format!("http://{}/v1", server.address));
    }
    let out = output(client.arg(question().question)).await;
    server.is_idle().await;
    broken.is_idle().await;
    (serde_json::from_str(&out).unwrap(), encoder)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_openai_gets_an_answer() {
    let mut python = Command::new(tool("venv/bin/python"));
    let (said, encoder) = Box::pin(told(python.arg(program("openai_client.py")))).await;
    check(&said);
    check_embeddings(&said, &encoder).await;
}

/// `deploy/real-tests.sh` leaves it out if the package is not installed.
#[tokio::test(flavor = "multi_thread")]
async fn the_openai_client_for_node_gets_an_answer() {
    let mut node = Command::new("node");
    node.env("NODE_TOOLS", tool("node-tests"));
    let (said, encoder) = Box::pin(told(node.arg(program("openai_client.mjs")))).await;
    check(&said);
    check_embeddings(&said, &encoder).await;
}

fn check(said: &Value) {
    let models = [
        "spechop",
        "spechop-k1",
        "spechop-auto",
        "spechop-passage",
        "spechop-query",
    ];
    assert_eq!(said["models"], json!(models));
    assert_eq!(said["model"], "spechop-auto");
    let content = said["content"].as_str().unwrap();
    assert!(content.starts_with("so fact 1"), "{content}");
    check_annotations(content, &said["annotations"]);
    assert_eq!(said["finish_reason"], "stop");
    let reasoning = "1. q0 after nothing? → fact 0\n2. q1 after fact 0? → fact 1\n";
    assert_eq!(said["reasoning"], reasoning);
    let streamed = &said["streamed"];
    assert_eq!(streamed["content"], said["content"]);
    assert_eq!(streamed["reasoning"], said["reasoning"]);
    assert_eq!(streamed["finish_reasons"], "stop");
    assert_eq!(streamed["usage"], said["tokens"]);
    assert_eq!(streamed["choices_at_the_end"], 0);
    assert_eq!(said["one hop"], 1);
    let cut_off = &said["cut off"];
    assert_eq!(cut_off["reasoning"], "1. q0 after nothing? → fact 0\n");
    assert_eq!(cut_off["code"], "unavailable", "{cut_off}");
    assert_eq!(cut_off["type"], "server_error");
    for (what, status, param) in [
        ("offered tools", 200, json!(null)),
        ("tools", 400, json!("tool_choice")),
        ("n", 400, json!("n")),
        ("image", 400, json!("messages")),
        ("option", 400, json!("spechop.options.kk")),
        ("k", 400, json!("spechop.options.k")),
        ("model", 404, json!("model")),
        ("input", 400, json!("input")),
        ("dimensions", 400, json!("dimensions")),
        ("embedding model", 404, json!("model")),
    ] {
        let refused = &said["refused"][what];
        assert_eq!(refused["status"], status, "{what}: {refused}");
        assert_eq!(refused["param"], param, "{what}");
    }
}

/// Each marker of the text has its citation, at its place in code points, and it leads to a passage.
fn check_annotations(content: &str, annotations: &Value) {
    let annotations = annotations.as_array().unwrap();
    assert!(!annotations.is_empty(), "{content}");
    assert_eq!(content.matches('[').count(), annotations.len(), "{content}");
    let letters: Vec<char> = content.chars().collect();
    for (at, annotation) in annotations.iter().enumerate() {
        assert_eq!(annotation["type"], "url_citation");
        let cited = &annotation["url_citation"];
        let place = |key: &str| usize::try_from(cited[key].as_u64().unwrap()).unwrap();
        let marker: String = letters[place("start_index")..place("end_index")]
            .iter()
            .collect();
        assert_eq!(marker, format!("[{}]", at + 1));
        assert!(cited["url"].as_str().unwrap().contains("/p/"), "{cited}");
        assert!(!cited["title"].as_str().unwrap().is_empty(), "{cited}");
    }
}

/// The vectors are those with which the server searches.
async fn check_embeddings(said: &Value, encoder: &OnnxEncoder) {
    let said = &said["embeddings"];
    let texts: Vec<String> = serde_json::from_value(said["texts"].clone()).unwrap();
    let vector = |value: &Value| -> Vec<f32> { serde_json::from_value(value.clone()).unwrap() };
    let alike = |value: &Value, own: &[f32]| {
        let theirs = vector(value);
        assert_eq!(theirs.len(), own.len());
        theirs.iter().zip(own).map(|(a, b)| a * b).sum::<f32>()
    };
    let call = Call::authoritative();
    let encoded = encoder.encode(&call, TextKind::Passage, texts.clone());
    let Encoded { vectors, tokens } = encoded.await.unwrap();
    for (at, own) in vectors.iter().enumerate() {
        let dot = alike(&said["passages"][at], own);
        assert!(dot > 0.9999, "{dot}");
    }
    let dot = alike(&said["floats"], &vectors[1]);
    assert!(dot > 0.9999, "{dot}");
    let query = encoder.encode_query(&call, &texts[0]).await.unwrap();
    for name in ["query", "as query"] {
        let dot = alike(&said[name], &query);
        assert!(dot > 0.9999, "{name}: {dot}");
    }
    // The words before a text make a difference.
    let dot = alike(&said["query"], &vectors[0]);
    assert!(dot < 0.9999, "{dot}");
    let tokens = tokens.unwrap();
    assert!(tokens > 16, "{tokens}");
    assert_eq!(said["tokens"], tokens);
    assert_eq!(said["model"], "spechop-passage");
}
