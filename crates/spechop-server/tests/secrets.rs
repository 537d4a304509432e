//! Keys are in no log, however much is logged, and in no metric.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use crate::keys::key;
use crate::lines::{Lines, is_alone};
use crate::pki::{Authority, Folder, channel};
use crate::support::{Server, by, question};
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_testkit::Script;
use tracing_subscriber::filter::LevelFilter;

#[tokio::test(flavor = "multi_thread")]
async fn no_log_and_no_metric_holds_a_key() {
    if !is_alone(module_path!(), "no_log_and_no_metric_holds_a_key") {
        return;
    }
    let log = Lines::default();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
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
    let (mut statuses, mut pages) = (Vec::new(), String::new());
    for key in [&right, &wrong, &right] {
        for server in [&plain, &secure] {
            let channel = match server.address == plain.address {
                true => server.channel().await,
                false => channel(server.address, authority.trusted()).await.unwrap(),
            };
            let request = by(key, "", question());
            let _ = SpecHopClient::new(channel).ask(request).await;
        }
        let head =
            format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n");
        let (status, head, page) = plain.http1(&head, b"").await;
        statuses.push(status);
        pages += &(head + &page);
    }
    assert_eq!(statuses[..2], [200, 401]);
    let log = log.text();
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
        assert!(!pages.contains(secret));
    }
}
