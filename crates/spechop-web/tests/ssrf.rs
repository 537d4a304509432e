//! Addresses that must never be reached, and the tricks that hide them.
//!
//! A trap listens on every loopback address and counts connections. Its port is open to the public
//! internet, so nothing but the check of the address keeps a request from it.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::Arc;

use crate::support::{self, Names, PROXIES, Site, article, options, read};
use spechop_web::page::{HttpPageReader, PageFailure, PageOptions};
use url::Url;

/// Without IPv6 there is nothing to reach by it.
fn has_six() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// A listener on all addresses of this machine, those of IPv6 among them.
fn trap() -> Site {
    let all = match has_six() {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => IpAddr::from(Ipv4Addr::UNSPECIFIED),
    };
    let answer = |_: &str, answer: &mut support::Answer<'_>| answer.page(article("Trap"));
    Site::on(TcpListener::bind((all, 0)).unwrap(), answer)
}

/// A server on the public internet that also connects to that port.
fn public(port: u16) -> PageOptions {
    PageOptions {
        ports: vec![80, 443, port],
        ..options(&[])
    }
}

#[track_caller]
fn assert_forbidden(outcome: &Result<spechop_web::page::Page, PageFailure>, what: &str) {
    assert!(
        matches!(outcome, Err(PageFailure::Forbidden { .. })),
        "{what}: {outcome:?}"
    );
}

/// `{p}` is the port of the trap.
const ADDRESSES: &[&str] = &[
    // Loopback, in every form that a URL may have.
    "http://127.0.0.1:{p}/",
    "http://127.0.0.1.:{p}/",
    "http://127.1:{p}/",
    "http://127.0.1:{p}/",
    "http://127.255.255.254:{p}/",
    "http://2130706433:{p}/",
    "http://017700000001:{p}/",
    "http://0x7f000001:{p}/",
    "http://0x7F.0.0.1:{p}/",
    "http://0177.0.0.1:{p}/",
    "http://0177.0.0.01:{p}/",
    "http://0x7f.1:{p}/",
    "http://0x7f.0x0.0x0.0x1:{p}/",
    "http://127.0x1:{p}/",
    "http://00000177.0.0.1:{p}/",
    "http://%31%32%37.0.0.1:{p}/",
    "http://127%2e0%2e0%2e1:{p}/",
    "http://①②⑦.⓪.⓪.①:{p}/",
    "http://１２７.０.０.１:{p}/",
    "http://127。0。0。1:{p}/",
    "http://127．0．0．1:{p}/",
    "http://127.0.0.1\u{ad}:{p}/",
    "http://127.0.0\u{200b}.1:{p}/",
    "http:\\\\127.0.0.1:{p}\\",
    "http:/127.0.0.1:{p}/",
    "http:127.0.0.1:{p}/",
    "http:///127.0.0.1:{p}/",
    "hTTp://127.0.0.1:{p}/",
    " http://127.0.0.1:{p}/ ",
    "ht\ntp://127.0.\t0.1:{p}/",
    "http://127.0.0.1:{p}/#@example.org",
    "http://127.0.0.1:{p}?@example.org/",
    "http://127.0.0.1:{p}\\@example.org/",
    // The address that means all of them.
    "http://0.0.0.0:{p}/",
    "http://0:{p}/",
    "http://0x0:{p}/",
    "http://0.1.2.3:{p}/",
    // IPv6, and IPv4 in its clothes.
    "http://[::1]:{p}/",
    "http://[0:0:0:0:0:0:0:1]:{p}/",
    "http://[0000::0001]:{p}/",
    "http://[::]:{p}/",
    "http://[::127.0.0.1]:{p}/",
    "http://[::7f00:1]:{p}/",
    "http://[::ffff:127.0.0.1]:{p}/",
    "http://[::ffff:7f00:1]:{p}/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:{p}/",
    "http://[::ffff:0:127.0.0.1]:{p}/",
    "http://[::ffff:169.254.169.254]:{p}/",
    "http://[::ffff:0.0.0.0]:{p}/",
    "http://[64:ff9b::127.0.0.1]:{p}/",
    "http://[64:ff9b::a9fe:a9fe]:{p}/",
    "http://[64:ff9b:1::7f00:1]:{p}/",
    "http://[2002:7f00:1::]:{p}/",
    "http://[2002:a9fe:a9fe::1]:{p}/",
    "http://[2001:0:7f00:1::80ff:fffe]:{p}/",
    "http://[2001:10::1]:{p}/",
    "http://[2001:20::1]:{p}/",
    "http://[2001:2::1]:{p}/",
    "http://[2001:db8::1]:{p}/",
    "http://[3fff::1]:{p}/",
    "http://[100::1]:{p}/",
    "http://[5f00::1]:{p}/",
    "http://[fc00::1]:{p}/",
    "http://[fd00:ec2::254]:{p}/latest/meta-data/",
    "http://[fd12:3456:789a::1]:{p}/",
    "http://[fe80::1]:{p}/",
    "http://[fe80::1%25eth0]:{p}/",
    "http://[fec0::1]:{p}/",
    "http://[ff02::1]:{p}/",
    "http://[ff0e::1]:{p}/",
    // Neighbours, metadata services, and what is no single machine.
    "http://10.0.0.1:{p}/",
    "http://10.255.255.255:{p}/",
    "http://167772161:{p}/",
    "http://012.1.2.3:{p}/",
    "http://172.16.0.1:{p}/",
    "http://172.31.255.255:{p}/",
    "http://192.168.0.1:{p}/",
    "http://0xc0a80001:{p}/",
    "http://169.254.169.254:{p}/latest/meta-data/",
    "http://169.254.170.2:{p}/v2/credentials",
    "http://2852039166:{p}/",
    "http://0xa9fea9fe:{p}/",
    "http://0251.0376.0251.0376:{p}/",
    "http://425.510.425.510:{p}/",
    "http://168.63.129.16:{p}/",
    "http://100.64.0.1:{p}/",
    "http://100.100.100.200:{p}/latest/meta-data/",
    "http://192.0.0.192:{p}/",
    "http://192.0.2.1:{p}/",
    "http://192.88.99.1:{p}/",
    "http://198.18.0.1:{p}/",
    "http://198.51.100.1:{p}/",
    "http://203.0.113.1:{p}/",
    "http://224.0.0.1:{p}/",
    "http://239.255.255.255:{p}/",
    "http://240.0.0.1:{p}/",
    "http://255.255.255.255:{p}/",
    // Names of neighbours.
    "http://localhost:{p}/",
    "http://LOCALHOST:{p}/",
    "http://localhost.:{p}/",
    "http://ⓛocalhost:{p}/",
    "http://loc%61lhost:{p}/",
    "http://a.localhost:{p}/",
    "http://localhost.localdomain:{p}/",
    "http://printer.local:{p}/",
    "http://metadata.google.internal:{p}/computeMetadata/v1/",
    "http://router.home.arpa:{p}/",
    "http://metadata:{p}/",
    // Credentials, schemes, ports.
    "http://user@example.org:{p}/",
    "http://user:password@example.org:{p}/",
    "http://:password@example.org:{p}/",
    "http://example.org:{p}@127.0.0.1:{p}/",
    "http://example.org%2f@127.0.0.1:{p}/",
    "http://example.org&@127.0.0.1:{p}#@example.org/",
    "ftp://127.0.0.1:{p}/",
    "ws://127.0.0.1:{p}/",
    "gopher://127.0.0.1:{p}/_GET",
    "dict://127.0.0.1:{p}/stat",
    "ldap://127.0.0.1:{p}/",
    "file:///etc/passwd",
    "file://127.0.0.1/etc/passwd",
    "jar:http://127.0.0.1:{p}!/",
    "view-source:http://127.0.0.1:{p}/",
    "data:text/html,hello",
    "javascript:fetch('http://127.0.0.1:{p}')",
    "unix:/var/run/docker.sock",
    "http://example.org:22/",
    "http://example.org:6379/",
    "https://example.org:8443/",
    "http://example.org:0/",
];

#[tokio::test]
async fn none_of_these_addresses_is_reached() {
    assert!(ADDRESSES.len() >= 80);
    let trap = trap();
    // A resolver that leads everything into the trap.
    struct All;
    impl reqwest::dns::Resolve for All {
        fn resolve(&self, _name: reqwest::dns::Name) -> reqwest::dns::Resolving {
            let trap = [
                (Ipv4Addr::LOCALHOST, 0_u16).into(),
                (Ipv6Addr::LOCALHOST, 0_u16).into(),
            ];
            Box::pin(async move { Ok(Box::new(trap.into_iter()) as reqwest::dns::Addrs) })
        }
    }
    let reader = HttpPageReader::with_names(public(trap.port()), Arc::new(All)).unwrap();
    let mut refused = 0;
    for address in ADDRESSES {
        let address = address.replace("{p}", &trap.port().to_string());
        // What is no URL never becomes a request.
        if Url::parse(&address).is_ok() {
            assert_forbidden(&read(&reader, &address).await, &address);
            refused += 1;
        }
    }
    // Most of them are URLs, or the test would prove nothing.
    assert!(refused >= 110, "{refused}");
    assert_eq!(trap.connections(), 0);

    // The trap works: as soon as it is allowed, it is reached.
    let open = PageOptions {
        allow: ["127.0.0.0/8", "::1"]
            .map(|net| net.parse().unwrap())
            .into(),
        ..public(trap.port())
    };
    let reader = HttpPageReader::new(open).unwrap();
    let mut loopback = vec!["127.0.0.1"];
    loopback.extend(has_six().then_some("[::1]"));
    for (n, host) in (1..).zip(loopback) {
        let url = format!("http://{host}:{}/", trap.port());
        let page = read(&reader, &url).await.unwrap();
        assert_eq!((&*page.title, trap.connections()), ("Trap", n), "{host}");
    }
}

#[tokio::test]
async fn a_name_counts_for_what_it_stands_for() {
    let trap = trap();
    let names = Names::of(&[
        ("plain.example", &[&["127.0.0.1"]]),
        ("six.example", &[&["::1"]]),
        ("mapped.example", &[&["::ffff:127.0.0.1"]]),
        ("translated.example", &[&["64:ff9b::7f00:1"]]),
        ("zero.example", &[&["0.0.0.0"]]),
        ("cloud.example", &[&["169.254.169.254", "fd00:ec2::254"]]),
        ("127.0.0.1.nip.example", &[&["127.0.0.1"]]),
        // What an alias of an alias ends in.
        ("alias.example", &[&["10.0.0.1", "127.0.0.1", "::1"]]),
        ("nothing.example", &[&[]]),
    ]);
    let reader = HttpPageReader::with_names(public(trap.port()), names).unwrap();
    for name in [
        "plain.example",
        "PLAIN.example",
        "six.example",
        "mapped.example",
        "translated.example",
        "zero.example",
        "cloud.example",
        "127.0.0.1.nip.example",
        "alias.example",
    ] {
        let outcome = read(&reader, &format!("http://{name}:{}/", trap.port())).await;
        assert_forbidden(&outcome, name);
        // A stranger learns nothing about the network here.
        let message = outcome.unwrap_err().to_string();
        for private in ["169.254.169.254", "10.0.0.1", "::1"] {
            assert!(!message.contains(private), "{message}");
        }
    }
    for name in ["nothing.example", "unknown.example"] {
        let outcome = read(&reader, &format!("http://{name}:{}/", trap.port())).await;
        assert!(
            matches!(outcome, Err(PageFailure::Unreachable { .. })),
            "{outcome:?}"
        );
    }
    assert_eq!(trap.connections(), 0);
}

/// A site on one address of this machine, and a trap at another on the very same port.
fn at_two(
    here: &str,
    beside: &str,
    answer: impl Fn(&str, &mut support::Answer<'_>) + Send + Sync + 'static,
) -> (Site, Site) {
    let (here, beside) = on_one_port(here.parse().unwrap(), beside.parse().unwrap());
    let trap = |_: &str, answer: &mut support::Answer<'_>| answer.page(article("Trap"));
    (Site::on(here, answer), Site::on(beside, trap))
}

/// A port that is free at one address may be taken at the other, by a connection of another test.
fn on_one_port(here: IpAddr, beside: IpAddr) -> (TcpListener, TcpListener) {
    let pair = || {
        let here = TcpListener::bind((here, 0)).unwrap();
        let port = here.local_addr().unwrap().port();
        Some((here, TcpListener::bind((beside, port)).ok()?))
    };
    let mut tries = std::iter::repeat_with(pair).take(100);
    tries.find_map(|pair| pair).unwrap()
}

fn neighbours(
    answer: impl Fn(&str, &mut support::Answer<'_>) + Send + Sync + 'static,
) -> (Site, Site) {
    at_two("127.0.0.1", "127.0.0.2", answer)
}

#[tokio::test]
async fn a_name_that_changes_its_meaning_gains_nothing() {
    let mut pairs = vec![("127.0.0.1", "127.0.0.2")];
    if has_six() {
        pairs.extend([("127.0.0.1", "::1"), ("::1", "127.0.0.1")]);
    }
    for (here, beside) in pairs {
        let (site, trap) = at_two(here, beside, |_, answer| {
            let page = article("Site");
            // Each request looks the name up anew.
            answer.write(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\
                 Content-Length: {}\r\n\r\n{page}",
                page.len()
            ));
        });
        let names = Names::of(&[
            ("rebind.example", &[&[here], &[beside]]),
            ("both.example", &[&[beside, here]]),
        ]);
        let reader = HttpPageReader::with_names(options(&[&site]), names.clone()).unwrap();
        let url = |name: &str| format!("http://{name}:{}/", site.port());
        let page = read(&reader, &url("rebind.example")).await.unwrap();
        assert_eq!(&*page.title, "Site");
        // One look-up for one connection: what was checked is what was connected to.
        assert_eq!(names.asked("rebind.example"), 1);
        for _ in 0..3 {
            assert_forbidden(&read(&reader, &url("rebind.example")).await, beside);
        }
        // Of several addresses those that are open are used.
        let page = read(&reader, &url("both.example")).await.unwrap();
        assert_eq!((&*page.title, trap.connections()), ("Site", 0), "{beside}");
        // The trap works.
        let open = HttpPageReader::new(options(&[&trap])).unwrap();
        let page = read(&open, &trap.url("/")).await.unwrap();
        assert_eq!((&*page.title, trap.connections()), ("Trap", 1), "{beside}");
    }
}

#[tokio::test]
async fn redirects_lead_nowhere_else() {
    let (site, trap) = neighbours(|path, answer| {
        let (_, to) = path.split_once("?to=").unwrap_or_default();
        match path.split_once('?').map(|(path, _)| path) {
            Some("/go") => answer.redirect(to),
            // Two more stops on the way.
            Some("/far") => answer.redirect(&format!("/farther?to={to}")),
            Some("/farther") => answer.redirect(&format!("/go?to={to}")),
            Some(status) => {
                let status: u16 = status.trim_start_matches('/').parse().unwrap();
                answer.write(format!(
                    "HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"
                ));
            }
            None => answer.page(article("Site")),
        }
    });
    let names = Names::of(&[
        ("inside.example", &[&["127.0.0.2"]]),
        ("site.example", &[&["127.0.0.1"]]),
    ]);
    let reader = HttpPageReader::with_names(options(&[&site]), names).unwrap();
    let port = site.port();
    for to in [
        format!("http://127.0.0.2:{port}/"),
        format!("http://127.2:{port}/"),
        format!("http://2130706434:{port}/"),
        format!("http://0x7f000002:{port}/"),
        format!("http://0177.0.0.2:{port}/"),
        format!("http://[::ffff:127.0.0.2]:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("//127.0.0.2:{port}/"),
        format!("\\\\127.0.0.2:{port}\\"),
        format!("https://127.0.0.2:{port}/"),
        format!("http://inside.example:{port}/"),
        format!("http://localhost:{}/", port.wrapping_add(1).max(1)),
        format!("http://user:password@site.example:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://127.0.0.1/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "ftp://127.0.0.2/".to_owned(),
        "javascript:alert(1)".to_owned(),
        "data:text/html,hello".to_owned(),
    ] {
        for stop in ["go", "far", "301", "303", "307", "308"] {
            let outcome = read(&reader, &site.url(&format!("/{stop}?to={to}"))).await;
            assert_forbidden(&outcome, &to);
        }
    }
    assert_eq!(trap.connections(), 0);
    // The way is open to where it may lead.
    let page = read(
        &reader,
        &site.url(&format!("/far?to=http://site.example:{port}/end")),
    )
    .await
    .unwrap();
    assert_eq!(page.url.as_str(), format!("http://site.example:{port}/end"));
}

#[tokio::test]
async fn a_page_sends_nobody_anywhere_by_its_text() {
    let (site, trap) = neighbours(|_, answer| {
        let address = "http://127.0.0.2";
        let page = article("Site").replace(
            "<head>",
            &format!(
                "<head><meta http-equiv=refresh content='0;url={address}/'><base href={address}/>\
                 <link rel=stylesheet href=/a.css><script src={address}/b.js></script><img src={address}/c>"
            ),
        );
        answer.write(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nRefresh: 0;url={address}/\r\n\
             Link: <{address}/>; rel=preload\r\nAlt-Svc: h2=\"127.0.0.2:443\"\r\n\
             Content-Length: {}\r\n\r\n{page}",
            page.len()
        ));
    });
    let reader = HttpPageReader::new(options(&[&site])).unwrap();
    assert_eq!(&*read(&reader, &site.url("/")).await.unwrap().title, "Site");
    assert_eq!((site.requests().len(), trap.connections()), (1, 0));
}

/// Tells a test that runs in a process of its own which site to read.
const SITE: &str = "SPECHOP_TEST_SITE";

/// In the process of its own: reads the site. `None` outside of it.
async fn told_to_read() -> Option<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment is what is tested"
    )]
    let site = std::env::var(SITE).ok()?;
    let allow = vec![site.parse().unwrap()];
    let reader = HttpPageReader::new(PageOptions {
        allow,
        ..options(&[])
    })
    .unwrap();
    let page = read(&reader, &format!("http://{site}/")).await.unwrap();
    assert_eq!(&*page.title, "Site");
    Some(())
}

/// Runs a test of this file again, with this environment.
fn run_with(test: &str, site: &Site, environment: &[(&str, &str)]) {
    support::run_again(module_path!(), test, |child| {
        let environment = environment.iter().copied();
        child.envs(environment).env(SITE, site.address.to_string());
    });
    assert_eq!(site.connections(), 1, "{test}");
}

/// They would connect for us, and check nothing.
#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    if told_to_read().await.is_none() {
        let (site, proxy) = (
            Site::start(|_, answer| answer.page(article("Site"))),
            trap(),
        );
        let url = format!("http://127.0.0.1:{}", proxy.port());
        let environment = PROXIES.map(|name| (name, &*url));
        run_with(
            "proxies_of_the_environment_are_ignored",
            &site,
            &environment,
        );
        assert_eq!(proxy.connections(), 0);
    }
}

#[tokio::test]
async fn an_intranet_needs_no_root_certificates() {
    if told_to_read().await.is_none() {
        let site = Site::start(|_, answer| answer.page(article("Site")));
        let none = [
            ("SSL_CERT_FILE", "/dev/null"),
            ("SSL_CERT_DIR", "/nonexistent"),
        ];
        run_with("an_intranet_needs_no_root_certificates", &site, &none);
    }
}
