use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use spechop_ports::{PortError, SharedCells, Swapped, contract};
use spechop_redis::{RedisCells, RedisOptions};
use spechop_testkit::{OwnPort, RedisServer};
use tokio::time::Instant;

const LONG: Duration = Duration::from_secs(600);

fn options(url: String) -> RedisOptions {
    RedisOptions {
        url,
        password: None,
        roots: None,
        prefix: "spechop".to_owned(),
        time_limit: Duration::from_secs(60),
    }
}

fn cells(options: &RedisOptions) -> RedisCells {
    RedisCells::new(options).unwrap()
}

#[tokio::test]
async fn it_keeps_the_promises_of_the_port() {
    let Some(server) = RedisServer::started(&[]) else {
        return;
    };
    contract::shared_cells(&cells(&options(server.url()))).await;
    // Another prefix is another world.
    let other = RedisOptions {
        prefix: "other".to_owned(),
        ..options(server.url())
    };
    contract::shared_cells(&cells(&other)).await;
}

#[tokio::test]
async fn one_that_is_killed_is_told_of_and_found_again() {
    let Some(mut server) = RedisServer::started(&[]) else {
        return;
    };
    let cells = cells(&options(server.url()));
    assert_eq!(
        cells.swap("a", None, "x", LONG).await.unwrap(),
        Swapped::Made
    );
    server.kill();
    for _ in 0..3 {
        let error = cells.read("a").await.unwrap_err();
        assert!(matches!(error, PortError::Unavailable { .. }), "{error:?}");
        assert!(
            error.to_string().contains(&server.port().to_string()),
            "{error}"
        );
    }
    server.start();
    // The first to ask may be the one who hears that the connection is gone.
    let _ = cells.read("a").await;
    assert_eq!(
        cells.read("a").await.unwrap(),
        None,
        "it has forgotten everything"
    );
}

/// As Redis does with those that are idle (`timeout`), and balancers do in between.
#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_made_anew_and_nobody_hears_of_it() {
    let Some(server) = RedisServer::started(&[]) else {
        return;
    };
    let cells = cells(&options(server.url()));
    let swap = async |seen: Option<&str>, new: &str| cells.swap("a", seen, new, LONG).await;
    assert_eq!(swap(None, "x").await.unwrap(), Swapped::Made);
    let mut line = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let mut close_the_others = || {
        line.write_all(b"CLIENT KILL TYPE normal\r\n").unwrap();
        let mut said = [0; 4];
        line.read_exact(&mut said).unwrap();
        assert_ne!(&said, b":0\r\n", "there was one");
    };
    close_the_others();
    assert_eq!(cells.read("a").await.unwrap().as_deref(), Some("x"));
    close_the_others();
    assert_eq!(swap(Some("x"), "y").await.unwrap(), Swapped::Made);
    // What it did at first, and whose answer was lost, is not told as another's.
    close_the_others();
    assert_eq!(swap(Some("x"), "y").await.unwrap(), Swapped::Made);
    close_the_others();
    let other = Swapped::Other(Some("y".to_owned()));
    assert_eq!(swap(Some("x"), "z").await.unwrap(), other);
}

#[tokio::test]
async fn one_that_hangs_is_not_waited_for() {
    let Some(server) = RedisServer::started(&[]) else {
        return;
    };
    let cells = cells(&RedisOptions {
        time_limit: Duration::from_secs(2),
        ..options(server.url())
    });
    assert_eq!(cells.read("a").await.unwrap(), None);
    let pid = server.pid().unwrap().to_string();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    };
    signal("-STOP");
    let began = Instant::now();
    let error = cells.read("a").await.unwrap_err();
    signal("-CONT");
    assert!(
        matches!(error, PortError::Timeout { limit, .. } if limit.as_secs() == 2),
        "{error:?}"
    );
    // It would hang for ever.
    assert!(began.elapsed() < LONG);
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_repeated() {
    let Some(server) = RedisServer::started(&["--requirepass", "right-one"]) else {
        return;
    };
    let with = |password: Option<&str>| RedisOptions {
        password: password.map(Into::into),
        ..options(server.url())
    };
    let right = cells(&with(Some("right-one")));
    assert_eq!(right.read("a").await.unwrap(), None);
    for password in [None, Some("wrong-one")] {
        let error = cells(&with(password)).read("a").await.unwrap_err();
        assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
        assert!(!format!("{error:?}").contains("wrong-one"), "{error:?}");
    }
}

#[tokio::test]
async fn a_password_that_comes_late_is_found() {
    let Some(server) = RedisServer::started(&["--requirepass", "first-one"]) else {
        return;
    };
    let cells = cells(&RedisOptions {
        password: Some("second-one".into()),
        ..options(server.url())
    });
    let error = cells.read("a").await.unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
    let mut line = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    line.write_all(b"AUTH first-one\r\nCONFIG SET requirepass second-one\r\n")
        .unwrap();
    let mut said = [0; 10];
    line.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"+OK\r\n+OK\r\n");
    assert_eq!(cells.read("a").await.unwrap(), None);
}

/// An authority, and a server that it certifies. Returns the authority's certificate.
fn certify(dir: &Path) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let cert = params.signed_by(&key, &issuer).unwrap().pem();
    fs::write(dir.join("ca.pem"), &authority).unwrap();
    fs::write(dir.join("cert.pem"), cert).unwrap();
    fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    authority.into_bytes()
}

#[tokio::test]
async fn it_is_asked_over_tls_if_it_is_who_it_should_be() {
    let dir = tempfile::tempdir().unwrap();
    let roots = certify(dir.path());
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (ca, cert, key) = (path("ca.pem"), path("cert.pem"), path("key.pem"));
    let own = OwnPort::reserve();
    let port = own.number().to_string();
    let arguments = [
        "--tls-port",
        &port,
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "no",
    ];
    let Some(_server) = RedisServer::started(&arguments) else {
        return;
    };
    let with = |roots: Option<Vec<u8>>| RedisOptions {
        roots,
        ..options(format!("rediss://127.0.0.1:{port}"))
    };
    contract::shared_cells(&cells(&with(Some(roots)))).await;
    let stranger = tempfile::tempdir().unwrap();
    let others = certify(stranger.path());
    for roots in [None, Some(others)] {
        let error = cells(&with(roots)).read("a").await.unwrap_err();
        assert!(matches!(error, PortError::Unavailable { .. }), "{error:?}");
    }
}
