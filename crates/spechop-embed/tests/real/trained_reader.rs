//! The reader on the trained model, which the repository ships.

use std::num::NonZeroUsize;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use spechop_embed::{ReaderOptions, SpanReader};
use spechop_ports::{Call, ReadRequest, contract};
use spechop_testkit::assets::{onnxruntime, shipped_model};
use spechop_testkit::passage;
use spechop_types::SubQuestion;

/// What `reader_reference.py` writes.
#[derive(Deserialize)]
struct Reference {
    model_sha256: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    question: String,
    passages: Vec<Text>,
    answer: String,
    score: f64,
    passage: usize,
}

#[derive(Deserialize)]
struct Text {
    title: String,
    text: String,
}

impl Case {
    fn request(&self) -> ReadRequest {
        let passage = |text: &Text| passage(&text.title, &text.title, text.text.as_str());
        ReadRequest {
            sub_question: SubQuestion::new(&self.question),
            passages: self.passages.iter().map(passage).collect(),
        }
    }
}

#[tokio::test]
async fn it_agrees_with_the_python_reference() {
    let dir = shipped_model("spechop-reader");
    // One thread, as the reference ran.
    let mut options = ReaderOptions::new(onnxruntime());
    options.threads = NonZeroUsize::MIN;
    let reader = SpanReader::open(&dir, &options).expect("it opens");
    contract::reader(&reader).await;

    let reference = include_str!("reader_reference.json");
    let reference: Reference = serde_json::from_str(reference).expect("a reference");
    let model = std::fs::read(dir.join(&reader.recipe().model)).expect("a model");
    let digest = Sha256::digest(model);
    let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        sha256, reference.model_sha256,
        "the reference is of another model: run reader_reference.py"
    );
    let call = Call::authoritative();
    let three = NonZeroUsize::new(3).expect("not zero");
    // Without the reference's instructions, sums of floats are rounded otherwise before they are put into eight
    // bits: scores were off by 0.3 at most, and by up to 1.9 if sums of eight bits overflow.
    let tolerance = if rounds_as_the_reference() { 0.01 } else { 0.4 };
    for case in &reference.cases {
        let read = reader.read_scored(&call, case.request(), three).await;
        let read = read.expect("a reading");
        let best = read.ranked.first().expect("something, however unsure");
        let what = (&*best.answer, best.passage);
        assert_eq!(what, (&*case.answer, case.passage), "{}", case.question);
        // The score, from the confidence that it was turned into.
        let calibration = reader.recipe().calibration;
        let logit = (best.confidence / (1.0 - best.confidence)).ln();
        let score = (logit - calibration.shift) / calibration.scale;
        assert!(
            (score - case.score).abs() < tolerance,
            "{}: {score} instead of {}",
            case.question,
            case.score
        );
    }
}

/// The model reads 256 tokens at once, and a passage of a corpus may have more.
#[tokio::test]
async fn what_stands_far_behind_in_a_passage_is_read_if_nothing_before_answers() {
    let options = ReaderOptions::new(onnxruntime());
    let reader = SpanReader::open(&shipped_model("spechop-reader"), &options);
    let reader = reader.expect("it opens");
    let filler = "The house has a garden with old trees, and a wall of brick stands around it. ";
    let far = format!("{}Ana Ruiz died in Delft.", filler.repeat(30));
    let passage = |title: &str, text: &str| Text {
        title: title.to_owned(),
        text: text.to_owned(),
    };
    let case = Case {
        question: "Where did Ana Ruiz die?".to_owned(),
        passages: vec![
            passage("Ana Ruiz", &far),
            passage("Garden", "A garden is a place for plants."),
        ],
        answer: "Delft".to_owned(),
        score: 0.0,
        passage: 0,
    };
    let call = Call::authoritative();
    let read = reader.read_scored(&call, case.request(), NonZeroUsize::MIN);
    let read = read.await.expect("a reading");
    let best = read.answer().expect("an answer");
    assert_eq!((&*best.answer, best.passage), (&*case.answer, case.passage));
}

/// Whether this processor has what the reference was made with. Of others than x86 nothing is known yet.
fn rounds_as_the_reference() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512vnni")
            || std::arch::is_x86_feature_detected!("avxvnni")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        true
    }
}
