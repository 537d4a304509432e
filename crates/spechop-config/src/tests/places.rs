//! What lies where: models, indexes, files and keys, and what is said of those that are missing.

use super::*;

#[test]
fn what_is_missing_names_the_command_that_makes_it() {
    let home = Home::new();
    for (path, command) in [
        ("models/e5-small-v2-int8", "`spechop models pull encoder`"),
        (
            "models/onnxruntime/libonnxruntime.so",
            "`spechop models pull onnxruntime`",
        ),
        (
            "models/spechop-planner-merged/model.gguf",
            "`spechop models pull spechop-planner-merged`",
        ),
        (
            "models/spechop-reader",
            "`spechop models pull spechop-reader`",
        ),
        ("indexes/default", "`spechop index build --corpus FOLDER`"),
    ] {
        let (here, away) = (home.path(path), home.path("away"));
        fs::rename(&here, &away).unwrap();
        let mistakes = home.mistakes("", &[]);
        assert!(
            matches!(&mistakes[..], [one] if one.contains(command)),
            "{path}: {mistakes:?}"
        );
        fs::rename(&away, &here).unwrap();
    }
    let mistakes = home.mistakes("[index]\ndir = \"/nowhere\"", &[]);
    assert!(
        mistakes[0].ends_with("missing: run `spechop index build --corpus FOLDER --out /nowhere`"),
        "{mistakes:?}"
    );
    // For a file that lies elsewhere, what leaving it out comes to.
    let (planner, large) = ("spechop-planner-merged", "qwen2.5-coder-1.5b-instruct");
    let adapter = home.path("models/smollm2-135m-instruct/model.gguf");
    for (section, model) in [
        ("[generator]", planner),
        ("[generator]\nstyle = \"steps\"", planner),
        (
            &*format!("[generator]\nadapter = {adapter:?}"),
            "smollm2-135m-instruct",
        ),
        ("[generator]\nstyle = \"tagged\"", large),
        ("[fallback]\nkind = \"local\"", large),
        ("[reader]\nkind = \"local\"", large),
    ] {
        let mistakes = home.mistakes(&format!("{section}\nfile = \"/nowhere\""), &[]);
        let told = format!(
            "/nowhere is missing (correct it, or leave it out for the default): run `spechop models \
             pull {model}`"
        );
        assert!(
            matches!(&mistakes[..], [one] if one.ends_with(&told)),
            "{section}: {mistakes:?}"
        );
    }
    fs::remove_file(home.path("models/qwen2.5-coder-1.5b-instruct/model.gguf")).unwrap();
    let mistakes = home.mistakes("[generator]\nstyle = \"tagged\"", &[]);
    assert!(
        mistakes[0].contains("`spechop models pull qwen2.5-coder-1.5b-instruct`"),
        "{mistakes:?}"
    );
}

#[test]
fn where_much_is_missing_one_command_brings_all_models() {
    let home = Home::new();
    let error = || home.read("", &[], &[]).unwrap_err().to_string();
    let all = "`spechop models pull default` brings all default models at once";
    fs::remove_dir(home.path("models/spechop-reader")).unwrap();
    assert!(!error().contains(all), "{}", error());
    fs::remove_dir_all(home.path("models")).unwrap();
    assert!(error().ends_with(all), "{}", error());
}

#[test]
fn the_demos_index_is_served_until_there_is_another() {
    let home = Home::new();
    fs::create_dir_all(home.path("indexes/demo")).unwrap();
    let served = || home.read("", &[], &[]).unwrap().index_dir;
    assert_eq!(served(), home.path("indexes/default"));
    fs::remove_dir(home.path("indexes/default")).unwrap();
    assert_eq!(served(), home.path("indexes/demo"));
}

/// It is not taken for none: the indexes here are of the encoder that was chosen.
#[test]
fn a_choice_of_an_encoder_that_cannot_be_read_is_a_mistake() {
    let home = Home::new();
    let note = home.path("models/default-encoder");
    fs::write(&note, b"gte-small\xff\n").unwrap();
    let mistakes = home.mistakes("", &[]);
    let told = format!("encoder.dir (default): cannot read {}: ", note.display());
    assert!(
        matches!(&mistakes[..], [one] if one.starts_with(&told)),
        "{mistakes:?}"
    );
    // Whoever names the folder, or asks an encoder elsewhere, has not chosen by it.
    let dir = home.path("models/e5-small-v2-int8");
    home.read(&format!("[encoder]\ndir = {dir:?}"), &[], &[])
        .unwrap();
    // As if nothing was chosen.
    fs::write(&note, " \n").unwrap();
    let config = home.read("", &[], &[]).unwrap();
    assert_eq!(config.encoder.dir(), Some(&*dir));
}

#[test]
fn the_data_folder_decides_what_the_defaults_are() {
    let home = Home::new();
    fs::create_dir_all(home.path("models/gte-small")).unwrap();
    fs::write(home.path("models/default-encoder"), "gte-small\n").unwrap();
    fs::create_dir_all(home.path("indexes/default/hot")).unwrap();
    let config = home.read("", &[], &[]).unwrap();
    assert_eq!(config.encoder.dir(), Some(&*home.path("models/gte-small")));
    assert_eq!(config.speculator.default, SpeculatorKind::Hot);
    assert_eq!(
        config.speculator.hot_dir.as_deref(),
        Some(&*home.path("indexes/default/hot"))
    );
    let config = home
        .read("[speculator]\nkind = \"none\"", &[], &[])
        .unwrap();
    assert_eq!(config.speculator.default, SpeculatorKind::None);
}

#[test]
fn a_key_comes_from_its_variable_and_is_never_shown() {
    let home = Home::new();
    let file = "[generator]\nkind = \"openai\"\nbase_url = \"http://h/v1\"\nmodel = \"m\"\napi_key_env = \"MY_KEY\"";
    let config = home.read(file, &[("MY_KEY", "sk-secret")], &[]).unwrap();
    let Engine::OpenAi(endpoint) = &config.generator.engine else {
        panic!("another engine")
    };
    assert_eq!(endpoint.key.as_ref().unwrap().expose_secret(), "sk-secret");
    assert!(!format!("{config:?}").contains("secret"));

    assert_eq!(
        home.mistakes(file, &[]),
        ["generator.api_key_env (c.toml): the environment variable MY_KEY is not set"]
    );
    let pasted = file.replace("MY_KEY", "sk-secret");
    let mistakes = home.mistakes(&pasted, &[]);
    assert!(mistakes[0].contains("not the key itself"), "{mistakes:?}");
    assert!(!mistakes[0].contains("secret"), "{mistakes:?}");
}

#[test]
fn variables_of_others_are_left_alone() {
    let variables = [
        ("SPECHOP_SERVICE_HOST", "10.0.0.1"),
        ("SPECHOP_PORT_50051_TCP", "tcp://10.0.0.1:50051"),
        ("SPECHOP_DATA_DIR", ""),
        ("SPECHOP_LOG", "debug"),
        ("SPECHOP_QDRANT_SERVICE_HOST", "10.0.0.2"),
        ("SPECHOP_QDRANT_SERVICE_PORT", "6334"),
        ("SPECHOP_QDRANT_SERVICE_PORT_GRPC", "6334"),
        ("SPECHOP_QDRANT_PORT", "tcp://10.0.0.2:6334"),
        ("SPECHOP_QDRANT_PORT_6334_TCP", "tcp://10.0.0.2:6334"),
        ("SPECHOP_QDRANT_PORT_6334_TCP_PROTO", "tcp"),
        ("SPECHOP_QDRANT_PORT_6334_TCP_PORT", "6334"),
        ("SPECHOP_QDRANT_PORT_6334_TCP_ADDR", "10.0.0.2"),
    ];
    let home = Home::new();
    home.read("", &variables, &[]).unwrap();
    // What a key names holds a secret.
    let key = [("SPECHOP_GENERATOR_API_KEY", "secret")];
    assert!(!home.mistakes("", &key).is_empty());
    let named = "[generator]\napi_key_env = \"SPECHOP_GENERATOR_API_KEY\"";
    home.read(named, &key, &[]).unwrap();
    // These were meant for us.
    for name in ["SPECHOP_SERVER_PORT", "SPECHOP_QDRANT_PORT_TCP"] {
        let mistakes = home.mistakes("", &[(name, "6334")]);
        assert!(mistakes[0].contains("no such key"), "{mistakes:?}");
    }
}

#[test]
fn a_home_may_be_elsewhere() {
    let home = Home::new();
    let file = "[index]\ndir = \"~/.local/share/spechop/indexes/default\"";
    assert_eq!(
        home.read(file, &[], &[]).unwrap().index_dir,
        home.path("indexes/default")
    );
    assert!(
        Path::new("/nowhere").exists()
            || !home.mistakes("[index]\ndir = \"/nowhere\"", &[]).is_empty()
    );
}

/// Else a folder of the name `~` would be made where the server is started.
#[test]
fn without_a_home_no_path_is_in_it() {
    let home = Home::new();
    let data = home.path("");
    let env: Env = [("SPECHOP_DATA_DIR", data.to_str().unwrap())]
        .into_iter()
        .collect();
    for section in [
        "drafter]\nfile",
        "tuning]\nstate",
        "speculator]\nmemory_file",
    ] {
        let read = |path: &str| {
            let toml = format!("[{section} = {path:?}");
            let written = Written {
                file: Some(("c.toml".into(), toml)),
                flags: Vec::new(),
            };
            Config::read(written, &env).map_err(|error| error.to_string())
        };
        read("/x/learnt.json").unwrap();
        let error = read("~/learnt.json").unwrap_err();
        let said = "(c.toml): HOME is not set: write the path without ~/";
        assert!(error.ends_with(said), "{section}: {error}");
    }
}

#[test]
fn an_encoder_behind_http_needs_no_model_here() {
    let home = Home::new();
    fs::remove_dir_all(home.path("models/e5-small-v2-int8")).unwrap();
    let toml = "[encoder]\nkind = \"openai\"\nurl = \"http://h/v1/embeddings\"\nmodel = \"gte\"\nwidth = 768\n\
        query_prefix = \"\"\npassage_prefix = \"text: \"\napi_key_env = \"EMBED_KEY\"";
    let config = home.read(toml, &[("EMBED_KEY", "sk-secret")], &[]).unwrap();
    assert!(!format!("{config:?}").contains("sk-secret"));
    let EncoderKind::Http(options) = &config.encoder.kind else {
        panic!("{:?}", config.encoder.kind);
    };
    assert_eq!((&*options.model, options.width.get()), ("gte", 768));
    assert_eq!(options.query_prefix, "");
    assert_eq!(options.passage_prefix, "text: ");
    let error = home
        .read("[encoder]\nkind = \"tei\"", &[], &[])
        .unwrap_err()
        .to_string();
    for key in ["encoder.url", "encoder.model"] {
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn a_hot_subset_that_follows_the_traffic_is_still_to_come() {
    let home = Home::new();
    let usual = home.read("", &[], &[]).unwrap().speculator;
    assert_eq!((usual.hot.file, usual.hot_dir), (None, None));
    let follows = "[speculator]\nhot_tenants = [\"*\"]\nhot_every_s = 60";
    let follows = home.read(follows, &[], &[]).unwrap().speculator;
    assert_eq!(follows.default, SpeculatorKind::Hot);
    assert_eq!(follows.hot.file, Some(home.path("traffic.json")));
    assert_eq!(follows.hot_dir, Some(home.path("indexes/default/hot")));
}

#[test]
fn words_count_where_there_is_an_index() {
    let home = Home::new();
    let weight = |file: &str| home.read(file, &[], &[]).unwrap().lexical_weight;
    let fixed = LexicalWeight::Fixed;
    assert_eq!(weight(""), LexicalWeight::Auto);
    assert_eq!(
        weight("[index]\nlexical_weight = \"auto\""),
        LexicalWeight::Auto
    );
    assert_eq!(weight("[index]\nlexical_weight = 0.25"), fixed(0.25));
    for (value, found) in [("-1", "-1"), ("11", "11"), ("\"much\"", "\"much\"")] {
        let mistakes = home.mistakes(&format!("[index]\nlexical_weight = {value}"), &[]);
        let wanted =
            "index.lexical_weight (c.toml): expected \"auto\" or a number from 0 to 10, found";
        assert_eq!(mistakes, [format!("{wanted} {found}")]);
    }
    // The web needs no index, but words would need one.
    fs::remove_dir_all(home.path("indexes/default")).unwrap();
    let web = "[target]\nkind = \"web\"\n[index]\nlexical_weight =";
    assert_eq!(weight(&format!("{web} 0")), fixed(0.0));
    assert_eq!(
        weight(&format!("{web} \"auto\"")),
        LexicalWeight::AutoForWeb
    );
    let mistakes = home.mistakes(&format!("{web} 0.25"), &[]);
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    assert!(mistakes[0].contains("there is no index in"), "{mistakes:?}");
}

#[test]
fn the_encoder_is_read_alone() {
    let home = Home::new();
    let read = |file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]| {
        let home = [("HOME", home.0.path().to_str().unwrap())];
        let env: Env = home.iter().chain(variables).copied().collect();
        let flags = flags.iter();
        let flags =
            flags.map(|(key, value)| (key.to_string(), "--set".to_owned(), value.to_string()));
        let written = Written {
            file: Some(("c.toml".into(), file.to_owned())),
            flags: flags.collect(),
        };
        Encoder::read(written, &env).map_err(|error| error.to_string())
    };
    // Nothing else needs to be right, or to be there.
    fs::remove_dir_all(home.path("indexes")).unwrap();
    let file = "[question]\nk = -1\n[colours]\nred = 1\n[encoder]\nthreads = 3";
    // The scheduler counts as many threads as the encoder has, by default, too.
    for (file, expected) in [(file, 3), ("", physical_cores().get())] {
        let EncoderKind::Onnx { dir, threads } = read(file, &[], &[]).unwrap().kind else {
            panic!("another kind")
        };
        assert_eq!(dir, home.path("models/e5-small-v2-int8"));
        assert_eq!(threads.get(), expected);
    }

    let tei = [
        ("encoder.kind", "tei"),
        ("encoder.url", "http://h/embed"),
        ("encoder.model", "gte"),
    ];
    fs::remove_file(home.path("models/onnxruntime/libonnxruntime.so")).unwrap();
    let encoder = read(file, &[("SPECHOP_ENCODER_WIDTH", "768")], &tei).unwrap();
    assert!(
        matches!(&encoder.kind, EncoderKind::Http(options) if options.width.get() == 768),
        "{encoder:?}"
    );
    // Of a prefix every space counts, wherever it is written, and none is one, too.
    let prefixes = [
        ("SPECHOP_ENCODER_QUERY_PREFIX", ""),
        ("SPECHOP_ENCODER_PASSAGE_PREFIX", " passage: "),
    ];
    let EncoderKind::Http(options) = read("", &prefixes, &tei).unwrap().kind else {
        panic!("another kind")
    };
    assert_eq!(options.query_prefix, "");
    assert_eq!(options.passage_prefix, " passage: ");
    for (file, flag, words) in [
        ("[encoder]\nwidht = 3", None, "did you mean encoder.width?"),
        ("[encoder", None, "not TOML"),
        (
            "",
            Some(("question.k", "1")),
            "this command reads encoder.* and runtime.* only",
        ),
        (
            "",
            Some(("encoder.threads", "none")),
            "encoder.threads (--set)",
        ),
        ("", None, "run `spechop models pull onnxruntime`"),
    ] {
        let error = read(file, &[], flag.as_slice()).unwrap_err();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn a_folder_of_its_own_may_hold_all_that_is_learnt() {
    let home = Home::new();
    let elsewhere = [("SPECHOP_STATE_DIR", "/state")];
    let file = "[speculator]\nkind = \"memory\"\nhot_tenants = [\"*\"]";
    let config = home.read(file, &elsewhere, &[]).unwrap();
    let (memory, hot) = (config.speculator.memory, config.speculator.hot);
    let files = [config.scheduler.state, memory.file, hot.file];
    let expected = [
        "/state/tuning.json",
        "/state/memory.json",
        "/state/traffic.json",
    ];
    assert_eq!(files, expected.map(|file| Some(file.into())));
    assert_eq!(config.index_dir, home.path("indexes/default"));
}

#[test]
fn what_was_learnt_is_kept_in_the_data_folder_elsewhere_or_nowhere() {
    let home = Home::new();
    for (file, state) in [
        ("", Some(home.path("tuning.json"))),
        (
            "[tuning]\nstate = \"/here.json\"",
            Some("/here.json".into()),
        ),
        ("[tuning]\nstate = \"none\"", None),
    ] {
        assert_eq!(home.read(file, &[], &[]).unwrap().scheduler.state, state);
    }
}
