//! Collections and servers that do not fit are refused, each with a word about what to do.

use std::collections::HashMap;
use std::sync::Arc;

use qdrant_client::Qdrant;
use qdrant_client::qdrant::{
    CreateCollectionBuilder, Distance, UpdateCollectionBuilder, VectorParamsBuilder,
};
use spechop_ports::{Call, Encoder, PortError, Retriever};
use spechop_qdrant::{Cluster, ClusterOptions, Push};
use spechop_testkit::OwnPort;

use super::server::{Server, hasty};
use super::stores::{forget, fresh, some_server};
use super::world::{WIDTH, World, encoder, searcher, searcher_with};

async fn refusal(
    encoder: impl Encoder + 'static,
    options: &ClusterOptions,
    collection: &str,
) -> String {
    let call = Call::authoritative();
    let searcher = searcher_with(encoder, options, collection);
    let checked = searcher.check(&call).await.unwrap_err();
    let PortError::Refused { detail, .. } = checked else {
        panic!("{checked:?}");
    };
    // Whoever searches without a check is told the same.
    let searched = searcher.retrieve(&call, "rivers", 3).await.unwrap_err();
    assert!(searched.to_string().contains(&detail), "{searched:?}");
    detail
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_with_its_remedy() {
    let Some((_server, options)) = some_server().await else {
        return;
    };
    let client = Qdrant::from_url(&options.urls[0])
        .skip_compatibility_check()
        .build()
        .unwrap();
    let [whole, bare, begun] = ["whole", "bare", "begun"].map(fresh);
    let cluster = Cluster::new(&options).unwrap();
    let world = World::new(5);
    for name in [&whole, &begun] {
        let push = Push::new(name);
        push.run(&world.index, &cluster, &mut |_| {}).await.unwrap();
    }
    let info = client.collection_info(&begun).await.unwrap();
    let mut metadata = info.result.unwrap().config.unwrap().metadata;
    let label = serde_json::Value::from(metadata.remove("spechop").unwrap());
    let mut label = label.as_object().unwrap().clone();
    label.insert("complete".into(), false.into());
    let label = HashMap::from([("spechop".to_owned(), serde_json::Value::from(label))]);
    let update = UpdateCollectionBuilder::new(&begun).metadata(label);
    client.update_collection(update).await.unwrap();
    let vectors = VectorParamsBuilder::new(WIDTH as u64, Distance::Dot);
    let create = CreateCollectionBuilder::new(&bare).vectors_config(vectors);
    client.create_collection(create).await.unwrap();

    let usual = || encoder("words", WIDTH);
    for (encoder, name, said) in [
        (usual(), "spechop-no-such-collection", "no such collection"),
        (usual(), &*bare, "was not filled by `spechop index push`"),
        (usual(), &*begun, "run the same `spechop index push` again"),
        (
            encoder("other", WIDTH),
            &*whole,
            "filled by encoder words, but the encoder in use is other",
        ),
        (
            encoder("words", 128),
            &*whole,
            "vectors have 64 components, but those of the encoder have 128",
        ),
    ] {
        let detail = refusal(encoder, &options, name).await;
        assert!(detail.contains(said), "{name}: {detail}");
    }
    // What was begun is finished by the same push.
    Push::new(&begun)
        .run(&world.index, &cluster, &mut |_| {})
        .await
        .unwrap();
    let passages = searcher(&options, &begun)
        .check(&Call::authoritative())
        .await;
    assert_eq!(passages.unwrap(), 5);
    for name in [&whole, &bare, &begun] {
        forget(&options, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_needed_and_never_shown() {
    let Some(mut server) = Server::new() else {
        return;
    };
    server.set("QDRANT__SERVICE__API_KEY", "right-key");
    server.start();
    server.ready(Some("right-key")).await;
    let world = World::new(5);
    for (key, fits) in [
        (None, false),
        (Some("wrong-key"), false),
        (Some("right-key"), true),
    ] {
        let mut options = hasty(vec![server.url()]);
        options.key = key.map(Into::into);
        let cluster = Arc::new(Cluster::new(&options).unwrap());
        let pushed = Push::new("keyed")
            .run(&world.index, &cluster, &mut |_| {})
            .await;
        match pushed {
            Ok(_) => assert!(fits),
            Err(error) => {
                let text = format!("{error:?}");
                assert!(
                    !fits && text.contains("API key is missing, wrong"),
                    "{text}"
                );
                assert!(!text.contains("wrong-key"), "{text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_of_rest_and_a_port_without_a_server_are_told() {
    let nobody = OwnPort::reserve();
    let url = format!("http://{}", nobody.address());
    let call = Call::authoritative();
    let error = searcher(&hasty(vec![url.clone()]), "c")
        .check(&call)
        .await
        .unwrap_err();
    assert!(matches!(error, PortError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains(&url), "{error}");
}
