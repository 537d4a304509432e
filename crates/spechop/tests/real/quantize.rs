//! `models quantize`, and an index that is built with what it wrote.

use serde_json::Value;
use spechop_testkit::assets;

use crate::shell::{in_data_dir, output};

#[test]
fn an_index_of_the_small_model_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let data = assets::data_dir();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let run = |args: &[&str]| output(&mut in_data_dir(&data, args));
    let (source, int8) = (path("e5"), path("int8"));
    // A copy, for the model of the data folder stays as it is.
    std::fs::create_dir(&source).unwrap();
    for file in ["model.onnx", "tokenizer.json", "encoder.toml"] {
        let from = assets::model_dir("e5-small-v2").join(file);
        std::fs::copy(from, dir.path().join("e5").join(file)).unwrap();
    }
    let quantize = ["models", "quantize", &source, "--out", &int8, "--json"];

    // A bar that nothing can reach.
    let (code, stdout, stderr) = run(&[&quantize[..], &["--cosine-min", "1.1"]].concat());
    assert_eq!((code, &*stdout), (1, ""), "{stderr}");
    assert!(
        stderr.contains("e5-small-v2-int8 is not good enough, and was not kept"),
        "{stderr}"
    );
    assert!(!dir.path().join("int8").exists());

    let (code, stdout, stderr) = run(&quantize);
    assert_eq!(code, 0, "{stderr}");
    let made: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&made["model"], &made["matrices"]),
        (&"e5-small-v2-int8".into(), &72.into())
    );
    assert!(made["cosine_min"].as_f64().unwrap() > 0.98, "{made}");
    assert!(made["bytes"].as_u64().unwrap() * 3 < made["bytes_before"].as_u64().unwrap() * 2);
    // A pull makes the same: an index of the one is an index of the other.
    let models = data.join("models");
    let pull = [
        "models",
        "pull",
        "e5-small-v2-int8",
        "--from",
        models.to_str().unwrap(),
    ];
    let (code, _, stderr) = output(&mut in_data_dir(dir.path(), &pull));
    assert_eq!(code, 0, "{stderr}");
    for file in ["model.onnx", "tokenizer.json", "encoder.toml"] {
        let [pulled, quantised] = ["models/e5-small-v2-int8", "int8"]
            .map(|model| std::fs::read(dir.path().join(model).join(file)).unwrap());
        assert!(pulled == quantised, "{file}");
    }
    // Twice is no mistake; quantised twice is.
    assert_eq!(run(&quantize).0, 0);
    let twice = ["models", "quantize", &int8, "--out", &path("twice")];
    let (code, _, stderr) = run(&twice);
    assert!(
        code == 1 && stderr.contains("perhaps it is quantised already"),
        "{stderr}"
    );
    assert!(!dir.path().join("twice").exists());

    let corpus = r#"{"id":"p1","title":"Halcón","text":"Halcón is a film directed by Ana Ruiz."}
{"id":"p2","title":"Danube","text":"The Danube is a river that flows through Vienna."}
"#;
    std::fs::write(path("corpus.jsonl"), corpus).unwrap();
    let (corpus, index) = (path("corpus.jsonl"), path("index"));
    let build = [
        "index", "build", "--corpus", &corpus, "--out", &index, "--model", &int8,
    ];
    let (code, _, stderr) = run(&build);
    assert_eq!(code, 0, "{stderr}");
    let search = ["index", "search", "Who directed Halcón?", "--index", &index];
    let (code, stdout, stderr) = run(&[&search[..], &["--model", &int8, "--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(found["passages"][0]["id"], "p1");
    let (code, _, stderr) = run(&[&search[..], &["--model", &source]].concat());
    assert!(
        code == 1 && stderr.contains("e5-small-v2-int8-"),
        "{stderr}"
    );
}
