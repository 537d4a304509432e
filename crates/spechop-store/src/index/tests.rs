use std::sync::Arc;

use proptest::prelude::*;
use spechop_ports::{Call, Lane};
use spechop_testkit::TextVectors;
use spechop_types::Chance;

use super::*;
use crate::fixture::{inputs, unit_vectors, write, write_as};
use crate::{IndexRetriever, Part};

/// What a search must find, the slow and obvious way: the same int8 numbers, summed one by one.
fn oracle(index: &PassageIndex, query: &[f32], limit: usize) -> Vec<usize> {
    let largest = query.iter().fold(0f32, |a, x| a.max(x.abs()));
    let quantised: Vec<i32> = query
        .iter()
        .map(|x| {
            if largest > 0.0 {
                (x * (largest / 127.0).recip()).round() as i32
            } else {
                0
            }
        })
        .collect();
    let mut scored: Vec<(f32, usize)> = (0..index.rows())
        .map(|row| {
            let (vector, scale) = index.vector(row).unwrap();
            let dot: i32 = quantised
                .iter()
                .zip(vector)
                .map(|(q, x)| q * i32::from(*x))
                .sum();
            (dot as f32 * scale, row)
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scored.into_iter().take(limit).map(|(_, row)| row).collect()
}

fn rows(hits: &[Hit]) -> Vec<usize> {
    hits.iter().map(|hit| hit.row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the shape, the scan finds what sorting everything finds; a batch finds what its
    /// queries find alone. Coarse components, so that ties abound.
    #[test]
    fn search_agrees_with_the_oracle(
        shape in (1usize..70, 1usize..200, 20usize..90),
        seed: u64,
        limit in 0usize..30,
    ) {
        let (width, count, shard_rows) = shape;
        let coarse = |vectors: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
            vectors.into_iter().map(|v| v.iter().map(|x| (x * 3.0).round()).collect()).collect()
        };
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &coarse(unit_vectors(seed, count, width)), shard_rows);
        let index = PassageIndex::open(dir.path()).unwrap();
        let vectors = unit_vectors(seed ^ 1, 5, width);
        let queries: Vec<Query> = vectors.iter().map(|v| Query::new(v, limit).unwrap()).collect();
        let together = index.scan(&queries).unwrap();
        for ((vector, query), hits) in vectors.iter().zip(&queries).zip(&together) {
            prop_assert_eq!(rows(hits), oracle(&index, vector, limit));
            prop_assert_eq!(&index.scan(std::slice::from_ref(query)).unwrap()[0], hits);
        }
    }
}

/// Random vectors are the hardest case: their neighbours are barely nearer than anything else.
#[test]
fn eight_bits_find_what_32_find() {
    let dir = tempfile::tempdir().unwrap();
    let vectors = unit_vectors(7, 2000, 384);
    write(dir.path(), &vectors, 1000);
    let index = PassageIndex::open(dir.path()).unwrap();
    let (mut found, mut wanted) = (0, 0);
    for query in unit_vectors(8, 20, 384) {
        let dot = |v: &Vec<f32>| -> f32 { v.iter().zip(&query).map(|(a, b)| a * b).sum() };
        let scores: Vec<f32> = vectors.iter().map(dot).collect();
        let mut exact: Vec<usize> = (0..vectors.len()).collect();
        exact.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let hits = &index.scan(&[Query::new(&query, 10).unwrap()]).unwrap()[0];
        for hit in hits {
            assert!((hit.score - scores[hit.row]).abs() < 2e-3, "{hit:?}");
        }
        wanted += 10;
        found += exact[..10]
            .iter()
            .filter(|row| rows(hits).contains(row))
            .count();
    }
    let recall = f64::from(found as u32) / f64::from(wanted);
    assert!(recall >= 0.95, "recall@10 {recall}");
}

#[test]
fn passages_come_back_as_they_went_in() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &unit_vectors(1, 25, 10), 10);
    let index = PassageIndex::open(dir.path()).unwrap();
    assert_eq!((index.rows(), index.width()), (25, 10));
    for row in [0, 9, 10, 24] {
        let stored = index.passage(row).unwrap();
        let passage = stored.fields();
        assert_eq!(passage.id, format!("p-{row}"));
        assert_eq!(passage.title, format!("Title {row}"));
        assert!(
            passage
                .text
                .starts_with(&format!("Text of passage {row}, naïve"))
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_that_meet_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let vectors = unit_vectors(3, 400, 32);
    write(dir.path(), &vectors, 128);
    let index = Arc::new(PassageIndex::open(dir.path()).unwrap());
    let mut searches = tokio::task::JoinSet::new();
    for (row, vector) in vectors.into_iter().enumerate() {
        let index = Arc::clone(&index);
        searches.spawn(async move {
            let lane = if row % 3 == 0 {
                Lane::Authoritative
            } else {
                Lane::Speculative
            };
            let call = Call::new(lane, Chance::EVEN.pow(row as u32 % 4));
            let hits = index.search(&call, &vector, 3).await.unwrap();
            assert_eq!(hits.len(), 3);
            assert_eq!(
                *hits[0].id,
                *format!("p-{row}"),
                "its own vector is the nearest"
            );
        });
    }
    while let Some(done) = searches.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn unusable_queries_are_refused_and_cancelled_ones_leave() {
    let dir = tempfile::tempdir().unwrap();
    let vectors = unit_vectors(3, 4, 8);
    write(dir.path(), &vectors, 128);
    let index = PassageIndex::open(dir.path()).unwrap();
    let call = Call::authoritative();
    for (vector, says) in [
        (vec![0.5; 7], "7 components instead of 8"),
        (vec![f32::NAN; 8], "finite"),
    ] {
        let error = index
            .search(&call, &vector, 1)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(index.search(&call, &[0.0; 8], 2).await.unwrap().len(), 2);
    assert_eq!(
        index
            .search(&call, &vectors[0], usize::MAX)
            .await
            .unwrap()
            .len(),
        4
    );
    for _ in 0..1000 {
        let search = std::pin::pin!(index.search(&call, &vectors[0], 1));
        // Polled once, so that it is queued, then dropped.
        assert!(futures_poll_once(search).await);
    }
    assert_eq!(
        *index.search(&call, &vectors[2], 1).await.unwrap()[0].id,
        *"p-2"
    );
}

/// Whether one poll went through, ready or not.
async fn futures_poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| {
        let _ = future.as_mut().poll(context);
        std::task::Poll::Ready(true)
    })
    .await
}

/// Words to a vector, without a model: each word adds a direction of its own.
fn words(text: &str) -> Vec<f32> {
    let mut sum = vec![0.01; 64];
    for word in text.to_lowercase().split_whitespace() {
        let seed = u64::from(crc32fast::hash(word.as_bytes()));
        let direction = unit_vectors(seed, 1, 64).remove(0);
        sum.iter_mut().zip(direction).for_each(|(a, b)| *a += b);
    }
    let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    sum.iter().map(|x| x / norm).collect()
}

#[tokio::test]
async fn a_retriever_keeps_its_contract_and_knows_its_encoder() {
    let dir = tempfile::tempdir().unwrap();
    let texts = [
        "the rivers of France",
        "mountains of Spain",
        "a film",
        "rivers of Germany",
    ];
    let vectors: Vec<_> = texts.iter().map(|text| words(text)).collect();
    write(dir.path(), &vectors, 128);
    let index = Arc::new(PassageIndex::open(dir.path()).unwrap());
    let encoder = |fingerprint| Arc::new(TextVectors::new(fingerprint, 64, words));
    let retriever = IndexRetriever::new(encoder("test-encoder"), Arc::clone(&index)).unwrap();
    spechop_ports::contract::encoder(&*encoder("test-encoder")).await;
    spechop_ports::contract::retriever(&retriever).await;
    let Err(error) = IndexRetriever::new(encoder("other"), index) else {
        panic!("an index of another encoder was accepted");
    };
    let error = error.to_string();
    assert!(
        error.contains("built with encoder test-encoder, but the encoder in use is other"),
        "{error}"
    );
}

#[test]
fn a_part_of_an_index_can_be_opened_and_not_searched() {
    let dir = tempfile::tempdir().unwrap();
    let part = Some(Part { number: 0, of: 8 });
    let inputs = Inputs {
        part,
        ..inputs(64, 128)
    };
    write_as(dir.path(), &[words("a film")], inputs);
    let index = Arc::new(PassageIndex::open(dir.path()).unwrap());
    let encoder = Arc::new(TextVectors::new("test-encoder", 64, words));
    let Err(error) = IndexRetriever::new(encoder, index) else {
        panic!("a part was taken for the whole");
    };
    let error = error.to_string();
    let said = "it is part 0 of 8 of an index; join the parts with `spechop index merge`";
    assert!(error.ends_with(said), "{error}");
}

#[test]
fn urls_and_in_degrees_are_kept_where_the_inputs_say_so() {
    use crate::{IndexWriter, PassageRef};
    let full = PassageRef {
        id: "p",
        title: "Löwe",
        text: "A text.",
        url: Some("https://h/L%C3%B6we"),
        in_degree: Some(7),
    };
    let plain = PassageRef {
        url: None,
        in_degree: None,
        ..full
    };
    for (extended, format, stored) in [(true, 2, full), (false, 1, plain)] {
        let dir = tempfile::tempdir().unwrap();
        let inputs = Inputs {
            extended,
            ..inputs(4, 10)
        };
        let mut writer = IndexWriter::open(dir.path(), inputs).unwrap();
        writer.push(full, &[0.5; 4]).unwrap();
        writer.push(plain, &[0.5; 4]).unwrap();
        writer.finish().unwrap();
        let manifest = std::fs::read_to_string(dir.path().join("manifest.json")).unwrap();
        assert!(
            manifest.contains(&format!("\"format\": {format}")),
            "{manifest}"
        );
        assert_eq!(manifest.contains("extended"), extended);
        for copied_bytes_max in [0, u64::MAX] {
            let opened = PassageIndex::open_as(
                dir.path(),
                copied_bytes_max,
                Proof::Before,
                Vitals::default(),
            );
            let index = opened.unwrap();
            assert_eq!(index.passage(0).unwrap().fields(), stored);
            assert_eq!(index.passage(1).unwrap().fields(), plain);
            let hits = index.scan(&[Query::new(&[0.5; 4], 1).unwrap()]).unwrap();
            let found = index.rows.passages(&hits[0]).unwrap();
            assert_eq!(found[0].url.as_deref(), stored.url);
        }
    }
}

/// Two threads put indexes in each other's place while a third opens whatever is there.
#[test]
fn an_index_that_is_replaced_while_it_is_opened_is_one_of_the_two() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let dir = tempfile::tempdir().unwrap();
    let (place, other) = (dir.path().join("index"), dir.path().join("other"));
    write(&place, &unit_vectors(1, 5, 16), 2);
    write(&other, &unit_vectors(1, 9, 16), 3);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                let (a, b) = (&place, &other);
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    a,
                    rustix::fs::CWD,
                    b,
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
            }
        });
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let opened = PassageIndex::open_verified(&place);
            seen.insert(
                opened
                    .map(|index| index.rows())
                    .map_err(|error| error.to_string()),
            );
        }
        done.store(true, Relaxed);
        assert!(
            seen.iter().all(|rows| matches!(rows, Ok(5 | 9))),
            "{seen:?}"
        );
    });
}
