//! Three servers on one machine, each passage on two of them. One is lost while searches run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use spechop_qdrant::{Cluster, CollectionSettings, Push};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::server::{Server, hasty};
use super::world::{World, all_are_there, first, id, searcher};

const PASSAGES: usize = 300;
const SEARCHERS: usize = 4;
/// Answers before the server is killed, and answers of each searcher after that.
const BEFORE: usize = 40;
const AFTER: usize = 60;

async fn three() -> Option<Vec<Server>> {
    let mut servers = Vec::new();
    for _ in 0..3 {
        let mut server = Server::new()?;
        server.join(servers.first());
        server.start();
        server.ready(None).await;
        servers.push(server);
    }
    Some(servers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_loses_a_server_loses_no_answer() {
    let Some(mut servers) = three().await else {
        return;
    };
    let options = hasty(servers.iter().map(Server::url).collect());
    let world = World::new(PASSAGES);
    let settings = r#"{"shard_number": 3, "replication_factor": 2, "write_consistency_factor": 2}"#;
    let push = Push {
        settings: CollectionSettings::parse(settings).unwrap(),
        ..Push::new("passages")
    };
    let cluster = Cluster::new(&options.clone().patient()).unwrap();
    push.run(&world.index, &cluster, &mut |_| {}).await.unwrap();

    let searcher = Arc::new(searcher(&options, "passages"));
    let (answers, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let killed = Arc::new(AtomicUsize::new(0));
    let mut running = JoinSet::new();
    for own in 0..SEARCHERS {
        let (searcher, answers) = (Arc::clone(&searcher), Arc::clone(&answers));
        let (enough, killed) = (Arc::clone(&enough), Arc::clone(&killed));
        running.spawn(async move {
            let (mut number, mut after) = (own, 0);
            while after < AFTER {
                after += killed.load(SeqCst);
                let found = first(&*searcher, number % PASSAGES).await;
                assert_eq!(found.unwrap(), id(number % PASSAGES), "after {after}");
                if answers.fetch_add(1, SeqCst) + 1 == BEFORE {
                    enough.notify_one();
                }
                number += SEARCHERS;
            }
        });
    }
    enough.notified().await;
    // The one that all searches go to.
    servers[0].kill();
    killed.store(1, SeqCst);
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    all_are_there(&*searcher, PASSAGES).await;
    // It comes back, and is as good as the others.
    servers[0].start();
    servers[0].ready(None).await;
    all_are_there(&*searcher, PASSAGES).await;
}
