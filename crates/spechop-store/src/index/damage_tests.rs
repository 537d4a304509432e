//! Every way to break an index, and the reason that is given for each.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use super::*;
use crate::fixture::{inputs, push, unit_vectors, write};
use crate::layout::Kind;
use crate::manifest::MANIFEST;
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
        error.contains("rebuild it with `spechop index build"),
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
        &edit("\"format\": 1", "\"format\": 2"),
        "is of format 2, this program reads format 1",
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

/// A large index is not checksummed at open: damage then shows on demand, or as an error of the
/// search that meets it, never as a panic.
#[tokio::test]
async fn damage_that_open_did_not_look_for_is_found_later() {
    for kind in Kind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let vectors = unit_vectors(5, 25, 16);
        write(dir.path(), &vectors, 10);
        let path = dir.path().join(kind.file_name(1));
        let mut bytes = fs::read(&path).unwrap();
        bytes[64..].fill(0xff);
        fs::write(&path, bytes).unwrap();
        let index = PassageIndex::open_checked(dir.path(), 0).unwrap();
        let found = index.search(&Call::authoritative(), &vectors[12], 25).await;
        if matches!(kind, Kind::Offsets | Kind::Passages) {
            let error = found.unwrap_err().to_string();
            assert!(
                error.contains("passages-00001.bin is damaged: record"),
                "{error}"
            );
        }
        let error = index.verify().unwrap_err().to_string();
        assert!(
            error.contains(&format!("{} is damaged", kind.file_name(1))),
            "{error}"
        );
        assert!(PassageIndex::open_verified(dir.path()).is_err());
    }
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

#[test]
fn unusable_vectors_and_empty_indexes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = IndexWriter::open(dir.path(), inputs(2, 10)).unwrap();
    let passage = crate::PassageRef {
        id: "p-1",
        title: "t",
        text: "x",
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
