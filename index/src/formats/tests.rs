//! Each format: recognised, and read as it is found in the world.

use std::os::fd::AsRawFd;

use super::*;
use crate::corpus::{Corpus, Reading};

/// The format, one line for each passage, and what was left out.
fn read(text: &str) -> (Format, Vec<String>, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("corpus");
    std::fs::write(&path, text).unwrap();
    let reading = Reading {
        accept_cut_off: true,
        ..Reading::default()
    };
    let source = Source::at(&path);
    let mut corpus = Corpus::open(&source, &reading).unwrap();
    let mut passages = Vec::new();
    while let Some(record) = corpus.next().unwrap() {
        let mut line = format!("{}|{}|{}", record.id, record.title, record.text);
        if let Some(url) = record.url {
            line += &format!("|{url}");
        }
        if let Some(in_degree) = record.in_degree {
            line += &format!("|{in_degree}");
        }
        passages.push(line);
    }
    let format = Format::recognise(&source).unwrap();
    (format, passages, corpus.intake().to_string())
}

fn check(text: &str, format: Format, passages: &[&str], left_out: &str) {
    let (found, read, not_read) = read(text);
    assert_eq!(found, format, "{text}");
    assert_eq!(read, passages, "{text}");
    assert_eq!(not_read, left_out, "{text}");
}

#[test]
fn passages_with_ids() {
    let a = r#"{"id":"a","title":"T","text":"x","url":"https://h/a","in_degree":3,"more":[1]}"#;
    let b = r#"{"id":"b","title":"T","text":"y"}"#;
    for text in [
        format!("{a}\n{b}\n"),
        format!("[{a},\n{b}]"),
        format!("nonsense\n{a}\n{b}"),
    ] {
        let (format, passages, _) = read(&text);
        assert_eq!(format, Format::Jsonl);
        assert_eq!(passages, ["a|T|x|https://h/a|3", "b|T|y"]);
    }
}

#[test]
fn questions_are_pooled() {
    let wiki = |context: &str| format!(r#"{{"_id":"q","question":"Who?","context":[{context}]}}"#);
    let (a, b) = (r#"["A",["One."," Two.","Three."]]"#, r#"["B",["Four."]]"#);
    let text = [wiki(&format!("{a},{b}")), wiki(b), wiki("")].join("\n");
    check(
        &text,
        Format::Wiki,
        &[
            "ed2bf76f08232a30c7bb|A|One. Two. Three.",
            "717c205d12502a18fcb5|B|Four.",
        ],
        "1 without text (line 3)",
    );
}

#[test]
fn questions_of_musique_and_corpora_without_ids_share_their_ids() {
    let question = r#"{"id":"2hop__1","question":"Who?","paragraphs":[{"idx":0,"title":"A","paragraph_text":"One."},
        {"idx":1,"title":"B","paragraph_text":" "}]}"#
        .replace('\n', " ");
    let text = format!("{question}\n{question}\n");
    let (format, passages, left_out) = read(&text);
    assert_eq!(format, Format::Musique);
    assert!(
        left_out.starts_with("2 without text (line 1: id "),
        "{left_out}"
    );
    let pooled = r#"[{"title":"A","text":"One.","idx":0},{"title":"A","text":"One."},{"title":"A","text":"Two."},7]"#;
    let (format, again, left_out) = read(pooled);
    assert_eq!(format, Format::Hipporag);
    assert_eq!((passages.len(), again.len()), (1, 2));
    assert_eq!(passages[0], again[0]);
    assert!(passages[0].ends_with("|A|One.") && again[1].ends_with("|A|Two."));
    assert!(left_out.starts_with("1 broken (entry 4: "), "{left_out}");
}

#[test]
fn a_reason_says_what_was_expected_and_quotes_no_book() {
    let text = "It is long. ".repeat(1000);
    let question = format!(r#"{{"question":"Who?","context":[["A","{text}"]]}}"#);
    let (format, passages, left_out) = read(&question);
    assert_eq!((format, passages.len()), (Format::Wiki, 0));
    let begin = "1 broken (line 1: invalid type: string \"It is long. ";
    assert!(left_out.starts_with(begin), "{left_out}");
    let says_all = left_out.contains("expected a sequence") && left_out.len() < 300;
    assert!(says_all, "{left_out}");
}

#[test]
fn lines_with_tabs() {
    check(
        "id\ttext\ttitle\n1\t\"Said \"\"yes\"\", twice\"\tA\n2\tonly two\n3\tText.\tB\tmore\n4\tx\tC\n5\tcut",
        Format::Kilt,
        &["1|A|Said \"yes\", twice", "4|C|x"],
        "2 broken (line 3: not three fields with tabs between them, line 4: not three fields with \
         tabs between them), 1 cut off at the end of the file (line 6)",
    );
}

#[test]
fn quotes_that_are_not_doubled_are_the_texts_own() {
    check(
        "1\t\"Hello\" is by \"Adele\"\tA\n\
         2\t\"\"\"Hello\"\" is by \"\"Adele\"\"\"\t\"B\"\n\
         3\t\"x\tC",
        Format::Kilt,
        &[
            "1|A|\"Hello\" is by \"Adele\"",
            "2|B|\"Hello\" is by \"Adele\"",
            "3|C|\"x",
        ],
        "",
    );
}

#[test]
fn a_line_with_tabs_may_have_an_empty_field() {
    check(
        "1\tx\tA\n2\ty\t\r\n\tz\tC\n4\t\tD\n\t\t\n5\tlast\t",
        Format::Kilt,
        &["1|A|x", "2||y", "5||last"],
        "1 without text (line 4: id \"4\"), 1 without an id (line 3)",
    );
}

#[test]
fn dumps_of_wikis() {
    let announced = |id: &str| format!("{{\"index\":{{\"_type\":\"_doc\",\"_id\":{id}}}}}\n");
    let page = |title: &str, text: &str, rest: &str| {
        format!("{{\"title\":\"{title}\",\"text\":\"{text}\",\"namespace\":0{rest}}}\n")
    };
    let long = "A sentence of six words is here. ".repeat(30);
    let english = ",\"wiki\":\"enwiki\",\"language\":\"en\",\"incoming_links\":12";
    let text = [
        announced("\"7\"") + &page("AC/DC: a 100% band?", "Text.", english),
        announced("8")
            + &page(
                "Zürich",
                &long,
                ",\"wiki\":\"simplewiki\",\"language\":\"en\"",
            ),
        announced("9") + &page("Empty", "", english),
        announced("10") + &announced("11") + &page("B", "Of b.", ""),
        page("Nobody's", "Text.", ""),
        announced("12") + "{\"title\":\n" + &announced("13") + &page("C", "Of c.", ""),
        announced("7") + &page("Again", "Text.", ""),
        announced("14"),
    ]
    .concat();
    let (format, passages, left_out) = read(&text);
    assert_eq!(format, Format::Cirrus);
    assert_eq!(
        passages[0],
        "7#1|AC/DC: a 100% band?|Text.|https://en.wikipedia.org/wiki/AC/DC:_a_100%25_band%3F|12"
    );
    assert!(
        passages[1].starts_with("8#1|Zürich|A sentence"),
        "{}",
        passages[1]
    );
    assert!(
        passages[2].starts_with("8#2|Zürich|A sentence"),
        "{}",
        passages[2]
    );
    assert_eq!(passages[3..], ["11#1|B|Of b.", "13#1|C|Of c."]);
    assert_eq!(
        left_out,
        "1 without text (line 6: id \"9\"), 3 broken (line 8: page \"10\" is missing before it, line 10: a \
         page without the line with its id, line 12: EOF while parsing a value (column 9)), 1 with an \
         id that is there already (line 16: id \"7\"), 1 cut off at the end of the file (line 17)"
    );
}

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    let error = Format::from_str("csv").unwrap_err();
    assert!(
        error.contains("no format csv") && error.contains("2wiki, musique"),
        "{error}"
    );
    let dir = tempfile::tempdir().unwrap();
    let folder = Source::at(dir.path());
    let error = Format::Kilt.open(&folder).err().unwrap().to_string();
    assert!(
        error.ends_with("is a folder, and the format kilt is that of a file"),
        "{error}"
    );
    // A folder cannot come through a pipe.
    let (reader, _) = std::io::pipe().unwrap();
    let stream = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let stream = Source::of(stream.as_ref(), &dir.path().join("copy")).unwrap();
    let error = Format::Documents.open(&stream).err().unwrap().to_string();
    assert!(
        error.contains("is a stream, and the format documents"),
        "{error}"
    );
}
