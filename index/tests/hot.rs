//! Hot subsets that are chosen for an index that is there: by what answers came from, and by links.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;

use crate::site::{Site, Triples, files};
use spechop_index::{Chosen, Hot, Traffic, remove};
use spechop_store::PassageIndex;

async fn built() -> Site {
    let site = Site::new();
    let built = site.build.run(&Triples::new("triples"), &mut |_| {}).await;
    assert_eq!(built.unwrap().rows, 100);
    site
}

fn traffic(counts: &[(&str, u64)]) -> Traffic {
    let counts = counts.iter();
    counts
        .map(|(id, answers)| ((*id).into(), *answers))
        .collect()
}

fn ids(dir: &Path) -> Vec<String> {
    let index = PassageIndex::open_verified(dir).unwrap();
    let id = |row| index.passage(row).unwrap().fields().id.to_owned();
    (0..index.rows()).map(id).collect()
}

/// Five of the hundred passages.
fn five(site: &Site, with_in_degree: bool) -> Hot {
    Hot {
        fraction: 0.05,
        in_degree: with_in_degree.then(|| site.path("in_degree.jsonl")),
    }
}

#[tokio::test]
async fn what_answers_came_from_is_in_and_links_decide_and_fill_up() {
    let site = built().await;
    let dir = &site.build.out;
    let counts = traffic(&[("p70", 4), ("p80", 2), ("p13", 2), ("elsewhere", 9)]);
    for (hot, counts, chosen) in [
        (
            five(&site, true),
            &counts,
            &["p3", "p13", "p70", "p80", "p99"][..],
        ),
        // Of equal counts, the one with more links.
        (
            Hot {
                fraction: 0.02,
                ..five(&site, true)
            },
            &counts,
            &["p13", "p70"],
        ),
        // Nothing is known of the others.
        (five(&site, false), &counts, &["p13", "p70", "p80"]),
        (
            five(&site, true),
            &Traffic::new(),
            &["p3", "p13", "p23", "p33", "p99"],
        ),
    ] {
        let found = hot.choose_for(dir, None, counts).unwrap();
        assert_eq!(ids(&dir.join("hot")), chosen);
        let counted = |id: &&&str| counts.contains_key(**id);
        let expected = Chosen {
            rows: chosen.len(),
            by_traffic: chosen.iter().filter(counted).count(),
            unknown: usize::from(!counts.is_empty()),
            is_new: true,
        };
        assert_eq!(found, expected);
        let again = hot.choose_for(dir, None, counts).unwrap();
        assert!(!again.is_new, "{again:?}");
    }
    // The whole index is as it was, and a build finds it whole.
    assert_eq!(ids(dir).len(), 100);
    let again = site.build.run(&Triples::new("triples"), &mut |_| {}).await;
    assert_eq!(again.unwrap().encoded, 0);
}

#[tokio::test]
async fn the_same_choice_by_build_is_the_same_subset() {
    let mut site = built().await;
    let hot = five(&site, true);
    hot.choose_for(&site.build.out, None, &Traffic::new())
        .unwrap();
    let manifest = site.build.out.join("hot/manifest.json");
    let before = fs::read(&manifest).unwrap();
    fs::remove_dir_all(site.build.out.join("hot")).unwrap();
    site.build.hot = Some(hot);
    let built = site.build.run(&Triples::new("triples"), &mut |_| {}).await;
    assert_eq!(built.unwrap().hot_rows, Some(5));
    assert_eq!(fs::read(&manifest).unwrap(), before);
}

#[tokio::test]
async fn the_largest_number_of_links_is_a_number() {
    let mut site = Site::new();
    let line = |id: &str, links: u32| {
        let fields = format!("\"id\":\"{id}\",\"title\":\"T\",\"text\":\"about {id}\"");
        format!("{{{fields},\"in_degree\":{links}}}\n")
    };
    let corpus = line("few", 1) + &line("most", u32::MAX);
    fs::write(&site.build.corpus, corpus).unwrap();
    site.build.hot = Some(Hot {
        fraction: 0.5,
        in_degree: None,
    });
    let built = site.build.run(&Triples::new("triples"), &mut |_| {}).await;
    assert_eq!(built.unwrap().hot_rows, Some(1));
    assert_eq!(ids(&site.build.out.join("hot")), ["most"]);
}

#[tokio::test]
async fn whoever_has_the_old_subset_open_keeps_it() {
    let site = built().await;
    let (dir, out) = (&site.build.out, site.path("apart"));
    let hot = five(&site, false);
    hot.choose_for(dir, Some(&out), &traffic(&[("p1", 1)]))
        .unwrap();
    let old = PassageIndex::open(&out).unwrap();
    hot.choose_for(dir, Some(&out), &traffic(&[("p2", 1)]))
        .unwrap();
    assert_eq!(old.passage(0).unwrap().fields().id, "p1");
    old.verify().unwrap();
    assert_eq!(ids(&out), ["p2"]);
    assert!(!dir.join("hot").exists());
    for left in ["apart.partial", ".apart.old"] {
        assert!(!site.path(left).exists(), "{left}");
    }
}

#[tokio::test]
async fn a_whole_index_is_replaced_by_no_subset() {
    let site = built().await;
    let other = site.path("other");
    fs::create_dir(&other).unwrap();
    for (name, bytes) in files(&site.build.out) {
        fs::write(other.join(name), bytes).unwrap();
    }
    let manifest = other.join("manifest.json");
    let written = fs::read_to_string(&manifest).unwrap();
    let damaged = written.replace("rows", "rose");
    let newer = written.replacen("\"format\": 1", "\"format\": 99", 1);
    assert_ne!(newer, written);
    let (hot, counts) = (five(&site, false), traffic(&[("p1", 1)]));
    for (text, said) in [
        (written, "other is a whole index,"),
        (
            damaged,
            "other may be a whole index (its manifest.json is damaged",
        ),
        (newer, "other may be a whole index (it is of format 99"),
    ] {
        fs::write(&manifest, text).unwrap();
        let before = files(&other);
        let chosen = hot.choose_for(&site.build.out, Some(&other), &counts);
        let error = chosen.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(files(&other), before);
    }
}

#[tokio::test]
async fn a_damaged_subset_is_replaced() {
    let site = built().await;
    let (dir, out) = (&site.build.out, site.path("apart"));
    let (hot, counts) = (five(&site, false), traffic(&[("p1", 1)]));
    // What its manifest says is believed, and within its index it needs none.
    for (at, out, keeps_manifest) in [(&out, Some(&*out), true), (&dir.join("hot"), None, false)] {
        assert!(hot.choose_for(dir, out, &counts).unwrap().is_new);
        for name in files(at).into_keys() {
            if !(keeps_manifest && name == Path::new("manifest.json")) {
                fs::write(at.join(name), "").unwrap();
            }
        }
        assert!(hot.choose_for(dir, out, &counts).unwrap().is_new);
        assert_eq!(ids(at), ["p1"]);
    }
}

#[tokio::test]
async fn within_the_index_a_subset_goes_to_one_place() {
    let site = built().await;
    let (dir, hot) = (&site.build.out, five(&site, false));
    let counts = traffic(&[("p1", 1)]);
    std::os::unix::fs::symlink(dir, site.path("link")).unwrap();
    for out in ["index/hot2", "index/sub/hot", "index", "link/hot2"] {
        let error = hot.choose_for(dir, Some(&site.path(out)), &counts);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains(out) && error.ends_with("in the folder of its index it is called hot"),
            "{error}"
        );
    }
    // However it is written, the usual place is the usual place.
    for (out, is_new) in [("index/hot", true), ("link/hot", false)] {
        let chosen = hot.choose_for(dir, Some(&site.path(out)), &counts);
        assert_eq!(chosen.unwrap().is_new, is_new);
    }
    assert_eq!(ids(&dir.join("hot")), ["p1"]);
    // The index can still be changed.
    remove(dir, &["p2".into()]).unwrap();
}

#[tokio::test]
async fn what_cannot_be_chosen_is_told_and_leaves_the_old_subset() {
    let site = built().await;
    let dir = &site.build.out;
    let hot = five(&site, false);
    hot.choose_for(dir, None, &traffic(&[("p1", 1)])).unwrap();
    let none = Hot {
        fraction: 0.0,
        in_degree: None,
    };
    for (hot, counts, said) in [
        (&hot, traffic(&[]), "come without in-degrees"),
        (&hot, traffic(&[("q", 1)]), "no answer came from a passage"),
        (&none, traffic(&[("p1", 1)]), "must be above 0"),
    ] {
        let error = hot.choose_for(dir, None, &counts).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    // Of another corpus, with traffic and without.
    let others = site.path("others.jsonl");
    let line = "{\"title\":\"Elsewhere\",\"mention_indegree\":9}\n";
    fs::write(&others, line).unwrap();
    let other = Hot {
        fraction: 0.05,
        in_degree: Some(others),
    };
    for counts in [traffic(&[]), traffic(&[("p1", 1)]), traffic(&[("q", 1)])] {
        let error = other.choose_for(dir, None, &counts);
        let error = error.unwrap_err().to_string();
        assert!(
            error.ends_with("others.jsonl names the title of no passage of this index"),
            "{error}"
        );
    }
    assert_eq!(ids(&dir.join("hot")), ["p1"]);
    // What is damaged is not copied.
    let shard = fs::read_dir(dir).unwrap().flatten().find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        entry.path().is_file() && name != "manifest.json"
    });
    let path = shard.unwrap().path();
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = hot.choose_for(dir, None, &traffic(&[("p2", 1)]));
    assert!(error.is_err(), "{error:?}");
    assert_eq!(ids(&dir.join("hot")), ["p1"]);

    let nowhere = site.path("nowhere");
    let error = hot.choose_for(&nowhere, None, &traffic(&[("p1", 1)]));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("there is no folder "), "{error}");
    assert!(!site.path(".nowhere.lock").exists());
}
