//! The text that a sequence has generated so far, and whether a stop text is in it.

use std::borrow::Cow;

use crate::stop::stop_end;
use crate::thoughts::behind_thoughts;

/// Bytes generated so far: tokens may end inside a character.
#[derive(Debug)]
pub(super) struct Output {
    bytes: Vec<u8>,
    stop: &'static [&'static str],
}

impl Output {
    pub(super) fn new(stop: &'static [&'static str]) -> Self {
        Self {
            bytes: Vec::new(),
            stop,
        }
    }

    /// Appends the bytes of one token. True once a stop text is complete: the output then ends
    /// with the stop text that was complete first. None is looked for in thoughts.
    pub(super) fn push(&mut self, piece: &[u8]) -> bool {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(piece);
        let Some(text) = behind_thoughts(&self.bytes) else {
            return false;
        };
        let begin = self.bytes.len() - text.len();
        let end = stop_end(text, before.saturating_sub(begin), self.stop);
        if let Some(end) = end {
            self.bytes.truncate(begin + end);
        }
        end.is_some()
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STOP: &[&str] = &["</a>", "é!", ""];

    fn feed(pieces: &[&[u8]]) -> (String, bool) {
        let mut output = Output::new(STOP);
        let stopped = pieces.iter().any(|piece| output.push(piece));
        (output.into_text(), stopped)
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

    proptest! {
        /// How the text is cut into tokens changes nothing.
        #[test]
        fn cuts_do_not_matter(text in "(<think>)?[ab</>é!]{0,12}(</think>)?[ab</>é!]{0,12}", cuts in prop::collection::vec(any::<bool>(), 64)) {
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
        }
    }
}
