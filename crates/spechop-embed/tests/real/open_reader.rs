//! Reader folders that cannot be used.

use std::fs;
use std::path::Path;

use spechop_embed::{OpenError, ReaderOptions, SpanReader};
use spechop_testkit::assets::onnxruntime;

use crate::damage::{Damage, check_refusals, edit, remove, replace};
use crate::tiny::{self, PAIR, Tiny};

/// Opens a good folder after `damage` has been done to it.
fn open(damage: impl FnOnce(&Path)) -> Result<(), OpenError> {
    let models = tempfile::tempdir().expect("a folder");
    let dir = models.path().join("reader");
    fs::create_dir(&dir).expect("a folder");
    tiny::write(&dir);
    damage(&dir);
    SpanReader::open(&dir, &ReaderOptions::new(onnxruntime())).map(drop)
}

fn remodel(dir: &Path, change: impl FnOnce(&mut Tiny)) {
    let mut model = Tiny::default();
    change(&mut model);
    replace(dir, "model.onnx", model.onnx());
}

/// Gives the unknown word this start logit, and lets it be tried out: the padding and the last word are.
fn say_of_the_unknown(dir: &Path, logit: f32) {
    remodel(dir, |model| model.unknown = logit);
    let words = r#"{"[UNK]":1,"[CLS]":1,"[SEP]":1}"#;
    let text = fs::read_to_string(dir.join("tokenizer.json")).expect("a text");
    let at = text.find(r#""vocab":"#).expect("words") + r#""vocab":"#.len();
    let rest = text[at..].find('}').expect("an end") + at + 1;
    let text = format!("{}{words}{}", &text[..at], &text[rest..]);
    replace(dir, "tokenizer.json", text);
}

#[test]
fn a_damaged_folder_is_refused_in_one_clear_line() {
    let unfit = "model.onnx is no extractive reader: ";
    let cases: &[(&str, Damage, &[&str])] = &[
        (
            "no folder",
            |dir| fs::remove_dir_all(dir).expect("removed"),
            &["cannot read", "reader.toml", "No such file"],
        ),
        (
            "no recipe",
            |dir| remove(dir, "reader.toml"),
            &["cannot read", "reader.toml", "No such file"],
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
            "no tokenizer beside it",
            |dir| edit(dir, "reader.toml", "tokenizer.json", "../e5/tokenizer.json"),
            &["cannot read", "../e5/tokenizer.json", "No such file"],
        ),
        (
            "unknown key",
            |dir| {
                edit(
                    dir,
                    "reader.toml",
                    "tokens_max = 32",
                    "tokens_max = 32\ncolour = 3",
                );
            },
            &["reader.toml does not describe a reader", "colour"],
        ),
        (
            "two mistakes",
            |dir| {
                edit(dir, "reader.toml", "= 0.5", "= 5.0");
                edit(dir, "reader.toml", "= 1.0", "= -1.0");
            },
            &["`threshold` must be 0 to 1", "`calibration.scale` must be"],
        ),
        (
            "empty model",
            |dir| replace(dir, "model.onnx", ""),
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
            "an encoder's inputs",
            |dir| remodel(dir, |model| model.inputs[2] = "position_ids"),
            &[unfit, "position_ids"],
        ),
        (
            "an encoder's outputs",
            |dir| remodel(dir, |model| model.outputs[0] = "last_hidden_state"),
            &[unfit, "it has no output \"start_logits\""],
        ),
        (
            "too few classes",
            |dir| remodel(dir, |model| model.classes = 3),
            &[unfit, "its class_logits have shape [1, 3]"],
        ),
        (
            "logits that are no numbers",
            |dir| say_of_the_unknown(dir, f32::NAN),
            &["it knows token 1, the model fails on it", "no numbers"],
        ),
        (
            "logits without end",
            |dir| say_of_the_unknown(dir, f32::INFINITY),
            &["it knows token 1, the model fails on it", "no numbers"],
        ),
        (
            "no tokenizer at all",
            |dir| replace(dir, "tokenizer.json", "{}"),
            &["tokenizer.json is not a usable tokenizer: "],
        ),
        (
            "a tokenizer that does not tell question and passage apart",
            |dir| {
                replace(
                    dir,
                    "tokenizer.json",
                    tiny::tokenizer(&tiny::untyped_pair(), 0),
                );
            },
            &["tokenizer.json is not a usable tokenizer", "type 1"],
        ),
        (
            "a tokenizer with tokens that the model lacks",
            |dir| replace(dir, "tokenizer.json", tiny::tokenizer(PAIR, 2000)),
            &["tokenizer.json does not fit the model", "1999"],
        ),
        (
            "longer pairs than the model takes",
            |dir| edit(dir, "reader.toml", "= 32", "= 33"),
            &["fails on a text of 33 tokens, which reader.toml allows"],
        ),
    ];
    check_refusals(cases, |damage| open(damage));
}

#[test]
fn the_tokenizer_may_lie_beside_the_folder() {
    let beside = |dir: &Path| {
        edit(dir, "reader.toml", "tokenizer.json", "../e5/tokenizer.json");
        let encoder = dir.with_file_name("e5");
        fs::create_dir(&encoder).expect("a folder");
        fs::rename(dir.join("tokenizer.json"), encoder.join("tokenizer.json")).expect("moved");
    };
    assert!(open(beside).is_ok());
}
