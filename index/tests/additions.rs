//! Additions whose corpus changes, cannot be read twice, or has ids that look like others.

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;

use crate::site::{Site, Triples, add, addition, changing, ids, line, texts};
use spechop_index::BuildError;

/// As with a build: neither after the error nor after a kill before it are the rows of the other corpus
/// taken for those of this one.
#[tokio::test]
async fn a_corpus_that_changes_under_an_addition_is_noticed() {
    let squares: String = (0..40)
        .map(|n| line(&format!("n{n}"), &format!("the square of {n}")))
        .collect();
    for good_until in [usize::MAX, 32] {
        let site = Site::new();
        site.run(&Triples::new("triples")).await.unwrap();
        let addition = addition(&site, "more.jsonl", &squares);
        let mut change = changing(&addition.corpus);
        let text = fs::read(&addition.corpus).unwrap();
        let encoder = Triples::failing_after("triples", good_until);
        let error = addition.run(&encoder, &mut change).await.unwrap_err();
        let as_expected = match good_until {
            usize::MAX => matches!(error, BuildError::Changed(_)),
            _ => matches!(error, BuildError::Encoder { .. }),
        };
        assert!(as_expected, "{error}");
        fs::write(&addition.corpus, text).unwrap();
        let encoder = Triples::new("triples");
        let changed = addition.run(&encoder, &mut |_| {}).await.unwrap();
        assert_eq!((changed.added, encoder.encoded.load(Relaxed)), (40, 40));
        let texts = texts(&site.build.out);
        assert!(texts.iter().all(|text| !text.contains("circle")));
    }
}

#[tokio::test]
async fn ids_that_look_like_those_of_pieces_are_ids_like_others() {
    for replace in [false, true] {
        let site = Site::new();
        let pieces = line("a#1", "one") + &line("a#2", "two");
        fs::write(&site.build.corpus, pieces).unwrap();
        site.run(&Triples::new("triples")).await.unwrap();
        let mut addition = addition(&site, "more.jsonl", &line("a", "three"));
        addition.replace = replace;
        let changed = add(&addition).await.unwrap();
        assert_eq!((changed.added, changed.removed), (1, 0), "{replace}");
    }
}

#[tokio::test]
async fn a_text_that_is_cut_takes_the_place_of_all_its_pieces() {
    let mut site = Site::new();
    site.build.reading.cut_long = true;
    let long = "Six words are in this sentence. ".repeat(60);
    let corpus = line("a", &long) + &line("b", "other");
    fs::write(&site.build.corpus, corpus).unwrap();
    site.run(&Triples::new("triples")).await.unwrap();
    let pieces = ids(&site.build.out).len() - 1;
    assert!(pieces > 2);
    // By now it is too short to be cut.
    let mut addition = addition(&site, "more.jsonl", &line("a", "A text."));
    addition.reading.cut_long = true;
    let there = add(&addition).await.unwrap();
    assert_eq!((there.added, there.removed), (0, 0));
    addition.replace = true;
    let changed = add(&addition).await.unwrap();
    assert_eq!((changed.added, changed.removed), (1, pieces));
    assert_eq!(ids(&site.build.out), ["b", "a"]);
}

#[tokio::test]
async fn a_pipe_can_be_added() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    // So short that it fits into the pipe.
    let (reader, mut writer) = std::io::pipe().unwrap();
    let lines = line("new", "seven wild swans");
    writer.write_all(lines.as_bytes()).unwrap();
    drop(writer);
    let mut addition = addition(&site, "unused", "");
    addition.corpus = format!("/proc/self/fd/{}", reader.as_raw_fd()).into();
    assert_eq!(add(&addition).await.unwrap().added, 1);
    assert!(!site.path(".index.corpus").exists());
}
