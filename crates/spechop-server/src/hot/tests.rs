//! A subset that follows the traffic, over a real index and an encoder that can be held up.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use spechop_index::Build;
use spechop_ports::{Call, Encoded, Encoder, PortError, Retriever, TextKind, Vitals};
use spechop_store::LexicalWeight;
use spechop_testkit::TextVectors;
use spechop_types::{CommitKind, Hop, Observation, SubQuestion, Tenant};
use tokio::sync::Semaphore;

use super::*;
use crate::state::EVERY;

/// Counts letters, and says how many it knows. The query `SLOW` waits until it is let go.
struct Letters(Semaphore, AtomicUsize);

const SLOW: &str = "slow";

#[async_trait]
impl Encoder for Letters {
    fn fingerprint(&self) -> &str {
        "letters"
    }

    fn width(&self) -> usize {
        self.1.load(Relaxed)
    }

    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        if texts == [SLOW] {
            self.0.acquire().await.unwrap().forget();
        }
        TextVectors::letters().encode(call, kind, texts).await
    }
}

/// An index of ten passages, p0 to p9, and a subset that holds one of them.
struct World {
    dir: tempfile::TempDir,
    encoder: Arc<Letters>,
    subset: Arc<HotSubset>,
    traffic: Arc<Traffic>,
    keeper: HotKeeper,
}

impl World {
    async fn new(tenants: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let line =
            |n: usize| format!("{{\"id\":\"p{n}\",\"title\":\"T\",\"text\":\"text {n}\"}}\n");
        let corpus = dir.path().join("corpus.jsonl");
        fs::write(&corpus, (0..10).map(line).collect::<String>()).unwrap();
        let encoder = Arc::new(Letters(Semaphore::new(0), AtomicUsize::new(26)));
        let build = Build::new(corpus, dir.path().join("index"));
        build.run(&*encoder, &mut |_| {}).await.unwrap();
        let tenants: Vec<String> = tenants.iter().map(|name| (*name).to_owned()).collect();
        let traffic = Arc::new(Traffic::of(&tenants).unwrap());
        let (subset, keeper) = opened(dir.path(), &encoder, &traffic).await;
        Self {
            dir,
            encoder,
            subset,
            traffic,
            keeper,
        }
    }

    fn answers(&self, tenant: &str, passage: &str, times: usize) {
        let tenant = Tenant::new(tenant).unwrap();
        let evidence = spechop_testkit::passage(passage, "T", "words");
        let hop = Hop {
            sub_question: SubQuestion::new("Which words?"),
            answer: "words".into(),
            kind: CommitKind::Observed,
            guess: None,
            observation: Arc::new(Observation::read(Some("words".into()), vec![evidence])),
        };
        for _ in 0..times {
            self.traffic.committed(&tenant, &hop);
        }
    }

    async fn found(&self) -> Vec<String> {
        found(&self.subset, "text").await
    }
}

async fn opened(
    dir: &Path,
    encoder: &Arc<Letters>,
    traffic: &Arc<Traffic>,
) -> (Arc<HotSubset>, HotKeeper) {
    let encoder = Arc::clone(encoder) as Arc<dyn Encoder>;
    let subset = Arc::new(subset(&dir.join("index/hot"), &encoder, 0.0));
    let hot = Hot {
        fraction: 0.1,
        in_degree: None,
    };
    let index = dir.join("index");
    let rebuilder = Rebuilder::new(&index, 10 * EVERY, hot, Arc::clone(&subset));
    let file = dir.join("traffic.json");
    let keeper = HotKeeper::with(
        Some(traffic),
        Some(&file),
        &Writing::default(),
        Some(rebuilder),
    )
    .await;
    (subset, keeper)
}

fn subset(dir: &Path, encoder: &Arc<dyn Encoder>, weight: f32) -> HotSubset {
    let words = LexicalWeight::Fixed(weight);
    HotSubset::open(dir, encoder, words, &Vitals::default()).unwrap()
}

async fn found(subset: &HotSubset, query: &str) -> Vec<String> {
    let call = Call::authoritative();
    let limit = NonZeroUsize::MAX.get();
    let found = subset.retrieve(&call, query, limit).await.unwrap();
    found.iter().map(|passage| passage.id.to_string()).collect()
}

#[tokio::test]
async fn it_follows_the_tenants_that_are_named_and_nobody_else() {
    let world = World::new(&["a"]).await;
    // There is none yet, which is no error.
    assert_eq!(world.found().await, [""; 0]);
    world.answers("b", "p1", 9);
    world.keeper.rebuild().await;
    assert!(!world.subset.is_there(), "b has not asked for anybody");
    world.answers("a", "p2", 1);
    world.keeper.rebuild().await;
    assert_eq!(world.found().await, ["p2"]);
    world.answers("b", "p1", 9);
    world.keeper.rebuild().await;
    assert_eq!(world.found().await, ["p2"]);
    world.answers("a", "p3", 2);
    assert_eq!(world.found().await, ["p2"], "not before its turn");
    world.keeper.rebuild().await;
    assert_eq!(world.found().await, ["p3"]);
}

#[tokio::test]
async fn a_subset_that_could_not_be_opened_is_opened_later() {
    let world = World::new(&["a"]).await;
    world.answers("a", "p2", 1);
    world.keeper.rebuild().await;
    world.answers("a", "p3", 2);
    world.encoder.1.store(25, Relaxed);
    world.keeper.rebuild().await;
    world.encoder.1.store(26, Relaxed);
    assert_eq!(world.found().await, ["p2"], "no index of another width");
    // It is chosen already.
    world.keeper.rebuild().await;
    assert_eq!(world.found().await, ["p3"]);
}

#[tokio::test]
async fn a_broken_subset_is_whole_once_another_is_in_its_place() {
    let world = World::new(&["a"]).await;
    world.answers("a", "p2", 1);
    world.keeper.rebuild().await;
    let vitals = world.subset.told_by().unwrap();
    vitals.fail("passage index", "its files were cut");
    world.answers("a", "p3", 2);
    world.encoder.1.store(25, Relaxed);
    world.keeper.rebuild().await;
    assert_eq!(vitals.failures().len(), 1, "no other could be opened");
    world.encoder.1.store(26, Relaxed);
    world.keeper.rebuild().await;
    assert_eq!(world.found().await, ["p3"]);
    assert_eq!(vitals.failures(), []);
    // A search that began on it ends now.
    vitals.fail("its thread", "it has ended");
    assert_eq!(vitals.failures(), []);
    let fresh = world.subset.told_by().unwrap();
    fresh.fail("passage index", "its files were cut again");
    let news = fresh.after(1).await;
    assert_eq!(news[0].reason, "its files were cut again");
    assert_eq!(fresh.failures(), news);
}

#[tokio::test]
async fn words_count_in_it_if_they_do_in_the_index() {
    let world = World::new(&["a"]).await;
    let encoder = Arc::clone(&world.encoder) as Arc<dyn Encoder>;
    // The letters of all ten passages are the same.
    for (weight, first) in [(0.0, "p0"), (0.2, "p7")] {
        let subset = subset(&world.dir.path().join("index"), &encoder, weight);
        assert_eq!(found(&subset, "text 7").await[0], first, "{weight}");
    }
}

#[tokio::test]
async fn a_search_that_has_begun_ends_on_the_subset_that_it_began_on() {
    let world = World::new(&["*"]).await;
    world.answers("a", "p1", 1);
    world.keeper.rebuild().await;
    world.answers("a", "p2", 2);
    // It waits for its vector while the other subset takes the place of this one.
    let mut search = Box::pin(found(&world.subset, SLOW));
    assert!(futures::poll!(&mut search).is_pending());
    world.keeper.rebuild().await;
    assert!(futures::poll!(&mut search).is_pending());
    assert_eq!(world.found().await, ["p2"]);
    world.encoder.0.add_permits(1);
    assert_eq!(search.await, ["p1"]);
}

#[tokio::test(start_paused = true)]
async fn it_is_chosen_anew_at_its_interval() {
    let world = World::new(&["a"]).await;
    world.answers("a", "p4", 1);
    let is_there = async {
        while !world.subset.is_there() {
            tokio::time::sleep(EVERY).await;
        }
    };
    tokio::select! {
        never = world.keeper.keep() => match never {},
        () = is_there => {}
    }
    assert_eq!(world.found().await, ["p4"]);
}

#[tokio::test]
async fn what_cannot_be_chosen_leaves_the_subset_as_it_is() {
    let world = World::new(&["a"]).await;
    world.answers("a", "p1", 1);
    world.keeper.rebuild().await;
    let manifest = world.dir.path().join("index/manifest.json");
    let kept = fs::read(&manifest).unwrap();
    fs::write(&manifest, "{}").unwrap();
    world.answers("a", "p2", 2);
    world.keeper.rebuild().await;
    assert_eq!(world.found().await, ["p1"]);
    // It is tried again although nothing was counted since.
    fs::write(&manifest, kept).unwrap();
    world.keeper.rebuild().await;
    assert_eq!(world.found().await, ["p2"]);
}

#[tokio::test]
async fn the_counts_survive_a_restart_unless_their_file_is_damaged() {
    let world = World::new(&["a"]).await;
    world.answers("a", "p5", 3);
    world.keeper.save().await;
    let file = world.dir.path().join("traffic.json");
    let counted = read_traffic(&file).unwrap();
    let expected = Counted {
        tenant: Tenant::new("a").unwrap(),
        passage: "p5".into(),
        answers: 3,
    };
    assert_eq!(counted, [expected]);

    let resumed = async |tenants: &[String]| {
        let traffic = Arc::new(Traffic::of(tenants).unwrap());
        let _ = opened(world.dir.path(), &world.encoder, &traffic).await;
        traffic.counts().into_values().sum::<u64>()
    };
    assert_eq!(resumed(&["a".to_owned()]).await, 3);
    // Whom the operator has taken off the list is forgotten.
    assert_eq!(resumed(&["b".to_owned()]).await, 0);
    let text = fs::read_to_string(&file).unwrap();
    for (damaged, said) in [
        (text.replace("p5", "p6"), "it is damaged"),
        (
            text.replace("\"format\": 1", "\"format\": 2"),
            "of format 2",
        ),
    ] {
        fs::write(&file, &damaged).unwrap();
        let error = read_traffic(&file).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(resumed(&["a".to_owned()]).await, 0);
        let aside = world.dir.path().join("traffic.json.damaged");
        assert_eq!(fs::read_to_string(aside).unwrap(), damaged);
        let error = read_traffic(&file).unwrap_err().to_string();
        assert!(error.contains("there is no such file"), "{error}");
    }
}
