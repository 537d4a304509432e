//! Passages as JSON objects: with ids of their own, or without.

use serde::Deserialize;

use super::objects::Objects;
use crate::corpus::{Entry, Reader, Record};
use crate::error::BuildError;

/// `{"id","title","text"}`, perhaps with a `url` and an `in_degree`.
pub(super) struct WithIds {
    objects: Objects,
}

impl WithIds {
    pub(super) fn new(objects: Objects) -> Self {
        Self { objects }
    }
}

impl Reader for WithIds {
    fn next(&mut self) -> Result<Option<Entry>, BuildError> {
        Ok(self.objects.next::<Record>()?.map(|record| match record {
            Ok(record) => Entry::Passage(record),
            Err((reason, place)) => Entry::LeftOut(reason, place),
        }))
    }

    fn place(&self) -> String {
        self.objects.place()
    }

    fn sha256(&self) -> Option<String> {
        self.objects.sha256()
    }
}

/// `{"title","text"}`, as in HippoRAG's corpora.
pub(super) struct WithoutIds {
    objects: Objects,
}

#[derive(Deserialize)]
struct Passage {
    title: String,
    text: String,
}

impl WithoutIds {
    pub(super) fn new(objects: Objects) -> Self {
        Self { objects }
    }
}

impl Reader for WithoutIds {
    fn next(&mut self) -> Result<Option<Entry>, BuildError> {
        Ok(self
            .objects
            .next::<Passage>()?
            .map(|passage| match passage {
                Ok(Passage { title, text }) => {
                    Entry::Passage(Record::named_after_itself(title, text))
                }
                Err((reason, place)) => Entry::LeftOut(reason, place),
            }))
    }

    fn place(&self) -> String {
        self.objects.place()
    }
}
