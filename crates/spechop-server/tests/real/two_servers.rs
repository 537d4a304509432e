//! One server holds the index, and another one answers over it: `target.kind = "http"` at its
//! `/retrieve`.

use std::os::unix::fs::symlink;
use std::path::Path;

use spechop_proto::AskResponse;
use spechop_testkit::assets;
use tempfile::TempDir;

use crate::answers::{Running, prepared, trajectory};

const PASSAGES: u32 = 5;

/// A server that has the pulled models and no index, in this folder.
async fn answerer(home: &TempDir, holder: &Running) -> Running {
    let models = assets::data_dir().join("models");
    symlink(models, home.path().join("models")).unwrap();
    let toml = format!(
        "[target]\nkind = \"http\"\nurl = \"{}/retrieve\"\n[question]\nverifier = \"exact\"\n",
        holder.url
    );
    Running::in_data_dir(home.path(), toml).await
}

/// Look-ups that were begun at this backend of the server; none if it has no such backend.
async fn begun(server: &Running, backend: &str) -> u64 {
    let backends = server.backends().await;
    backends.get(backend).map_or(0, |backend| backend.started)
}

/// The passages of each hop, with their scores.
fn evidence(answer: &AskResponse) -> Vec<&[spechop_proto::Passage]> {
    let seen = answer
        .hops
        .iter()
        .map(|hop| hop.observation.as_ref().unwrap());
    seen.map(|seen| &*seen.evidence).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_an_index_answers_over_another_one_as_that_one_does() {
    let home = tempfile::tempdir().unwrap();
    let (_dir, questions, toml, ids) = prepared().await;
    let holder = Running::start(format!("{toml}[server]\nretrieve = true\n")).await;
    let answerer = answerer(&home, &holder).await;
    assert!(!Path::new(home.path()).join("indexes").exists());
    for (question, _) in &questions {
        let own = holder.ask(question, 1, "none", PASSAGES, &ids).await;
        assert!(own.hops.len() > 1, "no multi-hop answer: {own:?}");
        let before = [
            begun(&holder, "retriever").await,
            begun(&answerer, "http").await,
        ];
        let other = answerer.ask(question, 1, "none", PASSAGES, &ids).await;
        let after = [
            begun(&holder, "retriever").await,
            begun(&answerer, "http").await,
        ];
        assert_eq!(trajectory(&other), trajectory(&own));
        assert_eq!(evidence(&other), evidence(&own));
        // Each look-up of the one is a look-up of the other.
        let hops = other.hops.len() as u64;
        assert_eq!([after[0] - before[0], after[1] - before[1]], [hops; 2]);
    }
    assert_eq!(begun(&answerer, "retriever").await, 0);
    answerer.stop().await;
    holder.stop().await;
}
