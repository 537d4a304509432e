//! `spechop index` with an encoder behind HTTP, played by a server in this process.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::shell;
use parking_lot::Mutex;
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

const KEY: &str = "sk-of-the-test";
const WIDTH: usize = 8;

/// A model that counts letters: equal texts are near, and a query finds its own words.
#[derive(Clone, Default)]
struct Letters {
    /// Answers before the server is overloaded for one answer, then well again.
    busy_after: Option<usize>,
    /// Answers before the server is broken for good.
    broken_after: Option<usize>,
    asked: Arc<AtomicUsize>,
    texts: Arc<Mutex<Vec<String>>>,
}

impl Respond for Letters {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let bearer = request.headers.get("authorization");
        if bearer.is_none_or(|key| key.to_str().unwrap() != format!("Bearer {KEY}")) {
            return ResponseTemplate::new(401).set_body_json(json!({ "error": "who are you?" }));
        }
        let asked = self.asked.fetch_add(1, Relaxed);
        if self.busy_after == Some(asked) {
            return ResponseTemplate::new(429).insert_header("retry-after", "0");
        }
        if self.broken_after.is_some_and(|after| asked >= after) {
            return ResponseTemplate::new(400).set_body_string("the model is gone");
        }
        let body: Value = request.body_json().unwrap();
        let input = body.get("input").or(body.get("inputs")).unwrap();
        let texts = input.as_array().unwrap().iter();
        let texts: Vec<String> = texts
            .map(|text| text.as_str().unwrap().to_owned())
            .collect();
        let vectors: Vec<Value> = texts.iter().map(|text| vector(text)).collect();
        let mut all = self.texts.lock();
        all.extend(texts);
        let answer = match body.get("model") {
            Some(_) => {
                let one = |(at, vector)| json!({ "index": at, "embedding": vector });
                let data: Vec<Value> = vectors.iter().enumerate().map(one).collect();
                json!({ "data": data })
            }
            None => json!(vectors),
        };
        ResponseTemplate::new(200).set_body_json(answer)
    }
}

fn vector(text: &str) -> Value {
    let mut vector = [0.1_f64; WIDTH];
    for byte in text.bytes() {
        vector[usize::from(byte) % WIDTH] += 1.0;
    }
    json!(vector)
}

/// A data folder with a corpus, a configuration, and a model behind HTTP.
struct Place {
    dir: tempfile::TempDir,
    url: String,
    model: Letters,
    _server: MockServer,
}

impl Place {
    async fn new(form: &str, passages: usize, model: Letters) -> Self {
        let server = MockServer::start().await;
        let mock = Mock::given(any()).respond_with(model.clone());
        mock.mount(&server).await;
        let dir = tempfile::tempdir().unwrap();
        let line = |n| {
            json!({ "id": format!("p{n}"), "title": format!("Page {n}"), "text": format!("About {n}.") })
                .to_string()
        };
        let corpus: Vec<String> = (0..passages).map(line).collect();
        std::fs::write(dir.path().join("corpus.jsonl"), corpus.join("\n")).unwrap();
        let config = format!(
            "[question]\nk = 2\n[encoder]\nkind = {form:?}\nurl = \"{}/embed\"\nmodel = \"letters\"\nwidth = {WIDTH}\n\
             query_prefix = \"q: \"\npassage_prefix = \"p: \"\napi_key_env = \"LETTERS_KEY\"\nbatch = 16\n",
            server.uri()
        );
        std::fs::write(dir.path().join("c.toml"), config).unwrap();
        Self {
            dir,
            url: server.uri(),
            model,
            _server: server,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `spechop index` with the configuration. Exit code, stdout, stderr.
    async fn index(&self, args: &[&str]) -> (i32, String, String) {
        self.index_with(KEY, args).await
    }

    async fn index_with(&self, key: &str, args: &[&str]) -> (i32, String, String) {
        let config = self.path("c.toml");
        let mut all = vec!["index".to_owned()];
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        all.extend(["--config".to_owned(), text(&config)]);
        let (data, key) = (self.dir.path().to_owned(), key.to_owned());
        let ran = tokio::task::spawn_blocking(move || {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            shell::output(shell::in_data_dir(&data, &all).env("LETTERS_KEY", key))
        });
        ran.await.unwrap()
    }

    async fn build(&self, more: &[&str]) -> (i32, String, String) {
        let (corpus, out) = (text(&self.path("corpus.jsonl")), text(&self.path("index")));
        let args = ["build", "--json", "--corpus", &corpus, "--out", &out];
        self.index(&[&args[..], more].concat()).await
    }

    /// The texts that were encoded since the last time.
    fn texts(&self) -> Vec<String> {
        let mut texts = self.model.texts.lock();
        std::mem::take(&mut *texts)
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_built_added_to_and_searched_over_http() {
    for form in ["openai", "tei"] {
        let model = Letters {
            busy_after: Some(2),
            ..Letters::default()
        };
        let place = Place::new(form, 40, model).await;
        let (code, stdout, stderr) = place.build(&[]).await;
        assert_eq!(code, 0, "{form}: {stderr}");
        let built: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(
            (&built["rows"], &built["encoded"]),
            (&json!(40), &json!(40))
        );
        let mut texts = place.texts();
        assert_eq!(texts.remove(0), "q: ready?", "a wrong server is told early");
        assert_eq!(texts.len(), 40);
        texts.sort();
        assert_eq!(texts[0], "p: Page 0\nAbout 0.");

        // The manifest says which encoder it was, whatever the address.
        let index = text(&place.path("index"));
        let (_, info, _) = place.info(&index).await;
        let said = if form == "tei" { "Tei" } else { "OpenAi" };
        for words in [
            &format!("letters over HTTP ({said})"),
            "8 wide",
            "\\\"q: \\\"",
            "\\\"p: \\\"",
        ] {
            assert!(info.contains(words), "{words}: {info}");
        }
        assert!(!info.contains(&place.url) && !info.contains(KEY), "{info}");

        let more = place.path("more.jsonl");
        std::fs::write(&more, r#"{"id":"new","title":"zzz","text":"zzzzzz zzz"}"#).unwrap();
        let (code, stdout, stderr) = place
            .index(&["add", &index, "--corpus", &text(&more), "--json"])
            .await;
        assert_eq!(code, 0, "{stderr}");
        let added: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(added["added"], 1, "{stdout}");
        let search = [
            "search", "zzzzzzzz", "--index", &index, "--limit", "1", "--json",
        ];
        let (code, stdout, stderr) = place.index(&search).await;
        assert_eq!(code, 0, "{stderr}");
        let found: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(found["passages"][0]["id"], "new", "{stdout}");
        let texts = place.texts();
        assert!(texts.contains(&"q: zzzzzzzz".to_owned()), "{texts:?}");
        assert!(
            texts.contains(&"p: zzz\nzzzzzz zzz".to_owned()),
            "{texts:?}"
        );

        // Another model, another width or another prefix is another encoder.
        for other in [
            "encoder.model=sounds",
            "encoder.query_prefix=",
            "encoder.passage_prefix=passage: ",
        ] {
            let (code, _, stderr) = place
                .index(&[&search[..], &["--set", other]].concat())
                .await;
            assert!(
                code == 1 && stderr.contains("encoder") && stderr.lines().count() == 1,
                "{other}: {stderr}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_the_server_ended_is_resumed() {
    // The probe, the 16 requests of the first batch of 256 passages, and one more.
    let model = Letters {
        broken_after: Some(18),
        ..Letters::default()
    };
    let mut place = Place::new("openai", 300, model).await;
    let (code, stdout, stderr) = place.build(&[]).await;
    assert_eq!((code, &*stdout), (1, ""), "{stderr}");
    assert!(
        stderr.contains("encoding passages 256..300 failed")
            && stderr.contains("the model is gone"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let index = text(&place.path("index"));
    assert_eq!(
        place.info(&index).await.0,
        1,
        "nothing unfinished is published"
    );

    // The same model at another address.
    let server = MockServer::start().await;
    place.model = Letters::default();
    let mock = Mock::given(any()).respond_with(place.model.clone());
    mock.mount(&server).await;
    let moved = format!("encoder.url={}/v1/embeddings", server.uri());
    let (code, stdout, stderr) = place.build(&["--set", &moved]).await;
    assert_eq!(code, 0, "{stderr}");
    let built: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&built["rows"], &built["encoded"]),
        (&json!(300), &json!(44))
    );
    assert_eq!(
        place.texts().len(),
        1 + 44,
        "what was encoded is not sent again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_used_is_told_before_the_corpus_is_read() {
    let place = Place::new("openai", 3, Letters::default()).await;
    // Whoever reads the corpus first says what is wrong with it.
    let corpus = place.path("broken.jsonl");
    std::fs::write(&corpus, "{\n").unwrap();
    let (corpus, out) = (text(&corpus), text(&place.path("index")));
    let build = ["build", "--corpus", &corpus, "--out", &out];
    for (key, set, words) in [
        (
            "sk-wrong",
            "encoder.batch=1",
            "401 Unauthorized: who are you?",
        ),
        (KEY, "encoder.width=9", "8 components instead of 9"),
        (
            KEY,
            "encoder.url=http://127.0.0.1:1/",
            "encoder at 127.0.0.1:1",
        ),
        (
            KEY,
            "encoder.kind=onnx",
            "`spechop models pull onnxruntime`",
        ),
        (
            KEY,
            "question.k=1",
            "this command reads encoder.* and runtime.* only",
        ),
    ] {
        let (code, _, stderr) = place
            .index_with(key, &[&build[..], &["--set", set]].concat())
            .await;
        assert!(code == 1 && stderr.contains(words), "{set}: {stderr}");
        assert!(!stderr.contains("sk-"), "{stderr}");
    }
    assert!(!place.path("index").exists() && !place.path("index.partial").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_that_is_empty_is_told_by_its_name() {
    let place = Place::new("openai", 3, Letters::default()).await;
    let out = text(&place.path("index"));
    let build = ["build", "--corpus", "-", "--out", &out];
    let (code, _, stderr) = place.index(&build).await;
    assert_eq!((code, &*stderr), (1, "spechop: standard input is empty\n"));
}

/// As a server does.
#[tokio::test(flavor = "multi_thread")]
async fn the_index_of_the_demo_is_searched_if_there_is_no_other() {
    let place = Place::new("openai", 3, Letters::default()).await;
    let [corpus, demo] = ["corpus.jsonl", "indexes/demo"].map(|name| text(&place.path(name)));
    let build = ["build", "--corpus", &corpus, "--out", &demo];
    let (code, _, stderr) = place.index(&build).await;
    assert_eq!(code, 0, "{stderr}");
    let (code, stdout, stderr) = place.index(&["search", "Page 1"]).await;
    assert!(code == 0 && stdout.contains("Page "), "{stderr}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn an_index_may_lie_in_a_folder_whose_name_is_no_utf_8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new("openai", 3, Letters::default()).await;
    let index = place.dir.path().join(OsStr::from_bytes(b"index\xff"));
    let [corpus, config] = ["corpus.jsonl", "c.toml"].map(|name| text(&place.path(name)));
    for args in [
        &["build", "--corpus", &corpus, "--config", &config, "--out"][..],
        &["info"],
        &["verify"],
    ] {
        let mut command = shell::in_data_dir(place.dir.path(), &["index"]);
        command.args(args).arg(&index).arg("--json");
        let (code, stdout, stderr) = shell::output(command.env("LETTERS_KEY", KEY));
        assert_eq!(code, 0, "{args:?}: {stderr}");
        let said: Value = serde_json::from_str(&stdout).unwrap();
        let named = said["index"].as_str().unwrap();
        assert!(named.ends_with("index\u{fffd}"), "{args:?}: {named}");
    }
}

impl Place {
    /// `spechop index info`, which takes no configuration.
    async fn info(&self, index: &str) -> (i32, String, String) {
        let (data, index) = (self.dir.path().to_owned(), index.to_owned());
        let ran = tokio::task::spawn_blocking(move || {
            let args = ["index", "info", &*index, "--json"];
            shell::output(&mut shell::in_data_dir(&data, &args))
        });
        ran.await.unwrap()
    }
}
