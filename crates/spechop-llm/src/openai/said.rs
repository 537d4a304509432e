//! What has arrived of an answer.

use spechop_types::Tokens;

use super::dialect::THOUGHT_TOKENS_MAX;
use super::wire::{self, Chunk};
use crate::stop::cut_at_stop;
use crate::thoughts::{Thoughts, thoughts};
use crate::{End, Generated, Generation};

/// Most bytes of a token on average: a server that goes on for longer ignores the token limit.
const TOKEN_BYTES_MAX: usize = 32;

/// What has arrived of an answer.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) end: Option<End>,
    /// Events that held text or thoughts.
    pieces: u64,
    /// Whether it has thought, where that can be seen.
    has_thought: bool,
    /// The server's latest count.
    tokens: Option<Tokens>,
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Heard {
    Text(Generated),
    /// It has thought until a limit, and said nothing.
    Thoughts,
}

impl Said {
    /// Takes in an event and says whether the rest can be left unread.
    pub(super) fn add(&mut self, chunk: &Chunk, generation: &Generation) -> bool {
        self.tokens = chunk.tokens().or(self.tokens);
        if chunk.thinks() {
            self.pieces += 1;
            self.has_thought = true;
        }
        let piece = chunk.text();
        if !piece.is_empty() {
            self.pieces += 1;
            if self.grow(&piece, generation) {
                return true;
            }
        }
        match chunk.finish_reason() {
            // It goes on: some servers say so with an empty text. Or the server gave up: what has come is no
            // answer, and another attempt may bring one.
            None | Some("" | "insufficient_system_resource" | "abort" | "aborted" | "error") => {}
            // Cut, by a limit or by a filter.
            Some("length" | "max_tokens" | "content_filter") => self.end = Some(End::Length),
            Some(_) => self.end = Some(End::Turn),
        }
        false
    }

    /// Takes in a piece of text and says whether the rest can be left unread.
    fn grow(&mut self, piece: &str, generation: &Generation) -> bool {
        // A line break before the first word ends no line.
        let mut seen = self.text.len();
        self.text.push_str(match self.text.is_empty() {
            true => piece.trim_start(),
            false => piece,
        });
        let mut tokens_max = generation.tokens_max;
        // Nothing is looked for in thoughts.
        match thoughts(&self.text) {
            Thoughts::None => {}
            Thoughts::Unfinished => {
                self.has_thought = true;
                tokens_max = tokens_max.saturating_add(THOUGHT_TOKENS_MAX);
            }
            Thoughts::Until(end) => {
                let text = self.text[end..].trim_start().to_owned();
                (self.text, seen) = (text, 0);
            }
        }
        if !self.is_thinking() && cut_at_stop(&mut self.text, seen, generation.stop) {
            self.end = Some(End::Stop);
            return true;
        }
        let bytes_max = (tokens_max as usize).saturating_mul(TOKEN_BYTES_MAX);
        if self.text.len() > bytes_max {
            let end = self.text.floor_char_boundary(bytes_max);
            self.text.truncate(end);
            self.end = Some(End::Length);
            return true;
        }
        false
    }

    fn is_thinking(&self) -> bool {
        thoughts(&self.text) == Thoughts::Unfinished
    }

    /// What came of it.
    pub(super) fn heard(self, generation: &Generation) -> Heard {
        let is_silent = self.text.trim().is_empty() || self.is_thinking();
        match self.has_thought && is_silent && self.end == Some(End::Length) {
            true => Heard::Thoughts,
            false => Heard::Text(self.generated(generation)),
        }
    }

    /// Takes in the count of an event whose text is not wanted any more, and says whether it had one.
    pub(super) fn count(&mut self, chunk: &Chunk) -> bool {
        let counted = chunk.tokens();
        self.tokens = counted.or(self.tokens);
        counted.is_some()
    }

    /// What it has certainly cost so far: nothing before the first piece of text or thought, which proves that
    /// the prompt was read.
    pub(super) fn known(&self, generation: &Generation) -> Tokens {
        if self.pieces == 0 {
            return self.tokens.unwrap_or_default();
        }
        self.tokens(generation)
    }

    /// What it has cost so far: the server's count, or an estimate.
    pub(super) fn tokens(&self, generation: &Generation) -> Tokens {
        self.tokens.unwrap_or_else(|| Tokens {
            prompt: wire::prompt_tokens_guess(generation),
            completion: self.pieces,
        })
    }

    fn generated(self, generation: &Generation) -> Generated {
        let tokens = self.tokens(generation);
        let is_thinking = self.is_thinking();
        Generated {
            end: self.end.unwrap_or(End::Turn),
            certainty: None,
            tokens,
            text: match is_thinking {
                true => String::new(),
                false => self.text,
            },
        }
    }
}
