//! TLS: a server whose authority is known is trusted, any other is not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use spechop_ports::Call;
use spechop_ports::retry::Retries;
use spechop_qdrant::Cluster;

use super::server::{Server, hasty};

/// The address for the inner test, which is this program once more: only a new process reads the
/// certificates that the environment names.
const ADDRESS: &str = "SPECHOP_TEST_TLS_URL";
/// How often the inner test may try again: a server that starts needs a moment.
const RETRIES: &str = "SPECHOP_TEST_TLS_RETRIES";

fn openssl(dir: &Path, arguments: &str) -> bool {
    let mut command = Command::new("openssl");
    let done = command.args(arguments.split(' ')).current_dir(dir).output();
    match done {
        Ok(output) if output.status.success() => true,
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => false,
    }
}

/// An authority, and a certificate of it for localhost.
fn certificates(dir: &Path) -> bool {
    let extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
    fs::write(dir.join("extensions"), extensions).unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    let made = openssl(
        dir,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority"),
    ) && openssl(
        dir,
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key -out \
         server.csr -subj /CN=localhost",
    ) && openssl(
        dir,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out \
         server.pem -extfile extensions",
    );
    if made {
        for name in ["ca.pem", "server.pem", "server.key"] {
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
    made
}

/// Whether a process that trusts `authority` can ask the server.
async fn is_trusted(url: &str, authority: &Path, retries: u32) -> bool {
    let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
    let status = command
        .args([
            "--exact",
            "qdrant::tls::asks_the_server_of_the_environment",
            "--ignored",
        ])
        .env(ADDRESS, url)
        .env(RETRIES, retries.to_string())
        .env("SSL_CERT_FILE", authority)
        .output()
        .await
        .unwrap();
    status.status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_server_of_a_known_authority_is_trusted() {
    let Some(mut server) = Server::new() else {
        return;
    };
    let dir = server.dir().to_owned();
    if !certificates(&dir) {
        eprintln!("LEFT OUT: openssl is not installed");
        return;
    }
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    server.set("QDRANT__SERVICE__ENABLE_TLS", "true");
    server.set("QDRANT__TLS__CERT", path("server.pem"));
    server.set("QDRANT__TLS__KEY", path("server.key"));
    server.set("QDRANT__TLS__CA_CERT", path("ca.pem"));
    server.start();
    let url = server
        .url()
        .replace("http://", "https://")
        .replace("127.0.0.1", "localhost");
    assert!(is_trusted(&url, &dir.join("ca.pem"), 1000).await, "{url}");
    fs::write(dir.join("none.pem"), "").unwrap();
    assert!(
        !is_trusted(&url, &dir.join("none.pem"), 0).await,
        "of an unknown authority"
    );
    // Nor is it asked without TLS.
    let plain = Cluster::new(&hasty(vec![server.url()])).unwrap();
    plain.health(&Call::authoritative()).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it, in an environment of its own"]
async fn asks_the_server_of_the_environment() {
    #[expect(clippy::disallowed_methods, reason = "its caller is another process")]
    let told = |name| std::env::var(name).ok();
    let (Some(url), Some(retries)) = (told(ADDRESS), told(RETRIES)) else {
        return;
    };
    let mut options = hasty(vec![url]);
    options.retries = Retries {
        max: retries.parse().unwrap(),
        pause: Duration::from_millis(50),
        pause_max: Duration::from_millis(50),
    };
    let cluster = Cluster::new(&options).unwrap();
    cluster.health(&Call::authoritative()).await.unwrap();
}
