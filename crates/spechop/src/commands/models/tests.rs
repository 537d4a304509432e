use spechop_config::{Config, Written};

use super::*;
use crate::models::{PACKAGE, entry};

fn pull_args(names: &[&str], from: Option<&Path>) -> PullArgs {
    PullArgs {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        from: from.map(Path::to_owned),
        source: Vec::new(),
        check: false,
    }
}

/// Encoders of a few bytes, under the names that the real ones have.
fn encoders() -> Catalogue {
    let source = "[models.package]\nclient = \"npm\"\nname = \"p\"\nversion = \"1\"\nbytes = 9\n\
        [models.encoder]\nquery_prefix = \"\"\npassage_prefix = \"\"\npooling = \"mean\"\nwidth = 3\n\
        query_tokens_max = 4\npassage_tokens_max = 5";
    let encoders = [EARLIER_ENCODER, DEFAULT_ENCODER, FALLBACK_ENCODER]
        .map(|name| entry(name, "encoder", source, "model.onnx", b"abc", "m"));
    Catalogue::parse(&encoders.concat(), "any").unwrap()
}

#[test]
fn the_stand_in_is_pulled_only_where_the_default_cannot_be_had() {
    let (data, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let put = |name: &str| {
        fs::create_dir(mirror.path().join(name)).unwrap();
        fs::write(mirror.path().join(name).join("model.onnx"), "abc").unwrap();
    };
    let args = pull_args(&[ANY_ENCODER], Some(mirror.path()));
    let noted =
        || fs::read_to_string(data.path().join("models").join(DEFAULT_ENCODER_FILE)).unwrap();
    let why = pull(&encoders(), &args, data.path(), Clients::absent()).unwrap_err();
    assert!(why.to_string().contains("cannot pull gte-small"), "{why}");
    put(FALLBACK_ENCODER);
    pull(&encoders(), &args, data.path(), Clients::absent()).unwrap();
    assert_eq!(noted(), "gte-small\n");
    put(DEFAULT_ENCODER);
    pull(&encoders(), &args, data.path(), Clients::absent()).unwrap();
    assert_eq!(noted(), "e5-small-v2-int8\n");
    let models = data.path().join("models");
    let encoder = fs::read_to_string(models.join("e5-small-v2-int8/encoder.toml")).unwrap();
    assert!(
        encoder.starts_with("name = \"e5-small-v2-int8\"\nmodel = \"model.onnx\"\n"),
        "{encoder}"
    );
    // Once it is chosen, nothing else takes its place.
    fs::remove_dir_all(models.join(DEFAULT_ENCODER)).unwrap();
    fs::remove_dir_all(mirror.path().join(DEFAULT_ENCODER)).unwrap();
    let why = pull(&encoders(), &args, data.path(), Clients::absent()).unwrap_err();
    let expected = format!("cannot pull {DEFAULT_ENCODER}");
    assert!(why.to_string().contains(&expected), "{why}");
    assert_eq!(noted(), "e5-small-v2-int8\n");
    // What an earlier release chose, indexes were built with.
    fs::write(models.join(DEFAULT_ENCODER_FILE), "e5-small-v2\n").unwrap();
    put(EARLIER_ENCODER);
    pull(&encoders(), &args, data.path(), Clients::absent()).unwrap();
    assert_eq!(noted(), "e5-small-v2\n");
    assert!(models.join("e5-small-v2/model.onnx").exists());
    // Nobody has chosen anew if the choice cannot be read.
    put(DEFAULT_ENCODER);
    fs::write(models.join(DEFAULT_ENCODER_FILE), b"\xff\n").unwrap();
    let why = pull(&encoders(), &args, data.path(), Clients::absent()).unwrap_err();
    assert!(why.to_string().starts_with("cannot read"), "{why}");
    assert!(!models.join(DEFAULT_ENCODER).exists());
}

#[test]
fn default_is_all_that_a_server_of_the_default_configuration_needs() {
    let names = ["gte-small".to_owned(), DEFAULT.to_owned()];
    let catalogue = Catalogue::load().unwrap();
    let names = spelt_out(&catalogue, &names).unwrap();
    assert_eq!(names[0], FALLBACK_ENCODER);
    for name in &names[1..] {
        assert!(
            *name == ANY_ENCODER || catalogue.find(name).is_ok(),
            "{name}"
        );
    }
    // With all of them there, the index alone is missing.
    let data = tempfile::tempdir().unwrap();
    let models = data.path().join("models");
    for name in &names[1..] {
        let model = match *name {
            ANY_ENCODER => DEFAULT_ENCODER,
            name => name,
        };
        fs::create_dir_all(models.join(model)).unwrap();
        for file in &catalogue.find(model).unwrap().files {
            fs::write(models.join(model).join(&file.path), "").unwrap();
        }
    }
    let data_dir = data.path().to_str().unwrap();
    let env = [("SPECHOP_DATA_DIR", data_dir)].into_iter().collect();
    let mistakes = Config::read(Written::default(), &env).unwrap_err().0;
    let keys: Vec<&str> = mistakes.iter().map(|mistake| &*mistake.key).collect();
    assert_eq!(keys, ["index.dir"]);
}

#[test]
fn an_unknown_name_stops_everything_before_it_begins() {
    let data = tempfile::tempdir().unwrap();
    let args = pull_args(&[FALLBACK_ENCODER, "e5-smal"], None);
    let why = pull(&encoders(), &args, data.path(), Clients::absent())
        .unwrap_err()
        .to_string();
    assert!(
        why.contains("\"e5-smal\"") && why.contains("e5-small-v2"),
        "{why}"
    );
    assert!(!data.path().join("models").exists());
}

#[test]
fn flags_win_over_settings_and_settings_over_the_default_order() {
    let data = tempfile::tempdir().unwrap();
    let args = pull_args(&["x"], None);
    assert_eq!(
        sources(&args, data.path()).unwrap(),
        [Source::Hub, Source::Registry]
    );
    fs::write(
        data.path().join(SETTINGS_FILE),
        "mirror = \"/m\"\nsources = [\"registry\", \"mirror\"]\n",
    )
    .unwrap();
    assert_eq!(
        sources(&args, data.path()).unwrap(),
        [Source::Registry, Source::Mirror("/m".into())]
    );
    let mut flagged = pull_args(&["x"], Some(Path::new("/f")));
    flagged.source = vec![SourceName::Mirror];
    assert_eq!(
        sources(&flagged, data.path()).unwrap(),
        [Source::Mirror("/f".into())]
    );
    flagged.source = vec![SourceName::Registry];
    assert_eq!(
        sources(&flagged, data.path()).unwrap(),
        [Source::Mirror("/f".into()), Source::Registry],
        "a folder that is named is looked into first"
    );
    fs::write(data.path().join(SETTINGS_FILE), "colour = 3\n").unwrap();
    let why = format!("{:#}", sources(&args, data.path()).unwrap_err());
    assert!(
        why.contains("models.toml, line 1, is not understood: ")
            && why.contains("colour")
            && !why.contains('\n'),
        "{why}"
    );
}

#[test]
fn a_list_tells_states_to_people_and_programs() {
    let data = tempfile::tempdir().unwrap();
    fs::create_dir_all(data.path().join("models/gte-small.partial")).unwrap();
    let (mut table, mut json) = (Vec::new(), Vec::new());
    list(
        &encoders(),
        &ListArgs { json: false },
        data.path(),
        &mut table,
    )
    .unwrap();
    list(
        &encoders(),
        &ListArgs { json: true },
        data.path(),
        &mut json,
    )
    .unwrap();
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("interrupted, 0 parts fetched"), "{table}");
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["models"][0]["state"], "absent");
    assert_eq!(json["models"][2]["state"], "partial");
    assert_eq!(json["models"][2]["package"], "the npm package p 1");
}

#[test]
fn a_model_that_is_here_or_in_a_mirror_needs_nothing_that_it_is_made_of() {
    let entry = |name: &str, source: &str, member: &str| {
        entry(name, "generator", source, "model.gguf", b"abc", member)
    };
    let merged = "[models.made.merged]\nmodel = \"base\"\nadapter = \"adapter\"";
    let entries = [
        entry("base", PACKAGE, "m"),
        entry("adapter", PACKAGE, "m"),
        entry("whole", merged, ""),
    ];
    let catalogue = Catalogue::parse(&entries.concat(), "any").unwrap();
    let (data, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let args = pull_args(&["whole"], Some(mirror.path()));
    let why = pull(&catalogue, &args, data.path(), Clients::absent()).unwrap_err();
    assert!(why.to_string().contains("cannot pull base"), "{why}");
    let whole = data.path().join("models/whole");
    fs::create_dir_all(&whole).unwrap();
    fs::write(whole.join("model.gguf"), "abc").unwrap();
    pull(&catalogue, &args, data.path(), Clients::absent()).unwrap();
    assert!(!data.path().join("models/base").exists());
    let (data, mirrored) = (tempfile::tempdir().unwrap(), mirror.path().join("whole"));
    fs::create_dir(&mirrored).unwrap();
    fs::write(mirrored.join("model.gguf"), "xyz").unwrap();
    let why = pull(&catalogue, &args, data.path(), Clients::absent()).unwrap_err();
    assert!(why.to_string().contains("cannot pull base"), "{why}");
    fs::write(mirrored.join("model.gguf"), "abc").unwrap();
    pull(&catalogue, &args, data.path(), Clients::absent()).unwrap();
    assert!(data.path().join("models/whole/model.gguf").exists());
}
