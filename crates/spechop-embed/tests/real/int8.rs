//! Encoders whose weights have been put into eight bits, against what they were made of.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_ports::{Call, Encoder, contract};
use spechop_testkit::assets::{model_dir, onnxruntime};
use tempfile::TempDir;

use crate::encoder::encoded;

/// The folder of E5 in eight bits.
fn quantised() -> TempDir {
    let (source, dir) = (model_dir("e5-small-v2"), tempfile::tempdir());
    let dir = dir.expect("a folder");
    let file = fs::read(source.join("model.onnx")).expect("a model");
    let int8 = spechop_onnx::quantise(&file).expect("quantised");
    // Six matrices in each of twelve layers.
    assert_eq!((int8.matrices, int8.parameters), (72, 12 * 1_769_472));
    assert!(int8.file.len() * 3 < file.len() * 2, "{}", int8.file.len());
    fs::write(dir.path().join("model.onnx"), int8.file).expect("written");
    let tokenizer = "tokenizer.json";
    fs::copy(source.join(tokenizer), dir.path().join(tokenizer)).expect("copied");
    let recipe = fs::read_to_string(source.join("encoder.toml")).expect("a recipe");
    let recipe = format!("{recipe}alone = true\n");
    fs::write(dir.path().join("encoder.toml"), recipe).expect("written");
    dir
}

fn open(dir: &Path) -> OnnxEncoder {
    let mut options = EncoderOptions::new(onnxruntime());
    options.threads = NonZeroUsize::MIN;
    OnnxEncoder::open(dir, &options).expect("the model opens")
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn texts() -> Vec<String> {
    let long = "The river rises in the northern hills and flows past the old mill. ".repeat(20);
    let text = |n: usize| format!("{n}. {}", &long[..40 + 97 * n % 1200]);
    (0..12).map(text).collect()
}

#[tokio::test]
async fn it_says_nearly_the_same_and_company_changes_nothing() {
    let dir = quantised();
    let int8 = open(dir.path());
    contract::encoder(&int8).await;
    let whole = open(&model_dir("e5-small-v2"));
    assert_ne!(int8.fingerprint(), whole.fingerprint());

    let texts = texts();
    let together = encoded(&int8, texts.clone()).await;
    let before = encoded(&whole, texts.clone()).await;
    for ((text, vector), before) in texts.iter().zip(&together).zip(&before) {
        let cosine = dot(vector, before);
        assert!(cosine > 0.985, "{text:.40}: {cosine}");
        // To the last bit: the scale of a run is that of its one text.
        let alone = encoded(&int8, vec![text.clone()]).await;
        assert_eq!(alone[0], *vector, "{text:.40}");
    }
    let counts = int8.counts();
    assert_eq!(counts.passage_runs, counts.passages, "each has its own run");
    assert_eq!(counts.padding, 0);

    let call = Call::authoritative();
    let queries = ["Where does the river rise?", "Which mill is old?"];
    let (first, second) = tokio::join!(
        int8.encode_query(&call, queries[0]),
        int8.encode_query(&call, queries[1])
    );
    for (query, vector) in queries.iter().zip([first, second]) {
        let alone = int8.encode_query(&call, query).await.expect("a vector");
        assert_eq!(vector.expect("a vector"), alone, "{query}");
    }
}
