//! Keys are in no log, however much is logged, and in no metric.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::io::{self, Write};
use std::sync::Arc;

use crate::keys::key;
use crate::lines::is_alone;
use crate::pki::{Authority, Folder, channel};
use crate::support::{Server, question};
use parking_lot::Mutex;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_testkit::Script;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Request;
use tracing_subscriber::filter::LevelFilter;

/// All that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_log_and_no_metric_holds_a_key() {
    if !is_alone(module_path!(), "no_log_and_no_metric_holds_a_key") {
        return;
    }
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let (right, keys) = key("right", "roles = [\"ask\", \"admin\"]");
    let (wrong, _) = key("wrong", "");
    let hash = keys.split('"').find(|text| text.starts_with("$argon2id$"));
    let authority = Authority::new();
    let (folder, certificate) = (Folder::new(), authority.server());
    folder.put(&certificate);
    let plain = Server::configured(Script::instant(1), &keys).await;
    let secure = format!("{keys}[server]\n{}", folder.keys());
    let secure = Server::configured(Script::instant(1), &secure).await;
    let mut pages = Vec::new();
    for key in [&right, &wrong, &right] {
        let bearer = format!("Bearer {key}");
        for server in [&plain, &secure] {
            let channel = match server.address == plain.address {
                true => server.channel().await,
                false => channel(server.address, authority.trusted()).await.unwrap(),
            };
            let mut request = Request::new(question());
            let metadata = request.metadata_mut();
            metadata.insert("authorization", bearer.parse().unwrap());
            let _ = SpecHopClient::new(channel).ask(request).await;
        }
        let mut stream = TcpStream::connect(plain.address).await.unwrap();
        let get = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {bearer}\r\n\r\n"
        );
        stream.write_all(get.as_bytes()).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        pages.push(page);
    }
    assert!(pages[0].starts_with("HTTP/1.1 200") && pages[1].starts_with("HTTP/1.1 401"));
    let log = String::from_utf8_lossy(&log.0.lock()).into_owned();
    // Something was logged, the refusal and the frames of HTTP/2 among it.
    assert!(
        log.contains("request refused") && log.contains("TRACE"),
        "{log}"
    );
    // Of the client's part of the log this says nothing: the client runs in this process, too.
    for secret in [
        &*right,
        &*wrong,
        hash.unwrap(),
        certificate.key.lines().nth(1).unwrap(),
    ] {
        let secret = secret.rsplit('.').next().unwrap();
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None);
        assert!(!pages.concat().contains(secret));
    }
}
