//! The text that a sequence has generated so far, and whether it ends there: by a stop text, or by its length.

use std::borrow::Cow;

use crate::stop::stop_end;
use crate::thoughts::{THOUGHT_TOKENS_MAX, behind_thoughts};
use crate::{End, Generation, Prompt};

/// Bytes generated so far: tokens may end inside a character.
#[derive(Debug)]
pub(super) struct Output {
    bytes: Vec<u8>,
    stop: &'static [&'static str],
    /// Whether it answers a conversation, and does not continue a text.
    is_chat: bool,
    /// Most tokens of the text.
    tokens_max: u32,
    /// Most tokens of thoughts that do not count as text.
    thoughts_max: u32,
    /// Tokens so far.
    tokens: u32,
    /// Those of them until the thoughts end, and the blanks behind them; 0 without thoughts.
    thoughts: u32,
}

impl Output {
    /// Nothing is written yet, and behind the prompt the context has `room` for so many tokens. Only what answers a
    /// conversation is preceded by thoughts.
    pub(super) fn new(generation: &Generation, room: usize) -> Self {
        let is_chat = matches!(generation.prompt, Prompt::Chat(_));
        let beside = room.saturating_sub(generation.tokens_max as usize);
        let thoughts_max = match is_chat {
            true => u32::try_from(beside).unwrap_or(u32::MAX),
            false => 0,
        };
        Self {
            bytes: Vec::new(),
            stop: generation.stop,
            is_chat,
            tokens_max: generation.tokens_max,
            thoughts_max: thoughts_max.min(THOUGHT_TOKENS_MAX),
            tokens: 0,
            thoughts: 0,
        }
    }

    /// Appends the bytes of one token, and says whether the output ends with it. If a stop text is complete, the
    /// output then ends with the one that was complete first. None is looked for in thoughts.
    pub(super) fn push(&mut self, piece: &[u8]) -> Option<End> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(piece);
        self.tokens += 1;
        let text = text_of(&self.bytes, self.is_chat);
        if text.is_none_or(|text| text.is_empty() && self.thoughts > 0) {
            self.thoughts = self.tokens;
        }
        if let Some(text) = text {
            let begin = self.bytes.len() - text.len();
            if let Some(end) = stop_end(text, before.saturating_sub(begin), self.stop) {
                self.bytes.truncate(begin + end);
                return Some(End::Stop);
            }
        }
        (self.left() == 0).then_some(End::Length)
    }

    /// Tokens that may still come. Thoughts use up those of the text only if they are longer than they may be.
    pub(super) fn left(&self) -> u32 {
        let uncounted = self.thoughts.min(self.thoughts_max);
        self.tokens_max.saturating_sub(self.tokens - uncounted)
    }

    /// Why no text has come, if all of its tokens were thoughts.
    pub(super) fn lost_in_thought(&self) -> Option<String> {
        if !self.is_chat || self.thoughts == 0 || self.thoughts < self.tokens {
            return None;
        }
        let tokens = self.thoughts;
        let remedy = match self.thoughts_max < THOUGHT_TOKENS_MAX {
            true => "a larger `context_tokens` leaves it more room",
            false => "it gets no more, so a model that thinks less is needed",
        };
        Some(format!(
            "it thought for {tokens} tokens and wrote nothing; {remedy}"
        ))
    }

    /// The text so far, for whoever only looks at it.
    pub(super) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// The text. A character that was never completed is left out.
    pub(super) fn into_text(mut self) -> String {
        if let Err(error) = std::str::from_utf8(&self.bytes)
            && error.error_len().is_none()
        {
            self.bytes.truncate(error.valid_up_to());
        }
        String::from_utf8(self.bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// What stands behind the thoughts; `None` while it thinks. In a conversation a line break before the first word
/// ends no line, as in what comes from an endpoint. A text that is continued can begin with one.
fn text_of(bytes: &[u8], is_chat: bool) -> Option<&[u8]> {
    let text = behind_thoughts(bytes)?;
    Some(match is_chat {
        true => text.trim_ascii_start(),
        false => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chat;
    use proptest::prelude::*;

    const STOP: &[&str] = &["</a>", "é!", ""];

    fn output(
        is_chat: bool,
        stop: &'static [&'static str],
        tokens_max: u32,
        room: usize,
    ) -> Output {
        let chat = Chat {
            messages: Vec::new(),
            fixed: 0,
        };
        let generation = Generation {
            prompt: match is_chat {
                true => Prompt::Chat(chat),
                false => Prompt::Text("".into()),
            },
            tokens_max,
            stop,
            drafts: Vec::new(),
            sample: 0,
        };
        Output::new(&generation, room)
    }

    /// The text, and whether a stop text has ended it.
    fn feed_to(is_chat: bool, stop: &'static [&'static str], pieces: &[&[u8]]) -> (String, bool) {
        let mut output = output(is_chat, stop, 1000, 1000);
        let end = pieces.iter().find_map(|piece| output.push(piece));
        (output.into_text(), end == Some(End::Stop))
    }

    fn feed(pieces: &[&[u8]]) -> (String, bool) {
        feed_to(false, STOP, pieces)
    }

    #[test]
    fn stops_where_the_first_stop_text_ends() {
        let table: &[(&[&[u8]], &str, bool)] = &[
            (&[b"plain"], "plain", false),
            (&[b"x</a>y"], "x</a>", true),
            (&[b"x<", b"/", b"a", b"> y"], "x</a>", true),
            (&[b"caf\xc3", b"\xa9", b"! and </a>"], "café!", true),
            (&[b"caf\xc3"], "caf", false),
            (&[b"a\xffb"], "a\u{fffd}b", false),
            (&[b"</a> caf\xc3\xa9!"], "</a>", true),
            (&[b"<think>x</a>", b"y"], "<think>x</a>y", false),
            (
                &[b"\n<think>x</a>", b"y</th", b"ink>\n", b"\nz</a>."],
                "\n<think>x</a>y</think>\n\nz</a>",
                true,
            ),
        ];
        for (pieces, text, stopped) in table {
            assert_eq!(feed(pieces), ((*text).to_owned(), *stopped), "{pieces:?}");
        }
    }

    #[test]
    fn a_line_break_before_the_first_word_of_an_answer_ends_no_line() {
        // Whether a conversation is answered, or a text continued.
        let table: &[(bool, &[&[u8]], &str)] = &[
            (true, &[b"\n", b"Paris", b"\n"], "\nParis\n"),
            (true, &[b" \n\nParis\nis"], " \n\nParis\n"),
            (
                true,
                &[b"\n", b"<think>", b"x\n", b"</think>", b"Paris\n"],
                "\n<think>x\n</think>Paris\n",
            ),
            (
                true,
                &[b"<think>x</think>", b"\n", b"\nParis\n"],
                "<think>x</think>\n\nParis\n",
            ),
            (false, &[b"\n", b"Paris", b"\n"], "\n"),
        ];
        for (is_chat, pieces, text) in table {
            let fed = feed_to(*is_chat, &["\n"], pieces);
            assert_eq!(fed, ((*text).to_owned(), true), "{pieces:?}");
        }
    }

    #[test]
    fn thoughts_are_no_part_of_the_length_of_a_text() {
        let plain = ["y"; 20].to_vec();
        let thinks = [&["<think>"][..], &["x"; 100]].concat();
        let answers = [&thinks[..], &["</think>", "\n\n", "Paris</answer>"]].concat();
        let rambles = [&thinks[..], &["</think>", "\n\n"], &["y"; 20]].concat();
        let in_parts = [&["<", "think", ">", "</think>"][..], &["y"; 20]].concat();
        let endless = [&["<think>"][..], &["x"; 3000]].concat();
        let roomy = 10_000;
        // Whether a conversation is answered, the room for that, and what is written of at most 16 tokens: how it
        // ends, and with which token.
        for (is_chat, room, pieces, end, tokens) in [
            (true, roomy, &plain, End::Length, 16),
            (true, roomy, &answers, End::Stop, 104),
            (true, roomy, &rambles, End::Length, 103 + 16),
            (true, roomy, &in_parts, End::Length, 4 + 16),
            (true, roomy, &endless, End::Length, 2048 + 16),
            // The text has less if its thoughts are longer than there is room for them.
            (true, 99 + 16, &rambles, End::Length, 99 + 16),
            (true, 20 + 16, &thinks, End::Length, 20 + 16),
            (true, 16, &thinks, End::Length, 16),
            (true, 0, &thinks, End::Length, 16),
            (false, roomy, &thinks, End::Length, 16),
        ] {
            let mut output = output(is_chat, &["</answer>"], 16, room);
            let mut at = 0;
            let found = pieces.iter().find_map(|piece| {
                // As many may be read at once, and all of them have room.
                assert!(output.left() > 0 && (at + output.left()) as usize <= room.max(16));
                at += 1;
                output.push(piece.as_bytes())
            });
            assert_eq!((found, at), (Some(end), tokens), "{room} {pieces:?}");
        }
    }

    #[test]
    fn thoughts_without_a_text_name_the_remedy() {
        // Whether a conversation is answered, the room for that, and what is written.
        for (is_chat, room, pieces, told) in [
            (true, 20, &["<think>", "hm"][..], Some("context_tokens")),
            (
                true,
                20,
                &["<think>", "</think>", "\n"],
                Some("context_tokens"),
            ),
            (
                true,
                10_000,
                &["<think>", "hm"],
                Some("a model that thinks less"),
            ),
            (true, 20, &["<think>", "</think>", "\n", "Paris"], None),
            (true, 20, &["Paris", "<think>"], None),
            (true, 20, &[], None),
            (false, 20, &["<think>", "hm"], None),
        ] {
            let mut output = output(is_chat, &[], 16, room);
            for piece in pieces {
                assert_eq!(output.push(piece.as_bytes()), None);
            }
            let lost = output.lost_in_thought();
            assert_eq!(lost.is_some(), told.is_some(), "{pieces:?}: {lost:?}");
            let is_told = |lost: String| told.is_some_and(|told| lost.contains(told));
            assert!(lost.is_none_or(is_told), "{pieces:?}");
        }
    }

    proptest! {
        /// How the text is cut into tokens changes nothing.
        #[test]
        fn cuts_do_not_matter(
            text in "[ \n]{0,3}(<think>)?[ab</>é!\n]{0,12}(</think>)?[ab</>é!\n]{0,12}",
            cuts in prop::collection::vec(any::<bool>(), 80),
        ) {
            let bytes = text.as_bytes();
            let mut pieces = vec![Vec::new()];
            for (byte, cut) in bytes.iter().zip(&cuts) {
                if *cut {
                    pieces.push(Vec::new());
                }
                pieces.last_mut().unwrap().push(*byte);
            }
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(feed(&pieces), feed(&[bytes]));
            let answer = |pieces: &[&[u8]]| feed_to(true, &["</a>", "\n"], pieces);
            prop_assert_eq!(answer(&pieces), answer(&[bytes]));
        }
    }
}
