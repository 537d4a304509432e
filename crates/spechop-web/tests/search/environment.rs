//! What the environment says of proxies counts for nothing: a question goes where the operator
//! sends it.

use std::sync::Arc;

use spechop_ports::{Call, Retriever, SearchProvider};
use spechop_testkit::OwnPort;
use spechop_web::{HttpRetriever, HttpRetrieverOptions, Proxy};

use super::{KEY, Kind};
use crate::support::{self, PROXIES, Site};

/// Tells a test that runs in a process of its own where it shall ask, and through which proxy.
const ASKED: &str = "SPECHOP_TEST_ASKED";
const THROUGH: &str = "SPECHOP_TEST_THROUGH";

/// All providers, and the retriever over HTTP.
const ASKERS: usize = Kind::ALL.len() + 1;

#[expect(
    clippy::disallowed_methods,
    reason = "the environment is what is tested"
)]
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs a test of this module again, in a process of its own with this environment.
fn run_again(test: &str, environment: &[(&str, &str)]) {
    support::run_again(module_path!(), test, |child| {
        child.envs(environment.iter().copied());
    });
}

/// Answers each provider at the path of its name, and the retriever at any other.
fn all_of_them() -> Site {
    Site::start(|path, answer| {
        let mut kinds = Kind::ALL.into_iter();
        match kinds.find(|kind| path.contains(&format!("/{kind:?}"))) {
            Some(kind) => answer.ok("text/plain", kind.found()),
            None => answer.ok("application/json", r#"{"result":[[]]}"#),
        }
    })
}

fn provider(kind: Kind, at: &str, proxy: Option<&Proxy>) -> Arc<dyn SearchProvider> {
    let opened = kind.open(|endpoint| {
        endpoint.base_url = format!("{at}/{kind:?}");
        endpoint.key = kind.has_key().then(|| KEY.into());
        endpoint.proxy = proxy.cloned();
    });
    opened.unwrap()
}

fn retriever(at: &str, proxy: Option<&Proxy>) -> HttpRetriever {
    let mut options = HttpRetrieverOptions::new(format!("{at}/retrieve"));
    options.service.endpoint.proxy = proxy.cloned();
    options.service.retries.max = 0;
    HttpRetriever::new(&options).unwrap()
}

/// Asks everybody there, and says who did not answer.
async fn ask_all(at: &str, proxy: Option<&Proxy>) -> Vec<String> {
    let (call, mut silent) = (Call::authoritative(), Vec::new());
    for kind in Kind::ALL {
        let found = provider(kind, at, proxy).search(&call, "q", 5).await;
        silent.extend(found.err().map(|failure| failure.to_string()));
    }
    let found = retriever(at, proxy).retrieve(&call, "q", 5).await;
    silent.extend(found.err().map(|failure| failure.to_string()));
    silent
}

#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    if let Some(at) = told(ASKED) {
        assert_eq!(ask_all(&at, None).await, [""; 0]);
        // Nobody is there to speak TLS. A proxy would be asked for a tunnel all the same.
        let port = OwnPort::reserve();
        let nobody = format!("https://{}", port.address());
        assert_eq!(ask_all(&nobody, None).await.len(), ASKERS);
        return;
    }
    let (site, trap) = (all_of_them(), all_of_them());
    let (at, proxy) = (site.url(""), trap.url(""));
    let mut environment = PROXIES.map(|name| (name, &*proxy)).to_vec();
    environment.push((ASKED, &*at));
    run_again("proxies_of_the_environment_are_ignored", &environment);
    assert_eq!(site.requests().len(), ASKERS);
    assert_eq!(trap.connections(), 0);
}

#[tokio::test]
async fn a_proxy_that_is_configured_is_used_whatever_the_environment_says() {
    if let Some(at) = told(ASKED) {
        let proxy = Proxy::new(&told(THROUGH).unwrap()).unwrap();
        assert_eq!(ask_all(&at, Some(&proxy)).await, [""; 0]);
        return;
    }
    let (right, wrong) = (all_of_them(), all_of_them());
    let (through, other) = (right.url(""), wrong.url(""));
    let mut environment = PROXIES.map(|name| (name, &*other)).to_vec();
    environment.extend([("no_proxy", "*"), ("NO_PROXY", "*")]);
    environment.extend([(ASKED, "http://far.example"), (THROUGH, &*through)]);
    let test = "a_proxy_that_is_configured_is_used_whatever_the_environment_says";
    run_again(test, &environment);
    assert_eq!(right.requests().len(), ASKERS);
    assert_eq!(wrong.connections(), 0);
}
