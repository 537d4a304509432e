//! A memory of verified look-ups in a collection, shared by several servers.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::future::join_all;
use spechop_ports::{
    Call, Encoder, Guess, GuessRequest, Lane, PortError, Record, SharedEntries, Speculator,
    contract,
};
use spechop_qdrant::{Cluster, ClusterOptions, Push, QdrantMemory};
use spechop_speculate::{MemoryOptions, SharedMemory};
use spechop_types::{Chance, CommitKind, Hop, Observation, Owned, Question, SubQuestion, Tenant};

use super::server::{Server, hasty};
use super::stores::{forget, fresh, some_server};
use super::world::{WIDTH, World, encoder, words};

const ASKED: &str = "who directed the film Kanał with many words in it in 1957 and who wrote it";
const NEARLY: &str = "who directed the film Kanał with many words in it in 1957 and who made it";

fn entries(options: &ClusterOptions, collection: &str, encoder: &dyn Encoder) -> Arc<QdrantMemory> {
    let cluster = Arc::new(Cluster::new(options).unwrap());
    Arc::new(QdrantMemory::new(cluster, collection, encoder))
}

/// A server's memory.
fn memory(options: &ClusterOptions, collection: &str) -> SharedMemory {
    let encoder = words();
    let entries = entries(options, collection, &encoder);
    let remembers = MemoryOptions {
        most: NonZeroUsize::new(50).unwrap(),
        similarity: 0.8,
    };
    SharedMemory::new(entries, Arc::new(encoder), remembers)
}

fn tenant(name: &str) -> Tenant {
    Tenant::try_from(name.to_owned()).unwrap()
}

fn hears(memory: &SharedMemory, of: &str, asked: &str, observed: &str) {
    let hop = Hop {
        sub_question: SubQuestion::new(asked),
        answer: observed.into(),
        kind: CommitKind::Observed,
        guess: None,
        observation: Arc::new(Observation::read(Some(observed.into()), Vec::new())),
    };
    memory.committed(&tenant(of), &hop, Arc::new(|a, b| a == b));
}

async fn learns(memory: &SharedMemory, of: &str, asked: &str, observed: &str) {
    hears(memory, of, asked, observed);
    memory.write().await.unwrap();
}

async fn guess(memory: &SharedMemory, of: &str, asked: &str) -> Result<Option<String>, PortError> {
    let call = Call::of(tenant(of), Lane::Speculative, Chance::EVEN);
    let request = GuessRequest {
        question: Question::new("Who?").unwrap(),
        hops: Vec::new(),
        sub_question: SubQuestion::new(asked),
        passages: NonZeroUsize::MIN,
        limit: NonZeroUsize::MIN,
    };
    let guessed = memory.guess(&call, request).await?;
    let text = |guess: Guess| guess.text.to_string();
    Ok(guessed.guesses.into_iter().next().map(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let Some((_server, options)) = some_server().await else {
        return;
    };
    let collection = fresh("entries");
    let encoder = encoder("words", 4);
    contract::shared_entries(&*entries(&options, &collection, &encoder)).await;
    forget(&options, &collection).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_guesses_what_another_has_verified_and_no_other_tenant_does() {
    let Some((_server, options)) = some_server().await else {
        return;
    };
    let collection = fresh("shared");
    let (one, other) = (memory(&options, &collection), memory(&options, &collection));
    // The tenant without a name is one like the others.
    for (of, stranger, answer) in [("a", "b", "Wajda"), ("", "c", "Ford")] {
        assert_eq!(guess(&other, of, ASKED).await.unwrap(), None);
        learns(&one, of, ASKED, answer).await;
        for asked in [ASKED, NEARLY] {
            let known = guess(&other, of, asked).await.unwrap();
            assert_eq!(known.as_deref(), Some(answer), "{asked}");
            assert_eq!(guess(&other, stranger, asked).await.unwrap(), None);
        }
    }
    // What was wrong twice here is silent there.
    learns(&other, "a", ASKED, "Munk").await;
    learns(&other, "a", ASKED, "Has").await;
    assert_eq!(guess(&one, "a", ASKED).await.unwrap(), None);
    let still = guess(&one, "", ASKED).await.unwrap();
    assert_eq!(still.as_deref(), Some("Ford"));
    // All together there are fifty at most.
    for number in 0..52 {
        let asked = format!("what is the number {number}");
        learns(&one, "d", &asked, "a number").await;
    }
    let kept = entries(&options, &collection, &words());
    let count = kept.check(&Call::authoritative()).await.unwrap();
    assert_eq!(count, 50);
    assert_eq!(guess(&one, "", ASKED).await.unwrap(), None, "the oldest");
    forget(&options, &collection).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_write_the_same_entry_lose_no_count() {
    const SERVERS: usize = 4;
    const TIMES: usize = 5;
    let Some((_server, options)) = some_server().await else {
        return;
    };
    let collection = fresh("raced");
    let servers: Vec<_> = (0..SERVERS)
        .map(|_| memory(&options, &collection))
        .collect();
    // The collection is made by all of them at once.
    for _ in 0..TIMES {
        join_all(
            servers
                .iter()
                .map(|server| learns(server, "a", ASKED, "Wajda")),
        )
        .await;
    }
    let kept = entries(&options, &collection, &words());
    let key = Owned::new(&tenant("a"), SubQuestion::new(ASKED).key().into());
    let found = kept.find(&Call::authoritative(), &key).await.unwrap();
    let (entry, version) = found.unwrap();
    // The first makes the entry, the others confirm it.
    let right = u32::try_from(SERVERS * TIMES - 1).unwrap();
    assert_eq!(entry.own, Record { right, wrong: 0 });
    assert_eq!(version.number, u64::from(right) + 1);
    forget(&options, &collection).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_qdrant_is_down_guesses_fail_and_what_was_verified_waits() {
    let Some(mut server) = Server::started().await else {
        return;
    };
    let options = hasty(vec![server.url()]);
    let (one, other) = (memory(&options, "shared"), memory(&options, "shared"));
    learns(&one, "a", ASKED, "Wajda").await;
    server.kill();
    let error = guess(&other, "a", ASKED).await.unwrap_err();
    assert!(matches!(error, PortError::Unavailable { .. }), "{error:?}");
    hears(&one, "a", "who was Munk", "a director");
    assert!(one.write().await.is_err());
    assert_eq!(one.waiting(), 1);
    server.start();
    server.ready(None).await;
    // What was taken has survived the kill, and what waited is written.
    assert_eq!(
        guess(&other, "a", ASKED).await.unwrap().as_deref(),
        Some("Wajda")
    );
    one.write().await.unwrap();
    let known = guess(&other, "a", "who was Munk").await.unwrap();
    assert_eq!(known.as_deref(), Some("a director"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_of_something_else_is_refused() {
    let Some((_server, options)) = some_server().await else {
        return;
    };
    let call = Call::authoritative();
    let collection = fresh("taken");
    let mine = entries(&options, &collection, &words());
    assert_eq!(mine.check(&call).await.unwrap(), 0);
    let another = encoder("others", WIDTH);
    let error = entries(&options, &collection, &another).check(&call).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("made by encoder words"), "{error}");
    assert!(error.contains("speculator.memory_collection"), "{error}");
    forget(&options, &collection).await;

    let cluster = Cluster::new(&options).unwrap();
    let push = Push::new(&collection);
    push.run(&World::new(3).index, &cluster, &mut |_| {})
        .await
        .unwrap();
    let passages = entries(&options, &collection, &words());
    let error = passages.check(&call).await.unwrap_err().to_string();
    assert!(error.contains("holds no memory of SpecHop"), "{error}");
    forget(&options, &collection).await;
}
