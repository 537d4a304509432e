//! Tenants see nothing of each other: every memory of the server is asked by one tenant what another has
//! left there. The rule stands in `spechop-types/src/owned.rs`.
//!
//! | memory | asked by |
//! |---|---|
//! | vectors of queries | `query_vectors` below, `spechop-ports/src/recent.rs` |
//! | look-ups under way | `look_ups_under_way` below, `spechop-ports/src/shared_calls/tests.rs`, `spechop-sched/tests/backend/flights.rs` |
//! | names of open questions | `names_of_open_questions` below |
//! | estimates, history of `WhatIf`, k of `auto` | `what_was_learnt` below, also over a restart |
//! | results of searches, pages | `spechop-web/src/cache.rs`, on their way `spechop-web/src/cache/transfer_tests.rs` |
//! | what answers came from | `traffic` below, `spechop-server/src/hot/tests.rs` |
//! | verified look-ups | `remembered_look_ups` below, `spechop-speculate/src/memory/tests.rs`, `memory.rs` |
//! | KV of prompts | `spechop-llm/src/local/tests/tenants.rs`, with the real engine |
//! | outputs of tool calls | `spechop-server/tests/tool_cache.rs` |
//! | budgets | `a_tenant_spends_no_more_than_it_may` in `tuning.rs`, between servers `spechop-server/src/accounts/shared/tests.rs` |
//!
//! `every_memory_is_on_the_list` notices a new one.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use futures::future::join_all;
use spechop_ports::{Call, Encoder, GuessRequest, Lane, RecentQueries, Speculator, contract};
use spechop_proto::admin_client::AdminClient;
use spechop_proto::options::Width;
use spechop_proto::{GetTuningRequest, WhatIfRequest};
use spechop_server::{Counted, read_traffic};
use spechop_speculate::{Memory, MemoryOptions};
use spechop_testkit::{Script, TextVectors};
use spechop_types::{Chance, CommitKind, Hop, Observation, Question, SubQuestion, Tenant};
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{Server, apart, at, config, endless, eventually, finish, named, of, question};

#[tokio::test]
async fn query_vectors() {
    let encoded = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&encoded);
    let encoder = TextVectors::new("counting", 1, move |_: &str| {
        counted.fetch_add(1, SeqCst);
        vec![1.0]
    });
    let recent = RecentQueries::new(Arc::new(encoder), NonZeroUsize::new(8).unwrap());
    contract::cache(async |tenant: Tenant| {
        let before = encoded.load(SeqCst);
        let call = Call::of(tenant, Lane::Authoritative, Chance::CERTAIN);
        recent.encode_query(&call, "who directed it").await.unwrap();
        encoded.load(SeqCst) - before
    })
    .await;
}

#[tokio::test]
async fn remembered_look_ups() {
    let options = MemoryOptions {
        most: NonZeroUsize::new(8).unwrap(),
        similarity: 0.95,
    };
    let memory = Memory::new(Arc::new(apart()), options);
    contract::cache(async |tenant: Tenant| {
        let call = Call::of(tenant.clone(), Lane::Speculative, Chance::EVEN);
        let request = GuessRequest {
            question: Question::new("Who?").unwrap(),
            hops: Vec::new(),
            sub_question: SubQuestion::new("Who directed it?"),
            passages: NonZeroUsize::MIN,
            limit: NonZeroUsize::MIN,
        };
        let guessed = memory.guess(&call, request).await.unwrap();
        let hop = Hop {
            sub_question: SubQuestion::new("Who directed it?"),
            answer: "Wajda".into(),
            kind: CommitKind::Observed,
            guess: None,
            observation: Arc::new(Observation::read(Some("Wajda".into()), Vec::new())),
        };
        memory.committed(&tenant, &hop, |a, b| a == b);
        // What is not guessed is waited for.
        u64::from(guessed.guesses.is_empty())
    })
    .await;
}

/// What a hot subset made of such counts holds is in `spechop-server/src/hot/tests.rs`.
#[tokio::test]
async fn traffic() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("traffic.json");
    for (named, counted) in [("", None), ("hot_tenants = [\"a\"]", Some("a"))] {
        let toml = format!("[speculator]\ntraffic_file = {file:?}\n{named}");
        let script = Script::steady(&[true, true], 2, 40, 2);
        let mut server = Server::of(script, config(&toml)).await;
        for tenant in ["a", "b"] {
            let answer = server.client().await.ask(of(tenant, question())).await;
            assert_eq!(answer.unwrap().into_inner().hops.len(), 2);
        }
        server.shut_down();
        server.ended().await.unwrap();
        let found = read_traffic(&file).unwrap_or_default();
        let answers: u64 = found.iter().map(|counted| counted.answers).sum();
        assert_eq!(answers, counted.map_or(0, |_| 2), "{named}");
        let is_named = |found: &Counted| Some(found.tenant.as_str()) == counted;
        assert!(found.iter().all(is_named), "{found:?}");
        assert_eq!(file.exists(), counted.is_some());
    }
}

#[tokio::test]
async fn look_ups_under_way() {
    for (tenants, shared) in [(["a", "a"], 1), (["a", "b"], 0)] {
        let server = Server::start(endless()).await;
        let client = server.client().await;
        let ask = |tenant| {
            let mut client = client.clone();
            async move { client.ask(of(tenant, at(1))).await }
        };
        let (first, second) = (ask(tenants[0]), ask(tenants[1]));
        // Both segments, and the look-ups.
        let started = 4 - shared;
        tokio::select! {
            _ = first => panic!("there is no end to it"),
            _ = second => panic!("nor to this"),
            () = eventually(|| server.ports.started() == started) => {}
        }
        let backends = server.backends().await;
        let joined = backends.iter().map(|backend| backend.joined);
        assert_eq!(joined.sum::<u64>(), shared as u64, "{tenants:?}");
    }
}

#[tokio::test]
async fn names_of_open_questions() {
    let server = Server::start(endless()).await;
    let mut client = server.client().await;
    let _open = client.ask_stream(of("a", named("q"))).await.unwrap();
    let refused = client.finish_now(of("b", finish("q"))).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    // The name is free for b, and not for a.
    let _other = client.ask_stream(of("b", named("q"))).await.unwrap();
    let twice = client.ask_stream(of("a", named("q"))).await.unwrap_err();
    assert_eq!(twice.code(), Code::InvalidArgument);
    client.finish_now(of("b", finish("q"))).await.unwrap();
}

/// All that a tenant can see of what the server has learnt. The last thing is a question, from which
/// the server learns.
async fn seen(server: &Server, tenant: &str) -> [String; 3] {
    let mut admin = AdminClient::new(server.channel().await);
    let tuning = admin.get_tuning(of(tenant, GetTuningRequest {})).await;
    let what_if = admin.what_if(of(tenant, WhatIfRequest::default())).await;
    let auto = question().with(|asked| asked.width = Some(Width::AUTO));
    let answer = server.client().await.ask(of(tenant, auto)).await;
    let tuned = answer.unwrap().into_inner().applied.unwrap().tuned;
    [
        format!("{:?}", tuning.unwrap().into_inner()),
        format!("{:?}", what_if.unwrap().into_inner()),
        format!("{tuned:?}"),
    ]
}

#[tokio::test]
async fn what_was_learnt() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("tuning.json").display().to_string();
    let kept = config(&format!("[tuning]\nstate = {state:?}"));
    let script = || Script::steady(&[true, true, true], 2, 40, 2);
    let fresh = seen(&Server::start(script()).await, "b").await;

    let mut first = Server::of(script(), kept.clone()).await;
    for _ in 0..6 {
        let mut client = first.client().await;
        client.ask(of("a", question())).await.unwrap();
    }
    assert_eq!(seen(&first, "b").await, fresh);
    for (own, fresh) in seen(&first, "a").await.iter().zip(&fresh) {
        assert_ne!(own, fresh, "the server has learnt something");
    }
    first.shut_down();
    first.ended().await.unwrap();

    let second = Server::of(script(), kept).await;
    assert_eq!(seen(&second, "c").await, fresh);
    for (own, fresh) in seen(&second, "a").await.iter().zip(&fresh) {
        assert_ne!(own, fresh, "it is known after a restart");
    }
    let wrong = second.client().await.ask(of("a b", question())).await;
    assert_eq!(wrong.unwrap_err().code(), Code::InvalidArgument);
    let mut admin = AdminClient::new(second.channel().await);
    let tuning = admin.get_tuning(of("a b", GetTuningRequest {})).await;
    let what_if = admin.what_if(of("a b", WhatIfRequest::default())).await;
    for refused in [tuning.unwrap_err(), what_if.unwrap_err()] {
        assert_eq!(refused.code(), Code::InvalidArgument);
        let fields = refused.get_details_bad_request().unwrap().field_violations;
        assert_eq!(fields[0].field, "spechop-tenant");
    }
}

/// How many are computed at once is counted in `simulations.rs`.
#[tokio::test]
async fn a_crowd_of_simulations_is_answered_or_told_to_come_again() {
    let server = Server::start(Script::instant(2)).await;
    server.ask(question()).await.unwrap();
    let admin = AdminClient::new(server.channel().await);
    let calls = (0..300).map(|_| {
        let mut admin = admin.clone();
        async move { admin.what_if(WhatIfRequest::default()).await }
    });
    let mut answered = 0;
    for outcome in join_all(calls).await {
        match outcome {
            Ok(found) => {
                assert_eq!(found.into_inner().questions, 1);
                answered += 1;
            }
            Err(refused) => {
                assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
                assert!(refused.get_details_retry_info().is_some());
            }
        }
    }
    assert!(answered > 0);
}

/// Files with a lock: whatever several questions can change is behind one. Each is no memory, or its
/// keys have tenants. The one memory without a lock is the engine's (`spechop-llm/src/local/slots.rs`).
const LOCKS: &[(&str, &str)] = &[
    ("agent/src/journal.rs", "one question's calls"),
    ("agent/src/stages.rs", "one call's first guesses"),
    ("server/src/audit.rs", "answers that wait for an audit"),
    (
        "server/src/audit/counts.rs",
        "what audits found: OwnedCache",
    ),
    ("server/src/doors/page.rs", "the page's files"),
    ("server/src/metrics/questions.rs", "when one question ended"),
    ("server/src/jwt.rs", "the public keys of the token issuer"),
    ("server/src/drafts.rs", "since when the drafter is busy"),
    (
        "server/src/drafts/shared.rs",
        "tenants whose drafts are to be shared",
    ),
    ("server/src/readiness.rs", "parts that do not answer"),
    ("server/src/reload.rs", "when the configuration was read"),
    (
        "server/src/server_state.rs",
        "the configuration, and the accounts that it makes",
    ),
    (
        "server/src/shares.rs",
        "runs that their tenants have shared with whoever has the link",
    ),
    ("server/src/spans/queue.rs", "where spans come from"),
    (
        "server/src/transport/mod.rs",
        "what of the transport may change",
    ),
    ("agent/src/settings.rs", "one question's bill"),
    (
        "draft/src/drafter.rs",
        "what is asked after what: OwnedCache (asked in server/src/drafts/tests.rs)",
    ),
    ("embed/src/runtime.rs", "the library that is loaded"),
    ("embed/src/worker.rs", "calls that wait"),
    ("llm/src/local/kept.rs", "KV of prompts: Owned"),
    ("llm/src/local/queue.rs", "calls that wait: Owned"),
    ("mcp/src/calls.rs", "calls under way: by tenant"),
    (
        "mcp/src/line.rs",
        "the program that was started last, while one start lasts",
    ),
    ("mcp/src/process.rs", "how one program has ended"),
    ("mcp/src/streamable.rs", "the session that was opened last"),
    ("ports/src/call.rs", "one call's seat"),
    ("ports/src/clock.rs", "what a call is doing"),
    ("ports/src/fallback.rs", "what the log has heard"),
    ("ports/src/recent.rs", "vectors of queries: OwnedCache"),
    (
        "sched/src/backend.rs",
        "calls that wait or run, and how many",
    ),
    ("ports/src/vitals.rs", "parts that are broken"),
    (
        "ports/src/shared_calls.rs",
        "calls under way: Owned (asked of pages in web/src/cache/transfer_tests.rs)",
    ),
    ("qdrant/src/cluster.rs", "the connections to a node"),
    ("qdrant/src/memory.rs", "when a collection was seen to fit"),
    (
        "qdrant/src/retriever.rs",
        "when a collection was seen to fit",
    ),
    ("redis/src/lib.rs", "the connection"),
    ("sched/src/flight.rs", "why one run failed"),
    ("server/src/accounts.rs", "budgets: by tenant"),
    (
        "server/src/accounts/shared.rs",
        "what other servers have of budgets: by tenant",
    ),
    (
        "server/src/accounts/shared/clock.rs",
        "a moment by two clocks",
    ),
    (
        "server/src/keys.rs",
        "digests of keys, and their rates: by key",
    ),
    (
        "server/src/places.rs",
        "open questions and those in line: by tenant (asked in waiting.rs)",
    ),
    (
        "server/src/hot.rs",
        "whether the hot subset was chosen anew",
    ),
    (
        "server/src/finder.rs",
        "passages that were found: OwnedCache (asked in server/tests/mcp.rs)",
    ),
    ("server/src/hot/subset.rs", "the hot subset that is open"),
    (
        "server/src/hot/traffic.rs",
        "what answers came from: OwnedCache",
    ),
    (
        "server/src/questions.rs",
        "questions that are open or ended lately: Owned",
    ),
    ("server/src/outage.rs", "whether something fails"),
    ("server/src/questions/log.rs", "one question's events"),
    ("ports/src/sparingly.rs", "how often a warning was written"),
    ("server/src/state.rs", "whether a file was written"),
    ("server/src/transport/accept.rs", "who is connected"),
    (
        "server/src/transport/access.rs",
        "the keys that were found in a file",
    ),
    (
        "server/src/transport/rates.rs",
        "how many requests have come: by tenant",
    ),
    ("server/src/transport/tls.rs", "the certificate"),
    (
        "server/src/transport/line.rs",
        "one connection's rate and unread answers",
    ),
    (
        "server/src/tool_cache.rs",
        "outputs of tool calls: OwnedCache",
    ),
    (
        "server/src/tool_cache/served.rs",
        "what such an output has served: by the question's life",
    ),
    ("server/src/tuning.rs", "what was learnt: OwnedCache"),
    ("speculate/src/memory.rs", "verified look-ups: OwnedCache"),
    (
        "speculate/src/memory/shared.rs",
        "verified look-ups that wait to be shared, by tenant: OwnedCache",
    ),
    ("store/src/rows.rs", "what is wrong with the files"),
    ("store/src/search.rs", "calls that wait"),
    ("text/src/html.rs", "the texts of one page"),
    (
        "web/src/cache.rs",
        "results of searches and pages: OwnedCache",
    ),
    (
        "web/src/http.rs",
        "when a provider's connection was used last",
    ),
    ("web/src/page/clients.rs", "open connections: OwnedCache"),
    ("web/src/page/pool.rs", "calls that wait"),
    ("web/src/page/robots.rs", "wishes of sites: OwnedCache"),
    ("web/src/page/tree.rs", "the texts of one page"),
    (
        "web/src/search/asked.rs",
        "how many different queries a provider has forbidden: they are compared, and told to nobody",
    ),
    ("web/src/search/breaker.rs", "how a provider has fared"),
];

#[test]
fn every_memory_is_on_the_list() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for package in fs::read_dir(crates).unwrap() {
        let package = package.unwrap().path();
        let part = package.file_name().unwrap().to_str().unwrap();
        // The program itself and what tests share answer no questions.
        let part = part.strip_prefix("spechop-");
        let Some(part) = part.filter(|part| *part != "testkit") else {
            continue;
        };
        let src = package.join("src");
        for path in sources(&src) {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let mut code = code
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let locks = ["Mutex<", "RwLock<", "OnceLock<", "RefCell<", "OwnedCache<"];
            if code.any(|line| locks.iter().any(|lock| line.contains(lock))) {
                let name = path.strip_prefix(&src).unwrap().display().to_string();
                found.insert(format!("{part}/src/{name}"));
            }
        }
    }
    // The home of the rule, and a model of tests.
    for known in ["types/src/owned.rs", "llm/src/scripted.rs"] {
        assert!(found.remove(known), "{known}");
    }
    let listed = LOCKS.iter().map(|(file, _)| (*file).to_owned());
    assert_eq!(
        found,
        listed.collect(),
        "if a question can leave something there, its key is an `Owned` (spechop-types/src/owned.rs); \
         say so in `LOCKS`, and ask it on behalf of two tenants"
    );
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
    found
}
