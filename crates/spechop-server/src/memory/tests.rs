use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use spechop_speculate::MemoryOptions;
use spechop_testkit::TextVectors;
use spechop_types::{CommitKind, Hop, Observation, SubQuestion};

use super::*;

fn vector(text: &str) -> Vec<f32> {
    let sign = if text.len().is_multiple_of(2) {
        1.0
    } else {
        -1.0
    };
    vec![sign, 0.5 * sign, -0.25]
}

fn memory(encoder: &'static str, most: usize) -> Arc<Memory> {
    let options = MemoryOptions {
        most: NonZeroUsize::new(most).unwrap(),
        similarity: 0.9,
    };
    let encoder = TextVectors::new(encoder, 3, vector);
    Arc::new(Memory::new(Arc::new(encoder), options))
}

fn learn(memory: &Memory, tenant: &str, asked: &str, observed: &str) {
    let hop = Hop {
        sub_question: SubQuestion::new(asked),
        answer: observed.into(),
        kind: CommitKind::Observed,
        guess: None,
        observation: Arc::new(Observation::read(Some(observed.into()), Vec::new())),
    };
    memory.committed(&Tenant::new(tenant).unwrap(), &hop, |a, b| a == b);
}

async fn taught() -> Arc<Memory> {
    let memory = memory("one", 8);
    learn(&memory, "a", "Who directed Kanał?", "Wajda");
    learn(&memory, "a", "Who directed Kanał?", "Andrzej Wajda");
    learn(&memory, "b", "Whose \"mother\"\u{1}?", "\u{1}\\");
    memory.encode().await;
    learn(&memory, "b", "Who is without a vector?", "Somebody");
    memory
}

async fn keeper(memory: &Arc<Memory>, path: &Path) -> MemoryKeeper {
    MemoryKeeper::open(
        Some(&Verified::Own(Arc::clone(memory))),
        Some(path),
        &Writing::default(),
    )
    .await
}

#[tokio::test]
async fn what_was_remembered_is_known_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("folder/memory.json");
    let first = taught().await;
    let kept = keeper(&first, &path).await;
    kept.save().await;
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others may not read what was asked");

    let second = memory("one", 8);
    keeper(&second, &path).await;
    assert_eq!(second.entries(), first.entries());
    // Smaller: the last ones used.
    let small = memory("one", 1);
    keeper(&small, &path).await;
    assert_eq!(small.entries(), first.entries()[2..]);
    // Another encoder's vectors say nothing.
    let other = memory("other", 8);
    keeper(&other, &path).await;
    assert_eq!(other.entries().len(), 3);
    assert!(other.entries().iter().all(|entry| entry.vector.is_none()));
}

#[tokio::test]
async fn it_is_written_if_anything_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.json");
    let memory = memory("one", 8);
    let kept = keeper(&memory, &path).await;
    kept.save().await;
    assert!(!path.exists());
    learn(&memory, "a", "Who?", "Somebody");
    kept.save().await;
    fs::remove_file(&path).unwrap();
    kept.save().await;
    assert!(!path.exists());
    // A new vector is new as well.
    memory.encode().await;
    kept.save().await;
    assert!(path.exists());
}

#[tokio::test]
async fn a_file_that_is_of_no_use_is_put_aside_or_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.json");
    let first = taught().await;
    keeper(&first, &path).await.save().await;
    let whole = fs::read_to_string(&path).unwrap();
    for damage in [
        String::new(),
        whole[..whole.len() / 2].to_owned(),
        whole.replace("Andrzej", "Andreas"),
        whole.replace("\"format\": 1", "\"format\": 2"),
        whole.replace("\"tenant\": \"a\"", "\"tenant\": \"a b\""),
        "[".repeat(100_000),
    ] {
        assert_ne!(damage, whole);
        fs::write(&path, &damage).unwrap();
        let anew = memory("one", 8);
        let kept = keeper(&anew, &path).await;
        assert_eq!(anew.entries(), []);
        assert!(!path.exists());
        let aside = dir.path().join("memory.json.damaged");
        assert_eq!(fs::read_to_string(aside).unwrap(), damage);
        learn(&anew, "a", "Who?", "Somebody");
        kept.save().await;
        assert!(path.exists());
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let memory = memory("one", 8);
    let kept = keeper(&memory, &path).await;
    learn(&memory, "a", "Who?", "Somebody");
    kept.save().await;
    assert!(path.is_dir());
}

/// Whatever is flipped: the file is refused, or says the same.
#[tokio::test]
async fn every_bit_counts() {
    let json = {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.json");
        keeper(&taught().await, &path).await.save().await;
        fs::read(path).unwrap()
    };
    let say = |kept: Kept| serde_json::to_string(&kept).unwrap();
    let right = say(PURPOSE.parse(&json).unwrap());
    for at in 0..json.len() {
        for bit in 0..8 {
            let mut flipped = json.clone();
            flipped[at] ^= 1 << bit;
            if let Ok(kept) = PURPOSE.parse(&flipped) {
                assert_eq!(say(kept), right, "bit {bit} of byte {at}");
            }
        }
    }
}

#[tokio::test]
async fn without_a_memory_or_a_file_nothing_is_kept() {
    let memory = memory("one", 8);
    learn(&memory, "a", "Who?", "Somebody");
    for kept in [
        MemoryKeeper::open(None, None, &Writing::default()).await,
        MemoryKeeper::open(
            Some(&Verified::Own(Arc::clone(&memory))),
            None,
            &Writing::default(),
        )
        .await,
    ] {
        kept.save().await;
        let keeps = tokio::time::timeout(Duration::from_millis(50), kept.keep());
        assert!(keeps.await.is_err());
    }
    // It has been given its vector meanwhile.
    assert!(memory.entries()[0].vector.is_some());
}
