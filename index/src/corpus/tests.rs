use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// A file in a folder of its own.
fn file(bytes: &[u8]) -> (tempfile::TempDir, Source) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("corpus.jsonl");
    std::fs::write(&path, bytes).unwrap();
    (dir, Source::at(&path))
}

fn surveyed_as(bytes: &[u8], reading: &Reading) -> Result<Survey, String> {
    let (dir, source) = file(bytes);
    Survey::of(&source, reading).map_err(|error| {
        let text = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        text.replace(&dir.path().display().to_string(), "DIR")
    })
}

fn surveyed(bytes: &[u8]) -> Result<Survey, String> {
    surveyed_as(bytes, &Reading::default())
}

#[test]
fn entries_that_cannot_be_used_are_counted_with_the_reason() {
    let good = r#"{"id":"a","title":"T","text":"x"}"#;
    for (line, left_out) in [
        (
            &b"{\"id\""[..],
            "1 broken (line 3: EOF while parsing an object (column 5))",
        ),
        (b"nonsense", "1 broken (line 3: expected ident (column 2))"),
        (
            br#"{"id":"b","title":"T"}"#,
            "1 broken (line 3: missing field `text` (column 22))",
        ),
        (
            br#"{"id":7,"title":"T","text":"x"}"#,
            "1 broken (line 3: invalid type: integer `7`, expected a string (column 7))",
        ),
        (
            br#"{"id":"b","title":"T","text":" "}"#,
            "1 without text (line 3: id \"b\")",
        ),
        (
            br#"{"id":"","title":"T","text":"x"}"#,
            "1 without an id (line 3)",
        ),
        (
            br#"{"id":"a","title":"U","text":"y"}"#,
            "1 with an id that is there already (line 3: id \"a\")",
        ),
        (
            b"{\"id\":\"\xff\"}",
            "1 not UTF-8 (line 3: invalid utf-8 sequence of 1 bytes from index 7)",
        ),
    ] {
        let survey = surveyed(&[good.as_bytes(), b"\n\n", line, b"\n"].concat()).unwrap();
        assert_eq!((survey.rows, survey.intake.read), (1, 1));
        assert_eq!(survey.intake.to_string(), left_out);
    }
    let mut endless = good.as_bytes().to_vec();
    endless.push(b'\n');
    endless.extend(vec![b' '; (16 << 20) + 1]);
    endless.extend(b"\n{\"id\":\"b\",\"title\":\"\",\"text\":\"x\"}");
    let survey = surveyed(&endless).unwrap();
    assert_eq!(survey.rows, 2);
    assert_eq!(survey.intake.to_string(), "1 larger than 16 MiB (line 2)");
}

#[test]
fn a_corpus_of_nothing_is_refused_with_what_was_found() {
    for (text, reason) in [
        ("\n \n", "DIR/corpus.jsonl is empty"),
        (
            "plain words\n",
            "DIR/corpus.jsonl is written in no format that is recognised: name its format with \
             --format",
        ),
        (
            "{\"id\":1}\n",
            "DIR/corpus.jsonl holds no passage in the format jsonl (left out: 1 broken (line 1: \
             invalid type: integer `1`, expected a string (column 7)))",
        ),
    ] {
        assert_eq!(surveyed(text.as_bytes()), Err(reason.to_owned()));
    }
    let missing = Source::at("/nowhere/corpus.jsonl".as_ref());
    let missing = Survey::of(&missing, &Reading::default()).unwrap_err();
    assert_eq!(missing.to_string(), "reading /nowhere/corpus.jsonl failed");
}

#[test]
fn packed_or_not_is_the_same_corpus_and_a_cut_is_refused() {
    let plain = "{\"id\":\"a\",\"title\":\"\",\"text\":\"x\",\"url\":null}\r\n\
                 {\"id\":\"b\",\"title\":\"T\",\"text\":\"x\"}";
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(plain.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(plain.as_bytes(), 1).unwrap();
    let survey = surveyed(plain.as_bytes()).unwrap();
    assert_eq!((survey.rows, survey.extended), (2, false));
    assert_eq!(surveyed(&gzip).unwrap(), survey);
    assert_eq!(surveyed(&zstd).unwrap(), survey);
    // In the middle of a line, packed or not, and in the check at the end of a file.
    let accepting = Reading {
        accept_cut_off: true,
        ..Reading::default()
    };
    let within_a_character = [&plain.as_bytes()[..plain.len() - 2], b"Z\xc3"].concat();
    for cut in [
        &gzip[..gzip.len() - 6],
        &plain.as_bytes()[..plain.len() - 4],
        &within_a_character[..],
    ] {
        let error = surveyed(cut).unwrap_err();
        assert!(
            error.starts_with("the corpus is cut off at line ")
                && error.contains("--accept-cut-off"),
            "{error}"
        );
        let survey = surveyed_as(cut, &accepting).unwrap();
        assert_eq!((survey.rows, survey.intake.left_out()), (1, 1));
        assert!(survey.intake.left_out.contains_key(&Reason::Cut));
    }
}

#[test]
fn long_texts_are_cut_if_that_is_wished() {
    let long = "A sentence of six words is here. ".repeat(60);
    let text = format!(
        "{{\"id\":\"a\",\"title\":\"T\",\"text\":\"{long}\"}}\n{{\"id\":\"b\",\"title\":\"\",\"text\":\"x\"}}"
    );
    let survey = surveyed(text.as_bytes()).unwrap();
    assert_eq!((survey.rows, survey.intake.long), (2, 1));
    let cutting = Reading {
        cut_long: true,
        ..Reading::default()
    };
    let cut = surveyed_as(text.as_bytes(), &cutting).unwrap();
    assert_eq!((cut.intake.read, cut.intake.long), (2, 0));
    assert!(cut.rows > 4 && cut.sha256 != survey.sha256);
    let (_dir, source) = file(text.as_bytes());
    let mut corpus = Corpus::open(&source, &cutting).unwrap();
    let mut ids = Vec::new();
    while let Some(record) = corpus.next().unwrap() {
        ids.push(record.id);
    }
    assert_eq!((&*ids[0], &**ids.last().unwrap()), ("a#1", "b"));
    // A text without blanks.
    let chinese = "法国的河流很多。".repeat(500);
    let text = format!("{{\"id\":\"a\",\"title\":\"T\",\"text\":\"{chinese}\"}}");
    assert_eq!(surveyed(text.as_bytes()).unwrap().intake.long, 1);
    let cut = surveyed_as(text.as_bytes(), &cutting).unwrap();
    assert!(cut.rows > 4 && cut.intake.long == 0);
    // If nothing is long, wishing changes nothing.
    let short = br#"{"id":"b","title":"","text":"x"}"#;
    assert_eq!(surveyed_as(short, &cutting), surveyed(short));
}

/// Every piece would have them.
#[test]
fn an_id_or_a_url_without_end_is_not_kept_for_each_piece() {
    let long = "A sentence of six words is here. ".repeat(60);
    let cutting = Reading {
        cut_long: true,
        ..Reading::default()
    };
    for (id_bytes, url_bytes, read, with_url) in [
        (ID_BYTES_MAX, Passage::URL_BYTES_MAX, 1, true),
        (ID_BYTES_MAX, Passage::URL_BYTES_MAX + 1, 1, false),
        (ID_BYTES_MAX + 1, Passage::URL_BYTES_MAX, 0, true),
    ] {
        let (id, mut url) = ("a".repeat(id_bytes), "https://h/".to_owned());
        url += &"a".repeat(url_bytes - url.len());
        let line =
            |text: &str| format!(r#"{{"id":"{id}","title":"T","text":"{text}","url":"{url}"}}"#);
        let other = r#"{"id":"b","title":"","text":"x"}"#;
        let text = format!("{}\n{other}", line(&long));
        let survey = surveyed_as(text.as_bytes(), &cutting).unwrap();
        assert_eq!(survey.intake.read, read + 1);
        assert_eq!(survey.intake.without_url, usize::from(!with_url));
        let is_told = survey.intake.left_out.contains_key(&Reason::LongId);
        assert_eq!(is_told, read == 0);
        // What is no page has its id once.
        assert_eq!(surveyed(line("x").as_bytes()).unwrap().rows, 1);
    }
}

#[test]
fn a_piece_of_a_long_text_shares_its_id_with_no_entry() {
    let long = "A sentence of six words is here. ".repeat(60);
    let short = r#"{"id":"a#2","title":"S","text":"x"}"#;
    let long = format!("{{\"id\":\"a\",\"title\":\"T\",\"text\":\"{long}\"}}");
    let cutting = Reading {
        cut_long: true,
        ..Reading::default()
    };
    // Whichever comes first has the id, and the other one is told of.
    for (text, owner) in [
        (format!("{short}\n{long}"), "S"),
        (format!("{long}\n{short}"), "T"),
    ] {
        let (_dir, source) = file(text.as_bytes());
        let mut corpus = Corpus::open(&source, &cutting).unwrap();
        let mut passages = Vec::new();
        while let Some(record) = corpus.next().unwrap() {
            passages.push((record.id, record.title));
        }
        let of_two: Vec<_> = passages.iter().filter(|(id, _)| id == "a#2").collect();
        assert!(
            matches!(&of_two[..], [(_, title)] if title == owner),
            "{passages:?}"
        );
        let told = corpus.intake().to_string();
        assert_eq!(
            told,
            "1 with an id that is there already (line 2: id \"a#2\")"
        );
    }
}

#[test]
fn only_addresses_of_the_web_are_kept_as_urls() {
    for (url, kept) in [
        ("https://h/a", true),
        ("http://h", true),
        ("javascript:alert(1)", false),
        ("https://h/a b", false),
        ("", false),
    ] {
        let line = format!(r#"{{"id":"a","title":"T","text":"x","url":"{url}"}}"#);
        let survey = surveyed(line.as_bytes()).unwrap();
        assert_eq!(survey.extended, kept, "{url}");
        assert_eq!(survey.intake.without_url, usize::from(!kept));
    }
}

#[test]
fn a_passage_without_a_title_is_its_text() {
    for (title, encoded) in [("T", "T\nx"), (" ", "x")] {
        let record = Record {
            id: "a".into(),
            title: title.into(),
            text: "x".into(),
            ..Record::default()
        };
        assert_eq!(record.encoded(), encoded);
    }
}
