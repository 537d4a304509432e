//! The way to the web: which proxy, with which login, and who goes past it; how often each provider
//! is asked, and how much of what it finds is read.

use secrecy::ExposeSecret;

use super::*;

/// The web as these lines describe it, or what is wrong with them.
fn read(lines: &str) -> Result<Web, Vec<String>> {
    let variables = [
        ("WEB_PROXY_LOGIN", "user:secret"),
        ("NO_LOGIN", "secret"),
        ("BRAVE_KEY", "secret"),
    ];
    let file = format!("[target]\nkind = \"web\"\n{lines}");
    match Keys::meaning(&file, &variables, target)? {
        Target::Web(web) => Ok(*web),
        other => panic!("{other:?}"),
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
    let endpoints = engines.map(|provider| &provider.engine.endpoint);
    let proxied = endpoints.map(|endpoint| (&*endpoint.name, endpoint.proxy.is_some()));
    assert_eq!(
        proxied.collect::<Vec<_>>(),
        [("searxng", false), ("brave", true), ("mediawiki", true)]
    );
    let brave = &web.providers[1].engine.endpoint;
    assert_eq!(brave.key.as_ref().unwrap().expose_secret(), "secret");
}

#[test]
fn without_a_proxy_everything_is_asked_directly() {
    let web = read("").unwrap();
    assert!(web.pages.proxy.is_none());
    let mut engines = web.providers.iter();
    assert!(engines.all(|provider| provider.engine.endpoint.proxy.is_none()));
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

/// The names of the providers, and what each takes.
fn lanes(lines: &str) -> Vec<(String, usize, Option<Rate>)> {
    let key = "[web.KIND]\napi_key_env = \"BRAVE_KEY\"\n";
    let keys = ["brave", "tavily", "serper"].map(|kind| key.replace("KIND", kind));
    let all = "[web]\nproviders = [\"searxng\", \"duckduckgo\", \"brave\", \"tavily\", \
               \"serper\", \"mediawiki\"]\n";
    let web = read(&format!("{all}{}{lines}", keys.concat())).unwrap();
    let one = |provider: &Provider| {
        let Limits { capacity, rate, .. } = provider.lanes;
        (
            provider.engine.endpoint.name.to_string(),
            capacity.get(),
            rate,
        )
    };
    web.providers.iter().map(one).collect()
}

#[test]
fn duckduckgo_is_asked_slowly_unless_a_rate_says_so_and_nobody_else_is() {
    let slow = Rate::every(Duration::from_secs(2)).ok();
    let quick = Rate::per_second(4.0, NonZeroU32::new(3).unwrap()).ok();
    let one = |name: &str, at_once, rate| (name.to_owned(), at_once, rate);
    for (lines, at_once, rate) in [
        ("", 1, slow),
        ("[scheduler.duckduckgo]\ncapacity = 2", 2, slow),
        (
            "[scheduler.duckduckgo]\nper_second = 4.0\nburst = 3",
            1,
            quick,
        ),
    ] {
        let expected = [
            one("searxng", 16, None),
            one("duckduckgo", at_once, rate),
            one("brave", 16, None),
            one("tavily", 16, None),
            one("serper", 16, None),
            one("mediawiki", 1, None),
        ];
        assert_eq!(lanes(lines), expected, "{lines}");
    }
}

#[test]
fn the_pages_of_five_results_are_read_unless_a_number_says_so() {
    let results = |lines: &str| read(lines).unwrap().options.results.get();
    assert_eq!(results(""), 5);
    assert_eq!(results("[web]\nresults = 7"), 7);
}

#[test]
fn engines_are_told_who_asks_as_sites_are_and_bring_as_much_text_along() {
    let web = read(
        r#"
        [web]
        providers = ["mediawiki", "duckduckgo", "tavily"]
        user_agent = "Acme/2"
        contact = "mailto:a@b.example"
        page_chars_max = 2000
        [web.tavily]
        api_key_env = "BRAVE_KEY"
        "#,
    )
    .unwrap();
    for provider in &web.providers {
        let endpoint = &provider.engine.endpoint;
        assert_eq!(endpoint.user_agent.as_deref(), Some("Acme/2"));
        assert_eq!(endpoint.contact.as_deref(), Some("mailto:a@b.example"));
        match provider.engine.kind {
            EngineKind::MediaWiki { text_chars_max } | EngineKind::Tavily { text_chars_max } => {
                assert_eq!(text_chars_max, 2000);
            }
            _ => {}
        }
    }
    assert_eq!(web.pages.text_chars_max, 2000);
}

#[test]
fn web_settings_with_which_no_server_starts_are_told_before_that() {
    for (lines, told) in [
        (
            "contact = \"Jürgen\"",
            "web.contact (c.toml): the contact \"Jürgen\" cannot be sent: it must be visible ASCII",
        ),
        (
            "user_agent = \"(bot)\"",
            "web.user_agent (c.toml): the user agent \"(bot)\" cannot be sent",
        ),
        (
            "ports = []",
            "web.ports (c.toml): no page can be read: ports and allow are both empty",
        ),
        (
            "ports = [\"http\"]",
            "web.ports (c.toml): \"http\" is no port",
        ),
    ] {
        let mistakes = read(&format!("[web]\n{lines}")).expect_err(lines);
        assert_eq!(mistakes.len(), 1, "{lines}: {mistakes:?}");
        assert!(mistakes[0].starts_with(told), "{lines}: {mistakes:?}");
    }
    let of_intranet = read("[web]\nports = []\nallow = [\"10.1.0.0/16\"]");
    assert!(of_intranet.is_ok(), "{of_intranet:?}");
    let of_another_target = Keys::meaning("[web]\nports = []", &[], target);
    assert!(of_another_target.is_ok(), "{of_another_target:?}");
}

#[test]
fn networks_are_closed_as_they_are_opened() {
    let nets = "[\"203.0.113.7\", \"::ffff:198.51.100.0/120\"]";
    let pages = read(&format!("[web]\nallow = {nets}\ndeny = {nets}"));
    let pages = pages.unwrap().pages;
    let opened = pages.allow.iter().map(|opening| opening.net.to_string());
    let closed = pages.deny.iter().map(|closing| closing.0.to_string());
    let expected = ["203.0.113.7/32", "198.51.100.0/24"];
    assert_eq!(opened.collect::<Vec<_>>(), expected);
    assert_eq!(closed.collect::<Vec<_>>(), expected);
    let mistakes = read("[web]\ndeny = [\"203.0.113.7:80\"]").unwrap_err();
    let told = "web.deny (c.toml): \"203.0.113.7:80\" is no network such as";
    assert!(mistakes[0].starts_with(told), "{mistakes:?}");
}

/// What was learnt of one engine says nothing of another behind the same address.
#[test]
fn who_answers_is_another_if_other_engines_do() {
    let who = |lines: &str| {
        let providers = "[web]\nproviders = [\"searxng\", \"duckduckgo\"]";
        let web = read(&format!("{providers}\n{lines}")).unwrap();
        Target::Web(Box::new(web)).who()
    };
    let usual = who("");
    let others = [
        who("[web.searxng]\nengines = \"en\""),
        who("[web.searxng]\nlanguage = \"en\""),
        who("[web.duckduckgo]\nregion = \"de-de\""),
    ];
    for (n, other) in others.iter().enumerate() {
        assert_ne!(*other, usual);
        assert!(!others[..n].contains(other), "{other}");
    }
    assert_eq!(who("page_chars_max = 2000"), usual, "the same ones");
}

/// The retriever of `[target]` with these lines, or what is wrong with them.
fn read_http(lines: &str) -> Result<HttpRetrieverOptions, Vec<String>> {
    let file = format!("[target]\nkind = \"http\"\n{lines}");
    match Keys::meaning(&file, &[("BAD_KEY", "secret\nsecret")], target)? {
        Target::Http(options) => Ok(*options),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_look_up_has_the_time_of_one_request_at_least() {
    let url = "url = \"http://127.0.0.1:8000/retrieve\"";
    for (lines, attempt, total) in [("", 10, 30), ("http_ms_max = 60000", 60, 60)] {
        let service = read_http(&format!("{url}\n{lines}")).unwrap().service;
        assert_eq!(service.endpoint.time_limit.as_secs(), attempt);
        assert_eq!(service.total.as_secs(), total);
    }
}

#[test]
fn an_address_or_a_key_that_cannot_be_sent_is_told_before_the_start() {
    for (lines, told) in [
        (
            "url = \"127.0.0.1:8000/retrieve\"",
            "target.url (c.toml): the base URL of retriever is unusable",
        ),
        (
            "url = \"http://user:secret@h/\"",
            "target.url (c.toml): the base URL of retriever is unusable: it holds a user name",
        ),
        (
            "url = \"http://h/?q=secret\"",
            "target.url (c.toml): the base URL of retriever is unusable: it holds a query",
        ),
        (
            "url = \"http://h/\"\napi_key_env = \"BAD_KEY\"",
            "target.api_key_env (c.toml): the key",
        ),
        ("", "target.url (default): kind = \"http\" needs it"),
    ] {
        let mistakes = read_http(lines).expect_err(lines);
        assert_eq!(mistakes.len(), 1, "{lines}: {mistakes:?}");
        assert!(mistakes[0].starts_with(told), "{lines}: {mistakes:?}");
        assert!(!mistakes[0].contains("secret"), "{lines}: {mistakes:?}");
    }
    let mistakes = read(
        "[web]\nproviders = [\"searxng\", \"duckduckgo\"]\n\
         [web.searxng]\nurl = \"127.0.0.1:8080\"\n[web.duckduckgo]\nurl = \"ftp://h/\"\n\
         [web.mediawiki]\nurl = \"of one that is not asked\"",
    )
    .unwrap_err();
    let keys = mistakes.iter().map(|mistake| mistake.split(' ').next());
    assert_eq!(
        keys.collect::<Vec<_>>(),
        [Some("web.searxng.url"), Some("web.duckduckgo.url")]
    );
}
