//! Model folders that cannot be used.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use spechop_embed::{EncoderOptions, OnnxEncoder, OpenError};
use spechop_testkit::assets::{model_dir, onnxruntime};

use crate::damage::{self, Damage, check_refusals, remove, replace};

/// Opens a copy of the E5 folder after `damage` has been done to it.
fn open(damage: impl FnOnce(&Path)) -> Result<OnnxEncoder, OpenError> {
    let dir = tempfile::tempdir().expect("a folder");
    let good = model_dir("e5-small-v2");
    for file in ["model.onnx", "tokenizer.json"] {
        symlink(good.join(file), dir.path().join(file)).expect("a link");
    }
    fs::copy(good.join("encoder.toml"), dir.path().join("encoder.toml")).expect("a copy");
    damage(dir.path());
    OnnxEncoder::open(dir.path(), &EncoderOptions::new(onnxruntime()))
}

fn edit(dir: &Path, from: &str, to: &str) {
    damage::edit(dir, "encoder.toml", from, to);
}

/// A tokenizer file that is whole, but of no use to E5.
fn tokenizer(x: u32, post_processor: &str) -> String {
    format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
        "pre_tokenizer":{{"type":"Whitespace"}},"post_processor":{post_processor},"decoder":null,
        "model":{{"type":"WordLevel","vocab":{{"[UNK]":0,"[CLS]":1,"x":{x}}},"unk_token":"[UNK]"}}}}"#
    )
}

const CLS_FIRST: &str = r#"{"type":"TemplateProcessing",
    "single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
    "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":0}}],
    "special_tokens":{"[CLS]":{"id":"[CLS]","ids":[1],"tokens":["[CLS]"]}}}"#;

#[test]
fn a_damaged_folder_is_refused_in_one_clear_line() {
    let cases: &[(&str, Damage, &[&str])] = &[
        (
            "no folder",
            |dir| fs::remove_dir_all(dir).expect("removed"),
            &["cannot read", "encoder.toml", "No such file"],
        ),
        (
            "no recipe",
            |dir| remove(dir, "encoder.toml"),
            &["cannot read", "encoder.toml", "No such file"],
        ),
        (
            "no model",
            |dir| remove(dir, "model.onnx"),
            &["cannot read", "model.onnx", "No such file"],
        ),
        (
            "no tokenizer",
            |dir| remove(dir, "tokenizer.json"),
            &["cannot read", "tokenizer.json", "No such file"],
        ),
        (
            "broken recipe",
            |dir| edit(dir, "width", "width width"),
            &["encoder.toml does not describe an encoder", "line 7"],
        ),
        (
            "unknown key",
            |dir| edit(dir, "width", "colour = 3\nwidth"),
            &["encoder.toml does not describe an encoder", "colour"],
        ),
        (
            "empty model",
            |dir| replace(dir, "model.onnx", ""),
            &["cannot load the model", "model.onnx: "],
        ),
        (
            "no ONNX at all",
            |dir| replace(dir, "model.onnx", "not a model ".repeat(1000)),
            &["cannot load the model", "model.onnx: "],
        ),
        (
            "half a model",
            |dir| {
                let whole = fs::read(dir.join("model.onnx")).expect("a model");
                replace(dir, "model.onnx", &whole[..whole.len() / 2]);
            },
            &["cannot load the model", "model.onnx: "],
        ),
        (
            "no tokenizer at all",
            |dir| replace(dir, "tokenizer.json", "{}"),
            &["tokenizer.json is not a usable tokenizer: "],
        ),
        (
            "a tokenizer without special tokens",
            |dir| replace(dir, "tokenizer.json", tokenizer(2, "null")),
            &["tokenizer.json is not a usable tokenizer", "special tokens"],
        ),
        (
            "a tokenizer with tokens that the model lacks",
            |dir| replace(dir, "tokenizer.json", tokenizer(99_999, CLS_FIRST)),
            &["tokenizer.json does not fit the model", "99999"],
        ),
        (
            "another width",
            |dir| edit(dir, "384", "768"),
            &["gives vectors of width 384, but encoder.toml says 768"],
        ),
        (
            "longer texts than the model takes",
            |dir| edit(dir, "512", "1024"),
            &["fails on a text of 1024 tokens"],
        ),
    ];
    check_refusals(cases, |damage| open(damage).map(drop));
}

/// What a vector depends on changes the fingerprint.
#[test]
fn another_treatment_of_texts_is_another_fingerprint() {
    use spechop_ports::Encoder;
    let changes: &[Damage] = &[
        |_| {},
        |dir| edit(dir, "query: ", "question: "),
        |dir| edit(dir, "passage: ", "text: "),
        |dir| edit(dir, "mean", "cls"),
        |dir| edit(dir, "512", "256"),
        |dir| edit(dir, "= 64", "= 32"),
    ];
    let mut seen = Vec::new();
    for change in changes {
        let print = open(change).expect("still good").fingerprint().to_owned();
        assert!(!seen.contains(&print), "{print}");
        seen.push(print);
    }
}
