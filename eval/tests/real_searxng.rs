//! A real SearXNG whose engines are those of the local web: what our provider makes of its answers.
//! It has the settings of our Compose file, but for the engines.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

#[path = "web/asked.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod asked;
#[path = "web/detour.rs"]
mod detour;
#[path = "web/real_orders.rs"]
mod real_orders;
#[path = "web/served.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod served;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use asked::{ANSWER, PATIENT, QUESTION, gold, question};
use served::Served;
use spechop_eval::web::WebOptions;
use spechop_ports::{Call, SearchResult, SearchTrouble};
use spechop_testkit::{OwnPort, assets};
use spechop_web::HttpEndpoint;
use spechop_web::search::{EngineKind, SearchEngine};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tonic::Code;

/// What the container of the Compose file has.
const SETTINGS: &str = include_str!("../../deploy/compose/searxng.yml");
const FORMATS: &str = "formats: [html, json]";
const START: Duration = Duration::from_secs(240);

/// A running SearXNG. Dropping it ends it.
struct Running {
    process: Child,
    address: SocketAddr,
    _port: OwnPort,
    _dir: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Running {
    /// With our settings, and these engines: the name of each, and where in the web it is.
    async fn over(web: &Served, engines: &[(&str, &str)]) -> Self {
        Self::with(SETTINGS, web, engines).await
    }

    async fn with(settings: &str, web: &Served, engines: &[(&str, &str)]) -> Self {
        let port = OwnPort::reserve();
        let address = port.address();
        let dir = tempfile::tempdir().unwrap();
        let (file, log) = (dir.path().join("settings.yml"), dir.path().join("log"));
        fs::write(&file, with_engines(settings, web, engines)).unwrap();
        let process = Command::new(assets::data_dir().join("searxng/bin/python"))
            .args(["-I", "-m", "searx.webapp"])
            .env("SEARXNG_SETTINGS_PATH", file)
            .env("SEARXNG_SECRET", "of a test")
            .env("SEARXNG_BIND_ADDRESS", address.ip().to_string())
            .env("SEARXNG_PORT", address.port().to_string())
            // Its databases are there, and each has its own.
            .env("TMPDIR", dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .expect("`make test` installs SearXNG");
        let mut searxng = Self {
            process,
            address,
            _port: port,
            _dir: dir,
        };
        let started = async {
            while TcpStream::connect(address).await.is_err() {
                let ended = searxng.process.try_wait().unwrap();
                assert!(ended.is_none(), "{}", fs::read_to_string(&log).unwrap());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let started = tokio::time::timeout(START, started).await;
        started.expect("SearXNG starts");
        searxng
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What a search for this finds with these of its engines, or with all of them.
    async fn search(
        &self,
        engines: Option<&str>,
        query: &str,
    ) -> Result<Vec<SearchResult>, SearchTrouble> {
        let endpoint = HttpEndpoint {
            time_limit: PATIENT,
            ..HttpEndpoint::new("searxng", self.url())
        };
        let kind = EngineKind::Searxng {
            engines: engines.map(str::to_owned),
            language: None,
        };
        let provider = SearchEngine { endpoint, kind }.open().unwrap();
        let call = Call::authoritative();
        let found = provider.search(&call, query, 5).await;
        found.map_err(|failure| failure.trouble)
    }

    /// Whether a question that looks up in it alone is answered, and how.
    async fn ask(&self, web: &Served) -> Result<String, tonic::Status> {
        let provider = asked::searxng("searxng", self.url(), PATIENT);
        let server = asked::server(vec![provider], web.address, PATIENT);
        let answer = server.ask(&question(QUESTION)).await?;
        assert_eq!(answer.provider_changes, []);
        Ok(answer.answer)
    }
}

fn with_engines(settings: &str, web: &Served, engines: &[(&str, &str)]) -> String {
    // A plugin of its defaults fetches lists from the web.
    let no_others = "use_default_settings: {engines: {keep_only: []}}\nplugins: {}";
    let engines = engines.iter().map(|(name, path)| {
        format!(
            "
  - {{name: {name}, shortcut: {name}, categories: general, engine: json_engine, timeout: 60.0,
     search_url: 'http://{}{path}?q={{query}}&format=json', enable_http: true, url_query: url,
     results_query: results, title_query: title, content_query: content}}",
            web.address
        )
    });
    let engines: String = engines.collect();
    let settings = replaced(settings, "use_default_settings: true", no_others);
    format!("{settings}\nengines:{engines}\n")
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{text}");
    text.replace(from, to)
}

#[tokio::test]
async fn searxng_over_the_local_web_is_searched() {
    let web = Served::start(WebOptions::default()).await;
    let searxng = Running::over(&web, &[("web", "/search")]).await;
    let found = searxng.search(None, "a city in Poland").await.unwrap();
    assert_eq!((&*found[0].title, found.len()), ("Łódź", 5));
    assert!(found[0].snippet.contains("Poland"), "{:?}", found[0]);
    assert_eq!(web.get(web.path(found[0].url.as_str())).await.status, 200);
    assert_eq!(searxng.search(None, "volcano").await, Ok(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_through_searxng() {
    let web = Served::of(gold(""), WebOptions::default()).await;
    let searxng = Running::over(&web, &[("web", "/search")]).await;
    assert_eq!(searxng.ask(&web).await.unwrap(), ANSWER);
}

#[tokio::test(flavor = "multi_thread")]
async fn searxng_without_json_says_which_setting_to_change() {
    let web = Served::of(gold(""), WebOptions::default()).await;
    let settings = replaced(SETTINGS, FORMATS, "formats: [html]");
    let searxng = Running::with(&settings, &web, &[("web", "/search")]).await;
    let remedy = "status 403: add `json` to `search.formats` in its settings.yml";
    assert_eq!(
        searxng.search(None, "bridge").await,
        Err(SearchTrouble::Misconfigured {
            remedy: remedy.to_owned()
        })
    );
    let status = searxng.ask(&web).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains(remedy), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn searxng_whose_engines_are_down_has_no_empty_result() {
    let web = Served::of(gold(""), WebOptions::default()).await;
    let engines = [
        ("limited", "/down/rate-limited/search"),
        ("refusing", "/down/refused/search"),
        ("failing", "/down/failing/search"),
        ("broken", "/down/not-json/search"),
    ];
    let searxng = Running::over(&web, &engines).await;
    let blocked = |by: &str| SearchTrouble::Unreachable {
        detail: format!("its engines are blocked: {by}"),
    };
    let unreachable = |by: &str| SearchTrouble::Unreachable {
        detail: format!("its engines do not answer: {by}"),
    };
    for (engines, trouble) in [
        ("limited", blocked("limited (too many requests)")),
        // It leaves the engine alone for a while.
        ("limited", blocked("limited (Suspended: too many requests)")),
        ("refusing", blocked("refusing (access denied)")),
        ("failing", unreachable("failing (HTTP error)")),
        ("broken", unreachable("broken (parsing error)")),
    ] {
        let found = searxng.search(Some(engines), "bridge").await;
        assert_eq!(found, Err(trouble), "{engines}");
    }
    let status = searxng.ask(&web).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("too many requests"), "{status}");
}

#[tokio::test]
async fn searxng_finds_what_those_of_its_engines_find_that_are_not_down() {
    let web = Served::start(WebOptions::default()).await;
    let engines = [
        ("web", "/search"),
        ("limited", "/down/rate-limited/search"),
        ("failing", "/down/failing/search"),
    ];
    let searxng = Running::over(&web, &engines).await;
    let found = searxng.search(None, "a city in Poland").await.unwrap();
    assert_eq!((&*found[0].title, found.len()), ("Łódź", 5));
}

#[tokio::test]
async fn no_word_of_a_query_commands_searxng() {
    let web = Served::start(WebOptions::default()).await;
    let engines = [("web", "/search"), ("failing", "/down/failing/search")];
    let searxng = Running::over(&web, &engines).await;
    // To another site, and to another engine. It parts words at the separators of ASCII, too.
    for query in [
        "!!g a city in Poland",
        "a city in Poland !failing",
        "a city in Poland\u{1f}!!g",
        "a city in Poland\u{1c}!failing",
    ] {
        let found = searxng.search(None, query).await.unwrap();
        assert_eq!(&*found[0].title, "Łódź", "{query:?}");
    }
}
