//! Tools that wait and know everything: a server over them shows what the engine itself costs.
//!
//! ```text
//! question ─▶ hop 1 ─▶ a name ─▶ hop 2 of that name ─▶ … ─▶ the last name is the answer
//! ```
//!
//! They answer any question. All that they say is drawn by the words that they are asked, so the same
//! question has the same answer on every server, at every k.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use spechop_ports::{
    Call, Guess, GuessRequest, Guessed, PlanRequest, Planned, Planner, PortError, ReadRequest,
    Reader, Reading, Retriever, Speculator,
};
use spechop_types::{Activity, Passage, Step, SubQuestion, Tokens};

use crate::{Injected, Parts};

/// How scripted tools behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Script {
    /// Look-ups of a question.
    pub hops: u32,
    /// The share of guesses that are right, from 0 to 1.
    pub hit: f64,
    /// Time of writing a sub-question or the answer.
    pub segment: Duration,
    /// Time of a look-up; `None` for none.
    pub look_up: Option<Injected>,
    /// Time of a guess.
    pub guess: Duration,
    /// Which guesses are right.
    pub seed: u64,
}

/// The ports of a script. The speculators have the names given, and all guess the same.
pub fn scripted(script: Script, speculators: &[&str]) -> Parts {
    let port = Arc::new(Scripted(script));
    Parts {
        planner: Arc::clone(&port) as Arc<dyn Planner>,
        retriever: Arc::clone(&port) as Arc<dyn Retriever>,
        reader: Arc::clone(&port) as Arc<dyn Reader>,
        speculators: speculators
            .iter()
            .map(|name| ((*name).to_owned(), Arc::clone(&port) as Arc<dyn Speculator>))
            .collect(),
    }
}

impl Script {
    /// The answer to a question, if every hop was the right one.
    pub fn answer(&self, question: &str) -> String {
        let mut name = None;
        for hop in 0..self.hops {
            name = Some(self.right(&sub_question(hop, question, name.as_deref())));
        }
        name.unwrap_or_else(|| "nothing".to_owned())
    }

    /// What a look-up finds.
    fn right(&self, sub_question: &str) -> String {
        name_of(&digest(&["answer", sub_question]))
    }

    /// What a guess says.
    fn guessed(&self, sub_question: &str) -> String {
        let drawn = digest(&["guess", &self.seed.to_string(), sub_question]);
        let share = f64::from(u16::from_be_bytes([drawn[0], drawn[1]])) / 65_536.0;
        if share < self.hit {
            self.right(sub_question)
        } else {
            name_of(&drawn)
        }
    }
}

fn sub_question(hop: u32, question: &str, before: Option<&str>) -> String {
    match before {
        None => format!("Who is the first of: {question}"),
        Some(name) => format!(
            "Who comes after {name} as number {} of: {question}",
            hop + 1
        ),
    }
}

fn digest(texts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    hash.finalize().into()
}

/// A name of two words that no rule of the verifier takes for another one: half of a 64-bit hash in each.
fn name_of(digest: &[u8; 32]) -> String {
    const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
    const VOWELS: &[u8; 4] = b"aeio";
    let word = |bytes: &[u8]| -> String {
        let mut word = String::with_capacity(2 * bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            let consonant = char::from(CONSONANTS[usize::from(byte >> 4)]);
            word.push(if at == 0 {
                consonant.to_ascii_uppercase()
            } else {
                consonant
            });
            word.push(char::from(VOWELS[usize::from(byte & 3)]));
        }
        word
    };
    // The first bytes decide whether a guess is right.
    format!("{} {}", word(&digest[2..7]), word(&digest[7..12]))
}

struct Scripted(Script);

async fn wait(time: Duration) {
    // A sleep of no time still waits for the next tick of the timer.
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

#[async_trait]
impl Planner for Scripted {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let _doing = call.doing(Activity::Generate);
        wait(self.0.segment).await;
        let known = request.hops.len();
        let last = request.hops.last().map(|hop| &*hop.answer);
        let step = match u32::try_from(known) {
            Ok(hop) if hop < self.0.hops && !request.must_answer => {
                let text = sub_question(hop, request.question.as_str(), last);
                Step::Ask(SubQuestion::new(&text))
            }
            _ => Step::Answer(last.unwrap_or("nothing").into()),
        };
        Ok(Planned {
            step,
            certainty: None,
            tokens: Tokens::default(),
        })
    }
}

#[async_trait]
impl Retriever for Scripted {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        if let Some(latency) = self.0.look_up {
            let _doing = call.doing(Activity::Scan);
            let time = Duration::try_from_secs_f64(latency.of(query) / 1e3);
            wait(time.unwrap_or_default()).await;
        }
        let answer: Arc<str> = self.0.right(query).into();
        let passage = Passage {
            id: Arc::clone(&answer),
            title: Arc::clone(&answer),
            text: Arc::clone(&answer),
            url: None,
            score: 1.0,
        };
        Ok(vec![passage].into_iter().take(limit).collect())
    }
}

#[async_trait]
impl Reader for Scripted {
    /// The passage is the answer.
    async fn read(&self, _: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let best = request.passages.first().cloned();
        Ok(Reading {
            answer: best.map(|passage| passage.text),
            confidence: None,
            tokens: Tokens::default(),
        })
    }
}

#[async_trait]
impl Speculator for Scripted {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let _doing = call.doing(Activity::Generate);
        wait(self.0.guess).await;
        Ok(Guessed {
            guesses: vec![Guess::from(self.0.guessed(request.sub_question.as_str()))],
            tokens: Tokens::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use spechop_ports::contract;

    use super::*;

    fn script(hit: f64) -> Script {
        Script {
            hops: 3,
            hit,
            segment: Duration::ZERO,
            look_up: None,
            guess: Duration::ZERO,
            seed: 1,
        }
    }

    #[tokio::test]
    async fn keeps_the_contracts() {
        let port = Scripted(script(0.5));
        contract::planner(&port).await;
        contract::retriever(&port).await;
        contract::reader(&port).await;
        contract::speculator(&port).await;
    }

    #[test]
    fn as_many_guesses_are_right_as_are_to_be() {
        for (hit, least, most) in [(0.0, 0, 0), (0.6, 560, 640), (1.0, 1000, 1000)] {
            let script = script(hit);
            let right = |n: &u32| {
                let asked = format!("question {n}");
                script.guessed(&asked) == script.right(&asked)
            };
            let count = (0..1000).filter(right).count();
            assert!((least..=most).contains(&count), "{hit}: {count}");
        }
    }

    #[test]
    fn no_two_questions_have_the_same_answer() {
        let script = script(0.5);
        let answers: std::collections::BTreeSet<_> = (0..1000)
            .map(|n| script.answer(&format!("question {n}")))
            .collect();
        assert_eq!(answers.len(), 1000);
        assert_eq!(script.answer("x"), script.answer("x"));
    }
}
