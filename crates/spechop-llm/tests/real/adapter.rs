//! LoRA adapters: one that fits, and many that do not.

use std::path::{Path, PathBuf};

use spechop_llm::{LocalModel, LocalModelOptions, OpenError, TextModel};
use spechop_testkit::gguf::{Gguf, Numbers, Tensor, Value};

use crate::model::{bare, open, options, same_text, say};

/// Rank 1 on one matrix of SmolLM2-135M, weak enough to leave it its speech.
fn good_adapter() -> Gguf {
    const WIDTH: usize = 576;
    let wave = |step: f32| {
        (0..WIDTH)
            .map(|at| (at as f32 * step).sin() * 0.5)
            .collect()
    };
    let half = |end: &str, row, rows, step| Tensor {
        name: format!("blk.20.attn_output.weight.lora_{end}"),
        row,
        rows,
        numbers: Numbers::F32(wave(step)),
    };
    Gguf {
        keys: vec![
            ("general.type", Value::Text("adapter")),
            ("general.architecture", Value::Text("llama")),
            ("adapter.type", Value::Text("lora")),
            ("adapter.lora.alpha", Value::Float(8.0)),
        ],
        tensors: vec![half("a", WIDTH, 1, 0.7), half("b", 1, WIDTH, 1.3)],
    }
}

/// The file of an adapter that changes what the smallest real model says.
fn small_adapter(folder: &Path) -> PathBuf {
    let path = folder.join("small.gguf");
    std::fs::write(&path, good_adapter().bytes()).unwrap();
    path
}

#[tokio::test]
async fn an_adapter_changes_what_is_said_and_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = small_adapter(folder.path());
    let adapted = open(|options| options.adapter = Some(path));
    let plain = open(|_| ());
    assert_eq!(adapted.name(), "smollm2-135m-instruct + small (in process)");
    let prompt = bare("The river Orne rises in", 16);
    let said = say(&adapted, prompt.clone()).await;
    assert_ne!(said.text, say(&plain, prompt).await.text);
    // It is put on, not noise: the model still speaks.
    assert!(said.text.split_whitespace().count() > 4, "{said:?}");
}

#[tokio::test]
async fn with_an_adapter_the_same_prompt_gets_the_same_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = small_adapter(folder.path());
    same_text(|change| {
        open(|options| {
            options.adapter = Some(path.clone());
            change(options);
        })
    })
    .await;
}

#[test]
fn a_bad_adapter_is_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let good = good_adapter();
    let whole = good.bytes();
    let other_base = {
        let mut other = good.clone();
        other.tensors[0].name = "blk.99.attn_output.weight.lora_a".to_owned();
        other.tensors[1].name = "blk.99.attn_output.weight.lora_b".to_owned();
        other
    };
    let other_width = {
        let mut other = good.clone();
        other.tensors[0].row = 64;
        other.tensors[0].numbers = Numbers::F32(vec![0.5; 64]);
        other
    };
    let half = {
        let mut other = good.clone();
        other.tensors.pop();
        other
    };
    let empty = Gguf {
        tensors: Vec::new(),
        ..good.clone()
    };
    let with = |key, value| good.clone().with(key, value).bytes();
    let table = [
        ("missing", None, "cannot read"),
        ("text", Some(b"no adapter".to_vec()), "no GGUF"),
        ("cut head", Some(whole[..100].to_vec()), "damaged"),
        (
            "cut data",
            Some(whole[..whole.len() - 1].to_vec()),
            "does not fit",
        ),
        (
            "model",
            Some(with("general.type", Some(Value::Text("model")))),
            "no LoRA adapter",
        ),
        (
            "untyped",
            Some(with("general.type", None)),
            "no LoRA adapter",
        ),
        // These abort the process where llama.cpp meets them.
        (
            "odd type",
            Some(with("general.type", Some(Value::Int(1)))),
            "no LoRA adapter",
        ),
        (
            "odd alpha",
            Some(with("adapter.lora.alpha", Some(Value::Int(1)))),
            "alpha",
        ),
        (
            "odd family",
            Some(with("general.architecture", Some(Value::Int(1)))),
            "architecture",
        ),
        (
            "control",
            Some(with("adapter.type", Some(Value::Text("vector")))),
            "no LoRA adapter",
        ),
        (
            "family",
            Some(with("general.architecture", Some(Value::Text("qwen2")))),
            "does not fit",
        ),
        ("empty", Some(empty.bytes()), "nothing in it"),
        ("deeper", Some(other_base.bytes()), "does not fit"),
        ("narrower", Some(other_width.bytes()), "does not fit"),
        ("half", Some(half.bytes()), "does not fit"),
    ];
    for (name, bytes, says) in table {
        let path = folder.path().join(name);
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).unwrap();
        }
        let error = LocalModel::open(LocalModelOptions {
            adapter: Some(path.clone()),
            ..options()
        })
        .expect_err(name);
        let text = error.to_string();
        assert!(text.contains(says), "{name}: {text}");
        assert!(text.contains(&*path.to_string_lossy()), "{text}");
    }
    // A model is none, and neither is the adapter a model.
    let model = options().model_path;
    let error = LocalModel::open(LocalModelOptions {
        adapter: Some(model),
        ..options()
    });
    assert!(matches!(error, Err(OpenError::NotAdapter { .. })));
    let error = LocalModel::open(LocalModelOptions {
        model_path: small_adapter(folder.path()),
        ..options()
    });
    assert!(matches!(error, Err(OpenError::Damaged { .. })));
}
