//! A real searx, the engine that SearXNG grew out of, with the local web as its only engine: what our provider
//! makes of its answers. SearXNG itself is in no registry; searx is a Debian package, and has the same interface.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

#[path = "web/detour.rs"]
mod detour;
#[path = "web/real_orders.rs"]
mod real_orders;
#[path = "web/served.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod served;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use served::Served;
use spechop_eval::web::WebOptions;
use spechop_ports::Call;
use spechop_web::Endpoint;
use spechop_web::search::searxng::SearxngOptions;
use spechop_web::search::{SearchProvider, SearchTrouble, Searxng};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

/// Python of the system: Debian's packages are not of any other.
const PYTHON: &str = "/usr/bin/python3";
const START: Duration = Duration::from_secs(60);

/// A running searx. Dropping it ends it.
struct Searx {
    process: Child,
    address: SocketAddr,
    _settings: TempDir,
}

impl Drop for Searx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Searx {
    async fn over(engine: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.yml");
        std::fs::write(&file, settings(address.port(), engine)).unwrap();
        let process = start(&file);
        let running = async {
            while TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let searx = Self {
            process,
            address,
            _settings: dir,
        };
        tokio::time::timeout(START, running)
            .await
            .expect("searx starts");
        searx
    }

    fn provider(&self) -> Searxng {
        let endpoint = Endpoint::new("searxng", format!("http://{}", self.address));
        Searxng::new(&SearxngOptions {
            endpoint,
            ..SearxngOptions::default()
        })
        .unwrap()
    }
}

fn start(settings: &Path) -> Child {
    Command::new(PYTHON)
        .args(["-m", "searx.webapp"])
        .env("SEARX_SETTINGS_PATH", settings)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("there is a python3 of the system")
}

fn settings(port: u16, engine: &str) -> String {
    format!(
        "
general: {{debug: false, instance_name: searx}}
search: {{safe_search: 0, autocomplete: '', default_lang: '', ban_time_on_fail: 5, max_ban_time_on_fail: 120}}
server:
  {{port: {port}, bind_address: 127.0.0.1, secret_key: of a test, base_url: false, image_proxy: false,
   http_protocol_version: '1.0', method: GET, default_http_headers: {{}}}}
ui:
  {{static_path: /usr/share/python3-searx/static, templates_path: /usr/share/python3-searx/templates,
   default_theme: oscar, default_locale: '', theme_args: {{oscar_style: logicodev}}, results_on_new_tab: false,
   advanced_search: false}}
outgoing: {{request_timeout: 5.0, useragent_suffix: '', pool_connections: 10, pool_maxsize: 10}}
locales: {{en: English}}
doi_resolvers: {{oadoi.org: 'https://oadoi.org/'}}
default_doi_resolver: oadoi.org
checker: {{off_when_debug: true}}
engines:
  - {{name: local web, engine: json_engine, shortcut: lw, categories: general, enable_http: true, timeout: 5.0,
     search_url: 'http://{engine}/search?q={{query}}&format=json', results_query: results, url_query: url,
     title_query: title, content_query: content, paging: false, disabled: false}}
"
    )
}

#[tokio::test]
async fn searx_over_the_local_web_is_searched() {
    let web = Served::start(WebOptions::default()).await;
    let searx = Searx::over(&web.address.to_string()).await;
    let provider = searx.provider();
    let found = provider
        .search(&Call::authoritative(), "a city in Poland", 5)
        .await
        .unwrap();
    assert_eq!((&*found[0].title, found.len()), ("Łódź", 5));
    assert!(found[0].snippet.contains("Poland"), "{:?}", found[0]);
    assert_eq!(web.get(web.path(found[0].url.as_str())).await.status, 200);
    let none = provider.search(&Call::authoritative(), "volcano", 5).await;
    assert_eq!(none.unwrap(), []);
}

#[tokio::test]
async fn searx_whose_engine_is_down_has_no_empty_result() {
    let web = Served::start(WebOptions::default()).await;
    let searx = Searx::over(&format!("{}/down/rate-limited", web.address)).await;
    let found = searx
        .provider()
        .search(&Call::authoritative(), "Oder", 5)
        .await;
    let failure = found.unwrap_err();
    let is_told = matches!(
        failure.trouble,
        SearchTrouble::Blocked { .. } | SearchTrouble::Unreachable { .. }
    );
    assert!(
        is_told && failure.to_string().contains("local web"),
        "{failure}"
    );
}
