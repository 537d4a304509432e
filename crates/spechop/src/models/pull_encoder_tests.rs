//! Encoders, and the settings that lie beside their files.

use spechop_server::model_note::ModelNote;

use super::*;

const BYTES: &[u8] = b"an encoder";

/// An encoder of one file.
fn catalogue() -> Catalogue {
    let settings = "[models.encoder]\nquery_prefix = \"query: \"\npassage_prefix = \"\"\npooling = \"mean\"\n\
        width = 3\nquery_tokens_max = 4\npassage_tokens_max = 5";
    let source = format!("{PACKAGE}\n{settings}");
    let text = entry("m", "encoder", &source, "model.onnx", BYTES, "m");
    Catalogue::parse(&text, "any").unwrap()
}

/// A machine with that encoder in its folder, and the mirror gone: whatever is mended is not loaded again.
fn pulled(model: &Model) -> (Machine, Puller, PathBuf) {
    let machine = Machine::new();
    let puller = machine.puller();
    fs::create_dir(machine.mirror().join("m")).unwrap();
    fs::write(machine.mirror().join("m/model.onnx"), BYTES).unwrap();
    assert_eq!(puller.pull(model, false).unwrap(), Pulled::Fetched);
    fs::remove_dir_all(machine.mirror()).unwrap();
    let dir = puller.models_dir.join("m");
    (machine, puller, dir)
}

#[test]
fn the_settings_of_an_encoder_are_compared_and_mended() {
    let catalogue = catalogue();
    let model = catalogue.find("m").unwrap();
    let settings = model.encoder_toml().unwrap().unwrap();
    let (_machine, puller, dir) = pulled(model);
    let path = dir.join("encoder.toml");
    assert_eq!(fs::read_to_string(&path).unwrap(), settings);
    assert_eq!(state(&puller.models_dir, model), State::Present);
    assert!(compare_at(&dir).unwrap());
    for (rehash, wrong) in [
        (true, Some(String::new())),
        (false, Some(String::new())),
        (false, Some(settings.replace("query: ", "Query: "))),
        (true, None),
    ] {
        match &wrong {
            Some(wrong) => fs::write(&path, wrong).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        assert_eq!(state(&puller.models_dir, model), State::Unchecked);
        // A server does not start with it, and says what to do.
        let damage = compare_at(&dir).unwrap_err().to_string();
        assert!(damage.contains("--check m` mends it"), "{damage}");
        assert_eq!(puller.pull(model, rehash).unwrap(), Pulled::AlreadyThere);
        assert_eq!(fs::read_to_string(&path).unwrap(), settings, "{wrong:?}");
        assert_eq!(state(&puller.models_dir, model), State::Present);
        assert!(compare_at(&dir).unwrap());
    }
    let mut names: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [NOTE, "encoder.toml", "model.onnx"]);
}

#[test]
fn settings_that_cannot_be_written_are_an_error_and_no_reason_to_load_the_model_again() {
    let catalogue = catalogue();
    let model = catalogue.find("m").unwrap();
    let (_machine, puller, dir) = pulled(model);
    fs::remove_file(dir.join("encoder.toml")).unwrap();
    fs::create_dir(dir.join("encoder.toml")).unwrap();
    let why = format!("{:#}", puller.pull(model, true).unwrap_err());
    assert!(
        why.starts_with("cannot write ") && why.contains("m/encoder.toml: "),
        "{why}"
    );
    assert_eq!(fs::read(dir.join("model.onnx")).unwrap(), BYTES);
}

#[test]
fn a_note_of_an_earlier_release_is_valid_and_learns_of_the_settings() {
    let catalogue = catalogue();
    let model = catalogue.find("m").unwrap();
    let (_machine, puller, dir) = pulled(model);
    let mut note = ModelNote::read(&dir).unwrap().unwrap();
    let whole = note.clone();
    note.files.retain(|file| file.name == "model.onnx");
    note.write(&dir).unwrap();
    assert!(compare_at(&dir).unwrap());
    assert_eq!(state(&puller.models_dir, model), State::Present);
    assert_eq!(puller.pull(model, false).unwrap(), Pulled::AlreadyThere);
    assert_eq!(ModelNote::read(&dir).unwrap().unwrap(), whole);
}
