//! Server-sent events: bytes in, data of events out, however the bytes are cut.

/// Longest line or event accepted, in bytes. One token with all its decoration takes under 1 kB.
pub(super) const EVENT_BYTES_MAX: usize = 256 * 1024;

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Garbled {
    #[error("an event of more than {EVENT_BYTES_MAX} bytes")]
    TooLong,
    #[error("an event that is not UTF-8")]
    NotUtf8,
}

/// Collects bytes until they make an event.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Bytes not yet taken; `scanned` of them are known to hold no line end.
    buffer: Vec<u8>,
    scanned: usize,
    /// The `data` lines of the event in hand, each followed by a line feed.
    data: Vec<u8>,
    /// Whether a line has come.
    has_begun: bool,
}

/// Some servers put a byte order mark before the first line. It is no part of the name of its field.
const MARK: &[u8] = b"\xef\xbb\xbf";

impl Events {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The data of the next complete event; `None` where more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<String>, Garbled> {
        let mut taken = 0;
        let event = loop {
            let line = match self.line(taken) {
                Some(end) => {
                    let line = &self.buffer[taken..end];
                    taken = end + 1;
                    self.scanned = taken;
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    match std::mem::replace(&mut self.has_begun, true) {
                        true => line,
                        false => line.strip_prefix(MARK).unwrap_or(line),
                    }
                }
                None => break None,
            };
            if line.is_empty() {
                if !self.data.is_empty() {
                    break Some(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                self.data
                    .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
                self.data.push(b'\n');
            } else if let Some(error) = line.strip_prefix(b"error:")
                && error.trim_ascii_start().starts_with(b"{")
            {
                // A field of no standard: so llama.cpp told of errors until 2025, in the form of others since.
                self.data.extend_from_slice(b"{\"error\":");
                self.data.extend_from_slice(error);
                self.data.extend_from_slice(b"}\n");
            }
            // Comments (pings) and the other fields say nothing to us.
            if self.data.len() > EVENT_BYTES_MAX {
                return Err(Garbled::TooLong);
            }
        };
        self.buffer.drain(..taken);
        self.scanned -= taken;
        match event {
            Some(mut data) => {
                data.pop();
                String::from_utf8(data)
                    .map(Some)
                    .map_err(|_| Garbled::NotUtf8)
            }
            None if self.buffer.len() > EVENT_BYTES_MAX => Err(Garbled::TooLong),
            None => Ok(None),
        }
    }

    /// Where the line that starts at `taken` ends.
    fn line(&mut self, taken: usize) -> Option<usize> {
        let from = self.scanned.max(taken);
        let end = self.buffer[from..].iter().position(|&byte| byte == b'\n');
        self.scanned = end.map_or(self.buffer.len(), |at| from + at);
        end.map(|at| from + at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<String>, Garbled> {
        let (mut events, mut out) = (Events::default(), Vec::new());
        for piece in pieces {
            events.push(piece);
            while let Some(data) = events.next()? {
                out.push(data);
            }
        }
        Ok(out)
    }

    #[test]
    fn reads_events() {
        for (stream, data) in [
            ("data: a\n\ndata: b\n\n", vec!["a", "b"]),
            ("data:a\r\n\r\n", vec!["a"]),
            (": ping\n\nevent: x\nid: 1\ndata: a\n\n", vec!["a"]),
            (
                "\u{feff}data: a\n\ndata: \u{feff}b\n\n",
                vec!["a", "\u{feff}b"],
            ),
            ("data: a\n\u{feff}data: b\n\n", vec!["a"]),
            ("data: a\ndata: b\n\n", vec!["a\nb"]),
            ("data:  a \n\n", vec![" a "]),
            ("data: a\n", vec![]),
            ("data: a", vec![]),
            ("\n\n\n", vec![]),
            ("{\"error\":1}\n\n", vec![]),
            ("error: {\"code\":1}\n\n", vec!["{\"error\": {\"code\":1}}"]),
            ("error: none\n\n", vec![]),
        ] {
            assert_eq!(read([stream.as_bytes()]).unwrap(), data, "{stream:?}");
        }
    }

    #[test]
    fn refuses_what_never_ends() {
        let line = vec![b'x'; 1000];
        assert_eq!(
            read(std::iter::repeat_n(line.as_slice(), 1000)),
            Err(Garbled::TooLong),
            "a line"
        );
        let line = b"data: one more line of the same event\n".as_slice();
        assert_eq!(
            read(std::iter::repeat_n(line, 100_000)),
            Err(Garbled::TooLong),
            "an event"
        );
        assert_eq!(
            read([b"data: \xff\xfe\n\n".as_slice()]),
            Err(Garbled::NotUtf8)
        );
    }

    proptest! {
        /// Arriving in pieces changes nothing, even where a character is cut in two.
        #[test]
        fn pieces_do_not_matter(
            stream in "(data: [aé\u{1F600}]{0,5}|: p|\r?\n|\n\n){0,12}",
            size in 1..9usize,
        ) {
            prop_assert_eq!(read(stream.as_bytes().chunks(size)), read([stream.as_bytes()]));
        }
    }
}
