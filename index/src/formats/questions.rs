//! Question files of data sets: the paragraphs that their questions come with, pooled.
//!
//! The same paragraph comes with many questions. It becomes one passage, whose id is made of its title
//! and text: so the ids of a paragraph are the same in all files.

use std::collections::VecDeque;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::objects::Objects;
use crate::corpus::{Entry, Reader, Record};
use crate::error::BuildError;
use crate::intake::Reason;

/// A question, as far as it is read.
pub(super) trait Question: DeserializeOwned + Send {
    /// Titles and texts of its paragraphs.
    fn paragraphs(self) -> Vec<(String, String)>;
}

/// 2WikiMultihopQA and HotpotQA: `"context": [["Title", ["A sentence.", …]], …]`.
#[derive(Deserialize)]
pub(super) struct Wiki {
    #[serde(default)]
    context: Vec<(String, Vec<String>)>,
}

impl Question for Wiki {
    fn paragraphs(self) -> Vec<(String, String)> {
        let joined = |sentences: Vec<String>| {
            let mut text = String::new();
            for sentence in sentences {
                // Some of these data sets begin their sentences with the space between them.
                let apart = text.ends_with(char::is_whitespace)
                    || sentence.starts_with(char::is_whitespace);
                if !text.is_empty() && !apart {
                    text.push(' ');
                }
                text.push_str(&sentence);
            }
            text.trim().to_owned()
        };
        let context = self.context.into_iter();
        context.map(|(title, text)| (title, joined(text))).collect()
    }
}

/// `MuSiQue`: `"paragraphs": [{"title", "paragraph_text"}, …]`.
#[derive(Deserialize)]
pub(super) struct Musique {
    #[serde(default)]
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    title: String,
    paragraph_text: String,
}

impl Question for Musique {
    fn paragraphs(self) -> Vec<(String, String)> {
        let paragraphs = self.paragraphs.into_iter();
        paragraphs
            .map(|one| (one.title, one.paragraph_text))
            .collect()
    }
}

/// Reads questions of one kind.
pub(super) struct Questions<Q> {
    objects: Objects,
    /// Of the question that was read last.
    paragraphs: VecDeque<(String, String)>,
    kind: PhantomData<fn() -> Q>,
}

impl<Q> Questions<Q> {
    pub(super) fn new(objects: Objects) -> Self {
        Self {
            objects,
            paragraphs: VecDeque::new(),
            kind: PhantomData,
        }
    }
}

impl<Q: Question> Reader for Questions<Q> {
    fn next(&mut self) -> Result<Option<Entry>, BuildError> {
        if self.paragraphs.is_empty() {
            match self.objects.next::<Q>()? {
                None => return Ok(None),
                Some(Err((reason, place))) => return Ok(Some(Entry::LeftOut(reason, place))),
                Some(Ok(question)) => self.paragraphs = question.paragraphs().into(),
            }
        }
        Ok(Some(match self.paragraphs.pop_front() {
            Some((title, text)) => Entry::Passage(Record::named_after_itself(title, text)),
            None => Entry::LeftOut(Reason::NoText, self.place()),
        }))
    }

    fn place(&self) -> String {
        self.objects.place()
    }
}
