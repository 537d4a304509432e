//! One ONNX Runtime a process. A target of its own, with a single test: its steps need a process
//! that has not loaded the library yet, and depend on their order.

use std::fs;

use spechop_embed::{EncoderOptions, OnnxEncoder, OpenError};
use spechop_testkit::assets::{model_dir, onnxruntime};

#[test]
fn a_library_that_cannot_be_loaded_is_refused_and_a_second_one_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = model_dir("e5-small-v2");
    let open = |library| OnnxEncoder::open(&model, &EncoderOptions::new(library));

    let missing = dir.path().join("libonnxruntime.so");
    let error = open(missing.clone()).err().expect("nothing to load");
    assert!(matches!(error, OpenError::Read { .. }), "{error:?}");
    assert!(error.to_string().contains("libonnxruntime.so"), "{error}");

    fs::write(&missing, "no library").expect("written");
    let error = open(missing).err().expect("no library");
    assert!(matches!(error, OpenError::Runtime { .. }), "{error:?}");

    // A failed attempt does not stand in the way of a good one.
    assert!(open(onnxruntime()).is_ok());

    let copy = dir.path().join("libother.so");
    fs::copy(onnxruntime(), &copy).expect("a copy");
    let error = open(copy).err().expect("another library");
    assert!(matches!(error, OpenError::OtherRuntime { .. }), "{error:?}");
    assert!(!error.to_string().contains('\n'), "{error}");

    // All sessions may go; the library stays.
    assert!(open(onnxruntime()).is_ok());
}
