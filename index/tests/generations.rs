//! Indexes in parts, and indexes that grow and shrink while somebody reads them.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::site::{Site, Triples, add, addition, files, ids, line};
use spechop_index::{
    Addition, BuildError, Format, Hot, Part, Traffic, check, look, merge, remove, search,
};
use spechop_store::{LexicalWeight, PassageIndex};

/// Builds part after part, and merges them in the wrong order.
async fn in_parts(site: &Site, of: usize) -> Vec<PathBuf> {
    let mut parts = Vec::new();
    for number in 0..of {
        let mut build = site.build.clone();
        build.out = site.path(&format!("part-{number}"));
        build.hot = None;
        build.part = Some(Part { number, of });
        build
            .run(&Triples::new("triples"), &mut |_| {})
            .await
            .unwrap();
        parts.insert(0, build.out);
    }
    parts
}

#[tokio::test]
async fn parts_are_merged_to_the_bytes_of_one_build() {
    let whole = Site::new().hot(0.3);
    whole.run(&Triples::new("triples")).await.unwrap();
    for of in [1, 2, 3, 13] {
        let site = Site::new().hot(0.3);
        let parts = in_parts(&site, of).await;
        let merged = merge(&parts, &site.build.out, site.build.hot.as_ref()).unwrap();
        assert_eq!((merged.rows, merged.hot_rows), (100, Some(30)));
        assert_eq!(
            files(&site.build.out),
            files(&whole.build.out),
            "{of} parts"
        );
        // The build finds nothing left to do.
        let built = site.run(&Triples::new("triples")).await.unwrap();
        assert_eq!(built.encoded, 0);
    }
}

#[tokio::test]
async fn a_merge_that_was_killed_is_resumed() {
    let whole = Site::new();
    whole.run(&Triples::new("triples")).await.unwrap();
    let site = Site::new();
    let parts = in_parts(&site, 3).await;
    // A damaged last part: what came before it has been joined by then.
    let vectors = parts[0].join("vectors-00000.bin");
    let good = fs::read(&vectors).unwrap();
    let mut bad = good.clone();
    bad[100] ^= 1;
    fs::write(&vectors, bad).unwrap();
    let error = merge(&parts, &site.build.out, None).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("damaged"), "{error}");
    assert!(error.contains("part-2 --shard 2/3`"), "{error}");
    assert!(!site.build.out.exists());
    fs::write(&vectors, good).unwrap();
    merge(&parts, &site.build.out, None).unwrap();
    assert_eq!(files(&site.build.out), files(&whole.build.out));
}

#[tokio::test]
async fn a_part_that_fails_names_passages_of_the_corpus() {
    let mut site = Site::new();
    site.build.part = Some(Part { number: 1, of: 3 });
    let failing = Triples::failing_after("triples", 0);
    let error = site.run(&failing).await.unwrap_err().to_string();
    assert_eq!(error, "encoding passages 32..40 failed");
}

#[tokio::test]
async fn parts_that_do_not_belong_together_are_refused() {
    let site = Site::new();
    let parts = in_parts(&site, 3).await;
    let out = site.path("merged");
    let refusal = |parts: &[PathBuf]| {
        let error = merge(parts, &out, None).unwrap_err().to_string();
        error.replace(&site.dir.path().display().to_string(), "DIR")
    };
    assert_eq!(refusal(&parts[..2]), "part 0/3 is missing");
    let twice = [&parts[..], &parts[..1]].concat();
    assert_eq!(refusal(&twice), "part 2/3 was given twice");
    let other = Site::new();
    let corpus = fs::read_to_string(&other.build.corpus).unwrap();
    fs::write(&other.build.corpus, corpus + &line("new", "one more")).unwrap();
    let others = in_parts(&other, 3).await;
    let mixed = [parts[0].clone(), others[1].clone(), parts[2].clone()];
    assert!(refusal(&mixed).contains("were not built from the same corpus"));
    site.run(&Triples::new("triples")).await.unwrap();
    let whole = refusal(std::slice::from_ref(&site.build.out));
    assert_eq!(
        whole,
        "DIR/index: this is a whole index, and no part of one"
    );
    assert!(!out.exists());
    // However its folder is written, no part is replaced.
    let before = files(&parts[0]);
    let link = site.path("link");
    std::os::unix::fs::symlink(&parts[0], &link).unwrap();
    let dotted = site.path(".").join("part-2");
    for out in [&parts[0], &link, &dotted] {
        let error = merge(&parts, out, None).unwrap_err().to_string();
        assert!(
            error.contains("would replace its part ") && error.contains("part-2"),
            "{error}"
        );
    }
    assert_eq!(files(&parts[0]), before);
    // Thirteen batches do not fill fourteen parts.
    let mut build = site.build.clone();
    build.part = Some(Part { number: 0, of: 14 });
    let error = build
        .run(&Triples::new("triples"), &mut |_| {})
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("choose 13 parts at most"),
        "{error}"
    );
    let error = remove(&parts[0], &["p99".into()]).unwrap_err().to_string();
    assert!(
        error.ends_with("is a part of an index: merge the parts first"),
        "{error}"
    );
}

#[tokio::test]
async fn passages_are_added_and_the_others_are_not_encoded_again() {
    let site = Site::new().hot(0.3);
    site.run(&Triples::new("triples")).await.unwrap();
    let before = PassageIndex::open(&site.build.out).unwrap();
    let more = line("new", "seven wild swans") + &line("p3", "another three") + "broken\n";
    let addition = addition(&site, "more.jsonl", &more);
    let encoder = Triples::new("triples");
    let changed = addition.run(&encoder, &mut |_| {}).await.unwrap();
    assert_eq!((changed.rows, changed.added, changed.removed), (101, 1, 0));
    assert_eq!(changed.intake.as_ref().unwrap().left_out(), 2);
    assert_eq!(encoder.encoded.load(Relaxed), 1);
    // Who has the old generation open keeps it; who opens the index again finds the new one.
    assert_eq!(before.rows(), 100);
    before.verify().unwrap();
    let after = PassageIndex::open(&site.build.out).unwrap();
    for row in 0..100 {
        assert_eq!(after.vector(row).unwrap(), before.vector(row).unwrap());
        assert_eq!(after.passage(row).unwrap(), before.passage(row).unwrap());
    }
    let found = search(
        &site.build.out,
        Arc::new(Triples::new("triples")),
        "seven wild swans",
        1,
        LexicalWeight::Auto,
    );
    assert_eq!(found.await.unwrap()[0].id, "new");
    assert_eq!(check(&site.build.out).unwrap().hot_rows, Some(30));
    assert!(!site.path("index.partial").exists() && !site.path(".index.old").exists());
    // Adding it once more changes nothing.
    let bytes = files(&site.build.out);
    let again = add(&addition).await.unwrap();
    assert_eq!((again.rows, again.added), (101, 0));
    assert_eq!(files(&site.build.out), bytes);
}

#[tokio::test]
async fn a_copy_that_somebody_has_made_is_left_there() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let copy = site.path("index.old");
    fs::create_dir(&copy).unwrap();
    for (name, bytes) in files(&site.build.out) {
        fs::write(copy.join(name), bytes).unwrap();
    }
    let before = files(&copy);
    remove(&site.build.out, &["p1".into()]).unwrap();
    assert_eq!(files(&copy), before);
    assert_ne!(files(&site.build.out), before);
    let left = [".index.old", "index.partial"].map(|name| site.path(name).exists());
    assert_eq!(left, [false, false]);
}

#[tokio::test]
async fn passages_are_replaced_if_that_is_wished() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let mut addition = addition(&site, "more.jsonl", &line("p3", "seven wild swans"));
    addition.replace = true;
    let changed = add(&addition).await.unwrap();
    assert_eq!((changed.rows, changed.added, changed.removed), (100, 1, 1));
    let index = PassageIndex::open(&site.build.out).unwrap();
    assert_eq!(index.passage(99).unwrap().fields().text, "seven wild swans");
    assert_eq!(
        ids(&site.build.out).iter().filter(|id| *id == "p3").count(),
        1
    );
}

#[tokio::test]
async fn an_addition_that_was_stopped_is_resumed_to_the_same_bytes() {
    let more: String = (0..40)
        .map(|n| line(&format!("n{n}"), &format!("number {n}")))
        .collect();
    let whole = Site::new();
    whole.run(&Triples::new("triples")).await.unwrap();
    add(&addition(&whole, "more.jsonl", &more)).await.unwrap();
    for stopped_after in [0, 8, 24, 39] {
        let site = Site::new();
        site.run(&Triples::new("triples")).await.unwrap();
        let before = files(&site.build.out);
        let addition = addition(&site, "more.jsonl", &more);
        let failing = Triples::failing_after("triples", stopped_after);
        let error = addition.run(&failing, &mut |_| {}).await.unwrap_err();
        assert!(matches!(error, BuildError::Encoder { .. }), "{error}");
        assert_eq!(files(&site.build.out), before);
        let encoder = Triples::new("triples");
        addition.run(&encoder, &mut |_| {}).await.unwrap();
        let good = stopped_after / 8 * 8;
        assert_eq!(encoder.encoded.load(Relaxed), 40 - good);
        assert_eq!(
            files(&site.build.out),
            files(&whole.build.out),
            "{stopped_after}"
        );
    }
}

#[tokio::test]
async fn passages_are_removed_by_their_ids() {
    let site = Site::new().hot(0.03);
    site.run(&Triples::new("triples")).await.unwrap();
    // 3, 13 and 99 are hot.
    let wanted = ["p13", "p0", "nobody"].map(str::to_owned);
    let changed = remove(&site.build.out, &wanted).unwrap();
    assert_eq!(
        (changed.rows, changed.removed, changed.hot_rows),
        (98, 2, Some(2))
    );
    assert_eq!(changed.unknown, ["nobody"]);
    let left = ids(&site.build.out);
    assert!(!left.contains(&"p13".to_owned()) && left[0] == "p1");
    assert_eq!(ids(&site.build.out.join("hot")), ["p3", "p99"]);
    check(&site.build.out).unwrap();
    let bytes = files(&site.build.out);
    let changed = remove(&site.build.out, &wanted).unwrap();
    assert_eq!((changed.removed, changed.unknown.len()), (0, 3));
    let error = remove(&site.build.out, &left).unwrap_err().to_string();
    assert!(error.contains("every passage"), "{error}");
    assert_eq!(files(&site.build.out), bytes);
    // The last hot passages go, and the subset with them.
    let changed = remove(&site.build.out, &["p3".into(), "p99".into()]).unwrap();
    assert_eq!((changed.removed, changed.hot_rows), (2, None));
    assert_eq!(look(&site.build.out).unwrap().hot_rows, None);
}

#[tokio::test]
async fn the_id_of_a_passage_stands_for_that_alone() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    add(&addition(&site, "more.jsonl", &line("p1#2", "swans")))
        .await
        .unwrap();
    let p1 = ["p1".to_owned()];
    for left in [vec!["p1#2"], vec![]] {
        // Once it is gone, the same id stands for what looks like its pieces.
        assert_eq!(remove(&site.build.out, &p1).unwrap().removed, 1);
        let mut ids = ids(&site.build.out);
        ids.retain(|id| id.starts_with("p1#") || *id == "p1");
        assert_eq!(ids, left);
    }
}

#[tokio::test]
async fn a_hot_subset_that_was_carried_over_is_chosen_anew() {
    let site = Site::new().hot(0.03);
    site.run(&Triples::new("triples")).await.unwrap();
    let (out, hot) = (&site.build.out, site.build.hot.as_ref().unwrap());
    remove(out, &["p13".into()]).unwrap();
    assert_eq!(ids(&out.join("hot")), ["p3", "p99"]);
    let chosen = hot.choose_for(out, None, &Traffic::new()).unwrap();
    assert_eq!((chosen.rows, chosen.is_new), (3, true));
    assert_eq!(ids(&out.join("hot")), ["p3", "p23", "p99"]);
    let again = hot.choose_for(out, None, &Traffic::new()).unwrap();
    assert_eq!((again.rows, again.is_new), (3, false));
    // Also if nothing was lost, and others may be linked to more now.
    add(&addition(&site, "more.jsonl", &line("new", "swans")))
        .await
        .unwrap();
    let chosen = hot.choose_for(out, None, &Traffic::new()).unwrap();
    assert_eq!((chosen.rows, chosen.is_new), (3, true));
}

#[tokio::test]
async fn ids_that_no_passage_has_are_all_counted() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let mut wanted: Vec<String> = (0..1500).map(|n| format!("nobody{n}")).collect();
    for removed in [0, 1] {
        let changed = remove(&site.build.out, &wanted).unwrap();
        assert_eq!(changed.removed, removed);
        assert_eq!((changed.unknown.len(), changed.unknown_count), (1000, 1500));
        wanted.push("p1".into());
    }
}

#[tokio::test]
async fn a_pooled_corpus_that_is_there_already_is_no_mistake() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let pool = "{\"title\":\"Swans\",\"text\":\"Seven wild swans.\"}\n";
    let mut addition = addition(&site, "pool.jsonl", pool);
    addition.reading.format = Some(Format::Hipporag);
    assert_eq!(add(&addition).await.unwrap().added, 1);
    let before = files(&site.build.out);
    let again = add(&addition).await.unwrap();
    assert_eq!((again.rows, again.added), (101, 0));
    assert_eq!(again.intake.unwrap().merged, 1);
    assert_eq!(files(&site.build.out), before);
}

#[tokio::test]
async fn a_corpus_of_broken_lines_adds_nothing_and_says_so() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let mut addition = addition(&site, "more.jsonl", "broken\n");
    addition.reading.format = Some(Format::Jsonl);
    let error = add(&addition).await.unwrap_err().to_string();
    assert!(
        error.contains("holds no passage in the format jsonl (left out: 1 broken"),
        "{error}"
    );
}

#[tokio::test]
async fn something_else_within_an_index_is_named_and_left_there() {
    let site = Site::new().hot(0.03);
    site.run(&Triples::new("triples")).await.unwrap();
    let note = site.build.out.join("README");
    fs::write(&note, "mine").unwrap();
    let error = remove(&site.build.out, &["p1".into()]).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("index holds \"README\", which no index has: move it away"),
        "{error}"
    );
    assert!(!error.contains("is no index"), "{error}");
    assert_eq!(fs::read_to_string(&note).unwrap(), "mine");
    fs::remove_file(&note).unwrap();
    // The hot subset would be replaced, too, and so would the remains of a choice that was killed.
    for name in ["hot", "hot.partial"] {
        let dir = site.build.out.join(name);
        fs::create_dir_all(&dir).unwrap();
        let note = dir.join("README");
        fs::write(&note, "mine").unwrap();
        let error = remove(&site.build.out, &["p1".into()]).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(fs::read_to_string(&note).unwrap(), "mine");
        fs::remove_file(&note).unwrap();
    }
    remove(&site.build.out, &["p1".into()]).unwrap();
}

#[tokio::test]
async fn the_id_of_a_page_stands_for_its_passages() {
    let mut site = Site::new();
    let folder = site.path("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(
        folder.join("long.txt"),
        "Six words are in this sentence. ".repeat(60),
    )
    .unwrap();
    fs::write(folder.join("short.txt"), "A text.").unwrap();
    site.build.corpus = folder.clone();
    site.run(&Triples::new("triples")).await.unwrap();
    assert!(ids(&site.build.out).len() > 3);
    let changed = remove(&site.build.out, &["long.txt".into()]).unwrap();
    assert!(changed.unknown.is_empty());
    assert_eq!(ids(&site.build.out), ["short.txt#1"]);
    // The folder once more: what is there stays, what is gone comes back.
    let addition = Addition {
        corpus: folder,
        ..addition(&site, "unused", "")
    };
    let changed = add(&addition).await.unwrap();
    assert_eq!(changed.intake.unwrap().left_out(), 1);
    assert_eq!(ids(&site.build.out)[..2], ["short.txt#1", "long.txt#1"]);
}

#[tokio::test]
async fn what_is_no_index_cannot_be_changed_and_nothing_is_left_there() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let nowhere = site.path("new/folder");
    let error = remove(&nowhere, &["p1".into()]).unwrap_err().to_string();
    assert_eq!(error, format!("there is no folder {}", nowhere.display()));
    assert!(!site.path("new").exists());
}

#[tokio::test]
async fn an_index_is_not_mixed_from_two_encoders() {
    let site = Site::new();
    site.run(&Triples::new("triples")).await.unwrap();
    let addition = addition(&site, "more.jsonl", &line("new", "text"));
    let error = addition
        .run(&Triples::new("other"), &mut |_| {})
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("built with encoder triples, and this is other"),
        "{text}"
    );
}

#[tokio::test]
async fn links_that_come_with_the_pages_choose_the_hot_subset() {
    let mut site = Site::new();
    let page = |id: usize, links: usize| {
        format!(
            "{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"title\":\"Page {id}\",\"text\":\"Text of page {id}.\",\
             \"incoming_links\":{links},\"wiki\":\"enwiki\",\"language\":\"en\"}}\n"
        )
    };
    let dump: String = (0..10).map(|id| page(id, id * 7 % 10)).collect();
    fs::write(&site.build.corpus, dump).unwrap();
    site.build.hot = Some(Hot {
        fraction: 0.2,
        in_degree: None,
    });
    let built = site.run(&Triples::new("triples")).await.unwrap();
    assert_eq!(
        (built.intake.format, built.hot_rows),
        (Format::Cirrus, Some(2))
    );
    // 7 has 9 links, 4 has 8.
    assert_eq!(ids(&site.build.out.join("hot")), ["4#1", "7#1"]);
    let found = search(
        &site.build.out,
        Arc::new(Triples::new("triples")),
        "Text of page 4.",
        1,
        LexicalWeight::Auto,
    );
    let url = found.await.unwrap().remove(0).url;
    assert!(
        url.unwrap()
            .starts_with("https://en.wikipedia.org/wiki/Page_")
    );
    // A corpus without them says so.
    let mut plain = Site::new();
    plain.build.hot = site.build.hot.clone();
    let error = plain
        .run(&Triples::new("triples"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("name a file with --in-degree"), "{error}");
}
