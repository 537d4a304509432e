//! Folders as they are found on people's machines.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;

use super::*;
use crate::corpus::{Corpus, Reading, Survey};
use crate::input::Source;

/// A folder with files in it, by their paths.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

fn survey(path: &Path) -> Result<Survey, BuildError> {
    Survey::of(&Source::at(path), &Reading::default())
}

fn all(path: &Path) -> (Vec<Record>, Survey) {
    let mut documents = Corpus::open(&Source::at(path), &Reading::default()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = documents.next().unwrap() {
        records.push(record);
    }
    (records, survey(path).unwrap())
}

fn ids(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| &*record.id).collect()
}

const SENTENCE: &str = "Ten words of text stand in this one short sentence. ";

#[test]
fn files_become_passages_with_their_titles_in_a_fixed_order() {
    let long = SENTENCE.repeat(25);
    let dir = folder(&[
        ("b.txt", b"Text of b."),
        ("a/z.md", b"# Zed\n\nText of z."),
        ("a/Ana_Ruiz-Soto.TXT", long.as_bytes()),
        ("a.html", b"<title>Page</title><p>Text of a."),
        (
            "a/deep/er/some-file.markdown",
            b"\xef\xbb\xbfText of some file.",
        ),
    ]);
    let (records, identity) = all(dir.path());
    let expected = [
        "a/Ana_Ruiz-Soto.TXT#1",
        "a/Ana_Ruiz-Soto.TXT#2",
        "a/Ana_Ruiz-Soto.TXT#3",
        "a/deep/er/some-file.markdown#1",
        "a/z.md#1",
        "a.html#1",
        "b.txt#1",
    ];
    assert_eq!(ids(&records), expected);
    let titles: Vec<&str> = records[2..].iter().map(|record| &*record.title).collect();
    assert_eq!(titles, ["Ana Ruiz-Soto", "some file", "Zed", "Page", "b"]);
    assert_eq!(records[3].text, "Text of some file.");
    let files = &identity.intake;
    assert_eq!((files.read, files.left_out()), (5, 0));
    assert_eq!(all(dir.path()), (records, identity));
    assert_eq!(survey(dir.path()).unwrap().rows, 7);
}

#[test]
fn another_file_changes_the_hash_and_no_other_id() {
    let dir = folder(&[("b.txt", b"Text of b."), ("d.txt", b"Text of d.")]);
    let (before, first) = all(dir.path());
    fs::write(dir.path().join("c.txt"), "Text of c.").unwrap();
    fs::write(dir.path().join("picture.png"), "\0").unwrap();
    let (after, second) = all(dir.path());
    assert_ne!(first.sha256, second.sha256);
    assert_eq!(ids(&before), ["b.txt#1", "d.txt#1"]);
    assert_eq!(ids(&after), ["b.txt#1", "c.txt#1", "d.txt#1"]);
    // What is no passage has no part in it.
    fs::remove_file(dir.path().join("c.txt")).unwrap();
    assert_eq!(all(dir.path()).1.sha256, first.sha256);
}

#[test]
fn what_cannot_be_used_is_counted_and_named() {
    let large = SENTENCE.repeat(FILE_BYTES_MAX as usize / SENTENCE.len() + 1);
    let attributes = format!("<p{}>text", " a".repeat(300));
    let dir = folder(&[
        ("good.txt", b"Text."),
        (".hidden.txt", b"Text."),
        (".git/config.txt", b"Text."),
        ("a.pdf", b"%PDF"),
        ("Makefile", b"all:"),
        ("binary.txt", b"Te\0xt"),
        ("latin.txt", b"Caf\xe9"),
        ("wide.txt", b"\xff\xfeT\0e\0x\0t\0"),
        ("wider.txt", b"\0\0\xfe\xff\0\0\0T"),
        ("line\nbreak/inner.txt", b"Text."),
        ("empty.txt", b""),
        ("blank.md", b" \n\n"),
        ("markup.html", b"<nav>Home</nav>"),
        ("large.txt", large.as_bytes()),
        ("hostile.html", attributes.as_bytes()),
    ]);
    let path = |name: &str| dir.path().join(name);
    symlink(path("good.txt"), path("link.txt")).unwrap();
    symlink(dir.path(), path("circle")).unwrap();
    symlink("/nowhere/at/all", path("broken.txt")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket.txt")).unwrap();
    let odd = std::ffi::OsString::from_vec(b"odd\xff.txt".to_vec());
    fs::write(dir.path().join(odd), "Text.").unwrap();
    fs::write(path("line\nbreak.txt"), "Text.").unwrap();

    let (records, identity) = all(dir.path());
    assert_eq!(ids(&records), ["good.txt#1", "link.txt#1"]);
    let files = identity.intake;
    let left_out: Vec<(Reason, Vec<&str>)> = files
        .left_out
        .iter()
        .map(|(reason, left_out)| {
            assert_eq!(left_out.count, left_out.names.len());
            (*reason, left_out.names.iter().map(|name| &**name).collect())
        })
        .collect();
    assert_eq!(
        left_out,
        [
            (Reason::OtherKind, vec!["Makefile", "a.pdf"]),
            (Reason::NoText, vec!["blank.md", "empty.txt", "markup.html"]),
            (Reason::Binary, vec!["binary.txt"]),
            (Reason::NotUtf8, vec!["latin.txt", "wide.txt", "wider.txt"]),
            (Reason::TooLarge, vec!["large.txt"]),
            (Reason::Hostile, vec!["hostile.html"]),
            (Reason::Unreadable, vec!["broken.txt"]),
            (Reason::LinkedFolder, vec!["circle/"]),
            (Reason::Special, vec!["socket.txt"]),
            (
                Reason::BadName,
                vec![
                    "line\u{fffd}break/",
                    "line\u{fffd}break.txt",
                    "odd\u{fffd}.txt"
                ]
            ),
        ]
    );
}

/// Every passage has the title, so that a title of the length of a file would be held thousands of
/// times.
#[test]
fn a_title_without_end_does_not_fill_the_memory() {
    let (title, text) = ("word ".repeat(1 << 18), SENTENCE.repeat(4000));
    let page = format!("<title>{title}</title><p>{text}");
    let dir = folder(&[("a.html", page.as_bytes())]);
    let (records, _) = all(dir.path());
    assert!(records.len() > 100, "{}", records.len());
    let bytes: usize = records
        .iter()
        .map(|record| record.id.len() + record.title.len() + record.text.len())
        .sum();
    assert!(bytes < 4 << 20, "{bytes}");
    // It ends with a word, and a title of ordinary length stays.
    assert!(records[0].title.ends_with(" word"), "{}", records[0].title);
    let ordinary = "A title of eight words stays as it is".repeat(5);
    let page = format!("<title>{ordinary}</title><p>Text.");
    let dir = folder(&[("a.html", page.as_bytes())]);
    assert_eq!(all(dir.path()).0[0].title, ordinary);
}

#[test]
fn a_folder_without_text_is_refused_with_what_was_found() {
    let dir = folder(&[("a.pdf", b"%PDF"), ("b.txt", b" ")]);
    let shown = |path: &Path| {
        let error = survey(path).unwrap_err().to_string();
        error.replace(&*dir.path().to_string_lossy(), "DIR")
    };
    assert_eq!(
        shown(dir.path()),
        "DIR holds no passage: no .txt, .md or .html file with text in it (left out: 1 of another \
         kind than .txt, .md and .html (a.pdf), 1 without text (b.txt))"
    );
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(
        shown(&empty),
        "DIR/empty holds no passage: no .txt, .md or .html file with text in it"
    );
}

#[test]
fn one_document_is_a_corpus_and_lines_are_not_documents() {
    let dir = folder(&[("notes.md", b"# Notes\n\nText."), ("corpus.jsonl", b"{}")]);
    let (records, _) = all(&dir.path().join("notes.md"));
    assert_eq!(ids(&records), ["notes.md#1"]);
    for name in ["corpus.jsonl", "nowhere", "nowhere.txt"] {
        assert!(!Documents::is_one(&dir.path().join(name)), "{name}");
    }
}
