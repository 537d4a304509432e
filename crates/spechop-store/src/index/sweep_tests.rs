//! Many damages, drawn from seeds: whatever happens to whichever file, before an index is opened or
//! while it is open, the index is refused, or says that it is broken, or answers as if nothing had
//! happened.

use std::path::Path;
use std::sync::LazyLock;

use spechop_testkit::damage::{Damage, Trace, copy_files};

use super::*;
use crate::fixture::{unit_vectors, write_extended};
use crate::manifest::MANIFEST;

const ROWS: usize = 60;
const WIDTH: usize = 16;

/// The files that damage is drawn for. The manifest is drawn more often: it is one of thirteen.
const FILES: [&str; 11] = [
    "vectors-00000.bin",
    "vectors-00002.bin",
    "scales-00000.bin",
    "scales-00001.bin",
    "offsets-00000.bin",
    "offsets-00002.bin",
    "passages-00001.bin",
    "passages-00002.bin",
    MANIFEST,
    MANIFEST,
    MANIFEST,
];

/// What became of a damaged index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Refused,
    Reported,
    Harmless,
}

/// An index of three shards, and what it answers.
struct Whole {
    dir: tempfile::TempDir,
    answers: Vec<Result<Vec<Passage>, String>>,
}

static WHOLE: LazyLock<Whole> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    write_extended(dir.path(), &unit_vectors(5, ROWS, WIDTH), 25);
    let answers = answers(&PassageIndex::open(dir.path()).unwrap());
    Whole { dir, answers }
});

/// Every passage, in four different orders.
fn answers(index: &PassageIndex) -> Vec<Result<Vec<Passage>, String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let search = async {
        let mut answers = Vec::new();
        for vector in unit_vectors(7, 4, WIDTH) {
            let found = index.search(&Call::authoritative(), &vector, ROWS).await;
            answers.push(found.map_err(|error| error.to_string()));
        }
        answers
    };
    runtime.unwrap().block_on(search)
}

/// An index as a server opens it: every second one is too large to be held in memory.
fn open(dir: &Path, seed: u64, vitals: &Vitals) -> Result<PassageIndex, IndexError> {
    let copied_bytes_max = if seed.is_multiple_of(2) { u64::MAX } else { 0 };
    PassageIndex::open_as(dir, copied_bytes_max, Proof::Behind, vitals.clone())
}

/// What the index comes to once its checksums have been compared.
fn outcome(mut index: PassageIndex, vitals: &Vitals, what: &str) -> Outcome {
    if let Some(checker) = &mut index._checker {
        checker.thread.take().unwrap().join().unwrap();
    }
    let found = answers(&index);
    if vitals.failures().is_empty() {
        assert_eq!(found, WHOLE.answers, "{what}: served in silence");
        return Outcome::Harmless;
    }
    // The search that meets it first makes it known.
    assert!(answers(&index).iter().all(Result::is_err), "{what}");
    let unavailable = |error: &String| error == "passage index is unavailable";
    let mut errors = found.iter().filter_map(|found| found.as_ref().err());
    assert!(errors.all(unavailable), "{what}: {found:?}");
    for (found, whole) in found.iter().zip(&WHOLE.answers) {
        assert!(found.is_err() || found == whole, "{what}: a wrong answer");
    }
    Outcome::Reported
}

fn before_it_is_opened(seed: u64) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    copy_files(WHOLE.dir.path(), dir.path());
    let damage = Damage::draw(seed, &FILES);
    let changed = damage.apply(dir.path(), Trace::Hidden);
    let what = format!("seed {seed}: {damage:?}");
    let vitals = Vitals::default();
    let outcome = match open(dir.path(), seed, &vitals) {
        Ok(index) => outcome(index, &vitals, &what),
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{what}: {error}");
            Outcome::Refused
        }
    };
    // White space of the manifest is the one thing that says nothing.
    let harmless = !changed || damage.file == MANIFEST;
    assert!(harmless || outcome != Outcome::Harmless, "{what}");
    outcome
}

fn while_it_is_open(seed: u64) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    copy_files(WHOLE.dir.path(), dir.path());
    let vitals = Vitals::default();
    let index = open(dir.path(), seed, &vitals).unwrap();
    let damage = Damage::draw(seed, &FILES);
    damage.apply(dir.path(), Trace::Left);
    outcome(index, &vitals, &format!("seed {seed}: {damage:?}"))
}

/// Each seed once before the index is opened and once behind; how many came to what.
fn sweep(seeds: std::ops::Range<u64>) -> [usize; 3] {
    let outcomes: Vec<Outcome> = seeds
        .flat_map(|seed| [before_it_is_opened(seed), while_it_is_open(seed)])
        .collect();
    let count = |outcome| outcomes.iter().filter(|o| **o == outcome).count();
    [Outcome::Refused, Outcome::Reported, Outcome::Harmless].map(count)
}

#[test]
fn no_damage_is_served_in_silence() {
    let [refused, reported, _] = sweep(0..250);
    assert!(refused > 150 && reported > 30, "{refused} {reported}");
}

/// The long form.
#[test]
#[ignore = "a minute or so; `make attack` runs it"]
fn attack_index_damages() {
    let [refused, reported, harmless] = sweep(1_000..2_000);
    // A row of the attack's table; the harness has begun the line.
    eprintln!(
        "\n| M4, M5 | 2,000 damages of indexes of both kinds, before and while they are open | {refused} \
         refused, {reported} told by health, {harmless} harmless (the same answers), 0 served in silence |"
    );
}
