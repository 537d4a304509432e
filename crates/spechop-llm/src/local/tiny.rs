//! A model of two layers with random weights, and an adapter for it. It reads ASCII, a token each
//! character, and says nothing, but computes as a large one does: grouped attention, heads of 64,
//! quantised weights.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_testkit::gguf::{Gguf, Numbers, Tensor, Value};

/// Number of its tokens.
pub(super) const TOKENS: usize = 3072;

/// Their texts: three control tokens, ASCII, and what nobody writes.
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let control = ["<unk>", "<s>", "</s>"].map(str::to_owned);
    let ascii = ('\u{1}'..='\u{7f}').map(|letter| match letter {
        // As vocabularies of this kind write a space.
        ' ' => "\u{2581}".to_owned(),
        letter => letter.to_string(),
    });
    let private = ('\u{e100}'..).map(|letter| letter.to_string());
    let texts = control.into_iter().chain(ascii).chain(private);
    texts.take(TOKENS).collect()
});

const LAYERS: usize = 2;
const HEADS: usize = 3;
const HEAD: usize = 64;
const WIDTH: usize = HEADS * HEAD;
const INNER: usize = 2 * WIDTH;

/// Writes the model into a folder.
pub(super) fn model(folder: &Path) -> PathBuf {
    let path = folder.join("tiny.gguf");
    std::fs::write(&path, tiny().bytes()).unwrap();
    path
}

/// Writes the same model with weights that are no numbers: those behind its last layer.
pub(super) fn damaged(folder: &Path) -> PathBuf {
    let path = folder.join("damaged.gguf");
    let mut model = tiny();
    for tensor in &mut model.tensors {
        if tensor.name == "output_norm.weight" {
            tensor.numbers = Numbers::F32(vec![f32::NAN; WIDTH]);
        }
    }
    std::fs::write(&path, model.bytes()).unwrap();
    path
}

/// Writes the same model, whose file says that layers look back at so many tokens. llama.cpp reads no such thing
/// of this architecture.
pub(super) fn windowed(folder: &Path, tokens: u32) -> PathBuf {
    let path = folder.join("windowed.gguf");
    let mut model = tiny();
    let window = ("llama.attention.sliding_window", Value::Int(tokens));
    model.keys.push(window);
    std::fs::write(&path, model.bytes()).unwrap();
    path
}

/// Writes an adapter for [`model`] into a folder: rank 1, on one matrix.
pub(super) fn adapter(folder: &Path) -> PathBuf {
    let path = folder.join("adapter.gguf");
    let wave = |step: f32| (0..WIDTH).map(|at| (at as f32 * step).sin()).collect();
    let half = |end: &str, row, rows, step| Tensor {
        name: format!("blk.1.attn_output.weight.lora_{end}"),
        row,
        rows,
        numbers: Numbers::F32(wave(step)),
    };
    let adapter = Gguf {
        keys: vec![
            ("general.type", Value::Text("adapter")),
            ("general.architecture", Value::Text("llama")),
            ("adapter.type", Value::Text("lora")),
            ("adapter.lora.alpha", Value::Float(1.0)),
        ],
        tensors: vec![half("a", WIDTH, 1, 0.7), half("b", 1, WIDTH, 1.3)],
    };
    std::fs::write(&path, adapter.bytes()).unwrap();
    path
}

fn tiny() -> Gguf {
    let int = |value: usize| Value::Int(value as u32);
    let mut random = StdRng::seed_from_u64(0);
    let mut matrix = |name: String, row: usize, rows: usize| {
        let weights = (0..row * rows)
            .map(|_| random.random_range(0..16))
            .collect();
        let numbers = Numbers::Q4_1(weights);
        Tensor {
            name,
            row,
            rows,
            numbers,
        }
    };
    let norm = |name: String| Tensor {
        name,
        row: WIDTH,
        rows: 1,
        numbers: Numbers::F32(vec![1.0; WIDTH]),
    };
    let mut tensors = vec![
        // The output matrix too, since there is no other.
        matrix("token_embd.weight".to_owned(), WIDTH, TOKENS),
        norm("output_norm.weight".to_owned()),
    ];
    for layer in 0..LAYERS {
        let of = |part| format!("blk.{layer}.{part}.weight");
        tensors.push(norm(of("attn_norm")));
        tensors.push(norm(of("ffn_norm")));
        for (part, row, rows) in [
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", WIDTH, HEAD),
            ("attn_v", WIDTH, HEAD),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", WIDTH, INNER),
            ("ffn_up", WIDTH, INNER),
            ("ffn_down", INNER, WIDTH),
        ] {
            tensors.push(matrix(of(part), row, rows));
        }
    }
    Gguf {
        keys: vec![
            ("general.architecture", Value::Text("llama")),
            ("llama.context_length", int(2048)),
            ("llama.embedding_length", int(WIDTH)),
            ("llama.block_count", int(LAYERS)),
            ("llama.feed_forward_length", int(INNER)),
            ("llama.attention.head_count", int(HEADS)),
            ("llama.attention.head_count_kv", int(1)),
            ("llama.rope.dimension_count", int(HEAD)),
            ("llama.attention.layer_norm_rms_epsilon", Value::Float(1e-5)),
            ("llama.vocab_size", int(TOKENS)),
            ("tokenizer.ggml.model", Value::Text("llama")),
            ("tokenizer.ggml.tokens", Value::Texts(&TEXTS)),
        ],
        tensors,
    }
}
