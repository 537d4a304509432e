//! Every way to break an index, and the reason that is given for each.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use spechop_ports::Passages;

use super::*;
use crate::IndexPassages;
use crate::fixture::{inputs, push, unit_vectors, write};
use crate::layout::Kind;
use crate::manifest::{MANIFEST, Manifest};
use crate::write::IndexWriter;

/// Breaks a fresh index of three shards and returns why it is then refused.
fn refusal(damage: impl FnOnce(&Path)) -> String {
    static WHOLE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &unit_vectors(5, 25, 16), 10);
        dir
    });
    let dir = tempfile::tempdir().unwrap();
    for file in fs::read_dir(WHOLE.path()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    assert!(PassageIndex::open(dir.path()).is_ok());
    damage(dir.path());
    let Err(error) = PassageIndex::open(dir.path()) else {
        panic!("a damaged index was opened");
    };
    let error = error.to_string();
    assert!(!error.contains('\n'), "one line: {error}");
    assert!(
        error.contains("spechop index build --corpus CORPUS --out "),
        "{error}"
    );
    error
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_files_are_refused_with_the_reason() {
    for kind in Kind::ALL {
        for shard in [0, 2] {
            let name = kind.file_name(shard);
            let check = |damage: &dyn Fn(&Path), reason: &str| {
                let error = refusal(|dir| damage(&dir.join(&name)));
                assert!(error.contains(&format!("{name} {reason}")), "{error}");
            };
            check(&|path| fs::remove_file(path).unwrap(), "is missing");
            check(&|path| flip(path, 0), "does not belong to this index");
            check(
                &|path| flip(path, 64),
                "is damaged: its checksum does not match",
            );
            let last = |path: &Path| fs::metadata(path).unwrap().len() as usize - 1;
            check(
                &|path| flip(path, last(path)),
                "is damaged: its checksum does not match",
            );
            let resize = |path: &Path, bytes| {
                fs::File::options()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .set_len(bytes)
                    .unwrap();
            };
            check(&|path| resize(path, 0), "is 0 bytes long instead of");
            for (change, bytes) in [("cut", 0), ("grown", 2)] {
                let error = refusal(|dir| {
                    let path = dir.join(&name);
                    resize(&path, last(&path) as u64 + bytes);
                });
                assert!(error.contains("bytes long instead of"), "{change}: {error}");
            }
        }
    }
}

#[test]
fn damaged_manifests_are_refused_with_the_reason() {
    let edit = |from: &'static str, to: &'static str| {
        move |dir: &Path| {
            let path = dir.join(MANIFEST);
            let json = fs::read_to_string(&path).unwrap();
            assert!(json.contains(from), "{json}");
            fs::write(path, json.replacen(from, to, 1)).unwrap();
        }
    };
    let check = |damage: &dyn Fn(&Path), reason: &str| {
        let error = refusal(damage);
        assert!(error.contains(reason), "{error}");
    };
    check(
        &|dir| fs::remove_file(dir.join(MANIFEST)).unwrap(),
        "no manifest.json",
    );
    check(
        &|dir| fs::write(dir.join(MANIFEST), "").unwrap(),
        "manifest.json is damaged",
    );
    check(
        &|dir| fs::write(dir.join(MANIFEST), "{}").unwrap(),
        "manifest.json is damaged",
    );
    check(
        &edit("\"rows\": 25", "\"rows\": 24"),
        "manifest.json is damaged",
    );
    check(
        &edit("test-encoder", "test-decoder"),
        "manifest.json is damaged",
    );
    check(
        &edit("\"format\": 1", "\"format\": 3"),
        "is of format 3, this program reads formats up to 2",
    );
    // One that it reads, but not what was written.
    check(
        &edit("\"format\": 1", "\"format\": 2"),
        "manifest.json is damaged",
    );
}

#[test]
fn every_byte_of_the_manifest_counts() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &unit_vectors(5, 3, 4), 10);
    let path = dir.path().join(MANIFEST);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        // White space is the one thing that may change: it says nothing.
        let blank = whole[at].is_ascii_whitespace() && (whole[at] ^ 1).is_ascii_whitespace();
        assert!(
            blank || PassageIndex::open(dir.path()).is_err(),
            "byte {at}"
        );
    }
}

#[test]
fn half_written_and_foreign_folders_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = IndexWriter::open(dir.path(), inputs(4, 10)).unwrap();
    push(&mut writer, 0, &[1.0; 4]);
    writer.checkpoint().unwrap();
    drop(writer);
    for dir in [dir.path(), &dir.path().join("nothing-here")] {
        let error = PassageIndex::open(dir).err().unwrap().to_string();
        assert!(error.contains("no manifest.json"), "{error}");
    }
    let file_of_another = refusal(|dir| {
        let other = tempfile::tempdir().unwrap();
        let mut writer = IndexWriter::open(other.path(), inputs(16, 11)).unwrap();
        let vectors = unit_vectors(6, 10, 16);
        vectors
            .iter()
            .enumerate()
            .for_each(|(row, v)| push(&mut writer, row, v));
        writer.finish().unwrap();
        let name = Kind::Scales.file_name(0);
        fs::copy(other.path().join(&name), dir.join(&name)).unwrap();
    });
    assert!(
        file_of_another.contains("scales-00000.bin does not belong"),
        "{file_of_another}"
    );
}

/// An index as a server has it that is too large to be held in memory.
fn open_large(dir: &Path, vitals: &Vitals) -> Result<PassageIndex, IndexError> {
    PassageIndex::open_as(dir, 0, Proof::Behind, vitals.clone())
}

/// Waits until the checksums of a large index have been compared.
fn compared(index: &mut PassageIndex) {
    let checker = index._checker.as_mut().unwrap();
    checker.thread.take().unwrap().join().unwrap();
}

/// What reaches the caller of a search: the error with its source.
async fn searched(index: &PassageIndex, vector: &[f32]) -> Result<Vec<Passage>, String> {
    let found = index.search(&Call::authoritative(), vector, 25).await;
    found.map_err(|error| {
        assert!(matches!(error, PortError::Unavailable { .. }), "{error}");
        let source = std::error::Error::source(&error).unwrap();
        format!("{error}: {source}")
    })
}

/// Vectors and passages of a large index are not compared before it is opened. Scales and offsets
/// are.
#[tokio::test]
async fn a_large_index_is_checked_at_open_and_behind() {
    for kind in Kind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let vectors = unit_vectors(5, 25, 16);
        write(dir.path(), &vectors, 10);
        let name = kind.file_name(1);
        flip(&dir.path().join(&name), 70);
        let reason = format!("{name} is damaged: its checksum does not match");
        let vitals = Vitals::default();
        if matches!(kind, Kind::Scales | Kind::Offsets) {
            let error = open_large(dir.path(), &vitals).err().unwrap().to_string();
            assert!(error.contains(&reason), "{error}");
            continue;
        }
        let mut index = open_large(dir.path(), &vitals).unwrap();
        compared(&mut index);
        let failures = vitals.failures();
        assert_eq!(failures.len(), 1);
        assert!(failures[0].reason.contains(&reason), "{failures:?}");
        let error = searched(&index, &vectors[12]).await.unwrap_err();
        assert!(error.contains(&reason), "{error}");
        let error = index.verify().unwrap_err().to_string();
        assert!(error.contains(&reason), "{error}");
        let fetched = IndexPassages::new(Arc::new(index)).passage("p-7").await;
        assert!(
            matches!(fetched, Err(PortError::Unavailable { .. })),
            "{fetched:?}"
        );
        assert!(PassageIndex::open_verified(dir.path()).is_err());
        // On demand only: the search that meets it says so, and nobody panics.
        let index =
            PassageIndex::open_as(dir.path(), 0, Proof::OnDemand, Vitals::default()).unwrap();
        let found = searched(&index, &vectors[12]).await;
        if kind == Kind::Passages {
            assert!(found.unwrap_err().contains("record 0 cannot be read"));
        }
    }
}

/// An index that was written wrongly has the right checksums.
#[test]
fn what_makes_no_sense_is_refused_however_large_it_is() {
    let written = |scales: &[f32]| {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = IndexWriter::open(dir.path(), inputs(4, 10)).unwrap();
        for scale in scales {
            let passage = crate::PassageRef {
                id: "p",
                title: "t",
                text: "x",
                ..Default::default()
            };
            writer.push_quantised(passage, &[1; 64], *scale).unwrap();
        }
        writer.finish().unwrap();
        dir
    };
    let refused = |dir: &Path, reason: &str| {
        for copied_bytes_max in [0, u64::MAX] {
            let open =
                PassageIndex::open_as(dir, copied_bytes_max, Proof::OnDemand, Vitals::default());
            let error = open.err().unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
    };
    assert!(PassageIndex::open(written(&[1.0, 0.0]).path()).is_ok());
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0] {
        let dir = written(&[1.0, bad]);
        refused(dir.path(), "scales-00000.bin makes no sense at row 1");
    }
    // Records of 11 bytes each.
    for (ends, row) in [
        ([0, 22, 33], 0),
        ([11, 18, 33], 1),
        ([22, 11, 33], 1),
        ([11, 22, u64::MAX], 2),
        ([11, 22, 32], 2),
        ([11, 22, 34], 2),
    ] {
        let dir = written(&[1.0; 3]);
        let name = Kind::Offsets.file_name(0);
        let mut offsets = fs::read(dir.path().join(&name)).unwrap();
        for (at, end) in (64..).step_by(8).zip(ends) {
            offsets[at..at + 8].copy_from_slice(&u64::to_le_bytes(end));
        }
        fs::write(dir.path().join(&name), &offsets).unwrap();
        let mut manifest = Manifest::read(dir.path()).unwrap();
        manifest.shards[0].files[Kind::Offsets as usize].crc32 = crc32fast::hash(&offsets);
        manifest.write(dir.path()).unwrap();
        let reason = format!("{name} makes no sense at row {row}");
        refused(dir.path(), &reason);
    }
}

/// A stranger can give it the right checksum: nothing that is computed of its numbers overflows.
#[test]
fn numbers_that_no_index_has_are_refused() {
    const CONTRADICT: &str = "its numbers contradict each other";
    type Change = fn(&mut Manifest);
    let changes: [(Change, &str); 5] = [
        (
            |manifest| {
                manifest.rows = 1 << 62;
                manifest.shards[0].rows = 1 << 62;
                manifest.inputs.shard_rows = 1 << 62;
            },
            CONTRADICT,
        ),
        (
            |manifest| {
                let mut other = manifest.shards[0].clone();
                other.rows = usize::MAX;
                manifest.rows -= 1;
                manifest.shards.push(other);
            },
            CONTRADICT,
        ),
        (|manifest| manifest.inputs.width = 1 << 17, CONTRADICT),
        (|manifest| manifest.inputs.width = 0, CONTRADICT),
        (
            |manifest| manifest.shards[0].files[0].bytes = u64::MAX,
            "it gives vectors-00000.bin no length that can be",
        ),
    ];
    for (change, reason) in changes {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &unit_vectors(5, 3, 4), 10);
        let mut manifest = Manifest::read(dir.path()).unwrap();
        change(&mut manifest);
        manifest.write(dir.path()).unwrap();
        let error = PassageIndex::open(dir.path()).err().unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// As `cp` over a served index does it. Without the look before, the search would end this process.
#[tokio::test]
async fn a_large_index_survives_that_its_files_are_cut() {
    for kind in [Kind::Vectors, Kind::Passages] {
        for length in [0, 64, 100] {
            let dir = tempfile::tempdir().unwrap();
            let vectors = unit_vectors(5, 2_000, 64);
            write(dir.path(), &vectors, 1_000);
            let vitals = Vitals::default();
            let index = open_large(dir.path(), &vitals).unwrap();
            assert_eq!(searched(&index, &vectors[3]).await.unwrap().len(), 25);
            let name = kind.file_name(1);
            let mut open = fs::File::options();
            let file = open.write(true).open(dir.path().join(&name));
            file.unwrap().set_len(length).unwrap();
            let error = searched(&index, &vectors[3]).await.unwrap_err();
            let reason = format!("{name} was changed while it was in use");
            assert!(error.contains(&reason), "{error}");
            assert!(error.contains("spechop index verify"), "{error}");
            let failures = vitals.failures();
            assert!(failures[0].reason.contains(&reason), "{failures:?}");
            // Also where no thread stands between.
            assert!(index.scan(&[Query::new(&vectors[3], 1).unwrap()]).is_err());
            if kind == Kind::Vectors {
                assert!(index.vector(1_500).is_err());
            } else {
                assert!(index.passage(1_500).is_err());
            }
        }
    }
}

/// What is held in memory is nobody else's to change.
#[tokio::test]
async fn a_small_index_does_not_need_its_files_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let vectors = unit_vectors(5, 25, 16);
    write(dir.path(), &vectors, 10);
    let vitals = Vitals::default();
    let index = PassageIndex::open_watched(dir.path(), &vitals).unwrap();
    let before = searched(&index, &vectors[3]).await.unwrap();
    for file in fs::read_dir(dir.path()).unwrap() {
        let file = fs::File::create(file.unwrap().path()).unwrap();
        file.set_len(3).unwrap();
    }
    assert_eq!(searched(&index, &vectors[3]).await.unwrap(), before);
    index.verify().unwrap();
    assert_eq!(vitals.failures(), []);
}

#[test]
fn a_writer_goes_on_where_it_was_and_takes_nothing_for_granted() {
    let files = |dir: &Path| {
        let mut files: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                (
                    path.file_name().unwrap().to_owned(),
                    fs::read(path).unwrap(),
                )
            })
            .collect();
        files.sort();
        files
    };
    let vectors = unit_vectors(9, 25, 16);
    let whole = tempfile::tempdir().unwrap();
    write(whole.path(), &vectors, 10);
    // What happened between the kill and the next run, and the rows that are still good then.
    type Accident<'a> = &'a dyn Fn(&Path);
    let cases: &[(Accident<'_>, usize)] = &[
        (&|_| {}, 17),
        (&|dir| flip(&dir.join("vectors-00001.bin"), 100), 10),
        (
            &|dir| fs::remove_file(dir.join("offsets-00001.bin")).unwrap(),
            10,
        ),
        (&|dir| flip(&dir.join("passages-00000.bin"), 100), 0),
        (&|dir| flip(&dir.join("journal.json"), 60), 0),
        (&|dir| fs::remove_file(dir.join("journal.json")).unwrap(), 0),
    ];
    for (accident, good) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = IndexWriter::open(dir.path(), inputs(16, 10)).unwrap();
        for (row, vector) in vectors.iter().enumerate().take(19) {
            if row == 17 {
                writer.checkpoint().unwrap();
            }
            push(&mut writer, row, vector);
        }
        // As a kill would leave it: rows written after the last checkpoint, no manifest.
        drop(writer);
        accident(dir.path());
        let mut writer = IndexWriter::open(dir.path(), inputs(16, 10)).unwrap();
        assert_eq!(writer.rows(), *good);
        for (row, vector) in vectors.iter().enumerate().skip(*good) {
            push(&mut writer, row, vector);
        }
        writer.finish().unwrap();
        assert_eq!(files(dir.path()), files(whole.path()));
    }
    // Other inputs: nothing of the old is taken over, nothing of it is left.
    let mut writer = IndexWriter::open(whole.path(), inputs(16, 100)).unwrap();
    assert_eq!(writer.rows(), 0);
    push(&mut writer, 0, &vectors[0]);
    writer.finish().unwrap();
    assert_eq!(files(whole.path()).len(), 5);
}

/// As with too many open files: the system does not let a file be opened that is as it should be.
#[test]
fn a_writer_drops_nothing_that_it_cannot_open() {
    let dir = tempfile::tempdir().unwrap();
    let vectors = unit_vectors(9, 25, 16);
    let mut writer = IndexWriter::open(dir.path(), inputs(16, 10)).unwrap();
    for (row, vector) in vectors.iter().enumerate() {
        push(&mut writer, row, vector);
    }
    writer.checkpoint().unwrap();
    drop(writer);
    for name in ["journal.json", "scales-00000.bin", "passages-00002.bin"] {
        let (path, aside) = (dir.path().join(name), dir.path().join("aside"));
        fs::rename(&path, &aside).unwrap();
        // A link that leads to itself opens for nobody, the superuser included.
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let error = IndexWriter::open(dir.path(), inputs(16, 10)).err().unwrap();
        assert!(matches!(error.fault, Fault::Io { .. }), "{error}");
        fs::rename(&aside, &path).unwrap();
        let writer = IndexWriter::open(dir.path(), inputs(16, 10)).unwrap();
        assert_eq!(writer.rows(), 25, "{name}");
    }
}

#[test]
fn unusable_vectors_and_empty_indexes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = IndexWriter::open(dir.path(), inputs(2, 10)).unwrap();
    let passage = crate::PassageRef {
        id: "p-1",
        title: "t",
        text: "x",
        ..Default::default()
    };
    for (vector, reason) in [
        (
            &[1.0, f32::NAN][..],
            "passage p-1: a component is no finite number",
        ),
        (&[1.0], "passage p-1: 1 components instead of 2"),
    ] {
        let error = writer.push(passage, vector).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(writer.rows(), 0);
    assert!(writer.finish().is_err());
}
