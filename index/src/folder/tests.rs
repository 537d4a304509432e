//! What takes the place of what, and what stays.

use super::*;

/// What stands in `out` after it was replaced in two steps.
fn replaced(there: bool) -> String {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(&dir.path().join("index")).unwrap();
    let made = [&folder.partial, &folder.out].into_iter();
    for made in made.take(1 + usize::from(there)) {
        fs::create_dir(made).unwrap();
        let name = made.file_name().unwrap().to_str().unwrap();
        fs::write(made.join("note"), name).unwrap();
    }
    folder.in_two_steps().unwrap();
    assert!(!folder.partial.exists());
    assert_eq!(folder.old.exists(), there);
    fs::read_to_string(folder.out.join("note")).unwrap()
}

#[test]
fn without_an_exchange_the_first_index_is_published_as_any_other() {
    assert_eq!(replaced(false), "index.partial");
    assert_eq!(replaced(true), "index.partial");
}

#[test]
fn what_came_while_it_was_built_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(&dir.path().join("index")).unwrap();
    for made in [&folder.partial, &folder.out] {
        fs::create_dir(made).unwrap();
        fs::write(made.join(MANIFEST), "{}").unwrap();
    }
    let note = folder.out.join("notes.md");
    fs::write(&note, "mine").unwrap();
    let refused = folder.swap().unwrap_err().to_string();
    assert!(refused.contains("notes.md"), "{refused}");
    assert_eq!(fs::read_to_string(&note).unwrap(), "mine");
    fs::remove_file(&note).unwrap();
    folder.swap().unwrap();
    assert!(!folder.partial.exists());
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).unwrap();
    fs::write(real.join(MANIFEST), "{}").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let real = fs::canonicalize(&real).unwrap();
    assert_eq!(Folder::there(&link).unwrap().out, real);
    assert_eq!(Folder::there(&real).unwrap().out, real);
}

#[test]
fn a_kill_between_the_two_steps_loses_no_index() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("index");
    let old = dir.path().join(".index.old");
    fs::create_dir(&old).unwrap();
    fs::write(old.join(MANIFEST), "first").unwrap();
    let folder = Folder::there(&out).unwrap();
    drop(folder.lock().unwrap());
    assert!(!old.exists());
    // If the second step was taken, the old index is only rubbish.
    fs::create_dir(&old).unwrap();
    fs::write(old.join(MANIFEST), "second").unwrap();
    drop(folder.lock().unwrap());
    assert_eq!(fs::read_to_string(out.join(MANIFEST)).unwrap(), "first");
}

/// As on NFS and FUSE, if somebody has a file of the old index open.
#[test]
fn what_somebody_has_open_does_not_stop_the_next_change() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (folder, file) in [
        (".index.old", ".nfs0001"),
        ("index.partial", ".fuse_hidden0001"),
        ("index.partial", MANIFEST),
        ("index", MANIFEST),
        ("index/hot", ".nfs0002"),
        ("index/.hot.replaced-1", ".nfs0003"),
    ] {
        fs::create_dir_all(path(folder)).unwrap();
        fs::write(path(folder).join(file), "").unwrap();
    }
    let folder = Folder::new(&path("index")).unwrap();
    folder.swap().unwrap();
    assert!(path("index/.fuse_hidden0001").exists() && !folder.partial.exists());
    Folder::there(&path("index")).unwrap();
}

#[test]
fn what_cannot_be_removed_is_put_aside_until_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(&dir.path().join("index")).unwrap();
    let listed = || {
        let entries = fs::read_dir(dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let aside = dir.path().join(".index.replaced-1");
    for names in [
        &[".index.replaced-1"][..],
        &[".index.replaced-1", ".index.replaced-2"],
    ] {
        // No folder, so that it cannot be removed as one.
        fs::write(&folder.old, "").unwrap();
        folder.clear_away(&folder.old).unwrap();
        assert_eq!(listed(), names);
    }
    fs::remove_file(&aside).unwrap();
    fs::create_dir(&aside).unwrap();
    fs::write(aside.join(".nfs0001"), "").unwrap();
    fs::create_dir(&folder.old).unwrap();
    folder.clear_away(&folder.old).unwrap();
    assert_eq!(listed(), [".index.replaced-2"]);
}

#[test]
fn a_mount_point_is_refused_before_anything_grows() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("/proc", &link).unwrap();
    for (path, expected) in [
        (PathBuf::from("/proc"), true),
        (dir.path().to_owned(), false),
        // What a link leads to is another question, also above the folder.
        (link.clone(), false),
        (link.join("self/fd"), false),
        (dir.path().join("nowhere"), false),
    ] {
        assert_eq!(is_mount_point(&path), expected, "{}", path.display());
    }
    let folder = Folder {
        out: "/proc".into(),
        partial: dir.path().join("partial"),
        old: dir.path().join("old"),
    };
    let error = folder.is_grown(&inputs()).unwrap_err().to_string();
    assert!(error.contains("/proc is a mount point"), "{error}");
}

fn inputs() -> Inputs {
    Inputs {
        corpus_sha256: String::new(),
        encoder: String::new(),
        width: 1,
        text: String::new(),
        batch_rows: 1,
        shard_rows: 1,
        subset: None,
        extended: false,
        part: None,
    }
}

#[test]
fn what_cannot_be_opened_is_not_taken_for_unfinished() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = inputs();
    assert!(finished(dir.path(), &inputs).unwrap().is_none());
    let manifest = dir.path().join(MANIFEST);
    fs::write(&manifest, "{}").unwrap();
    assert!(finished(dir.path(), &inputs).unwrap().is_none());
    fs::remove_file(&manifest).unwrap();
    // A link that leads to itself opens for nobody, the superuser included.
    std::os::unix::fs::symlink(&manifest, &manifest).unwrap();
    let error = finished(dir.path(), &inputs).err().unwrap();
    assert!(matches!(error, BuildError::Index(_)), "{error}");
}
