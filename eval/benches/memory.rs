//! What the memory of verified look-ups guesses, and how often rightly, by the cosine from which on another
//! sub-question counts as nearly the same (`speculator.memory_similarity`).
//!
//! `cargo bench -p spechop-eval --bench memory`
//!
//! The memory and the encoder are the real ones; what is committed comes of the data sets and of a stored run.
//! *Gold*: the hops of all questions, one after the other; each is guessed, and then committed. *Other
//! words*: behind all those hops, the sub-questions that the planner wrote for some of the same questions
//! (run `answers`), with what was observed for them. A guess is right if the `rule` verifier accepts it.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends at the first mistake"
)]

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_embed::{EncoderOptions, OnnxEncoder};
use spechop_eval::{Dataset, Row, load};
use spechop_ports::{Call, Encoded, Encoder, GuessRequest, PortError, Speculator, TextKind};
use spechop_speculate::{Memory, MemoryOptions};
use spechop_testkit::assets;
use spechop_types::{CommitKind, Hop, Observation, Question, SubQuestion, Tenant};
use spechop_verifier::{Mode, verify};

const SIMILARITIES: [f32; 7] = [0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.99];
/// As many as are remembered at most by default.
const MOST: usize = 20_000;

/// Encodes each text once.
struct Once {
    encoder: OnnxEncoder,
    vectors: Mutex<HashMap<String, Vec<f32>>>,
}

#[async_trait]
impl Encoder for Once {
    fn fingerprint(&self) -> &str {
        self.encoder.fingerprint()
    }

    fn width(&self) -> usize {
        self.encoder.width()
    }

    async fn encode_query(&self, call: &Call, text: &str) -> Result<Vec<f32>, PortError> {
        let known = self.vectors.lock().get(text).cloned();
        if let Some(vector) = known {
            return Ok(vector);
        }
        let vector = self.encoder.encode_query(call, text).await?;
        let mut vectors = self.vectors.lock();
        vectors.insert(text.to_owned(), vector.clone());
        Ok(vector)
    }

    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        self.encoder.encode(call, kind, texts).await
    }
}

/// Guesses that were made, and how many of them were right.
#[derive(Default)]
struct Tally {
    asked: usize,
    own: [usize; 2],
    neighbours: [usize; 2],
}

/// What was asked, and what was found.
type Asked = (String, String);

/// The hops as the data set has them, names in place of the numbers of earlier answers.
fn gold(questions: &[spechop_eval::Question]) -> Vec<Asked> {
    let mut hops = Vec::new();
    for question in questions {
        for hop in &question.hops {
            let mut asks = hop.asks.replace(" >> ", " ");
            for (at, earlier) in question.hops.iter().enumerate() {
                asks = asks.replace(&format!("#{}", at + 1), &earlier.answer);
            }
            hops.push((asks, hop.answer.clone()));
        }
    }
    hops
}

fn recorded(dataset: Dataset) -> Vec<Asked> {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs/answers");
    let rows = std::fs::read_to_string(run.join(dataset.as_str()).join("rows.jsonl")).unwrap();
    let rows = rows
        .lines()
        .map(|row| serde_json::from_str::<Row>(row).unwrap());
    let hops = rows.flat_map(|row| row.hops);
    hops.filter(|hop| hop.found)
        .map(|hop| (hop.sub_question, hop.answer))
        .collect()
}

fn hop((asked, found): &Asked) -> Hop {
    Hop {
        sub_question: SubQuestion::new(asked),
        answer: found.as_str().into(),
        kind: CommitKind::Observed,
        guess: None,
        observation: Arc::new(Observation {
            answer: found.as_str().into(),
            found: true,
            confidence: None,
            evidence: Arc::default(),
        }),
    }
}

async fn guess(memory: &Memory, asked: &str) -> Option<Arc<str>> {
    let request = GuessRequest {
        question: Question::new("Who?").unwrap(),
        hops: Vec::new(),
        sub_question: SubQuestion::new(asked),
        passages: NonZeroUsize::MIN,
        limit: NonZeroUsize::MIN,
    };
    let guessed = memory.guess(&Call::authoritative(), request).await.unwrap();
    guessed.guesses.into_iter().next().map(|guess| guess.text)
}

async fn ask_all(memory: &Memory, known: &mut HashSet<String>, hops: &[Asked]) -> Tally {
    let mut tally = Tally::default();
    for asked in hops {
        let (words, found) = asked;
        let is_known = !known.insert(SubQuestion::new(words).key().to_owned());
        tally.asked += 1;
        if let Some(guess) = guess(memory, words).await {
            let guesses = match is_known {
                true => &mut tally.own,
                false => &mut tally.neighbours,
            };
            guesses[0] += 1;
            guesses[1] += usize::from(verify(Mode::Rule, found, &guess).accepted);
        }
        memory.committed(&Tenant::default(), &hop(asked), |guess, observed| {
            verify(Mode::Rule, observed, guess).accepted
        });
        memory.encode().await;
    }
    tally
}

async fn compare(dataset: Dataset, encoder: &Arc<Once>) {
    let folder = match dataset {
        Dataset::Wiki => "2wikimultihopqa",
        _ => dataset.as_str(),
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("datasets")
        .join(folder);
    let questions = load(dataset, &[file.join("questions.jsonl.gz")]).unwrap();
    let (gold, recorded) = (gold(&questions), recorded(dataset));
    println!(
        "{}: {} gold hops, then {} in other words",
        dataset.title(),
        gold.len(),
        recorded.len()
    );
    for similarity in SIMILARITIES {
        let options = MemoryOptions {
            most: NonZeroUsize::new(MOST).unwrap(),
            similarity,
        };
        let memory = Memory::new(Arc::clone(encoder) as Arc<dyn Encoder>, options);
        let mut known = HashSet::new();
        for (what, hops) in [("gold", &gold), ("other words", &recorded)] {
            let tally = ask_all(&memory, &mut known, hops).await;
            let [own, own_right] = tally.own;
            let [near, right] = tally.neighbours;
            println!(
                "  {similarity:.2} {what:<11} {} asked; same words {own_right} of {own} right; near ones {right} of {near} right",
                tally.asked
            );
        }
    }
}

fn main() {
    if spechop_testkit::bench_arguments().is_none() {
        return;
    }
    let options = EncoderOptions::new(assets::onnxruntime());
    let encoder = Arc::new(Once {
        encoder: OnnxEncoder::open(&assets::default_encoder(), &options).unwrap(),
        vectors: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    for dataset in [Dataset::Wiki, Dataset::Musique] {
        runtime.block_on(compare(dataset, &encoder));
    }
}
