//! What has arrived of an answer.

use spechop_types::Tokens;

use super::wire::{self, Chunk};
use crate::stop::cut_at_stop;
use crate::{End, Generated, Generation};

/// Most bytes of a token on average: a server that goes on for longer ignores the token limit.
const TOKEN_BYTES_MAX: usize = 32;

/// What has arrived of an answer.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) end: Option<End>,
    /// Events that held text.
    pieces: u64,
    /// The server's latest count.
    tokens: Option<Tokens>,
}

impl Said {
    /// Takes in an event and says whether the rest can be left unread.
    pub(super) fn add(&mut self, chunk: &Chunk, generation: &Generation) -> bool {
        self.tokens = chunk.tokens().or(self.tokens);
        let piece = chunk.text();
        if !piece.is_empty() {
            self.pieces += 1;
            let seen = self.text.len();
            self.text.push_str(piece);
            if cut_at_stop(&mut self.text, seen, generation.stop) {
                self.end = Some(End::Stop);
                return true;
            }
            let bytes_max = (generation.tokens_max as usize).saturating_mul(TOKEN_BYTES_MAX);
            if self.text.len() > bytes_max {
                let end = self.text.floor_char_boundary(bytes_max);
                self.text.truncate(end);
                self.end = Some(End::Length);
                return true;
            }
        }
        match chunk.finish_reason() {
            None => {}
            Some("length") => self.end = Some(End::Length),
            // A filter's cut and the like leave a text that must be judged by what it says.
            Some(_) => self.end = Some(End::Turn),
        }
        false
    }

    /// What it has certainly cost so far: nothing before the first piece of text, which proves that
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

    pub(super) fn generated(self, generation: &Generation) -> Generated {
        Generated {
            end: self.end.unwrap_or(End::Turn),
            certainty: None,
            tokens: self.tokens(generation),
            text: self.text,
        }
    }
}
