//! Whole builds, over a corpus on disk and an encoder that can be told to fail.

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::site::{Site, Triples, changing, files, ids, line, texts};
use async_trait::async_trait;
use spechop_index::{BuildError, Built, Hot, Progress, check};
use spechop_ports::{Call, Encoded, Encoder, PortError, Retriever, TextKind};
use spechop_store::{Fault, IndexRetriever, PassageIndex};

#[tokio::test]
async fn builds_once_and_then_knows_it() {
    let site = Site::new();
    let mut seen = Vec::new();
    let encoder = Triples::new("triples");
    let built = site
        .build
        .run(&encoder, &mut |progress| seen.push(progress))
        .await
        .unwrap();
    assert_eq!(
        (built.rows, built.encoded, built.hot_rows),
        (100, 100, None)
    );
    assert_eq!(
        seen[0],
        Progress {
            done: 0,
            total: 100
        }
    );
    assert_eq!(
        seen[1],
        Progress {
            done: 8,
            total: 100
        }
    );
    assert_eq!(
        seen[13],
        Progress {
            done: 100,
            total: 100
        }
    );
    assert!(!site.path("index.partial").exists());

    let index = PassageIndex::open(&site.build.out).unwrap();
    assert_eq!(index.passage(42).unwrap().fields().title, "Number 42");
    let encoder = Arc::new(encoder);
    let retriever = IndexRetriever::new(encoder.clone(), Arc::new(index)).unwrap();
    spechop_ports::contract::retriever(&retriever).await;
    let query = "Number 42\npassage 42 is about the number 294 and its square 1764";
    let hits = retriever
        .retrieve(&Call::authoritative(), query, 5)
        .await
        .unwrap();
    assert_eq!(*hits[0].id, *"p42");

    let before = files(site.dir.path());
    let again = site.run(&encoder).await.unwrap();
    assert_eq!(
        (again.rows, again.bytes, again.encoded),
        (100, built.bytes, 0)
    );
    assert_eq!(
        encoder.encoded.load(Relaxed),
        100,
        "nothing was encoded again"
    );
    assert_eq!(files(site.dir.path()), before);
    assert!(again.up_to_date && !built.up_to_date);
}

#[tokio::test]
async fn a_build_that_was_stopped_goes_on_to_the_same_bytes() {
    let whole = Site::new().hot(0.3);
    whole.run(&Triples::new("triples")).await.unwrap();
    let expected = files(&whole.build.out);
    for stopped_after in [0, 8, 32, 33, 72, 96, 99] {
        let site = Site::new().hot(0.3);
        let failing = Triples::failing_after("triples", stopped_after);
        let error = site.run(&failing).await.unwrap_err();
        assert!(matches!(error, BuildError::Encoder { .. }), "{error}");
        assert!(
            PassageIndex::open(&site.build.out).is_err(),
            "not before it is whole"
        );
        let good = stopped_after / 8 * 8;
        let built = site.run(&Triples::new("triples")).await.unwrap();
        assert_eq!((built.rows, built.encoded), (100, 100 - good));
        assert_eq!(
            files(&site.build.out),
            expected,
            "stopped after {stopped_after}"
        );
    }
}

/// Dropping the future is as near to a kill as a test in the same process gets: no error path runs.
#[tokio::test]
async fn a_killed_build_loses_the_batch_it_was_in() {
    struct Hanging(Triples);
    #[async_trait]
    impl Encoder for Hanging {
        fn fingerprint(&self) -> &str {
            self.0.fingerprint()
        }
        fn width(&self) -> usize {
            self.0.width()
        }
        async fn encode(
            &self,
            call: &Call,
            kind: TextKind,
            texts: Vec<String>,
        ) -> Result<Encoded, PortError> {
            match self.0.encode(call, kind, texts).await {
                Ok(encoded) => Ok(encoded),
                Err(_) => std::future::pending().await,
            }
        }
    }
    let whole = Site::new();
    whole.run(&Triples::new("triples")).await.unwrap();
    let site = Site::new();
    let hanging = Hanging(Triples::failing_after("triples", 80));
    {
        let mut seen = |_| {};
        let mut build = std::pin::pin!(site.build.run(&hanging, &mut seen));
        // It hangs in the eleventh batch; everything before needs no waiting.
        let poll = |context: &mut std::task::Context<'_>| {
            assert!(build.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        };
        std::future::poll_fn(poll).await;
    }
    let built = site.run(&Triples::new("triples")).await.unwrap();
    assert_eq!(built.encoded, 100 - 80);
    assert_eq!(files(&site.build.out), files(&whole.build.out));
}

#[tokio::test]
async fn other_inputs_mean_another_index() {
    let site = Site::new();
    let encoded = |built: Result<Built, BuildError>| built.unwrap().encoded;
    assert_eq!(encoded(site.run(&Triples::new("triples")).await), 100);
    assert_eq!(encoded(site.run(&Triples::new("other")).await), 100);
    let index = PassageIndex::open(&site.build.out).unwrap();
    assert_eq!(index.inputs().encoder, "other");
    // A shorter corpus: what was there stays readable for those who have it open.
    let corpus = fs::read_to_string(&site.build.corpus).unwrap();
    let half = corpus.lines().take(50).collect::<Vec<_>>().join("\n");
    fs::write(&site.build.corpus, half).unwrap();
    assert_eq!(encoded(site.run(&Triples::new("other")).await), 50);
    assert_eq!(index.passage(99).unwrap().fields().id, "p99");
    index.verify().unwrap();
    assert_eq!(PassageIndex::open(&site.build.out).unwrap().rows(), 50);
    // A partial build of other inputs is not taken over, and nothing of it is left.
    let failing = Triples::failing_after("third", 40);
    assert!(site.run(&failing).await.is_err());
    assert_eq!(encoded(site.run(&Triples::new("triples")).await), 50);
    check(&site.build.out).unwrap();
    assert!(!site.path("index.partial").exists() && !site.path(".index.old").exists());
}

#[tokio::test]
async fn a_link_stays_and_what_it_leads_to_is_built_anew() {
    let mut site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let real = site.build.out.clone();
    let link = site.path("link");
    symlink(&real, &link).unwrap();
    // A shell writes a slash behind the name of a folder.
    for (out, id) in [(link.clone(), "a"), (link.join(""), "b")] {
        site.build.out = out;
        fs::write(&site.build.corpus, line(id, "Another text.")).unwrap();
        site.run(&Triples::new("triples")).await.unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), real);
        assert_eq!(ids(&real), [id]);
        assert!(!site.path("link.partial").exists());
    }
}

#[tokio::test]
async fn a_damaged_index_is_built_again() {
    let site = Site::new().hot(0.3);
    let encoder = Triples::new("triples");
    site.run(&encoder).await.unwrap();
    let whole = files(&site.build.out);
    for name in [
        "vectors-00001.bin",
        "manifest.json",
        "hot/passages-00000.bin",
    ] {
        let path = site.build.out.join(name);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        bytes[70] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = check(&site.build.out).unwrap_err().to_string();
        assert!(
            error.contains("damaged") && error.contains("rebuild it with"),
            "{error}"
        );
        site.run(&encoder).await.unwrap();
        assert_eq!(files(&site.build.out), whole, "{name}");
    }
}

#[tokio::test]
async fn the_hot_subset_holds_the_most_mentioned() {
    let hot_ids = |site: &Site| -> Vec<String> {
        let hot = PassageIndex::open(&site.build.out.join("hot")).unwrap();
        (0..hot.rows())
            .map(|row| hot.passage(row).unwrap().fields().id.to_owned())
            .collect()
    };
    let encoder = Triples::new("triples");
    // 99 counts 10, then 3, 13 … 53 count 9, then the first of those that count 5.
    for (fraction, ids) in [
        (0.001, vec![99]),
        (0.01, vec![99]),
        (0.03, vec![3, 13, 99]),
        (0.085, vec![0, 1, 3, 13, 23, 33, 43, 53, 99]),
    ] {
        let site = Site::new().hot(fraction);
        let built = site.run(&encoder).await.unwrap();
        assert_eq!(built.hot_rows, Some(ids.len()));
        let expected: Vec<String> = ids.iter().map(|id| format!("p{id}")).collect();
        assert_eq!(hot_ids(&site), expected);
    }
    // Added to an index that is there: nothing is encoded, rows are copied bit for bit.
    let mut site = Site::new();
    site.run(&encoder).await.unwrap();
    let plain = files(&site.build.out);
    let fresh = Triples::failing_after("triples", 0);
    site = site.hot(1.0);
    let built = site.run(&fresh).await.unwrap();
    assert_eq!((built.encoded, built.hot_rows), (0, Some(100)));
    let (index, hot) = (&site.build.out, &site.build.out.join("hot"));
    let (index, hot) = (
        PassageIndex::open(index).unwrap(),
        PassageIndex::open(hot).unwrap(),
    );
    for row in 0..100 {
        assert_eq!(index.vector(row).unwrap(), hot.vector(row).unwrap());
        assert_eq!(index.passage(row).unwrap(), hot.passage(row).unwrap());
    }
    assert_eq!(check(&site.build.out).unwrap().hot_rows, Some(100));
    // The whole is untouched by it.
    let mut both = files(&site.build.out);
    both.retain(|name, _| !name.starts_with("hot"));
    assert_eq!(both, plain);
}

#[tokio::test]
async fn what_cannot_be_built_is_refused_with_the_reason() {
    let encoder = Triples::new("triples");
    let refusal = async |site: &Site| {
        let error = site.run(&encoder).await.unwrap_err();
        let text = error.to_string();
        text.replace(&site.dir.path().display().to_string(), "DIR")
    };

    let site = Site::new();
    fs::create_dir(&site.build.out).unwrap();
    fs::write(site.build.out.join("thesis.txt"), "years of work").unwrap();
    assert_eq!(
        refusal(&site).await,
        "DIR/index exists and is no index: remove it, or choose another folder"
    );
    assert!(site.build.out.join("thesis.txt").exists());

    let mut site = Site::new();
    site.build.out = site.path("corpus.jsonl");
    assert!(refusal(&site).await.contains("is no index"));
    site.build.out = site.path("corpus.jsonl/index");
    assert!(refusal(&site).await.ends_with("failed"));
    site.build.out = PathBuf::from("/");
    assert_eq!(refusal(&site).await, "/ is no name for a folder");

    let mut site = Site::new();
    site.build.corpus = site.path("nowhere.jsonl");
    assert_eq!(refusal(&site).await, "reading DIR/nowhere.jsonl failed");
    fs::write(site.path("nowhere.jsonl"), "{\"id\":1}\n").unwrap();
    assert!(
        refusal(&site).await.starts_with(
            "DIR/nowhere.jsonl holds no passage in the format jsonl (left out: 1 broken"
        )
    );
    assert!(!site.build.out.exists());

    let site = Site::new().hot(1.5);
    assert!(
        refusal(&site)
            .await
            .contains("must be above 0 and at most 1, not 1.5")
    );
    let site = Site::new().hot(0.5);
    fs::write(site.path("in_degree.jsonl"), "{\"title\":\"x\"}\n").unwrap();
    assert!(
        refusal(&site)
            .await
            .contains("in_degree.jsonl, line 1: missing field `mention_indegree`")
    );

    let site = Site::new();
    let lock = fs::File::create(site.path(".index.lock")).unwrap();
    lock.lock().unwrap();
    let locked = "another process is writing DIR/index: wait for its end";
    assert_eq!(refusal(&site).await, locked);
    drop(lock);
    site.run(&encoder).await.unwrap();
}

/// The corpus is read twice; what changes in between must not end up in an index of the old hash.
/// Neither may it do so later, if the corpus is the old one again, and the next run goes on from there.
#[tokio::test]
async fn a_corpus_that_changes_under_the_build_is_noticed() {
    // Told of at the end; or killed before that, with some passages of both corpora encoded.
    for good_until in [usize::MAX, 40] {
        let site = Site::new();
        let mut change = changing(&site.build.corpus);
        let text = fs::read(&site.build.corpus).unwrap();
        let encoder = Triples::failing_after("triples", good_until);
        let error = site.build.run(&encoder, &mut change).await.unwrap_err();
        let as_expected = match good_until {
            usize::MAX => matches!(error, BuildError::Changed(_)),
            _ => matches!(error, BuildError::Encoder { .. }),
        };
        assert!(as_expected, "{error}");
        assert!(!site.build.out.exists());
        fs::write(&site.build.corpus, text).unwrap();
        let built = site.run(&Triples::new("triples")).await.unwrap();
        assert_eq!(built.encoded, 100);
        let texts = texts(&site.build.out);
        assert!(texts.iter().all(|text| !text.contains("circle")));
    }
}

/// As with too many open files at the moment at which a build has finished its work.
#[tokio::test]
async fn a_finished_build_that_cannot_be_opened_is_not_thrown_away() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let whole = files(&site.build.out);
    // Killed before its last step.
    let partial = site.path("index.partial");
    fs::rename(&site.build.out, &partial).unwrap();
    let (shard, aside) = (partial.join("vectors-00002.bin"), site.path("aside"));
    fs::rename(&shard, &aside).unwrap();
    // A link that leads to itself opens for nobody, the superuser included.
    symlink(&shard, &shard).unwrap();
    match site.run(&Triples::new("triples")).await.unwrap_err() {
        BuildError::Index(error) => assert!(matches!(error.fault, Fault::Io { .. }), "{error}"),
        error => panic!("{error}"),
    }
    fs::rename(&aside, &shard).unwrap();
    assert_eq!(files(&partial), whole);
    let built = site.run(&Triples::failing_after("triples", 0)).await;
    assert_eq!(built.unwrap().encoded, 0);
    assert_eq!(files(&site.build.out), whole);
}

#[tokio::test]
async fn what_a_hot_subset_lacks_is_told_before_anything_is_encoded() {
    let encoder = Triples::new("triples");
    for (in_degree, said) in [
        (Some("missing.jsonl"), "missing.jsonl failed"),
        (Some("broken.jsonl"), "broken.jsonl, line 1: missing field"),
        (Some("empty.jsonl"), "empty.jsonl is empty"),
        (None, "name a file with --in-degree"),
    ] {
        let mut site = Site::new();
        fs::write(site.path("broken.jsonl"), "{\"title\":\"x\"}\n").unwrap();
        fs::write(site.path("empty.jsonl"), "\n").unwrap();
        let in_degree = in_degree.map(|name| site.path(name));
        site.build.hot = Some(Hot {
            fraction: 0.5,
            in_degree,
        });
        let error = site.run(&encoder).await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(encoder.encoded.load(Relaxed), 0);
}

/// As a shell makes one of `<(zcat corpus.gz)`.
#[tokio::test]
async fn a_pipe_is_a_corpus() {
    let mut site = Site::new();
    let text = fs::read(&site.build.corpus).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    // So short that it fits into the pipe.
    writer.write_all(&text).unwrap();
    drop(writer);
    site.build.corpus = format!("/proc/self/fd/{}", reader.as_raw_fd()).into();
    let built = site.run(&Triples::new("triples")).await.unwrap();
    assert_eq!((built.rows, built.encoded), (100, 100));
    assert!(!site.path(".index.corpus").exists());
}

#[tokio::test]
async fn a_folder_of_documents_is_a_corpus() {
    let mut site = Site::new();
    let folder = site.path("folder");
    fs::create_dir_all(folder.join("inner")).unwrap();
    fs::write(folder.join("inner/a.md"), "# Title\n\nText of a.").unwrap();
    fs::write(folder.join("b.txt"), "Text of b.").unwrap();
    fs::write(folder.join("c.pdf"), "%PDF").unwrap();
    site.build.corpus = folder.clone();
    let encoder = Triples::new("triples");
    let built = site.run(&encoder).await.unwrap();
    assert_eq!((built.rows, built.encoded), (2, 2));
    let files = built.intake;
    assert_eq!((files.read, files.left_out()), (2, 1));
    let index = PassageIndex::open(&site.build.out).unwrap();
    let stored = index.passage(1).unwrap();
    let passage = stored.fields();
    assert_eq!(
        (passage.id, passage.title, passage.text),
        ("inner/a.md#1", "Title", "Text of a.")
    );
    // Nothing has changed, then one text has.
    let again = site.run(&encoder).await.unwrap();
    assert_eq!((again.encoded, again.intake), (0, files));
    fs::write(folder.join("b.txt"), "Another text.").unwrap();
    assert_eq!(site.run(&encoder).await.unwrap().encoded, 2);
}

#[tokio::test]
async fn a_corpus_that_is_not_there_leaves_nothing_behind() {
    let mut site = Site::new();
    site.build.corpus = site.path("nowhere.jsonl");
    site.build.out = site.path("new/index");
    let error = site.run(&Triples::new("triples")).await.unwrap_err();
    assert!(
        error.to_string().contains("nowhere.jsonl failed"),
        "{error}"
    );
    // No lock either.
    assert!(!site.path("new").exists());
}
