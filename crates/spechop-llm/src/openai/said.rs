//! What has arrived of an answer.

use spechop_types::Tokens;

use super::request_form::RequestForm;
use super::wire::{self, Chunk, Counted};
use crate::stop::cut_at_stop;
use crate::thoughts::{THOUGHT_TOKENS_MAX, Thoughts, opens, thoughts};
use crate::{End, Generated, Generation};

/// Most bytes of a token on average: a server that goes on for longer ignores the token limit.
const TOKEN_BYTES_MAX: usize = 32;

/// Ends of servers that gave up: what has come is no answer, and another attempt may bring one.
const GAVE_UP: [&str; 5] = [
    "insufficient_system_resource",
    "network_error",
    "abort",
    "aborted",
    "error",
];

/// What has arrived of an answer.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) end: Option<End>,
    /// Events that held text or thoughts.
    pieces: u64,
    /// Whether text has come piece by piece.
    in_pieces: bool,
    /// Whether thoughts were sent.
    pub(super) shows_thoughts: bool,
    /// Whether the server's count has thoughts, which need not be sent.
    counts_thoughts: bool,
    opened: Opened,
    /// Whether a filter has cut it, and no limit.
    is_filtered: bool,
    /// The server's latest count.
    counted: Counted,
}

/// Thoughts in the text that were opened before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Opened {
    /// There are none, as far as is known.
    #[default]
    No,
    /// The text begins with them, and they have not ended.
    Begun,
    /// They have ended.
    Closed,
}

/// What came of a request.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) generated: Generated,
    /// Whether its limit has cut it, and thoughts have used up tokens of the text, or all of them.
    pub(super) lacks_room: bool,
    /// Whether thoughts were sent, and not their count alone.
    pub(super) shows_thoughts: bool,
    /// Whether its template opens the thoughts, as far as the text tells: it has ended some that it had not opened,
    /// or was taken to begin within them and has not.
    pub(super) opens_thoughts: Option<bool>,
    /// Whether a filter has cut it.
    pub(super) is_filtered: bool,
}

impl Said {
    /// Nothing yet of an answer in this form.
    pub(super) fn new(form: RequestForm) -> Self {
        Self {
            opened: match form.opens_thoughts() {
                true => Opened::Begun,
                false => Opened::No,
            },
            ..Self::default()
        }
    }

    /// Takes in an event and says whether the rest can be left unread.
    pub(super) fn add(&mut self, chunk: &Chunk, generation: &Generation) -> bool {
        self.counted = chunk.counted().or(self.counted);
        self.counts_thoughts |= chunk.counts_thoughts();
        if chunk.thinks() {
            self.pieces += 1;
            self.shows_thoughts = true;
            // Whoever tells them apart leaves none in the text.
            self.opened = Opened::No;
        }
        let piece = chunk.text();
        // Behind the pieces MiniMax says all of it once more.
        let is_said = self.in_pieces && chunk.is_whole();
        if !piece.is_empty() && !is_said {
            self.in_pieces = !chunk.is_whole();
            self.pieces += 1;
            if self.grow(&piece, generation) {
                return true;
            }
        }
        match chunk.finish_reason() {
            // It goes on: some servers say so with an empty text.
            None | Some("") => {}
            Some(reason) if GAVE_UP.contains(&reason) => {}
            // The last two are Mistral's and Zhipu's words for the end of the context.
            Some("length" | "max_tokens" | "model_length" | "model_context_window_exceeded") => {
                self.end = Some(End::Length);
            }
            // The second one is Zhipu's.
            Some("content_filter" | "sensitive") => {
                (self.end, self.is_filtered) = (Some(End::Length), true);
            }
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
        match self.thoughts() {
            Thoughts::None => {}
            Thoughts::Unfinished => {
                self.shows_thoughts = true;
                tokens_max = tokens_max.saturating_add(THOUGHT_TOKENS_MAX);
            }
            Thoughts::Until(end) => {
                self.shows_thoughts = true;
                self.opened = match opens(&self.text) {
                    true => Opened::No,
                    false => Opened::Closed,
                };
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

    fn thoughts(&self) -> Thoughts {
        thoughts(&self.text, self.opened == Opened::Begun)
    }

    fn is_thinking(&self) -> bool {
        self.thoughts() == Thoughts::Unfinished
    }

    /// Whether the server has sent text or thoughts.
    pub(super) fn has_begun(&self) -> bool {
        self.pieces > 0
    }

    /// What came of it.
    pub(super) fn heard(mut self, generation: &Generation) -> Heard {
        let is_cut = self.end == Some(End::Length) && !self.is_filtered;
        let opens_thoughts = match self.opened {
            Opened::Closed => Some(true),
            Opened::Begun if is_cut => Some(false),
            Opened::Begun if self.end == Some(End::Turn) => {
                // It has ended its turn and no thoughts: it had none, this time.
                self.opened = Opened::No;
                if !self.is_thinking() && cut_at_stop(&mut self.text, 0, generation.stop) {
                    self.end = Some(End::Stop);
                }
                Some(false)
            }
            Opened::Begun | Opened::No => None,
        };
        let is_silent = self.text.trim().is_empty() || self.is_thinking();
        Heard {
            // Not every endpoint shows thoughts: whoever writes has written something within any limit.
            lacks_room: is_cut && (self.shows_thoughts || self.counts_thoughts || is_silent),
            shows_thoughts: self.shows_thoughts,
            opens_thoughts,
            is_filtered: self.is_filtered,
            generated: self.generated(generation),
        }
    }

    /// Takes in the count of an event whose text is not wanted any more, and says whether it had one of
    /// what was written.
    pub(super) fn count(&mut self, chunk: &Chunk) -> bool {
        let counted = chunk.counted();
        self.counted = counted.or(self.counted);
        counted.completion.is_some()
    }

    /// What it has certainly cost so far: nothing before the first piece of text or thought, which proves that
    /// the prompt was read.
    pub(super) fn known(&self, generation: &Generation) -> Tokens {
        if self.pieces == 0 {
            return Tokens {
                prompt: self.counted.prompt.unwrap_or_default(),
                completion: self.counted.completion.unwrap_or_default(),
            };
        }
        self.tokens(generation)
    }

    /// What it has cost so far: the server's count, or an estimate of what it has not counted.
    pub(super) fn tokens(&self, generation: &Generation) -> Tokens {
        let Counted { prompt, completion } = self.counted;
        Tokens {
            prompt: prompt.unwrap_or_else(|| wire::prompt_tokens_guess(generation)),
            completion: completion.unwrap_or(self.pieces),
        }
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
