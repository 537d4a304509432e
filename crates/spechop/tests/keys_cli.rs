//! API keys and TLS as scripts see them: `spechop keys new`, and commands that reach a server with them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

#[path = "../../spechop-server/tests/support/pki.rs"]
mod pki;
mod shell;
#[path = "../../spechop-server/tests/support/mod.rs"]
mod support;

use std::fs;

use pki::{Authority, Folder};
use spechop_testkit::Script;
use support::Server;

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
            "the variable MINE is not set",
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
