//! A model for tests: says what it is told to say, and keeps what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use spechop_ports::{Call, PortError};
use spechop_types::Tokens;

use crate::{End, Generated, Generation, TextModel};

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
        self.asked.lock().unwrap().push(generation);
        let next = self.says.lock().unwrap().pop_front();
        let (text, end) = next.ok_or_else(|| PortError::Unavailable {
            what: "script".to_owned(),
            source: None,
        })?;
        Ok(Generated {
            text,
            end,
            certainty: None,
            tokens: Tokens {
                prompt: 10,
                completion: 1,
            },
        })
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
