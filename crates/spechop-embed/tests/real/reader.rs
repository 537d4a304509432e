//! The reader on a model of a dozen words.

use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

use spechop_embed::{READER_RECIPE_FILE, ReaderOptions, Scored, SpanReader};
use spechop_ports::{Call, Guess, Lane, PortError, ReadRequest, Reader, contract};
use spechop_testkit::assets::onnxruntime;
use spechop_testkit::passage;
use spechop_types::{Chance, SubQuestion, Tokens};
use tokio::task::JoinSet;

use crate::tiny;

static SHARED: LazyLock<SpanReader> = LazyLock::new(|| open(|_| {}));

fn open(adjust: impl FnOnce(&mut ReaderOptions)) -> SpanReader {
    let dir = tempfile::tempdir().expect("a folder");
    tiny::write(dir.path());
    let mut options = ReaderOptions::new(onnxruntime());
    adjust(&mut options);
    SpanReader::open(dir.path(), &options).expect("it opens")
}

fn request(question: &str, texts: &[&str]) -> ReadRequest {
    let passage = |text: &&str| passage("p", "Title", *text);
    ReadRequest {
        sub_question: SubQuestion::new(question),
        passages: texts.iter().map(passage).collect(),
    }
}

async fn read(texts: &[&str]) -> Option<String> {
    let call = Call::authoritative();
    let reading = SHARED.read(&call, request("who", texts)).await;
    let reading = reading.expect("a reading");
    assert_eq!(reading.tokens, Tokens::default(), "it is no language model");
    reading.answer.map(|answer| answer.to_string())
}

async fn scored(texts: &[&str], limit: usize) -> Scored {
    let limit = NonZeroUsize::new(limit).expect("a number");
    let call = Call::new(Lane::Speculative, Chance::EVEN);
    let scored = SHARED.read_scored(&call, request("who", texts), limit);
    scored.await.expect("a reading")
}

#[tokio::test]
async fn it_keeps_the_contract() {
    contract::reader(&*SHARED).await;
}

#[tokio::test]
async fn it_answers_from_the_passages() {
    for (texts, expected) in [
        // As it is written, not as it is tokenised.
        (&["It was Álice  SMITH."][..], Some("Álice  SMITH")),
        // The best passage, wherever it stands and whatever its length.
        (
            &["Bob Jones", "and then, and then: Alice Smith", "x"],
            Some("Alice Smith"),
        ),
        (&["Bob Jones", "x"], Some("Bob Jones")),
        // Special tokens and the question have the highest logits of all.
        (
            &["Alice Smith", "x x x x x x x x x x x x x x x x x"],
            Some("Alice Smith"),
        ),
        (&["indeed"], Some("yes")),
        (&["never", "Bob Jones"], Some("no")),
        // It is not there, and says so.
        (&["alas, Alice Smith"], None),
        (&["alas, Alice Smith", "Bob Jones"], Some("Bob Jones")),
        (&["x", "y z"], None),
        (&["", " "], None),
        (&["\0", "🦀", "東京"], None),
        // At most four tokens from the first to the last.
        (&["Alice x x Smith"], Some("Alice x x Smith")),
        (&["Alice x x x Smith"], Some("Alice")),
        // Past the end of what is read: [CLS] query : who [SEP] title . leaves 25.
        (
            &["x x x x x x x x x x x x x x x x x x x x x x x Bob Jones"],
            Some("Bob Jones"),
        ),
        (
            &["x x x x x x x x x x x x x x x x x x x x x x x x x Bob Jones"],
            None,
        ),
    ] {
        assert_eq!(read(texts).await.as_deref(), expected, "{texts:?}");
    }
}

#[tokio::test]
async fn it_ranks_alternatives_and_says_how_sure_it_is() {
    let texts = [
        "Bob Jones or alas",
        "Bob Jones x Alice Smith",
        "ALICE SMITH",
    ];
    let all = scored(&texts, 2).await;
    let ranked: Vec<_> = all.ranked.iter().map(|a| (&*a.answer, a.passage)).collect();
    assert_eq!(ranked, [("Alice Smith", 1), ("Bob Jones", 1)]);
    assert!(all.found);
    // 12 + ln 3 − 6 and 10 + ln 3 − 6.
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    for (answer, logit) in all.ranked.iter().zip([7.0986, 5.0986]) {
        assert!(
            (answer.confidence - sigmoid(logit)).abs() < 1e-4,
            "{answer:?}"
        );
    }
    assert_eq!(all.answer(), all.ranked.first());

    // Not sure enough for an answer, but a guess all the same.
    let unsure = scored(&["x y"], 1).await;
    assert_eq!((unsure.ranked.len(), unsure.answer()), (1, None));
    assert_eq!(scored(&[], 3).await, Scored::default());
    let yes = scored(&["indeed"], 3).await;
    let ranked: Vec<_> = yes.ranked.iter().map(|a| &*a.answer).collect();
    assert_eq!(ranked, ["yes", "no"]);
}

/// Of what nobody can point at, it knows that it is nothing: that is not the same as not knowing.
#[tokio::test]
async fn where_there_is_nothing_to_read_it_is_sure_of_nothing() {
    let call = Call::authoritative();
    // No passage, a blank one, one of what was asked.
    for titles in [&[][..], &[""], &["", "who"]] {
        let texts = vec![" "; titles.len()];
        let mut request = request("who", &texts);
        for (passage, title) in Arc::make_mut(&mut request.passages).iter_mut().zip(titles) {
            passage.title = (*title).into();
        }
        let reading = SHARED.read(&call, request).await.expect("a reading");
        assert_eq!(reading.answer, None, "{titles:?}");
        assert_eq!(reading.confidence, Some(Chance::NONE), "{titles:?}");
    }
    // What is not sure enough for an answer is more than that.
    let reading = SHARED.read(&call, request("who", &["x y"])).await;
    let reading = reading.expect("a reading");
    assert_eq!(reading.answer, None);
    assert!(reading.confidence > Some(Chance::NONE));
}

#[tokio::test]
async fn alternatives_come_of_one_reading_and_are_as_sure_as_an_answer() {
    let (reader, call) = (open(|_| {}), Call::new(Lane::Speculative, Chance::EVEN));
    let ranked = async |texts: &[&str], limit: usize| {
        let limit = NonZeroUsize::new(limit).expect("a number");
        let ranked = reader.read_ranked(&call, request("who", texts), limit);
        let ranked = ranked.await.expect("a reading");
        assert_eq!(ranked.tokens, Tokens::default(), "it is no language model");
        let sure = |guess: &Guess| guess.confidence.is_some_and(|sure| sure > Chance::NONE);
        assert!(ranked.answers.iter().all(sure), "{ranked:?}");
        let texts = ranked.answers.into_iter().map(|guess| guess.text);
        texts.collect::<Vec<_>>()
    };
    let texts = ["Bob Jones or alas", "Bob Jones x Alice Smith"];
    let both = ["Alice Smith".into(), "Bob Jones".into()];
    assert_eq!(ranked(&texts, 1).await, both[..1]);
    assert_eq!(ranked(&texts, 2).await, both);
    // There is always more to point at, but no surety in it.
    assert_eq!(ranked(&texts, 9).await, both);
    assert!(scored(&texts, 9).await.ranked.len() > both.len());
    assert!(ranked(&["x y"], 3).await.is_empty());
    assert_eq!(reader.counts().requests, 4);
}

#[tokio::test]
async fn a_question_that_leaves_no_room_is_refused() {
    let call = Call::authoritative();
    let long = request(&"who ".repeat(40), &["Alice Smith"]);
    let error = SHARED.read(&call, long).await.expect_err("too long");
    assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("reader tiny"), "{error}");
}

#[tokio::test]
async fn no_more_passages_are_read_than_allowed() {
    let reader = open(|options| options.passages_max = NonZeroUsize::MIN);
    let call = Call::authoritative();
    let reading = reader.read(&call, request("who", &["Bob Jones", "Alice Smith"]));
    let answer = reading.await.expect("a reading").answer;
    assert_eq!(answer.as_deref(), Some("Bob Jones"));
    let counts = reader.counts();
    assert_eq!((counts.requests, counts.passages), (1, 1));
}

#[tokio::test]
async fn what_stands_behind_a_sure_reading_is_not_read() {
    let dir = tempfile::tempdir().expect("a folder");
    tiny::write(dir.path());
    // Bob Jones has 0.994, Alice Smith 0.999, and what is unknown less than a half.
    let recipe = tiny::RECIPE.replace("threshold = 0.5", "threshold = 0.5\nenough = 0.99");
    std::fs::write(dir.path().join(READER_RECIPE_FILE), recipe).expect("a recipe");
    for threads in [1, 2, 4] {
        let mut options = ReaderOptions::new(onnxruntime());
        options.threads = NonZeroUsize::new(threads).expect("not zero");
        let reader = SpanReader::open(dir.path(), &options).expect("it opens");
        for (texts, expected, least) in [
            (&["Bob Jones", "Alice Smith", "x", "x"][..], "Bob Jones", 1),
            (&["x y", "Bob Jones", "Alice Smith", "x"], "Bob Jones", 2),
            (
                &["x", "alas, Alice Smith", "Bob", "Bob Jones"],
                "Bob Jones",
                4,
            ),
            (&["Bob", "x", "Alice"], "Alice", 3),
        ] {
            let before = reader.counts().passages;
            let call = Call::authoritative();
            let scored = reader.read_scored(&call, request("who", texts), NonZeroUsize::MIN);
            let scored = scored.await.expect("a reading");
            assert_eq!(&*scored.ranked[0].answer, expected, "{threads}: {texts:?}");
            if threads == 1 {
                assert_eq!(reader.counts().passages - before, least, "{texts:?}");
            }
        }
    }
}

#[tokio::test]
async fn cancelled_requests_leave_nothing_behind() {
    let reader = Arc::new(open(|options| {
        options.threads = NonZeroUsize::new(2).expect("not zero");
        // Most wait outside when they are cancelled.
        options.queue_max = NonZeroUsize::new(5).expect("not zero");
    }));
    for lane in [Lane::Speculative, Lane::Authoritative] {
        let mut calls = JoinSet::new();
        for _ in 0..100 {
            let reader = Arc::clone(&reader);
            calls.spawn(async move {
                let texts = ["x Alice Smith x"; 20];
                let call = Call::new(lane, Chance::EVEN);
                reader.read(&call, request("who", &texts)).await
            });
        }
        let first = calls.join_next().await.expect("100 of them");
        assert!(first.expect("no panic").is_ok());
        calls.shutdown().await;
        assert_eq!(reader.waiting(), 0);
    }
    let call = Call::authoritative();
    let last = reader.read(&call, request("who", &["Bob Jones"]));
    assert!(last.await.is_ok());
    let counts = reader.counts();
    assert!(counts.requests <= 201, "{counts:?}");
    // Of those that were cancelled while they were read, each session may end one passage more.
    assert!(
        counts.passages <= 20 * counts.requests + 4 * 20 + 1,
        "{counts:?}"
    );
}

#[test]
fn it_stops_with_requests_in_hand() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let reader = open(|_| {});
    runtime.block_on(async {
        let call = Call::authoritative();
        tokio::select! {
            biased;
            _ = reader.read(&call, request("who", &["x"; 20])) => {}
            () = tokio::task::yield_now() => {}
        }
    });
    // Returns once the thread has ended.
    drop(reader);
}
