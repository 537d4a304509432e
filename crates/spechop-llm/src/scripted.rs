//! Models for tests: they say what they are told to say, and keep what they were asked.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use spechop_ports::{Call, KnownHop, PlanRequest, PortError};
use spechop_types::{Question, SubQuestion, Tokens};

use crate::{End, Generated, Generation, Prompt, TextModel};

/// What each text costs.
const TOKENS: Tokens = Tokens {
    prompt: 10,
    completion: 1,
};

pub(crate) struct Scripted {
    says: Mutex<VecDeque<(String, End)>>,
    pub(crate) asked: Mutex<Vec<Generation>>,
}

#[async_trait]
impl TextModel for Scripted {
    fn name(&self) -> &str {
        "script"
    }

    async fn generate(&self, _: &Call, generation: Generation) -> Result<Generated, PortError> {
        self.asked.lock().push(generation);
        let next = self.says.lock().pop_front();
        let (text, end) = next.ok_or_else(|| PortError::Unavailable {
            what: "script".to_owned(),
            source: None,
        })?;
        Ok(Generated {
            text,
            end,
            certainty: None,
            tokens: TOKENS,
        })
    }
}

/// A model with room for a prompt of so many bytes, which always says the same.
pub(crate) struct Narrow {
    room: usize,
    says: &'static str,
    pub(crate) asked: Mutex<Vec<Generation>>,
}

impl Narrow {
    pub(crate) fn new(room: usize, says: &'static str) -> Arc<Self> {
        Arc::new(Self {
            room,
            says,
            asked: Mutex::default(),
        })
    }
}

/// The bytes of all that a prompt says.
pub(crate) fn prompt_bytes(prompt: &Prompt) -> usize {
    prompt.texts().map(str::len).sum()
}

#[async_trait]
impl TextModel for Narrow {
    fn name(&self) -> &str {
        "narrow"
    }

    async fn generate(&self, _: &Call, generation: Generation) -> Result<Generated, PortError> {
        let bytes = prompt_bytes(&generation.prompt);
        self.asked.lock().push(generation);
        if bytes > self.room {
            let detail = format!("{bytes} do not fit into {}", self.room);
            return Err(PortError::too_long("narrow", detail));
        }
        Ok(Generated {
            text: self.says.to_owned(),
            end: End::Stop,
            certainty: None,
            tokens: TOKENS,
        })
    }
}

/// What comes after these hops?
pub(crate) fn plan_request(hops: &[(&str, &str)], must_answer: bool) -> PlanRequest {
    let hop = |(asked, answer): &(&str, &str)| KnownHop {
        sub_question: SubQuestion::new(asked),
        answer: (*answer).into(),
    };
    PlanRequest {
        question: Question::new("Who is the mother of the director of film Blue Kite?").unwrap(),
        hops: hops.iter().map(hop).collect(),
        must_answer,
        drafts: Vec::new(),
    }
}

/// Says these, one a call, and is unavailable from then on.
pub(crate) fn scripted(says: &[&str]) -> Arc<Scripted> {
    scripted_ends(says.iter().map(|text| (*text, End::Turn)))
}

/// The same, with the reasons why they end.
pub(crate) fn scripted_ends<T: ToString>(
    says: impl IntoIterator<Item = (T, End)>,
) -> Arc<Scripted> {
    let says = says.into_iter().map(|(text, end)| (text.to_string(), end));
    Arc::new(Scripted {
        says: Mutex::new(says.collect()),
        asked: Mutex::default(),
    })
}
