//! A server that is killed or slow, while it is filled and while it is searched.

use std::time::Duration;

use spechop_ports::{Call, PortError};
use spechop_qdrant::{Cluster, Push, PushError};

use super::server::{Server, hasty};
use super::world::{World, all_are_there, first, id, searcher};

const PASSAGES: usize = 800;

fn push() -> Push {
    Push {
        batch: 40.try_into().unwrap(),
        ..Push::new("passages")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_a_push_no_passage_is_lost() {
    let Some(mut server) = Server::started().await else {
        return;
    };
    let world = World::new(PASSAGES);
    let options = hasty(vec![server.url()]);
    let cluster = Cluster::new(&options).unwrap();
    // Once in the first third, and once more after the push was resumed.
    let mut known = 0;
    for kill_at in [PASSAGES / 3, PASSAGES / 2] {
        let mut killed = false;
        let stopped = push()
            .run(&world.index, &cluster, &mut |step| {
                if step.done >= kill_at && !killed {
                    killed = true;
                    server.kill();
                }
            })
            .await;
        let Err(PushError::Stopped { done, total, .. }) = stopped else {
            panic!("{stopped:?}");
        };
        assert!(
            killed && done >= kill_at && total == PASSAGES,
            "{done} of {total}"
        );
        known = done;
        server.start();
        server.ready(None).await;
        // Nobody searches half a corpus.
        let error = searcher(&options, "passages")
            .check(&Call::authoritative())
            .await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("its push has not finished"), "{error}");
    }
    let pushed = push()
        .run(&world.index, &cluster, &mut |_| {})
        .await
        .unwrap();
    assert_eq!(pushed.passages, PASSAGES);
    // What counted as done has survived two kills.
    assert!(
        pushed.sent > 0 && pushed.sent <= PASSAGES - known,
        "{pushed:?} {known}"
    );
    all_are_there(&searcher(&options, "passages"), PASSAGES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_is_killed_itself_is_resumed() {
    let Some(server) = Server::started().await else {
        return;
    };
    let world = World::new(PASSAGES);
    let options = hasty(vec![server.url()]);
    let cluster = Cluster::new(&options).unwrap();
    let (half, reached) = tokio::sync::oneshot::channel();
    let mut half = Some(half);
    let push = push();
    let mut tell = |step: spechop_qdrant::Progress| {
        if step.done >= PASSAGES / 2
            && let Some(half) = half.take()
        {
            half.send(()).unwrap();
        }
    };
    tokio::select! {
        biased;
        _ = reached => {}
        ended = push.run(&world.index, &cluster, &mut tell) => panic!("{ended:?}"),
    }
    let pushed = push.run(&world.index, &cluster, &mut |_| {}).await.unwrap();
    assert!(pushed.sent > 0 && pushed.sent <= PASSAGES / 2, "{pushed:?}");
    all_are_there(&searcher(&options, "passages"), PASSAGES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_fails_clearly_and_works_again_after_the_server_was_killed() {
    let Some(mut server) = Server::started().await else {
        return;
    };
    let world = World::new(50);
    let options = hasty(vec![server.url()]);
    let cluster = Cluster::new(&options).unwrap();
    push()
        .run(&world.index, &cluster, &mut |_| {})
        .await
        .unwrap();
    let searcher = searcher(&options, "passages");
    assert_eq!(first(&searcher, 7).await.unwrap(), id(7));
    // The request has arrived and gets no answer when the server dies.
    server.pause();
    let (searched, ()) = tokio::join!(first(&searcher, 8), async {
        tokio::task::yield_now().await;
        server.kill();
    });
    let error = searched.unwrap_err();
    assert!(matches!(error, PortError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains(&server.url()), "{error}");
    server.start();
    server.ready(None).await;
    all_are_there(&searcher, 50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_a_timeout() {
    let Some(server) = Server::started().await else {
        return;
    };
    let world = World::new(50);
    let mut options = hasty(vec![server.url()]);
    let cluster = Cluster::new(&options).unwrap();
    push()
        .run(&world.index, &cluster, &mut |_| {})
        .await
        .unwrap();
    let patient = searcher(&options, "passages");
    options.time_limit = Duration::from_millis(300);
    let hasty = searcher(&options, "passages");
    server.pause();
    let error = first(&hasty, 7).await.unwrap_err();
    assert!(
        matches!(error, PortError::Timeout { limit, .. } if limit.as_millis() == 300),
        "{error:?}"
    );
    server.resume();
    assert_eq!(first(&patient, 7).await.unwrap(), id(7));
}
