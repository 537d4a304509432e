//! API keys and TLS as scripts see them: `spechop keys new`, and commands that reach a server with them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::fs;

use crate::pki::{Authority, Folder, Pair};
use crate::shell;
use crate::support::Server;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use spechop_testkit::Script;

/// The first line is the key, the others are configuration.
fn made(args: &[&str]) -> (String, String) {
    let printed = shell::printed(&[&["keys", "new"], args].concat());
    let (key, config) = printed.split_once('\n').unwrap();
    (key.to_owned(), config.to_owned())
}

/// Exit code, stdout, stderr, with this in the environment.
fn run(args: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = shell::spechop(args);
    shell::output(command.envs(variables.iter().copied()))
}

#[test]
fn a_new_key_is_printed_once_with_its_configuration() {
    let args = [
        "--name", "laptop", "--tenant", "team-7", "--role", "ask", "--role", "admin",
    ];
    let [(one, config), (other, _)] = [0; 2].map(|_| made(&args));
    assert!(one.starts_with("spechop.laptop.") && one != other);
    assert!(!config.contains(&one));
    let table: toml::Table = config.parse().unwrap();
    let key = table["keys"][0].as_table().unwrap();
    assert_eq!(key["name"].as_str(), Some("laptop"));
    assert_eq!(key["tenant"].as_str(), Some("team-7"));
    assert_eq!(key["roles"].as_array().unwrap().len(), 2);
    assert!(
        key["hash"]
            .as_str()
            .unwrap()
            .starts_with("$argon2id$v=19$m=19456,t=2,p=1$")
    );
    for args in [
        &["--name", "a.b"][..],
        &["--name", ""],
        &["--name", "a", "--tenant", "a/b"],
        &["--name", "a", "--role", "root"],
        &[],
    ] {
        let (code, stdout, stderr) = shell::run(&[&["keys", "new"], args].concat());
        assert_eq!((code, &*stdout), (2, ""), "{args:?}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_speak_tls_and_show_a_key() {
    let (key, config) = made(&["--name", "me", "--role", "ask", "--role", "admin"]);
    let (wrong, _) = made(&["--name", "me"]);
    let (authority, folder) = (Authority::new(), Folder::new());
    folder.put(&authority.server());
    let [ca, other] = [
        ("ca.pem", &authority.pem),
        ("other.pem", &Authority::new().pem),
    ]
    .map(|(name, pem)| {
        fs::write(folder.path(name), pem).unwrap();
        folder.path(name).display().to_string()
    });
    let no_certificate = folder.path("no.pem").display().to_string();
    fs::write(&no_certificate, "no certificate").unwrap();
    let secure = format!("{config}[server]\n{}", folder.keys());
    let secure = Server::configured(Script::instant(1), &secure).await;
    let plain = Server::start(Script::instant(1)).await;
    let [secure, plain] = [secure.address, plain.address].map(|address| address.to_string());
    let https = format!("https://{secure}");
    let mine = [("SPECHOP_KEY", &*key)];
    for (args, variables, words) in [
        (&["--addr", &*secure, "--tls-ca", &ca][..], &mine[..], None),
        (
            &["--addr", &https, "--tls-ca", &ca, "--key-env", "MINE"],
            &[("MINE", &*key)],
            None,
        ),
        (&["--addr", &plain], &mine, None),
        (&["--addr", &secure], &mine, Some("this port speaks TLS")),
        (
            &["--addr", "192.0.2.1:9"],
            &mine,
            Some("would go to 192.0.2.1:9 in the clear"),
        ),
        (&["--addr", &https], &mine, Some("no TLS connection to")),
        (
            &["--addr", &https, "--tls-ca", &other],
            &mine,
            Some("no TLS connection to"),
        ),
        (
            &["--addr", &plain, "--tls-ca", &ca],
            &mine,
            Some("no TLS connection to"),
        ),
        (
            &[
                "--addr",
                &secure,
                "--tls-ca",
                &ca,
                "--tls-name",
                "else.example",
            ],
            &mine,
            Some("no TLS connection to"),
        ),
        (
            &["--addr", &https, "--tls-ca", &no_certificate],
            &mine,
            Some("no.pem: TLS cannot be set up: the file of authorities holds no certificate"),
        ),
        (
            &["--addr", &https, "--tls-ca", "/nowhere.pem"],
            &mine,
            Some("cannot read /nowhere.pem"),
        ),
        (
            &["--addr", &https, "--tls-ca", &ca],
            &[],
            Some("UNAUTHENTICATED: this server wants an API key"),
        ),
        (
            &["--addr", &https, "--tls-ca", &ca],
            &[("SPECHOP_KEY", &*wrong)],
            Some("UNAUTHENTICATED: the API key is wrong"),
        ),
        (
            &["--addr", &https, "--tls-ca", &ca, "--key-env", "MINE"],
            &mine,
            Some("the variable MINE holds no API key"),
        ),
        (
            &["--addr", &https, "--tls-ca", &ca],
            &[("SPECHOP_KEY", "two\u{7f}")],
            Some("odd characters"),
        ),
    ] {
        for command in [&["ask", "What comes of it?"][..], &["tuning"]] {
            let mut ran = run(&[command, args].concat(), variables);
            // A client that hears of the hang-up before it has written its request knows no more.
            for _ in 0..20 {
                if !ran.2.contains("operation was canceled") {
                    break;
                }
                ran = run(&[command, args].concat(), variables);
            }
            let (code, _, stderr) = ran;
            match words {
                None => assert_eq!((code, &*stderr), (0, ""), "{args:?}"),
                Some(words) => {
                    assert_eq!(code, 1, "{args:?}");
                    assert!(stderr.contains(words), "{args:?}: {stderr}");
                    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
                }
            }
            assert!(
                !stderr.contains(&key) && !stderr.contains(&wrong),
                "{stderr}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_serves_by_itself_is_told() {
    let folder = Folder::new();
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let mut params = CertificateParams::new(names).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pair = Pair {
        cert: params.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    };
    folder.put(&pair);
    let config = format!("[server]\n{}", folder.keys());
    let server = Server::configured(Script::instant(1), &config).await;
    let address = server.address.to_string();
    let ca = folder.path("..data/tls.crt").display().to_string();
    let args = [
        "ask",
        "What comes of it?",
        "--addr",
        &address,
        "--tls-ca",
        &ca,
    ];
    let (code, _, stderr) = run(&args, &[]);
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("is that of an authority (CA:TRUE); give the server one that"),
        "{stderr}"
    );
}

/// The server says so when the handshake is over for the client.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_the_server_wants_is_told_with_its_flags() {
    let (authority, clients, folder) = (Authority::new(), Authority::new(), Folder::new());
    folder.put(&authority.server());
    let put = |name: &str, pem: &str| {
        fs::write(folder.path(name), pem).unwrap();
        folder.path(name).display().to_string()
    };
    let (mine, other) = (clients.client(), Authority::new().client());
    let (ca, client_ca) = (put("ca", &authority.pem), put("clients", &clients.pem));
    let (cert, key) = (put("cert", &mine.cert), put("key", &mine.key));
    let (other_cert, other_key) = (put("other", &other.cert), put("other_key", &other.key));
    let config = format!("[server]\n{}tls_client_ca = {client_ca:?}\n", folder.keys());
    let server = Server::configured(Script::instant(1), &config).await;
    let address = server.address.to_string();
    let ask = [
        "ask",
        "What comes of it?",
        "--addr",
        &address,
        "--tls-ca",
        &ca,
    ];
    for (flags, code, words) in [
        (
            &[][..],
            1,
            "the server wants a client certificate: name yours and its key with --tls-cert and",
        ),
        (
            &["--tls-cert", &other_cert, "--tls-key", &other_key],
            1,
            "the server does not accept the client certificate (",
        ),
        (&["--tls-cert", &cert, "--tls-key", &key], 0, ""),
    ] {
        let args = [&ask[..], flags].concat();
        let mut ran = run(&args, &[]);
        // A client that is still writing when the server hangs up may not hear why.
        for _ in 0..20 {
            if ran.2.contains(words) {
                break;
            }
            ran = run(&args, &[]);
        }
        assert_eq!(ran.0, code, "{flags:?}: {}", ran.2);
        assert!(ran.2.contains(words), "{flags:?}: {}", ran.2);
    }
}

/// A client of MCP starts the bridge by itself, so nobody sees a warning of it.
#[test]
fn the_bridge_sends_no_key_in_the_clear() {
    for (args, variables, words) in [
        (
            &["--addr", "192.0.2.1:9"][..],
            ("SPECHOP_KEY", "spechop.me.secret"),
            "would go to 192.0.2.1:9 in the clear",
        ),
        (
            &["--addr", "192.0.2.1:9", "--key-env", "MINE"],
            ("MINE", "spechop.me.secret"),
            "would go to 192.0.2.1:9 in the clear",
        ),
        (
            &["--api-key-env", "MINE"],
            ("SPECHOP_KEY", "spechop.me.secret"),
            "the variable MINE holds no API key",
        ),
        (
            &[],
            ("SPECHOP_KEY", "two\u{7f}"),
            "characters that a header cannot carry",
        ),
    ] {
        let (code, stdout, stderr) = run(&[&["mcp"], args].concat(), &[variables]);
        assert_eq!((code, &*stdout), (1, ""), "{stderr}");
        assert!(
            stderr.contains(words) && !stderr.contains("secret"),
            "{stderr}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bridge_speaks_tls() {
    let (authority, folder) = (Authority::new(), Folder::new());
    folder.put(&authority.server());
    let client = authority.client();
    let hello = concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
        r#""capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
        "\n"
    );
    let other = Authority::new();
    let [ca, other, cert, key, hello, empty] = [
        ("ca.pem", &*authority.pem),
        ("other.pem", &*other.pem),
        ("client.pem", &*client.cert),
        ("client.key", &*client.key),
        ("hello.json", hello),
        ("empty.pem", ""),
    ]
    .map(|(name, text)| {
        fs::write(folder.path(name), text).unwrap();
        folder.path(name).display().to_string()
    });
    let config = format!("[server]\n{}tls_client_ca = \"{ca}\"\n", folder.keys());
    let server = Server::configured(Script::instant(1), &config).await;
    let [bare, https, http] =
        ["", "https://", "http://"].map(|scheme| format!("{scheme}{}", server.address));
    let own = ["--tls-cert", &cert, "--tls-key", &key];
    for (args, words) in [
        (&["--addr", &*bare, "--tls-ca", &ca][..], None),
        (
            &["--addr", &https, "--tls-ca", &ca, "--tls-name", "localhost"],
            None,
        ),
        (
            &["--addr", &bare, "--tls-ca", &ca, "--tls-name", "127.0.0.1"],
            Some("\"127.0.0.1\" is no DNS name"),
        ),
        (
            &[
                "--addr",
                &bare,
                "--tls-ca",
                &ca,
                "--tls-name",
                "else.example",
            ],
            Some("did not take the request"),
        ),
        (
            &["--addr", &bare, "--tls-ca", &other],
            Some("did not take the request"),
        ),
        (
            &["--addr", &bare, "--tls-ca", &empty],
            Some("holds no certificate"),
        ),
        (&["--addr", &http, "--tls-ca", &ca], Some("is without TLS")),
    ] {
        let mut bridge = shell::spechop(&[&["mcp"], args, &own].concat());
        let input = fs::File::open(&hello).unwrap();
        let (code, stdout, stderr) = shell::output(bridge.stdin(input));
        let said = format!("{stdout}{stderr}");
        let is_answered = stdout.contains("\"serverInfo\"");
        assert_eq!(is_answered, words.is_none(), "{args:?}: {said}");
        assert!(said.contains(words.unwrap_or_default()), "{args:?}: {said}");
        assert!(code == 0 || words.is_some(), "{args:?}: {said}");
    }
}
