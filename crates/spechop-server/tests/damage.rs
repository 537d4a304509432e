//! Parts that break while the server runs: health tells, questions that need them are UNAVAILABLE,
//! and the server lives.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::support::{Server, at, bare, config, question};
use spechop_config::SpeculatorKind;
use spechop_ports::{Retriever, Vitals};
use spechop_server::{Bare, Toolbox};
use spechop_speculate::IndexGuesser;
use spechop_store::{IndexRetriever, IndexWriter, Inputs, PassageIndex, PassageRef};
use spechop_testkit::{Script, ScriptedPorts, TextVectors};
use tonic::{Code, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// What health says of the whole server and of its one service, from now on.
async fn health(server: &Server) -> [Streaming<HealthCheckResponse>; 2] {
    let mut health = HealthClient::new(server.channel().await);
    let mut watches = Vec::new();
    for service in ["", "spechop.v1.SpecHop"] {
        let service = service.to_owned();
        let watch = health.watch(HealthCheckRequest { service }).await;
        watches.push(watch.unwrap().into_inner());
    }
    watches.try_into().unwrap()
}

/// Reads on until health says so.
async fn becomes(watches: &mut [Streaming<HealthCheckResponse>], status: ServingStatus) {
    let read_on = async {
        for watch in watches {
            while watch.message().await.unwrap().unwrap().status() != status {}
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(120), read_on).await;
    told.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_broken_takes_the_health_with_it() {
    let script = Script::steady(&[true, true], 1, 2, 1);
    let expected = script.answer();
    let (ports, config) = (ScriptedPorts::new(script), config(""));
    let parts = Toolbox::of(bare(&ports), &config);
    let vitals = parts.vitals.clone();
    let server = Server::over(ports, parts, config).await;
    let mut watches = health(&server).await;
    becomes(&mut watches, ServingStatus::Serving).await;
    vitals.fail("reader r", "its threads have stopped");
    becomes(&mut watches, ServingStatus::NotServing).await;
    // Whoever does without it is answered.
    assert_eq!(server.ask(question()).await.unwrap().answer, expected);
}

/// An index that is too large to be held in memory, because of one long passage that nobody finds.
fn large_index(dir: &Path) {
    let inputs = Inputs {
        corpus_sha256: String::new(),
        encoder: "same".into(),
        width: 4,
        text: String::new(),
        batch_rows: 1,
        shard_rows: 10_000,
        subset: None,
        extended: false,
        part: None,
    };
    let mut writer = IndexWriter::open(dir, inputs).unwrap();
    let long = "x".repeat(33 << 20);
    for row in 0..2_000 {
        let (id, far) = (row.to_string(), row == 1_999);
        let text = if far { &long } else { "a text" };
        let passage = PassageRef {
            id: &id,
            title: "A title",
            text,
            ..PassageRef::default()
        };
        writer
            .push(passage, &[if far { -0.5 } else { 0.5 }; 4])
            .unwrap();
    }
    writer.finish().unwrap();
    for file in fs::read_dir(dir).unwrap() {
        let mut open = File::options();
        let file = open.write(true).open(file.unwrap().path()).unwrap();
        file.set_modified(an_hour_ago()).unwrap();
    }
}

/// Whatever is changed now has another time.
fn an_hour_ago() -> SystemTime {
    SystemTime::now() - Duration::from_secs(3600)
}

/// Scripted ports, and a real index.
async fn over_index(dir: &Path, script: Script) -> Server {
    with_index(dir, script, |parts, index| Bare {
        retriever: index,
        speculators: BTreeMap::new(),
        ..parts
    })
    .await
}

/// Scripted ports, and a real index that guesses.
async fn beside_index(dir: &Path, script: Script) -> Server {
    with_index(dir, script, |parts, index| {
        let guesser = IndexGuesser::new(index, Arc::clone(&parts.reader), NonZeroUsize::MIN);
        Bare {
            speculators: BTreeMap::from([(SpeculatorKind::Index, Arc::new(guesser) as _)]),
            ..parts
        }
    })
    .await
}

async fn with_index(
    dir: &Path,
    script: Script,
    put: impl FnOnce(Bare, Arc<dyn Retriever>) -> Bare,
) -> Server {
    let vitals = Vitals::default();
    let index = PassageIndex::open_watched(dir, &vitals).unwrap();
    let encoder = TextVectors::new("same", 4, |_: &str| vec![0.5; 4]);
    let index = IndexRetriever::new(Arc::new(encoder), Arc::new(index)).unwrap();
    let (ports, config) = (ScriptedPorts::new(script), config(""));
    let mut toolbox = Toolbox::of(put(bare(&ports), Arc::new(index)), &config);
    toolbox.vitals = vitals;
    Server::over(ports, toolbox, config).await
}

/// Where look-ups go elsewhere, the index only guesses. Whatever becomes of it while the server
/// runs, questions are answered as they are without a guess.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_breaks_while_it_guesses_costs_the_guesses_and_no_answer() {
    // A search of the index, on a thread of its own, is over long before.
    let script = || Script::steady(&[true, true], 1, 1_000, 1);
    let dir = tempfile::tempdir().unwrap();
    large_index(dir.path());
    let server = beside_index(dir.path(), script()).await;
    let asked = at(3).with(|asked| asked.speculator = Some("index".into()));
    for (is_whole, guesses) in [(true, ["fact 0", "fact 1"].map(Some)), (false, [None; 2])] {
        if !is_whole {
            let mut vectors = File::options();
            let vectors = vectors
                .write(true)
                .open(dir.path().join("vectors-00000.bin"));
            vectors.unwrap().set_len(64).unwrap();
        }
        let answer = server.ask(asked.clone()).await.unwrap();
        assert_eq!(answer.answer, script().answer());
        let guessed: Vec<_> = answer.hops.iter().map(|hop| hop.guess.as_deref()).collect();
        assert_eq!(guessed, guesses);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_index_that_breaks_is_never_served_in_silence() {
    let file = |dir: &Path, name: &str| {
        let mut open = File::options();
        open.write(true).open(dir.join(name)).unwrap()
    };
    let standard = || at(1).with(|asked| asked.speculator = Some("none".into()));
    let script = || Script::steady(&[true, true], 1, 2, 1);
    let dir = tempfile::tempdir().unwrap();
    large_index(dir.path());

    // Cut under the running server, as `cp` does it.
    let server = over_index(dir.path(), script()).await;
    let mut watches = health(&server).await;
    becomes(&mut watches, ServingStatus::Serving).await;
    let told = server.ask(standard()).await.unwrap();
    assert_eq!(told.answer, script().answer());
    let whole = fs::read(dir.path().join("vectors-00000.bin")).unwrap();
    let vectors = file(dir.path(), "vectors-00000.bin");
    let length = vectors.metadata().unwrap().len();
    vectors.set_len(64).unwrap();
    let status = server.ask(standard()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let words = "vectors-00000.bin was changed while it was in use";
    assert!(status.message().contains(words), "{status}");
    becomes(&mut watches, ServingStatus::NotServing).await;
    drop(server);

    // Damaged before the start: the checksums tell, whether or not anybody asks.
    vectors.set_len(length).unwrap();
    let server = over_index(dir.path(), script()).await;
    let mut watches = health(&server).await;
    becomes(&mut watches, ServingStatus::NotServing).await;
    let status = server.ask(standard()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let words = "vectors-00000.bin is damaged: its checksum does not match";
    assert!(status.message().contains(words), "{status}");
    drop(server);

    // Changed while nobody asks: the search thread looks now and then.
    vectors.write_all_at(&whole, 0).unwrap();
    vectors.set_modified(an_hour_ago()).unwrap();
    let server = over_index(dir.path(), script()).await;
    let mut watches = health(&server).await;
    becomes(&mut watches, ServingStatus::Serving).await;
    let told = server.ask(standard()).await.unwrap();
    assert_eq!(told.answer, script().answer());
    vectors.write_all_at(&whole, 0).unwrap();
    becomes(&mut watches, ServingStatus::NotServing).await;
    drop(server);

    // Scales are looked at before anything is served.
    let scales = file(dir.path(), "scales-00000.bin");
    scales.write_all_at(&f32::NAN.to_le_bytes(), 64).unwrap();
    let error = PassageIndex::open(dir.path()).err().unwrap().to_string();
    assert!(error.contains("scales-00000.bin is damaged"), "{error}");
}
