//! The encoder on the real E5 model.

use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_ports::{Call, Encoder, Lane, TextKind, contract};
use spechop_testkit::assets::{model_dir, onnxruntime};
use spechop_types::Chance;
use tokio::task::JoinSet;

/// One for all tests that do not count: opening takes a while.
static SHARED: LazyLock<OnnxEncoder> = LazyLock::new(|| open(|_| {}));

fn open(adjust: impl FnOnce(&mut EncoderOptions)) -> OnnxEncoder {
    let mut options = EncoderOptions::new(onnxruntime());
    adjust(&mut options);
    OnnxEncoder::open(&model_dir("e5-small-v2"), &options).expect("the model opens")
}

/// The vectors of passages.
pub(crate) async fn encoded(encoder: &OnnxEncoder, texts: Vec<String>) -> Vec<Vec<f32>> {
    let call = Call::authoritative();
    let encoded = encoder.encode(&call, TextKind::Passage, texts).await;
    encoded.expect("vectors").vectors
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[tokio::test]
async fn it_keeps_the_contract() {
    contract::encoder(&*SHARED).await;
}

/// What `eval/bench/embed_reference.py` writes.
#[derive(Deserialize)]
struct Reference {
    queries: Vec<Row>,
    passages: Vec<Row>,
    cosines: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Row {
    text: String,
    head: Vec<f32>,
}

#[tokio::test]
async fn it_agrees_with_another_implementation() {
    let reference: Reference =
        serde_json::from_str(include_str!("reference.json")).expect("a reference");
    let call = Call::authoritative();
    let mut queries = Vec::new();
    for row in &reference.queries {
        queries.push(
            SHARED
                .encode_query(&call, &row.text)
                .await
                .expect("a vector"),
        );
    }
    let texts = reference
        .passages
        .iter()
        .map(|row| row.text.clone())
        .collect();
    let passages = encoded(&SHARED, texts).await;

    let rows = reference.queries.iter().chain(&reference.passages);
    for (row, vector) in rows.zip(queries.iter().chain(&passages)) {
        for (theirs, ours) in row.head.iter().zip(vector) {
            assert!(
                (theirs - ours).abs() < 1e-4,
                "{:.40}: {theirs} {ours}",
                row.text
            );
        }
    }
    for (query, row) in queries.iter().zip(&reference.cosines) {
        for (passage, theirs) in passages.iter().zip(row) {
            let ours = dot(query, passage);
            assert!((theirs - ours).abs() < 1e-4, "{theirs} {ours}");
        }
    }
}

/// Questions and the passages that answer them: beginnings of Wikipedia articles (CC BY-SA 4.0) as
/// collected by 2WikiMultihopQA (Apache-2.0).
const GOLD: &[(&str, &str)] = &[
    (
        "Who is the husband of Elisa Godínez Gómez de Batista?",
        "Elisa Godínez Gómez de Batista. Elisa Godínez Gómez de Batista (c. 1905 – June 19, 1993) was the First Lady of Cuba from 1940 to 1944. She was the first wife of Cuban President Fulgencio Batista.",
    ),
    (
        "Where was the director Roy Mack born?",
        "Roy Mack (director). Roy Mack (December 14, 1889, New Brunswick, New Jersey - January 16, 1962, Los Angeles, California), born Roy McClure, was an American director of film shorts, mostly comedy films, with 205 titles to his credit.",
    ),
    (
        "Who directed the film Haiducii?",
        "Haiducii (film). Haiducii is a 1966 Romanian film directed by Dinu Cocea.",
    ),
    (
        "Who directed the film My Wife's Best Friend?",
        "My Wife's Best Friend. My Wife's Best Friend is a 1952 comedy film directed by Richard Sale, starring Anne Baxter and Macdonald Carey, with Catherine McLeod in the titular role.",
    ),
    (
        "Who is the mother of Arabia, daughter of Justin II?",
        "Arabia (daughter of Justin II). Arabia (fl. 565) was the only recorded daughter of Byzantine emperor Justin II (r. 565–578) and his empress Sophia.",
    ),
    (
        "Who composed the song A String of Pearls?",
        "A String of Pearls (song). \"A String of Pearls\" is a 1941 song recorded by Glenn Miller and His Orchestra on RCA Bluebird, composed by Jerry Gray with lyrics by Eddie DeLange. The song is a big band and jazz standard.",
    ),
    (
        "When was Hirer Angti released?",
        "Hirer Angti. Hirer Angti is a 1992 Bengali film by Rituporno Ghosh, starring Moon Moon Sen, Basanta Choudhury and Pradip Mukherjee.",
    ),
    (
        "Where did Stanley Kwan study?",
        "Stanley Kwan. Stanley Kwan (born October 9, 1957) is a Hong Kong film director and producer. Kwan landed a job at the TVB after receiving a mass communications degree at Hong Kong Baptist College.",
    ),
    (
        "What did Pierre De Geyter compose?",
        "Pierre De Geyter. Pierre Chrétien De Geyter( 8 October 1848 – 26 September 1932) was a Belgian socialist( who later became a communist) and a composer, known for writing the music of\" The Internationale\".",
    ),
];

#[tokio::test]
async fn a_question_is_nearest_to_the_passage_that_answers_it() {
    let call = Call::authoritative();
    let texts = GOLD
        .iter()
        .map(|(_, passage)| (*passage).to_owned())
        .collect();
    let passages = encoded(&SHARED, texts).await;
    for (at, (question, _)) in GOLD.iter().enumerate() {
        let query = SHARED
            .encode_query(&call, question)
            .await
            .expect("a vector");
        let score = |other: usize| dot(&query, &passages[other]);
        for other in (0..GOLD.len()).filter(|&other| other != at) {
            assert!(score(at) > score(other), "{question}: {}", GOLD[other].1);
        }
    }
}

#[tokio::test]
async fn company_does_not_change_a_passage() {
    let texts: Vec<String> = (1..60)
        .map(|n| "a longer and longer text ".repeat(n))
        .collect();
    let together = encoded(&SHARED, texts.clone()).await;
    for (text, shared) in texts.iter().zip(&together).step_by(7) {
        let alone = encoded(&SHARED, vec![text.clone()]).await;
        let apart: f32 = alone[0]
            .iter()
            .zip(shared)
            .map(|(a, b)| (a - b).abs())
            .sum();
        assert!(apart < 1e-3, "{apart} over {} components", shared.len());
    }
}

#[tokio::test]
async fn what_lies_past_the_limit_is_not_read() {
    let call = Call::authoritative();
    let (long, longer) = (
        "word ".repeat(2_000),
        "word ".repeat(2_000) + "and another end",
    );
    let texts = vec![long.clone(), longer.clone()];
    let passages = encoded(&SHARED, texts).await;
    assert_eq!(passages[0], passages[1]);
    let a = SHARED.encode_query(&call, &long).await.expect("a vector");
    let b = SHARED.encode_query(&call, &longer).await.expect("a vector");
    assert!(dot(&a, &b) > 0.9999);
}

#[tokio::test]
async fn odd_texts_have_vectors_too() {
    let call = Call::authoritative();
    for text in [
        "",
        " ",
        "\0",
        "\u{fffd}",
        "🦀".repeat(30_000).as_str(),
        "[CLS] [MASK] [SEP]",
    ] {
        let vector = SHARED.encode_query(&call, text).await.expect("a vector");
        assert!((dot(&vector, &vector) - 1.0).abs() < 1e-3, "{text:.20}");
    }
}

#[tokio::test]
async fn queries_that_wait_together_share_runs() {
    let encoder = open(|_| {});
    let queries = (0..40).map(|n| format!("who directed film number {n}"));
    let call = Call::authoritative();
    let all = queries.map(|query| {
        let (encoder, call) = (&encoder, &call);
        async move { encoder.encode_query(call, &query).await.expect("a vector") }
    });
    let vectors = futures::future::join_all(all).await;
    assert_eq!(vectors.len(), 40);
    let counts = encoder.counts();
    assert_eq!(counts.queries, 40);
    assert!(counts.query_runs < 40, "{counts:?}");
    // One alone gives what one in company gave.
    let alone = encoder
        .encode_query(&call, "who directed film number 7")
        .await;
    assert!(dot(&alone.expect("a vector"), &vectors[7]) > 0.9999);
}

/// Asks 200 queries at once and drops those that are not answered when the first one is.
async fn drop_all_but_one_of_200(encoder: &Arc<OnnxEncoder>, lane: Lane) {
    let before = encoder.counts();
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let encoder = Arc::clone(encoder);
        calls.spawn(async move {
            let query = format!("who directed the film that is called number {n}");
            encoder
                .encode_query(&Call::new(lane, Chance::EVEN), &query)
                .await
        });
    }
    let first = calls
        .join_next()
        .await
        .expect("200 of them")
        .expect("no panic");
    assert!(first.is_ok());
    calls.shutdown().await;
    let after = encoder.counts();
    assert!(after.queries - before.queries < 200, "{after:?}");
}

#[tokio::test]
async fn cancelled_queries_leave_nothing_behind() {
    // A small queue, so that some wait outside when they are cancelled.
    let encoder = Arc::new(open(|options| {
        options.queue_max = NonZeroUsize::new(50).expect("not zero");
    }));
    for lane in [Lane::Speculative, Lane::Authoritative] {
        let before = encoder.counts();
        // Texts are cut on other threads, so on a busy machine the first answer may come before a second query
        // has reached the queue, and then nothing is cancelled there.
        for round in 1.. {
            assert!(round < 100, "no query was ever cancelled in the queue");
            drop_all_but_one_of_200(&encoder, lane).await;
            assert_eq!(encoder.waiting(), 0);
            if encoder.counts().cancelled > before.cancelled {
                break;
            }
        }
    }
    assert!(
        encoder
            .encode_query(&Call::authoritative(), "still there")
            .await
            .is_ok()
    );
    assert_eq!(encoder.waiting(), 0);
}

#[tokio::test]
async fn cancelled_passages_stop_after_the_run_that_has_begun() {
    let encoder = open(|_| {});
    let texts: Vec<String> = (0..200).map(|n| format!("{n} ").repeat(200)).collect();
    let job = encoded(&encoder, texts);
    let query = async {
        while encoder.counts().passage_runs == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = job => panic!("200 passages cannot be done in one run"),
        () = query => {}
    }
    assert_eq!(encoder.waiting(), 0);
    let call = Call::authoritative();
    assert!(encoder.encode_query(&call, "next").await.is_ok());
    // What the model computes after the query is what was in the queue: nothing.
    let counts = encoder.counts();
    assert!(encoder.encode_query(&call, "and next").await.is_ok());
    assert_eq!(encoder.counts().passage_runs, counts.passage_runs);
}

#[tokio::test]
async fn a_query_overtakes_passages() {
    let encoder = open(|_| {});
    let texts: Vec<String> = (0..30).map(|n| format!("{n} ").repeat(100)).collect();
    let passages = encoded(&encoder, texts);
    let query = async {
        while encoder.counts().passage_runs == 0 {
            tokio::task::yield_now().await;
        }
        let runs = encoder.counts().passage_runs;
        let call = Call::new(Lane::Speculative, Chance::EVEN.pow(3));
        assert!(encoder.encode_query(&call, "who goes first?").await.is_ok());
        encoder.counts().passage_runs - runs
    };
    let (passages, overtaken) = tokio::join!(passages, query);
    assert_eq!(passages.len(), 30);
    // One that was running; one more where tokenising the query outlasted it.
    assert!(overtaken <= 2, "{overtaken} runs of passages went before");
}

#[tokio::test]
async fn copies_side_by_side_give_the_same_vectors() {
    let options = EncoderOptions::new(onnxruntime()).side_by_side();
    let encoder = OnnxEncoder::open(&model_dir("e5-small-v2"), &options).expect("it opens");
    contract::encoder(&encoder).await;
    let texts: Vec<String> = (1..40).map(|n| "another text ".repeat(n)).collect();
    let ours = encoded(&encoder, texts.clone()).await;
    let theirs = encoded(&SHARED, texts).await;
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!(dot(ours, theirs) > 0.9999);
    }
    assert_eq!(encoder.waiting(), 0);
}

#[test]
fn it_stops_with_passages_in_hand() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let encoder = open(|_| {});
    runtime.block_on(async {
        let texts: Vec<String> = (0..50).map(|n| format!("{n} ").repeat(200)).collect();
        tokio::select! {
            biased;
            _ = encoded(&encoder, texts) => panic!("50 passages take longer than a yield"),
            () = tokio::task::yield_now() => {}
        }
    });
    // Returns once the thread has ended.
    drop(encoder);
}

#[test]
fn the_fingerprint_stays() {
    let again = open(|options| options.threads = NonZeroUsize::MIN);
    assert_eq!(again.fingerprint(), SHARED.fingerprint());
    assert!(again.fingerprint().starts_with("e5-small-v2-"));
    assert_eq!(again.fingerprint().len(), "e5-small-v2-".len() + 16);
}
