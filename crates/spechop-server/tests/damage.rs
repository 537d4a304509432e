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

use crate::support::{bare, config, question};
use spechop_config::SpeculatorKind;
use spechop_ports::{Retriever, Vitals};
use spechop_proto::AskRequest;
use spechop_proto::options::Width;
use spechop_proto::spec_hop_client::SpecHopClient;
use spechop_server::{App, Bare, ServeError, Toolbox};
use spechop_speculate::IndexGuesser;
use spechop_store::{IndexRetriever, IndexWriter, Inputs, PassageIndex, PassageRef};
use spechop_testkit::{Script, ScriptedPorts, TextVectors};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// A server of these parts; dropping it ends it.
struct Serving {
    channel: Channel,
    _serving: JoinSet<Result<(), ServeError>>,
}

impl Serving {
    async fn start(toolbox: Toolbox) -> Self {
        let app = App::with_toolbox(config(""), toolbox);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(app.serve(listener, std::future::pending()));
        let endpoint = Endpoint::from_shared(url).unwrap();
        Self {
            channel: endpoint.connect().await.unwrap(),
            _serving: serving,
        }
    }

    async fn ask(&self, request: AskRequest) -> Result<String, Status> {
        let mut client = SpecHopClient::new(self.channel.clone());
        let answer = client.ask(request).await;
        answer.map(|answer| answer.into_inner().answer)
    }

    /// What health says of the whole server and of its one service, from now on.
    async fn health(&self) -> [Streaming<HealthCheckResponse>; 2] {
        let mut watches = Vec::new();
        for service in ["", "spechop.v1.SpecHop"] {
            let mut health = HealthClient::new(self.channel.clone());
            let service = service.to_owned();
            let watch = health.watch(HealthCheckRequest { service }).await;
            watches.push(watch.unwrap().into_inner());
        }
        watches.try_into().unwrap()
    }
}

/// Reads on until health says so.
async fn becomes(watches: &mut [Streaming<HealthCheckResponse>], status: ServingStatus) {
    let read_on = async {
        for watch in watches {
            while watch.message().await.unwrap().unwrap().status() != status {}
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(20), read_on).await;
    told.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_broken_takes_the_health_with_it() {
    let script = Script::steady(&[true, true], 1, 2, 1);
    let expected = script.answer();
    let parts = Toolbox::of(bare(&ScriptedPorts::new(script)), &config(""));
    let vitals = parts.vitals.clone();
    let server = Serving::start(parts).await;
    let mut health = server.health().await;
    becomes(&mut health, ServingStatus::Serving).await;
    vitals.fail("reader r", "its threads have stopped");
    becomes(&mut health, ServingStatus::NotServing).await;
    // Whoever does without it is answered.
    assert_eq!(server.ask(question()).await.unwrap(), expected);
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
fn over_index(dir: &Path, script: Script) -> Toolbox {
    with_index(dir, script, |parts, index| Bare {
        retriever: index,
        speculators: BTreeMap::new(),
        ..parts
    })
}

/// Scripted ports, and a real index that guesses.
fn beside_index(dir: &Path, script: Script) -> Toolbox {
    with_index(dir, script, |parts, index| {
        let guesser = IndexGuesser::new(index, Arc::clone(&parts.reader), NonZeroUsize::MIN);
        Bare {
            speculators: BTreeMap::from([(SpeculatorKind::Index, Arc::new(guesser) as _)]),
            ..parts
        }
    })
}

fn with_index(
    dir: &Path,
    script: Script,
    put: impl FnOnce(Bare, Arc<dyn Retriever>) -> Bare,
) -> Toolbox {
    let vitals = Vitals::default();
    let index = PassageIndex::open_watched(dir, &vitals).unwrap();
    let encoder = TextVectors::new("same", 4, |_: &str| vec![0.5; 4]);
    let index = IndexRetriever::new(Arc::new(encoder), Arc::new(index)).unwrap();
    let parts = bare(&ScriptedPorts::new(script));
    let mut toolbox = Toolbox::of(put(parts, Arc::new(index)), &config(""));
    toolbox.vitals = vitals;
    toolbox
}

/// Where look-ups go elsewhere, the index only guesses. Whatever becomes of it while the server
/// runs, questions are answered as they are without a guess.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_breaks_while_it_guesses_costs_the_guesses_and_no_answer() {
    let script = || Script::steady(&[true, true], 1, 60, 1);
    let dir = tempfile::tempdir().unwrap();
    large_index(dir.path());
    let server = Serving::start(beside_index(dir.path(), script())).await;
    let asked = question().with(|asked| {
        asked.width = Some(Width::K(3));
        asked.speculator = Some("index".into());
    });
    for (is_whole, guesses) in [(true, ["fact 0", "fact 1"].map(Some)), (false, [None; 2])] {
        if !is_whole {
            let mut vectors = File::options();
            let vectors = vectors
                .write(true)
                .open(dir.path().join("vectors-00000.bin"));
            vectors.unwrap().set_len(64).unwrap();
        }
        let mut client = SpecHopClient::new(server.channel.clone());
        let answer = client.ask(asked.clone()).await.unwrap().into_inner();
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
    let standard = || {
        question().with(|asked| {
            asked.width = Some(Width::K(1));
            asked.speculator = Some("none".into());
        })
    };
    let script = || Script::steady(&[true, true], 1, 2, 1);
    let dir = tempfile::tempdir().unwrap();
    large_index(dir.path());

    // Cut under the running server, as `cp` does it.
    let server = Serving::start(over_index(dir.path(), script())).await;
    let mut health = server.health().await;
    becomes(&mut health, ServingStatus::Serving).await;
    assert_eq!(server.ask(standard()).await.unwrap(), script().answer());
    let whole = fs::read(dir.path().join("vectors-00000.bin")).unwrap();
    let vectors = file(dir.path(), "vectors-00000.bin");
    let length = vectors.metadata().unwrap().len();
    vectors.set_len(64).unwrap();
    let status = server.ask(standard()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let words = "vectors-00000.bin was changed while it was in use";
    assert!(status.message().contains(words), "{status}");
    becomes(&mut health, ServingStatus::NotServing).await;
    drop(server);

    // Damaged before the start: the checksums tell, whether or not anybody asks.
    vectors.set_len(length).unwrap();
    let server = Serving::start(over_index(dir.path(), script())).await;
    let mut health = server.health().await;
    becomes(&mut health, ServingStatus::NotServing).await;
    let status = server.ask(standard()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let words = "vectors-00000.bin is damaged: its checksum does not match";
    assert!(status.message().contains(words), "{status}");
    drop(server);

    // Changed while nobody asks: the search thread looks now and then.
    vectors.write_all_at(&whole, 0).unwrap();
    vectors.set_modified(an_hour_ago()).unwrap();
    let server = Serving::start(over_index(dir.path(), script())).await;
    let mut health = server.health().await;
    becomes(&mut health, ServingStatus::Serving).await;
    assert_eq!(server.ask(standard()).await.unwrap(), script().answer());
    vectors.write_all_at(&whole, 0).unwrap();
    becomes(&mut health, ServingStatus::NotServing).await;
    drop(server);

    // Scales are looked at before anything is served.
    let scales = file(dir.path(), "scales-00000.bin");
    scales.write_all_at(&f32::NAN.to_le_bytes(), 64).unwrap();
    let error = PassageIndex::open(dir.path()).err().unwrap().to_string();
    assert!(error.contains("scales-00000.bin is damaged"), "{error}");
}
