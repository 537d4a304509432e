use std::path::PathBuf;

use super::super::tests::{bare, open, options, same_text, say};
use super::super::{LocalModel, LocalModelOptions};
use super::*;
use crate::TextModel;

/// `GGML_TYPE_F32`.
const F32: u32 = 0;

/// A GGUF file in the making.
#[derive(Clone)]
struct Gguf {
    keys: Vec<(&'static str, Value)>,
    /// Name, row length, rows, data.
    tensors: Vec<(String, u64, u64, Vec<f32>)>,
}

#[derive(Clone, Copy)]
enum Value {
    Text(&'static str),
    Float(f32),
    Int(u32),
}

impl Gguf {
    /// An adapter of rank 1 on one matrix of SmolLM2-135M, weak enough to leave it its speech.
    fn adapter() -> Self {
        let wave = |step: f32| (0..576).map(|at| (at as f32 * step).sin() * 0.5).collect();
        let name = "blk.20.attn_output.weight";
        Self {
            keys: vec![
                ("general.type", Value::Text("adapter")),
                ("general.architecture", Value::Text("llama")),
                ("adapter.type", Value::Text("lora")),
                ("adapter.lora.alpha", Value::Float(8.0)),
            ],
            tensors: vec![
                (format!("{name}.lora_a"), 576, 1, wave(0.7)),
                (format!("{name}.lora_b"), 1, 576, wave(1.3)),
            ],
        }
    }

    fn with(mut self, key: &'static str, value: Option<Value>) -> Self {
        self.keys.retain(|(other, _)| *other != key);
        self.keys.extend(value.map(|value| (key, value)));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        const ALIGNMENT: usize = 32;
        fn put(out: &mut Vec<u8>, text: &str) {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        }
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            put(&mut out, key);
            match value {
                Value::Text(text) => {
                    out.extend(STRING.to_le_bytes());
                    put(&mut out, text);
                }
                Value::Float(value) => {
                    out.extend(FLOAT.to_le_bytes());
                    out.extend(value.to_le_bytes());
                }
                Value::Int(value) => {
                    out.extend(4_u32.to_le_bytes());
                    out.extend(value.to_le_bytes());
                }
            }
        }
        let mut data = Vec::new();
        for (name, row, rows, values) in &self.tensors {
            put(&mut out, name);
            out.extend(2_u32.to_le_bytes());
            out.extend(row.to_le_bytes());
            out.extend(rows.to_le_bytes());
            out.extend(F32.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
        }
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out.extend(data);
        out
    }
}

/// The file of an adapter that changes what the smallest real model says.
pub(in super::super) fn small_adapter(folder: &Path) -> PathBuf {
    let path = folder.join("small.gguf");
    std::fs::write(&path, Gguf::adapter().bytes()).unwrap();
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
    let good = Gguf::adapter();
    let whole = good.bytes();
    let other_base = {
        let mut other = good.clone();
        other.tensors[0].0 = "blk.99.attn_output.weight.lora_a".to_owned();
        other.tensors[1].0 = "blk.99.attn_output.weight.lora_b".to_owned();
        other
    };
    let other_width = {
        let mut other = good.clone();
        other.tensors[0].1 = 64;
        other.tensors[0].3.truncate(64);
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
