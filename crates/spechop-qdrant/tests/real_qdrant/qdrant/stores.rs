//! Both stores keep one contract and find the same passages.

use std::sync::Arc;

use spechop_ports::{Call, Retriever, contract};
use spechop_qdrant::{
    Cluster, ClusterOptions, CollectionSettings, Push, PushError, QdrantRetriever, SearchOptions,
};
use spechop_store::IndexRetriever;

use super::server::Server;
use super::world::{WIDTH, World, all_are_there, id, query, searcher, vector, words};

/// The server that the environment names, or one of our own.
pub(crate) async fn some_server() -> Option<(Option<Server>, ClusterOptions)> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test is told by its caller which server to use"
    )]
    if let Ok(url) = std::env::var("QDRANT_URL") {
        return Some((None, ClusterOptions::new(vec![url])));
    }
    let server = Server::started().await?;
    let options = ClusterOptions::new(vec![server.url()]);
    Some((Some(server), options))
}

/// Ends with its collection, which may be on somebody's server.
pub(crate) async fn forget(options: &ClusterOptions, collection: &str) {
    let client = qdrant_client::Qdrant::from_url(&options.urls[0])
        .skip_compatibility_check()
        .build()
        .unwrap();
    client.delete_collection(collection).await.unwrap();
}

/// A name that no other run of these tests uses.
pub(crate) fn fresh(name: &str) -> String {
    format!("spechop-test-{name}-{:016x}", rand::random::<u64>())
}

#[tokio::test(flavor = "multi_thread")]
async fn both_stores_keep_the_contract_and_find_the_same() {
    let Some((_server, options)) = some_server().await else {
        return;
    };
    let world = World::new(300);
    let collection = fresh("contract");
    let cluster = Arc::new(Cluster::new(&options.clone().patient()).unwrap());
    let push = Push {
        settings: CollectionSettings::default().or_int8(),
        ..Push::new(&collection)
    };
    let pushed = push.run(&world.index, &cluster, &mut |_| {}).await.unwrap();
    assert_eq!((pushed.passages, pushed.sent), (300, 300));

    let encoder = Arc::new(words());
    let embedded = IndexRetriever::new(encoder.clone(), Arc::clone(&world.index)).unwrap();
    let graph = QdrantRetriever::new(encoder, cluster, &collection, SearchOptions::default());
    let exact = searcher(&options, &collection);
    assert_eq!(exact.check(&Call::authoritative()).await.unwrap(), 300);
    let stores: [(&str, &dyn Retriever); 3] = [
        ("embedded", &embedded),
        ("graph", &graph),
        ("exact", &exact),
    ];
    for (name, store) in stores {
        eprintln!("{name}");
        contract::retriever(store).await;
    }
    let call = Call::authoritative();
    for number in [0, 17, 299] {
        let near = embedded.retrieve(&call, &query(number), 5).await.unwrap();
        let far = exact.retrieve(&call, &query(number), 5).await.unwrap();
        assert_eq!(*far[0].id, id(number));
        assert_eq!(
            (&near[0].title, &near[0].text),
            (&far[0].title, &far[0].text)
        );
        for (near, far) in near.iter().zip(&far) {
            // The embedded index rounds the query to eight bits, too.
            assert!((near.score - far.score).abs() < 0.02, "{near:?} {far:?}");
        }
    }
    forget(&options, &collection).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_sends_only_what_is_missing() {
    let Some((_server, options)) = some_server().await else {
        return;
    };
    let world = World::new(1000);
    let collection = fresh("push");
    let cluster = Cluster::new(&options.clone().patient()).unwrap();
    let push = Push {
        batch: 100.try_into().unwrap(),
        ..Push::new(&collection)
    };
    let mut steps = Vec::new();
    let pushed = push
        .run(&world.index, &cluster, &mut |step| steps.push(step.done))
        .await;
    assert_eq!(pushed.unwrap().sent, 1000);
    assert!(steps.is_sorted() && steps.len() == 11, "{steps:?}");
    let again = push.run(&world.index, &cluster, &mut |_| {}).await.unwrap();
    assert_eq!((again.passages, again.sent), (1000, 0));
    all_are_there(&searcher(&options, &collection), 1000).await;

    // Another corpus belongs elsewhere, and nothing of it arrives.
    let other = World::of(10, "c1");
    let error = push
        .run(&other.index, &cluster, &mut |_| {})
        .await
        .unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("holds another corpus"), "{source}");
    let again = push.run(&world.index, &cluster, &mut |_| {}).await.unwrap();
    assert_eq!((again.passages, again.sent), (1000, 0));
    forget(&options, &collection).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_somebody_else_writes_to_is_not_called_complete() {
    let Some((_server, options)) = some_server().await else {
        return;
    };
    let collection = fresh("foreign");
    let cluster = Cluster::new(&options.clone().patient()).unwrap();
    let push = Push::new(&collection);
    let world = World::new(20);
    push.run(&world.index, &cluster, &mut |_| {}).await.unwrap();
    let client = qdrant_client::Qdrant::from_url(&options.urls[0])
        .skip_compatibility_check()
        .build()
        .unwrap();
    let point = qdrant_client::qdrant::PointStruct::new(
        7,
        vector("strange", WIDTH),
        qdrant_client::Payload::new(),
    );
    let points = qdrant_client::qdrant::UpsertPointsBuilder::new(&collection, vec![point]);
    client.upsert_points(points.wait(true)).await.unwrap();
    let error = push
        .run(&world.index, &cluster, &mut |_| {})
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            PushError::Count {
                found: 21,
                wanted: 20,
                ..
            }
        ),
        "{error:?}"
    );
    // The strange point is found first, and said to be strange.
    let call = Call::authoritative();
    let error = searcher(&options, &collection)
        .retrieve(&call, "strange", 1)
        .await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("not written by `spechop index push`"),
        "{error}"
    );
    forget(&options, &collection).await;
}
