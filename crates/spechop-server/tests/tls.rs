//! TLS with real handshakes: certificates of both sides, certificates that change, and peers that speak
//! something else or nothing at all.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::time::Duration;

use crate::pki::{Authority, Folder, channel};
use crate::support::{Server, at, eventually, question, replace};
use spechop_proto::ask_event::Event;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_testkit::Script;
use spechop_testkit::frames::{PREFACE, frames, kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::ClientTlsConfig;

/// Generous: machines may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server with a certificate of this authority.
async fn server(authority: &Authority, script: Script, more: &str) -> (Server, Folder) {
    let folder = Folder::new();
    folder.put(&authority.server());
    let toml = format!("[server]\n{}{more}", folder.keys());
    (Server::configured(script, &toml).await, folder)
}

/// All that comes until the server hangs up.
async fn heard(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut heard = Vec::new();
    let hangs_up = async { while let Ok(1..) = stream.read_buf(&mut heard).await {} };
    timeout(PATIENCE, hangs_up).await.expect("it hangs up");
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_are_spoken_behind_a_handshake() {
    let authority = Authority::new();
    let (server, _folder) = server(&authority, Script::instant(2), "").await;
    let channel = channel(server.address, authority.trusted()).await.unwrap();
    let answer = SpecHopClient::new(channel).ask(question()).await.unwrap();
    assert!(!answer.into_inner().answer.is_empty());

    let mut stream = authority
        .connect(server.address, &["http/1.1"])
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let get = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(get).await.unwrap();
    let page = heard(&mut stream).await;
    assert!(page.starts_with(b"HTTP/1.1 200"));
    let both = authority
        .connect(server.address, &["h2", "http/1.1"])
        .await
        .unwrap();
    assert_eq!(both.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_a_certificate_are_refused_if_one_is_demanded() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let folder = Folder::new();
    folder.put(&authority.server());
    std::fs::write(folder.path("clients.pem"), &clients.pem).unwrap();
    let client_ca = folder.path("clients.pem");
    let toml = format!(
        "[server]\n{}tls_client_ca = \"{}\"\n",
        folder.keys(),
        client_ca.display()
    );
    let server = Server::configured(Script::instant(1), &toml).await;
    let stranger = Authority::new().client();
    for (tls, may) in [
        (authority.trusted(), false),
        (authority.trusted().identity(stranger.identity()), false),
        (
            authority.trusted().identity(clients.client().identity()),
            true,
        ),
    ] {
        let asked = async {
            let channel = channel(server.address, tls).await.ok()?;
            SpecHopClient::new(channel).ask(question()).await.ok()
        };
        assert_eq!(asked.await.is_some(), may);
    }
    assert_eq!(server.gauges.questions_open(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_counts_from_then_on_and_open_streams_go_on() {
    let [old, new] = [0; 2].map(|_| Authority::new());
    let script = Script::steady(&[true, true], 5, 300, 5);
    let (server, folder) = server(&old, script, "reload_ms = 5\n").await;
    let is_served =
        async |authority: &Authority| authority.connect(server.address, &["h2"]).await.is_ok();
    let connected = channel(server.address, old.trusted()).await.unwrap();
    let mut client = SpecHopClient::new(connected);
    let mut events = client.ask_stream(at(1)).await.unwrap().into_inner();
    events.message().await.unwrap().unwrap();
    assert!(is_served(&old).await && !is_served(&new).await);

    folder.put(&new.server());
    let changed = async { while !is_served(&new).await {} };
    timeout(PATIENCE, changed)
        .await
        .expect("the new one is served");
    assert!(!is_served(&old).await);
    // Half of a change, or rubbish, leaves what there was.
    folder.put_rubbish();
    let mut answered = false;
    while let Some(event) = events.message().await.unwrap() {
        answered |= matches!(event.event, Some(Event::Answer(_)));
    }
    assert!(answered, "the stream went on to its end");
    assert!(is_served(&new).await);
    // Behind it the next change is taken up.
    folder.put(&old.server());
    let changed = async { while !is_served(&old).await {} };
    timeout(PATIENCE, changed)
        .await
        .expect("the third one is served");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_authority_of_clients_counts_from_then_on() {
    let [authority, old, new] = [0; 3].map(|_| Authority::new());
    let folder = Folder::new();
    folder.put(&authority.server());
    let client_ca = folder.path("clients.pem");
    replace(&client_ca, &old.pem);
    let toml = format!(
        "[server]\n{}tls_client_ca = \"{}\"\nreload_ms = 5\n",
        folder.keys(),
        client_ca.display()
    );
    let server = Server::configured(Script::instant(1), &toml).await;
    let may_ask = async |clients: &Authority| {
        let tls = authority.trusted().identity(clients.client().identity());
        let Ok(channel) = channel(server.address, tls).await else {
            return false;
        };
        SpecHopClient::new(channel).ask(question()).await.is_ok()
    };
    assert!(may_ask(&old).await && !may_ask(&new).await);

    replace(&client_ca, &new.pem);
    let changed = async { while !may_ask(&new).await {} };
    timeout(PATIENCE, changed)
        .await
        .expect("its clients are let in");
    assert!(!may_ask(&old).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_speaks_another_protocol_is_told_so() {
    let authority = Authority::new();
    let (secure, _folder) = server(&authority, Script::instant(1), "").await;
    let mut stream = TcpStream::connect(secure.address).await.unwrap();
    let get = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(get).await.unwrap();
    let page = String::from_utf8(heard(&mut stream).await).unwrap();
    assert!(page.starts_with("HTTP/1.1 400"), "{page}");
    assert!(
        page.ends_with("this port speaks TLS: connect with it\n"),
        "{page}"
    );

    let mut stream = TcpStream::connect(secure.address).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    let said = frames(&heard(&mut stream).await);
    let (last, _, _, why) = said.last().unwrap();
    assert_eq!(
        (*last, &why[8..]),
        (kind::GOAWAY, &b"this port speaks TLS"[..])
    );
    // A client of a library shows it, too, unless it hears of the hang-up before it has written its request.
    let shown = async || {
        let refused = secure.client().await.ask(question()).await.unwrap_err();
        format!("{refused:?}").contains("this port speaks TLS")
    };
    let told = async { while !shown().await {} };
    timeout(PATIENCE, told).await.expect("a client is told");

    let plain = Server::start(Script::instant(1)).await;
    let error = authority.connect(plain.address, &["h2"]).await.unwrap_err();
    assert!(error.to_string().contains("ProtocolVersion"), "{error}");
    let counted = "connections_closed_total{reason=\"other_protocol\"}";
    assert_eq!(plain.metric(&format!("spechop_{counted}")).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_does_not_end_is_hung_up_on() {
    let authority = Authority::new();
    // Tests wait it out, and a whole handshake takes less on a busy machine, too.
    let (server, _folder) = server(&authority, Script::instant(1), "message_ms_max = 2000\n").await;
    // Nothing, a first byte, a record whose rest does not come.
    let mut silent = Vec::new();
    for bytes in [
        &b""[..],
        b"\x16",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        silent.push(stream);
    }
    // A handshake, and then nothing.
    let mut shaken = authority.connect(server.address, &["h2"]).await.unwrap();
    for stream in &mut silent {
        heard(stream).await;
    }
    heard(&mut shaken).await;
    // Rubbish is no handshake.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let rubbish = b"\x16\x03\x01\x00\x07rubbish";
    stream.write_all(rubbish).await.unwrap();
    heard(&mut stream).await;
    eventually(|| server.gauges.connections_open() == 0).await;
    let asked = channel(server.address, authority.trusted()).await.unwrap();
    SpecHopClient::new(asked).ask(question()).await.unwrap();
}

/// Those who trust another authority do not talk to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_knows_its_server() {
    let authority = Authority::new();
    let (server, _folder) = server(&authority, Script::instant(1), "").await;
    channel(server.address, authority.trusted()).await.unwrap();
    for tls in [
        Authority::new().trusted(),
        authority.trusted().domain_name("qa.example.org"),
        ClientTlsConfig::new().domain_name("localhost"),
    ] {
        let error = channel(server.address, tls).await.unwrap_err();
        let error = format!("{error:?}");
        assert!(error.contains("InvalidCertificate"), "{error}");
    }
}
