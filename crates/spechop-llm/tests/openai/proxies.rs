//! Proxies that the environment names: for models elsewhere, and for none on this machine.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use spechop_llm::{OpenAiModel, TextModel};
use spechop_ports::Call;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{delta, ending, endpoint, generation};

/// Tells the test that it runs in a process of its own, whose environment names a proxy.
const PROXIED: &str = "SPECHOP_TEST_PROXIED";

#[expect(
    clippy::disallowed_methods,
    reason = "the environment is what is tested"
)]
fn is_proxied() -> bool {
    std::env::var_os(PROXIED).is_some()
}

#[tokio::test]
async fn a_model_on_this_machine_is_asked_past_proxies() {
    if is_proxied() {
        let server = MockServer::start().await;
        let answer = (delta("Amy") + &ending("stop")).into_bytes();
        let answer = ResponseTemplate::new(200).set_body_raw(answer, "text/event-stream");
        let mock = Mock::given(method("POST")).respond_with(answer);
        mock.mount(&server).await;
        let mut endpoint = endpoint(&format!("{}/v1", server.uri()));
        endpoint.limits.silence = Duration::from_secs(5);
        let model = OpenAiModel::new(&endpoint).unwrap();
        let said = model.generate(&Call::authoritative(), generation()).await;
        assert_eq!(said.unwrap().text, "Amy");
        return;
    }
    // Its connections are accepted, and nothing is answered.
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", trap.local_addr().unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([
        "--exact",
        "proxies::a_model_on_this_machine_is_asked_past_proxies",
    ]);
    child.env_remove("no_proxy").env_remove("NO_PROXY");
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        child.env(name, &proxy);
    }
    let ended = child.env(PROXIED, "1").output().unwrap();
    // A name that is none passes as well.
    let has_run = String::from_utf8_lossy(&ended.stdout).contains("1 passed");
    assert!(ended.status.success() && has_run, "{ended:?}");
    trap.set_nonblocking(true).unwrap();
    assert!(trap.accept().is_err(), "the proxy was asked");
}
