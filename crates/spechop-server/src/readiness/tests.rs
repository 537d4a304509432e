//! Which parts there are, and what is said if they are missing.

use std::sync::atomic::Ordering;

use spechop_config::{Allowance, Style};
use spechop_llm::PromptStyle;
use spechop_testkit::{CellMap, OwnPort, Script};
use spechop_types::{Budget, Tenant};
use tokio::net::TcpListener;

use super::*;
use crate::accounts::{Accounts, SharedCounts};
use crate::server_state::scripted::state;

#[test]
fn an_address_names_a_host_and_a_port() {
    for (url, expected) in [
        ("http://127.0.0.1:8080/v1", Some(("127.0.0.1", 8080))),
        ("https://api.example.org/v1", Some(("api.example.org", 443))),
        ("http://searx", Some(("searx", 80))),
        ("rediss://team@10.0.0.7/2", Some(("10.0.0.7", 6379))),
        ("http://[::1]:6334", Some(("::1", 6334))),
        ("what?", None),
    ] {
        let expected = expected.map(|(host, port)| (host.to_owned(), port));
        assert_eq!(places([url]).pop(), expected, "{url}");
    }
}

fn part(name: &'static str, is_needed: bool, places: &[u16]) -> Part {
    let place = |port: &u16| ("127.0.0.1".to_owned(), *port);
    Part {
        name,
        is_needed,
        is_replaceable: name == role::GENERATOR,
        places: places.iter().map(place).collect(),
    }
}

/// The names of the parts that are not there, and whether questions can be answered.
async fn look(parts: Vec<Part>, vitals: &Vitals) -> (Vec<&'static str>, bool) {
    let readiness = Readiness {
        parts,
        vitals: vitals.clone(),
        follower: Follower::default(),
        shared: None,
        heard: Mutex::default(),
    };
    let ready = readiness.look(false).await;
    assert!(!readiness.look(true).await.ready, "it is closing");
    let told = serde_json::to_string(&ready).unwrap();
    assert!(!told.contains('/'), "no path: {told}");
    let parts = ready.parts.into_iter().filter(|part| !part.ready);
    (parts.map(|part| part.name).collect(), ready.ready)
}

const WEB: &str = "[target]\nkind = \"web\"\n[web.searxng]\nurl = \"https://search.example.org\"\n[web]\nproviders = [\"searxng\"]\n";

#[tokio::test]
async fn beside_another_target_an_index_is_not_needed() {
    let (state, _) = state(Script::instant(1), WEB);
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        index_dir: dir.path().to_owned(),
        ..Config::clone(&state.config())
    };
    let index = parts(&config);
    let index = index.iter().find(|part| part.name == role::INDEX);
    assert!(!index.unwrap().is_needed);
}

/// Who of generator, reader and encoder questions need, and for whom the fallback stands in.
#[tokio::test]
async fn what_is_needed_follows_from_the_configuration() {
    const AT: &str = "kind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:8080/v1\"\n";
    let generator = format!("[generator]\n{AT}");
    let fallback = format!("[fallback]\n{AT}");
    let reader = format!("[reader]\n{AT}");
    let (both, alone) = (vec![role::GENERATOR, role::READER], vec![role::GENERATOR]);
    // A fallback in steps plans, and cannot read.
    let (reads, plans) = (PromptStyle::default(), Style::Steps);
    for (toml, style, needed, replaceable) in [
        (format!("{generator}{reader}"), None, &both, vec![]),
        (
            format!("{generator}{reader}{fallback}"),
            Some(Style::Chat(reads)),
            &both,
            both.clone(),
        ),
        (
            format!("{generator}{reader}{fallback}"),
            Some(plans),
            &both,
            alone.clone(),
        ),
        (
            format!("{generator}{fallback}"),
            Some(Style::Chat(reads)),
            &alone,
            alone.clone(),
        ),
        (
            format!("{generator}{fallback}"),
            Some(plans),
            &alone,
            vec![],
        ),
    ] {
        let (state, _) = state(Script::instant(1), &toml);
        for (target, wants_encoder) in [(Target::Index, true), (state_web(), false)] {
            let mut config = Config {
                target,
                ..Config::clone(&state.config())
            };
            if let (Some(fallback), Some(style)) = (&mut config.fallback, style) {
                fallback.style = style;
            }
            let parts = parts(&config);
            let names = |is: fn(&Part) -> bool| {
                let of = [role::GENERATOR, role::READER];
                let parts = parts
                    .iter()
                    .filter(|part| of.contains(&part.name) && is(part));
                parts.map(|part| part.name).collect::<Vec<_>>()
            };
            assert_eq!(names(|part| part.is_needed), *needed, "{toml}");
            assert_eq!(names(|part| part.is_replaceable), replaceable, "{toml}");
            let encoder = parts.iter().find(|part| part.name == role::ENCODER);
            assert_eq!(encoder.unwrap().is_needed, wants_encoder, "{toml}");
        }
    }
}

fn state_web() -> Target {
    let (state, _) = state(Script::instant(1), WEB);
    Config::clone(&state.config()).target
}

#[tokio::test]
async fn a_proxy_of_the_environment_hides_models_elsewhere() {
    for (host, is_hidden) in [("models.example.org", true), ("127.0.0.1", false)] {
        let toml = format!(
            "[generator]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://{host}:8080/v1\""
        );
        let (state, _) = state(Script::instant(1), &toml);
        let config = Config {
            is_proxied: true,
            ..Config::clone(&state.config())
        };
        let generator = parts(&config).into_iter().next().unwrap();
        assert_eq!(generator.places.is_empty(), is_hidden, "{host}");
    }
}

#[tokio::test]
async fn what_only_a_proxy_reaches_is_not_asked() {
    const AWAY: &str = "https://search.example.org";
    const PROXY: &str = "proxy = \"http://proxy.example.org:3128\"\n";
    let place = |host: &str, port: u16| vec![(host.to_owned(), port)];
    for (url, proxy, expected) in [
        (AWAY, "", place("search.example.org", 443)),
        (AWAY, PROXY, Vec::new()),
        // No proxy stands before this machine.
        ("http://127.0.0.1:8080", PROXY, place("127.0.0.1", 8080)),
    ] {
        let web = WEB.replace(AWAY, url);
        let (state, _) = state(Script::instant(1), &format!("{web}{proxy}"));
        let parts = parts(&state.config());
        let web = parts.into_iter().find(|part| part.name == "web").unwrap();
        assert_eq!(web.places, expected, "{url} {proxy}");
    }
}

#[tokio::test]
async fn what_is_missing_is_told_by_name() {
    let there = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let up = there.local_addr().unwrap().port();
    let nobody = OwnPort::reserve();
    let down = nobody.number();
    let vitals = Vitals::default();
    for (parts, missing, is_ready) in [
        (vec![part("index", true, &[])], vec![], true),
        (vec![part("qdrant", true, &[down, up])], vec![], true),
        (vec![part("qdrant", true, &[down])], vec!["qdrant"], false),
        (vec![part("memory", false, &[down])], vec!["memory"], true),
        (
            vec![
                part(role::GENERATOR, true, &[down]),
                part(role::FALLBACK, false, &[]),
            ],
            vec![role::GENERATOR],
            true,
        ),
        (
            vec![
                part(role::GENERATOR, true, &[down]),
                part(role::FALLBACK, false, &[down]),
            ],
            vec![role::GENERATOR, role::FALLBACK],
            false,
        ),
    ] {
        let seen = look(parts, &vitals).await;
        assert_eq!(seen, (missing, is_ready));
    }
}

/// A Redis that takes a connection, and not what is written.
#[tokio::test]
async fn accounts_are_missing_if_they_could_not_be_exchanged() {
    let there = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let up = there.local_addr().unwrap().port();
    let cells = Arc::new(CellMap::default());
    cells.is_down.store(true, Ordering::Relaxed);
    let shared = Arc::new(Shared::new(cells, SharedCounts::default()));
    let readiness = Readiness {
        parts: vec![part(ACCOUNTS, false, &[up])],
        vitals: Vitals::default(),
        follower: Follower::default(),
        shared: Some(Arc::clone(&shared)),
        heard: Mutex::default(),
    };
    let is_there = async || readiness.look(false).await.parts[0].ready;
    assert!(is_there().await);
    let allowance = Allowance {
        period: Duration::from_hours(1),
        time: None,
        target_calls: Some(3),
        tokens: None,
        money: None,
    };
    let accounts = Accounts::new(allowance, Some(shared));
    let hold = accounts.hold(&Tenant::default(), Budget::default()).await;
    drop(hold.unwrap());
    assert!(!is_there().await);
    assert!(readiness.look(false).await.ready, "answers do without");
}

#[tokio::test]
async fn what_is_broken_is_told_by_what_it_is_used_for() {
    for (broken, parts, is_ready) in [
        (
            role::INDEX,
            [(role::INDEX, true), (role::ENCODER, true)],
            false,
        ),
        (
            role::INDEX,
            [(role::INDEX, false), (role::ENCODER, true)],
            true,
        ),
        (
            role::GENERATOR,
            [(role::GENERATOR, true), (role::FALLBACK, false)],
            true,
        ),
    ] {
        let vitals = Vitals::default();
        let path = "passage index /home/ann/indexes/w";
        vitals.of(broken).fail(path, "its files were cut");
        let parts = parts.map(|(name, is_needed)| part(name, is_needed, &[]));
        let seen = look(parts.into(), &vitals).await;
        assert_eq!(seen, (vec![broken], is_ready));
    }
    let vitals = Vitals::default();
    vitals.fail("reader r", "its threads have stopped");
    let parts = vec![part(role::READER, true, &[])];
    assert_eq!(look(parts, &vitals).await, (vec!["other"], false));
}
