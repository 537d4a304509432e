//! Keys, TLS and who may be let in, as they are written.

use super::*;
use crate::api_keys::{Behalf, Cost, KeyName, NewKey, Role};

fn hash() -> String {
    let cost = Cost {
        memory_kib: 64,
        passes: 1,
    };
    let made = NewKey::generate(&KeyName::new("any").unwrap(), cost).unwrap();
    made.hash.as_str().to_owned()
}

fn key(name: &str, more: &str) -> String {
    format!(
        "[[keys]]\nname = \"{name}\"\nhash = \"{}\"\n{more}\n",
        hash()
    )
}

#[test]
fn a_key_is_of_nobody_and_may_ask_unless_it_says_otherwise() {
    let home = Home::new();
    let file = key("plain", "")
        + &key(
            "team",
            "tenant = \"team-7\"\nroles = [\"admin\", \"ask\"]\nrequests_per_second = 4",
        )
        + &key("proxy", "tenant = \"*\"");
    let callers = home.read(&file, &[], &[]).unwrap().callers;
    let [plain, team, proxy] = callers.keys.as_slice() else {
        panic!("{callers:?}")
    };
    assert_eq!(plain.behalf, Behalf::Of(Tenant::default()));
    assert_eq!((&*plain.roles, plain.rate), (&[Role::Ask][..], None));
    assert_eq!(team.behalf, Behalf::Of(Tenant::new("team-7").unwrap()));
    assert_eq!(team.roles, [Role::Ask, Role::Admin]);
    let rate = team.rate.unwrap();
    assert_eq!((rate.interval, rate.burst), (Duration::from_millis(250), 4));
    assert_eq!(proxy.behalf, Behalf::Anyone);
    assert!(!format!("{callers:?}").contains("argon2id"));
}

#[test]
fn several_tenants_share_the_places_and_one_has_all() {
    let home = Home::new();
    for (file, most) in [
        (String::new(), 32),
        (key("a", "tenant = \"t\"") + &key("b", "tenant = \"t\""), 32),
        (key("a", "tenant = \"t\"") + &key("b", "tenant = \"u\""), 16),
        (key("a", "tenant = \"*\""), 16),
        // Who reads the metrics asks nothing.
        (
            key("a", "tenant = \"t\"") + &key("m", "roles = [\"admin\"]"),
            32,
        ),
        (
            key("a", "tenant = \"t\"") + &key("m", "roles = [\"admin\", \"ask\"]"),
            16,
        ),
        ("[tenant]\nquestions_max = 3\n".to_owned(), 3),
    ] {
        let config = home.read(&file, &[], &[]).unwrap();
        let places = config.server.questions_max;
        assert_eq!(config.callers.questions_max(places), most, "{file}");
    }
}

#[test]
fn mistakes_in_keys_are_told_at_once_and_show_no_secret() {
    let home = Home::new();
    let file = "[[keys]]\nname = \"a b\"\nhash = \"spechop.a.secret\"\nroles = [\"asks\"]\ntenant = \"a/b\"\n";
    let mistakes = home.mistakes(file, &[]);
    assert_eq!(mistakes.len(), 4, "{mistakes:?}");
    for words in [
        "keys (c.toml): key 1 (a b): name: a key's name has",
        "key 1 (a b): hash: expected an Argon2id hash",
        "key 1 (a b): roles: there is no \"asks\"; there are \"ask\" and \"admin\"",
        "key 1 (a b): tenant: a tenant's name has",
    ] {
        assert!(
            mistakes.iter().any(|told| told.contains(words)),
            "{words}: {mistakes:?}"
        );
    }
    assert!(mistakes.iter().all(|told| !told.contains("secret")));
    for file in [
        "keys = [\"spechop.a.secret\"]",
        "[[keys]]\nname = \"spechop.a.secret\"\nhash = \"?\"",
        "[otlp]\nheaders = [\"authorization=Bearer secret\"]",
    ] {
        let mistakes = home.mistakes(file, &[]).join("\n");
        assert!(!mistakes.contains("secret"), "{mistakes}");
    }
    for (file, words) in [
        (key("a", "") + &key("a", ""), "two keys have the name \"a\""),
        (key("a", "roles = []"), "a key without a role may do nothing"),
        (key("a", "rolls = [\"ask\"]"), "unknown field `rolls`"),
        (key("a", "requests_burst = 2"), "requests_burst: only together with"),
        (key("a", "requests_per_second = 0"), "expected a number from 0.001"),
        ("[[keys]]\nname = \"a\"".to_owned(), "missing field `hash`"),
        ("keys = 5".to_owned(), "expected tables, each written as [[keys]]"),
        ("[keys]\nname = \"a\"".to_owned(), "found [keys] with one bracket"),
        ("[tenant]\nrequests_burst = 5".to_owned(), "only together with tenant.requests_per_second"),
        (
            "[[keys]]\nname = \"a\"\nhash = \"$argon2id$v=19$m=4194304,t=1,p=1$c2FsdHNhbHRzYWx0$NLEjT2EMiuQH0zS+5U8zhpQiDeX7eWYkzB7Nh8RtPNQ\""
                .to_owned(),
            "would take 4194304 KiB",
        ),
    ] {
        let mistakes = home.mistakes(&file, &[]);
        assert!(
            mistakes.len() == 1 && mistakes[0].contains(words),
            "{words}: {mistakes:?}"
        );
    }
}

#[test]
fn a_file_of_keys_adds_to_those_of_the_configuration() {
    let home = Home::new();
    let path = home.path("keys.toml");
    let config = format!(
        "{}[server]\nkeys_file = \"{}\"",
        key("a", ""),
        path.display()
    );
    let told = |text: Option<&str>| {
        match text {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        home.read(&config, &[], &[])
            .map(|config| config.callers.read().unwrap().len())
    };
    assert_eq!(told(Some(&key("b", ""))).unwrap(), 2);
    assert_eq!(told(Some("")).unwrap(), 1);
    for (text, words) in [
        (Some(&*key("a", "")), "two keys have the name \"a\""),
        (
            Some("[[keys]]\nname = \"b\""),
            "key 1 (b): missing field `hash`",
        ),
        (
            Some("[server]\nlisten = 1"),
            "may hold [[keys]] and nothing else",
        ),
        (Some("keys = 1\nkeys = 2"), "is not TOML: line 2: duplicate"),
        (None, "cannot be read"),
    ] {
        let InvalidConfig(mistakes) = told(text).unwrap_err();
        let told = mistakes.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(
            told.len() == 1
                && told[0].starts_with("server.keys_file (c.toml)")
                && told[0].contains(words),
            "{words}: {told:?}"
        );
    }
}

#[test]
fn the_files_of_tls_go_together() {
    let home = Home::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, signing) = (made.cert.pem(), made.signing_key.serialize_pem());
    fs::write(home.path("cert.pem"), cert).unwrap();
    fs::write(home.path("key.pem"), signing).unwrap();
    let server = |names: &[(&str, &str)]| {
        let line =
            |(key, file): &(&str, &str)| format!("{key} = \"{}\"\n", home.path(file).display());
        "[server]\n".to_owned() + &names.iter().map(line).collect::<String>()
    };
    let pair = [("tls_cert", "cert.pem"), ("tls_key", "key.pem")];
    let tls = home.read(&server(&pair), &[], &[]).unwrap().server.tls;
    let files = TlsFiles {
        cert: home.path("cert.pem"),
        key: home.path("key.pem"),
        client_ca: None,
    };
    assert_eq!(tls, Some(files));
    for (names, mistake) in [
        (
            &pair[..1],
            "server.tls_key (default): server.tls_cert needs it",
        ),
        (
            &pair[1..],
            "server.tls_cert (default): server.tls_key needs it",
        ),
        (
            &[("tls_client_ca", "cert.pem")],
            "server.tls_cert (default): server.tls_client_ca needs it",
        ),
        (
            &[("tls_cert", "key.pem"), ("tls_key", "key.pem")],
            "server.tls_cert (c.toml): ",
        ),
        (
            &[("tls_cert", "cert.pem"), ("tls_key", "cert.pem")],
            "server.tls_key (c.toml): ",
        ),
        (
            &[pair[0], pair[1], ("tls_client_ca", "key.pem")],
            "server.tls_client_ca (c.toml): ",
        ),
        (
            &[pair[0], ("tls_key", "none.pem")],
            "server.tls_key (c.toml): ",
        ),
    ] {
        let mistakes = home.mistakes(&server(names), &[]);
        assert!(
            mistakes.len() == 1 && mistakes[0].starts_with(mistake),
            "{mistake}: {mistakes:?}"
        );
    }
}

#[test]
fn whose_tokens_are_taken_is_said_whole() {
    const WHOLE: [&str; 3] = [
        "jwks = \"https://id.example.org/keys\"\n",
        "issuer = \"https://id.example.org/\"\n",
        "audience = \"spechop\"\n",
    ];
    let home = Home::new();
    let [jwks, issuer, audience] = WHOLE;
    let of = |lines: &[&str]| format!("[jwt]\n{}", lines.concat());
    let callers = home.read(&of(&WHOLE), &[], &[]).unwrap().callers;
    assert!(callers.wants_keys());
    // Its tokens may be of many tenants.
    assert_eq!(callers.questions_max(32), 16);
    let of_claims = |claim: &str| home.read(&of(&[claim]), &[], &[]).unwrap().callers;
    assert!(!of_claims("tenant_claim = \"team\"\n").wants_keys());
    let missing = format!("jwks = \"{}\"\n", home.path("keys.json").display());
    for (lines, mistake) in [
        (
            &[jwks, issuer][..],
            "jwt.audience (default): jwt.jwks needs it",
        ),
        (&[jwks, audience], "jwt.issuer (default): jwt.jwks needs it"),
        (
            &[issuer],
            "jwt.issuer (c.toml): only together with jwt.jwks",
        ),
        (
            &[audience],
            "jwt.audience (c.toml): only together with jwt.jwks",
        ),
        (
            &["jwks = \"http://id.example.org/keys\"\n", issuer, audience],
            "jwt.jwks (c.toml): expected https://",
        ),
        (
            &["jwks = \"ftp://id.example.org/keys\"\n", issuer, audience],
            "jwt.jwks (c.toml): the base URL of the token issuer is unusable",
        ),
        (&[&missing, issuer, audience], "jwt.jwks (c.toml): /"),
        (
            &["jwks = \"~/keys.json\"\n", issuer, audience],
            "jwt.jwks (c.toml): /",
        ),
    ] {
        let mistakes = home.mistakes(&of(lines), &[]);
        assert!(
            mistakes.len() == 1 && mistakes[0].starts_with(mistake),
            "{mistake}: {mistakes:?}"
        );
    }
}

#[test]
fn each_name_of_the_server_is_one_that_a_request_can_have() {
    let home = Home::new();
    let file = |hosts: &str| format!("[server]\nhosts = \"{hosts}\"\n");
    for (hosts, names) in [
        ("QA.example.org.", &["QA.example.org."][..]),
        ("[::1]", &["[::1]"]),
        ("a,b", &["a", "b"]),
        (" a , 10.0.0.1,", &["a", "10.0.0.1"]),
    ] {
        let config = home.read(&file(hosts), &[], &[]).unwrap();
        assert_eq!(config.server.transport.hosts, names, "{hosts}");
    }
    let wrong = |name: &str, how: &str| {
        format!("server.hosts (c.toml): `{name}` is no host name: write it {how}")
    };
    let bare = "without scheme, port and `*`";
    for (hosts, mistakes) in [
        (
            "qa.example.org:443",
            vec![wrong("qa.example.org:443", bare)],
        ),
        (
            "https://qa.example.org",
            vec![wrong("https://qa.example.org", bare)],
        ),
        ("a b", vec![wrong("a b", bare)]),
        ("*", vec![wrong("*", bare)]),
        (
            "bücher.example",
            vec![wrong("bücher.example", "in ASCII, as xn--…")],
        ),
        ("a,b:1,*.c", vec![wrong("b:1", bare), wrong("*.c", bare)]),
    ] {
        assert_eq!(home.mistakes(&file(hosts), &[]), mistakes);
    }
}

#[test]
fn other_machines_are_kept_out_unless_somebody_is_asked_for() {
    let home = Home::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(home.path("cert.pem"), made.cert.pem()).unwrap();
    fs::write(home.path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let file = |name: &str| home.path(name).display().to_string();
    let tls = format!(
        "tls_cert = \"{}\"\ntls_key = \"{}\"\n",
        file("cert.pem"),
        file("key.pem")
    );
    let mutual = format!("{tls}tls_client_ca = \"{}\"\n", file("cert.pem"));
    for (listen, more, valid) in [
        ("127.0.0.1:1", "", true),
        ("[::1]:1", "", true),
        ("0.0.0.0:1", "", false),
        ("[::]:1", "", false),
        ("192.168.0.7:1", "", false),
        // It says who the server is, not who asks.
        ("0.0.0.0:1", &tls, false),
        ("0.0.0.0:1", &mutual, true),
        ("0.0.0.0:1", "allow_remote = true\n", true),
        ("0.0.0.0:1", &key("a", ""), true),
    ] {
        let read = home.read(
            &format!("[server]\nlisten = \"{listen}\"\n{more}"),
            &[],
            &[],
        );
        assert_eq!(read.is_ok(), valid, "{listen} {more}: {read:?}");
        if let Err(error) = read {
            let error = error.to_string();
            assert!(
                error.contains("spechop keys new") && error.contains("--insecure"),
                "{error}"
            );
        }
    }
}
