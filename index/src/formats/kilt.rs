//! Passages in lines of id, text and title, with tabs between them, as KILT and DPR have them.

use crate::corpus::{Entry, Reader, Record};
use crate::error::BuildError;
use crate::intake::Reason;
use crate::lines::{Line, Lines};

/// The first line of such a file may say this.
const HEADER: [&str; 3] = ["id", "text", "title"];

/// Reads such a file.
pub(super) struct Kilt {
    lines: Lines,
}

impl Kilt {
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines }
    }
}

impl Reader for Kilt {
    fn next(&mut self) -> Result<Option<Entry>, BuildError> {
        loop {
            let place_of_bad;
            match self.lines.line()? {
                None => return Ok(None),
                Some(Line::Bad(reason, place)) => return Ok(Some(Entry::LeftOut(reason, place))),
                Some(Line::Text { text, ended }) => match fields(text) {
                    Some(found) if found == HEADER => continue,
                    Some([id, text, title]) => {
                        return Ok(Some(Entry::Passage(Record {
                            id,
                            title,
                            text,
                            ..Record::default()
                        })));
                    }
                    None => place_of_bad = ended,
                },
            }
            let place = self.lines.place();
            return Ok(Some(match place_of_bad {
                true => Entry::LeftOut(
                    Reason::Broken,
                    format!("{place}: not three fields with tabs between them"),
                ),
                false => Entry::LeftOut(Reason::Cut, place),
            }));
        }
    }

    fn place(&self) -> String {
        self.lines.place()
    }
}

/// The three fields of a line; `None` if there are not three.
pub(super) fn fields(line: &str) -> Option<[String; 3]> {
    let mut fields = line.split('\t').map(unquoted);
    let three = [fields.next()?, fields.next()?, fields.next()?];
    fields.next().is_none().then_some(three)
}

/// Programs that write such files put quotes around a field with quotes in it, and double those. Others write it as it
/// is: quotes that are not doubled are its own.
fn unquoted(field: &str) -> String {
    let inner = field
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let inner = inner.filter(|inner| !inner.replace("\"\"", "").contains('"'));
    inner.map_or_else(|| field.to_owned(), |inner| inner.replace("\"\"", "\""))
}
