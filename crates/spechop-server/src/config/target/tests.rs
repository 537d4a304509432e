//! The way to the web: which proxy, with which login, and who goes past it.

use secrecy::ExposeSecret;

use super::*;

/// The web as these lines describe it, or what is wrong with them.
fn read(lines: &str) -> Result<Web, Vec<String>> {
    let variables = [
        ("WEB_PROXY_LOGIN", "user:secret"),
        ("NO_LOGIN", "secret"),
        ("BRAVE_KEY", "secret"),
    ];
    let env: Env = variables.into_iter().collect();
    let table = format!("[target]\nkind = \"web\"\n{lines}")
        .parse()
        .unwrap();
    let mut keys = Keys::new([], &env, "c.toml".into(), table);
    let read = target(&mut keys, &env);
    let mistakes = keys.finish();
    match read {
        Target::Web(web) if mistakes.is_empty() => Ok(*web),
        _ => Err(mistakes.iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn pages_and_providers_go_through_the_proxy_unless_they_are_direct() {
    let web = read(
        r#"
        [web]
        providers = ["searxng", "brave", "mediawiki"]
        proxy = "http://proxy.example:3128"
        proxy_login_env = "WEB_PROXY_LOGIN"
        [web.searxng]
        direct = true
        [web.brave]
        api_key_env = "BRAVE_KEY"
        "#,
    )
    .unwrap();
    let shown = format!("{:?}", web.pages.proxy.unwrap());
    assert!(shown.contains("http://proxy.example:3128/"), "{shown}");
    assert!(shown.contains("has_login: true"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    let engines = web.providers.iter();
    let endpoints = engines.map(|provider| provider.engine.endpoint());
    let proxied = endpoints.map(|endpoint| (&*endpoint.name, endpoint.proxy.is_some()));
    assert_eq!(
        proxied.collect::<Vec<_>>(),
        [("searxng", false), ("brave", true), ("mediawiki", true)]
    );
    let brave = web.providers[1].engine.endpoint();
    assert_eq!(brave.key.as_ref().unwrap().expose_secret(), "secret");
}

#[test]
fn without_a_proxy_everything_is_asked_directly() {
    let web = read("").unwrap();
    assert!(web.pages.proxy.is_none());
    let mut engines = web.providers.iter();
    assert!(engines.all(|provider| provider.engine.endpoint().proxy.is_none()));
}

#[test]
fn a_proxy_that_cannot_be_is_told_without_its_secrets() {
    for (lines, told) in [
        (
            "proxy = \"http://user:secret@proxy.example\"",
            "web.proxy (c.toml): it holds a user name or password",
        ),
        (
            "proxy = \"socks5://secret.example\"",
            "web.proxy (c.toml): expected an address such as",
        ),
        (
            "proxy = \"http://proxy.example\"\nproxy_login_env = \"NOT_THERE\"",
            "web.proxy_login_env (c.toml): the environment variable NOT_THERE is not set",
        ),
        (
            "proxy = \"http://proxy.example\"\nproxy_login_env = \"user:secret\"",
            "web.proxy_login_env (c.toml): expected",
        ),
        (
            "proxy = \"http://proxy.example\"\nproxy_login_env = \"NO_LOGIN\"",
            "web.proxy_login_env (c.toml): expected USER:PASSWORD",
        ),
        (
            "proxy_login_env = \"WEB_PROXY_LOGIN\"",
            "web.proxy_login_env (c.toml): a login needs a proxy: see web.proxy",
        ),
    ] {
        let mistakes = read(&format!("[web]\n{lines}")).expect_err(lines);
        assert_eq!(mistakes.len(), 1, "{lines}: {mistakes:?}");
        assert!(mistakes[0].starts_with(told), "{lines}: {mistakes:?}");
        assert!(!mistakes[0].contains("secret"), "{lines}: {mistakes:?}");
    }
}
